#pragma once
/// @file
/// The plans of libhcomp_cuda.so for one value type. nvcc compiles each type in a file of its own.

#include <c/device_plan.hpp>
#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>

namespace hcomp::drop_in {

/// Members as in cuda_library.
template <class V> struct plans_of_type {
  static bool has_codec(std::string_view name);
  static std::unique_ptr<device_plan<V>> make(device_plan_request const& asked);
  static std::shared_ptr<device_residual<V>> make_residual(std::size_t values,
                                                           device_place const& place);
  static std::unique_ptr<bucket_coder> make_bucket(
      bucket_request const& asked, device_place const& place) requires std::is_same_v<V, float>;
};

/// Members as in cuda_library.
struct conversions {
  static void widen(void const* from, bool is_ieee, float* to, std::size_t values,
                    device_place const& place);
  static void narrow(float const* from, void* to, bool is_ieee, std::size_t values,
                     device_place const& place);
};

}  // namespace hcomp::drop_in
