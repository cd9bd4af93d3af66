/// @file
/// INCEPTIONN's hardware format against bytes made by hand, and between it and the code.

#include <doctest/doctest.h>

#include <cstdint>
#include <hcomp/codec/inceptionn/bursts.hpp>
#include <hcomp/codec/inceptionn/inceptionn.hpp>
#include <hcomp/core/random.hpp>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/inceptionn.hpp>
#include <vector>

using hcomp::inceptionn_bursts;
using hcomp::inceptionn_options;
using hcomp::inceptionn_variant;
using hcomp::simd_level;
using inceptionn::all_settings;
using inceptionn::at_every_level;
using inceptionn::floats;
using inceptionn::same;

namespace {

using bytes = std::vector<std::byte>;

floats decoded(inceptionn_bursts const& codec, bytes const& in, std::size_t n) {
  floats x(n, 77.0f);
  codec.decode(in, x);
  return x;
}
bytes to_encoded(inceptionn_bursts const& codec, bytes const& in, std::size_t n) {
  bytes out(hcomp::inceptionn::capacity(n));
  out.resize(codec.to_encoded(in, n, out));
  return out;
}
bytes from_encoded(inceptionn_bursts const& codec, bytes const& in, std::size_t n) {
  bytes out(inceptionn_bursts::capacity(n));
  out.resize(codec.from_encoded(in, n, out));
  return out;
}

/// A full group, and three values of the next.
floats const eleven{0.0f,           0x1p-10f,        -0x1.8p-10f, 0x1p-5f,    -0.75f,     1.0f,
                    0x1.fffffep-1f, 0x1.fffffep-11f, 0.1f,        0x1.2p-10f, -0x1.6p-10f};

/// The two groups with these payloads.
bytes two_groups(std::vector<int> const& first, std::vector<int> const& second) {
  std::vector<int> all{0x94, 0x2e};  // 0, 1, 1, 2, 2, 3, 2, 0 from the lowest bits on
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), {0x16, 0});  // 2, 1, 1
  all.insert(all.end(), second.begin(), second.end());
  all.resize(32);
  return inceptionn::as_bytes(all);
}

}  // namespace

TEST_CASE("inceptionn bursts: these values are these bytes") {
  auto const nearest = hcomp::inceptionn_rounding::nearest;
  struct {
    inceptionn_options options;
    bytes expected;
    floats values;
  } const known[] = {
      {{},
       two_groups({4, 0x86, 0, 4, 0, 0xe0, 0, 0, 0x80, 0x3f, 0xff, 0x7f}, {0xcc, 0x0c, 4, 0x85}),
       {0, 0x1p-10f, -0x1.8p-10f, 0x1p-5f, -0.75f, 1, 32767 * 0x1p-15f, 0, 3276 * 0x1p-15f,
        4 * 0x1p-12f, -5 * 0x1p-12f}},
      {{.rounding = nearest},  // 4.5 is a tie, as is 5.5; the largest multiple stays
       two_groups({4, 0x86, 0, 4, 0, 0xe0, 0, 0, 0x80, 0x3f, 0xff, 0x7f}, {0xcd, 0x0c, 4, 0x86}),
       {0, 0x1p-10f, -0x1.8p-10f, 0x1p-5f, -0.75f, 1, 32767 * 0x1p-15f, 0, 3277 * 0x1p-15f,
        4 * 0x1p-12f, -6 * 0x1p-12f}},
      {{.variant = inceptionn_variant::as_drawn},  // 8 bits are too coarse for small values
       two_groups({0, 0x80, 0, 4, 0, 0xe0, 0, 0, 0x80, 0x3f, 0xff, 0x7f}, {0xcc, 0x0c, 0, 0x80}),
       {0, 0, 0, 0x1p-5f, -0.75f, 1, 32767 * 0x1p-15f, 0, 3276 * 0x1p-15f, 0, 0}},
      {{.variant = inceptionn_variant::grace},  // which are read as half a unit
       two_groups({0, 0x80, 0, 2, 0, 0xb0, 0, 0, 0x80, 0x3f, 0xff, 0x3f}, {0x66, 0x06, 0, 0x80}),
       {0, 0x1p-7f, -0x1p-7f, 0x1p-5f, -0.75f, 1, 16383 * 0x1p-14f, 0, 1638 * 0x1p-14f, 0x1p-7f,
        -0x1p-7f}},
  };
  for (auto const& one : known) {
    CAPTURE(hcomp::detail::inceptionn::text_of(one.options));
    at_every_level([&](simd_level level) {
      inceptionn_bursts const codec(one.options, level);
      CHECK(inceptionn::encoded(codec, eleven) == one.expected);
      CHECK(same(decoded(codec, one.expected, eleven.size()), one.values));
    });
  }
}

TEST_CASE("inceptionn bursts: groups cross bursts, and the last is filled up") {
  inceptionn_bursts const codec;
  CHECK(inceptionn::encoded(codec, {}).empty());
  CHECK(inceptionn_bursts::capacity(0) == 0);
  CHECK(inceptionn_bursts::capacity(1) == 64);
  std::vector<int> large{0xff, 0xff};
  for (int i = 0; i < 8; ++i) large.insert(large.end(), {0, 0, 0xa0, 0xbf});
  large.resize(64);
  CHECK(inceptionn::encoded(codec, floats(8, -1.25f)) == inceptionn::as_bytes(large));
  // tags alone: 16 groups in one burst
  CHECK(inceptionn::encoded(codec, floats(128)) == bytes(32));
  CHECK(inceptionn::encoded(codec, floats(129)) == bytes(64));
  CHECK(inceptionn::encoded(codec, floats(1024 * 16, 2.0f)).size() ==
        inceptionn_bursts::capacity(1024 * 16));
}

