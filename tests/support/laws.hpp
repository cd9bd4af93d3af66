#pragma once
/// @file
/// The guarantees of every codec, as functions of the codec: `laws::size<C>()` and so on.
///
/// All of them test a new codec as soon as codec/registry.hpp lists it. The codec also needs a
/// `laws::stated<C>` below: the numbers of its documentation.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/registry.hpp>
#include <hcomp/core/compensated.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/op/block_work.hpp>
#include <hcomp/op/encode.hpp>
#include <hcomp/op/encoded_layout.hpp>
#include <span>
#include <string>
#include <support/data.hpp>
#include <support/value_types.hpp>
#include <support/worker_group.hpp>
#include <type_traits>
#include <vector>

namespace laws {

using hcomp::block_fault;
using hcomp::block_header;
using hcomp::block_header_bytes;
using hcomp::block_origin;
using hcomp::reduce_op;

// ---- Documented numbers of the codecs

/// The documentation of codec C in numbers:
///
///   value(codec, x)   decoded x, without rounding errors
///   rounding(y)       largest error of encoding or merging to y
///   drawn             merging draws at random; the mean is that of the exact sum
///   zero_is_neutral   adding an encoded 0 changes no value
///   overflows(x)      a finite x becomes infinite
///   rotated           values are rotated before they are rounded; see stated_rotation
template <class C> struct stated;

template <class Wire, class T> struct stated<hcomp::float_cast<Wire, T>> {
  static constexpr bool drawn = false, zero_is_neutral = true, rotated = false;
  static double value(auto const&, double x) { return x; }
  static double rounding(double y) {
    // Values of type double are rounded to float, and then to 16 bits: twice.
    bool const twice = sizeof(T) == 8 && sizeof(Wire) == 2;
    return data::half_unit<Wire>(y) * (twice ? 1 + 0x1p-12 : 1);
  }
  static bool overflows(double x) {
    return std::fabs(x) >
           data::float_limits<Wire>::max() + rounding(data::float_limits<Wire>::max());
  }
};

struct stated_sign {
  static constexpr bool zero_is_neutral = false, rotated = false;
  static double value(auto const& codec, double x) {
    return x >= 0 ? static_cast<double>(codec.magnitude) : -static_cast<double>(codec.magnitude);
  }
  static double rounding(double) { return 0; }
  static bool overflows(double) { return false; }
};
template <class T> struct stated<hcomp::sign<T>> : stated_sign {
  static constexpr bool drawn = true;
};
template <class T> struct stated<hcomp::sign_count<T>> : stated_sign {
  static constexpr bool drawn = false;
};

/// Codecs that rotate values before they round them. The error of one value combines many, so it is
/// nearly normal, with a standard deviation for values of root mean square up to `unit`. Merged
/// blocks differ from added decoded blocks only by the rounding of floats.
struct stated_rotation {
  static constexpr bool drawn = false, zero_is_neutral = false, rotated = true;
  static constexpr double unit = 8;
  static double value(auto const&, double x) { return x; }
  static double rounding(double y) { return 1e-4 * (unit + std::fabs(y)); }
  static bool overflows(double) { return false; }
  static double deviation(auto const& codec) {
    return unit * std::sqrt(codec.table().rounding_error + codec.table().truncation_error);
  }
};
template <class T> struct stated<hcomp::thc<T>> : stated_rotation {};
template <class T> struct stated<hcomp::uniform_thc<T>> : stated_rotation {};

template <class T> struct stated<hcomp::reproducible<T>> {
  static constexpr bool drawn = false, zero_is_neutral = true, rotated = false;
  static double value(auto const&, double x) { return x + 0.0; }  // removes -0
  static double rounding(double y) {
    // Of the sum, of its two decoded parts, up to 3 * 8, and of the bits that the larger part
    // drops.
    return 4 * data::half_unit<hcomp::accumulator_t<T>>(std::max(std::fabs(y), 24.0));
  }
  static bool overflows(double) { return false; }
};

// ---- Tools

/// Calls f.template operator()<C>() for every codec of every value type.
template <class F> void for_each_codec(F const& f) {
  hcomp::builtin_codecs<float>::for_each(f);
  hcomp::testing::for_each_other_type([&]<class T>(T) { hcomp::builtin_codecs<T>::for_each(f); });
}

template <class T> char const* type_name() {
  if (std::is_same_v<T, float>) return "float";
  if (std::is_same_v<T, double>) return "double";
  return std::is_same_v<T, hcomp::float16> ? "float16" : "bfloat16";
}
/// For error texts: "sign<float>".
template <class C> std::string name_of() {
  return std::string(C::name) + "<" + type_name<typename C::value_type>() + ">";
}

/// A codec with room for a few ranks, and not for more than it must have.
template <class C> C with_headroom(std::uint32_t total_weight = 16) {
  return hcomp::fit(C{}, total_weight);
}

/// Interesting sizes of one block.
template <class C> std::vector<int> block_sizes() {
  std::vector<int> sizes{0, 1, 2, 63, 64, 65, 127, 128, 129, 200, 1000};
  for (int const n : {C::block_values - 1, C::block_values}) sizes.push_back(n);
  return sizes;
}

using encoded_block = std::vector<std::byte>;

/// `origin`, with agreed statistics for codecs that need them: values have a root mean square of at
/// most 8.
template <class C> block_origin agreed(block_origin origin) {
  if constexpr (hcomp::Calibrated<C>) {
    static std::vector<std::uint32_t> const words(C{}.statistics_in(C::block_values),
                                                  std::bit_cast<std::uint32_t>(8.0f));
    origin.statistics = words.data();
  }
  return origin;
}

/// Memory of exactly `bytes` bytes at an address with a given remainder, between guards.
class guarded {
 public:
  explicit guarded(std::size_t bytes, std::size_t shift = 0)
      : memory_(bytes + shift + 64 + 32, mark), bytes_(bytes) {
    auto const start = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = (64 - start % 64) % 64 + shift;
  }
  std::byte* data() { return memory_.data() + begin_; }
  encoded_block bytes() { return encoded_block(data(), data() + bytes_); }
  bool untouched_outside() const {
    auto const is_mark = [](std::byte byte) { return byte == mark; };
    auto const first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), first, is_mark) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), is_mark);
  }

 private:
  static constexpr std::byte mark{0xa5};
  encoded_block memory_;
  std::size_t bytes_, begin_ = 0;
};

