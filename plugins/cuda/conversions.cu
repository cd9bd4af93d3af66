#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <hcomp/core/half.hpp>
#include <hcomp/gpu/error.hpp>

#include "plans_of_type.hpp"
#include "used_device.hpp"

namespace hcomp::drop_in {

namespace {

constexpr int threads = 256;

template <class From, class To>
__global__ void convert(From const* from, To* to, std::size_t values) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < values; i += step)
    to[i] = static_cast<To>(from[i]);
}

template <class From, class To>
void enqueue(void const* from, void* to, std::size_t values, device_place const& place) {
  if (values == 0) return;
  used_device const here(place.device);
  auto const blocks = std::min<std::size_t>((values + threads - 1) / threads, 65535);
  convert<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(place.stream)>>>(
      static_cast<From const*>(from), static_cast<To*>(to), values);
  HCOMP_CUDA_TRY(cudaGetLastError());
}

}  // namespace

void conversions::widen(void const* from, bool is_ieee, float* to, std::size_t values,
                        device_place const& place) {
  return is_ieee ? enqueue<float16, float>(from, to, values, place)
                 : enqueue<bfloat16, float>(from, to, values, place);
}
void conversions::narrow(float const* from, void* to, bool is_ieee, std::size_t values,
                         device_place const& place) {
  return is_ieee ? enqueue<float, float16>(from, to, values, place)
                 : enqueue<float, bfloat16>(from, to, values, place);
}

}  // namespace hcomp::drop_in
