// max_simd: avx2 baseline
/// @file
/// lossless: compression ratios, blocks by vectors, and the format. variable_rate_laws_test.cpp
/// tests what all variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/one_nan.hpp>
#include <hcomp/codec/lossless/detail/blocks.hpp>
#include <hcomp/codec/lossless/detail/simd.hpp>
#include <hcomp/codec/lossless/lossless.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <support/encoded_vectors.hpp>
#include <support/error_bounded.hpp>
#include <support/lossless.hpp>
#include <support/lossless_encodings.hpp>
#include <vector>

using hcomp::lossless;
using namespace hcomp::testing;

TEST_CASE("lossless: what is alike is there once") {
  std::size_t const n = 1 << 14;
  std::vector<double> constant(n, -2.5), floats(n), counts(n), smooth(n), gradient(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const at = static_cast<double>(i);
    floats[i] = static_cast<float>(bounded_values::laplace(5, i));
    counts[i] = static_cast<double>(hcomp::mix(i) % 100);
    smooth[i] = 300 + 5 * std::sin(0.001 * at);
    gradient[i] = bounded_values::laplace(7, i);
  }
  lossless<double> const codec;
  CHECK(ratio_of(codec, constant) > 45);  // 2 bytes of form, 8 of value for 64 values
  CHECK(ratio_of(codec, floats) > 2.1);
  CHECK(ratio_of(codec, counts) > 4.5);
  CHECK(ratio_of(codec, smooth) > 1.4);
  CHECK(ratio_of(codec, gradient) > 1.09);
  CHECK(ratio_of(codec, std::vector<double>(n)) > 200);  // 2 bytes for 64 values, and the table
  std::vector<float> as_float(gradient.begin(), gradient.end());
  CHECK(ratio_of(lossless<float>(), as_float) > 1.11);
}

TEST_CASE_TEMPLATE("lossless: forms that no block has are refused", T, float, double) {
  lossless<T> const codec;
  auto const refuses = [&](unsigned form) {
    return refuses_form(codec, values_of_kind<T>(0, 64, 3), static_cast<std::uint16_t>(form));
  };
  CHECK(refuses(0x3002));             // both signs
  CHECK(refuses(0x8000 | 1u << 14));  // differences with zeros
  CHECK(refuses(63 | 63 << 6));       // more bits than a value has
}

TEST_CASE_TEMPLATE("lossless: whole chunks are checked at once as block by block", T, float,
                   double) {
  using form = hcomp::detail::lossless::block_form<T>;
  lossless<T> const codec;
  auto const coder = codec.coder();
  constexpr std::size_t blocks = 16, n = 64 * blocks;
  std::vector<form> forms(blocks), sound;
  for (unsigned bits = 0; bits < 65536; ++bits)
    if (form const one{static_cast<std::uint16_t>(bits)}; one.is_valid()) sound.push_back(one);
  std::size_t accepted = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    for (std::size_t k = 0; k < blocks; ++k)
      forms[k] = sound[hcomp::mix(blocks * bits + k) % sound.size()];
    forms[bits % blocks] = {static_cast<std::uint16_t>(bits)};
    std::size_t bytes = blocks * sizeof(form);
    for (form const one : forms) bytes += one.payload_bytes(64);
    auto const* const chunk = reinterpret_cast<std::byte const*>(forms.data());
    for (std::size_t const given : {bytes, bytes - 1, bytes + 65536}) {
      bool const expected = coder.is_chunk(hcomp::serial_group{}, chunk, given, n);
      REQUIRE(coder.is_chunk(hcomp::simd_group{}, chunk, given, n) == expected);
      accepted += expected;
    }
  }
  CHECK(accepted == sound.size());
  encoded_bytes const too_short(blocks * sizeof(form) - 1);  // sanitizers see a byte more
  CHECK(!coder.is_chunk(hcomp::simd_group{}, too_short.data(), too_short.size(), n));
}

