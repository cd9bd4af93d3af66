#include <hcomp/bucket.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coded_bucket.hpp"
#include "device_plan.hpp"
#include "plan.hpp"
#include "settings.hpp"

using hcomp::c_api::guarded;
using hcomp::c_api::require;
using hcomp::drop_in::bucket_coder;

struct hcomp_bucket : hcomp::c_api::handle {
  std::vector<std::size_t> values;
  std::unique_ptr<bucket_coder> coder;
  hcomp_bucket_sizes sizes;

  hcomp_bucket(std::span<std::size_t const> values, std::unique_ptr<bucket_coder> made)
      : values(values.begin(), values.end()), coder(std::move(made)), sizes(coder->sizes()) {}
};

namespace {

/// Runs f(bucket, vectors) after checking both.
template <class F>
int on(char const* where, hcomp_bucket* bucket, hcomp_bucket_vector const* vectors, F const& f) {
  return guarded(where, [&] {
    auto& it = require(bucket, "bucket");
    if (!it.values.empty()) require(vectors, "vectors");
    for (std::size_t v = 0; v < it.values.size(); ++v) {
      auto const& one = vectors[v];
      auto const refuse = [v](char const* what) {
        throw std::invalid_argument("vector " + std::to_string(v) + " has " + what);
      };
      if (!one.x && it.values[v] > 0) refuse("a null pointer for x");
      if (one.residual && (!one.pending || !one.withheld))
        refuse("a residual, and no pending residual or no withheld");
    }
    f(it);
  });
}
/// @param bytes  size of the memory; 0: any pointer
/// @throws std::invalid_argument  a null pointer, or an address that is no multiple of 16
template <class T> T* checked(T* memory, std::size_t bytes, char const* name) {
  if (bytes == 0) return memory;
  auto const address = reinterpret_cast<std::uintptr_t>(&require(memory, name));
  if (address % 16 != 0)
    throw std::invalid_argument(std::string(name) + " is at address " + std::to_string(address) +
                                ", which is not a multiple of 16");
  return memory;
}
std::byte* bytes_at(void* memory, std::size_t bytes, char const* name) {
  return reinterpret_cast<std::byte*>(checked(static_cast<char*>(memory), bytes, name));
}
std::byte const* bytes_at(void const* memory, std::size_t bytes, char const* name) {
  return reinterpret_cast<std::byte const*>(checked(static_cast<char const*>(memory), bytes, name));
}
/// @throws std::invalid_argument  why no bucket can have them
void require_sizes(std::span<std::size_t const> values) {
  constexpr std::size_t most = std::size_t{1} << 36;
  std::size_t all = 0;
  for (std::size_t const one : values) {
    if (one > most - all)
      throw std::invalid_argument("more than " + std::to_string(most) + " values: a vector has " +
                                  std::to_string(one));
    all += one;
  }
}

hcomp::reduce_op result_of(int mean) {
  return mean ? hcomp::reduce_op::mean : hcomp::reduce_op::sum;
}

}  // namespace

int hcomp_bucket_create(char const* codec, int ranks, int rank, size_t const* values,
                        size_t vectors, int device, void* stream, hcomp_bucket** bucket,
                        hcomp_bucket_sizes* sizes) {
  if (bucket) *bucket = nullptr;
  return guarded(__func__, [&] {
    require(bucket, "bucket");
    if (vectors > 0) require(values, "values");
    std::span const sizes_of(values, vectors);
    require_sizes(sizes_of);
    if (device < -1)
      throw std::invalid_argument("device is " + std::to_string(device) +
                                  "; -1 is host memory, 0 the first CUDA device");
    auto const how = hcomp::c_api::codec_spec_from(hcomp::drop_in::value_type::float32,
                                                   &require(codec, "codec"));
    if (std::string_view(codec).find("algorithm") != std::string_view::npos)
      throw std::invalid_argument("codec '" + std::string(codec) +
                                  "': a bucket has no algorithm, its caller moves the bytes");
    auto const text = how.entry_text();
    hcomp::drop_in::bucket_request const asked{text, sizes_of, ranks, rank};
    std::unique_ptr<bucket_coder> coder;
    if (device < 0)
      coder =
          std::make_unique<hcomp::drop_in::coded_bucket<hcomp::host_executor>>(asked, how.threads);
    else
      coder = hcomp::drop_in::loaded_cuda_library().make_bucket(asked, {device, stream});
    if (sizes) *sizes = coder->sizes();
    if (sizes) sizes->feedback = how.feedback ? 1 : 0;
    *bucket = new hcomp_bucket(sizes_of, std::move(coder));
  });
}

int hcomp_bucket_measure(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors,
                         uint32_t* statistics) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    std::size_t const words = it.sizes.statistics_words;
    if (words > 0) it.coder->measure(vectors, checked(statistics, words, "statistics"));
  });
}
int hcomp_bucket_encode(hcomp_bucket* bucket, hcomp_bucket_vector const* vectors, uint64_t step,
                        uint32_t const* statistics, void* out) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    it.coder->encode(vectors, step, checked(statistics, it.sizes.statistics_words, "statistics"),
                     bytes_at(out, it.sizes.part_bytes, "out"));
  });
}
int hcomp_bucket_merge(hcomp_bucket* bucket, void const* in, void* out) {
  return guarded(__func__, [&] {
    auto& it = require(bucket, "bucket");
    it.coder->merge(bytes_at(in, it.sizes.part_bytes, "in"),
                    bytes_at(out, it.sizes.reduced_bytes, "out"));
  });
}
int hcomp_bucket_decode(hcomp_bucket* bucket, void const* in, hcomp_bucket_vector const* vectors,
                        uint64_t step, int mean) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    it.coder->decode(bytes_at(in, it.sizes.reduced_bytes, "in"), false, vectors, step,
                     result_of(mean));
  });
}
int hcomp_bucket_decode_part(hcomp_bucket* bucket, void const* in,
                             hcomp_bucket_vector const* vectors, uint64_t step, int mean) {
  return on(__func__, bucket, vectors, [&](hcomp_bucket& it) {
    it.coder->decode(bytes_at(in, it.sizes.reduced_bytes, "in"), true, vectors, step,
                     result_of(mean));
  });
}
int hcomp_bucket_check(hcomp_bucket* bucket, int wait) {
  return guarded(__func__, [&] { require(bucket, "bucket").coder->check(wait != 0); });
}
int hcomp_bucket_free(hcomp_bucket** bucket) {
  return guarded(__func__, [&] { hcomp::c_api::taken(bucket, "bucket").reset(); });
}
