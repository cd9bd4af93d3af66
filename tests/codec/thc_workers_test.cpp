/// @file
/// THC's transforms by workers in warps that share memory, as on devices: the bits of one worker.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/core/compensated.hpp>
#include <limits>
#include <support/data.hpp>
#include <support/worker_group.hpp>
#include <vector>

using namespace hcomp::detail::thc;
using hcomp::serial_group;

namespace {

using vector = std::vector<float>;
using bytes = std::vector<std::byte>;

bool same_bits(vector const& a, vector const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Transforms of all sizes. Some have fewer values, and some do not begin a block.
constexpr transform_range ranges[] = {
    {0, 64, 64},         {64, 1, 64},        {192, 50, 64},      {128, 128, 128},
    {128, 77, 128},      {512, 200, 256},    {0, 256, 256},      {512, 512, 512},
    {1024, 1024, 1024},  {1024, 513, 1024},  {2048, 2048, 2048}, {4096, 4096, 4096},
    {12288, 4095, 4096}, {8192, 2050, 4096}, {0, 8192, 8192},    {8192, 8191, 8192},
    {0, 16384, 16384},   {0, 8193, 16384},
};

/// Results for one vector by one worker and by workers in warps.
struct steps {
  transform_range range;
  float scale_of_values;  ///< about the root mean square of a coordinate of 1
  level_cells const& cells;
  float limit;
  level_sink::kind_of_lane kind;

  draw_place place{77, 3, 5};
  bool nonfinite = false, is_finite = false;
  bytes lanes{};
  vector y{};

  std::size_t lane_bytes() const { return kind == level_sink::lanes_16 ? 2 : 1; }
  void allocate() {
    // 16 bytes in front; the test leaves 8 of them unused, because workers in warps need a multiple
    // of 4
    lanes.assign(lane_bytes() * static_cast<std::size_t>(range.first + range.size), std::byte{});
    y.assign(static_cast<std::size_t>(range.first + range.count), 0);
  }
  template <class Group, class Source>
  void by(Group group, float* scratch, Source const& x, float* out) {
    float_scale const scale(static_cast<double>(limit) / (2.0 * std::sqrt(range.size)) /
                            static_cast<double>(scale_of_values));
    float_scale const back(0.37);
    level_sink const sink{kind, lanes.data(), 2};
    bool const met = group.any(rotate(group, scratch, x, range, scale, place));
    if constexpr (hcomp::HasWarps<Group>)
      round_to_levels(group, scratch, x, range, limit,
                      share_cells(group, cells, static_cast<int>(limit) >> 15, sink), place, sink);
    else
      round_to_levels(group, scratch, x, range, limit, cells, place, sink);
    auto const center = [&] {
      if (kind == level_sink::lanes_16)
        center_sums<std::uint16_t>(group, scratch, lanes.data(), range, 17, out);
      else
        center_sums<std::uint8_t>(group, scratch, lanes.data(), range, 17, out);
    };
    center();
    finish_values(group, scratch, range, back, place, out);
    center();
    bool const finite = !group.any(!values_are_finite<float>(group, scratch, range, back));
    if (group.worker() == 0) nonfinite = met, is_finite = finite;
  }
};

template <int Workers, class Source> void check(steps one, Source const& x, std::size_t shift) {
  auto many = one;
  one.allocate();
  many.allocate();
  vector scratch(static_cast<std::size_t>(one.range.size));
  one.by(serial_group{}, scratch.data(), x, one.y.data());
  vector out(one.y.size() + shift);
  workers::run_in_warps<Workers>(shared_bytes(one.range.size), [&](auto group) {
    many.by(group, group.scratch() + shared_cells, x, out.data() + shift);
  });
  REQUIRE(many.nonfinite == one.nonfinite);
  REQUIRE(many.is_finite == one.is_finite);
  REQUIRE(many.lanes == one.lanes);
  REQUIRE(same_bits({out.begin() + static_cast<std::ptrdiff_t>(shift), out.end()}, one.y));
}

}  // namespace

TEST_CASE("thc: workers in warps give the bits of one worker, for transforms of all sizes") {
  hcomp::thc<> const codec({.granularity = 17}), fallback({.granularity = 255});
  level_cells const cells(codec.table()), fallback_cells(fallback.table());
  for (auto const range : ranges) {
    CAPTURE(range.first);
    CAPTURE(range.count);
    CAPTURE(range.size);
    auto const n = static_cast<std::size_t>(range.first + range.count);
    for (std::size_t const shift : {0, 1, 2}) {  // indices of other alignment
      CAPTURE(shift);
      auto x = data::uniform<float>(n + shift, -1.8, 1.8, {.seed = 1});
      if (shift == 1) {
        x[n] = std::numeric_limits<float>::infinity();
        x[shift + static_cast<std::size_t>(range.first)] = std::numeric_limits<float>::quiet_NaN();
      }
      steps const small{range, 1, cells, 17 << 15, level_sink::lanes_8};
      check<32>(small, x.data() + shift, shift);
      check<64>({range, 1, fallback_cells, 255 << 15, level_sink::indices}, x.data() + shift,
                shift);
    }
    auto const x = data::uniform<float>(n, -1e-40, 1e-40, {.seed = 2});  // denormals
    auto const c = data::uniform<float>(n, -1e-40, 1e-40, {.seed = 3});
    hcomp::compensated<float> const source{x.data(), c.data()};
    check<64>({range, 1e-40f, fallback_cells, 255 << 15, level_sink::lanes_16}, source, 0);
  }
}
