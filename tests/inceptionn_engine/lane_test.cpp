/// @file
/// One lane of INCEPTIONN's engine compared with the codec, value by value.

// optimise: -O1

#include <doctest/doctest.h>

#include <Vlane_pair.h>

#include <cstdint>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/codec/inceptionn/options.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/random.hpp>
#include <vector>

namespace {

using hcomp::inceptionn_variant;
namespace reference = hcomp::detail::inceptionn;

template <class F> void with_every_setting(F const& f) {
  for (auto const variant : {inceptionn_variant::within_bound, inceptionn_variant::as_drawn})
    for (int exponent = 1; exponent <= 14; ++exponent) {
      hcomp::inceptionn_options const options{.bound_exponent = exponent, .variant = variant};
      CAPTURE(reference::text_of(options));
      Vlane_pair lane;
      lane.bound_exponent = static_cast<std::uint8_t>(exponent);
      lane.as_drawn = variant == inceptionn_variant::as_drawn;
      f(lane, reference::rule_of(options));
    }
}

/// Zeros, denormals, infinities, NaNs, and all powers of two with their neighbours.
std::vector<std::uint32_t> special_values() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (std::uint32_t const sign : {0u, 1u})
      for (std::uint32_t const fraction :
           {0u, 1u, 0xffu, 0x100u, 0x1ffu, 0x200u, 0xffffu, 0x10000u, 0x155555u, 0x2aaaaau,
            0x3fffffu, 0x400000u, 0x7ffeffu, 0x7fff00u, 0x7ffffeu, 0x7fffffu})
        all.push_back(sign << 31 | exponent << 23 | fraction);
  return all;
}

}  // namespace

TEST_CASE("engine: a lane encodes as the codec does") {
  auto values = special_values();
  for (std::uint64_t i = 0; i < 20'000; ++i) {  // magnitudes that give all tags
    auto const random = hcomp::mix(i + 71);
    values.push_back(
        static_cast<std::uint32_t>((random & 0x807fffffu) | (107 + (random >> 32) % 23) << 23));
  }
  with_every_setting([&](Vlane_pair& lane, reference::value_rule const& rule) {
    std::size_t differences = 0, of_tag[4] = {};
    for (auto const value : values) {
      lane.value = value;
      lane.eval();
      unsigned const tag = reference::tag_of(rule, value);
      ++of_tag[tag];
      differences +=
          lane.sent_tag != tag || lane.sent_payload != reference::payload_of(rule, value, tag);
    }
    CHECK(differences == 0);
    for (unsigned tag = 0; tag < 4; ++tag)
      CHECK((of_tag[tag] > 0 || (tag == 2 && rule.middle == reference::whole_exponent)));
  });
}

TEST_CASE("engine: a lane decodes every payload of 8 and 16 bits as the codec does") {
  with_every_setting([](Vlane_pair& lane, reference::value_rule const& rule) {
    std::size_t differences = 0;
    auto const compare = [&](unsigned tag, std::uint32_t payload, std::uint32_t noise) {
      lane.came_tag = static_cast<std::uint8_t>(tag);
      lane.came_payload = payload | noise;
      lane.eval();
      auto const value = reference::value_of(rule, tag, payload);
      differences += lane.came_value != hcomp::same_bits<std::uint32_t>(value);
    };
    for (std::uint32_t payload = 0; payload < 1u << 16; ++payload) {
      auto const noise = static_cast<std::uint32_t>(hcomp::mix(payload));
      compare(0, 0, noise);
      if (payload < 256) compare(1, payload, noise & 0xffffff00u);
      compare(2, payload, noise & 0xffff0000u);
    }
    for (auto const value : special_values()) compare(3, value, 0);
    CHECK(differences == 0);
  });
}
