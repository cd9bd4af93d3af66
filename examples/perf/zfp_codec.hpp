#pragma once
/// @file
/// zfp as a codec of hcomp, for comparison. zfp cannot add compressed blocks: every hop
/// decompresses, adds and compresses again.

#include <zfp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/compressor.hpp>
#include <limits>
#include <memory>
#include <type_traits>

namespace perf {

/// zfp at a fixed rate, in one dimension. It compresses well if neighbours in the vector are
/// similar. A block flags NaN and infinity; its values are then undefined.
/// Source: P. Lindstrom, Fixed-rate compressed floating-point arrays, IEEE TVCG 20 (2014).
template <class T> struct zfp_codec {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  using value_type = T;
  static constexpr char const* name = "zfp";
  static constexpr std::uint8_t codec_id = 250;
  static constexpr int block_values = 8192;
  static constexpr bool sum_is_exact = false;
  static constexpr bool passes_nonfinite = false;

  int bits = 8;  ///< per value

  std::array<double, 1> parameters() const { return {static_cast<double>(bits)}; }
  std::size_t block_bytes(int n = block_values) const {
    // zfp encodes four values at a time and pads to 64-bit words
    auto const fours = static_cast<std::size_t>(n + 3) / 4;
    return hcomp::block_header_bytes + (fours * 4 * static_cast<std::size_t>(bits) + 63) / 64 * 8;
  }
  static constexpr std::uint32_t max_summands() {
    return std::numeric_limits<std::uint32_t>::max();
  }

  template <class Group, class Source>
  void encode_block(Group, Source const& x, int n, std::byte* block,
                    hcomp::block_origin const& origin) const {
    values plain;
    bool nonfinite = false;
    for (int i = 0; i < n; ++i) {
      plain[static_cast<std::size_t>(i)] = static_cast<T>(x[i]);
      nonfinite |= !(x[i] - x[i] == 0);
    }
    compress(plain, n, block);
    hcomp::store(block, 0, hcomp::make_header(codec_id, n, nonfinite, origin));
  }

  template <class Group> void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    hcomp::merge_checked<zfp_codec>(group, acc, in, max_summands(),
                                    [&](auto const& mine, auto const&) {
                                      values sum, other;
                                      decompress(acc, mine.values, sum);
                                      decompress(in, mine.values, other);
                                      for (std::size_t i = 0; i < mine.values; ++i)
                                        sum[i] += other[i];
                                      compress(sum, mine.values, acc);
                                    });
  }

  template <class Group, class Out>
  void decode_block(Group, std::byte const* block, int n, Out* x, hcomp::reduce_op r) const {
    values plain;
    decompress(block, n, plain);
    auto const weight = hcomp::load<hcomp::block_header>(block).weight;
    T const scale = r == hcomp::reduce_op::mean ? T{1} / static_cast<T>(weight) : T{1};
    for (int i = 0; i < n; ++i) x[i] = static_cast<Out>(plain[static_cast<std::size_t>(i)] * scale);
  }

 private:
  using values = std::array<T, block_values>;

  /// Calls f(zfp, field) for n values at `x` and the payload of `block`.
  template <class F> void with_zfp(T* x, int n, std::byte* block, F const& f) const {
    if (n == 0) return;  // zfp has no empty field
    auto* const payload = block + hcomp::block_header_bytes;
    std::unique_ptr<bitstream, void (*)(bitstream*)> bits_of(
        stream_open(payload, block_bytes(n) - hcomp::block_header_bytes), stream_close);
    std::unique_ptr<zfp_stream, void (*)(zfp_stream*)> zfp(zfp_stream_open(bits_of.get()),
                                                           zfp_stream_close);
    auto const type = std::is_same_v<T, float> ? zfp_type_float : zfp_type_double;
    zfp_stream_set_rate(zfp.get(), bits, type, 1, 0);
    std::unique_ptr<zfp_field, void (*)(zfp_field*)> field(
        zfp_field_1d(x, type, static_cast<unsigned>(n)), zfp_field_free);
    f(zfp.get(), field.get());
  }
  void compress(values& x, int n, std::byte* block) const {
    with_zfp(x.data(), n, block, [](auto* zfp, auto* field) { zfp_compress(zfp, field); });
  }
  void decompress(std::byte const* block, int n, values& x) const {
    // zfp writes through this pointer only during compression
    with_zfp(x.data(), n, const_cast<std::byte*>(block),
             [](auto* zfp, auto* field) { zfp_decompress(zfp, field); });
  }
};

}  // namespace perf
