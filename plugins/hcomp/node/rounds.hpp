#pragma once
/// @file
/// Synchronised use of shared memory by the ranks of a node. Linux.

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
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::node {

/// One slot per rank plus one for their result, with progress counters of all ranks. One use of the
/// slots is a round; two rounds may overlap.
///
/// All ranks count rounds alike. If a rank's process ends, all ranks that wait for it get a
/// transport_error with its number, within 0.1 s. The same happens a second after the timeout if a
/// rank makes no progress, and no rank has named another one by then.
class rounds {
 public:
  /// The progress of a rank within a round, in this order. Every round reaches all three stages.
  enum class stage { arrived, reduced, taken };

  /// Empty on all ranks alike, as shared_segment::make. Collective.
  /// @param timeout  of one wait; 0: none
  /// @param names    rank numbers for error texts; empty: 0, 1, ...
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

  /// From now on waits with the wait_until of this transport, which must have it and outlive this
  /// object, so that other collectives progress meanwhile. Null (the default): waits by itself.
  void wait_over(any_transport* transport) { over_ = transport; }

  int rank() const { return rank_; }
  int size() const { return layout_.ranks; }
  static constexpr std::size_t least_slot_bytes = 64 << 10;
  std::size_t slot_bytes() const { return layout_.slot_bytes; }

  /// See shared_segment.
  bool read(int rank, std::uint64_t address, std::span<std::byte> to) const {
    return segment_.read(rank, address, to);
  }

  /// Begins a round and returns its number; waits until its slots are free.
  /// @throws transport_error, wire_error  after fail or revoke, also of this rank
  std::uint32_t begin() {
    if (is_over()) throw_ending();
    ++round_;
    for (int r = 0; r < size(); ++r) wait(stage::taken, r, round_ - 2);
    return round_;
  }
  /// The slot of a rank; number `size()` is the slot of the result.
  template <class V> V* slot(std::uint32_t round, int number) const {
    std::size_t const place = round % 2 * layout_.slots() + static_cast<std::size_t>(number);
    return reinterpret_cast<V*>(segment_.bytes().data() + layout_.first_slot() +
                                place * layout_.slot_bytes);
  }
  /// Publishes that this rank has reached a stage. Its earlier writes become visible first.
  void reach(stage now, std::uint32_t round) { of(rank_)[index(now)].raise_to(round); }
  /// Waits until a rank has reached a stage.
  /// @throws transport_error, wire_error  it never will; see fail and revoke
  void wait(stage until, int rank, std::uint32_t round) {
    if (rank == rank_) return;
    std::optional<detail::deadline> limit, answers;
    bool has_ended = false;
    auto const look = [&] {
      if (is_over()) throw_ending();
      if (has_ended) give_up(rank, "its process has ended");  // still not there
      has_ended = !segment_.lives(rank);
      if (!limit) limit.emplace(timeout_);
      if (!limit->passed()) return;
      // The rank may wait for another rank itself, over a network, and name that one.
      if (!answers) answers.emplace(answer_time);
      if (answers->passed())
        give_up(rank, detail::error_text({"it said nothing for ", timeout_.count(), " ms"}));
    };
    auto& round_of_rank = of(rank)[index(until)];
    if (over_)
      round_of_rank.wait_for(round, spins_, look, *over_);
    else
      round_of_rank.wait_for(round, spins_, look);
  }
  /// Waits for all other ranks.
  void wait(stage until, std::uint32_t round) {
    for (int i = 1; i < size(); ++i) wait(until, (rank_ + i) % size(), round);
  }

  /// Ends all current and later waits on all ranks by a wire_error with this text.
  /// @throws wire_error  always
  [[noreturn]] void revoke(std::string const& why) {
    end(revoked, why);
    throw wire_error(why);
  }
  /// Ends the waits of other ranks by a transport_error with this text; `peer` may be any number.
  void fail(int peer, std::string const& why) { end(peer, why); }

 private:
  /// For a rank that finds the failed one at the same time; longer than over UCX.
  static constexpr std::chrono::seconds answer_time{1};

  /// The counters of one rank, by stage.
  struct alignas(64) counts {
    progress of_stage[3];
    progress& operator[](std::size_t i) { return of_stage[i]; }
  };
  /// The reason for the end of all waits.
  struct alignas(64) ending {
    std::atomic<std::uint32_t> is_written;  ///< 1: being written, 2: complete
    std::int32_t whom;                      ///< peer of the transport_error, or `revoked`
    char text[240];
  };
  static constexpr std::int32_t revoked = -2;

  struct layout {
    int ranks;
    std::size_t slot_bytes;

    explicit layout(int size) : ranks(size) {
      constexpr std::size_t together = std::size_t{4} << 20, page = 4096;
      auto const each = together / static_cast<std::size_t>(size) / page * page;
      slot_bytes = std::clamp<std::size_t>(each, least_slot_bytes, 256 << 10);
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
        names_(std::move(names)),
        spins_(where.ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? 2000 : 20) {}

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
  /// The first text counts on all ranks.
  void end(std::int32_t whom, std::string const& text) {
    auto& it = how_it_ended();
    std::uint32_t nobody = 0;
    if (!it.is_written.compare_exchange_strong(nobody, 1)) return;
    it.whom = whom;
    text.copy(it.text, sizeof it.text - 1);
    it.is_written.store(2);
  }
  bool is_over() const { return how_it_ended().is_written.load() == 2; }
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
  int spins_;  ///< see progress; some ten microseconds if every rank may have a core
  any_transport* over_ = nullptr;
  std::uint32_t round_ = 0;
};

}  // namespace hcomp::node
