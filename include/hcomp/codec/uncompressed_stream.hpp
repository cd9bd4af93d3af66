#pragma once
/// @file
/// Floats as they are, as a code of variable rate: what compressed ones are compared with.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/variable_rate.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// Vectors sent as they are, 4 bytes per value and nothing else, as a plan sends compressed ones.
struct uncompressed_stream {
  using value_type = float;
  static constexpr char const* name = "uncompressed_stream";
  static constexpr std::uint8_t tag = 29;

  static constexpr std::array<double, 0> parameters() { return {}; }
  static constexpr std::size_t capacity(std::size_t values) { return values * sizeof(float); }

  /// @throws std::invalid_argument  `out` has less than 4 bytes per value
  static std::size_t encode(std::span<float const> x, std::span<std::byte> out) {
    require_room(x.size(), out.size());
    if (!x.empty()) std::memcpy(out.data(), x.data(), x.size_bytes());
    return x.size_bytes();
  }
  /// @throws wire_error  not 4 bytes per value
  static void decode(std::span<std::byte const> in, std::span<float> x) {
    check(in, x.size());
    if (!x.empty()) std::memcpy(x.data(), in.data(), in.size());
  }
  static void decode_add(std::span<std::byte const> in, std::span<float> sums) {
    check(in, sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += load<float>(in.data(), i);
  }
  static std::size_t decode_add_encode(std::span<std::byte const> in, std::span<float const> x,
                                       std::span<std::byte> out) {
    check(in, x.size());
    require_room(x.size(), out.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      store(out.data(), i, x[i] + load<float>(in.data(), i));
    return x.size_bytes();
  }
  static void check(std::span<std::byte const> in, std::size_t values) {
    if (in.size() != capacity(values))
      throw wire_error("uncompressed_stream: " + std::to_string(in.size()) + " bytes for " +
                       std::to_string(values) + " values");
  }

 private:
  static void require_room(std::size_t values, std::size_t bytes) {
    if (bytes < capacity(values))
      throw std::invalid_argument("uncompressed_stream: room for " + std::to_string(bytes) +
                                  " bytes, " + std::to_string(values) + " values take " +
                                  std::to_string(capacity(values)));
  }
};
static_assert(VariableRate<uncompressed_stream>);

}  // namespace hcomp
