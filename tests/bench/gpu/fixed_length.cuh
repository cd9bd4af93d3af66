#pragma once
/// @file
/// A baseline for a GPU without hcomp: quantization to a bound, differences of neighbours, and per
/// 32 values the number of bits of the largest difference. Plain kernels, one warp per 32 values.
/// After cuSZp: Huang et al., SC 2023.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cub/device/device_scan.cuh>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>

namespace fixed_length {

inline constexpr unsigned everyone = 0xffffffffu;

/// The difference of a value from its predecessor in a block of 32.
struct difference {
  bool negative;
  unsigned size;
  int bits;  ///< of the largest in the block

  __device__ difference(float x, float inverse) {
    int const number = __float2int_rn(x * inverse);
    int const before = __shfl_up_sync(everyone, number, 1);
    int const step = number - (threadIdx.x % 32 == 0 ? 0 : before);
    negative = step < 0;
    size = static_cast<unsigned>(negative ? -step : step);
    bits = 32 - __clz(static_cast<int>(__reduce_max_sync(everyone, size)));
  }
};

/// Calls f(block, lane) in all warps.
template <class F> __device__ void for_each_block(std::size_t blocks, F const& f) {
  std::size_t const thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::size_t const warps = gridDim.x * std::size_t{blockDim.x} / 32;
  for (std::size_t b = thread / 32; b < blocks; b += warps) f(b, threadIdx.x % 32);
}

/// words[b] = encoded size of block b.
__global__ void find_sizes(float const* x, std::size_t blocks, float inverse,
                           std::uint32_t* words) {
  for_each_block(blocks, [&](std::size_t b, unsigned lane) {
    difference const mine(x[b * 32 + lane], inverse);
    if (lane == 0) words[b] = mine.bits == 0 ? 0 : static_cast<std::uint32_t>(mine.bits) + 1;
  });
}
__global__ void encode(float const* x, std::size_t blocks, float inverse,
                       std::uint32_t const* begins, std::uint8_t* rates, std::uint32_t* encoded) {
  for_each_block(blocks, [&](std::size_t b, unsigned lane) {
    difference const mine(x[b * 32 + lane], inverse);
    std::uint32_t const signs = __ballot_sync(everyone, mine.negative);
    std::uint32_t kept = 0;
    for (unsigned plane = 0; plane < static_cast<unsigned>(mine.bits); ++plane) {
      std::uint32_t const bits = __ballot_sync(everyone, mine.size >> plane & 1);
      if (lane == plane) kept = bits;
    }
    if (lane == 0) rates[b] = static_cast<std::uint8_t>(mine.bits);
    if (lane == 0 && mine.bits > 0) encoded[begins[b]] = signs;
    if (lane < static_cast<unsigned>(mine.bits)) encoded[begins[b] + 1 + lane] = kept;
  });
}
__global__ void decode(std::uint32_t const* encoded, std::size_t blocks, float unit,
                       std::uint32_t const* begins, std::uint8_t const* rates, float* x) {
  for_each_block(blocks, [&](std::size_t b, unsigned lane) {
    unsigned const bits = rates[b];
    std::uint32_t const signs = bits == 0 ? 0 : encoded[begins[b]];
    std::uint32_t const kept = lane < bits ? encoded[begins[b] + 1 + lane] : 0;
    unsigned size = 0;
    for (unsigned plane = 0; plane < bits; ++plane)
      size |= (__shfl_sync(everyone, kept, static_cast<int>(plane)) >> lane & 1) << plane;
    int number = static_cast<int>(signs >> lane & 1 ? 0u - size : size);
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      int const below = __shfl_up_sync(everyone, number, distance);
      if (lane >= distance) number += below;
    }
    x[b * 32 + lane] = static_cast<float>(number) * unit;
  });
}

/// Encodes vectors of one length, a multiple of 32.
class coder {
 public:
  coder(std::size_t values, float bound)
      : blocks_(values / 32),
        bound_(bound),
        words_((blocks_ + 1) * sizeof(std::uint32_t)),
        begins_((blocks_ + 1) * sizeof(std::uint32_t)),
        rates_(blocks_),
        encoded_(blocks_ * 33 * sizeof(std::uint32_t)) {
    HCOMP_CUDA_TRY(scan(nullptr));
    scratch_ = hcomp::gpu::device_buffer(scratch_bytes_);
    HCOMP_CUDA_TRY(cudaMemset(words_.data(), 0, words_.size()));
  }

  void encode(float const* x) {
    float const inverse = 1 / (2 * bound_);
    find_sizes<<<4096, 256>>>(x, blocks_, inverse, words(words_));
    HCOMP_CUDA_TRY(scan(scratch_.data()));
    fixed_length::encode<<<4096, 256>>>(x, blocks_, inverse, words(begins_),
                                        reinterpret_cast<std::uint8_t*>(rates_.data()),
                                        words(encoded_));
  }
  void decode(float* x) {
    fixed_length::decode<<<4096, 256>>>(words(encoded_), blocks_, 2 * bound_, words(begins_),
                                        reinterpret_cast<std::uint8_t const*>(rates_.data()), x);
  }
  /// Size of the last encoded vector.
  std::size_t bytes() const {
    std::uint32_t all = 0;
    HCOMP_CUDA_TRY(cudaMemcpy(&all, words(begins_) + blocks_, sizeof(all), cudaMemcpyDefault));
    return blocks_ + all * sizeof(std::uint32_t);
  }

 private:
  static std::uint32_t* words(hcomp::gpu::device_buffer const& memory) {
    return reinterpret_cast<std::uint32_t*>(memory.data());
  }
  cudaError_t scan(void* scratch) {
    return cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes_, words(words_), words(begins_),
                                         blocks_ + 1);
  }

  std::size_t blocks_;
  float bound_;
  hcomp::gpu::device_buffer words_, begins_, rates_, encoded_, scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace fixed_length
