#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <span>
#include <support/all_or_few.hpp>
#include <support/reaching_transport.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// All-reduces the vectors of all ranks twice; every rank is a thread with a stream of its own.
/// @param make  (values, transport, executor) -> a plan
template <class T = in_process&, class Make>
std::vector<std::vector<float>> reduced_on_gpu(std::vector<std::vector<float>> const& x,
                                               Make const& make) {
  return on_ranks(x, [&](in_process& from_to, auto& mine) {
    T transport(from_to);
    cudaStream_t stream = nullptr;
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      gpu::stream_executor executor(stream);
      host_staged<std::remove_reference_t<T>, gpu::stream_executor> over(transport, executor);
      gpu::device_buffer const memory(mine.size() * sizeof(float));
      executor.wait(executor.write(memory.data(), mine.data(), memory.size()));
      auto sum = make(mine.size(), over, executor);
      std::span<float> const values(reinterpret_cast<float*>(memory.data()), mine.size());
      for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(values, {.step = step});
      executor.wait(executor.read(mine.data(), memory.data(), memory.size()));
    }
    HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  });
}
/// Does not wait for any stream of the ranks.
struct move_by_cuda {
  void operator()(std::byte* to, std::byte const* from, std::size_t bytes) const {
    HCOMP_CUDA_TRY(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  }
};

/// host_executor would make nvcc slower.
template <class Make>
std::vector<std::vector<float>> reduced_on_nodes(std::vector<std::vector<float>> const& x,
                                                 Make const& make) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    reference_executor executor;
    auto sum = make(mine.size(), transport, executor);
    for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(std::span(mine), {.step = step});
  });
}

template <class T = in_process&, class Make>
void compare(std::size_t values, int ranks, Make const& make) {
  auto const x = uniform_vectors(ranks, values, 8);
  auto const found = reduced_on_gpu<T>(x, make);
  auto const wanted = reduced_on_nodes(x, make);
  for (std::size_t rank = 0; rank < x.size(); ++rank)
    CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
}

}  // namespace

TEST_CASE(
    "gpu: a transport that reaches the device gets messages after the earlier work is complete") {
  for (char const* const name : {"ring", "direct"}) {
    CAPTURE(name);
    plan_options const options{.algorithm = algorithm::from(name), .segment_bytes = 10'000};
    compare<reaching_transport<move_by_cuda>>(
        34'001, 3, [&](std::size_t n, auto& transport, auto& executor) {
          return plan(n, sign<>{}, transport, executor, options);
        });
    compare<reaching_transport<move_by_cuda>>(
        34'001, 3, [&](std::size_t n, auto& transport, auto& executor) {
          return plan(n, identity<float>(), transport, executor, options);
        });
  }
}

TEST_CASE("gpu: sampled selection of ranks that share a GPU gives the bits of nodes") {
  for (int const ranks : all_or_few<std::vector<int>>({1, 3, 8, 33}, {3, 33}))
    for (std::size_t const values : {1, all_or_few(300'001, 34'001)})
      for (bool const checksum : {false, true}) {
        if (!takes_all_cases() && checksum == (ranks == 33)) continue;
        CAPTURE(ranks);
        CAPTURE(values);
        CAPTURE(checksum);
        compare(values, ranks, [&](std::size_t n, auto& transport, auto& executor) {
          return plan(n, sign<>{}, transport, executor,
                      {.algorithm = {algorithm_kind::sampled},
                       .checksum = checksum,
                       .segment_bytes = 10'000});
        });
      }
}
