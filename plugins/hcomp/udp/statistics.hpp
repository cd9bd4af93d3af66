#pragma once
/// @file
/// What an aggregator tells about itself to whoever asks.

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

/// Behind the frame of a datagram of kind statistics, little-endian. All since the aggregator's start,
/// of all jobs together.
struct statistics {
  std::uint64_t jobs = 0, jobs_in_kernel = 0;  ///< now
  std::uint64_t jobs_begun = 0;
  std::uint64_t jobs_left = 0;                          ///< ended because all workers had left
  std::uint64_t jobs_idle = 0;                          ///< ended because nobody said anything
  std::uint64_t received = 0, sent = 0, lost_here = 0;  ///< datagrams
  std::uint64_t damaged = 0;      ///< datagrams, or of a kind or length that is none
  std::uint64_t unknown_job = 0;  ///< packets of jobs that are not there
  std::uint64_t foreign = 0;      ///< packets that are not from their rank's sender
  std::uint64_t joins = 0, joins_refused = 0;
  std::uint64_t added = 0, duplicates = 0, late = 0, stale = 0;  ///< contributions
  std::uint64_t refused = 0;                                     ///< contributions that cannot be
  std::uint64_t whole = 0, partial = 0, abandoned = 0;           ///< sums
};
static_assert(sizeof(statistics) == 21 * 8);

/// Asks the aggregator, again every 200 ms. A question is as long as its answer, so that nobody gets
/// more sent than it sends.
/// @throws transport_error  no answer within `timeout`; or from the socket
inline statistics ask_for_statistics(address const& aggregator, std::chrono::nanoseconds timeout) {
  using clock = std::chrono::steady_clock;
  udp::socket socket(address::any_like(aggregator));
  frame const header{.kind = frame_kind::question, .session = std::random_device{}()};
  std::vector<std::byte> question(frame_bytes + sizeof(statistics)), room(question.size() + 1);
  seal(question, header);
  for (auto const end = clock::now() + timeout; clock::now() < end;) {
    socket.send(aggregator, question);
    auto const again = std::min(end, clock::now() + std::chrono::milliseconds(200));
    do {
      socket.wait(again - clock::now());
      address from;
      while (auto const bytes = socket.receive(room, from)) {
        frame answer;
        if (*bytes != question.size() || !(from == aggregator) ||
            read_frame(std::span(room).first(*bytes), answer) != frame_fault::none ||
            answer.kind != frame_kind::statistics || answer.session != header.session)
          continue;
        return load<statistics>(room.data() + frame_bytes);
      }
    } while (clock::now() < again);
  }
  throw transport_error(
      -1, hcomp::detail::error_text(
              {"udp: aggregator ", aggregator.text(), " did not answer within ",
               std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(), " ms"}));
}

}  // namespace hcomp::udp
