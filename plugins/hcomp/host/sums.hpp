#pragma once
/// @file
/// Exact sums of ranks on one host, through memory that they share. Linux.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/host/addition.hpp>
#include <hcomp/host/progress.hpp>
#include <hcomp/host/shared_segment.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hcomp::host {

/// Collectives of ranks on one host, without a message: values pass through shared memory, in parts
/// that stay in the processor's caches, and are added as they are, in the order of the ranks; halves in
/// float. For one thread at a time.
///
/// All ranks pass the same sizes, types and divisors: nobody checks. A rank that ends is a
/// transport_error with its number on all that wait for it, within 0.1 s; so is one that says nothing
/// for as long as the time limit. After an error the object can only be destroyed.
/// Memory: 512 KiB for each rank of up to 16, 128 KiB of 64 and more, and as much for one more.
/// Cost of an all_reduce: per value one copy in, its share of the additions, and one copy out.
class sums {
 public:
  /// None on all ranks alike, as shared_segment::make. Collective.
  /// @param timeout  of one wait; 0: for ever
  /// @param names    of the ranks in errors; none: their numbers
  template <Transport T>
  static std::optional<sums> make(T& transport, tag_t tag, std::chrono::milliseconds timeout,
                                  std::vector<int> names = {}) {
    layout const where(transport.size());
    auto segment = shared_segment::make(transport, tag, where.bytes());
    if (!segment) return std::nullopt;
    if (names.empty())
      for (int r = 0; r < transport.size(); ++r) names.push_back(r);
    return sums(std::move(*segment), where, transport.rank(), timeout, std::move(names));
  }

  int rank() const { return rank_; }
  int size() const { return layout_.ranks; }

  /// Sums x over all ranks, in place, and divides the sum: the same bits on all ranks.
  template <class V> void all_reduce(std::span<V> x, int divisor = 1) {
    if (size() == 1) return divide(x, divisor);
    if (x.size_bytes() <= most_for_all) {
      put(std::as_bytes(x));
      wait_for_all(&counts::arrived, round_);
      add(size(), x.size(), divisor, x.data(), [&](int r) { return values_of<V>(round_, r, 0); });
      return pass(&counts::reduced, &counts::taken);
    }
    auto const chunks = chunks_of(x, layout_.slot_bytes / sizeof(V));
    put_for_others(chunks(0));
    for (std::size_t i = 0; i < chunks.count; ++i) {
      std::uint32_t const round = round_;
      if (i + 1 < chunks.count) put_for_others(chunks(i + 1));
      finish(chunks(i), divisor, round);
    }
  }

  /// Gives rank r the sum over all ranks of part r of x: `each` values, fewer or none where x ends.
  /// @param each  so many that there are no more parts than ranks
  /// @param part  may be the rank's own in x
  template <class V>
  void reduce_scatter(std::span<V const> x, std::size_t each, std::span<V> part, int divisor = 1) {
    if (size() == 1) {
      std::copy(x.begin(), x.end(), part.begin());
      return divide(part, divisor);
    }
    auto const ranks = static_cast<std::size_t>(size());
    std::size_t const most = layout_.slot_bytes / sizeof(V) / ranks;
    for (std::size_t first = 0; first < each; first += most) {
      begin_round();
      auto* const to = reinterpret_cast<V*>(slot(round_, rank_));
      for (std::size_t r = 0; r < ranks; ++r) {
        auto const some = piece_of(x, r, each, first, most);
        std::copy_n(some.data(), some.size(), to + r * most);
      }
      of(rank_).arrived.raise_to(round_);
      wait_for_all(&counts::arrived, round_);
      auto const mine = piece_of(x, static_cast<std::size_t>(rank_), each, first, most).size();
      std::size_t const begin = static_cast<std::size_t>(rank_) * most;
      if (mine > 0)
        add(size(), mine, divisor, part.data() + first,
            [&](int r) { return values_of<V>(round_, r, begin); });
      pass(&counts::reduced, &counts::taken);
    }
  }

  /// Parts of x, as of reduce_scatter, of all ranks on every rank.
  /// @param x  this rank's part is in its place
  template <class V> void all_gather(std::span<V> x, std::size_t each) {
    std::size_t const most = layout_.slot_bytes / sizeof(V);
    for (std::size_t first = 0; first < each; first += most) {
      put(std::as_bytes(piece_of(x, static_cast<std::size_t>(rank_), each, first, most)));
      for (int i = 1; i < size(); ++i) {
        int const r = (rank_ + i) % size();
        wait(&counts::arrived, r, round_);
        auto const some = piece_of(x, static_cast<std::size_t>(r), each, first, most);
        if (!some.empty()) std::memcpy(some.data(), slot(round_, r), some.size_bytes());
      }
      pass(&counts::reduced, &counts::taken);
    }
  }
  /// All ranks' bytes on every rank, in the order of the ranks.
  /// @param mine  may be in its place in `all`
  void all_gather(std::span<std::byte const> mine, std::span<std::byte> all) {
    auto const place = all.subspan(static_cast<std::size_t>(rank_) * mine.size(), mine.size());
    if (!mine.empty() && place.data() != mine.data())
      std::memcpy(place.data(), mine.data(), mine.size());
    all_gather(all, mine.size());
  }

