#include <dlfcn.h>
#include <doctest/doctest.h>
#include <hcomp/bucket.h>
#include <hcomp/group.h>

#include <algorithm>
#include <c/device_plan.hpp>
#include <c/plan_cache.hpp>
#include <c/residual_store.hpp>
#include <c/settings.hpp>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <support/placed.hpp>
#include <support/ptx/calls_now.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

constexpr int ranks = 3;
constexpr std::size_t values = 5'000;

/// Kernel launches of this thread until one fails; negative: none fails.
thread_local int launches_left = -1;

/// The all-gather that groups need, between threads.
class meeting {
 public:
  /// An hcomp_exchange; `context` is a meeting::rank_of.
  struct rank_of {
    meeting* all;
    int rank;
  };
  static int exchange(void* context, void const* mine, std::size_t bytes, void* all) {
    auto& it = *static_cast<rank_of*>(context);
    return it.all->gather(it.rank, mine, bytes, all);
  }

 private:
  int gather(int rank, void const* mine, std::size_t bytes, void* all) {
    std::unique_lock lock(mutex_);
    std::size_t const round = round_[rank]++;
    if (rounds_.size() <= round) rounds_.resize(round + 1);
    auto& now = rounds_[round];
    now.bytes.resize(bytes * ranks);
    std::memcpy(now.bytes.data() + bytes * static_cast<std::size_t>(rank), mine, bytes);
    ++now.arrived;
    changed_.notify_all();
    changed_.wait(lock, [&] { return rounds_[round].arrived == ranks; });
    std::memcpy(all, rounds_[round].bytes.data(), bytes * ranks);
    return 0;
  }

  struct round {
    std::vector<std::byte> bytes;
    int arrived = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<round> rounds_;
  std::size_t round_[ranks] = {};
};

template <class V> std::vector<V> vector_of(int rank, int step) {
  return uniform_values<V>(values, static_cast<std::uint64_t>(step), rank);
}
template <class V> constexpr int type_of = sizeof(V) == 4 ? HCOMP_FLOAT : HCOMP_DOUBLE;

/// Calls f(rank, group) on every rank, each a thread.
template <class F> void on_groups(F const& f, int timeout_ms = 20'000) {
  meeting all;
  on_ranks(std::vector<std::vector<float>>(ranks), [&](in_process& transport, auto&) {
    meeting::rank_of mine{&all, transport.rank()};
    hcomp_group* group = nullptr;
    REQUIRE(hcomp_group_create(mine.rank, ranks, meeting::exchange, &mine, timeout_ms, 0, &group) ==
            HCOMP_OK);
    f(mine.rank, group);
    hcomp_group_free(&group);
  });
}
/// Calls f(rank, plan) on every rank.
template <class V, class F> void on_plans(char const* codec, F const& f, int timeout_ms = 20'000) {
  on_groups(
      [&](int rank, hcomp_group* group) {
        hcomp_plan* plan = nullptr;
        CHECK(hcomp_plan_create_group(group, values, type_of<V>, codec, &plan) == HCOMP_OK);
        CAPTURE(std::string(hcomp_last_error()));
        if (plan) f(rank, plan);
        hcomp_plan_free(&plan);
      },
      timeout_ms);
}

/// One rank of an all-reduce of two vectors by a bucket, on the device or in host memory.
struct bucket_rank {
  static constexpr std::size_t sizes[] = {values, 20'001};

  hcomp_bucket* bucket = nullptr;
  hcomp_bucket_sizes about{};
  std::vector<placed<float>> x, residual, pending;
  placed<std::uint64_t> withheld;

  bucket_rank(char const* codec, int rank, bool on_device)
      : withheld(std::vector<std::uint64_t>(1), on_device) {
    CHECK(hcomp_bucket_create(codec, ranks, rank, sizes, 2, on_device ? 0 : -1, nullptr, &bucket,
                              &about) == HCOMP_OK);
    CAPTURE(std::string(hcomp_last_error()));
    REQUIRE(bucket);
    for (std::size_t v = 0; v < 2; ++v) {
      x.emplace_back(uniform_values<float>(sizes[v], v, rank), on_device);
      residual.emplace_back(std::vector<float>(sizes[v]), on_device);
      pending.emplace_back(std::vector<float>(sizes[v]), on_device);
    }
  }
  ~bucket_rank() { CHECK(hcomp_bucket_free(&bucket) == HCOMP_OK); }

  std::vector<hcomp_bucket_vector> vectors() {
    std::vector<hcomp_bucket_vector> all;
    for (std::size_t v = 0; v < 2; ++v) {
      auto const address = [&](auto& one) {
        return about.feedback ? static_cast<float*>(one[v].data()) : nullptr;
      };
      all.push_back({static_cast<float*>(x[v].data()), address(residual), address(pending),
                     static_cast<std::uint64_t*>(withheld.data()), v});
    }
    return all;
  }
};

/// The bytes of all stages of two all-reduces by buckets, whose results stay in x.
struct bucket_bytes {
  std::vector<std::vector<std::uint8_t>> of_stages;
  std::vector<std::vector<float>> found;
  ptx::calls calls{};

