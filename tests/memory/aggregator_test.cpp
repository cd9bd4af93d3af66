#include <doctest/doctest.h>

#include <chrono>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <hcomp/collective/aggregation/aggregator.hpp>
#include <new>
#include <vector>

namespace {

std::uint64_t allocations = 0;

/// Not inlined: otherwise g++ warns that memory of operator new is given to free.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

// Counts the allocations of the whole program.
void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

using namespace hcomp;
using namespace hcomp::testing;

TEST_CASE("aggregator: no packet makes it allocate, also not a first, late or malformed one") {
  for (auto const width : {sum_width::lanes, sum_width::u16, sum_width::tight}) {
    aggregator_options options;
    options.workers = 6;
    options.levels = even_levels(4, 30);
    options.chunks = 3;
    options.word_chunks = 1;
    options.quota = 4;
    options.deadline = std::chrono::nanoseconds(10);
    options.width = width;
    std::vector<packet> packets;
    for (std::uint32_t round = 0; round < 5; ++round)
      for (std::uint32_t chunk = 0; chunk < 4; ++chunk)  // chunk 3 does not exist
        for (std::uint16_t rank = 0; rank < 7; ++rank) {
          aggregation_packet h;
          h.bits = 4;
          h.largest_level = 30;
          h.round = round;
          h.chunk = chunk;
          h.rank = rank;
          packets.push_back(packet_of(h, std::vector<std::uint32_t>(1024, rank)));
          h.kind = packet_kind::words;
          h.bits = 32;
          h.largest_level = 0;
          packets.push_back(packet_of(h, std::vector<std::uint32_t>(200, rank)));
          if (rank == 5) packets.back().pop_back();
        }
    std::uint64_t const before_it = allocations;
    aggregator sums(options);
    CHECK(allocations > before_it);  // the counter works
    std::uint64_t const before = allocations;
    std::chrono::nanoseconds now{0};
    for (int again = 0; again < 3; ++again)
      for (auto const& one : packets) {
        take(sums, one, now);
        while (sums.expire(now).to != aggregator_answer::receiver::nobody) continue;
        now += std::chrono::nanoseconds(3);
      }
    CHECK(allocations == before);
    auto const& stats = sums.stats();
    CHECK(stats.partial > 0);
    CHECK(stats.late > 0);
    CHECK(stats.stale > 0);
    CHECK(stats.all_refused() > 0);
  }
}
