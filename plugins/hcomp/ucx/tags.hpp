#pragma once
/// @file
/// How a 64-bit UCX tag says who sent a message and what it is: arithmetic only.

#include <algorithm>
#include <cstdint>
#include <hcomp/transport/transport.hpp>

namespace hcomp::ucx {

/// bit 63: 0 a caller's message, 1 the transport's own · bits 62-32: source rank · bits 31-0:
/// below.
///
/// A receive names source and tag, so it matches all 64 bits and no message of anybody else.
constexpr std::uint64_t message_tag(int source, tag_t tag) {
  return std::uint64_t(source) << 32 | tag;
}

inline constexpr std::uint64_t own_message_bit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t abort_bit = std::uint64_t{1} << 31;
inline constexpr std::uint64_t certain_bit = std::uint64_t{1} << 30;

/// What a rank tells others about itself.
enum class notice : tag_t {
  goodbye,  ///< "I need nothing any more"
  hello,    ///< "my connection to you works"
  ready     ///< plus the number of a hop: "the ranks that I heard of until then are connected"
};

constexpr std::uint64_t notice_tag(int source, notice what, int hop = 0) {
  return own_message_bit | message_tag(source, tag_t(what) + tag_t(hop));
}

/// What the tag of a notice says, and the rest of `notice::ready`.
constexpr notice notice_in(std::uint64_t tag) {
  return notice(std::min(tag_t(tag), tag_t(notice::ready)));
}
constexpr int hop_in(std::uint64_t tag) { return int(tag_t(tag) - tag_t(notice::ready)); }

/// "`source` gives up, because `culprit` failed", or has revoked: then the bytes say why.
///
/// @param certain  the culprit did wrong; it was not only silent, so it cannot pass on the blame
constexpr std::uint64_t abort_tag(int source, int culprit, bool certain = false) {
  return own_message_bit | abort_bit | (certain ? certain_bit : 0) |
         message_tag(source, tag_t(culprit));
}

/// The bits that tell an abort from everything else, whoever sent it.
inline constexpr std::uint64_t abort_mask = own_message_bit | abort_bit;

/// Who sent a message of the transport's own.
constexpr int source_in(std::uint64_t tag) { return int(tag >> 32 & 0x7fff'ffff); }

/// The rank that an abort blames.
constexpr int abort_culprit(std::uint64_t tag) { return int(tag & 0x3fff'ffff); }
constexpr bool is_certain(std::uint64_t tag) { return (tag & certain_bit) != 0; }

}  // namespace hcomp::ucx
