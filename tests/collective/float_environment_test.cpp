// Results do not depend on the floating-point environments of the ranks.
#include <doctest/doctest.h>
#include <fenv.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <cstddef>
#include <cstring>
#include <exception>
#include <hcomp/concurrent.hpp>
#include <hcomp/hcomp.hpp>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <support/data.hpp>
#include <vector>

namespace {

using namespace hcomp;

constexpr int ranks = 3;
constexpr std::size_t values = 20000;

/// Control bits of this thread's environment, without exception flags.
unsigned environment() {
#if defined(__SSE2__)
  return _mm_getcsr() & ~0x3fu;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

/// Rank 0 rounds upwards, rank 1 flushes denormals, rank 2 traps errors.
void change_environment(int rank) {
  if (rank == 0) std::fesetround(FE_UPWARD);
#if defined(__SSE2__)
  if (rank == 1) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
#if defined(__GLIBC__)
  if (rank == 2) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
#endif
}

struct result {
  std::vector<float> sum, mean;
  std::string error;

  friend bool operator==(result const& a, result const& b) {
    auto const same = [](auto const& x, auto const& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
    };
    return same(a.sum, b.sum) && same(a.mean, b.mean) && a.error == b.error;
  }
};

/// All-reduces by this codec on every rank.
/// @param changes  whether ranks change their environments
std::vector<result> results(std::string const& codec, float scale, int threads, bool changes) {
  std::vector<result> all(ranks);
  run_ranks(ranks, [&](in_process& transport) {
    auto& mine = all[static_cast<std::size_t>(transport.rank())];
    auto x = data::uniform<float>(values, -1, 1, {.seed = static_cast<unsigned>(transport.rank())});
    for (std::size_t i = 0; i < values; i += 3) x[i] *= scale;
    std::fenv_t usual;
    std::fegetenv(&usual);
    if (changes) change_environment(transport.rank());
    unsigned const before = environment();
    try {
      host_executor executor(threads);
      auto plan = make_plan<float>(codec, values, transport, executor);
      mine.sum = mine.mean = x;
      plan.all_reduce(mine.sum, {.seed = 5});
      plan.all_reduce(mine.mean, {.seed = 5, .op = reduce_op::mean});
    } catch (std::exception const& error) {
      mine.error = error.what();
    }
    bool const is_restored = environment() == before;
    std::fesetenv(&usual);
    CHECK(is_restored);
  });
  return all;
}

}  // namespace

TEST_CASE("plan: results depend on no rank's floating-point environment") {
  registered_codecs<float>().for_each([](codec_entry<float> const& entry) {
    for (float const scale : {1e-2f, 300.0f, 1e-39f, 1e5f}) {
      std::string codec(entry.name);
      if (codec == "error_bounded") codec += ":1e-4";
      CAPTURE(codec);
      CAPTURE(scale);
      auto const usual = results(codec, scale, 1, false);
      CHECK(results(codec, scale, 1, true) == usual);
      if (scale == 1e-39f) CHECK(results(codec, scale, 2, true) == usual);
    }
  });
}

TEST_CASE("plan: a nonblocking call keeps the environment of the thread that makes progress") {
  run_ranks(ranks, [&](in_process& transport) {
    auto x = data::uniform<float>(values, -1, 1, {.seed = static_cast<unsigned>(transport.rank())});
    auto y = x;
    host_executor executor;
    concurrent_transport over(transport);
    auto plan = make_plan<float>("thc", values, over, executor);
    plan.all_reduce(y, {.seed = 5});
    std::fenv_t usual;
    std::fegetenv(&usual);
    change_environment(transport.rank());
    unsigned const before = environment();
    auto pending = over.start([&] { return plan.all_reduce(x, {.seed = 5, .step = 0}); });
    bool is_kept = environment() == before;
    while (!pending.test()) is_kept &= environment() == before;
    pending.wait();
    is_kept &= environment() == before;
    std::fesetenv(&usual);
    CHECK(is_kept);
    CHECK(x == y);
  });
}
