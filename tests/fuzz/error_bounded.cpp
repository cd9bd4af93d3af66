/// @file
/// For any bytes, error_bounded throws wire_error or returns a vector, the same with all
/// instruction sets. For any floats, the bound holds.
///
/// The first byte of an input selects the meaning of the remaining bytes. They are an encoded
/// vector, or floats of two ranks. The test encodes, merges and then damages these floats in a few
/// places, which passes more checks than random bytes.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/error_bounded/error_bounded.hpp>
#include <optional>

#include "fuzzing.hpp"

namespace {

using namespace fuzzing;
using hcomp::error_bounded;
using hcomp::error_bounded_options;
using hcomp::simd_level;

/// The same codec with and without SIMD.
struct codecs {
  error_bounded<> codec, reference;

  codecs(error_bounded_options const& options, simd_level level)
      : codec(options, level), reference(options, simd_level::baseline) {}
};

/// True if `in` has a byte for every 32 values.
bool may_have(input in, std::size_t values) { return values / 32 <= in.size(); }

/// Returns the encoded vector that add(codec, out) makes of `values` values, equal with both
/// codecs; nothing if both refuse.
template <class Add>
std::optional<bytes> sum_of(codecs const& by, std::size_t values, Add const& add) {
  auto const one = [&](error_bounded<> const& codec) -> std::optional<bytes> {
    bytes sum;
    if (refuses([&] {
          sum = written(codec.capacity(values), [&](bytes& out) { return add(codec, out); });
        }))
      return {};
    codec.check(sum, values);
    return sum;
  };
  auto const sum = one(by.codec);
  require(sum == one(by.reference), "all instruction sets add alike");
  return sum;
}
std::optional<bytes> merged(codecs const& by, input a, input b) {
  std::size_t values = 0;
  if (!refuses([&] { values = error_bounded<>::peek(a).values; }) && !may_have(a, values))
    values = 0;  // merge detects the error before it writes
  return sum_of(by, values,
                [&](error_bounded<> const& codec, bytes& out) { return codec.merge(a, b, out); });
}
/// Merges any two encoded vectors, valid or damaged.
std::optional<bytes> merged_in_both_orders(codecs const& by, input a, input b) {
  auto const sum = merged(by, a, b);
  require(sum == merged(by, b, a), "the order makes no difference");
  if (sum)
    require(error_bounded<>::peek(*sum).weight ==
                error_bounded<>::peek(a).weight + error_bounded<>::peek(b).weight,
            "a sum has the ranks of both");
  return sum;
}

/// Checks the properties of any values; returns the encoded vector.
bytes values(codecs const& by, floats const& x) {
  bytes code = encoded(by.codec, x);
  require(code == encoded(by.reference, x), "all instruction sets encode alike");
  require(code.size() <= by.codec.capacity(x.size()), "capacity is enough");
  floats const y = decoded(by.codec, code, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const error = std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i]));
    require(std::isnan(x[i])   ? std::isnan(y[i])
            : std::isinf(x[i]) ? y[i] == x[i]
                               : error <= by.codec.options().bound,
            "a rank's values are within the bound");
  }
  auto const info = error_bounded<>::peek(code);
  require(info.weight == 1 && info.float_additions == 0, "a rank's code is of one rank");
  require(info.has_floats || info.error <= info.options.bound, "integers are within the bound");
  for (std::size_t i = 0; i < x.size(); ++i)
    require(!std::isfinite(x[i]) ||
                std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])) <= info.error,
            "a rank's code says how far its values are off");
  require(same(decoded(by.codec, encoded(by.codec, y), x.size()), y),
          "encoding again changes nothing");
  return code;
}

void code(input in, simd_level level) {
  hcomp::error_bounded_info info;
  floats none;
  try {
    info = error_bounded<>::peek(in);
  } catch (hcomp::wire_error const&) {
    codecs const by({}, level);
    require(refuses([&] { by.codec.decode(in, none); }), "decode checks the header");
    require(!merged(by, in, in), "so does merge");
    return;
  }
  codecs const by(info.options, level);
  std::size_t const n = info.values;
  if (!may_have(in, n)) {
    require(refuses([&] { by.codec.check(in, n); }), "codes have a byte for every 32 values");
    require(!merged(by, in, in), "merge checks that");
    return;
  }
  floats x(n, 5.0f);
  floats const ones(n, 0.25f);
  auto const hop = [&](error_bounded<> const& codec, bytes& out) {
    return codec.decode_add_encode(in, ones, out);
  };
  try {
    by.codec.decode(in, x);
  } catch (hcomp::wire_error const&) {
    require(same(x, floats(n, 5.0f)), "a damaged code changes nothing");
    require(refuses([&] { by.codec.check(in, n); }), "check refuses what decode refuses");
    require(refuses([&] { by.codec.decode_add(in, x); }), "so does decode_add");
    require(!sum_of(by, n, hop), "so does decode_add_encode");
    require(!merged_in_both_orders(by, in, encoded(by.codec, ones)), "so does merge");
    return;
  }
  require(same(x, decoded(by.reference, in, n)), "all instruction sets decode alike");
  floats sums = ones, expected = ones;
  by.codec.decode_add(in, sums);
  for (std::size_t i = 0; i < n; ++i) {
    expected[i] += x[i];
    if (std::isnan(expected[i])) expected[i] = hcomp::same_bits<float>(0x7fc00000u);
  }
  require(same(sums, expected), "decode_add adds what decode gives");
  auto const next = sum_of(by, n, hop);
  auto const sum = merged_in_both_orders(by, in, encoded(by.codec, ones));
  // With damaged input, one codec may refuse a merge beyond its ranks that the other accepts. The
  // bytes may also differ for a -0, which no encoder writes.
  if (next && sum)
    require(same(decoded(by.codec, *next, n), decoded(by.codec, *sum, n)), "a hop adds as merge");
  values(by, x);
}

