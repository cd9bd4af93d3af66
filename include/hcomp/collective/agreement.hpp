#pragma once
/// @file
/// Small things all ranks must know of each other before or after a collective.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/transport.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp {

namespace detail {

/// Waits for records that one rank expects and another sent.
template <class T>
void wait_for_records(T& transport, typename T::request& in, int from, std::size_t bytes) {
  std::size_t const came = transport.wait(in);
  if (came != bytes)
    throw wire_error(
        error_text({"rank ", from, " sent ", came, " bytes of call records, ", bytes,
                    " were expected; is it another version of hcomp, or another call?"}));
}

}  // namespace detail

/// The union of all ranks' records, on every rank, in ceil(log2 P) steps.
///
/// `unite(a, b)` makes `a` the union of both and must not mind order or repetition, as minimum,
/// maximum and logical or do not.
/// Cost: ceil(log2 P) records sent per rank.
/// Source: Hensgen, Finkel and Manber, Int. J. Parallel Program. 17 (1988) 1-17.
template <class Record, Transport T, class Unite>
  requires std::is_trivially_copyable_v<Record>
void unite_records(T& transport, tag_t tag, Record& mine, Unite const& unite) {
  int const rank = transport.rank(), size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    int const from = (rank + size - distance) % size;
    Record other;
    auto in = transport.irecv(from, tag, std::as_writable_bytes(std::span(&other, 1)));
    auto out = transport.isend((rank + distance) % size, tag, std::as_bytes(std::span(&mine, 1)));
    detail::wait_for_records(transport, in, from, sizeof(Record));
    transport.wait(out);
    unite(mine, other);
  }
}

namespace detail {

/// all_gather_records of `bytes` bytes each.
/// @param all  of all ranks, this rank's first; afterwards that of rank + i is number i
template <Transport T>
void all_gather_bytes(T& transport, tag_t tag, std::byte* all, std::size_t bytes) {
  int const rank = transport.rank(), size = transport.size();
  for (int have = 1; have < size; have *= 2) {
    std::size_t const count = static_cast<std::size_t>(std::min(have, size - have)) * bytes;
    int const from = (rank + have) % size;
    auto in = transport.irecv(from, tag, {all + static_cast<std::size_t>(have) * bytes, count});
    auto out = transport.isend((rank + size - have) % size, tag, {all, count});
    wait_for_records(transport, in, from, count);
    transport.wait(out);
  }
}

}  // namespace detail

/// Every rank's record on every rank, in the order of the ranks, in ceil(log2 P) steps.
///
/// All ranks send messages of the same sizes whatever the records say, so this works between ranks
/// that disagree about everything else.
/// @param all  one record per rank
/// Cost: (P - 1) records sent per rank. Source: Bruck et al., IEEE TPDS 8 (1997) 1143-1156.
template <class Record, Transport T>
  requires std::is_trivially_copyable_v<Record>
void all_gather_records(T& transport, tag_t tag, Record const& mine, std::vector<Record>& all) {
  all.resize(static_cast<std::size_t>(transport.size()));
  all[0] = mine;
  detail::all_gather_bytes(transport, tag, reinterpret_cast<std::byte*>(all.data()),
                           sizeof(Record));
  std::rotate(all.begin(), all.end() - transport.rank(), all.end());
}

}  // namespace hcomp
