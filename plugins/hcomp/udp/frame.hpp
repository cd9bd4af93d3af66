#pragma once
/// @file
/// What stands before every packet in a datagram: 24 bytes, and what they may say.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <span>

namespace hcomp::udp {

/// What a datagram is.
enum class frame_kind : std::uint16_t {
  packet = 1,      ///< an aggregation packet follows
  join = 2,        ///< of a worker: I am this rank of this job; its terms may follow
  welcome = 3,     ///< the aggregator's answer to a join: send
  refusal = 4,     ///< the other answer; four bytes follow, of refusal_reason
  question = 5,    ///< of anybody, for statistics; as many bytes follow as these have
  statistics = 6,  ///< the answer
};

/// First bytes of every datagram, little-endian. The places of all numbers are fixed, here and in
/// the aggregation packet that follows, so that a switch or a kernel can add without parsing.
struct frame {
  std::uint64_t checksum = 0;        ///< fingerprint of all bytes after this number
  std::uint32_t magic = 0x31554348;  ///< "HCU1"; the last letter is the version
  std::uint32_t job = 0;
  frame_kind kind = frame_kind::packet;
  std::uint16_t rank = 0;  ///< of the worker that sends; of no meaning in answers
  /// A number that a worker draws when it starts. It is in all that it sends, and in the answers to
  /// its joins, so that nobody can speak for it who has only its address. 0 in packets of sums.
  std::uint32_t session = 0;
};
static_assert(sizeof(frame) == 24);

inline constexpr std::size_t frame_bytes = sizeof(frame);

/// Datagrams that Ethernet frames of 1500 bytes hold, with the headers of IPv4 and UDP.
inline constexpr std::size_t ethernet_datagram_bytes = 1472;

/// Why an aggregator lets a worker not in.
enum class refusal_reason : std::uint32_t {
  rank = 1,    ///< the job has no such worker
  taken = 2,   ///< another sender has this rank
  terms = 3,   ///< no terms, impossible ones, or others than the job's first worker had
  limits = 4,  ///< as many jobs, or as much memory, as the aggregator allows
  reasons      ///< how many there are, with 0, which is none
};

/// Text for people.
inline char const* to_text(refusal_reason reason) {
  switch (reason) {
    case refusal_reason::rank: return "the job has no worker of this rank";
    case refusal_reason::taken: return "another sender has this rank";
    case refusal_reason::terms:
      return "no terms, impossible ones, or others than the job's first worker had";
    case refusal_reason::limits: return "as many jobs, or as much memory, as it allows";
    case refusal_reason::reasons: break;
  }
  return "an unknown reason";
}

/// What is wrong with a datagram by itself.
enum class frame_fault : std::uint8_t {
  none,
  length,    ///< shorter than a frame, or longer than a datagram may be
  magic,     ///< no such datagram, or of another version
  checksum,  ///< damaged
  kind,      ///< an unknown one, or not for this side
  faults     ///< how many there are
};

/// Text for people.
inline char const* to_text(frame_fault fault) {
  switch (fault) {
    case frame_fault::none: return "no fault";
    case frame_fault::length: return "a datagram of another length";
    case frame_fault::magic: return "not a datagram of this version";
    case frame_fault::checksum: return "a damaged datagram";
    case frame_fault::kind: return "a kind of datagram that is not for this side";
    case frame_fault::faults: break;
  }
  return "unknown fault";
}

namespace detail {
inline std::uint64_t checksum_of(std::span<std::byte const> datagram) {
  constexpr std::size_t first = sizeof(frame::checksum);
  return fingerprint(serial_group{}, datagram.data() + first, datagram.size() - first);
}
}  // namespace detail

/// Writes `header`, with the checksum, before what is in `datagram` behind it.
inline void seal(std::span<std::byte> datagram, frame header) {
  store(datagram.data(), 0, header);
  store(datagram.data(), 0, detail::checksum_of(datagram));
}

/// Reads the frame of a whole datagram.
inline frame_fault read_frame(std::span<std::byte const> datagram, frame& header) {
  if (datagram.size() < frame_bytes) return frame_fault::length;
  header = load<frame>(datagram.data());
  if (header.magic != frame{}.magic) return frame_fault::magic;
  if (header.checksum != detail::checksum_of(datagram)) return frame_fault::checksum;
  if (header.kind < frame_kind::packet || header.kind > frame_kind::statistics)
    return frame_fault::kind;
  return frame_fault::none;
}

}  // namespace hcomp::udp
