#pragma once
/// @file
/// Ranks of which several are on one host: what is not compressed passes through memory there.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/host/hierarchical.hpp>
#include <hcomp/host/place.hpp>
#include <hcomp/host/some_ranks.hpp>
#include <hcomp/host/sums.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plain_sum.hpp"

namespace hcomp::drop_in {

/// The ranks of this host, and their peers on others. Refers to the transport.
class host_ranks {
 public:
  /// None on all ranks alike where every host has one, or some share no memory. Collective.
  /// @param timeout  of one wait inside a host
  static std::optional<host_ranks> make(any_transport& transport, tag_t tag,
                                        std::chrono::milliseconds timeout) {
    std::vector<std::uint64_t> places;
    all_gather_records(transport, tag, host::place_of_this_process(), places);
    auto ranks = host::hierarchy::from(places, transport.rank());
    if (ranks.hosts == transport.size()) return std::nullopt;
    host::some_ranks own(transport, ranks.inside);
    auto inside = host::sums::make(own, tag, timeout, ranks.inside);
    std::uint64_t has_failed = !inside;
    unite_records(transport, tag, has_failed, [](auto& a, auto b) { a |= b; });
    if (has_failed) return std::nullopt;
    return host_ranks(transport, std::move(ranks), std::move(*inside));
  }

  bool are_all() const { return ranks_.hosts == 1; }
  /// Of this host, in order.
  host::sums& inside() { return inside_; }

  /// all_reduce_values of all ranks. A value crosses a host's link as often as if the host had one.
  template <class V> void all_reduce(tag_t tag, std::span<V> x, int divisor) {
    if (are_all()) return inside_.all_reduce(x, divisor);
    std::size_t const each = ranks_.share_of_carrier(x.size());
    auto const number = static_cast<std::size_t>(inside_.rank());
    std::size_t const first = between_ ? std::min(x.size(), number * each) : x.size();
    std::size_t const end = between_ ? std::min(x.size(), first + each) : x.size();
    auto const share = x.subspan(first, end - first);
    try {
      // its share of x is read by nobody else, and is a source of the addition only there
      inside_.reduce_scatter(std::span<V const>(x), each, share);
      if (between_) all_reduce_values(*between_, tag, share, divisor);
      inside_.all_gather(x, each);
    } catch (transport_error const& error) {  // ranks that wait for this one, here and elsewhere
      inside_.fail(error.peer(), error.what());
      try {
        all_->revoke(error.what());
      } catch (wire_error const&) {
      }
      throw;
    }
  }

 private:
  host_ranks(any_transport& transport, host::hierarchy ranks, host::sums inside)
      : all_(&transport), ranks_(std::move(ranks)), inside_(std::move(inside)) {
    if (!ranks_.between.empty()) between_.emplace(transport, ranks_.between);
  }

  any_transport* all_;
  host::hierarchy ranks_;
  host::sums inside_;
  std::optional<host::some_ranks> between_;
};

}  // namespace hcomp::drop_in
