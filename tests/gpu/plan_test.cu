#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/plan.hpp>
#include <hcomp/collective/staged.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <string>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Sums of all ranks' vectors, twice; every rank is a thread with a stream of its own.
template <class C>
std::vector<std::vector<float>> sums_on_gpu(C const& codec,
                                            std::vector<std::vector<float>> const& x,
                                            plan_options const& options) {
  return on_ranks(x, [&](loopback& transport, auto& mine) {
    cudaStream_t stream = nullptr;
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      gpu::stream_executor executor(stream);
      staged<loopback, gpu::stream_executor> over(transport, executor);
      gpu::device_buffer const memory(mine.size() * sizeof(float));
      executor.wait(executor.write(memory.data(), mine.data(), memory.size()));
      plan<C, staged<loopback, gpu::stream_executor>, gpu::stream_executor> sum(
          mine.size(), codec, over, executor, options);
      std::span<float> const values(reinterpret_cast<float*>(memory.data()), mine.size());
      for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(values, {.step = step});
      executor.wait(executor.read(mine.data(), memory.data(), memory.size()));
    }
    HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  });
}
template <class C>
std::vector<std::vector<float>> sums_on_hosts(C const& codec,
                                              std::vector<std::vector<float>> const& x,
                                              plan_options const& options) {
  return on_ranks(x, [&](loopback& transport, auto& mine) {
    reference_executor executor;  // host_executor would take nvcc longer
    plan<C, loopback, reference_executor> sum(mine.size(), codec, transport, executor, options);
    for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(std::span(mine), {.step = step});
  });
}

}  // namespace

TEST_CASE("gpu: plans of ranks that share a GPU give the bits of plans on hosts") {
  builtin_codecs<float>::for_each([&]<class C>() {
    for (int const ranks : {1, 3, 4})
      for (std::string const name : {"ring", "torus", "direct", "doubling"})
        for (std::size_t const values : {std::size_t{1}, std::size_t{300'001}})
          for (bool const checksum : {false, true}) {
            CAPTURE(std::string(C::name));
            CAPTURE(ranks);
            CAPTURE(name);
            CAPTURE(values);
            CAPTURE(checksum);
            auto const codec = fit(C{}, static_cast<std::uint32_t>(ranks));
            plan_options const options{.how = algorithm::from(name),
                                       .checksum = checksum,
                                       .decode_on_arrival_bytes = 1 << 20};
            std::vector<std::vector<float>> x;
            for (int rank = 0; rank < ranks; ++rank) x.push_back(uniform_values(values, 8, rank));
            auto const found = sums_on_gpu(codec, x, options);
            auto const wanted = sums_on_hosts(codec, x, options);
            for (std::size_t rank = 0; rank < x.size(); ++rank)
              CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
          }
  });
}