template <class C, class Group = hcomp::serial_group>
encoded_block encode(C const& codec, std::vector<typename C::value_type> const& x,
                     block_origin origin, Group group = {}) {
  int const n = static_cast<int>(x.size());
  encoded_block block(codec.block_bytes(n), std::byte{0xa5});
  typename C::value_type const* const values = x.data();
  codec.encode_block(group, values, n, block.data(), agreed<C>(origin));
  return block;
}
template <class C, class Group = hcomp::serial_group>
encoded_block merged(C const& codec, encoded_block acc, encoded_block const& in, Group group = {}) {
  codec.merge_block(group, acc.data(), in.data());
  return acc;
}
/// Merges with checksums, as encoded vectors do.
template <class C>
encoded_block merged_by_op(C const& codec, encoded_block acc, encoded_block const& in) {
  hcomp::merge_blocks<C>{codec, acc.data(), in.data()}(hcomp::simd_group{}, 0);
  return acc;
}
template <class Out = double, class C, class Group = hcomp::serial_group>
std::vector<Out> decoded(C const& codec, encoded_block const& block, int n,
                         reduce_op result = reduce_op::sum, Group group = {}) {
  std::vector<Out> x(static_cast<std::size_t>(n));
  codec.decode_block(group, block.data(), n, x.data(), result);
  return x;
}
inline block_header header_of(encoded_block const& block) {
  return hcomp::load<block_header>(block.data());
}
template <class T> bool same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Blocks of ranks 3, 5, 7, ... (arbitrary numbers) with weights 1, 2, 3, 1, 2, ...
template <class C>
std::vector<encoded_block> blocks_of(C const& codec, int ranks, int n, block_origin at) {
  std::vector<encoded_block> blocks;
  for (int r = 0; r < ranks; ++r) {
    at.rank = static_cast<std::uint32_t>(3 + 2 * r);
    at.weight = static_cast<std::uint32_t>(1 + r % 3);
    blocks.push_back(encode(codec,
                            data::uniform<typename C::value_type>(static_cast<std::size_t>(n), -8,
                                                                  8, {.seed = 100u + at.rank}),
                            at));
  }
  return blocks;
}

/// Calls f(block, tree as text) with the result of every tree of merges of `blocks`: (2k-3)!! trees
/// for k blocks.
template <class C>
void for_each_tree(C const& codec, std::vector<encoded_block> const& blocks,
                   std::function<void(encoded_block const&, std::string const&)> const& f) {
  struct part {
    encoded_block block;
    std::string text;
  };
  auto const merge_all = [&](auto const& self, std::vector<unsigned> const& members,
                             std::function<void(part const&)> const& use) -> void {
    if (members.size() == 1) {
      use({blocks[members[0]], std::to_string(members[0])});
      return;
    }
    // The first member is always on the left, so that no tree occurs twice.
    for (unsigned choice = 0; choice + 1 < 1u << (members.size() - 1); ++choice) {
      std::vector<unsigned> left{members[0]}, right;
      for (unsigned i = 1; i < members.size(); ++i)
        (choice >> (i - 1) & 1 ? left : right).push_back(members[i]);
      self(self, left, [&](part const& a) {
        self(self, right, [&](part const& b) {
          use({merged(codec, a.block, b.block), "(" + a.text + " " + b.text + ")"});
        });
      });
    }
  };
  std::vector<unsigned> all(blocks.size());
  for (unsigned i = 0; i < all.size(); ++i) all[i] = i;
  merge_all(merge_all, all, [&](part const& whole) { f(whole.block, whole.text); });
}

// ---- The laws

