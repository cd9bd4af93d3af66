/// @file
/// INCEPTIONN's engine compared with inceptionn_bursts: packets in, packets out.

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

/// All settings of the engine.
std::vector<inceptionn_options> all_settings() {
  std::vector<inceptionn_options> all;
  for (auto const& options :
       inceptionn::all_settings({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}))
    if (options.variant != hcomp::inceptionn_variant::grace &&
        options.rounding == hcomp::inceptionn_rounding::truncate)
      all.push_back(options);
  return all;
}

/// Values of one packet: of all tags, of one tag only, or of few magnitudes.
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

/// A packet that must pass unencoded: one of nine properties is wrong.
packet other_packet(floats const& x, std::uint64_t seed) {
  auto one = engine::of_values(x, seed);
  auto& bytes = one.content;
  auto const bit = static_cast<std::byte>(1u << hcomp::mix(seed) % 8);
  switch (seed % 9) {
    case 0: bytes[15] ^= bit; break;  // type of service
    case 1: bytes[12] ^= bit; break;  // not IPv4
    case 2: bytes[13] ^= bit; break;
    case 3: bytes[14] ^= bit; break;           // header not of 20 bytes
    case 4: bytes[17] ^= std::byte{1}; break;  // an incomplete value
    case 5: bytes[17] ^= std::byte{2}; break;
    case 6:  // no value, or fewer
      bytes[16] = std::byte{0};
      bytes[17] = static_cast<std::byte>(hcomp::mix(seed) % (engine::header_length + 1));
      break;
    case 7: bytes[15] ^= bit, bytes.resize(64); break;
    case 8: bytes[15] ^= bit, bytes.resize(18 + hcomp::mix(seed) % 46); break;
  }
  if (bytes.size() > 64) bytes.resize(bytes.size() - hcomp::mix(seed) % 4);
  return one;
}

/// Packets before the compressor, after it, and after the decompressor.
struct journey {
  std::vector<packet> plain, coded, decoded;

  void add_values(floats const& x, inceptionn_options const& options, std::uint64_t seed) {
    plain.push_back(engine::of_values(x, seed));
    coded.push_back(engine::of_bursts(x, options, seed));
    decoded.push_back(engine::of_decoded(x, options, seed));
  }
  void add_other(packet const& one) {
    for (auto* list : {&plain, &coded, &decoded}) list->push_back(one);
  }
  void check(compressor& to_bursts, decompressor& to_values, stalls how,
             std::vector<std::uint8_t> const& settings = {}) const {
    CAPTURE(how.before);
    CAPTURE(how.behind);
    CHECK(differences(to_bursts.run(plain, how, settings), coded) == 0);
    CHECK(differences(to_values.run(coded, how, settings), decoded) == 0);
  }
};

constexpr stalls all_stalls[] = {{0, 0}, {128, 0}, {0, 128}, {100, 100}, {230, 20}, {20, 230}};

}  // namespace

TEST_CASE("engine: encodes packets as inceptionn_bursts does, and decodes them") {
  std::uint64_t seed = 1;
  for (auto const& options : all_settings()) {
    CAPTURE(hcomp::detail::inceptionn::text_of(options));
    compressor to_bursts(seed);
    decompressor to_values(seed);
    to_bursts.set(options);
    to_values.set(options);
    for (auto const how : all_stalls) {
      journey all;
      for (int i = 0; i < 60; ++i, ++seed)
        all.add_values(values_of(length(seed), seed), options, seed);
      all.check(to_bursts, to_values, how);
    }
  }
}

TEST_CASE("engine: other packets pass, whatever they contain") {
  std::uint64_t seed = 100'000;
  compressor to_bursts(seed);
  decompressor to_values(seed);
  inceptionn_options const options{.bound_exponent = 8};
  to_bursts.set(options);
  to_values.set(options);
  for (auto const how : all_stalls) {
    journey all;
    for (int i = 0; i < 1'000; ++i, ++seed) {
      auto const x = values_of(length(seed), seed);
      if (hcomp::mix(seed) % 3 == 0) {
        all.add_values(x, options, seed);
      } else {
        all.add_other(other_packet(x, seed));
      }
    }
    all.check(to_bursts, to_values, how);
  }
}

TEST_CASE("engine: a setting applies from the next packet on") {
  std::uint64_t seed = 200'000;
  auto const some = all_settings();
  compressor to_bursts(seed);
  decompressor to_values(seed);
  for (auto const how : all_stalls) {
    journey all;
    std::vector<std::uint8_t> settings;
    for (int i = 0; i < 500; ++i, ++seed) {
      auto const x = values_of(length(seed), seed);
      auto const random = hcomp::mix(seed + 5) % (some.size() + 4);
      if (random < some.size()) {
        settings.push_back(engine::setting_of(some[random]));
        all.add_values(x, some[random], seed);
      } else {
        std::uint8_t const off[] = {0, 15, 16, 31};
        settings.push_back(off[random - some.size()]);
        all.add_other(engine::of_values(x, seed));
      }
    }
    all.check(to_bursts, to_values, how, settings);
  }
}