#if defined(__x86_64__)
namespace {

using namespace hcomp::detail::lossless;

/// A block as any group makes it: its form, and its payload.
template <class T> struct made_block {
  block_form<T> form{};
  encoded_bytes payload{};  ///< and 64 bytes

  explicit made_block(value_block<T> const& v) {
    auto const front = v.look(block_values);
    form = front.form;
    payload.assign(form.payload_bytes(block_values) + 64, std::byte{0x55});
    v.put(front, block_values, payload.data());
  }
};
template <class T> value_block<T> block_of(std::vector<T> const& x) {
  value_block<T> v;
  std::copy_n(x.begin(), block_values, v.x);
  return v;
}
template <class T> value_block<T> sum_of(value_block<T> v, value_block<T> const& other) {
  for (std::size_t i = 0; i < block_values; ++i)
    v.x[i] = hcomp::detail::with_one_nan(v.x[i] + other.x[i]);
  return v;
}
/// Of the fewest bits in offsets, or in differences, whatever the width: they are drawn from `width`
/// of them above `behind`, from a value of any bits on, with signs as drawn; some are 0.
template <class T>
std::vector<T> of_width(int width, int behind, bool are_steps, std::uint64_t seed) {
  using word = typename value_block<T>::word;
  std::uint64_t const mask = width == 0 ? 0 : ~std::uint64_t{0} >> (64 - width);
  std::vector<T> x(block_values);
  std::uint64_t at = hcomp::mix(seed) >> (66 - 8 * sizeof(T));
  for (std::size_t i = 0; i < block_values; ++i) {
    std::uint64_t const random = hcomp::mix(seed * 1000 + i), drawn = (random & mask) << behind;
    bool const below = !are_steps && seed % 3 > 0 && (seed % 3 == 1 || random >> 63 != 0);
    if (are_steps) at += random >> 62 != 0 ? drawn : 0 - drawn;
    auto const bits = static_cast<word>(are_steps ? at : at + drawn);
    x[i] = hcomp::same_bits<T>(
        static_cast<word>((bits & ~value_block<T>::sign) | (below ? value_block<T>::sign : 0)));
    if (seed % 5 == 0 && random % 16 == 0) x[i] = below ? -T{0} : T{0};
  }
  return x;
}
/// Where values change their sign.
enum class change { directly, by_zero, at_the_top };
/// Magnitudes from `least` on up to `largest`, of one sign and of the other: differences are short,
/// but where the sign changes. Those of the first sign are odd multiples of `by` above `least`, the
/// others are even.
template <class T>
std::vector<T> of_both_signs(std::uint64_t least, std::uint64_t largest, std::uint64_t by,
                             change where) {
  using word = typename value_block<T>::word;
  std::vector<T> x(block_values);
  std::size_t const first = where == change::at_the_top ? block_values / 2 : 4;
  for (std::size_t i = 0; i < block_values; ++i) {
    bool const is_first = i < first;
    std::uint64_t const place = is_first ? first - i - 1 : i - first,
                        of_places =
                            where == change::at_the_top ? first - 1 : block_values - first - 1,
                        steps = (largest - least) / (2 * by) / of_places,
                        up = where == change::at_the_top ? of_places - place : place,
                        odd = is_first ? by : 0,
                        magnitude =
                            least + (is_first && first == 4 ? place : up * steps) * 2 * by + odd;
    x[i] =
        hcomp::same_bits<T>(static_cast<word>(magnitude | (is_first ? value_block<T>::sign : 0)));
  }
  if (where == change::by_zero) x[first] = 0;
  return x;
}
template <class T>
void check_blocks(block_kernels<T> const& kernels, std::vector<T> const& x,
                  std::vector<T> const& y) {
  auto const a = block_of(x), b = block_of(y), sum = sum_of(a, b);
  made_block<T> const first(a), both(sum);
  for (auto const* const expected : {&first, &both}) {
    T const* const of = expected == &first ? x.data() : sum.x;
    block_form<T> form;
    encoded_bytes out(expected->payload.size());
    auto const* const end =
        kernels.put(of, 1, expected == &both, reinterpret_cast<std::byte*>(&form), out.data());
    CHECK(form.bits == expected->form.bits);
    CHECK(end == out.data() + out.size() - 64);
    CHECK(std::equal(out.begin(), out.end() - 64, expected->payload.begin()));
  }
  std::vector<T> values(block_values);
  auto const get = [&](T const* addends) {
    auto const* const in = first.payload.data();
    auto const* const end = kernels.get(reinterpret_cast<std::byte const*>(&first.form), in, 1,
                                        addends, addends != nullptr, values.data());
    CHECK(end == in + first.payload.size() - 64);
  };
  get(nullptr);
  CHECK(same_values(values, x));
  get(y.data());
  CHECK(same_values(values, std::vector<T>(sum.x, sum.x + block_values)));
}

/// All that this processor has.
template <class T> std::vector<block_kernels<T>> const& all_block_kernels() {
  static auto const kernels = [] {
    std::vector<block_kernels<T>> all;
    if (hcomp::best_simd_level() != hcomp::simd_level::baseline)
      all.push_back({put_blocks_avx2<T>, get_blocks_avx2<T>});
    if (hcomp::detail::puts_bytes_in_order())
      all.push_back({put_blocks_avx512<T>, get_blocks_avx512<T>});
    if (all.size() < 2)
      MESSAGE("skipped: ", all.size(), " of 2 kinds of vectors may be taken here");
    return all;
  }();
  return kernels;
}
template <class T> void check_blocks(std::vector<T> const& x, std::vector<T> const& y) {
  auto const& all = all_block_kernels<T>();
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    CAPTURE(kind);
    check_blocks(all[kind], x, y);
  }
}

}  // namespace

