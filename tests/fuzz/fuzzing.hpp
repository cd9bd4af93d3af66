#pragma once
/// @file
/// Shared code of the fuzzers of codecs: splits the input, and checks decoders.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/simd.hpp>
#include <span>
#include <vector>

namespace fuzzing {

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;
using input = std::span<std::byte const>;

inline void require(bool condition, char const* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}
/// Compares bits: distinguishes -0 from 0, and NaNs from each other.
inline bool same(floats const& a, floats const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
template <class F> bool refuses(F const& f) {
  try {
    f();
    return false;
  } catch (hcomp::wire_error const&) {
    return true;
  }
}

/// Removes and returns a T from the start; missing bytes are 0.
template <class T> T take(input& in) {
  std::byte all[sizeof(T)] = {};
  std::size_t const count = std::min(sizeof(T), in.size());
  std::copy_n(in.begin(), count, all);
  in = in.subspan(count);
  return hcomp::load<T>(all);
}
/// The remaining bytes as floats, without an incomplete one.
inline floats take_floats(input& in) {
  floats x(in.size() / sizeof(float));
  if (!x.empty()) std::memcpy(x.data(), in.data(), x.size() * sizeof(float));
  in = {};
  return x;
}
inline hcomp::simd_level level_of(unsigned number) {
  return std::min(static_cast<hcomp::simd_level>(number % 3), hcomp::best_simd_level());
}

/// Replaces a few bytes.
class damage {
 public:
  explicit damage(input& in) {
    for (auto& one : changes_) one = take<change>(in);
  }
  void apply(bytes& to) const {
    for (auto const& one : changes_) to[one.at % to.size()] ^= std::byte{one.by};
  }

 private:
  struct change {
    std::uint16_t at;
    std::uint8_t by, unused;
  };
  change changes_[3];
};

/// put(out) writes into `most_bytes` bytes and returns the number of bytes written.
template <class Put> bytes written(std::size_t most_bytes, Put const& put) {
  bytes out(most_bytes);
  out.resize(put(out));
  // without spare capacity, so that sanitizers detect reads beyond the end
  return {out.begin(), out.end()};
}
template <class Codec> bytes encoded(Codec const& codec, floats const& x) {
  return written(codec.capacity(x.size()), [&](bytes& out) { return codec.encode(x, out); });
}
template <class Codec> floats decoded(Codec const& codec, input in, std::size_t n) {
  floats x(n, 5.0f);
  codec.decode(in, x);
  return x;
}

}  // namespace fuzzing