  void keep(placed<std::uint8_t>& stage) { of_stages.push_back(stage.get()); }
};
bucket_bytes reduced_by_buckets(char const* codec, bool on_device) {
  using bytes = std::vector<std::uint8_t>;
  bucket_bytes made;
  std::vector<std::unique_ptr<bucket_rank>> of;
  for (int rank = 0; rank < ranks; ++rank)
    of.push_back(std::make_unique<bucket_rank>(codec, rank, on_device));
  auto const& about = of[0]->about;
  std::size_t const sent = about.part_bytes, reduced = about.reduced_bytes,
                    words = about.statistics_words;
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<placed<std::uint32_t>> mine;
    std::vector<placed<std::uint8_t>> out, sums;
    for (int r = 0; r < ranks; ++r) {
      mine.emplace_back(std::vector<std::uint32_t>(words), on_device);
      out.emplace_back(bytes(ranks * sent, 7), on_device);
      sums.emplace_back(bytes(reduced, 7), on_device);
    }
    auto const counted = [&](auto const& f) {
      auto const before = calls_now();
      for (int r = 0; r < ranks; ++r) CHECK(f(r, of[r]->bucket, of[r]->vectors().data()) == 0);
      auto const now = calls_now();
      made.calls.waits += now.waits - before.waits;
      made.calls.allocations += now.allocations - before.allocations;
    };
    counted([&](int r, hcomp_bucket* bucket, hcomp_bucket_vector const* vectors) {
      return hcomp_bucket_measure(bucket, vectors, static_cast<std::uint32_t*>(mine[r].data()));
    });
    std::vector<std::uint32_t> agreed;
    for (auto& one : mine) {
      auto const its = one.get();
      if (about.gathers || agreed.empty())
        agreed.insert(agreed.end(), its.begin(), its.end());
      else
        for (std::size_t w = 0; w < words; ++w) agreed[w] = std::max(agreed[w], its[w]);
    }
    placed<std::uint32_t> statistics(agreed, on_device);
    counted([&](int r, hcomp_bucket* bucket, hcomp_bucket_vector const* vectors) {
      return hcomp_bucket_encode(bucket, vectors, step,
                                 static_cast<std::uint32_t*>(statistics.data()), out[r].data());
    });
    std::vector<bytes> sent_by;
    for (auto& one : out) sent_by.push_back(one.get()), made.keep(one);
    std::vector<placed<std::uint8_t>> in;
    for (std::size_t r = 0; r < ranks; ++r) {
      bytes parts;
      for (auto const& one : sent_by)
        parts.insert(parts.end(), one.begin() + static_cast<std::ptrdiff_t>(r * sent),
                     one.begin() + static_cast<std::ptrdiff_t>((r + 1) * sent));
      in.emplace_back(parts, on_device);
    }
    counted([&](int r, hcomp_bucket* bucket, hcomp_bucket_vector const*) {
      return hcomp_bucket_merge(bucket, in[r].data(), sums[r].data());
    });
    bytes together;
    for (auto& one : sums) {
      auto const its = one.get();
      together.insert(together.end(), its.begin(), its.end());
      made.keep(one);
    }
    placed<std::uint8_t> all(together, on_device);
    counted([&](int, hcomp_bucket* bucket, hcomp_bucket_vector const* vectors) {
      return hcomp_bucket_decode(bucket, all.data(), vectors, step, 1);
    });
    for (auto& one : of) {
      CHECK(hcomp_bucket_check(one->bucket, 0) == HCOMP_OK);
      CHECK(hcomp_bucket_check(one->bucket, 1) == HCOMP_OK);
    }
  }
  for (auto& one : of)
    for (std::size_t v = 0; v < 2; ++v) {
      made.found.push_back(one->x[v].get());
      made.found.push_back(one->residual[v].get());
    }
  return made;
}

template <class V> struct results {
  std::vector<V> of_steps;  ///< of rank 0
  std::vector<std::vector<V>> residuals{ranks};
};

/// Three all-reduces.
/// @param is_on_device  (rank, step)
template <class V, class Where> results<V> reduced(char const* codec, Where const& is_on_device) {
  results<V> found;
  on_plans<V>(codec, [&](int rank, hcomp_plan* plan) {
    CHECK(hcomp_plan_set_mean(plan, 1) == HCOMP_OK);
    CHECK(hcomp_plan_set_draws(plan, 1, 0) == HCOMP_OK);
    for (int step = 0; step < 3; ++step) {
      placed<V> x(vector_of<V>(rank, step), is_on_device(rank, step));
      CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_OK);
      auto const result = x.get();
      if (rank == 0) found.of_steps.insert(found.of_steps.end(), result.begin(), result.end());
    }
    if (std::string(codec).find("feedback") == std::string::npos) return;
    auto& residual = found.residuals[static_cast<std::size_t>(rank)];
    residual.resize(values);
    CHECK(hcomp_plan_get_residual(plan, residual.data()) == HCOMP_OK);
  });
  return found;
}

