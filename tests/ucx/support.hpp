#pragma once
/// @file
/// Ranks as forked processes, and their outcomes. The first process never starts UCX itself.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <hcomp/ucx/transport.hpp>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <support/lost_ranks.hpp>
#include <support/process.hpp>
#include <vector>

// defined in builds with sanitizers
extern "C" __attribute__((weak)) void __sanitizer_print_stack_trace();

namespace hcomp::ucx::testing {

inline constexpr int max_ranks = 8;
/// A test that takes longer counts as hanging.
inline constexpr double hang_seconds = 100;

using hcomp::testing::child_process;
using hcomp::testing::ending;
using hcomp::testing::must;
using hcomp::testing::now;

/// Outcome of one rank.
struct outcome {
  ending how = ending::none;
  int peer = -1;            ///< rank named by the transport_error
  double seconds = 0;       ///< from the fault (else from the start) to the end of the body
  bool clean_exit = false;  ///< exit with status 0; sanitizers use another status
  char text[400] = "";
};

/// Memory shared by all ranks.
struct store {
  struct place {
    std::atomic<int> steps{0};
    std::atomic<bool> ended{false};
    pid_t id = 0;
    std::size_t address_bytes = 0;
    std::byte address[2048] = {};
    outcome result;
  };
  std::atomic<int> arrived{0};
  std::atomic<double> fault_at{0};
  std::atomic<bool> may_go{false};
  place places[max_ranks];

  static store* create() {
    void* const memory =
        mmap(nullptr, sizeof(store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return new (memory) store;
  }
};

/// One rank, used inside its process.
class member {
 public:
  member(int rank, int size, store& shared) : rank(rank), size(size), shared_(shared) {}

  int const rank, size;

  /// Process id of a rank, valid after the first meeting.
  pid_t id(int of) const { return shared_.places[of].id; }

  /// Barrier of all ranks, through shared memory and not UCX.
  void meet() {
    shared_.places[rank].id = getpid();
    int const all = ++meetings_ * size;
    ++shared_.arrived;
    for (double const start = now(); shared_.arrived < all; sched_yield())
      must(now() - start < hang_seconds, "all ranks come to a meeting of the test");
  }

  address_exchange exchange() {
    return [this](std::span<std::byte const> mine) {
      auto all = exchange_once()(mine);
      meet();  // no rank overwrites a slot that another rank still reads
      return all;
    };
  }

  /// An exchange for one transport only. A rank that has returned from it no longer needs the other
  /// ranks.
  address_exchange exchange_once() {
    return [this](std::span<std::byte const> mine) {
      auto& own = shared_.places[rank];
      must(mine.size() <= sizeof own.address, "an address of at most 2048 bytes");
      own.address_bytes = mine.size();
      std::copy(mine.begin(), mine.end(), own.address);
      meet();
      std::vector<std::vector<std::byte>> all;
      for (int i = 0; i < size; ++i) {
        auto const& place = shared_.places[i];
        all.emplace_back(place.address, place.address + place.address_bytes);
      }
      return all;
    };
  }

  /// Returns whether the director has called let_go().
  bool may_go() const { return shared_.may_go; }

  /// Counts a step of this rank for the director.
  void step() { ++shared_.places[rank].steps; }

 private:
  store& shared_;
  int meetings_ = 0;
};

/// Injects faults: runs in the first process while the ranks run.
class director {
 public:
  director(store& shared, std::vector<pid_t> const& ids)
      : shared_(shared), ids_(ids), lost(ids.size(), false) {}

  void await_steps(int rank, int steps) {
    auto const& place = shared_.places[rank];
    for (double const start = now(); place.steps < steps; usleep(500))
      if (place.ended || now() - start > hang_seconds) {
        expect(false, "rank " + std::to_string(rank) + " takes " + std::to_string(steps) +
                          " steps, " + (place.ended ? place.result.text : "but it hangs"));
        return;
      }
  }

  /// Waits until all ranks have reached that number of meetings; exact to microseconds.
  void await_meetings(int meetings) {
    int const all = meetings * int(ids_.size());
    for (double const start = now(); shared_.arrived < all; sched_yield())
      for (std::size_t rank = 0; rank < ids_.size(); ++rank)
        if (auto const& place = shared_.places[rank]; place.ended || now() - start > hang_seconds)
          return expect(false, "all ranks come to meeting " + std::to_string(meetings) + "; rank " +
                                   std::to_string(rank) + " " +
                                   (place.ended ? place.result.text : "hangs"));
  }

  /// If `holds` is false, no fault is injected and no outcome counts.
  void expect(bool holds, std::string const& what) {
    if (!holds && failure.empty()) failure = "expected: " + what;
  }

  /// `signal` is SIGKILL or SIGSTOP: the rank counts as failed from now on.
  void lose(int rank, int signal) {
    lost[std::size_t(rank)] = true;
    mark_fault();
    kill(ids_[std::size_t(rank)], signal);
  }

  void mark_fault() { shared_.fault_at = now(); }

  /// Releases ranks that wait for may_go().
  void let_go() { shared_.may_go = true; }

  pid_t id(int rank) const { return ids_[std::size_t(rank)]; }
  bool has_ended(int rank) const { return shared_.places[rank].ended; }

 private:
  store& shared_;
  std::vector<pid_t> const& ids_;

 public:
  std::vector<bool> lost;
  std::string failure;
};

using rank_body = std::function<void(member&)>;
using fault_script = std::function<void(director&)>;

[[noreturn]] inline void be_rank(int rank, int size, store& shared, rank_body const& body) {
  std::signal(SIGABRT, [](int) {  // the test hangs
    if (__sanitizer_print_stack_trace) __sanitizer_print_stack_trace();
    _exit(EXIT_FAILURE);
  });
  setenv("HCOMP_UCX_TLS", "tcp,self", /*overwrite=*/0);
  outcome result;
  double const start = now();
  auto const ended = [&](ending how, std::string const& text, int peer = -1) {
    result.how = how;
    result.peer = peer;
    std::snprintf(result.text, sizeof result.text, "%s", text.c_str());
  };
  try {
    member self(rank, size, shared);
    body(self);
    ended(ending::finished, "finished");
  } catch (transport_error const& error) {
    ended(ending::gave_up, error.what(), error.peer());
  } catch (std::exception const& error) {
    ended(ending::other_exception, error.what());
  }
  double const fault_at = shared.fault_at;
  result.seconds = now() - (fault_at > 0 ? fault_at : start);
  shared.places[rank].result = result;
  shared.places[rank].ended = true;
  std::exit(0);  // not _exit: leak checkers run at exit
}

/// Runs `body` in `size` processes. Ranks that `script` did not kill or stop must end by
/// themselves.
inline std::vector<outcome> run_ranks(int size, rank_body const& body,
                                      fault_script const& script = {}) {
  store& shared = *store::create();
  std::vector<child_process> ranks;
  std::vector<pid_t> ids;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&]() -> int { be_rank(rank, size, shared, body); });
    ids.push_back(ranks.back().id());
  }
  director directing(shared, ids);
  if (script) script(directing);

