/// @file
/// For any bytes, INCEPTIONN's decoders throw wire_error or return a vector, the same with all
/// instruction sets. The vector can be added, encoded and decoded again.
///
/// The first byte of an input selects the meaning of the remaining bytes: an encoded vector,
/// bursts, or floats. The test encodes these floats and damages the result in a few places, which
/// passes more checks than random bytes.

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>

#include "fuzzing.hpp"

namespace {

using namespace fuzzing;
using hcomp::inceptionn;
using hcomp::inceptionn_bursts;
using hcomp::inceptionn_options;
using hcomp::simd_level;

/// Checks the properties of any values.
void values(inceptionn const& codec, inceptionn const& reference, floats const& x) {
  bytes const code = encoded(codec, x);
  require(code == encoded(reference, x), "all instruction sets encode alike");
  floats const y = decoded(codec, code, x.size());
  floats const z = decoded(codec, encoded(codec, y), x.size());
  require(same(y, z), "encoding again changes nothing");
  inceptionn_bursts const hardware(codec.options());
  bytes const bursts = written(hardware.capacity(x.size()), [&](bytes& out) {
    return hardware.from_encoded(code, x.size(), out);
  });
  require(same(decoded(hardware, bursts, x.size()), y), "bursts hold what the code holds");
}

void code(input in, simd_level level) {
  hcomp::inceptionn_info info;
  try {
    info = inceptionn::peek(in);
  } catch (hcomp::wire_error const&) {
    floats none;
    require(refuses([&] { inceptionn().decode(in, none); }), "decode checks the header");
    return;
  }
  inceptionn const codec(info.options, level);
  inceptionn const reference(info.options, simd_level::baseline);
  std::size_t const n = info.values;
  if (n > 4 * in.size()) {  // the input cannot contain n tags
    require(refuses([&] { codec.check(in, n); }), "codes have a tag for every value");
    return;
  }
  floats x(n, 5.0f);
  try {
    codec.decode(in, x);
  } catch (hcomp::wire_error const&) {
    require(same(x, floats(n, 5.0f)), "a damaged code changes nothing");
    require(refuses([&] { codec.check(in, n); }), "check refuses what decode refuses");
    require(refuses([&] { codec.decode_add(in, x); }), "so does decode_add");
    return;
  }
  require(same(x, decoded(reference, in, n)), "all instruction sets decode alike");
  floats sums(n, 0.25f);
  codec.decode_add(in, sums);
  floats const ones(n, 0.25f);
  bytes const next = written(codec.capacity(n),
                             [&](bytes& out) { return codec.decode_add_encode(in, ones, out); });
  require(next == encoded(reference, sums), "a hop encodes the sums");
  bytes bursts(inceptionn_bursts::capacity(n));
  bursts.resize(inceptionn_bursts(info.options).from_encoded(in, n, bursts));
  inceptionn_bursts::check(bursts, n);
  values(codec, reference, x);
}

void bursts(input in, inceptionn_options const& options, simd_level level) {
  std::size_t const n = take<std::uint16_t>(in) % 4096;
  inceptionn_bursts const hardware(options, level);
  inceptionn const codec(options, level), reference(options, simd_level::baseline);
  floats x(n, 5.0f);
  try {
    hardware.decode(in, x);
  } catch (hcomp::wire_error const&) {
    require(same(x, floats(n, 5.0f)), "damaged bursts change nothing");
    require(refuses([&] { hardware.check(in, n); }), "check refuses what decode refuses");
    return;
  }
  bytes const code =
      written(codec.capacity(n), [&](bytes& out) { return hardware.to_encoded(in, n, out); });
  require(same(decoded(reference, code, n), x), "the code holds what the bursts hold");
  values(codec, reference, x);
}

void damaged(input in, inceptionn_options const& options, simd_level level) {
  damage const changes(in);
  floats const x = take_floats(in);
  inceptionn const codec(options, level);
  values(codec, inceptionn(options, simd_level::baseline), x);
  bytes all = encoded(codec, x);
  changes.apply(all);
  code(all, level);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  input in(reinterpret_cast<std::byte const*>(data), size);
  unsigned const what = take<std::uint8_t>(in);
  auto const level = level_of(what / 4);
  if (what % 4 == 0) {
    code(in, level);
    return 0;
  }
  unsigned const kind = take<std::uint8_t>(in);
  inceptionn_options const options{
      .bound_exponent = 1 + static_cast<int>(kind / 6 % 14),
      .prescale = take<std::int8_t>(in) % 65,
      .variant = static_cast<hcomp::inceptionn_variant>(kind % 3),
      .rounding = static_cast<hcomp::inceptionn_rounding>(kind / 3 % 2)};
  if (what % 4 == 1) {
    bursts(in, options, level);
  } else {
    damaged(in, options, level);
  }
  return 0;
}