template <class V> void compare(char const* codec) {
  CAPTURE(std::string(codec));
  auto const wanted = reduced<V>(codec, [](int, int) { return false; });
  auto const check = [&](results<V> const& found) {
    CHECK(first_difference(found.of_steps, wanted.of_steps) == nowhere);
    for (int rank = 0; rank < ranks; ++rank) {
      auto const r = static_cast<std::size_t>(rank);
      CHECK(found.residuals[r].size() == wanted.residuals[r].size());
      CHECK(first_difference(found.residuals[r], wanted.residuals[r]) == nowhere);
    }
  };
  check(reduced<V>(codec, [](int, int) { return true; }));
  check(reduced<V>(codec, [](int rank, int) { return rank == 1; }));
  // The residual follows the vectors, and comes from either side at the end.
  check(reduced<V>(codec, [](int rank, int step) { return (rank + step) % 2 == 0; }));
  check(reduced<V>(codec, [](int rank, int step) { return rank == 1 && step < 2; }));
}

}  // namespace

/// Takes the place of the runtime's function, also in libhcomp_cuda.so.
extern "C" cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared, cudaStream_t stream) {
  if (launches_left == 0) return cudaErrorLaunchFailure;
  if (launches_left > 0) --launches_left;
  static auto* const launch =
      reinterpret_cast<cudaError_t (*)(void const*, dim3, dim3, void**, std::size_t, cudaStream_t)>(
          dlsym(RTLD_NEXT, "cudaLaunchKernel"));
  return launch(kernel, grid, block, arguments, shared, stream);
}

TEST_CASE("gpu: plans of the C API give the bits of host memory, wherever vectors are") {
  for (char const* const codec :
       {"sign feedback=yes", "sign_count feedback=yes", "thc:bits=4 feedback=yes", "fp16",
        "error_bounded:1e-3", "lossless_sparse", "lossless", "reproducible",
        "identity algorithm=direct",
        // copied to the host
        "identity", "fp16 algorithm=hierarchical", "top_k feedback=yes"})
    compare<float>(codec);
  for (char const* const codec : {"sign feedback=yes", "lossless", "reproducible"})
    compare<double>(codec);
}

