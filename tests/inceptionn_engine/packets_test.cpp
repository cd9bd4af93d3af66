/// @file
/// INCEPTIONN's engine against inceptionn_bursts: packets in, packets out.

// optimise: -O1

#include <doctest/doctest.h>

#include <Vinceptionn_compressor.h>
#include <Vinceptionn_decompressor.h>

#include <cstdint>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <inceptionn_engine/simulation.hpp>
#include <string>
#include <vector>

using engine::packet;
using engine::stalls;
using hcomp::inceptionn_options;
using inceptionn::floats;
using compressor = engine::simulation<Vinceptionn_compressor>;
using decompressor = engine::simulation<Vinceptionn_decompressor>;

namespace {

/// The settings that the engine has.
std::vector<inceptionn_options> all_settings() {
  std::vector<inceptionn_options> all;
  for (auto const& options :
       inceptionn::all_settings({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}))
    if (options.variant != hcomp::inceptionn_variant::grace &&
        options.rounding == hcomp::inceptionn_rounding::truncate)
      all.push_back(options);
  return all;
}

/// Values of one packet: of all tags, of one tag alone, or of few magnitudes.
floats values_of(std::size_t n, std::uint64_t seed) {
  switch (hcomp::mix(seed) % 5) {
    case 0: return floats(n, seed % 2 == 0 ? 0.0f : 1e-9f);
    case 1: return floats(n, -1.25f);
    case 2: return inceptionn::normal(n, 0.01, {.seed = seed});
    default: return inceptionn::mixed(n, {.seed = seed});
  }
}
std::size_t length(std::uint64_t seed) {
  auto const random = hcomp::mix(seed + 4711);
  return 1 + static_cast<std::size_t>((random >> 8) % (random % 4 == 0 ? 400 : 40));
}

std::size_t differences(std::vector<packet> const& a, std::vector<packet> const& b) {
  CHECK(a.size() == b.size());
  std::size_t count = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += !(a[i] == b[i]);
  return count;
}

constexpr stalls all_stalls[] = {{0, 0}, {128, 0}, {0, 128}, {100, 100}, {230, 20}, {20, 230}};

}  // namespace

TEST_CASE("engine: packets become what inceptionn_bursts makes of them, and values again") {
  std::uint64_t seed = 1;
  for (auto const& options : all_settings())
    for (auto const how : all_stalls) {
      CAPTURE(hcomp::detail::inceptionn::text_of(options));
      CAPTURE(how.before);
      CAPTURE(how.behind);
      std::vector<packet> plain, coded, decoded;
      for (int i = 0; i < 12; ++i, ++seed) {
        auto const x = values_of(length(seed), seed);
        plain.push_back(engine::of_values(x, seed));
        coded.push_back(engine::of_bursts(x, options, seed));
        decoded.push_back(engine::of_decoded(x, options, seed));
      }
      compressor to_bursts(seed);
      to_bursts.set(options);
      CHECK(differences(to_bursts.run(plain, how), coded) == 0);
      decompressor to_values(seed);
      to_values.set(options);
      CHECK(differences(to_values.run(coded, how), decoded) == 0);
    }
}