TEST_CASE("lossless: below the level avx512 no block goes by vectors of 64 bytes") {
  auto const level = hcomp::best_simd_level();
  CHECK(has_block_kernels() == (level != hcomp::simd_level::baseline));
  bool const by_512 = best_block_kernels<float>().put == put_blocks_avx512<float>;
  CHECK((level == hcomp::simd_level::avx512 || !by_512));
}

TEST_CASE_TEMPLATE("lossless: blocks by vectors are the same", T, float, double) {
  for (int kind = 0; kind < kinds_of_values; ++kind)
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      CAPTURE(kind);
      CAPTURE(seed);
      int const other = static_cast<int>(seed % kinds_of_values);
      check_blocks(values_of_kind<T>(kind, block_values, seed),
                   values_of_kind<T>(other, block_values, seed + 100));
    }
  constexpr int value_bits = value_block<T>::value_bits;
  for (int width = 0; width < value_bits; ++width)
    for (int behind = 0; behind + width <= value_bits; behind += 1 + behind / 2)
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        CAPTURE(width);
        CAPTURE(behind);
        CAPTURE(seed);
        check_blocks(of_width<T>(width, behind, seed % 2 == 0, seed),
                     of_width<T>(value_bits - 1 - width, 0, seed % 4 == 0, seed + 50));
      }
}
TEST_CASE_TEMPLATE("lossless: blocks by vectors are one behind the other", T, float, double) {
  using form = block_form<T>;
  std::vector<T> x;
  std::vector<form> forms;
  encoded_bytes payloads;
  for (std::size_t k = 0; k < most_blocks; ++k) {
    auto const one = values_of_kind<T>(static_cast<int>(k) % kinds_of_values, block_values, k);
    made_block<T> const made(block_of(one));
    x.insert(x.end(), one.begin(), one.end());
    forms.push_back(made.form);
    payloads.insert(payloads.end(), made.payload.begin(), made.payload.end() - 64);
    std::size_t const blocks = k + 1, bytes = payloads.size();
    for (auto const& kernels : all_block_kernels<T>()) {
      std::vector<form> put_forms(blocks);
      encoded_bytes put(bytes + 64);
      auto const* const end = kernels.put(
          x.data(), blocks, false, reinterpret_cast<std::byte*>(put_forms.data()), put.data());
      CHECK(end == put.data() + bytes);
      CHECK(std::equal(put.begin(), put.end() - 64, payloads.begin(), payloads.end()));
      CHECK(std::equal(put_forms.begin(), put_forms.end(), forms.begin(), forms.end(),
                       [](form a, form b) { return a.bits == b.bits; }));
      std::vector<T> values(blocks * block_values);
      CHECK(kernels.get(reinterpret_cast<std::byte const*>(put_forms.data()), put.data(), blocks,
                        nullptr, false, values.data()) == end);
      CHECK(same_values(values, x));
    }
  }
}
TEST_CASE_TEMPLATE("lossless: blocks by vectors are the same where steps are long", T, float,
                   double) {
  std::uint64_t const part = value_block<T>::sign >> 4;  // of the magnitudes that there are
  for (std::uint64_t low = 1; low < 16; ++low)
    for (std::uint64_t high = low; high < 16; ++high)
      for (std::uint64_t const by : {1, 2, 16})
        for (int const below : {1 << 17, 32, 0})
          for (auto const where : {change::directly, change::by_zero, change::at_the_top}) {
            CAPTURE(low);
            CAPTURE(high);
            CAPTURE(by);
            CAPTURE(below);
            CAPTURE(static_cast<int>(where));
            auto const x = of_both_signs<T>(low * part - static_cast<std::uint64_t>(below) + by / 2,
                                            (high + 1) * part - 1, by, where);
            check_blocks(x, x);
          }
}
#endif

TEST_CASE_TEMPLATE("lossless: the format is this", T, float, double) {
  lossless<T> const codec;
  auto const all = fingerprint_of_encodings(
      codec, kinds_of_values, [](int kind) { return values_of_kind<T>(kind, 1500, 9); });
  CHECK(all == (sizeof(T) == 4 ? 6832980651685656169u : 9673596639032915846u));
}
