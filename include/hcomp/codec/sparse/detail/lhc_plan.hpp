#pragma once
/// @file
/// Plan for sketching and peeling one index. All ranks compute the same plan before they send
/// values.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sparse/detail/index_words_simd.hpp>
#include <hcomp/codec/sparse/detail/lhc_cells.hpp>
#include <hcomp/codec/sparse/detail/lhc_peel.hpp>
#include <hcomp/codec/sparse/detail/packing.hpp>
#include <hcomp/codec/sparse/index.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/random.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail::lhc {

/// The chosen sketch.
struct sketch_choice {
  cell_layout cells;  ///< no rows: no sketch is worthwhile
  peel_progress progress;
  int attempts;  ///< number of sketches tried
};

/// A sketch, the values that can be peeled from it, and the values to send separately.
class sketch_plan {
 public:
  /// Number of cells, rounded up to complete rows.
  static std::size_t cells_for(std::size_t marked, double cells_per_value) {
    auto const row = cell_layout{}.size();
    double const rows = cells_per_value * static_cast<double>(marked) / static_cast<double>(row);
    return static_cast<std::size_t>(std::ceil(rows)) * row;
  }

  /// The default (`asked` 0): few values need more cells, because random variation matters.
  static double cells_per_value(std::size_t marked, double asked) {
    return asked > 0 ? asked : marked < 2000 ? 1.4 : 1.3;
  }
  /// Cells of the first sketch to try, for `asked` cells per value.
  static std::size_t likely_cells(std::size_t marked, double asked) {
    return cells_for(marked, cells_per_value(marked, asked));
  }
  /// A sketch with cells for `marked` values, with hashes from `seed`.
  /// @throws std::invalid_argument  more cells than 31 bits can count
  static cell_layout layout_for(char const* name, std::size_t marked, double cells_per_value,
                                std::uint64_t seed) {
    std::size_t const cells = cells_for(marked, cells_per_value);
    if (cells > 0x7fffffff)
      throw std::invalid_argument(error_text({name, ": ", marked, " values in ", cells_per_value,
                                              " cells each, 2^31 can be counted"}));
    return {seed, static_cast<std::uint32_t>(cells / cell_layout{}.size())};
  }

  /// Tries sketches until one peels completely: first four of `cells_per_value` with different
  /// hashes, then sketches with 10 % more cells each. It chooses the sketch that needs the fewest
  /// lanes, counting the values sent separately. If a sketch gives at most half of the values, no
  /// sketch is used.
  /// @param try_cells  try_cells(cells) peels this sketch and returns the progress; its last
  ///                   argument is the chosen sketch
  /// @throws std::invalid_argument  more cells than 31 bits can count
  template <class Try>
  static sketch_choice choose(std::size_t marked, double cells_per_value, int attempts,
                              std::uint64_t key, Try const& try_cells) {
    cell_layout best, tried = layout_for("lhc", marked, cells_per_value, 0);
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    sketch_choice last{{0, 0}, {0, 0}, 0};
    for (; last.attempts < attempts && (last.attempts == 0 || last.progress.claims < marked);
         ++last.attempts) {
      if (last.attempts >= 4) tried.rows += (tried.rows + 9) / 10;
      if (tried.size() > 0x7fffffff) break;
      tried.seed = mix(key + static_cast<std::uint64_t>(last.attempts));
      last.cells = tried;
      last.progress = try_cells(tried);
      if (std::size_t const lanes = tried.size() + marked - last.progress.claims; lanes < fewest) {
        fewest = lanes;
        best = tried;
      }
    }
    if (best.seed != last.cells.seed) {
      last.cells = best;
      last.progress = try_cells(best);
    }
    if (last.progress.claims <= marked / 2) {
      last.cells.rows = 0;
      last.progress = {0, 0};
    }
    return last;
  }

  /// @throws std::invalid_argument  as choose
  void make(sparse_index const& index, double cells_per_value, int attempts, std::uint64_t key) {
    auto const chosen = choose(index.marked(), cells_per_value, attempts, key,
                               [&](cell_layout const& cells) { return try_cells(index, cells); });
    cells_ = chosen.cells;
    progress_ = chosen.progress;
    attempts_ = chosen.attempts;
    separate(index);
  }

