#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <support/all_or_few.hpp>
#include <support/sparse.hpp>
#include <support/sparse_plan.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Each operation of a plan, twice; shards with algorithm direct.
template <class Sum> void sum_up(Sum& sum, std::span<float> x) {
  for (std::uint64_t step = 0; step < 2; ++step) {
    sum.all_reduce(x, {.step = step});
    if (sum.options().algorithm.kind != algorithm_kind::direct) continue;
    sum.reduce_scatter(x, {.step = step});
    sum.all_gather(x, {.step = step});
  }
}

/// @param few_values  size of vectors on the PTX machine
void check_sums(sparse::settings options, char const* how = "ring", int few_values = 12'001) {
  using over_staging = host_staged<in_process, gpu::stream_executor>;
  options.plan = {.algorithm = algorithm::from(how)};
  for (int const ranks : all_or_few<std::vector<int>>({1, 3}, {3}))
    for (std::size_t const values : {1, all_or_few(300'001, few_values)})
      for (double const density : {0.0, 0.05, 0.7}) {
        CAPTURE(ranks);
        CAPTURE(values);
        CAPTURE(density);
        auto const x = sparse::ranks_of(static_cast<std::size_t>(ranks), values, density);
        sparse_choice choice, expected;
        auto const found = on_ranks(x, [&](in_process& transport, auto& mine) {
          cudaStream_t stream = nullptr;
          HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
          {
            gpu::stream_executor executor(stream);
            over_staging over(transport, executor);
            gpu::device_buffer const memory(mine.size() * sizeof(float));
            executor.wait(executor.write(memory.data(), mine.data(), memory.size()));
            auto sum = sparse::plan_of<std::uint32_t>(mine.size(), over, executor, options);
            std::span<float> const on_device(reinterpret_cast<float*>(memory.data()), mine.size());
            sum_up(sum, on_device);
            executor.wait(executor.read(mine.data(), memory.data(), memory.size()));
            if (transport.rank() == 0) choice = sum.choice();
          }
          HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
        });
        auto const wanted = on_ranks(x, [&](in_process& transport, auto& mine) {
          host_executor executor;
          auto sum = sparse::plan_of<std::uint32_t>(mine.size(), transport, executor, options);
          sum_up(sum, std::span(mine));
          if (transport.rank() == 0) expected = sum.choice();
        });
        CHECK(choice.text() == expected.text());
        for (std::size_t rank = 0; rank < x.size(); ++rank)
          CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
      }
}

}  // namespace

TEST_CASE(
    "gpu: sparse all-reduces of ranks that share a GPU have the bits and the choices of CPUs") {
  check_sums({});
}
TEST_CASE("gpu: the same for sparse reduce-scatter and all-gather") { check_sums({}, "direct"); }
TEST_CASE("gpu: the same for sketches that decode all values, some or none") {
  for (double const cells_per_value : {0.0, 1.21, 1.0}) {
    CAPTURE(cells_per_value);
    check_sums({.strategies = {.dense = false, .packed = false},
                .sketch = {.cells_per_value = cells_per_value, .attempts = 2}},
               "ring", 3'001);
  }
}
