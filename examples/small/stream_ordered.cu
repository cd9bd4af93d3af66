// Stream-ordered all-reduce of two ranks that are threads of one process and share a GPU: calls
// enqueue their work and return, and check() waits for it and throws its errors.
//
//   cmake --preset release && cmake --build build --target example_stream_ordered
//   build/examples/small/stream_ordered [VALUES [VALUES_OF_RANK_1]]   default: 1000000 on both
//
// Prints the mean of the ranks' values, 1 and 2. With another number of values on rank 1 it prints
// the error. Without a GPU it prints "Skipped: there is no GPU".
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/in_process_stream.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/hcomp.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

constexpr int steps = 20;

/// @throws std::invalid_argument  the text is no number
std::size_t number(char const* text) {
  std::size_t value = 0;
  auto const* const end = text + std::strlen(text);
  auto const [last, error] = std::from_chars(text, end, value);
  if (error != std::errc() || last != end)
    throw std::invalid_argument("'" + std::string(text) + "' is no number of values");
  return value;
}

/// @param values  of the plan
/// @param count   of this rank
void work(hcomp::in_process& ranks, std::size_t values, std::size_t count) {
  cudaStream_t stream = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    std::vector<float> x(count, static_cast<float>(ranks.rank() + 1));
    hcomp::gpu::device_buffer memory(x.size() * sizeof(float));
    if (count > 0)
      HCOMP_CUDA_TRY(cudaMemcpy(memory.data(), x.data(), memory.size(), cudaMemcpyDefault));
    std::span const gradient(reinterpret_cast<float*>(memory.data()), x.size());

    hcomp::gpu::stream_executor executor(stream);
    hcomp::gpu::in_process_stream transport(ranks, stream);
    hcomp::plan plan(values, hcomp::float_cast<hcomp::float16>(), transport, executor);
    hcomp::gpu::error_feedback<float> feedback(values);
    for (std::uint64_t step = 0; step < steps; ++step)
      plan.all_reduce(gradient, feedback, {.step = step, .op = hcomp::reduce_op::mean});
    plan.check();  // waits for the stream; throws the errors of the calls above

    if (count > 0)
      HCOMP_CUDA_TRY(cudaMemcpy(x.data(), memory.data(), memory.size(), cudaMemcpyDefault));
    if (ranks.rank() == 0)
      std::printf("%d ranks, %d all-reduces of %zu values, the first is %g\n", ranks.size(), steps,
                  x.size(), x.empty() ? 0.0 : double{x[0]});
  }
  HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  if (hcomp::gpu::device_count() == 0) {
    std::puts("Skipped: there is no GPU");
    return 77;
  }
  try {
    std::size_t const values = argc > 1 ? number(argv[1]) : 1'000'000,
                      of_rank_1 = argc > 2 ? number(argv[2]) : values;
    hcomp::run_ranks(2, [&](hcomp::in_process& ranks) {
      work(ranks, values, ranks.rank() == 1 ? of_rank_1 : values);
    });
  } catch (std::exception const& error) {
    std::fprintf(stderr, "stream_ordered: %s\n", error.what());
    return 1;
  }
}