TEST_CASE("gpu: a plan_cache gives the bits of host memory, also where ranks differ") {
  constexpr std::size_t many = 70'000;
  auto const reduced_by = [&](std::string const& rule, auto const& is_on_device) {
    auto const how = drop_in::settings::from("float: " + rule + " min=0").rules.front().spec;
    REQUIRE(drop_in::plan_cache::stays_on_device(hcomp_cuda_library, drop_in::value_type::float32,
                                                 many, how));
    return on_ranks(std::vector<std::vector<float>>(ranks), [&](in_process& transport, auto& all) {
      int const rank = transport.rank();
      drop_in::residual_store residuals(std::size_t{1} << 30);
      drop_in::plan_cache plans(any_transport(transport), 0, 1, residuals);
      for (int step = 0; step < 3; ++step)
        for (char const* const tensor : {"first", "second"}) {
          bool const there = is_on_device(rank, tensor == std::string("second"));
          placed<float> x(uniform_values(many, static_cast<std::uint64_t>(step), rank), there);
          plans.all_reduce(drop_in::value_type::float32, x.data(), many, how, tensor, 256 * 1024,
                           reduce_op::mean, 0, there);
          auto const result = x.get();
          all.insert(all.end(), result.begin(), result.end());
        }
      // Two residuals of each tensor, wherever they are.
      CHECK(residuals.bytes() == (how.feedback ? 4 * many * sizeof(float) : 0));
    });
  };
  for (char const* const rule : {"sign feedback=yes", "thc:bits=4 feedback=yes", "fp16"}) {
    CAPTURE(std::string(rule));
    auto const wanted = reduced_by(rule, [](int, bool) { return false; });
    auto const check = [&](auto const& found) {
      for (std::size_t rank = 0; rank < wanted.size(); ++rank)
        CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
    };
    check(reduced_by(rule, [](int, bool) { return true; }));
    check(reduced_by(rule, [](int rank, bool second) { return rank == 1 || second; }));
  }
}

