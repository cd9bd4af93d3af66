#pragma once
/// @file
/// Codecs of variable rate on one thread, compared with reading the same values from memory:
/// encode, decode, merge (two encoded vectors of one rank each -> their sum), and the hop of a ring
/// (encoded vector + values -> encoded vector).

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace bench {

inline constexpr std::size_t values = std::size_t{1} << (is_brief ? 20 : 22);
inline constexpr extent long_slices{"memory", values, std::size_t{1} << 18, 1};

/// Vectors of two ranks, and their encoded forms.
template <class C> struct coded_vectors {
  using T = typename C::value_type;

  std::string name;
  C codec;
  std::vector<T> x, other;  ///< `values` of them
  std::size_t slice = 0;    ///< values of one encoded vector
  std::vector<T> y = std::vector<T>(values);
  std::vector<std::byte> mine = {}, others = {}, out = {};
  double ratio = 0, ratio_of_sum = 0;  ///< bytes of the vector / bytes of its encoded form

  std::span<T const> of_x(std::size_t first) const { return std::span(x).subspan(first, slice); }
  std::span<T> of_y(std::size_t first) { return std::span(y).subspan(first, slice); }
  /// The encoded vector that begins with value `first`, with capacity for any length.
  std::span<std::byte> encoded(std::vector<std::byte>& from, std::size_t first) const {
    std::size_t const slice_bytes = codec.capacity(slice);
    return std::span(from).subspan(first / slice * slice_bytes, slice_bytes);
  }
  void prepare(std::size_t extent) {
    std::size_t const wanted = extent == values ? long_slices.slice : in_cache.slice;
    if (wanted == slice) return;
    slice = wanted;
    std::size_t const slice_bytes = values / slice * codec.capacity(slice);
    mine.resize(slice_bytes);
    others.resize(slice_bytes);
    out.assign(slice_bytes, std::byte{1});
    std::size_t alone = 0, sum = 0;
    for (std::size_t first = 0; first < extent; first += slice) {
      alone += codec.encode(of_x(first), encoded(mine, first));
      codec.encode(std::span<T const>(other).subspan(first, slice), encoded(others, first));
      sum += codec.merge(encoded(mine, first), encoded(others, first), encoded(out, first));
    }
    double const all = static_cast<double>(extent * sizeof(T));
    if (extent != values) return;
    ratio = all / static_cast<double>(alone);
    ratio_of_sum = all / static_cast<double>(sum);
  }
};

/// Adds the four contests of a codec with the encoded format of s->codec.
template <class C>
void add_coding(std::shared_ptr<coded_vectors<C>> const& s, C const& codec,
                std::string const& level) {
  using T = typename C::value_type;
  // the reference reads floats
  constexpr std::size_t each = sizeof(T) / sizeof(float);
  auto* const as_floats = reinterpret_cast<float const*>(s->x.data());
  auto const read = fastest_read(as_floats, nullptr, each * values);
  auto const contest = [&](char const* metric, work const& kernel) {
    bench::contest one{std::string(metric) + " " + s->name, level, 0, kernel,
                       [=](std::size_t first, std::size_t n, int) {
                         read(as_floats + each * first, nullptr, each * n);
                       }};
    one.prepare = [s](std::size_t extent) { s->prepare(extent); };
    one.extents = {long_slices, in_cache};
    add(one);
  };
  contest("encode", [s, codec](std::size_t first, std::size_t, int) {
    codec.encode(s->of_x(first), s->encoded(s->out, first));
    benchmark::ClobberMemory();
  });
  contest("decode", [s, codec](std::size_t first, std::size_t, int) {
    codec.decode(s->encoded(s->mine, first), s->of_y(first));
    benchmark::ClobberMemory();
  });
  contest("merge", [s, codec](std::size_t first, std::size_t, int) {
    codec.merge(s->encoded(s->mine, first), s->encoded(s->others, first),
                s->encoded(s->out, first));
    benchmark::ClobberMemory();
  });
  contest("hop", [s, codec](std::size_t first, std::size_t, int) {
    codec.decode_add_encode(s->encoded(s->others, first), s->of_x(first),
                            s->encoded(s->out, first));
    benchmark::ClobberMemory();
  });
}

/// Prints compression ratios; nothing for vectors that were not timed.
template <class C> void print_ratios(coded_vectors<C> const& s, char const* level) {
  if (s.ratio > 0)
    std::printf("%-17s%-8s%6.2f times smaller, the sum of two%6.2f\n", s.name.c_str(), level,
                s.ratio, s.ratio_of_sum);
}

}  // namespace bench