TEST_CASE("engine: the default setting is that of inceptionn_options") {
  compressor to_bursts(1);
  decompressor to_values(1);
  journey all;
  all.add_values(values_of(100, 3), {}, 1);
  all.check(to_bursts, to_values, {});
}

TEST_CASE("engine: packets that inceptionn_bursts refuses are marked, and keep their length") {
  std::uint64_t seed = 300'000;
  inceptionn_options const options{.bound_exponent = 6};
  hcomp::inceptionn_bursts const codec(options);
  decompressor to_values(seed);
  to_values.set(options);
  std::size_t refused = 0, accepted = 0;
  for (auto const how : all_stalls) {
    std::vector<packet> coded, decoded;
    for (int i = 0; i < 1'500; ++i, ++seed) {
      auto const x = values_of(length(seed), seed);
      auto bursts = inceptionn::encoded(codec, x);
      auto const random = hcomp::mix(seed + 9);
      auto const place = (random >> 8) % bursts.size();
      switch (random % 6) {
        case 0: bursts[place] ^= static_cast<std::byte>(1u << (random >> 40) % 8); break;
        case 1: bursts[place % 34 % bursts.size()] = static_cast<std::byte>(random >> 40); break;
        case 2: bursts.resize(bursts.size() + 1 + (random >> 40) % 100); break;
        case 3: bursts.resize(place); break;  // may leave nothing
        case 4: bursts.resize(place / 32 * 32); break;
        default: break;  // undamaged packets between them
      }
      auto const header = engine::header(x.size() * sizeof(float), engine::type_of_service, seed);
      coded.push_back(engine::with_payload(header, bursts));
      floats y(x.size());
      try {
        codec.decode(bursts, y);
        decoded.push_back(engine::with_payload(header, std::as_bytes(std::span(y))));
        ++accepted;
      } catch (hcomp::wire_error const&) {
        decoded.push_back(coded.back());
        if (!bursts.empty())
          decoded.back().content.resize(header.size() + x.size() * sizeof(float));
        decoded.back().damaged = true;
        ++refused;
      }
    }
    auto came = to_values.run(coded, how);
    CHECK(came.size() == decoded.size());
    for (std::size_t i = 0; i < came.size() && i < decoded.size(); ++i)
      // a damaged packet may contain any values, but its header must be right
      if (came[i].damaged && decoded[i].damaged) {
        CHECK(came[i].content.size() == decoded[i].content.size());
        came[i].content.resize(engine::header_bytes);
        decoded[i].content.resize(engine::header_bytes);
      }
    CHECK(differences(came, decoded) == 0);
  }
  CHECK(refused > 3'000);
  CHECK(accepted > 2'000);
}

TEST_CASE("engine: moves a burst in every clock cycle, plus one cycle per packet") {
  std::uint64_t seed = 400'000;
  compressor to_bursts(seed);
  decompressor to_values(seed);
  struct {
    float first, others;  // values of a packet
    std::size_t packets;
  } const kinds[] = {{0, 0, 40},      {0.003f, 0.003f, 40}, {0.1f, 0.1f, 40}, {-3, -3, 40},
                     {-3, -3, 1},     {0.1f, 0.1f, 1},      {0.003f, -3, 1},  // at odd positions
                     {0.003f, -3, 40}};
  for (auto const& kind : kinds) {
    CAPTURE(kind.first);
    CAPTURE(kind.others);
    journey all;
    std::size_t taken = 0, given = 0;
    for (std::size_t i = 0; i < kind.packets; ++i, ++seed) {
      floats x(365 + i, kind.others);
      x[0] = kind.first;
      all.add_values(x, {}, seed);
      taken += (all.plain.back().content.size() + 31) / 32;
      given += all.coded.back().content.size() / 32;
    }
    auto const came = to_bursts.run(all.plain);
    CHECK(differences(came, all.coded) == 0);
    CHECK(to_bursts.moved.taken == taken);
    CHECK(to_bursts.moved.given == given);
    CHECK(to_bursts.moved.taking_cycles() <= std::max(taken, given) + kind.packets);
    CHECK(to_bursts.moved.giving_cycles() <= std::max(taken, given) + kind.packets);
    auto const back = to_values.run(all.coded);
    CHECK(differences(back, all.decoded) == 0);
    CHECK(to_values.moved.taken == given);
    CHECK(to_values.moved.given == taken);
    CHECK(to_values.moved.taking_cycles() <= std::max(taken, given) + kind.packets);
    CHECK(to_values.moved.giving_cycles() <= std::max(taken, given) + kind.packets);
  }
}
