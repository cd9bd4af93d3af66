
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <hcomp/exec/host_executor.hpp>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

/// Counts its calls per block, and records their threads.
struct note_calls {
  std::vector<std::atomic<int>>* calls;

  template <class Group> void operator()(Group, std::size_t i) const { ++(*calls)[i]; }
};

/// Not atomic: the thread sanitizer would detect a race, and the values a lost job.
struct add_index {
  std::uint64_t* values;

  template <class Group> void operator()(Group, std::size_t i) const { values[i] += i + 1; }
};

/// Helper threads are slower than the caller, so the caller has to wait for them.
struct slow_helpers {
  std::thread::id caller;
  std::atomic<int>* done;

  template <class Group> void operator()(Group, std::size_t) const {
    bool const helper = std::this_thread::get_id() != caller;
    std::this_thread::sleep_for(std::chrono::milliseconds(helper ? 10 : 1));
    ++*done;
  }
};

struct note_group {
  std::atomic<bool>* simd;

  template <class Group> void operator()(Group, std::size_t) const {
    *simd = std::is_same_v<Group, hcomp::simd_group>;
  }
};

}  // namespace

TEST_CASE("host_executor: runs every block exactly once, on any number of threads") {
  for (int threads = 1; threads <= 4; ++threads) {
    hcomp::host_executor executor(threads);
    for (std::size_t const blocks : {0, 1, 2, 3, 4, 5, 63, 64, 65, 1000}) {
      CAPTURE(threads);
      CAPTURE(blocks);
      std::vector<std::atomic<int>> calls(blocks);
      executor.for_each_block(blocks, note_calls{&calls});
      executor.synchronize();
      for (auto const& count : calls) REQUIRE(count == 1);
    }
  }
}

TEST_CASE("host_executor: finishes one job before the next begins, for any number of jobs") {
  for (int threads = 1; threads <= 4; ++threads) {
    hcomp::host_executor executor(threads);
    std::vector<std::uint64_t> values(37);
    constexpr std::uint64_t jobs = 500;
    for (std::uint64_t job = 0; job < jobs; ++job)
      executor.for_each_block(values.size(), add_index{values.data()});
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == jobs * (i + 1));
  }
}

TEST_CASE("host_executor: returns when the last block is done, not when the caller's share is") {
  for (int threads = 1; threads <= 4; ++threads) {
    hcomp::host_executor executor(threads);
    for (int job = 0; job < 5; ++job) {
      CAPTURE(threads);
      std::atomic<int> done = 0;
      executor.for_each_block(8, slow_helpers{std::this_thread::get_id(), &done});
      REQUIRE(done == 8);
    }
  }
}

TEST_CASE("host_executor: continues to work after a move") {
  hcomp::host_executor first(3);
  std::vector<std::uint64_t> values(10);
  first.for_each_block(values.size(), add_index{values.data()});
  hcomp::host_executor second = std::move(first);
  second.for_each_block(values.size(), add_index{values.data()});
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == 2 * (i + 1));
}

TEST_CASE("host_executor: can be created, left unused and destroyed, many times") {
  for (int i = 0; i < 20; ++i) hcomp::host_executor const executor(1 + i % 4);
}

TEST_CASE("host_executor: several can work at the same time") {
  std::vector<std::uint64_t> first(100), second(100);
  auto const work = [](std::vector<std::uint64_t>& values) {
    hcomp::host_executor executor(2);
    for (int job = 0; job < 50; ++job)
      executor.for_each_block(values.size(), add_index{values.data()});
  };
  std::thread other([&] { work(second); });
  work(first);
  other.join();
  CHECK(first == second);
}

TEST_CASE("host_executor: refuses fewer than one thread, with the number") {
  CHECK_THROWS_WITH_AS(hcomp::host_executor(0),
                       "host_executor: 0 threads asked for, at least 1 is needed",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(hcomp::host_executor(-3),
                       "host_executor: -3 threads asked for, at least 1 is needed",
                       std::invalid_argument);
}

TEST_CASE("host_executor takes the SIMD lanes, reference_executor the serial ones") {
  for (int const threads : {1, 2})
    for (std::size_t const blocks : {1, 2}) {
      std::atomic<bool> simd = false, reference_simd = true;
      hcomp::host_executor(threads).for_each_block(blocks, note_group{&simd});
      hcomp::reference_executor(1).for_each_block(blocks, note_group{&reference_simd});
      CHECK(simd);
      CHECK_FALSE(reference_simd);
    }
}

TEST_CASE("host_buffer: starts on a cache line and has the requested size") {
  for (std::size_t const bytes : {0, 1, 63, 64, 65, 100000}) {
    hcomp::host_buffer const buffer(bytes);
    CHECK(buffer.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    for (std::size_t i = 0; i < bytes; ++i) buffer.data()[i] = std::byte{1};
  }
  CHECK(hcomp::host_buffer().size() == 0);
}