/// Encoding writes block_bytes(n) bytes, and so does merging, at any address. Decoding writes n
/// values. The address changes no byte.
template <class C> void size() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  REQUIRE(codec.block_bytes(C::block_values) % 4 == 0);  // load_aligned of devices needs this
  for (int const n : block_sizes<C>()) {
    CAPTURE(n);
    auto const count = static_cast<std::size_t>(n);
    auto const x = data::uniform<T>(count, -8, 8, {.seed = 11});
    auto const y = data::uniform<T>(count, -8, 8, {.seed = 12});
    std::size_t const bytes = codec.block_bytes(n);
    REQUIRE(bytes >= block_header_bytes);
    auto const first = encode(codec, x, {.key = 5, .rank = 0});
    auto const second = encode(codec, y, {.key = 5, .rank = 1});
    auto const sum = merged(codec, first, second);
    auto const values = decoded<T>(codec, sum, n);
    for (std::size_t const shift : {0, 1, 3, 4, 7}) {
      CAPTURE(shift);
      guarded acc(bytes, shift), in(bytes, 8 - shift), out(count * sizeof(T));
      T const* const source = x.data();
      T const* const other = y.data();
      codec.encode_block(hcomp::simd_group{}, source, n, acc.data(),
                         agreed<C>({.key = 5, .rank = 0}));
      codec.encode_block(hcomp::simd_group{}, other, n, in.data(),
                         agreed<C>({.key = 5, .rank = 1}));
      REQUIRE(acc.untouched_outside());
      REQUIRE(same_bytes(acc.bytes(), first));
      codec.merge_block(hcomp::simd_group{}, acc.data(), in.data());
      REQUIRE(acc.untouched_outside());
      REQUIRE(in.untouched_outside());
      REQUIRE(same_bytes(in.bytes(), second));
      REQUIRE(same_bytes(acc.bytes(), sum));
      codec.decode_block(hcomp::simd_group{}, acc.data(), n, reinterpret_cast<T*>(out.data()),
                         reduce_op::sum);
      REQUIRE(out.untouched_outside());
      REQUIRE((n == 0 || std::memcmp(out.data(), values.data(), count * sizeof(T)) == 0));
    }
  }
}

/// One rank's values come back within the documented error: as a sum and as a mean, for any weight.
template <class C> void round_trip() {
  using T = typename C::value_type;
  for (std::uint32_t const weight : {1u, 2u, 5u})
    for (int const n : block_sizes<C>()) {
      CAPTURE(weight);
      CAPTURE(n);
      auto const codec = with_headroom<C>(weight);
      auto const x = data::uniform<T>(static_cast<std::size_t>(n), -8, 8, {.seed = 21});
      auto const block = encode(codec, x, {.weight = weight});
      auto const sum = decoded(codec, block, n);
      auto const mean = decoded<T>(codec, block, n, reduce_op::mean);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double const ideal = stated<C>::value(codec, static_cast<double>(x[i])) * weight;
        double bound = stated<C>::rounding(ideal);
        if constexpr (stated<C>::rotated) bound += 6 * stated<C>::deviation(codec) * weight;
        // First, the product with the weight is rounded to the accumulator type.
        double const product = weight == 1 ? 0 : data::half_unit<hcomp::accumulator_t<T>>(ideal);
        CAPTURE(i);
        REQUIRE(std::fabs(sum[i] - ideal) <= bound * (1 + 0x1p-12) + product);
        REQUIRE(std::fabs(static_cast<double>(mean[i]) - ideal / weight) <=
                (bound + product) / weight * (1 + 0x1p-12) +
                    2 * data::half_unit<T>(ideal / weight) * (weight > 1 || bound > 0));
      }
    }
}

/// decode(a + b) = decode(a) + decode(b), as documented: exactly, within one rounding, or, where
/// the merge draws, one of the two values with the total weight. Headers add up.
template <class C> void sum() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  struct {
    std::uint32_t a, b;
  } const weights[] = {{1, 1}, {1, 3}, {3, 2}};
  for (auto const weight : weights)
    for (int const n : block_sizes<C>()) {
      CAPTURE(weight.a);
      CAPTURE(weight.b);
      CAPTURE(n);
      auto const count = static_cast<std::size_t>(n);
      auto const a = encode(codec, data::uniform<T>(count, -8, 8, {.seed = 31}),
                            {.key = 9, .rank = 4, .weight = weight.a, .index = 2});
      auto const b = encode(codec, data::uniform<T>(count, -8, 8, {.seed = 32}),
                            {.key = 9, .rank = 2, .weight = weight.b, .index = 2});
      auto const both = merged(codec, a, b);
      auto const header = header_of(both);
      std::uint32_t const whole = weight.a + weight.b;
      REQUIRE(header.weight == whole);
      REQUIRE(header.lowest_rank == 2);
      REQUIRE(header.values == n);
      REQUIRE(header.index == 2);
      REQUIRE(header.key == 9);
      REQUIRE(header.codec == C::codec_id);
      REQUIRE(header.flags == 0);
      REQUIRE(header.fault == block_fault::none);
      auto const da = decoded(codec, a, n), db = decoded(codec, b, n);
      auto const total = decoded(codec, both, n);
      auto const mean = decoded(codec, both, n, reduce_op::mean);
      for (std::size_t i = 0; i < count; ++i) {
        CAPTURE(i);
        if constexpr (stated<C>::drawn) {
          double const from_a = da[i] / weight.a * whole, from_b = db[i] / weight.b * whole;
          REQUIRE((total[i] == from_a || total[i] == from_b));
        } else {
          double const ideal = da[i] + db[i];
          REQUIRE(std::fabs(total[i] - ideal) <= stated<C>::rounding(ideal) * (1 + 0x1p-12));
        }
        REQUIRE(std::fabs(mean[i] - total[i] / whole) <=
                (stated<C>::rotated
                     ? stated<C>::rounding(mean[i])
                     : data::half_unit<hcomp::accumulator_t<T>>(mean[i])));  // one division
      }
    }
}