  /// Gives every rank the bytes of rank `root`.
  void broadcast(std::span<std::byte> bytes, int root) {
    for (std::size_t first = 0; first < bytes.size(); first += layout_.slot_bytes) {
      auto const some = bytes.subspan(first, std::min(layout_.slot_bytes, bytes.size() - first));
      if (rank_ == root) {
        put(some);
      } else {
        begin_round();
        of(rank_).arrived.raise_to(round_);
        wait(&counts::arrived, root, round_);
        std::memcpy(some.data(), slot(round_, root), some.size());
      }
      pass(&counts::reduced, &counts::taken);
    }
  }

  /// Ends what all ranks have under way, and what they begin: a wire_error with this text.
  /// @throws wire_error  always
  [[noreturn]] void revoke(std::string const& why) {
    end(revoked, why);
    throw wire_error(why);
  }

  /// Ends what the others have under way, and what they begin, for the first who says so: a
  /// transport_error with this peer, a rank of whatever numbers, and text.
  void fail(int peer, std::string const& why) { end(peer, why); }

 private:
  /// Of one rank, by rounds. A round is what passes through the memory at once.
  struct alignas(64) counts {
    progress arrived;  ///< its values are there
    progress reduced;  ///< its share of the result is there
    progress taken;    ///< it needs no more of the round
  };
  /// How collectives end early.
  struct alignas(64) ending {
    std::atomic<std::uint32_t> is_written;  ///< 1: somebody writes, 2: all is there
    std::int32_t whom;                      ///< the peer of a transport_error, or `revoked`
    char text[240];
  };
  static constexpr std::int32_t revoked = -2;

  struct layout {
    int ranks;
    std::size_t slot_bytes;

    explicit layout(int size) : ranks(size) {
      constexpr std::size_t together = std::size_t{4} << 20, page = 4096;
      auto const each = together / static_cast<std::size_t>(size) / page * page;
      slot_bytes = std::clamp<std::size_t>(each, 64 << 10, 256 << 10);
    }
    std::size_t slots() const { return static_cast<std::size_t>(ranks) + 1; }
    std::size_t first_slot() const {
      return (sizeof(ending) + static_cast<std::size_t>(ranks) * sizeof(counts) + 4095) / 4096 *
             4096;
    }
    std::size_t bytes() const { return first_slot() + 2 * slots() * slot_bytes; }
  };
  struct share {
    std::size_t first, count;
  };
  template <class V> struct chunk_list {
    std::span<V> x;
    std::size_t most, count;

    std::span<V> operator()(std::size_t i) const {
      return x.subspan(i * most, std::min(most, x.size() - i * most));
    }
  };

  /// Where all ranks add everything, which saves a wait.
  static constexpr std::size_t most_for_all = 8192;

  sums(shared_segment segment, layout where, int rank, std::chrono::milliseconds timeout,
       std::vector<int> names)
      : segment_(std::move(segment)),
        layout_(where),
        rank_(rank),
        timeout_(timeout),
        names_(std::move(names)) {}

  ending& how_it_ended() const { return *reinterpret_cast<ending*>(segment_.bytes().data()); }
  counts& of(int rank) const {
    auto* const first = reinterpret_cast<counts*>(segment_.bytes().data() + sizeof(ending));
    return first[rank];
  }
  /// Of a rank in a round, or number `size()`: the result.
  std::byte* slot(std::uint32_t round, int number) const {
    std::size_t const place = round % 2 * layout_.slots() + static_cast<std::size_t>(number);
    return segment_.bytes().data() + layout_.first_slot() + place * layout_.slot_bytes;
  }
  /// Whole cache lines, but for the last, so that ranks do not write to the same ones.
  share share_of(std::size_t values, int rank) const {
    auto const ranks = static_cast<std::size_t>(size()), r = static_cast<std::size_t>(rank);
    std::size_t const each = (values / ranks + 63) / 64 * 64;
    std::size_t const first = std::min(values, r * each);
    bool const is_last = r + 1 == ranks;
    return {first, (is_last ? values : std::min(values, first + each)) - first};
  }
  /// Of part r of x, from value `first` of the part on.
  template <class V>
  static std::span<V> piece_of(std::span<V> x, std::size_t r, std::size_t each, std::size_t first,
                               std::size_t most) {
    std::size_t const begin = std::min(x.size(), r * each + first);
    std::size_t const end = std::min(x.size(), (r + 1) * each);
    return x.subspan(begin, begin < end ? std::min(most, end - begin) : 0);
  }
  template <class V> static chunk_list<V> chunks_of(std::span<V> x, std::size_t most) {
    return {x, most, (x.size() + most - 1) / most};
  }

