#pragma once
/// @file
/// LHC in one phase: index and sketch are sent together, with a predicted sketch size.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/lane_numbers.hpp>
#include <hcomp/codec/sparse/detail/lhc_plan.hpp>
#include <hcomp/codec/sparse/detail/lhc_sketch.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace hcomp {

/// Settings of `lhc_one_phase`; equal on all ranks.
struct one_phase_options {
  int rounds = 8;              ///< number of previous rounds that the prediction uses
  double growth = 1.2;         ///< the prediction for the next union is this factor times the
                               ///< largest previous union
  double cells_per_value = 0;  ///< for the predicted number of values; 0: as lhc
  /// Fixed point: a round needs two phases if the largest value grows or shrinks by more than
  /// 2^exponent_bits. One phase costs at most twice this number of bits of precision.
  int exponent_bits = 2;
};

/// Result of one round.
struct one_phase_report {
  std::size_t values = 0, marked = 0;  ///< of the vector; of these, not zero on some rank
  std::size_t cells = 0;               ///< of the sketch sent with the index
  std::size_t afterwards = 0;          ///< values sent in a second phase; 0: there was no second
                                       ///< phase
  std::size_t index_bytes = 0, sketch_bytes = 0, afterwards_bytes = 0;
  bool outgrown =
      false;  ///< a value exceeded the range of the sketch, so all values were sent again
  bool too_coarse =
      false;  ///< the sketch's unit was too coarse for the values, so all were sent again

  /// Returns for example "one phase: 5000 of 100000 values are not zero on some rank, 7872 cells, 0
  /// values afterwards".
  std::string text() const {
    return std::string(afterwards == 0 ? "one phase: " : "two phases: ") + std::to_string(marked) +
           " of " + std::to_string(values) + " values are not zero on some rank, " +
           std::to_string(cells) + " cells, " + std::to_string(afterwards) + " values afterwards" +
           (outgrown     ? ", because one outgrew the sketch"
            : too_coarse ? ", because the sketch's unit was too coarse for them"
                         : "");
  }
};