/// max_summands() summands of the largest values fit; one more marks the block.
template <class C> void headroom() {
  using T = typename C::value_type;
  for (std::uint32_t const summands : {1u, 2u, 3u, 4u, 7u, 8u, 9u}) {
    CAPTURE(summands);
    auto const codec = with_headroom<C>(summands);
    REQUIRE(codec.max_summands() >= summands);
    auto const x = data::signs<T>(65, {.seed = 41});
    auto sum = encode(codec, x, {.rank = 0});
    for (std::uint32_t rank = 1; rank < summands; ++rank)
      sum = merged(codec, sum, encode(codec, x, {.rank = rank}));
    REQUIRE(header_of(sum).weight == summands);
    REQUIRE(header_of(sum).flags == 0);
    auto const values = decoded(codec, sum, 65);
    for (std::size_t i = 0; i < x.size(); ++i)
      if constexpr (stated<C>::rotated)
        REQUIRE(std::fabs(values[i] - static_cast<double>(x[i]) * summands) <=
                6 * stated<C>::deviation(codec) * summands);
      else
        REQUIRE(values[i] ==
                static_cast<double>(x[i]) * summands);  // small integers: exact in any type
  }
  // Reaches the full capacity, and exceeds it by one, through the weight: 2^32 ranks are too many
  // for a loop.
  for (std::uint32_t const wanted : {1u, 6u, 255u, 256u, stated<C>::rotated ? 4000u : 70000u}) {
    auto const codec = with_headroom<C>(wanted);
    std::uint32_t const most = codec.max_summands();
    CAPTURE(most);
    auto const x = data::signs<T>(65, {.seed = 42});
    auto const one = encode(codec, x, {.rank = 1});
    if (most > 1) {
      auto const rest = encode(codec, x, {.rank = 0, .weight = most - 1});
      auto const full = merged(codec, rest, one);
      REQUIRE(header_of(full).weight == most);
      REQUIRE((header_of(full).flags & hcomp::block_is_damaged) == 0);
      if (std::is_same_v<hcomp::accumulator_t<T>, double> && data::float_limits<T>::digits > 40 &&
          !stated<C>::rotated && stated<C>::rounding(most) < 0.5)
        for (std::size_t i = 0; i < x.size(); ++i)
          REQUIRE(decoded(codec, full, 65)[i] == static_cast<double>(x[i]) * most);
    }
    for (auto const& [acc, in] : {std::pair{most, 1u}, std::pair{1u, most}}) {
      auto const full = encode(codec, x, {.rank = 0, .weight = acc});
      auto const over = merged(codec, full, encode(codec, x, {.rank = 1, .weight = in}));
      REQUIRE((header_of(over).flags & hcomp::block_is_damaged) != 0);
      REQUIRE(header_of(over).fault == block_fault::weight);
    }
  }
}

/// The arguments of a merge are interchangeable. Where addition is exact, any tree gives the same
/// bytes. Elsewhere any tree gives a result within the documented error.
template <class C> void order() {
  auto const codec = with_headroom<C>();
  for (int const n : block_sizes<C>()) {
    CAPTURE(n);
    auto const blocks = blocks_of(codec, 3, n, {.key = 77, .index = 6});
    auto const ab = merged(codec, blocks[0], blocks[1]);
    REQUIRE(same_bytes(ab, merged(codec, blocks[1], blocks[0])));
    REQUIRE(same_bytes(merged(codec, ab, blocks[2]), merged(codec, blocks[2], ab)));
  }
  constexpr int n = 65;
  auto const blocks = blocks_of(codec, 6, n, {.key = 78});
  for (int ranks = 1; ranks <= 6; ++ranks) {
    std::vector<encoded_block> const some(blocks.begin(), blocks.begin() + ranks);
    std::vector<double> ideal(n), error(n), low(n, 1e9), high(n, -1e9);
    std::uint32_t whole = 0;
    for (encoded_block const& block : some) {
      auto const value = decoded(codec, block, n), mean = decoded(codec, block, n, reduce_op::mean);
      whole += header_of(block).weight;
      for (std::size_t i = 0; i < n; ++i) {
        ideal[i] += value[i];
        error[i] += ranks * stated<C>::rounding(8.0 * 12);  // one rounding per merge
        low[i] = std::min(low[i], mean[i]);
        high[i] = std::max(high[i], mean[i]);
      }
    }
    int trees = 0;
    encoded_block first;
    for_each_tree(codec, some, [&](encoded_block const& sum, std::string const& tree) {
      CAPTURE(tree);
      if (trees++ == 0) first = sum;
      REQUIRE(header_of(sum).weight == whole);
      REQUIRE(header_of(sum).lowest_rank == 3);
      REQUIRE(header_of(sum).flags == 0);
      if constexpr (C::sum_is_exact) REQUIRE(same_bytes(sum, first));
      auto const values = decoded(codec, sum, n);
      bool within = true;
      for (std::size_t i = 0; i < n; ++i)
        if constexpr (stated<C>::drawn)
          within &= values[i] == low[i] * whole || values[i] == high[i] * whole;
        else
          within &= std::fabs(values[i] - ideal[i]) <= error[i];
      REQUIRE(within);
    });
    REQUIRE(trees == (std::vector{1, 1, 3, 15, 105, 945})[static_cast<std::size_t>(ranks - 1)]);
  }
}

