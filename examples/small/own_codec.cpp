// A user-defined codec: it rounds values to multiples of a fixed step and adds them as integers, so
// the result does not depend on the order of the ranks. Three ranks run as threads, without MPI.
//
//   g++ -std=c++20 -O2 -Iinclude examples/small/own_codec.cpp -o own_codec -pthread
//   ./own_codec
//
// Prints: sum in fixed point: 0.006000 (exact: 0.006000)
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <vector>

struct fixed_point {
  using value_type = float;
  static constexpr char const* name = "fixed_point";
  static constexpr std::uint8_t codec_id = 200;  // must not be an id of hcomp::codec_ids
  static constexpr int block_values = 1024;
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = false;

  float step = 1e-6f;  // distance of two encoded values

  std::array<double, 1> parameters() const { return {step}; }
  static std::uint32_t max_summands() { return 1u << 16; }  // |value / step| < 2^15
  static std::size_t block_bytes(int n) {
    return hcomp::block_header_bytes + static_cast<std::size_t>(n) * 4;
  }

  template <class Group, class Source>
  void encode_block(Group group, Source const& x, int n, std::byte* block,
                    hcomp::block_origin const& origin) const {
    bool nonfinite = false;
    for (int i = group.worker(); i < n; i += Group::workers) {
      float const scaled = static_cast<float>(x[i]) / step;
      bool const fits = std::abs(scaled) < 32768;  // false for NaN
      nonfinite |= !fits;
      hcomp::store(block + hcomp::block_header_bytes, static_cast<std::size_t>(i),
                   fits ? static_cast<std::int32_t>(std::lrint(scaled)) *
                              static_cast<std::int32_t>(origin.weight)
                        : 0);
    }
    nonfinite = group.any(nonfinite);
    if (group.worker() == 0)
      hcomp::store(block, 0, hcomp::make_header(codec_id, n, nonfinite, origin));
    group.sync();
  }

  template <class Group> void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    hcomp::merge_checked<fixed_point>(
        group, acc, in, max_summands(), [&](auto const& header, auto const&) {
          std::byte* const sums = acc + hcomp::block_header_bytes;
          for (int i = group.worker(); i < header.values; i += Group::workers) {
            auto const at = static_cast<std::size_t>(i);
            hcomp::store(sums, at,
                         hcomp::load<std::int32_t>(sums, at) +
                             hcomp::load<std::int32_t>(in + hcomp::block_header_bytes, at));
          }
        });
  }

  template <class Group, class Out>
  void decode_block(Group group, std::byte const* block, int n, Out* x, hcomp::reduce_op r) const {
    float const whole = static_cast<float>(hcomp::load<hcomp::block_header>(block).weight);
    for (int i = group.worker(); i < n; i += Group::workers) {
      auto const sum = step * static_cast<float>(hcomp::load<std::int32_t>(
                                  block + hcomp::block_header_bytes, static_cast<std::size_t>(i)));
      x[i] = static_cast<Out>(r == hcomp::reduce_op::mean ? sum / whole : sum);
    }
    group.sync();
  }
};
static_assert(hcomp::HomomorphicSum<fixed_point>);

int main() {
  hcomp::run_ranks(3, [](hcomp::in_process& transport) {
    hcomp::host_executor executor;
    std::vector<float> x(5000, 0.001f * static_cast<float>(transport.rank() + 1));
    hcomp::all_reduce(std::span(x), fixed_point{}, transport, executor);
    if (transport.rank() == 0)
      std::printf("sum in fixed point: %.6f (exact: 0.006000)\n", static_cast<double>(x.front()));
  });
}
