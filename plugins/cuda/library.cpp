#include <cuda_runtime.h>

#include <c/device_plan.hpp>
#include <cstddef>
#include <hcomp/gpu/device.hpp>
#include <hcomp/gpu/error.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "plans_of_type.hpp"

namespace hcomp::drop_in {

namespace {

class this_library final : public cuda_library {
 public:
  void require_device() const override { gpu::require_device("libhcomp_cuda.so"); }
  int device_of(void const* memory) const override {
    cudaPointerAttributes about{};
    HCOMP_CUDA_TRY(cudaPointerGetAttributes(&about, memory));
    return about.device;
  }
  void copy(void* to, void const* from, std::size_t bytes) const override {
    HCOMP_CUDA_TRY(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    HCOMP_CUDA_TRY(cudaStreamSynchronize(nullptr));  // between devices the copy only begins
  }
  bool has_codec(std::string_view name, std::type_identity<float>) const override {
    return plans_of_type<float>::has_codec(name);
  }
  bool has_codec(std::string_view name, std::type_identity<double>) const override {
    return plans_of_type<double>::has_codec(name);
  }
  std::unique_ptr<device_plan<float>> make(device_plan_request const& asked,
                                           std::type_identity<float>) const override {
    return plans_of_type<float>::make(asked);
  }
  std::unique_ptr<device_plan<double>> make(device_plan_request const& asked,
                                            std::type_identity<double>) const override {
    return plans_of_type<double>::make(asked);
  }
  void widen(void const* from, bool is_ieee, float* to, std::size_t values,
             device_place const& place) const override {
    conversions::widen(from, is_ieee, to, values, place);
  }
  void narrow(float const* from, void* to, bool is_ieee, std::size_t values,
              device_place const& place) const override {
    conversions::narrow(from, to, is_ieee, values, place);
  }
  std::unique_ptr<bucket_coder> make_bucket(bucket_request const& asked,
                                            device_place const& place) const override {
    return plans_of_type<float>::make_bucket(asked, place);
  }
  std::shared_ptr<device_residual<float>> make_residual(std::size_t values,
                                                        device_place const& place,
                                                        std::type_identity<float>) const override {
    return plans_of_type<float>::make_residual(values, place);
  }
  std::shared_ptr<device_residual<double>> make_residual(
      std::size_t values, device_place const& place, std::type_identity<double>) const override {
    return plans_of_type<double>::make_residual(values, place);
  }
};

}  // namespace
}  // namespace hcomp::drop_in

char const* hcomp_cuda_made_for() {
  static std::string const version = hcomp::drop_in::cuda_library_version();
  return version.c_str();
}
hcomp::drop_in::cuda_library const* hcomp_cuda_library() {
  static hcomp::drop_in::this_library const library;
  return &library;
}