/// Values in memory after the n values change nothing. Old contents of the encoded block change
/// nothing. 0 is neutral where documented.
template <class C> void tail() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  for (int const n : block_sizes<C>()) {
    CAPTURE(n);
    auto const count = static_cast<std::size_t>(n);
    auto const x = data::uniform<T>(count, -8, 8, {.seed = 51});
    encoded_block expected;
    for (double const garbage : {1.0, -1.0, std::nan("")})
      for (std::byte const before : {std::byte{0}, std::byte{0xff}, std::byte{0xa5}}) {
        std::vector<T> longer = x;
        longer.resize(count + 100, data::as<T>(garbage));
        encoded_block block(codec.block_bytes(n), before);
        T const* const values = longer.data();
        codec.encode_block(hcomp::simd_group{}, values, n, block.data(), agreed<C>({.rank = 1}));
        if (expected.empty()) expected = block;
        REQUIRE(same_bytes(block, expected));
      }
    REQUIRE(same_bytes(expected, encode(codec, x, {.rank = 1})));
    if constexpr (stated<C>::zero_is_neutral) {
      auto const zero = encode(codec, std::vector<T>(count), {.rank = 2});
      REQUIRE(decoded(codec, merged(codec, expected, zero), n) == decoded(codec, expected, n));
    }
  }
}

/// The same key gives the same bytes. Where merges draw, every part of the key gives other draws.
template <class C> void key() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  constexpr int n = 640;
  auto const x = data::uniform<T>(n, -8, 8, {.seed = 61});
  auto const y = data::uniform<T>(n, -8, 8, {.seed = 62});
  auto const payload = [&](block_origin a, block_origin b) {
    auto const sum = merged(codec, encode(codec, x, a), encode(codec, y, b));
    REQUIRE(header_of(sum).flags == 0);
    return encoded_block(sum.begin() + block_header_bytes, sum.end());
  };
  block_origin const a{.key = 1, .rank = 0, .weight = 1, .index = 0};
  block_origin const b{.key = 1, .rank = 1, .weight = 1, .index = 0};
  auto const reference = payload(a, b);
  REQUIRE(payload(a, b) == reference);
  struct {
    char const* what;
    block_origin a, b;
  } const others[] = {
      {"key", {.key = 2, .rank = 0}, {.key = 2, .rank = 1}},
      {"key, upper half", {.key = 1 | 1ull << 32, .rank = 0}, {.key = 1 | 1ull << 32, .rank = 1}},
      {"block", {.key = 1, .rank = 0, .index = 1}, {.key = 1, .rank = 1, .index = 1}},
      {"block past 2^32 words",
       {.key = 1, .rank = 0, .index = 1u << 30},
       {.key = 1, .rank = 1, .index = 1u << 30}},
      {"lower rank", {.key = 1, .rank = 2}, {.key = 1, .rank = 1}},
      {"upper rank", {.key = 1, .rank = 0}, {.key = 1, .rank = 2}},
  };
  for (auto const& other : others) {
    CAPTURE(other.what);
    REQUIRE((payload(other.a, other.b) != reference) == (stated<C>::drawn || stated<C>::rotated));
  }
}

/// The mean over 10^4 merges is the exact mean, within 5 standard errors; without draws, always.
/// Codecs that rotate values take the mean over 10^3 rotations.
template <class C> void mean() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  constexpr int n = 64, draws = stated<C>::drawn ? 10000 : stated<C>::rotated ? 1000 : 10;
  std::uint32_t const weight[] = {1, 2, 5};
  std::vector<std::vector<T>> x;
  for (std::uint64_t r = 0; r < 3; ++r) x.push_back(data::uniform<T>(n, -8, 8, {.seed = 71 + r}));
  std::vector<double> mean(n), ideal(n), square(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = 0; r < 3; ++r) {
      double const value = stated<C>::value(codec, static_cast<double>(x[r][i]));
      ideal[i] += value * weight[r] / 8;
      square[i] += value * value * weight[r] / 8;
    }
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<encoded_block> block;
    for (std::uint32_t r = 0; r < 3; ++r)
      block.push_back(encode(
          codec, x[r], {.key = 1000u + static_cast<unsigned>(draw), .rank = r, .weight = weight[r]},
          hcomp::simd_group{}));
    // Alternates between two trees: both must be unbiased.
    auto const& [a, b, c] = std::tie(block[0], block[1], block[2]);
    auto const sum =
        draw % 2 ? merged(codec, merged(codec, a, b), c) : merged(codec, b, merged(codec, c, a));
    auto const result = decoded(codec, sum, n, reduce_op::mean);
    for (std::size_t i = 0; i < n; ++i) mean[i] += result[i] / draws;
  }
  for (std::size_t i = 0; i < n; ++i) {
    CAPTURE(i);
    double variance = stated<C>::drawn ? square[i] - ideal[i] * ideal[i] : 0;
    if constexpr (stated<C>::rotated) variance = std::pow(stated<C>::deviation(codec), 2);
    double const rounding = 6 * stated<C>::rounding(8 * 8) / 8 + 1e-6;  // at most six roundings
    REQUIRE(std::fabs(mean[i] - ideal[i]) <= 5 * std::sqrt(variance / draws) + rounding);
  }
}

