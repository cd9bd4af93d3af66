#pragma once
/// @file
/// A chunk of INCEPTIONN's code for software: tags and then payloads; or, where that would not be
/// smaller, the values themselves. Which of them it is, its length tells.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/inceptionn/detail/simd.hpp>
#include <hcomp/codec/inceptionn/detail/values.hpp>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp::detail::inceptionn {

inline constexpr std::size_t chunk_values = 1024;
/// Room for any chunk, before it is found to be too large, and for what encode_values overwrites.
inline constexpr std::size_t chunk_room =
    tag_bytes(chunk_values) + chunk_values * sizeof(float) + slack_bytes;

/// Chunks one by one, as fast as a processor can.
struct cpu_coder {
  value_rule rule;
  simd_level level;

  /// `bytes` of tags and payloads at `coded` as a chunk of n values at `out`, which has room for
  /// all n values and may be `coded`; returns its length. Values are stored as a receiver of the
  /// code would have them, so that the sum does not depend on what else is in a chunk.
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

  /// Tags and payloads of n values of one chunk; returns their bytes.
  /// @param out  chunk_room
  std::size_t encode_coded(float const* x, std::size_t n, std::byte* out) const {
    std::size_t const tags = tag_bytes(n);
    return tags + encode_values(rule, x, n, out, out + tags, level);
  }

  /// One chunk of n values; returns its length.
  /// @param room  bytes at `out`: n * 4 at least
  std::size_t encode(float const* x, std::size_t n, std::byte* out, std::size_t room) const {
    if (room >= chunk_room) return finish(out, encode_coded(x, n, out), n, out);
    std::byte coded[chunk_room];
    return finish(coded, encode_coded(x, n, coded), n, out);
  }

  /// Whether `bytes` at `chunk` are a chunk of n values.
  bool valid(std::byte const* chunk, std::size_t bytes, std::size_t n) const {
    if (bytes == n * sizeof(float)) return true;
    std::size_t const tags = tag_bytes(n);
    return bytes >= tags && bytes < n * sizeof(float) &&
           bytes - tags == payload_bytes(chunk, tags, level) && !tags_beyond(chunk, n);
  }

  /// out[i] = value, or addend[i] + value where there is an addend, which may be `out`.
  /// @param chunk   valid
  /// @param behind  bytes that may be read behind it
  void decode(std::byte const* chunk, std::size_t bytes, std::size_t behind, std::size_t n,
              float const* addend, float* out) const {
    if (bytes == n * sizeof(float) && !addend) {
      std::memcpy(out, chunk, bytes);
    } else if (bytes == n * sizeof(float)) {
      for (std::size_t i = 0; i < n; ++i) out[i] = sum_of(addend[i], load<float>(chunk, i));
    } else if (behind >= slack_bytes) {
      decode_values(rule, chunk, chunk + tag_bytes(n), n, addend, out, level);
    } else {
      std::byte copy[chunk_room];
      std::memcpy(copy, chunk, bytes);
      decode_values(rule, copy, copy + tag_bytes(n), n, addend, out, level);
    }
  }
};

}  // namespace hcomp::detail::inceptionn