/// The same values with the fallback codec, whose encoded vectors are damaged, too.
void fallback(error_bounded_options const& options, floats const& x, floats const& y,
              damage const& to_a, damage const& to_b) {
  hcomp::error_bounded_fallback const codec(options);
  bytes const a = encoded(codec, x), b = encoded(codec, y);
  auto const sum_of = [&](input one, input other) {
    return written(codec.capacity(x.size()),
                   [&](bytes& out) { return codec.merge(one, other, out); });
  };
  bytes const sum = sum_of(a, b);
  require(sum == sum_of(b, a), "the order makes no difference");
  floats const answer = decoded(codec, sum, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const exact = static_cast<double>(x[i]) + static_cast<double>(y[i]);
    require(!std::isfinite(exact) || std::fabs(static_cast<double>(answer[i]) - exact) <=
                                         codec.error_of(sum) + 0x1p-52 * std::fabs(exact),
            "sums say how far they are off");
  }
  bytes all[] = {a, b};
  to_a.apply(all[0]);
  to_b.apply(all[1]);
  for (auto const& one : all) {
    floats z(x.size(), 5.0f);
    if (refuses([&] { codec.decode(one, z); }))
      require(same(z, floats(x.size(), 5.0f)), "a damaged code changes nothing");
    bytes both;
    if (!refuses([&] { both = sum_of(sum, one); })) codec.check(both, x.size());
    // Otherwise both headers may contain another number of values, for which `both` has no
    // capacity.
    if (refuses([&] { codec.check(all[1], x.size()); })) continue;
    if (!refuses([&] { both = sum_of(all[0], all[1]); })) codec.check(both, x.size());
  }
}

void damaged(input in, error_bounded_options const& options, simd_level level) {
  damage const to_a(in), to_b(in);
  floats x = take_floats(in);
  std::size_t const n = x.size() / 2;
  floats const y(x.begin() + static_cast<std::ptrdiff_t>(n),
                 x.begin() + static_cast<std::ptrdiff_t>(2 * n));
  x.resize(n);
  codecs const by(options, level);
  bytes a = values(by, x), b = values(by, y);
  auto const sum = merged_in_both_orders(by, a, b);
  require(sum.has_value(), "two ranks are added");
  require(sum == sum_of(by, n,
                        [&](error_bounded<> const& codec, bytes& out) {
                          return codec.decode_add_encode(a, y, out);
                        }),
          "a hop is encode and merge");
  auto const info = error_bounded<>::peek(*sum);
  floats const answer = decoded(by.codec, *sum, n);
  for (std::size_t i = 0; i < n; ++i) {
    double const exact = static_cast<double>(x[i]) + static_cast<double>(y[i]);
    if (!std::isfinite(exact)) continue;
    // `exact` is rounded to double.
    double const error =
        std::fabs(static_cast<double>(answer[i]) - exact) - 0x1p-52 * std::fabs(exact);
    require(info.float_additions > 0 || error <= options.bound, "sums are within the bound");
    require(error <= info.error, "sums say how far they are off");
  }
  fallback(options, x, y, to_a, to_b);
  bytes all = *sum;
  to_b.apply(all);
  code(all, level);
  to_a.apply(a);
  code(a, level);
  to_b.apply(b);
  merged_in_both_orders(by, a, b);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  input in(reinterpret_cast<std::byte const*>(data), size);
  unsigned const what = take<std::uint8_t>(in);
  auto const level = level_of(what / 2);
  if (what % 2 == 0) {
    code(in, level);
    return 0;
  }
  int const bits = 10 + take<std::uint8_t>(in) % 13;
  unsigned const ranks = 2 + take<std::uint8_t>(in) % ((1u << (28 - bits)) - 1);
  double const mantissa = 1 + take<std::uint8_t>(in) / 256.0;
  double const bound = std::ldexp(mantissa, take<std::int8_t>(in) % 90);
  damaged(in, {.bound = bound, .ranks = ranks, .magnitude_bits = bits}, level);
  return 0;
}