/// Zeros of both signs, denormals and the largest values are encoded as documented, without a flag.
/// NaN and infinity always set the flag, which survives merges. Codecs documented to propagate them
/// do so.
template <class C> void special() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  auto const finite = data::finite_specials<T>(), nonfinite = data::nonfinite_specials<T>();
  for (std::size_t const n : {std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{130}})
    for (std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      CAPTURE(n);
      CAPTURE(at);
      auto const quiet = encode(codec, data::uniform<T>(n, -1, 1, {.seed = 81}), {.rank = 1});
      for (T const value : finite) {
        CAPTURE(static_cast<double>(value));
        std::vector<T> x(n, data::as<T>(1));
        x[at] = value;
        if constexpr (stated<C>::rotated) {
          for (auto const& block :
               {encode(codec, x, {}), encode(codec, x, {}, hcomp::simd_group{})}) {
            REQUIRE(header_of(block).flags == 0);
            for (double const got : decoded(codec, block, static_cast<int>(n)))
              REQUIRE(std::isfinite(got));
          }
          continue;
        }
        bool const overflow = stated<C>::overflows(static_cast<double>(value));
        for (auto const& block :
             {encode(codec, x, {}), encode(codec, x, {}, hcomp::simd_group{})}) {
          REQUIRE(header_of(block).flags == (overflow ? hcomp::block_has_nonfinite : 0));
          double const got = decoded(codec, block, static_cast<int>(n))[at];
          double const ideal = stated<C>::value(codec, static_cast<double>(value));
          if (overflow) {
            REQUIRE(std::isinf(got));
          } else {
            REQUIRE(std::fabs(got - ideal) <= stated<C>::rounding(ideal));
          }
          REQUIRE(std::signbit(got) == std::signbit(ideal));
        }
      }
      for (T const value : nonfinite) {
        CAPTURE(static_cast<double>(value));
        std::vector<T> x(n, data::as<T>(1));
        x[at] = value;
        for (auto const& block :
             {encode(codec, x, {}), encode(codec, x, {}, hcomp::simd_group{})}) {
          REQUIRE(header_of(block).flags == hcomp::block_has_nonfinite);
          for (auto const& sum :
               {block, merged(codec, block, quiet), merged(codec, quiet, block)}) {
            REQUIRE(header_of(sum).flags == hcomp::block_has_nonfinite);
            double const got = decoded(codec, sum, static_cast<int>(n))[at];
            if constexpr (C::passes_nonfinite) {
              if (std::isnan(static_cast<double>(value)))
                REQUIRE(std::isnan(got));
              else
                REQUIRE(got == static_cast<double>(value));
            } else {
              REQUIRE(std::isfinite(got));
            }
          }
          // As documented: the sign is that of x >= 0, also for infinity; NaN is negative.
          if constexpr (!C::passes_nonfinite && !stated<C>::rotated)
            REQUIRE(decoded(codec, block, static_cast<int>(n))[at] ==
                    stated<C>::value(codec, static_cast<double>(value)));
        }
      }
      // NaN meets another NaN, infinity its opposite, and NaN the resulting NaN: the order of
      // arguments must not change the bytes. Every result has the same NaN.
      auto const require_one_nan = [&](encoded_block const& block) {
        auto const nan = hcomp::detail::one_nan<T>();
        auto const count = static_cast<int>(n);
        for (auto const op : {reduce_op::sum, reduce_op::mean})
          for (auto const& found : {decoded<T>(codec, block, count, op),
                                    decoded<T>(codec, block, count, op, hcomp::simd_group{})})
            for (T const& value : found)
              if (std::isnan(static_cast<double>(value)))
                REQUIRE(std::memcmp(&value, &nan, sizeof(T)) == 0);
      };
      auto const block_of = [&](T value, std::uint32_t rank) {
        std::vector<T> x(n, data::as<T>(1));
        x[at] = value;
        return encode(codec, x, {.rank = rank});
      };
      for (T const a : nonfinite)
        for (T const b : nonfinite) {
          auto const one = block_of(a, 0), other = block_of(b, 1);
          auto const both = merged(codec, one, other);
          REQUIRE(same_bytes(both, merged(codec, other, one)));
          require_one_nan(one);
          require_one_nan(both);
          for (T const c : nonfinite) {
            auto const third = block_of(c, 2);
            REQUIRE(same_bytes(merged(codec, both, third), merged(codec, third, both)));
          }
        }
    }
}

/// Every group gives the same bytes: one worker, SIMD, and several workers at once; from values and
/// from values with compensation.
template <class C> void groups(std::vector<int> const& sizes, bool several_workers) {
  using T = typename C::value_type;
  using A = hcomp::accumulator_t<T>;
  auto const codec = with_headroom<C>();
  for (int const n : sizes) {
    CAPTURE(n);
    auto const count = static_cast<std::size_t>(n);
    auto const mine = agreed<C>({.key = 3, .rank = 8, .weight = 3, .index = 5});
    block_origin const others{.key = 3, .rank = 6, .weight = 2, .index = 5};
    auto const x = data::uniform<T>(count, -8, 8, {.seed = 91});
    auto const e = data::uniform<A>(count, -8, 8, {.seed = 92});
    std::vector<A> plain(count);
    for (std::size_t i = 0; i < count; ++i) plain[i] = static_cast<A>(x[i]) + e[i];
    A const* const added = plain.data();
    hcomp::compensated<T> const source{x.data(), e.data()};

    auto const in = encode(codec, data::uniform<T>(count, -8, 8, {.seed = 93}), others);
    encoded_block expected(codec.block_bytes(n));
    codec.encode_block(hcomp::serial_group{}, added, n, expected.data(), mine);
    auto const sum = merged(codec, expected, in);
    auto const values = decoded<T>(codec, sum, n),
               means = decoded<T>(codec, sum, n, reduce_op::mean);

    auto const check = [&](encoded_block const& block, encoded_block const& both,
                           std::vector<T> const& result, std::vector<T> const& mean) {
      REQUIRE(same_bytes(block, expected));
      REQUIRE(same_bytes(both, sum));
      REQUIRE(same_bytes(result, values));
      REQUIRE(same_bytes(mean, means));
    };
    auto const run = [&](auto const& share) {  // share(f): calls f(group) in every worker
      encoded_block block(codec.block_bytes(n)), both;
      std::vector<T> result(count), mean(count);
      share([&](auto group) { codec.encode_block(group, source, n, block.data(), mine); });
      both = block;
      share([&](auto group) { codec.merge_block(group, both.data(), in.data()); });
      share([&](auto group) {
        codec.decode_block(group, both.data(), n, result.data(), reduce_op::sum);
        codec.decode_block(group, both.data(), n, mean.data(), reduce_op::mean);
      });
      check(block, both, result, mean);
    };
    run([](auto const& f) { f(hcomp::serial_group{}); });
    run([](auto const& f) { f(hcomp::simd_group{}); });
    if (several_workers) run([](auto const& f) { workers::run<3>(f); });
    if constexpr (std::is_same_v<T, float>) {  // these do not depend on the type
      std::size_t scratch = 0;
      if constexpr (hcomp::UsesScratch<C>) scratch = codec.scratch_bytes();
      if (several_workers) run([&](auto const& f) { workers::run_in_warps<64>(scratch, f); });
    }
    REQUIRE(same_bytes(encode(codec, x, mine), encode(codec, x, mine, hcomp::simd_group{})));
  }
}

