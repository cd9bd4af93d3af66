#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/by_name/make_plan.hpp>
#include <hcomp/collective/plan/marsit.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/transport/in_process.hpp>
#include <new>
#include <span>
#include <string>
#include <support/data.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

thread_local std::uint64_t allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t))
    memory = std::malloc(bytes > 0 ? bytes : 1);
  else
    memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}
/// Not inlined: otherwise g++ warns that memory of operator new is given to free.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

}  // namespace

// Counts the allocations of each thread in the whole program.
void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept {
  return operator new(bytes, std::nothrow);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// An in-process transport whose own allocations do not count: the length of its queues depends on
/// the scheduler.
class uncounted_in_process {
 public:
  using request = in_process::request;

  explicit uncounted_in_process(in_process& transport) : transport_(&transport) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool reaches(memory_space space) const { return transport_->reaches(space); }
  std::uint64_t bytes_sent() const { return transport_->bytes_sent(); }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    return uncounted([&] { return transport_->isend(peer, tag, bytes); });
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return uncounted([&] { return transport_->irecv(peer, tag, bytes); });
  }
  std::size_t wait(request& r) {
    return uncounted([&] { return transport_->wait(r); });
  }

 private:
  template <class F> auto uncounted(F const& call) -> decltype(call()) {
    std::uint64_t const before = allocations;
    auto const result = call();
    allocations = before;
    return result;
  }
  in_process* transport_;
};
static_assert(Transport<uncounted_in_process>);

std::size_t values_of(int ranks, std::size_t block) {
  return static_cast<std::size_t>(2 * ranks) * block + 5;
}

/// Allocations of all ranks in calls 2 to 4 of `call(step)`. `make(transport, executor)` returns
/// `call`.
template <class Make> std::uint64_t counted(int ranks, Make const& make) {
  std::atomic<std::uint64_t> total = 0;
  run_ranks(ranks, [&](in_process& inner) {
    uncounted_in_process transport(inner);
    host_executor executor(2);
    make(transport, executor, [&](auto const& call) {
      call(std::uint64_t{0});
      std::uint64_t const before = allocations;
      for (std::uint64_t step = 1; step < 4; ++step) call(step);
      total += allocations - before;
    });
  });
  return total;
}

}  // namespace

TEST_CASE("the allocation counter of this program counts") {
  std::uint64_t const before = allocations;
  std::vector<int> const some(10);
  void* const aligned = ::operator new (100, std::align_val_t{64});
  ::operator delete (aligned, std::align_val_t{64});
  CHECK(allocations == before + 2);
}

TEST_CASE("plan: allocates nothing after the first call, with every codec and algorithm") {
  builtin_codecs<float>::for_each([]<class C>() {
    for (int const ranks : {1, 2, 4, 5})
      for (std::string const name :
           {"ring", "torus", "direct", "recursive_doubling", "aggregator"}) {
        CAPTURE(std::string(C::name));
        CAPTURE(ranks);
        CAPTURE(name);
        auto const values = values_of(ranks, C::block_values);
        CHECK(counted(ranks, [&](auto& transport, auto& executor, auto const& measure) {
                plan sum(
                    values, C{}, transport, executor,
                    {.algorithm = algorithm::from(name), .checksum = true, .segment_bytes = 1});
                std::vector<float> x(values, 1);
                measure([&](std::uint64_t step) { sum.all_reduce(std::span(x), {.step = step}); });
              }) == 0);
      }
  });
}

