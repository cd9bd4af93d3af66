#include <hcomp/bucket.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "coded_bucket.hpp"
#include "device_plan.hpp"
#include "plan.hpp"
#include "settings.hpp"

using hcomp::c_api::guarded;
using hcomp::c_api::require;
using hcomp::drop_in::bucket_coder;

struct hcomp_bucket : hcomp::c_api::handle {
  std::size_t vectors;
  bool has_statistics;
  std::unique_ptr<bucket_coder> coder;

  hcomp_bucket(std::size_t vectors, std::unique_ptr<bucket_coder> made)
      : vectors(vectors),
        has_statistics(made->sizes().statistics_words > 0),
        coder(std::move(made)) {}
};

namespace {

/// Runs f(bucket, vectors) after checking both.
template <class F>
int on(char const* where, hcomp_bucket* bucket, hcomp_bucket_vector const* vectors, F const& f) {
  return guarded(where, [&] {
    auto& it = require(bucket, "bucket");
    if (it.vectors > 0) require(vectors, "vectors");
    for (std::size_t v = 0; v < it.vectors; ++v)
      if (auto const& one = vectors[v]; one.residual && (!one.pending || !one.withheld))
        throw std::invalid_argument("vector " + std::to_string(v) +
                                    " has a residual, and no pending residual or no withheld");
    f(it);
  });
}
std::byte* bytes(void* memory, char const* name) {
  return reinterpret_cast<std::byte*>(&require(static_cast<char*>(memory), name));
}
std::byte const* bytes(void const* memory, char const* name) {
  return reinterpret_cast<std::byte const*>(&require(static_cast<char const*>(memory), name));
}

}  // namespace

int hcomp_bucket_create(char const* codec, int ranks, int rank, size_t const* values,
                        size_t vectors, int device, void* stream, hcomp_bucket** bucket,
                        hcomp_bucket_sizes* sizes) {
  if (bucket) *bucket = nullptr;
  return guarded(__func__, [&] {
    require(bucket, "bucket");
    if (vectors > 0) require(values, "values");
    auto const how = hcomp::c_api::codec_spec_from(hcomp::drop_in::value_type::float32,
                                                   &require(codec, "codec"));
    auto const text = how.entry_text();
    hcomp::drop_in::bucket_request const asked{text, {values, vectors}, ranks, rank};
    std::unique_ptr<bucket_coder> coder;
    if (device < 0)
      coder =
          std::make_unique<hcomp::drop_in::coded_bucket<hcomp::host_executor>>(asked, how.threads);
    else
      coder = hcomp::drop_in::loaded_cuda_library().make_bucket(asked, {device, stream});
    if (sizes) *sizes = coder->sizes();
    if (sizes) sizes->feedback = how.feedback ? 1 : 0;
    *bucket = new hcomp_bucket(vectors, std::move(coder));
  });
}

int hcomp_bucket_measure(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors,
                         uint32_t* statistics) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    if (it.has_statistics) it.coder->measure(vectors, &require(statistics, "statistics"));
  });
}
int hcomp_bucket_encode(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors, uint64_t step,
                        uint32_t const* statistics, void* out) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    if (it.has_statistics) require(statistics, "statistics");
    it.coder->encode(vectors, step, statistics, bytes(out, "out"));
  });
}
int hcomp_bucket_merge(hcomp_bucket* bucket, void const* in, void* out) {
  return guarded(__func__, [&] {
    require(bucket, "bucket").coder->merge(bytes(in, "in"), bytes(out, "out"));
  });
}
int hcomp_bucket_decode(hcomp_bucket* bucket, void const* in, hcomp_bucket_vector const* vectors,
                        uint64_t step, int mean) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    it.coder->decode(bytes(in, "in"), vectors, step,
                     mean ? hcomp::reduce_op::mean : hcomp::reduce_op::sum);
  });
}
int hcomp_bucket_check(hcomp_bucket* bucket, int wait) {
  return guarded(__func__, [&] { require(bucket, "bucket").coder->check(wait != 0); });
}
int hcomp_bucket_free(hcomp_bucket** bucket) {
  return guarded(__func__, [&] { hcomp::c_api::taken(bucket, "bucket").reset(); });
}