/// A single merge with a wide_sum gives the bytes of merge_block, several give the same bytes in
/// every group, and a fault persists. Codecs that do not defer rounding pass.
template <class C> void wide_sums() {
  if constexpr (hcomp::DefersRounding<C>) {
    using T = typename C::value_type;
    C const codec;
    for (int const n : block_sizes<C>()) {
      CAPTURE(n);
      std::vector<encoded_block> blocks;
      for (std::uint32_t rank = 0; rank < 4; ++rank)
        blocks.push_back(
            encode(codec, data::uniform<T>(static_cast<std::size_t>(n), -8, 8, {.seed = 91 + rank}),
                   {.rank = rank}));
      // merges blocks 1, 2, ... into block 0
      auto const sum = [&](std::size_t count, auto const& share) {
        encoded_block acc = blocks[0];
        guarded wide(codec.wide_bytes(n));
        for (std::size_t k = 1; k < count; ++k)
          share([&](auto group) {
            codec.merge_wide(group, acc.data(), blocks[k].data(),
                             {wide.data(), k == 1, k + 1 == count});
          });
        REQUIRE(wide.untouched_outside());
        return acc;
      };
      auto const serial = [](auto const& f) { f(hcomp::serial_group{}); };
      REQUIRE(same_bytes(sum(2, serial), merged(codec, blocks[0], blocks[1])));
      auto const expected = sum(4, serial);
      REQUIRE(header_of(expected).weight == 4);
      REQUIRE(same_bytes(sum(4, [](auto const& f) { f(hcomp::simd_group{}); }), expected));
      if (n > 200) continue;
      REQUIRE(same_bytes(sum(4, [](auto const& f) { workers::run<3>(f); }), expected));
      if constexpr (std::is_same_v<T, float>)
        REQUIRE(
            same_bytes(sum(4, [](auto const& f) { workers::run_in_warps<64>(0, f); }), expected));
      blocks[1] = encode(codec, std::vector<T>(static_cast<std::size_t>(n)), {.key = 1, .rank = 1});
      REQUIRE(header_of(sum(4, serial)).fault == hcomp::block_fault::key);
    }
  }
}

/// A narrow message has narrow_bytes(header) bytes, and widens to the original block: for every
/// weight, at any address, and in every group. Codecs that are not Narrowable pass.
template <class C> void narrow() {
  if constexpr (hcomp::Narrowable<C>) {
    using T = typename C::value_type;
    for (std::uint32_t const summands : {1u, 4u, 15u, 16u, 300u}) {
      auto const codec = with_headroom<C>(summands);
      for (int const n : block_sizes<C>())
        for (std::uint32_t const weight : {1u, 2u, 5u, 300u}) {
          if (weight > codec.max_summands()) continue;
          CAPTURE(summands);
          CAPTURE(n);
          CAPTURE(weight);
          auto const x = data::uniform<T>(static_cast<std::size_t>(n), -8, 8, {.seed = 61});
          auto block = encode(codec, x, {.key = 5, .rank = 0, .weight = weight});
          if (weight < codec.max_summands() && weight > 1)
            block = merged(codec, block, encode(codec, x, {.key = 5, .rank = 1}));
          std::size_t const bytes = codec.narrow_bytes(header_of(block));
          REQUIRE(bytes >= block_header_bytes);
          REQUIRE(bytes <= block.size());
          encoded_block expected(bytes);
          codec.narrow_block(hcomp::serial_group{}, block.data(), expected.data());
          REQUIRE(std::memcmp(expected.data(), block.data(), block_header_bytes) == 0);
          for (std::size_t const shift : {0, 1, 4, 7}) {
            guarded from(block.size(), shift), narrowed(bytes, 8 - shift),
                widened(block.size(), shift);
            auto const there_and_back = [&](auto const& share) {
              std::memcpy(from.data(), block.data(), block.size());
              share([&](auto group) { codec.narrow_block(group, from.data(), narrowed.data()); });
              REQUIRE(narrowed.untouched_outside());
              REQUIRE(same_bytes(narrowed.bytes(), expected));
              share([&](auto group) { codec.widen_block(group, narrowed.data(), widened.data()); });
              REQUIRE(widened.untouched_outside());
              REQUIRE(same_bytes(widened.bytes(), block));
            };
            there_and_back([](auto const& f) { f(hcomp::serial_group{}); });
            there_and_back([](auto const& f) { f(hcomp::simd_group{}); });
            if (n < 1000 && shift < 2) there_and_back([](auto const& f) { workers::run<3>(f); });
            if constexpr (hcomp::UsesScratch<C> && std::is_same_v<T, float>)
              if (n == 65 && shift == 0)
                there_and_back(
                    [&](auto const& f) { workers::run_in_warps<32>(codec.scratch_bytes(), f); });
          }
        }
    }
    // no header makes any group read or write past a full block
    auto const codec = with_headroom<C>();
    for (std::uint32_t const weight : {0u, 1u, 255u, 65536u, ~0u})
      for (std::uint16_t const values : {0, 1, 16385, 65535}) {
        block_header header;
        header.values = values;
        header.weight = weight;
        REQUIRE(codec.narrow_bytes(header) <= codec.block_bytes(C::block_values));
        guarded from(codec.block_bytes(C::block_values)), to(codec.block_bytes(C::block_values));
        hcomp::store(from.data(), 0, header);
        codec.narrow_block(hcomp::simd_group{}, from.data(), to.data());
        REQUIRE(to.untouched_outside());
        codec.widen_block(hcomp::simd_group{}, from.data(), to.data());
        REQUIRE(to.untouched_outside());
      }
  }
}

