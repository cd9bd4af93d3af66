#pragma once
/// @file
/// Memory that the ranks of a host take turns with. Linux.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/node/progress.hpp>
#include <hcomp/node/shared_segment.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::node {

/// A slot for each rank and one for their result, of which all ranks say how far they are. What passes
/// through the slots at once is a round; two of them may be under way.
///
/// Rounds are counted alike on all ranks. A rank that ends is a transport_error with its number on all
/// that wait for it, within 0.1 s; so is one that says nothing for as long as the time limit.
class rounds {
 public:
  /// How far a rank is in a round, in this order. All three are reached in every round.
  enum class stage { arrived, reduced, taken };

  /// None on all ranks alike, as shared_segment::make. Collective.
  /// @param timeout  of one wait; 0: for ever
  /// @param names    of the ranks in errors; none: their numbers
  template <Transport T>
  static std::optional<rounds> make(T& transport, tag_t tag, std::chrono::milliseconds timeout,
                                    std::vector<int> names) {
    layout const where(transport.size());
    auto segment = shared_segment::make(transport, tag, where.bytes());
    if (!segment) return std::nullopt;
    if (names.empty())
      for (int r = 0; r < transport.size(); ++r) names.push_back(r);
    return rounds(std::move(*segment), where, transport.rank(), timeout, std::move(names));
  }

  /// From now on it waits by the wait_until of this transport, which has it and must outlive this: other
  /// collectives go on meanwhile. Null: it waits by itself, as at first.
  void wait_over(any_transport* transport) { over_ = transport; }

  int rank() const { return rank_; }
  int size() const { return layout_.ranks; }
  std::size_t slot_bytes() const { return layout_.slot_bytes; }

  /// The number of a new round, in memory that nobody needs any more.
  std::uint32_t begin() {
    ++round_;
    for (int r = 0; r < size(); ++r) wait(stage::taken, r, round_ - 2);
    return round_;
  }
  /// Of a rank, or number `size()`: of the result.
  template <class V> V* slot(std::uint32_t round, int number) const {
    std::size_t const place = round % 2 * layout_.slots() + static_cast<std::size_t>(number);
    return reinterpret_cast<V*>(segment_.bytes().data() + layout_.first_slot() +
                                place * layout_.slot_bytes);
  }
  /// This rank is so far: what it wrote before can be read.
  void reach(stage now, std::uint32_t round) { of(rank_)[index(now)].raise_to(round); }
  /// Returns when a rank is so far.
  /// @throws transport_error, wire_error  it never will be; see fail and revoke
  void wait(stage until, int rank, std::uint32_t round) {
    if (rank == rank_) return;
    using clock = std::chrono::steady_clock;
    std::optional<clock::time_point> began;
    bool has_ended = false;
    auto const look = [&] {
      if (how_it_ended().is_written.load() == 2) throw_ending();
      if (has_ended) give_up(rank, "its process has ended");  // and did not get there just before
      has_ended = !segment_.lives(rank);
      if (!began) began = clock::now();
      if (timeout_.count() > 0 && clock::now() - *began > timeout_)
        give_up(rank, detail::error_text({"it said nothing for ", timeout_.count(), " ms"}));
    };
    auto& there = of(rank)[index(until)];
    if (over_)
      there.wait_for(round, look, *over_);
    else
      there.wait_for(round, look);
  }
  /// Of all others.
  void wait(stage until, std::uint32_t round) {
    for (int i = 1; i < size(); ++i) wait(until, (rank_ + i) % size(), round);
  }

  /// Ends the waiting of all ranks, this one's later on too: by a wire_error with this text.
  /// @throws wire_error  always
  [[noreturn]] void revoke(std::string const& why) {
    end(revoked, why);
    throw wire_error(why);
  }
  /// The same for others, by a transport_error with this peer, of whatever numbers, and text.
  void fail(int peer, std::string const& why) { end(peer, why); }

 private:
  /// Of one rank, by stages.
  struct alignas(64) counts {
    progress of_stage[3];
    progress& operator[](std::size_t i) { return of_stage[i]; }
  };
  /// How waiting ends for all.
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
  rounds(shared_segment segment, layout where, int rank, std::chrono::milliseconds timeout,
         std::vector<int> names)
      : segment_(std::move(segment)),
        layout_(where),
        rank_(rank),
        timeout_(timeout),
        names_(std::move(names)) {}

  static constexpr std::size_t index(stage of) { return static_cast<std::size_t>(of); }
  ending& how_it_ended() const { return *reinterpret_cast<ending*>(segment_.bytes().data()); }
  counts& of(int rank) const {
    auto* const first = reinterpret_cast<counts*>(segment_.bytes().data() + sizeof(ending));
    return first[rank];
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

  shared_segment segment_;
  layout layout_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<int> names_;
  any_transport* over_ = nullptr;
  std::uint32_t round_ = 0;
};

}  // namespace hcomp::node
