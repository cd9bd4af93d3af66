#pragma once
/// @file
/// Numbers by which sums of one program are told apart.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/transport/any_transport.hpp>

namespace hcomp::drop_in {

/// A number that no other handle of this process has, nor of any other rank of `transport`: as
/// call_options::tensor it makes the random draws of different handles independent. Collective; the
/// first is 0.
inline std::uint64_t next_handle_number(any_transport& transport) {
  static std::atomic<std::uint64_t> next = 0;
  std::uint64_t number = next;
  unite_records(transport, plan_options{}.tag, number,
                [](std::uint64_t& a, std::uint64_t b) { a = std::max(a, b); });
  std::uint64_t seen = next;
  while (seen <= number && !next.compare_exchange_weak(seen, number + 1)) {
  }
  return number;
}

}  // namespace hcomp::drop_in
