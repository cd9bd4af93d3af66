#include <doctest/doctest.h>

#include <c/device_plan.hpp>
#include <c/feedback_plan.hpp>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <span>
#include <string>
#include <support/all_or_few.hpp>
#include <support/placed.hpp>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Two all-reduces by plans of libhcomp_cuda.so; every rank is a thread with a stream of its own.
std::vector<std::vector<float>> reduced_on_gpu(std::vector<std::vector<float>> const& x,
                                               std::string const& codec,
                                               plan_options const& options) {
  return on_ranks(x, [&](in_process& from_to, auto& mine) {
    any_transport transport(from_to);
    cudaStream_t stream = nullptr;
    HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      placed<float> on_device(mine, true);
      auto const sum = hcomp_cuda_library()->make(
          {codec, mine.size(), transport, options, {0, stream}}, std::type_identity<float>{});
      std::span const all(static_cast<float*>(on_device.data()), mine.size());
      for (std::uint64_t step = 0; step < 2; ++step)
        sum->run(drop_in::collective_kind::all_reduce, all, nullptr, {.step = step});
      mine = on_device.get();
    }
    HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
  });
}
std::vector<std::vector<float>> reduced_on_cpu(std::vector<std::vector<float>> const& x,
                                               std::string const& codec,
                                               plan_options const& options) {
  return on_ranks(x, [&](in_process& transport, auto& mine) {
    host_executor executor;
    drop_in::feedback_plan<float> sum(codec, mine.size(), transport, executor, options);
    for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(mine, {.step = step});
  });
}

}  // namespace

TEST_CASE("gpu: plans of libhcomp_cuda.so give the bits of plans on CPUs with every algorithm") {
  registered_codecs<float>().for_each([](codec_info const& codec) {
    std::string const name = codec.name == "error_bounded" ? "error_bounded:1e-3" : codec.name;
    if (name == "top_k") return;  // for host memory only
    for (auto const kind : all_or_few(codec.algorithms, {codec.algorithms.front()}))
      for (int const count : all_or_few<std::vector<int>>({1, 3, 4}, {3}))
        for (std::size_t const n : {1, all_or_few(300'001, 34'001)})
          for (bool const checksum : {false, true}) {
            if (!takes_all_cases() && checksum == (n == 1)) continue;
            CAPTURE(name);
            CAPTURE(algorithm{kind}.name());
            CAPTURE(count);
            CAPTURE(n);
            CAPTURE(checksum);
            plan_options const options{
                .algorithm = {kind}, .checksum = checksum, .decode_on_arrival_bytes = 1 << 20};
            auto const x = uniform_vectors(count, n, 8);
            auto const found = reduced_on_gpu(x, name, options);
            auto const wanted = reduced_on_cpu(x, name, options);
            for (std::size_t rank = 0; rank < x.size(); ++rank)
              CHECK(first_difference(found[rank], wanted[rank]) == nowhere);
          }
  });
}