  std::vector<outcome> results(ids.size());
  double const start = now();  // common to all ranks: ranks that hang must not add up their waits
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    if (directing.lost[rank]) continue;
    auto const status =
        ranks[rank].wait_for(std::chrono::duration<double>(hang_seconds - (now() - start)));
    results[rank] = shared.places[rank].result;
    results[rank].clean_exit = status == 0;
    if (!status) {  // it may print a stack trace
      ranks[rank].send(SIGABRT);
      usleep(1'000'000);
    }
    if (!results[rank].clean_exit) {
      std::string const text =
          (status ? "ended with " + hcomp::testing::status_text(*status) : "hangs") + "; " +
          results[rank].text;
      std::snprintf(results[rank].text, sizeof results[rank].text, "%s", text.c_str());
    }
  }
  if (!directing.failure.empty())
    for (auto& it : results) {
      it.how = ending::none;
      std::snprintf(it.text, sizeof it.text, "%s", directing.failure.c_str());
    }
  munmap(&shared, sizeof shared);
  return results;
}

// ---- Payloads ---------------------------------------------------------------------------------

/// Returns the same bytes for the same seed.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> data(bytes);
  std::uint32_t x = seed * 2654435761u + 12345u;
  for (auto& b : data) {
    x = x * 1664525u + 1013904223u;
    b = std::byte(x >> 24);
  }
  return data;
}

/// Sends to the next rank and receives from the previous one, once around.
inline std::size_t shift(transport& ring, tag_t tag, std::span<std::byte const> out,
                         std::span<std::byte> in) {
  int const size = ring.size();
  auto coming = ring.irecv((ring.rank() + size - 1) % size, tag, in);
  auto going = ring.isend((ring.rank() + 1) % size, tag, out);
  std::size_t const bytes = ring.wait(coming);
  ring.wait(going);
  return bytes;
}

}  // namespace hcomp::ucx::testing
