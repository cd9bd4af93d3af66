#pragma once
/// @file
/// Exact collectives of the ranks of one node through shared memory. Linux.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/node/addition.hpp>
#include <hcomp/node/rounds.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::node {

/// Collectives of the ranks of one node, without messages. Values pass through shared memory in
/// chunks that stay in the processor's caches. They are added unencoded, in rank order; 16-bit
/// floats are added in float. For one thread at a time.
///
/// All ranks must pass the same sizes, types and divisors; this is not checked. A rank that ends,
/// or times out, is an error as in rounds; after an error the object can only be destroyed.
/// Divisors of integers must be 1.
///
/// Memory: 512 KiB per rank for up to 16 ranks, 128 KiB per rank from 64 ranks on, plus one such
/// slot.
/// Cost of an all_reduce: per value one copy in, its share of the additions, and one copy out.
class collectives {
  struct ignore_piece {
    void operator()(std::size_t, std::size_t) const {}
  };

 public:
  /// Arguments and errors as of rounds::make. Collective.
  template <Transport T>
  static std::optional<collectives> make(T& transport, tag_t tag, std::chrono::milliseconds timeout,
                                         std::vector<int> names = {}) {
    auto memory = rounds::make(transport, tag, timeout, std::move(names));
    if (!memory) return std::nullopt;
    return collectives(std::move(*memory));
  }

  /// See rounds.
  void wait_over(any_transport* transport) { rounds_.wait_over(transport); }

  int rank() const { return rounds_.rank(); }
  int size() const { return rounds_.size(); }

  /// All-reduce: sums x over all ranks, in place, and divides: the same bits on all ranks.
  template <class V> void all_reduce(std::span<V> x, double divisor = 1) {
    if (size() == 1) return divide(x, divisor);
    if (x.size_bytes() <= most_for_all) {
      auto const round = put(x);
      rounds_.wait(stage::arrived, round);
      add(size(), x.size(), divisor, x.data(),
          [&](int r) -> V const* { return rounds_.slot<V>(round, r); });
      return pass(round);
    }
    std::size_t const most = rounds_.slot_bytes() / sizeof(V);
    auto const chunk = [&](std::size_t first) {
      return x.subspan(first, std::min(most, x.size() - first));
    };
    std::uint32_t next = put_for_others(chunk(0));
    for (std::size_t first = 0; first < x.size(); first += most) {
      auto const round = next;
      if (first + most < x.size()) next = put_for_others(chunk(first + most));
      finish(chunk(first), divisor, round);
    }
  }

  /// Reduce-scatter: rank r gets the sum over all ranks of shard r of x: `each` values, fewer or
  /// none at the end of x.
  /// @param each  values per shard; the number of shards must not exceed the number of ranks
  /// @param part  may alias this rank's shard in x
  /// @param done  (first, count): called for every piece of `part` while it is in a cache
  template <class V, class Done = ignore_piece>
  void reduce_scatter(std::span<V const> x, std::size_t each, std::span<V> part, double divisor = 1,
                      Done const& done = {}) {
    // A slot has the pieces of all other ranks.
    std::size_t const most =
        rounds_.slot_bytes() / sizeof(V) / static_cast<std::size_t>(std::max(size() - 1, 1));
    for (std::size_t first = 0; first < each; first += most) {
      auto const piece = [&](int r) { return piece_of(x, r, each, first, most); };
      auto const round = rounds_.begin();
      auto const place = [&](int from, int to) {
        return rounds_.slot<V>(round, from) + static_cast<std::size_t>(to - (to > from)) * most;
      };
      for (int r = 0; r < size(); ++r)
        if (r != rank()) std::ranges::copy(piece(r), place(rank(), r));
      rounds_.reach(stage::arrived, round);
      rounds_.wait(stage::arrived, round);
      auto const mine = piece(rank());
      if (size() == 1) {
        std::ranges::copy(mine, part.data() + first);
        divide(part.subspan(first, mine.size()), divisor);
      } else if (!mine.empty()) {
        add(size(), mine.size(), divisor, part.data() + first,
            [&](int r) { return r == rank() ? mine.data() : place(r, rank()); });
      }
      pass(round);
      done(first, mine.size());
    }
  }