namespace {

/// Calls `test(codec, algorithm)` for every codec by name and each of its algorithms; for sparse
/// codecs only with direct: the rest make a plan when the number of nonzero values changes.
template <class V, class F> void for_each_plan_by_name(F const& test) {
  registered_codecs<V>().for_each([&](codec_entry<V> const& entry) {
    std::string text = entry.name;
    for (auto const& key : entry.keys)
      if (key.name == "bound") text += ":bound=1e-3";
    bool const is_sparse = entry.name == "lossless_sparse" || entry.name == "top_k";
    for (auto const kind : entry.algorithms)
      if (!is_sparse || kind == algorithm_kind::direct) test(text, algorithm{kind});
  });
}

/// Sparse in steps 0 and 1, dense in steps 2 and 3, dense with a wide range in step 3.
template <class V>
std::vector<V> harder_each_step(std::size_t values, int rank, std::uint64_t step) {
  auto const random = data::words(values, {.seed = 4 * static_cast<std::uint64_t>(rank) + step});
  std::vector<V> x(values);
  for (std::size_t i = 0; i < values; ++i) {
    auto const word = random[i];
    if constexpr (std::is_integral_v<V>) {
      x[i] = static_cast<V>(step < 2 ? word % 50 == 0 : word % 1000 * (step == 3 ? 1'000'000 : 1));
    } else {
      double const u = static_cast<double>(word >> 11) * 0x1p-53 - 0.5;
      x[i] = static_cast<V>(step < 2    ? word % 50 == 0
                            : step == 3 ? std::ldexp(u, static_cast<int>(word % 10))
                                        : u);
    }
  }
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("plans by name: allocate nothing after the first call, whatever the values", V,
                   float, double, std::int32_t, std::int64_t) {
  for_each_plan_by_name<V>([](std::string const& codec, algorithm how) {
    constexpr int ranks = 4;
    constexpr std::size_t values = 60000;
    CAPTURE(codec);
    CAPTURE(how.name());
    CHECK(counted(ranks, [&](auto& transport, auto& executor, auto const& measure) {
            auto plan = make_plan<V>(codec, values, transport, executor, {.algorithm = how});
            std::vector<std::vector<V>> x;
            for (std::uint64_t step = 0; step < 4; ++step)
              x.push_back(harder_each_step<V>(values, transport.rank(), step));
            // the first call with the fallback of error_bounded allocates
            if (codec.starts_with("error_bounded")) std::swap(x[0], x[3]);
            auto y = x;
            measure([&](std::uint64_t step) {
              plan.all_reduce(std::span(x[step]), {.step = step});
              if (how.kind == algorithm_kind::sampled) return;  // all_reduce only
              plan.reduce_scatter(std::span(y[step]), {.step = step});
              plan.all_gather(std::span(y[step]), {.step = step});
            });
          }) == 0);
  });
}

TEST_CASE("plan: reduce_scatter and all_gather allocate nothing after the first call") {
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    auto const values = values_of(4, C::block_values);
    CHECK(counted(4, [&](auto& transport, auto& executor, auto const& measure) {
            plan sum(values, C{}, transport, executor);
            std::vector<float> x(values, 1);
            measure([&](std::uint64_t step) {
              sum.reduce_scatter(std::span(x), {.step = step});
              sum.all_gather(std::span(x), {.step = step});
            });
          }) == 0);
  });
}

TEST_CASE("plan: error feedback allocates nothing after the first call") {
  builtin_codecs<float>::for_each([]<class C>() {
    CAPTURE(std::string(C::name));
    auto const values = values_of(3, C::block_values);
    CHECK(counted(3, [&](auto& transport, auto& executor, auto const& measure) {
            plan sum(values, C{}, transport, executor);
            error_feedback<float> feedback(values);
            std::vector<float> x(values, 1);
            measure([&](std::uint64_t step) {
              sum.all_reduce(std::span(x), feedback, {.step = step});
            });
          }) == 0);
  });
}

TEST_CASE("algorithm sampled: allocates nothing after the first call") {
  for (int const ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    auto const values = values_of(ranks, sign<>::block_values);
    CHECK(counted(ranks, [&](auto& transport, auto& executor, auto const& measure) {
            plan sum(values, sign<>{}, transport, executor,
                     {.algorithm = {algorithm_kind::sampled}});
            std::vector<float> x(values, 1);
            measure([&](std::uint64_t step) { sum.all_reduce(std::span(x), {.step = step}); });
          }) == 0);
  }
}

TEST_CASE("marsit: rounds of one kind allocate nothing after the first of them") {
  for (std::string const name : {"ring", "torus", "sampled"})
    for (std::uint64_t const period : {0, 1}) {
      CAPTURE(name);
      CAPTURE(period);
      auto const values = values_of(4, sign<>::block_values);
      CHECK(counted(4, [&](auto& transport, auto& executor, auto const& measure) {
              marsit<float, uncounted_in_process, host_executor> synchronize(
                  values, {.period = period, .plan = {.algorithm = algorithm::from(name)}},
                  transport, executor);
              std::vector<float> update(values, 1);
              measure([&](std::uint64_t) { synchronize(std::span(update)); });
            }) == 0);
    }
}

TEST_CASE("in_process: its queues stop growing") {
  // They grow to the largest number of messages that wait at the same time. A few calls reach it.
  constexpr int ranks = 4;
  constexpr std::size_t values = 40000;
  std::vector<int> quiet_calls(ranks);
  run_ranks(ranks, [&](in_process& transport) {
    host_executor executor;
    plan sum(values, identity<>{}, transport, executor, {.segment_bytes = 1});
    std::vector<float> x(values, 1);
    int& quiet = quiet_calls[static_cast<std::size_t>(transport.rank())];
    for (int call = 0; call < 100; ++call) {
      std::uint64_t const before = allocations;
      sum.all_reduce(std::span(x), {.op = reduce_op::mean});
      quiet = allocations == before ? quiet + 1 : 0;
    }
  });
  for (int const calls : quiet_calls) CHECK(calls >= 10);
}