TEST_CASE("inceptionn bursts: what is in the code, byte for byte, and back") {
  for (auto options : all_settings({1, 10, 14}))
    for (std::size_t const n : {0, 1, 7, 8, 9, 15, 1023, 1024, 1025, 3000}) {
      CAPTURE(hcomp::detail::inceptionn::text_of(options));
      CAPTURE(n);
      options.prescale = n % 2 == 0 ? 3 : 0;
      auto const x = inceptionn::mixed(n, {.seed = 21 + n});
      hcomp::inceptionn const codec(options);
      auto const expected = inceptionn::encoded(codec, x);
      floats values(n);
      codec.decode(expected, values);
      inceptionn_bursts const reference(options, simd_level::baseline);
      auto const bursts = inceptionn::encoded(reference, x);
      at_every_level([&](simd_level level) {
        inceptionn_bursts const hardware(options, level);
        CHECK(inceptionn::encoded(hardware, x) == bursts);
        CHECK(same(decoded(hardware, bursts, n), values));
        CHECK(to_encoded(hardware, bursts, n) == expected);
        auto const back = from_encoded(hardware, expected, n);
        CHECK(same(decoded(hardware, back, n), values));
        // one value alone may be stored as a float, which has no tag
        if (options.variant == inceptionn_variant::within_bound || n % 1024 != 1)
          CHECK(back == bursts);
      });
    }
}

TEST_CASE("inceptionn bursts: of chunks that the code stores as floats nothing is lost") {
  floats x(1500, 3.0f);
  for (std::size_t i = 0; i < 60; ++i) x[i * 23] = i % 2 == 0 ? 0.003f : -0.02f;
  for (auto const& options : all_settings({10})) {
    CAPTURE(hcomp::detail::inceptionn::text_of(options));
    hcomp::inceptionn const codec(options);
    inceptionn_bursts const hardware(options);
    auto const expected = inceptionn::encoded(codec, x);
    CHECK(expected.size() == hcomp::inceptionn::capacity(x.size()));
    auto const bursts = inceptionn::encoded(hardware, x);
    floats values(x.size());
    codec.decode(expected, values);
    CHECK(same(decoded(hardware, bursts, x.size()), values));
    CHECK(to_encoded(hardware, bursts, x.size()) == expected);
    CHECK(same(decoded(hardware, from_encoded(hardware, expected, x.size()), x.size()), values));
    if (options.variant == inceptionn_variant::within_bound)
      CHECK(from_encoded(hardware, expected, x.size()) == bursts);
  }
}

TEST_CASE("inceptionn bursts: damage is an error with its place") {
  inceptionn_bursts const codec;
  auto const good = inceptionn::encoded(codec, eleven);
  auto const refused = [&](bytes const& in, std::size_t n) {
    floats x(n, 5.0f);
    try {
      codec.decode(in, x);
    } catch (hcomp::wire_error const& error) {
      CHECK(same(x, floats(n, 5.0f)));
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(good, 11).empty());
  CHECK(refused(good, 10) == "inceptionn_bursts: tags 22 for the last 2 values");
  CHECK(refused({}, 11) == "inceptionn_bursts: value 0 of 11 at byte 0 of 0");
  CHECK(refused({good.begin(), good.begin() + 13}, 11) ==
        "inceptionn_bursts: value 0 of 11 at byte 0 of 13");
  CHECK(refused({good.begin(), good.begin() + 31}, 11) ==
        "inceptionn_bursts: 31 bytes for 11 values that end at byte 20");
  auto longer = good;
  longer.resize(64);
  CHECK(refused(longer, 11) == "inceptionn_bursts: 64 bytes for 11 values that end at byte 20");
  auto dirty = good;
  dirty[30] = std::byte{7};
  CHECK(refused(dirty, 11) ==
        "inceptionn_bursts: byte 30 fills up the last burst, and is not 0 but 7");
  bytes out(63);
  CHECK_THROWS_WITH_AS(codec.encode(eleven, out),
                       "inceptionn_bursts::encode: 63 bytes for 11 values; it takes 96",
                       std::invalid_argument);
}

TEST_CASE(
    "inceptionn bursts: of damaged, cut and random bytes nothing comes but an error or values") {
  inceptionn_bursts const codec;
  auto const good = inceptionn::encoded(codec, inceptionn::mixed(203, {.seed = 22}));
  int refused = 0, accepted = 0;
  floats y(203);
  bytes expected(hcomp::inceptionn::capacity(y.size()));
  for (std::uint64_t turn = 0; turn < 5'000; ++turn) {
    auto const in = inceptionn::damaged(good, hcomp::mix(turn + 30'001));
    y.assign(y.size(), 5.0f);
    try {
      codec.to_encoded(in, y.size(), expected);
      codec.decode(in, y);
      ++accepted;
    } catch (hcomp::wire_error const&) {
      ++refused;
      CHECK(same(y, floats(y.size(), 5.0f)));
    }
  }
  CHECK(accepted > 500);
  CHECK(refused > 500);
}