  /// All-gather of shards of x, as in reduce_scatter.
  /// @param x  contains this rank's shard in its position
  template <class V> void all_gather(std::span<V> x, std::size_t each) {
    std::size_t const most = rounds_.slot_bytes() / sizeof(V);
    for (std::size_t first = 0; first < each; first += most) {
      auto const piece = [&](int r) { return piece_of(x, r, each, first, most); };
      auto const round = put(piece(rank()));
      for (int i = 1; i < size(); ++i) {
        int const r = (rank() + i) % size();
        rounds_.wait(stage::arrived, r, round);
        std::copy_n(rounds_.slot<V>(round, r), piece(r).size(), piece(r).data());
      }
      pass(round);
    }
  }
  /// All-gather of bytes, in rank order.
  /// @param mine  may be at its position in `all`
  void all_gather(std::span<std::byte const> mine, std::span<std::byte> all) {
    auto const place = all.subspan(static_cast<std::size_t>(rank()) * mine.size(), mine.size());
    if (!mine.empty() && place.data() != mine.data())
      std::memcpy(place.data(), mine.data(), mine.size());
    all_gather(all, mine.size());
  }

  /// One round: puts a record and values of this rank into its slot, and calls use(record_of,
  /// values_of) when those of all ranks have arrived. record_of(r) and values_of(r) return those of
  /// rank r, valid within the call. `use` may throw on all ranks alike; the object stays usable.
  /// @param values  at most most_for_all bytes
  template <class Record, class V, class Use>
  void exchange(Record const& mine, std::span<V const> values, Use const& use) {
    constexpr std::size_t first = (sizeof(Record) + 63) / 64 * 64;
    static_assert(first + most_for_all <= rounds::least_slot_bytes);
    auto const round = rounds_.begin();
    auto const slot = [&](int r) { return rounds_.slot<std::byte>(round, r); };
    std::memcpy(slot(rank()), &mine, sizeof mine);
    std::copy_n(values.data(), values.size(), reinterpret_cast<V*>(slot(rank()) + first));
    rounds_.reach(stage::arrived, round);
    rounds_.wait(stage::arrived, round);
    struct passing {
      collectives* of;
      std::uint32_t round;
      ~passing() { of->pass(round); }
    } const at_end{this, round};
    use([&](int r) -> Record const& { return *reinterpret_cast<Record const*>(slot(r)); },
        [&](int r) { return reinterpret_cast<V const*>(slot(r) + first); });
  }
  /// Up to this size every rank adds all values, which saves one wait.
  static constexpr std::size_t most_for_all = 8192;

  /// Whether every rank can read the memory of every rank. Collective.
  bool can_read_others() {
    constexpr std::uint64_t word = 0x68636f6d70;
    std::uint64_t const mine = word + static_cast<std::uint64_t>(rank());
    std::uint64_t has_failed = 0;
    exchange(reinterpret_cast<std::uint64_t>(&mine), std::span<std::byte const>(),
             [&](auto const& address_of, auto const&) {
               for (int r = 0; r < size(); ++r) {
                 std::uint64_t found = 0;
                 bool const is_read =
                     read(r, address_of(r), std::as_writable_bytes(std::span(&found, 1)));
                 has_failed |= !is_read || found != word + static_cast<std::uint64_t>(r);
               }
             });
    bool can = true;  // the ranks keep `mine` until all have read it
    exchange(has_failed, std::span<std::byte const>(), [&](auto const& failed_on, auto const&) {
      for (int r = 0; r < size(); ++r) can &= failed_on(r) == 0;
    });
    return can;
  }
  /// See shared_segment.
  bool read(int rank, std::uint64_t address, std::span<std::byte> to) const {
    return rounds_.read(rank, address, to);
  }