  /// A new round, in memory that nobody needs any more.
  void begin_round() {
    ++round_;
    for (int r = 0; r < size(); ++r) wait(&counts::taken, r, round_ - 2);
  }
  void put(std::span<std::byte const> bytes) {
    begin_round();
    if (!bytes.empty()) std::memcpy(slot(round_, rank_), bytes.data(), bytes.size());
    of(rank_).arrived.raise_to(round_);
  }
  /// What others add of a chunk: all but this rank's share.
  template <class V> void put_for_others(std::span<V const> chunk) {
    begin_round();
    auto* const to = reinterpret_cast<V*>(slot(round_, rank_));
    auto const mine = share_of(chunk.size(), rank_);
    std::copy_n(chunk.data(), mine.first, to);
    std::size_t const end = mine.first + mine.count;
    std::copy(chunk.begin() + static_cast<std::ptrdiff_t>(end), chunk.end(), to + end);
    of(rank_).arrived.raise_to(round_);
  }
  template <class V> void put_for_others(std::span<V> chunk) {
    put_for_others(std::span<V const>(chunk));
  }
  /// Adds this rank's share of a chunk that was put, and takes the others'.
  template <class V> void finish(std::span<V> chunk, int divisor, std::uint32_t round) {
    auto* const result = reinterpret_cast<V*>(slot(round, size()));
    wait_for_all(&counts::arrived, round);
    auto const mine = share_of(chunk.size(), rank_);
    V* const own = chunk.data() + mine.first;
    add(size(), mine.count, divisor, own,
        [&](int r) { return r == rank_ ? own : values_of<V>(round, r, mine.first); });
    std::copy_n(own, mine.count, result + mine.first);
    of(rank_).reduced.raise_to(round);
    for (int i = 1; i < size(); ++i) {
      int const r = (rank_ + i) % size();
      wait(&counts::reduced, r, round);
      auto const part = share_of(chunk.size(), r);
      std::copy_n(result + part.first, part.count, chunk.data() + part.first);
    }
    of(rank_).taken.raise_to(round);
  }
  template <class... Count> void pass(Count... count) {
    ((of(rank_).*count).raise_to(round_), ...);
  }
  void wait_for_all(progress counts::*count, std::uint32_t round) {
    for (int i = 1; i < size(); ++i) wait(count, (rank_ + i) % size(), round);
  }

  void wait(progress counts::*count, int rank, std::uint32_t round) {
    if (rank == rank_) return;
    using clock = std::chrono::steady_clock;
    std::optional<clock::time_point> began;
    bool has_ended = false;
    (of(rank).*count).wait_for(round, [&] {
      if (how_it_ended().is_written.load() == 2) throw_ending();
      if (has_ended) give_up(rank, "its process has ended");  // and did not get there just before
      has_ended = !segment_.lives(rank);
      if (!began) began = clock::now();
      if (timeout_.count() > 0 && clock::now() - *began > timeout_)
        give_up(rank, detail::error_text({"it said nothing for ", timeout_.count(), " ms"}));
    });
  }
  [[noreturn]] void give_up(int rank, std::string const& why) {
    int const name = names_[static_cast<std::size_t>(rank)];
    std::string const text = detail::error_text({"rank ", name, " failed: ", why});
    end(name, text);
    throw transport_error(name, text);
  }
  /// The first text is that of all ranks.
  void end(std::int32_t whom, std::string const& text) {
    auto& it = how_it_ended();
    std::uint32_t nobody = 0;
    if (!it.is_written.compare_exchange_strong(nobody, 1)) return;
    it.whom = whom;
    text.copy(it.text, sizeof it.text - 1);
    it.is_written.store(2);
  }
  [[noreturn]] void throw_ending() const {
    auto const& it = how_it_ended();
    if (it.whom == revoked) throw wire_error(it.text);
    throw transport_error(it.whom, it.text);
  }

  /// Where values of a rank begin in a round, number `first` of its slot.
  template <class V> V const* values_of(std::uint32_t round, int rank, std::size_t first) const {
    return reinterpret_cast<V const*>(slot(round, rank)) + first;
  }
  template <class V> static void divide(std::span<V> x, int divisor) {
    if (divisor == 1) return;
    using number = decltype(summand(V{}));
    for (V& value : x) value = static_cast<V>(summand(value) / static_cast<number>(divisor));
  }

  shared_segment segment_;
  layout layout_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<int> names_;
  std::uint32_t round_ = 0;
};

}  // namespace hcomp::host