/// Blocks that contradict each other are marked with the reason and remain marked after every
/// merge, and decoding reports it.
template <class C> void contradictions() {
  using T = typename C::value_type;
  auto const codec = with_headroom<C>();
  constexpr int n = 70;
  hcomp::draw_key const key{.seed = 4};
  std::uint64_t const philox = hcomp::philox_key(key);
  auto const encoded = [&](block_origin origin, std::size_t values = 70) {
    auto block = encode(codec, data::signs<T>(values, {.seed = 100u + origin.rank}), origin);
    // Room for the longer of two blocks, so that reading a wrong length stays within the memory.
    block.resize(codec.block_bytes(n) + 64);
    return block;
  };
  auto const changed = [&](auto const& change) {
    auto block = encoded({.key = philox, .rank = 1});
    auto header = header_of(block);
    change(header);
    hcomp::store(block.data(), 0, header);
    return block;
  };
  auto broken = encoded({.key = philox, .rank = 1});
  hcomp::detail::seal(hcomp::serial_group{}, broken.data(), codec.block_bytes(n));
  broken[codec.block_bytes(n) - 1] ^= std::byte{4};
  struct {
    block_fault fault;
    encoded_block bad;
  } const cases[] = {
      {block_fault::format, changed([](block_header& h) { h.magic ^= 1; })},
      {block_fault::format, changed([](block_header& h) { ++h.version; })},
      {block_fault::codec, changed([](block_header& h) { ++h.codec; })},
      {block_fault::length, encoded({.key = philox, .rank = 1}, 69)},
      {block_fault::place, encoded({.key = philox, .rank = 1, .index = 1})},
      {block_fault::key, encoded({.key = philox + 1, .rank = 1})},
      {block_fault::ranks, encoded({.key = philox, .rank = 0})},
      {block_fault::weight, changed([&](block_header& h) { h.weight = codec.max_summands(); })},
      {block_fault::checksum, broken},
  };
  auto const good = encoded({.key = philox, .rank = 0});
  auto const third = encoded({.key = philox, .rank = 2});
  for (auto const& [fault, bad] : cases) {
    std::string const text = hcomp::to_text(fault);
    CAPTURE(text);
    for (bool const bad_first : {false, true}) {
      CAPTURE(bad_first);
      auto const sum = bad_first ? merged_by_op(codec, bad, good) : merged_by_op(codec, good, bad);
      REQUIRE((header_of(sum).flags & hcomp::block_is_damaged) != 0);
      REQUIRE(header_of(sum).fault == fault);
      auto const later = merged_by_op(codec, sum, third);
      auto const other = merged_by_op(codec, third, sum);
      for (encoded_block const& block : {sum, later, other}) {
        REQUIRE((header_of(block).flags & hcomp::block_is_damaged) != 0);
        REQUIRE(header_of(block).fault != block_fault::none);
        // As an encoded vector of one full block, for hcomp::decode.
        encoded_block whole(block.begin(),
                            block.begin() + static_cast<std::ptrdiff_t>(codec.block_bytes(n)));
        whole.resize(hcomp::encoded_bytes(codec, n));
        std::vector<T> x(n, data::as<T>(42));
        try {
          hcomp::decode(codec, whole, std::span<T>(x), {.key = key});
          FAIL("decoded a damaged block");
        } catch (hcomp::wire_error const& error) {
          std::string const what = error.what();
          REQUIRE(what.find("block 0 (values 0 to 69)") != std::string::npos);
          REQUIRE(what.find(C::name) != std::string::npos);
          REQUIRE(what.find(text) != std::string::npos);
        }
        for (T const value : x) REQUIRE(static_cast<double>(value) == 42);
      }
    }
  }
}

}  // namespace laws
