#pragma once
/// @file
/// Exchange of small records between all ranks, before or after a collective.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp {

namespace detail {

/// @throws wire_error  the number of bytes is not that of the records; on all ranks, if the
///                     transport can tell them
template <class T>
void require_records(T& transport, int from, std::size_t came, std::size_t bytes) {
  if (came != bytes)
    revoke(transport,
           error_text({"rank ", from, " sent ", came, " bytes of call records, ", bytes,
                       " were expected; is it another version of hcomp, or another call?"}));
}

/// A record with a checksum. A reader detects damage, and records of another call, another sender
/// or another receiver: `call` has them all.
template <class Record> class sealed {
 public:
  sealed() = default;
  sealed(Record const& record, std::uint64_t call) {
    std::memcpy(bytes_, &record, sizeof(Record));
    seal_ = expected(call);
  }
  bool is_sound(std::uint64_t call) const { return seal_ == expected(call); }
  void copy_to(void* record) const { std::memcpy(record, bytes_, sizeof(Record)); }

 private:
  std::uint64_t expected(std::uint64_t call) const {
    return mix(call ^ fingerprint(simd_group{}, bytes_, sizeof(bytes_)));
  }

  alignas(std::uint64_t) std::byte bytes_[(sizeof(Record) + 7) / 8 * 8] = {};
  std::uint64_t seal_ = 0;
};

/// The `call` of a record that rank `from` sends to rank `to`.
inline std::uint64_t sealed_call(std::uint64_t call, int from, int to) {
  return mix(call ^ (std::uint64_t{static_cast<std::uint32_t>(from)} << 32 |
                     static_cast<std::uint32_t>(to)));
}

[[gnu::cold]] inline std::string damaged_record(int from) {
  return error_text({"the call record of rank ", from,
                     " does not match its checksum: it was damaged on its way, or is of another "
                     "call; have all ranks called their plans equally often?"});
}

/// Space for messages that are too long: a transport cannot continue after a receive that was too
/// short.
inline constexpr std::size_t slack_for_longer_records = 4096;

/// Like unite_records, but a rank that detects damage continues without the damaged record.
/// @param damage  called as damage(from, received bytes)
template <class Record, class T, class Unite, class Damage>
void unite_sound_records(T& transport, tag_t tag, Record& mine, Unite const& unite,
                         std::uint64_t call, Damage const& damage) {
  int const rank = transport.rank(), size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    int const from = (rank + size - distance) % size, to = (rank + distance) % size;
    sealed<Record> const leaving(mine, sealed_call(call, rank, to));
    sealed<Record> arriving;
    std::byte inbox[sizeof(arriving) + slack_for_longer_records];
    auto in = transport.irecv(from, tag, inbox);
    auto out = transport.isend(to, tag, std::as_bytes(std::span(&leaving, 1)));
    std::size_t const came = transport.wait(in);
    if (came == sizeof(arriving)) std::memcpy(&arriving, inbox, sizeof(arriving));
    bool const is_sound =
        came == sizeof(arriving) && arriving.is_sound(sealed_call(call, from, rank));
    if (!is_sound) damage(from, came);
    transport.wait(out);
    if (!is_sound) continue;
    Record other;
    arriving.copy_to(&other);
    unite(mine, other);
  }
}

}  // namespace detail

/// Computes the union of all ranks' records on every rank, in ceil(log2 P) steps.
///
/// `unite(a, b)` makes `a` the union of both. It must be independent of order and repetition, like
/// minimum, maximum and logical or.
/// @param call  equal on all ranks; if it differs between calls, records of earlier calls are
///              rejected
/// @throws wire_error  a record was damaged or belongs to another call; on all ranks, if the
///                     transport can tell them
///
/// Cost: each rank sends ceil(log2 P) records with 8 more bytes each.
/// Source: Hensgen, Finkel and Manber, Int. J. Parallel Program. 17 (1988) 1-17.
template <class Record, Transport T, class Unite>
  requires std::is_trivially_copyable_v<Record>
void unite_records(T& transport, tag_t tag, Record& mine, Unite const& unite,
                   std::uint64_t call = 0) {
  detail::unite_sound_records(transport, tag, mine, unite, call, [&](int from, std::size_t came) {
    detail::require_records(transport, from, came, sizeof(detail::sealed<Record>));
    detail::revoke(transport, detail::damaged_record(from));
  });
}

namespace detail {

/// all_gather_records for records of `bytes` bytes. The peers are those of unite_records: if some
/// ranks call one and some the other, messages have a wrong size, and no rank waits forever.
/// @param all  records of all ranks, this rank's first; on return number i is that of rank - i
template <Transport T>
void all_gather_bytes(T& transport, tag_t tag, std::byte* all, std::size_t bytes) {
  int const rank = transport.rank(), size = transport.size();
  for (int have = 1; have < size; have *= 2) {
    std::size_t const count = static_cast<std::size_t>(std::min(have, size - have)) * bytes;
    int const from = (rank + size - have) % size;
    auto in = transport.irecv(from, tag, {all + static_cast<std::size_t>(have) * bytes, count});
    auto out = transport.isend((rank + have) % size, tag, {all, count});
    require_records(transport, from, transport.wait(in), count);
    transport.wait(out);
  }
}

}  // namespace detail

/// Gathers every rank's record on every rank, in rank order, in ceil(log2 P) steps.
///
/// Message sizes do not depend on the records' contents, so that ranks with different arguments can
/// compare them.
/// @param all   one record per rank
/// @param call  as for unite_records
/// @throws wire_error  as unite_records
///
/// Cost: each rank sends P - 1 records with 8 more bytes each; the vector keeps the capacity for
/// these bytes.
/// Source: Bruck et al., IEEE TPDS 8 (1997) 1143-1156.
template <class Record, Transport T>
  requires std::is_trivially_copyable_v<Record>
void all_gather_records(T& transport, tag_t tag, Record const& mine, std::vector<Record>& all,
                        std::uint64_t call = 0) {
  using sealed = detail::sealed<Record>;
  auto const ranks = static_cast<std::size_t>(transport.size());
  // The sealed records come first, in the same memory.
  all.resize(ranks * sizeof(sealed) / sizeof(Record) + 1);
  auto* const place = reinterpret_cast<std::byte*>(all.data());
  sealed one(mine, detail::sealed_call(call, transport.rank(), 0));  // forwarded to many ranks
  std::memcpy(place, &one, sizeof(one));
  detail::all_gather_bytes(transport, tag, place, sizeof(one));
  for (std::size_t i = 0; i < ranks; ++i) {
    std::memcpy(&one, place + i * sizeof(one), sizeof(one));
    int const owner =
        (transport.rank() + transport.size() - static_cast<int>(i)) % transport.size();
    if (!one.is_sound(detail::sealed_call(call, owner, 0)))
      detail::revoke(transport, detail::damaged_record(owner));
    one.copy_to(place + i * sizeof(Record));
  }
  all.resize(ranks);
  std::reverse(all.begin(), all.end());
  std::rotate(all.begin(), all.end() - 1 - transport.rank(), all.end());
}

}  // namespace hcomp