/// Repeated sparse all-reduce of one vector, normally in one phase per round. The union's size and
/// the largest exponent are predicted from the last rounds. Values that do not fit into the sketch
/// are packed and sent in a second phase, so **nothing is ever lost**. The first round has no
/// prediction and takes two phases.
///
/// A round whose largest value differs much from the last rounds', in either direction, also takes
/// two; the prediction ignores a single outlier of this kind.
///
///     hcomp::lhc_one_phase<std::uint32_t> sum({.ranks = ranks});  // kept from round to round
///     hcomp::mpi::all_reduce_one_phase(sum, x, key, comm);
///
/// or with any other reduction, for example in a switch:
///
///     sum.begin(x, philox_key(key));
///     // reduce words() by bitwise OR and sketch() by addition over all ranks, concurrently
///     sum.unite(x);
///     // reduce rest() by addition; it is empty on all ranks or on none
///     sum.finish(x);
///
/// All ranks make the same prediction, because they have seen the same unions.
///
/// In fixed point the sum is exact, in multiples of a unit. In two phases the unit is that of lhc.
/// In one phase it is at most 2^(2 exponent_bits) times as large, for every history of rounds.
/// Floats round as in lhc; if a float is 2^70 or more, the round takes two phases.
/// @tparam Lane  float, std::uint32_t or std::uint64_t
/// Size: 1 bit per value, and 1.2 * 1.3 lanes per value of the largest recent union.
/// Source: Li et al., arXiv 2402.07529, whose sketch is discarded when it cannot be peeled.
template <class Lane = std::uint32_t> class lhc_one_phase {
 public:
  using value_type = float;
  using lane_type = Lane;
  static constexpr char const* name = "lhc_one_phase";

  /// @throws std::invalid_argument  a setting is out of range
  explicit lhc_one_phase(sparse_options const& options = {}, one_phase_options const& phase = {})
      : options_(options), phase_(phase) {
    options_.nonfinite = nonfinite_policy::throw_error;  // NaN and infinity would spread in the
                                                         // sketch
    bool const cells_fit =
        phase.cells_per_value == 0 || (phase.cells_per_value >= 1 && phase.cells_per_value <= 100);
    if (options.ranks == 0 || phase.rounds < 1 || !(phase.growth >= 0.01 && phase.growth <= 100) ||
        !cells_fit || phase.exponent_bits < 0 || phase.exponent_bits > 20)
      throw std::invalid_argument(detail::error_text(
          {"lhc_one_phase: ", options.ranks, " ranks, ", phase.rounds, " rounds, growth ",
           phase.growth, ", ", phase.cells_per_value, " cells per value, ", phase.exponent_bits,
           " bits for exponents; valid: ranks and rounds from 1, growth 0.01 to 100, cells per "
           "value "
           "1 to 100 (0: default), exponent bits 0 to 20"}));
  }

  /// Marks the nonzero values of x, and sketches them unless this is the first round.
  /// @param key  philox_key(draw_key): seeds the hashes
  /// @throws std::invalid_argument  more values or cells than the format can count
  void begin(std::span<float const> x, std::uint64_t key) {
    if (x.size() != index_.values()) past_.clear();  // it holds rounds of another vector
    words_ = index_.mark(x);
    layout_ = predicted(mix(key));
    sketch_.resize(layout_.size());
    rest_.clear();
    if (sketch_.empty()) return;
    numbers_ = numbers_of(predicted_exponent());
    auto const marks = index_.marks();
    detail::lhc::sketch_marked(simd_group{}, layout_, marks.data(), marks.size(), sketch_.data(),
                               [&](std::uint32_t value) {
                                 // a value that is too large is visible in the index, so all ranks
                                 // will send again
                                 return numbers_.can_represent(x[value]) ? numbers_.lane(x[value])
                                                                         : Lane{0};
                               });
  }

  /// The index words; reduce them in place by bitwise OR.
  std::span<std::uint64_t> words() { return words_; }
  /// The sketch; reduce it in place by addition. Empty in a first round.
  std::span<Lane> sketch() { return sketch_; }

  /// Determines which values of the union the sketch gives, and packs this rank's remaining values.
  /// @param x  the vector that was marked
  /// @throws nonfinite_error  some rank has NaN or infinity: all ranks throw, x is unchanged
  /// @throws wire_error       not a union of indices
  void unite(std::span<float const> x) {
    index_.unite();
    auto const agreed = detail::sparse::agreed_numbers<Lane>(name, index_, options_);
    report_ = {index_.values(),
               index_.marked(),
               layout_.size(),
               0,
               words_.size_bytes(),
               sketch_.size() * sizeof(Lane),
               0,
               false,
               false};
    if (layout_.rows > 0 && index_.marked() > 0) {
      auto const found = index_.exponent();
      report_.outgrown = !detail::lhc::cells_hold<Lane>(found);
      if constexpr (std::is_integral_v<Lane>) {
        auto const predicted = predicted_exponent();
        report_.outgrown = found > predicted;
        report_.too_coarse =
            predicted > found + 2 * static_cast<std::uint32_t>(phase_.exponent_bits);
      }
    }
    if (report_.outgrown || report_.too_coarse) layout_.rows = 0;
    if (layout_.rows == 0) numbers_ = agreed;
    plan_.take(index_, layout_);
    report_.afterwards = plan_.left_count();
    rest_.resize(plan_.left_count());
    report_.afterwards_bytes = rest_.size() * sizeof(Lane);
    detail::sparse::require_lanes(name, x.size(), index_.values(), rest_.size(), rest_.size());
    detail::sparse::pack_values(name, numbers_, plan_.left(), x.data(), rest_.data());
  }

  /// The remaining values; reduce them in place by addition, unless empty.
  std::span<Lane> rest() { return rest_; }

  /// Decodes the sum into x, and records this round for predictions.
  /// @throws wire_error  fixed point: cells hold more than the index explains; x is unchanged
  one_phase_report const& finish(std::span<float> x) {
    detail::sparse::require_lanes(name, x.size(), index_.values(), rest_.size(),
                                  plan_.left_count());
    std::vector<Lane> sums;
    if (layout_.rows > 0) {
      sums = plan_.read(std::span(sketch_));
      if constexpr (std::is_integral_v<Lane>) require_explained();
    }
    plan_.template write<decltype(numbers_), Lane>(numbers_, sums, rest_, x);
    past_.push_back({index_.marked(), index_.exponent()});
    if (past_.size() > static_cast<std::size_t>(phase_.rounds)) past_.erase(past_.begin());
    return report_;
  }

  one_phase_report const& report() const { return report_; }
  sparse_index const& index() const { return index_; }
  sparse_options const& options() const { return options_; }
  /// Cells of the next sketch; 0 if there is no prediction.
  std::size_t predicted_cells() const { return predicted(0).size(); }

  /// A number that differs if the settings or the previous rounds differ; ranks compare it.
  std::uint64_t settings() const {
    std::uint64_t all = sizeof(Lane) * 2 + std::is_integral_v<Lane>;
    auto const add = [&](std::uint64_t word) { all = mix(mix(all) + word); };
    add(options_.ranks);
    add(static_cast<std::uint64_t>(options_.op));
    add(static_cast<std::uint64_t>(phase_.rounds));
    add(same_bits<std::uint64_t>(phase_.growth));
    add(same_bits<std::uint64_t>(phase_.cells_per_value));
    add(static_cast<std::uint64_t>(phase_.exponent_bits));
    add(index_.values());
    for (auto const& round : past_) {
      add(round.marked);
      add(round.exponent);
    }
    return all;
  }

 private:
  struct past_round {
    std::size_t marked;
    std::uint32_t exponent;
  };

  detail::lhc::cell_layout predicted(std::uint64_t seed) const {
    std::size_t most = 0;
    for (auto const& round : past_) most = std::max(most, round.marked);
    auto const expected =
        std::min(static_cast<std::size_t>(std::ceil(phase_.growth * static_cast<double>(most))),
                 index_.values());
    return detail::lhc::sketch_plan::layout_for(
        name, expected, detail::lhc::sketch_plan::cells_per_value(expected, phase_.cells_per_value),
        seed);
  }
  /// Largest exponent that the unit must hold. The median of the last three rounds follows a
  /// lasting change after two rounds, and ignores a single outlier.
  std::uint32_t predicted_exponent() const {
    std::uint32_t last[3] = {};
    int count = 0;
    for (auto round = past_.rbegin(); round != past_.rend() && count < 3; ++round)
      if (round->marked > 0) last[count++] = round->exponent;  // zeros have no size
    if (count < 2) last[1] = last[0];
    auto const [low, high] = std::minmax(last[0], last[1]);
    std::uint32_t const median = count < 3 ? high : std::max(low, std::min(high, last[2]));
    return std::min(median + static_cast<std::uint32_t>(phase_.exponent_bits),
                    detail::sparse::nonfinite_exponent - 1);
  }
  detail::sparse::lane_numbers<Lane> numbers_of(std::uint32_t exponent) const {
    return {exponent, options_.ranks,
            options_.op == reduce_op::mean ? options_.ranks : std::uint32_t{1}};
  }
  /// The sketches of all ranks must also contain the values that were sent afterwards.
  void require_explained() {
    auto const left = plan_.left();
    detail::sparse::for_marked(simd_group{}, left.marks.data(), left.marks.size(),
                               left.marks_before.data(), [&](std::size_t place, std::size_t k) {
                                 auto const value = static_cast<std::uint32_t>(place);
                                 auto const row = layout_.row_of(value);
                                 for (int t = 0; t < detail::lhc::cell_layout::hashes; ++t)
                                   detail::lhc::add_to_cell(simd_group{}, sketch_.data(),
                                                            row.cell(t, value), rest_[k],
                                                            !row.negative(t));
                               });
    detail::lhc::require_empty<Lane>(name, sketch_);
  }

  sparse_options options_;
  one_phase_options phase_;
  sparse_index index_;
  std::span<std::uint64_t> words_;  // of the index
  detail::lhc::cell_layout layout_{0, 0};
  detail::sparse::lane_numbers<Lane> numbers_;
  detail::lhc::sketch_plan plan_;
  std::vector<Lane> sketch_, rest_;
  std::vector<past_round> past_;
  one_phase_report report_;
};

}  // namespace hcomp