TEST_CASE("gpu: a plan_cache leaves short vectors and codecs of hosts to the host") {
  auto const stays = [](std::string const& rule, std::size_t count) {
    return drop_in::plan_cache::stays_on_device(
        hcomp_cuda_library, drop_in::value_type::float32, count,
        drop_in::settings::from("float: " + rule + " min=0").rules.front().spec);
  };
  CHECK(stays("fp16", 65'536));
  CHECK(!stays("fp16", 65'535));
  CHECK(!stays("top_k", 1'000'000));
  CHECK(!stays("identity", 1'000'000));  // memory that ranks share
  CHECK(stays("identity algorithm=direct", 1'000'000));
  CHECK(!stays("fp16 algorithm=hierarchical", 1'000'000));
}

TEST_CASE("gpu: reduce-scatter and all-gather of the C API in device memory") {
  auto const reduced_in_two_steps = [](bool on_device) {
    std::vector<float> found;
    on_plans<float>("thc:bits=4 feedback=yes", [&](int rank, hcomp_plan* plan) {
      hcomp_plan_set_draws(plan, 1, 0);
      placed<float> x(vector_of<float>(rank, 0), on_device);
      CHECK(hcomp_reduce_scatter(plan, x.data(), nullptr) == HCOMP_OK);
      CHECK(hcomp_all_gather(plan, x.data(), nullptr) == HCOMP_OK);
      auto const result = x.get();
      if (rank == 0) found = result;
    });
    return found;
  };
  CHECK(first_difference(reduced_in_two_steps(true), reduced_in_two_steps(false)) == nowhere);
}

TEST_CASE("gpu: calls of the C API follow earlier work of the plan's stream") {
  on_plans<float>("reproducible", [](int rank, hcomp_plan* plan) {
    cudaStream_t stream = nullptr;
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    gpu::pinned_buffer const host(values * sizeof(float));
    gpu::device_buffer const device(host.size());
    auto* const x = reinterpret_cast<float*>(host.data());
    CHECK(hcomp_plan_set_stream(plan, stream) == HCOMP_OK);
    for (bool const is_started : {false, true}) {
      std::fill_n(x, values, static_cast<float>(rank + 1));
      HCOMP_CUDA_TRY(cudaMemcpyAsync(device.data(), x, host.size(), cudaMemcpyDefault, stream));
      if (is_started) {
        hcomp_request* request = nullptr;
        CHECK(hcomp_all_reduce_start(plan, device.data(), &request) == HCOMP_OK);
        CHECK(hcomp_plan_set_stream(plan, nullptr) == HCOMP_OK);  // for later calls
        CHECK(hcomp_wait(&request, nullptr) == HCOMP_OK);
      } else {
        CHECK(hcomp_all_reduce(plan, device.data(), nullptr) == HCOMP_OK);
      }
      // Complete, also for the default stream.
      HCOMP_CUDA_TRY(cudaMemcpy(x, device.data(), host.size(), cudaMemcpyDefault));
      CHECK(std::count(x, x + values, 6.0f) == values);
    }
    HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  });
}

TEST_CASE("gpu: a residual of the C API can be set and read while vectors are on a device") {
  on_plans<float>("sign feedback=yes", [](int rank, hcomp_plan* plan) {
    std::vector<float> const given(values, 0.25f);
    std::vector<float> found(values);
    placed<float> x(vector_of<float>(rank, 0), true);
    CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_OK);
    CHECK(hcomp_plan_get_residual(plan, found.data()) == HCOMP_OK);
    CHECK(first_difference(found, std::vector<float>(values)) != nowhere);
    CHECK(hcomp_plan_set_residual(plan, given.data()) == HCOMP_OK);
    CHECK(hcomp_plan_get_residual(plan, found.data()) == HCOMP_OK);
    CHECK(first_difference(found, given) == nowhere);
    // -0.25 + 0.25 has no magnitude, so that nothing is lost.
    placed<float> opposite(std::vector<float>(values, -0.25f), true);
    CHECK(hcomp_all_reduce(plan, opposite.data(), nullptr) == HCOMP_OK);
    CHECK(hcomp_plan_get_residual(plan, found.data()) == HCOMP_OK);
    for (float const lost : found) REQUIRE(std::abs(lost) < 1e-30f);
    CHECK(hcomp_plan_get_residual(plan, x.data()) == HCOMP_INVALID_ARGUMENT);
  });
}

TEST_CASE("gpu: errors of the C API in device memory leave x and the plan as they were") {
  on_plans<float>("thc:bits=4 feedback=yes", [](int rank, hcomp_plan* plan) {
    auto const good = vector_of<float>(rank, 0);
    auto with_nan = good;
    if (rank == 1) with_nan[17] = std::numeric_limits<float>::quiet_NaN();
    placed<float> x(with_nan, true);
    CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_NONFINITE);
    CHECK(std::string(hcomp_last_error()).starts_with("hcomp_all_reduce: "));
    CHECK(first_difference(x.get(), with_nan) == nowhere);
    placed<float> y(good, true);
    CHECK(hcomp_all_reduce_sized(plan, y.data(), values - (rank == 2), 4, nullptr) != HCOMP_OK);
    CHECK(hcomp_all_reduce(plan, rank == 0 ? nullptr : y.data(), nullptr) != HCOMP_OK);
    CHECK(first_difference(y.get(), good) == nowhere);
    CHECK(hcomp_all_reduce(plan, y.data(), nullptr) == HCOMP_OK);
    CHECK(first_difference(y.get(), good) != nowhere);
  });
}

TEST_CASE("gpu: a rank that is missing in a call of the C API ends it by timeout") {
  on_plans<float>(
      "fp16",
      [](int rank, hcomp_plan* plan) {
        placed<float> x(vector_of<float>(rank, 0), true);
        CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_OK);
        if (rank == 2) return;
        CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_TRANSPORT);
        CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_TRANSPORT);
      },
      2'000);
}

