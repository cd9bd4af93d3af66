#pragma once
/// @file
/// Checks every kind of invalid saved state.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/feedback/detail/saved_state.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::testing {

/// Checks that `state` refuses everything except its own saved state, with texts that begin with
/// `start`.
/// @param saved        a valid state of `values` values of `value_bytes` bytes
/// @param other_kind   the kind of another class
template <class State>
void check_refusals(State& state, std::vector<std::byte> const& saved, std::string const& start,
                    std::uint16_t other_kind, std::size_t value_bytes, std::size_t values) {
  auto const refused = [&](std::vector<std::byte> const& bytes, std::string const& text) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(state.restore(bytes), (start + text).c_str(), std::invalid_argument);
  };
  auto const with = [&](auto const& change) {
    auto bytes = saved;
    auto header = load<detail::saved_state_header>(bytes.data());
    change(header);
    store(bytes.data(), 0, header);
    return bytes;
  };
  auto const kind = load<detail::saved_state_header>(saved.data()).kind;
  auto const number = [](auto value) { return std::to_string(value); };

  refused({}, "0 bytes are less than a header of 40");
  refused({saved.begin(), saved.begin() + 39}, "39 bytes are less than a header of 40");
  refused(with([](auto& header) { header.magic ^= 1; }), "not a state of version 1");
  refused(with([](auto& header) { header.version = 2; }), "not a state of version 1");
  refused(with([&](auto& header) { header.kind = other_kind; }),
          "the state is of kind " + number(other_kind) + ", this is kind " + number(kind));
  refused(with([](auto& header) { header.value_bytes = 16; }),
          "its values have 16 bytes, " + number(value_bytes) + " are expected");
  refused(with([](auto& header) { header.values -= 1; }),
          "it has " + number(values - 1) + " values, the tensor has " + number(values));
  auto longer = saved;
  longer.emplace_back();
  refused(longer, "it has " + number(saved.size() + 1) + " bytes, " + number(saved.size()) +
                      " are expected");
  refused({saved.begin(), saved.end() - 1}, "it has " + number(saved.size() - 1) + " bytes, " +
                                                number(saved.size()) + " are expected");
  refused(with([](auto& header) { header.fingerprint ^= 1; }),
          "its values do not match their fingerprint");
  auto damaged = saved;
  damaged.back() ^= std::byte{4};
  refused(damaged, "its values do not match their fingerprint");
}

}  // namespace hcomp::testing