  /// Broadcasts the bytes of rank `root`.
  void broadcast(std::span<std::byte> bytes, int root) {
    for (std::size_t first = 0; first < bytes.size(); first += rounds_.slot_bytes()) {
      auto const some = bytes.subspan(first, std::min(rounds_.slot_bytes(), bytes.size() - first));
      auto const round = put(some.first(rank() == root ? some.size() : 0));
      rounds_.wait(stage::arrived, root, round);
      if (rank() != root)
        std::memcpy(some.data(), rounds_.slot<std::byte>(round, root), some.size());
      pass(round);
    }
  }

  /// See rounds.
  [[noreturn]] void revoke(std::string const& why) { rounds_.revoke(why); }
  void fail(int peer, std::string const& why) { rounds_.fail(peer, why); }

 private:
  using stage = rounds::stage;

  explicit collectives(rounds memory) : rounds_(std::move(memory)) {}

  struct share {
    std::size_t first, count;
  };
  /// Whole cache lines except for the last share, so that no two ranks write to one line.
  share share_of(std::size_t values, int rank) const {
    auto const ranks = static_cast<std::size_t>(size()), r = static_cast<std::size_t>(rank);
    std::size_t const each = (values / ranks + 63) / 64 * 64;
    std::size_t const first = std::min(values, r * each);
    bool const is_last = r + 1 == ranks;
    return {first, (is_last ? values : std::min(values, first + each)) - first};
  }
  /// At most `most` values of shard r of x, from offset `first` on.
  template <class V>
  static std::span<V> piece_of(std::span<V> x, int r, std::size_t each, std::size_t first,
                               std::size_t most) {
    std::size_t const part = static_cast<std::size_t>(r) * each;
    std::size_t const begin = std::min(x.size(), part + first);
    std::size_t const end = std::min(x.size(), part + each);
    return x.subspan(begin, begin < end ? std::min(most, end - begin) : 0);
  }

  /// Begins a round and writes this rank's values to its slot.
  template <class V> std::uint32_t put(std::span<V> values) {
    auto const round = rounds_.begin();
    std::copy_n(values.data(), values.size(), rounds_.slot<std::remove_const_t<V>>(round, rank()));
    rounds_.reach(stage::arrived, round);
    return round;
  }
  /// The same without this rank's own share, which only this rank adds.
  template <class V> std::uint32_t put_for_others(std::span<V> chunk) {
    auto const round = rounds_.begin();
    V* const to = rounds_.slot<V>(round, rank());
    auto const mine = share_of(chunk.size(), rank());
    std::size_t const end = mine.first + mine.count;
    std::copy_n(chunk.data(), mine.first, to);
    std::copy_n(chunk.data() + end, chunk.size() - end, to + end);
    rounds_.reach(stage::arrived, round);
    return round;
  }
  /// Adds this rank's share of a chunk, and copies the shares of the other ranks.
  template <class V> void finish(std::span<V> chunk, double divisor, std::uint32_t round) {
    V* const result = rounds_.slot<V>(round, size());
    rounds_.wait(stage::arrived, round);
    auto const mine = share_of(chunk.size(), rank());
    V* const own = chunk.data() + mine.first;
    add(size(), mine.count, divisor, own, [&](int r) -> V const* {
      return r == rank() ? own : rounds_.slot<V>(round, r) + mine.first;
    });
    std::copy_n(own, mine.count, result + mine.first);
    rounds_.reach(stage::reduced, round);
    for (int i = 1; i < size(); ++i) {
      int const r = (rank() + i) % size();
      rounds_.wait(stage::reduced, r, round);
      auto const part = share_of(chunk.size(), r);
      std::copy_n(result + part.first, part.count, chunk.data() + part.first);
    }
    rounds_.reach(stage::taken, round);
  }
  /// Marks a round as no longer needed by this rank.
  void pass(std::uint32_t round) {
    rounds_.reach(stage::reduced, round);
    rounds_.reach(stage::taken, round);
  }

  rounds rounds_;
};

}  // namespace hcomp::node
