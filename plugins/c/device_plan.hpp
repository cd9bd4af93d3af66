#pragma once
/// @file
/// Plans for vectors in CUDA device memory, and the library that makes them, libhcomp_cuda.so. No
/// header of CUDA is needed.

#include <hcomp/bucket.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/version.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hcomp::drop_in {

/// CUDA fails on this rank within a collective: the other ranks do not know it.
struct device_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class collective_kind { all_reduce, reduce_scatter, all_gather };

/// The device that has a vector, and the stream for the work on it.
struct device_place {
  int device = 0;
  void* stream = nullptr;  ///< cudaStream_t; null: the default stream of the device

  friend bool operator==(device_place const&, device_place const&) = default;
};

/// The residual of error feedback, in device memory. Any thread may end it.
template <class V> class device_residual {
 public:
  device_residual() = default;
  device_residual(device_residual const&) = delete;
  device_residual& operator=(device_residual const&) = delete;
  virtual ~device_residual() = default;

  /// As error_feedback: saved states are interchangeable.
  virtual std::vector<std::byte> save() const = 0;
  virtual void restore(std::span<std::byte const> saved) = 0;
};

/// A plan for vectors at one place. One call at a time, from any thread.
template <class V> class device_plan {
 public:
  device_plan() = default;
  device_plan(device_plan const&) = delete;
  device_plan& operator=(device_plan const&) = delete;
  virtual ~device_plan() = default;

  virtual device_place place() const = 0;
  /// Runs a collective after earlier work of the stream. On return the result is complete.
  /// @param residual  of the same library and device; null: no error feedback
  /// @throws as feedback_plan; device_error
  virtual report run(collective_kind which, std::span<V> x, device_residual<V>* residual,
                     call_options const& call) = 0;
};

struct device_plan_request {
  std::string_view codec;  ///< as for make_plan
  std::size_t values;
  any_transport& transport;  ///< must outlive the plan
  plan_options const& options;
  device_place place;
};

/// A vector of a bucket, see bucket.h.
using bucket_vector = ::hcomp_bucket_vector;
using bucket_sizes = ::hcomp_bucket_sizes;

struct bucket_request {
  std::string_view codec;  ///< as for make_parts
  std::span<std::size_t const> values;
  int ranks, rank;
};

/// The steps of an all-reduce of several vectors, see bucket.h. Vectors are in one memory space.
/// Errors: those of any_parts; device_error.
class bucket_coder {
 public:
  bucket_coder() = default;
  bucket_coder(bucket_coder const&) = delete;
  bucket_coder& operator=(bucket_coder const&) = delete;
  virtual ~bucket_coder() = default;

  virtual bucket_sizes sizes() const = 0;
  virtual void measure(bucket_vector const* vectors, std::uint32_t* statistics) = 0;
  virtual void encode(bucket_vector const* vectors, std::uint64_t step,
                      std::uint32_t const* statistics, std::byte* out) = 0;
  virtual void merge(std::byte const* in, std::byte* out) = 0;
  virtual void decode(std::byte const* in, bool is_own_part, bucket_vector const* vectors,
                      std::uint64_t step, reduce_op op) = 0;
  virtual void check(bool wait) = 0;
  virtual void synchronize() = 0;
};

/// What libhcomp_cuda.so does. Errors of its functions: std::runtime_error of CUDA.
class cuda_library {
 public:
  virtual ~cuda_library() = default;
  virtual void require_device() const = 0;
  /// Number of the device that has this memory.
  virtual int device_of(void const* memory) const = 0;
  /// Copies between any memory, after the work of the default stream. Waits.
  virtual void copy(void* to, void const* from, std::size_t bytes) const = 0;
  /// Whether plans for float, or for double, can have this codec.
  virtual bool has_codec(std::string_view name, std::type_identity<float>) const = 0;
  virtual bool has_codec(std::string_view name, std::type_identity<double>) const = 0;
  /// @throws as feedback_plan
  virtual std::unique_ptr<device_plan<float>> make(device_plan_request const& asked,
                                                   std::type_identity<float>) const = 0;
  virtual std::unique_ptr<device_plan<double>> make(device_plan_request const& asked,
                                                    std::type_identity<double>) const = 0;
  /// Enqueue conversions of values of a 16-bit type; narrow rounds to nearest, ties to even.
  /// @param is_ieee  float16; false: bfloat16
  virtual void widen(void const* from, bool is_ieee, float* to, std::size_t values,
                     device_place const& place) const = 0;
  virtual void narrow(float const* from, void* to, bool is_ieee, std::size_t values,
                      device_place const& place) const = 0;
  /// @throws as make_parts
  virtual std::unique_ptr<bucket_coder> make_bucket(bucket_request const& asked,
                                                    device_place const& place) const = 0;
  /// A residual of zeros.
  virtual std::shared_ptr<device_residual<float>> make_residual(
      std::size_t values, device_place const& place, std::type_identity<float>) const = 0;
  virtual std::shared_ptr<device_residual<double>> make_residual(
      std::size_t values, device_place const& place, std::type_identity<double>) const = 0;
};

/// The version that libhcomp_cuda.so and the library that loads it must share.
inline std::string cuda_library_version() {
  return std::to_string(HCOMP_VERSION_MAJOR) + "." + std::to_string(HCOMP_VERSION_MINOR) + "." +
         std::to_string(HCOMP_VERSION_PATCH) + ", wire format " + std::to_string(wire_version) +
         ", options of " + std::to_string(sizeof(plan_options) + sizeof(call_options)) +
         " and reports of " + std::to_string(sizeof(report)) + " bytes, buckets of " +
         std::to_string(sizeof(bucket_vector) + sizeof(bucket_sizes)) + " bytes, conversions";
}

/// Loads libhcomp_cuda.so when first called: HCOMP_CUDA_LIBRARY, or the file beside this library,
/// in ../cuda/ of it, or where the loader finds it.
/// @throws std::runtime_error  it cannot be loaded, or is of another hcomp; the text says why
cuda_library const& loaded_cuda_library();

}  // namespace hcomp::drop_in

// Defined by libhcomp_cuda.so.
extern "C" {
[[gnu::visibility("default")]] char const* hcomp_cuda_made_for();
[[gnu::visibility("default")]] hcomp::drop_in::cuda_library const* hcomp_cuda_library();
}
