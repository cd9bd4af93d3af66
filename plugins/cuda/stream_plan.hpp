#pragma once
/// @file
/// Plan for vectors in device memory whose messages pass through pinned host memory, or directly
/// where the transport reaches the device.

#include <cuda_runtime.h>

#include <c/coded_bucket.hpp>
#include <c/device_plan.hpp>
#include <c/feedback_plan.hpp>
#include <cstddef>
#include <hcomp/collective/by_name/make_device_plan.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/gpu/error.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plans_of_type.hpp"
#include "used_device.hpp"

namespace hcomp::drop_in {

template <class V> class stream_residual final : public device_residual<V> {
 public:
  stream_residual(std::size_t values, device_place const& place) : device_(place.device) {
    used_device const here(device_);
    residual_.emplace(values);
  }

  std::vector<std::byte> save() const override {
    used_device const here(device_);
    return residual_->save();
  }
  void restore(std::span<std::byte const> saved) override {
    used_device const here(device_);
    residual_->restore(saved);
  }
  gpu::error_feedback<V>& get() { return *residual_; }

 private:
  int device_;
  std::optional<gpu::error_feedback<V>> residual_;
};

template <class V> class stream_plan final : public device_plan<V> {
 public:
  explicit stream_plan(device_plan_request const& asked) : place_(asked.place) {
    used_device const here(place_.device);
    parts_ = std::make_unique<parts>(asked);
  }
  ~stream_plan() override {
    try {
      used_device const here(place_.device);
      parts_.reset();
    } catch (gpu::cuda_error const&) {  // the members end on the current device
    }
  }

  device_place place() const override { return place_; }

  report run(collective_kind which, std::span<V> x, device_residual<V>* given,
             call_options const& call) override {
    try {
      used_device const here(place_.device);
      auto const made = run_here(which, x, given, call);
      parts_->executor.synchronize();
      return made;
    } catch (gpu::cuda_error const& error) {
      throw device_error(error.what());
    }
  }

 private:
  report run_here(collective_kind which, std::span<V> x, device_residual<V>* given,
                  call_options const& call) {
    auto& plan = parts_->plan;
    auto* const residual = given ? &static_cast<stream_residual<V>*>(given)->get() : nullptr;
    switch (which) {
      case collective_kind::all_reduce:
        return residual ? plan.all_reduce(x, *residual, call) : plan.all_reduce(x, call);
      case collective_kind::reduce_scatter:
        return residual ? plan.reduce_scatter(x, *residual, call) : plan.reduce_scatter(x, call);
      default: return plan.all_gather(x, call);
    }
  }

  struct parts {
    gpu::stream_executor executor;
    host_staged<any_transport, gpu::stream_executor> transport;
    feedback_plan<V, gpu::stream_executor> plan;

    explicit parts(device_plan_request const& asked)
        : executor(static_cast<cudaStream_t>(asked.place.stream)),
          transport(asked.transport, executor),
          plan(asked.codec, asked.values, transport, executor, asked.options) {}
  };

  device_place place_;
  std::unique_ptr<parts> parts_;
};

/// A coded_bucket whose calls make its device current, and report CUDA's errors as device_error.
class stream_bucket final : public bucket_coder {
 public:
  stream_bucket(bucket_request const& asked, device_place const& place) : device_(place.device) {
    used_device const here(device_);
    coder_ = std::make_unique<coded_bucket<gpu::stream_executor>>(
        asked, static_cast<cudaStream_t>(place.stream));
  }
  ~stream_bucket() override {
    try {
      used_device const here(device_);
      coder_->synchronize();
      coder_.reset();
    } catch (gpu::cuda_error const&) {  // the members end on the current device
    }
  }

  bucket_sizes sizes() const override { return coder_->sizes(); }
  void measure(bucket_vector const* vectors, std::uint32_t* statistics) override {
    on_device([&] { coder_->measure(vectors, statistics); });
  }
  void encode(bucket_vector const* vectors, std::uint64_t step, std::uint32_t const* statistics,
              std::byte* out) override {
    on_device([&] { coder_->encode(vectors, step, statistics, out); });
  }
  void merge(std::byte const* in, std::byte* out) override {
    on_device([&] { coder_->merge(in, out); });
  }
  void decode(std::byte const* in, bool is_own_part, bucket_vector const* vectors,
              std::uint64_t step, reduce_op op) override {
    on_device([&] { coder_->decode(in, is_own_part, vectors, step, op); });
  }
  void check(bool wait) override {
    on_device([&] { coder_->check(wait); });
  }
  void synchronize() override {
    on_device([&] { coder_->synchronize(); });
  }

 private:
  template <class F> void on_device(F const& f) const {
    try {
      used_device const here(device_);
      f();
    } catch (gpu::cuda_error const& error) {
      throw device_error(error.what());
    }
  }

  int device_;
  std::unique_ptr<coded_bucket<gpu::stream_executor>> coder_;
};

template <class V> bool plans_of_type<V>::has_codec(std::string_view name) {
  return registered_codecs<V, gpu::stream_executor>().find(name) != nullptr;
}
template <class V>
std::unique_ptr<device_plan<V>> plans_of_type<V>::make(device_plan_request const& asked) {
  return std::make_unique<stream_plan<V>>(asked);
}
template <class V>
std::shared_ptr<device_residual<V>> plans_of_type<V>::make_residual(std::size_t values,
                                                                    device_place const& place) {
  return std::make_shared<stream_residual<V>>(values, place);
}
template <class V>
std::unique_ptr<bucket_coder> plans_of_type<V>::make_bucket(
    bucket_request const& asked, device_place const& place) requires std::is_same_v<V, float> {
  return std::make_unique<stream_bucket>(asked, place);
}

}  // namespace hcomp::drop_in