  /// Uses a sketch that was made before the index was known. Values that it cannot give are sent
  /// separately.
  void take(sparse_index const& index, cell_layout const& cells) {
    attempts_ = 1;
    cells_ = cells;
    progress_ = cells.rows > 0 ? try_cells(index, cells) : peel_progress{0, 0};
    separate(index);
  }

  /// Reads the totals of the values of order() from the sum of the ranks' sketches. `sketch` keeps
  /// the part that they do not explain.
  template <class Lane> std::vector<Lane> read(std::span<Lane> sketch) const {
    std::vector<Lane> sums(claims());
    recover(simd_group{}, cells_, order().data(), claims_after(), rounds(), sketch.data(),
            [&](std::size_t k, Lane lane) { sums[k] = lane; });
    for (auto const& claim : order()) sketch[claim.cell] = 0;
    return sums;
  }

  /// Sets x to the values of order() and the separate values; 0 elsewhere.
  template <class Numbers, class Lane>
  void write(Numbers const& numbers, std::span<Lane const> read, std::span<Lane const> beside,
             std::span<float> x) const {
    std::fill(x.begin(), x.end(), 0.0f);
    for (std::size_t k = 0; k < claims(); ++k) x[claims_[k].value] = numbers.value(read[k]);
    sparse::for_marked(
        simd_group{}, left_.data(), left_.size(), left_marks_before_.data(),
        [&](std::size_t value, std::size_t place) { x[value] = numbers.value(beside[place]); });
  }

  cell_layout const& cells() const { return cells_; }
  int attempts() const { return attempts_; }
  std::size_t rounds() const { return progress_.rounds; }
  std::size_t claims() const { return progress_.claims; }
  std::span<value_claim const> order() const { return std::span(claims_).first(claims()); }
  /// Number of claims after each round.
  std::uint32_t const* claims_after() const { return rounds_.data(); }

  /// Marks of the values in the sketch, and of the separate values.
  std::span<std::uint64_t const> sketched(sparse_index const& index) const {
    return left_count_ == 0 ? index.marks() : std::span<std::uint64_t const>(sketched_);
  }
  sparse::marked_values left() const { return {left_, left_marks_before_}; }
  std::size_t left_count() const { return left_count_; }

 private:
  peel_progress try_cells(sparse_index const& index, cell_layout const& cells) {
    words_.resize(cells.size());
    open_.resize(open_words(cells));
    claims_.resize(index.marked());
    rounds_.resize(most_rounds);
    peel_graph const graph{words_.data(), open_.data(), claims_.data(), rounds_.data()};
    begin_peeling(simd_group{}, cells, index.marks().data(), index.marks().size(), graph);
    return peel(simd_group{}, cells, graph);
  }
  /// Separates the marks of values that peel from those that do not.
  void separate(sparse_index const& index) {
    left_count_ = index.marked() - claims();
    left_.clear();
    left_marks_before_.clear();
    if (left_count_ == 0) return;
    left_.assign(index.marks().begin(), index.marks().end());
    sketched_.assign(left_.size(), 0);
    move_claimed(simd_group{}, claims_.data(), 0, claims(), left_.data(), sketched_.data());
    left_marks_before_.resize(left_.size());
    std::uint64_t shared = 0;
    sparse::count_marks(simd_group{}, left_.data(), left_.size(), left_marks_before_.data(),
                        &shared);
  }

  cell_layout cells_{0, 0};
  int attempts_ = 0;
  peel_progress progress_{0, 0};
  std::vector<std::uint64_t> words_, open_;
  std::vector<value_claim> claims_;
  std::vector<std::uint32_t> rounds_;
  std::vector<std::uint64_t> left_, sketched_;
  std::vector<std::uint32_t> left_marks_before_;
  std::size_t left_count_ = 0;
};

/// @param strange  nonzero cells after all values were removed, in fixed point
/// @throws wire_error  strange > 0
inline void require_empty(char const* name, std::size_t strange, std::size_t cells) {
  if (strange > 0)
    throw wire_error(
        error_text({name, ": ", strange, " of ", cells,
                    " cells hold what the index does not explain; did all ranks encode what "
                    "they marked, by the same settings and step?"}));
}
template <class Lane> void require_empty(char const* name, std::span<Lane const> sketch) {
  auto const zeros = std::count(sketch.begin(), sketch.end(), Lane{0});
  require_empty(name, sketch.size() - static_cast<std::size_t>(zeros), sketch.size());
}

}  // namespace hcomp::detail::lhc
