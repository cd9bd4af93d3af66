#pragma once
/// @file
/// Codec `iblt`: all-reduce of very sparse vectors in one pass, without an index, by any integer
/// adder.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/native_sum.hpp>
#include <hcomp/codec/sparse/detail/iblt_cells.hpp>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/random.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp {

/// Settings of an `iblt`; equal on all ranks.
struct iblt_options {
  /// Expected number of values that are not zero on some rank. 0: the upper bound, ranks times the
  /// largest number on one rank.
  std::size_t expected = 0;
  /// Size of the table. Below 1.2218, half of the values cannot be read. 0: 1.3, or 1.4 for fewer
  /// than 2000 values.
  double cells_per_value = 0;
};

/// The table holds more values than can be read. Thrown on all ranks alike.
class incomplete_error : public std::runtime_error {
 public:
  /// @param left  number of values of ranks that could not be read
  incomplete_error(std::uint64_t left, std::string const& text)
      : std::runtime_error(text), left_(left) {}

  std::uint64_t left() const noexcept { return left_; }

 private:
  std::uint64_t left_;
};

/// An invertible Bloom lookup table. Each cell holds a count, a sum of keys, a sum of checks, and a
/// sum of values in fixed point. If a cell holds a single value, these determine its position and
/// amount.
///
///     hcomp::iblt sum({.ranks = ranks}, {.expected = 5000});
///     hcomp::mpi::all_reduce_native(sum, x, key, lanes, comm);  // two words by MPI_MAX, MPI_SUM
///
/// Each value is rounded to a multiple of a unit that the largest value of all ranks and their
/// number determine, as in sparse_union<std::uint32_t>. The sum of these is exact, with the same
/// bits in any order of the ranks.
///
/// There is no second phase. If too many values collide, decode_lanes throws on all ranks and
/// leaves x unchanged, so the caller can use another codec.
///
/// This happens with more values than expected. With fewer than 1000 values it also happens in up
/// to two of a hundred calls. 32 neighbours share a hash, so this limit is 1000 rows if complete
/// rows are nonzero.
/// Size: 16 bytes per cell, 21 per expected value: less than a bitmap and a sketch if fewer than
/// 0.8 % of the values are nonzero.
/// Source: Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011.
class iblt {
 public:
  using value_type = float;
  using lane_type = std::uint32_t;
  static constexpr char const* name = "iblt";
  static constexpr native_operation operation = native_operation::sum;

  /// @throws std::invalid_argument  fewer cells than values, or no ranks
  explicit iblt(sparse_options const& options = {}, iblt_options const& table = {})
      : options_(options), table_(table) {
    if (!(table.cells_per_value == 0 ||
          (table.cells_per_value >= 1 && table.cells_per_value <= 100)))
      throw std::invalid_argument(
          detail::error_text({"iblt: ", table.cells_per_value,
                              " cells per value; there can be 1 to 100 (0: default)"}));
    if (options.ranks == 0)
      throw std::invalid_argument("iblt: 0 ranks to be summed, at least 1 is needed");
  }

  /// Returns the largest exponent, as floats store it, and the number of nonzero values.
  /// @throws std::invalid_argument  values times ranks do not fit into 32 bits
  std::vector<std::uint32_t> measure(std::span<float const> x) {
    if (x.size() > 0xffffffffu / options_.ranks)
      throw std::invalid_argument(
          detail::error_text({"iblt: ", x.size(), " values on ", options_.ranks,
                              " ranks; sums of their places must fit into 32 bits"}));
    mine_.mark(x);
    mine_.unite();
    return {mine_.exponent(), static_cast<std::uint32_t>(mine_.marked())};
  }

  /// Sets unit and table size from the element-wise maximum of all ranks' words.
  /// @throws nonfinite_error  NaN or infinity on some rank: all ranks throw
  /// @throws wire_error       `words` cannot be the maximum of all measured words
  void calibrate(std::vector<std::uint32_t> const& words) {
    if (words.size() != 2 || words[0] < mine_.exponent() ||
        words[0] > detail::sparse::nonfinite_exponent || words[1] < mine_.marked() ||
        words[1] > mine_.values())
      throw wire_error(detail::error_text(
          {"iblt: the words to calibrate by are not the largest of what ranks of ", mine_.values(),
           " values have measured"}));
    if (words[0] == detail::sparse::nonfinite_exponent)
      throw nonfinite_error("iblt: NaN or infinity on some rank; x is unchanged");
    numbers_ = {words[0], options_.ranks,
                options_.op == reduce_op::mean ? options_.ranks : std::uint32_t{1}};
    std::size_t const expected = std::min<std::size_t>(
        table_.expected > 0 ? table_.expected : std::size_t{words[1]} * options_.ranks,
        mine_.values());
    layout_ = detail::lhc::sketch_plan::layout_for(
        name, expected, detail::lhc::sketch_plan::cells_per_value(expected, table_.cells_per_value),
        0);
  }

