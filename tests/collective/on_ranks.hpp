#pragma once
/// @file
/// Ranks as threads for tests: their outcomes, inputs from a seed, and comparison of bits.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/transport/in_process.hpp>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <support/few_cases.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// 1 to 8 ranks. With few_cases: one rank, an odd number, and a torus of several rows.
inline std::vector<int> up_to_8_ranks() {
  if (few_cases) return {1, 3, 8};
  return {1, 2, 3, 4, 5, 6, 7, 8};
}

/// Outcome of one rank.
struct outcome {
  std::string what = "returned";  ///< or the class of the exception
  std::string text = {};
  int peer = -1;  ///< peer of a transport_error

  friend bool operator==(outcome const&, outcome const&) = default;
  friend std::ostream& operator<<(std::ostream& out, outcome const& one) {
    return out << one.what << " (peer " << one.peer << "): " << one.text;
  }
};

/// Calls `body()` and returns its outcome.
template <class F> outcome outcome_of(F const& body) {
  try {
    body();
    return {};
  } catch (transport_error const& error) {
    return {"transport_error", error.what(), error.peer()};
  } catch (disagreement_error const& error) {
    return {"disagreement_error", error.what()};
  } catch (wire_error const& error) {
    return {"wire_error", error.what()};
  } catch (nonfinite_error const& error) {
    return {"nonfinite_error", error.what()};
  } catch (std::invalid_argument const& error) {
    return {"invalid_argument", error.what()};
  } catch (std::exception const& error) {
    return {"exception", error.what()};
  }
}

/// Outcomes of all ranks. An exception of one rank does not fail the group: ranks that wait for it
/// fail after 30 seconds with a text that names it.
template <class F> std::vector<outcome> outcomes_on(int ranks, F const& rank_main) {
  in_process_world world(ranks);
  std::vector<outcome> outcomes(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  std::condition_variable changed;
  int running = ranks;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      in_process transport(world, rank);
      outcomes[static_cast<std::size_t>(rank)] = outcome_of([&] { rank_main(transport); });
      std::lock_guard const lock(mutex);
      --running;
      changed.notify_all();
    });
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, std::chrono::seconds(30), [&] { return running == 0; }))
      world.fail(ranks, "test: some rank still waits after 30 seconds");
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

/// `expected` on every rank, with one text.
inline bool all_ended_alike(std::vector<outcome> const& outcomes, std::string const& expected) {
  for (auto const& one : outcomes)
    if (one.what != expected || !(one == outcomes.front())) return false;
  return true;
}

/// One line with all outcomes, for a failed test.
inline std::string to_text(std::vector<outcome> const& outcomes) {
  std::string text;
  for (auto const& one : outcomes) text += "\n  " + one.what + ": " + one.text;
  return text;
}

/// Random numbers from a seed, by Philox: the same on every machine.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed, std::uint32_t key = 0) : seed_(seed), key_(key) {}

  std::uint32_t next() {
    if (at_ == 4) {
      draw_ = philox4x32({count_++, key_, 0, 0}, seed_);
      at_ = 0;
    }
    return draw_[at_++];
  }
  /// In [-1, 1).
  double uniform() { return next() * 0x1p-31 - 1; }
  /// In [low, high].
  int integer(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint32_t>(high - low + 1));
  }

 private:
  std::uint64_t seed_;
  std::uint32_t key_, count_ = 0;
  std::size_t at_ = 4;
  std::array<std::uint32_t, 4> draw_{};
};

/// `values` uniform numbers in [-1, 1) for one rank.
template <class V = float>
std::vector<V> uniform_values(std::size_t values, std::uint64_t seed, int rank) {
  random_numbers numbers(seed, static_cast<std::uint32_t>(rank));
  std::vector<V> x(values);
  for (auto& value : x) value = static_cast<V>(static_cast<float>(numbers.uniform()));
  return x;
}

/// Those of ranks 0 to `ranks` - 1.
inline std::vector<std::vector<float>> uniform_vectors(int ranks, std::size_t values,
                                                       std::uint64_t seed) {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(values, seed, rank));
  return x;
}

/// `values` integers in [-8, 8] for one rank: a sum over fewer than 30 ranks is exact in every
/// float type.
template <class V = float>
std::vector<V> integer_values(std::size_t values, std::uint64_t seed, int rank) {
  random_numbers numbers(seed, static_cast<std::uint32_t>(rank));
  std::vector<V> x(values);
  for (auto& value : x) value = static_cast<V>(static_cast<float>(numbers.integer(-8, 8)));
  return x;
}

inline constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// The first index where two vectors differ in a bit; `nowhere` if they are equal.
template <class A, class B> std::size_t first_difference(A const& a, B const& b) {
  static_assert(sizeof(a[0]) == sizeof(b[0]));
  if (a.size() != b.size()) return a.size() < b.size() ? a.size() : b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(a[i])) != 0) return i;
  return nowhere;
}

/// Runs `body(transport, x)` on all ranks and returns every rank's x. Rethrows the first exception
/// of any rank.
template <class V, class F>
std::vector<std::vector<V>> on_ranks(std::vector<std::vector<V>> x, F const& body) {
  run_ranks(static_cast<int>(x.size()), [&](in_process& transport) {
    body(transport, x[static_cast<std::size_t>(transport.rank())]);
  });
  return x;
}

}  // namespace hcomp::testing
