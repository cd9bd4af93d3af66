#pragma once
/// @file
/// The frame of every datagram: 24 bytes before the packet.

#include <cstddef>
#include <cstdint>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <span>

namespace hcomp::udp {

/// The type of a datagram.
enum class frame_kind : std::uint16_t {
  packet = 1,      ///< an aggregation packet follows
  join = 2,        ///< from a worker: I am this rank of this job; its terms may follow
  welcome = 3,     ///< the aggregator accepts a join: the worker may send
  refusal = 4,     ///< the aggregator rejects a join; four bytes follow, the refusal_reason
  question = 5,    ///< a request for statistics, from any sender; padded to the size of the answer
  statistics = 6,  ///< the answer
};

/// The first bytes of every datagram, little-endian. All fields have fixed offsets, here and in the
/// aggregation packet that follows, so that a switch or a kernel can add without parsing.
struct frame {
  std::uint64_t checksum = 0;        ///< fingerprint of all bytes after this field
  std::uint32_t magic = 0x31554348;  ///< "HCU1"; the last character is the version
  std::uint32_t job = 0;
  frame_kind kind = frame_kind::packet;
  std::uint16_t rank = 0;  ///< the sending worker; unused in answers
  /// A number that a worker draws when it starts. All its datagrams and the answers to its joins
  /// contain it, so that no sender can impersonate it by its address alone. 0 in results.
  std::uint32_t session = 0;
};
static_assert(sizeof(frame) == 24);

inline constexpr std::size_t frame_bytes = sizeof(frame);

/// The largest datagram in an Ethernet frame of 1500 bytes, after the headers of IPv4 and UDP.
inline constexpr std::size_t ethernet_datagram_bytes = 1472;

/// Why an aggregator rejects a worker.
enum class refusal_reason : std::uint32_t {
  rank = 1,    ///< the job has no such worker
  taken = 2,   ///< another sender has this rank
  terms = 3,   ///< no terms, invalid terms, or other terms than the job's first worker
  limits = 4,  ///< the aggregator's limit of jobs or memory is reached
  reasons      ///< number of reasons, including 0 for none
};

/// Human-readable text.
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

/// Faults of a single datagram.
enum class frame_fault : std::uint8_t {
  none,
  length,    ///< shorter than a frame, or longer than the maximum
  magic,     ///< not such a datagram, or another version
  checksum,  ///< damaged
  kind,      ///< unknown type, or a type for the other side
  faults     ///< number of faults
};

/// Human-readable text.
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

/// Writes `header` with the checksum to the start of `datagram`, before its payload.
inline void seal(std::span<std::byte> datagram, frame header) {
  store(datagram.data(), 0, header);
  store(datagram.data(), 0, detail::checksum_of(datagram));
}

/// Reads and checks the frame of a datagram.
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
