#pragma once
/// @file
/// A chunk of inceptionn: the tags, then the payloads. If that is not smaller, the chunk holds the
/// decoded values instead. The size of the chunk tells which form it has.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/detail/simd.hpp>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::inceptionn {

inline constexpr std::size_t chunk_values = 1024;
/// Buffer size for tags and payloads of any chunk, and for the bytes that encode_values overwrites.
inline constexpr std::size_t chunk_capacity =
    tag_bytes(chunk_values) + chunk_values * sizeof(float) + slack_bytes;

/// Encodes and decodes single chunks on a CPU with the best SIMD level.
struct cpu_coder {
  value_rule rule;
  simd_level level;

  /// Converts `bytes` of tags and payloads to a chunk of n values; returns its size in bytes. A
  /// chunk of values holds the decoded values, so results do not depend on the other values of a
  /// chunk.
  /// @param out  has n * 4 bytes; may be `coded`
  std::size_t finish(std::byte const* coded, std::size_t bytes, std::size_t n,
                     std::byte* out) const {
    if (bytes < n * sizeof(float)) {
      if (out != coded) std::memcpy(out, coded, bytes);
      return bytes;
    }
    float values[chunk_values];
    decode_values(rule, coded, coded + tag_bytes(n), n, nullptr, values, level);
    std::memcpy(out, values, n * sizeof(float));
    return n * sizeof(float);
  }

  /// Writes tags and payloads of n values of one chunk; returns their size in bytes.
  /// @param out  has chunk_capacity bytes
  std::size_t encode_coded(float const* x, std::size_t n, std::byte* out) const {
    std::size_t const tags = tag_bytes(n);
    return tags + encode_values(rule, x, n, out, out + tags, level);
  }

  /// Encodes one chunk of n values; returns its size in bytes.
  /// @param capacity  size of `out` in bytes, at least n * 4
  std::size_t encode(float const* x, std::size_t n, std::byte* out, std::size_t capacity) const {
    if (capacity >= chunk_capacity) return finish(out, encode_coded(x, n, out), n, out);
    std::byte coded[chunk_capacity];
    return finish(coded, encode_coded(x, n, coded), n, out);
  }

  /// True if `bytes` at `chunk` are a valid chunk of n values.
  bool valid(std::byte const* chunk, std::size_t bytes, std::size_t n) const {
    if (bytes == n * sizeof(float)) return true;
    std::size_t const tags = tag_bytes(n);
    return bytes >= tags && bytes < n * sizeof(float) &&
           bytes - tags == payload_bytes(chunk, tags, level) && !tags_beyond(chunk, n);
  }

  /// out[i] = value i, or addend[i] + value i if `addend` is not null. `addend` may be `out`.
  /// @param chunk   valid
  /// @param behind  readable bytes after the chunk
  void decode(std::byte const* chunk, std::size_t bytes, std::size_t behind, std::size_t n,
              float const* addend, float* out) const {
    if (bytes == n * sizeof(float) && !addend) {
      std::memcpy(out, chunk, bytes);
    } else if (bytes == n * sizeof(float)) {
      for (std::size_t i = 0; i < n; ++i) out[i] = sum_of(addend[i], load<float>(chunk, i));
    } else if (behind >= slack_bytes) {
      decode_values(rule, chunk, chunk + tag_bytes(n), n, addend, out, level);
    } else {
      std::byte copy[chunk_capacity];
      std::memcpy(copy, chunk, bytes);
      decode_values(rule, copy, copy + tag_bytes(n), n, addend, out, level);
    }
  }
};

}  // namespace hcomp::detail::inceptionn
