#pragma once
/// @file
/// Statistics of an aggregator, sent on request.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/socket.hpp>
#include <random>
#include <span>
#include <vector>

namespace hcomp::udp {

/// The payload of a datagram of type statistics, little-endian. Totals over all jobs since the
/// aggregator started.
struct statistics {
  std::uint64_t jobs = 0, jobs_in_kernel = 0;  ///< currently
  std::uint64_t jobs_begun = 0;
  std::uint64_t jobs_left = 0;                          ///< ended because all workers left
  std::uint64_t jobs_idle = 0;                          ///< ended because no worker sent packets
  std::uint64_t received = 0, sent = 0, lost_here = 0;  ///< datagrams
  std::uint64_t damaged = 0;      ///< damaged datagrams, including unknown types and wrong lengths
  std::uint64_t unknown_job = 0;  ///< packets of unknown jobs
  std::uint64_t foreign = 0;      ///< packets from another sender than that of their rank
  std::uint64_t joins = 0, joins_refused = 0;
  std::uint64_t added = 0, duplicates = 0, late = 0, stale = 0;  ///< contributions
  std::uint64_t refused = 0;                                     ///< invalid contributions
  std::uint64_t whole = 0, partial = 0, abandoned = 0;           ///< results
};
static_assert(sizeof(statistics) == 21 * 8);

/// Requests statistics from the aggregator, every 200 ms until it answers. A request is as long as
/// its answer, so that it cannot be used for traffic amplification.
/// @throws transport_error  no answer within `timeout`, or the socket failed
inline statistics ask_for_statistics(address const& aggregator, std::chrono::nanoseconds timeout) {
  using clock = std::chrono::steady_clock;
  udp::socket socket(address::any_like(aggregator));
  frame const header{.kind = frame_kind::question, .session = std::random_device{}()};
  std::vector<std::byte> question(frame_bytes + sizeof(statistics)), buffer(question.size() + 1);
  seal(question, header);
  for (auto const end = clock::now() + timeout; clock::now() < end;) {
    socket.send(aggregator, question);
    auto const again = std::min(end, clock::now() + std::chrono::milliseconds(200));
    do {
      socket.wait(again - clock::now());
      address from;
      while (auto const bytes = socket.receive(buffer, from)) {
        frame answer;
        if (*bytes != question.size() || !(from == aggregator) ||
            read_frame(std::span(buffer).first(*bytes), answer) != frame_fault::none ||
            answer.kind != frame_kind::statistics || answer.session != header.session)
          continue;
        return load<statistics>(buffer.data() + frame_bytes);
      }
    } while (clock::now() < again);
  }
  throw transport_error(
      -1, hcomp::detail::error_text(
              {"udp: aggregator ", aggregator.text(), " did not answer within ",
               std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(), " ms"}));
}

}  // namespace hcomp::udp
