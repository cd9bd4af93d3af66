#pragma once
/// @file
/// The layout of a 64-bit UCX tag: source and type of a message. Arithmetic only.

#include <algorithm>
#include <cstdint>
#include <hcomp/transport/transport.hpp>

namespace hcomp::ucx {

/// bit 63: 0 for a caller's message, 1 for the transport's own · bits 62-32: source rank · bits
/// 31-0: the caller's tag, or as defined below.
///
/// A receive matches all 64 bits, so it never gets a message of another source or tag.
constexpr std::uint64_t message_tag(int source, tag_t tag) {
  return std::uint64_t(source) << 32 | tag;
}

inline constexpr std::uint64_t own_message_bit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t abort_bit = std::uint64_t{1} << 31;
inline constexpr std::uint64_t certain_bit = std::uint64_t{1} << 30;

/// Control messages that a rank sends about itself.
enum class notice : tag_t {
  goodbye,  ///< "I need nothing any more"
  hello,    ///< "my connection to you works"
  ready     ///< plus the number of a hop: "all ranks whose notices reached me so far are connected"
};

constexpr std::uint64_t notice_tag(int source, notice what, int hop = 0) {
  return own_message_bit | message_tag(source, tag_t(what) + tag_t(hop));
}

/// The notice type in a tag; the largest one is `notice::ready` plus a hop.
constexpr notice notice_in(std::uint64_t tag) {
  return notice(std::min(tag_t(tag), tag_t(notice::ready)));
}
constexpr int hop_in(std::uint64_t tag) { return int(tag_t(tag) - tag_t(notice::ready)); }

/// "`source` gives up because `culprit` failed", or because it revoked; then the message contains
/// its text.
///
/// @param certain  the culprit is faulty, not just silent, so it cannot pass on the blame
constexpr std::uint64_t abort_tag(int source, int culprit, bool certain = false) {
  return own_message_bit | abort_bit | (certain ? certain_bit : 0) |
         message_tag(source, tag_t(culprit));
}

/// Bits that identify an abort of any source.
inline constexpr std::uint64_t abort_mask = own_message_bit | abort_bit;

/// The sender of a control message.
constexpr int source_in(std::uint64_t tag) { return int(tag >> 32 & 0x7fff'ffff); }

/// The rank that an abort blames.
constexpr int abort_culprit(std::uint64_t tag) { return int(tag & 0x3fff'ffff); }
constexpr bool is_certain(std::uint64_t tag) { return (tag & certain_bit) != 0; }

}  // namespace hcomp::ucx