  std::size_t cells() const { return layout_.size(); }

  /// Number of lanes for the calibrated vector.
  std::size_t lanes(std::size_t /*values*/) const { return cells() * detail::iblt::lanes_per_cell; }

  /// @param x  the vector that was measured
  void encode_lanes(std::span<float const> x, std::span<std::uint32_t> out,
                    std::uint64_t key) const {
    detail::sparse::require_lanes(name, x.size(), mine_.values(), out.size(), lanes(x.size()));
    std::fill(out.begin(), out.end(), 0);
    if (cells() == 0) return;
    auto const layout = layout_of(key);
    auto const marks = mine_.marks();
    for (std::size_t w = 0; w < marks.size(); ++w)
      detail::lhc::for_each_mark(
          layout, marks.data(), w, [&](auto const& row, std::uint32_t value) {
            std::uint32_t const lane =
                detail::sparse::checked_lane(name, numbers_, x.data(), value);
            if (lane == 0) return;  // less than half a unit
            std::uint32_t const mine[] = {1, value, detail::iblt::check_of(layout.seed, value),
                                          lane};
            for (int t = 0; t < detail::lhc::cell_layout::hashes; ++t) {
              std::uint32_t* const cell =
                  out.data() + row.cell(t, value) * detail::iblt::lanes_per_cell;
              for (std::size_t i = 0; i < detail::iblt::lanes_per_cell; ++i) cell[i] += mine[i];
            }
          });
  }

  /// Decodes the sum into x. Returns 0, or the number of values of ranks that cannot be read; x is
  /// then unchanged.
  /// @throws wire_error  cells hold data that no rank encoded
  std::uint64_t try_decode_lanes(std::span<std::uint32_t const> reduced, std::span<float> x,
                                 std::uint64_t key) const {
    return decode(reduced, x, key).left;
  }

  /// Decodes the sum into x.
  /// @throws incomplete_error  some values cannot be read; on all ranks alike, and x is unchanged
  /// @throws wire_error        cells hold data that no rank encoded
  void decode_lanes(std::span<std::uint32_t const> reduced, std::span<float> x,
                    std::uint64_t key) const {
    auto const progress = decode(reduced, x, key);
    if (progress.left > 0)
      throw incomplete_error(
          progress.left,
          "iblt: " + std::to_string(progress.left) + " of " + std::to_string(progress.all) +
              " non-zeros of the ranks cannot be read from " + std::to_string(cells()) +
              " cells; more cells are needed, or another sum. x is unchanged");
  }

 private:
  detail::lhc::cell_layout layout_of(std::uint64_t key) const { return {mix(key), layout_.rows}; }

  detail::iblt::table_progress decode(std::span<std::uint32_t const> reduced, std::span<float> x,
                                      std::uint64_t key) const {
    detail::sparse::require_lanes(name, x.size(), mine_.values(), reduced.size(), lanes(x.size()));
    std::vector<detail::iblt::table_cell> table(cells());
    if (!table.empty()) std::memcpy(table.data(), reduced.data(), reduced.size_bytes());
    std::vector<detail::iblt::value_claim> claims;
    auto const progress =
        detail::iblt::peel(layout_of(key), x.size(), options_.ranks, std::span(table), claims);
    if (progress.left > 0) return progress;
    if (progress.strange > 0)
      throw wire_error(
          detail::error_text({"iblt: ", progress.strange, " of ", cells(),
                              " cells hold data that no rank encoded; x is unchanged"}));
    std::fill(x.begin(), x.end(), 0.0f);
    for (auto const& claim : claims) x[claim.value] = numbers_.value(claim.sum);
    return progress;
  }

  sparse_options options_;
  iblt_options table_;
  sparse_index mine_;  // index of this rank alone
  detail::sparse::lane_numbers<std::uint32_t> numbers_;
  detail::lhc::cell_layout layout_{0, 0};
};

static_assert(CalibratedNativeSum<iblt>);

}  // namespace hcomp