TEST_CASE("gpu: groups of the C API refuse buffers in device memory on all ranks") {
  on_groups([](int rank, hcomp_group* group) {
    auto const good = vector_of<float>(rank, 0);
    placed<float> there(good, true), here(good, false);
    void* const mine = rank == 1 ? there.data() : here.data();
    auto const refused = [&](int code) {
      CHECK(code != HCOMP_OK);
      bool const tells =
          std::string(hcomp_last_error()).find("is in a device's memory") != std::string::npos;
      CHECK((rank != 1 || tells));
    };
    for (char const* const rules : {"", "float: fp16 min=0"}) {
      REQUIRE(hcomp_group_set(group, *rules ? rules : nullptr) == HCOMP_OK);
      refused(hcomp_group_all_reduce(group, mine, values, HCOMP_FLOAT, 0, nullptr));
      std::vector<float> x(ranks * values, 1.0f);
      refused(hcomp_group_reduce_scatter(group, x.data(), values, HCOMP_FLOAT, 0, mine, nullptr));
      CHECK(first_difference(there.get(), good) == nowhere);
      CHECK(first_difference(here.get(), good) == nowhere);
    }
    std::vector<float> all(ranks * values);
    refused(hcomp_group_all_gather(group, mine, values * sizeof(float), all.data()));
    refused(hcomp_group_broadcast(group, mine, values * sizeof(float), 0));
    CHECK(hcomp_group_all_reduce(group, here.data(), values, HCOMP_FLOAT, 0, nullptr) == HCOMP_OK);
  });
}

TEST_CASE("gpu: a rank whose device fails within a call of the C API ends it on all ranks") {
  for (int const launches : {0, 1, 3}) {
    CAPTURE(launches);
    on_plans<float>("thc:bits=4", [&](int rank, hcomp_plan* plan) {
      placed<float> x(vector_of<float>(rank, 0), true);
      CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_OK);
      if (rank == 1) launches_left = launches;
      int const code = hcomp_all_reduce(plan, x.data(), nullptr);
      launches_left = -1;
      std::string const words = hcomp_last_error();
      CAPTURE(words);
      CHECK(code == (rank == 1 ? HCOMP_OTHER : HCOMP_DAMAGED));
      CHECK(words.find("cudaLaunchKernel") != std::string::npos);
      if (rank == 1) CHECK(hcomp_all_reduce(plan, x.data(), nullptr) == HCOMP_TRANSPORT);
    });
  }
}

TEST_CASE(
    "gpu: buckets of the C API give the bytes of host memory, and neither wait nor allocate") {
  for (char const* const codec : {"identity", "fp16", "thc", "sign", "sign_count feedback=no"}) {
    CAPTURE(std::string(codec));
    auto const on_device = reduced_by_buckets(codec, true),
               on_host = reduced_by_buckets(codec, false);
    CHECK((on_device.of_stages == on_host.of_stages));
    CHECK((on_device.found == on_host.found));
    CHECK(on_device.calls.waits == 0);
    CHECK(on_device.calls.allocations == 0);
  }
}

TEST_CASE("gpu: a bucket of the C API tells damage, and wrong arguments") {
  bucket_rank one("fp16", 1, true);
  auto const before = one.x[0].get();
  std::vector<std::uint8_t> const zeros(ranks * one.about.reduced_bytes);
  placed<std::uint8_t> damaged(zeros, true);
  CHECK(hcomp_bucket_decode(one.bucket, damaged.data(), one.vectors().data(), 0, 0) == HCOMP_OK);
  CHECK((one.x[0].get() == before));
  CHECK(hcomp_bucket_check(one.bucket, 1) == HCOMP_DAMAGED);
  CHECK(hcomp_bucket_check(one.bucket, 1) == HCOMP_OK);

  CHECK(hcomp_bucket_merge(one.bucket, nullptr, damaged.data()) == HCOMP_INVALID_ARGUMENT);
  CHECK(std::string(hcomp_last_error()).ends_with("in is a null pointer"));
  auto vectors = one.vectors();
  auto in_host = before;
  vectors[0].x = in_host.data();
  CHECK(hcomp_bucket_encode(one.bucket, vectors.data(), 0, nullptr, damaged.data()) != HCOMP_OK);
  CHECK(std::string(hcomp_last_error()).find("not in memory that the executor can work on") !=
        std::string::npos);
}
