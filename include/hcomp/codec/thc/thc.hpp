#pragma once
/// @file
/// Codec `thc`: rotated values, rounded to a few levels of a common grid. Their sums are plain
/// integer sums.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/codec/device_hints.hpp>
#include <hcomp/codec/thc/detail/hop_rounding.hpp>
#include <hcomp/codec/thc/detail/kernels.hpp>
#include <hcomp/codec/thc/detail/narrow_lanes.hpp>
#include <hcomp/codec/thc/detail/simd.hpp>
#include <hcomp/codec/thc/detail/table.hpp>
#include <hcomp/codec/thc/detail/warps.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/codec_ids.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/half.hpp>
#include <span>
#include <stdexcept>
#include <string>

namespace hcomp {

/// Settings of `thc` and `uniform_thc`; equal on all ranks.
struct thc_options {
  int bits = 4;           ///< b: bits of one level index, 1 to 8
  int granularity = 0;    ///< g: steps from the lowest level to the highest, 2^b - 1 to 255; 0: the
                          ///< best that the number of ranks allows
  double truncation = 0;  ///< p: fraction of coordinates beyond the levels, 1e-9 to 0.5; 0: the
                          ///< default for `bits`, see thc_truncation
  int transform = 4096;   ///< values per rotation: a power of two, 64 to 16384
  /// Maximum bits per coordinate of a sum on the wire in a plan: at least `bits` and 4, at most 14.
  /// A sum that needs more bits is rounded stochastically before every hop. 0: no limit.
  int hop_bits = 0;
};

namespace detail::thc {

/// Common base of `thc` and `uniform_thc`. The layout of a block is
///
///     header | one float per transform | one lane of 8 or 16 bits per coordinate
///
/// The float is the largest root mean square among the ranks, agreed in advance (see Calibrated).
/// The lane is the sum over the ranks of weight times level. The last transform of a short block is
/// padded to the next power of two, at least 64 coordinates.
template <class Codec, class T> class basic_codec {
 public:
  using value_type = hcomp::detail::value_t<T>;
  static constexpr int block_values = 16384;
  /// Device threads per block of values. A thread block of several teams finishes earlier, so the
  /// last thread blocks of a launch leave fewer multiprocessors idle.
  static constexpr int workers = 2 * workers_of_team;
  /// Device threads per piece; each holds 32 values of a transform of 4096 at once.
  static constexpr int piece_workers = workers_of_team;
  /// Concurrent thread blocks per multiprocessor: limited by 64 registers per thread, or by shared
  /// memory if residuals are written.
  static constexpr int encodes_at_once(bool notes_losses) { return notes_losses ? 3 : 4; }
  static constexpr int decodes_at_once = 4;
  static constexpr bool sum_is_exact = true;
  static constexpr bool passes_nonfinite = false;

  // ---- Settings ----

  int bits() const { return table_.bits; }
  int granularity() const { return table_.granularity; }
  double truncation() const { return truncation_; }
  int transform() const { return transform_; }
  /// Bytes per lane: 1 or 2.
  int lane_bytes() const { return lane_bytes_; }
  int lane_bits() const { return 8 * lane_bytes_; }
  /// The levels T[0] = 0 to T[2^b - 1] = g, their grid and their errors.
  thc_table const& table() const { return table_; }
  std::span<std::uint8_t const> levels() const {
    return {table_.levels.data(), static_cast<std::size_t>(table_.size())};
  }

  /// Maximum bits per coordinate of a sum on the wire; 0: no limit.
  HCOMP_HD constexpr int hop_bits() const { return hop_bits_; }
  /// Variance that one narrowing adds to a coordinate of a sum of weight `weight`, in grid steps:
  /// (4^s + 2) / 12 if it drops s bits, 0 if it drops none.
  double hop_variance(std::uint32_t weight) const {
    int const s = weight == 1 ? 0 : grid_of(weight).shift;
    return s == 0 ? 0 : (std::ldexp(1.0, 2 * s) + 2) / 12;
  }

  /// V + B: the error of one rank's encoding as a share of the vector's energy, if no other rank
  /// has a larger norm.
  double error_energy() const { return table_.rounding_error + table_.truncation_error; }
  /// See RefusesFeedback. The residual grows in every call if the share is above 1; the shares of
  /// single transforms of 64 values exceed V + B by up to a third.
  std::string feedback_refusal() const {
    constexpr double most = 0.75;
    if (error_energy() < most) return {};
    return hcomp::detail::error_text(
        {"codec '", Codec::name, ":bits=", table_.bits, ",granularity=", table_.granularity,
         ",truncation=", truncation_, "' loses ", std::round(error_energy() * 1000) / 1000,
         " of a vector's energy, and error feedback works below ", most});
  }
  /// One grid step, in units of a coordinate's root mean square.
  double step() const { return 2 * table_.limit / table_.granularity; }

  std::array<double, 4> parameters() const {
    return {static_cast<double>(table_.bits), static_cast<double>(table_.granularity), truncation_,
            static_cast<double>(hop_bits_ << 20 | transform_ * 8 | lane_bytes_)};
  }
  HCOMP_HD constexpr std::uint32_t max_summands() const {
    return lane_limit(lane_bytes_) / static_cast<std::uint32_t>(table_.granularity);
  }
  /// Returns the codec with capacity for `total_weight`. It chooses the lane size, and the
  /// granularity if the options do not set one. Lanes have 8 bits if the 2^b levels fit and no sum
  /// needs rounding. Among the granularities that fit it takes the one with the least rounding
  /// error, including the error of one rounded sum.
  /// @throws std::invalid_argument  16-bit lanes are too small
  Codec fitted(std::uint32_t total_weight) const {
    Codec result = static_cast<Codec const&>(*this);
    result.fit_weight(total_weight);
    return result;
  }

  // ---- Sizes ----

  HCOMP_HD constexpr int transforms(int n) const { return (n + transform_ - 1) / transform_; }
  /// Coordinates of a block of n values: n, plus the padding of its last transform.
  HCOMP_HD constexpr int coordinates(int n) const {
    if (n == 0) return 0;
    auto const last = range_of(n, transforms(n) - 1);
    return last.first + last.size;
  }
  HCOMP_HD constexpr std::size_t block_bytes(int n = block_values) const {
    return block_header_bytes + static_cast<std::size_t>(transforms(n)) * sizeof(float) +
           static_cast<std::size_t>(coordinates(n)) * static_cast<std::size_t>(lane_bytes_);
  }
  /// Scratch memory of a group that encodes or decodes: one transform per team. A group without
  /// scratch() needs one transform per worker.
  /// @param value_bytes  size of a value, if the source TracksResidual
  std::size_t scratch_bytes(std::size_t value_bytes = 0) const {
    int const teams = std::min(workers / workers_of_team, block_values / transform_);
    return shared_bytes(transform_, value_bytes, static_cast<unsigned>(teams));
  }
  std::size_t piece_scratch_bytes(std::size_t value_bytes) const {
    return shared_bytes(transform_, value_bytes);
  }
  /// Scratch memory of a group that narrows or widens.
  constexpr std::size_t narrow_scratch_bytes() const { return shared_numbers_bytes; }
  /// Shorter blocks should have a multiple of this number of values, so that no transform is
  /// divided.
  constexpr int block_unit() const { return transform_; }
  /// One transform, or several small ones.
  HCOMP_HD constexpr int piece_values() const { return transform_ < 4096 ? 4096 : transform_; }
  constexpr std::size_t statistics_in(int n) const {
    return static_cast<std::size_t>(transforms(n));
  }

  /// Bits per coordinate on the wire for a block of total weight `weight`: b for one rank,
  /// otherwise the bits of the largest sum, at most hop_bits().
  HCOMP_HD constexpr int narrow_bits(std::uint32_t weight) const {
    if (weight == 1) return table_.bits;
    int const most = hop_bits_ != 0 ? hop_bits_ : 8 * lane_bytes_;
    int bits = 0;
    while (bits < most && largest_lane(weight) >> bits != 0) ++bits;
    return bits;
  }
  HCOMP_HD constexpr std::size_t narrow_bytes(block_header const& header) const {
    int const n = header.values < block_values ? header.values : block_values;
    return lanes_at(n) + static_cast<std::size_t>(coordinates(n) / 8) *
                             static_cast<std::size_t>(narrow_bits(header.weight));
  }

  // ---- Blocks ----

  /// Writes the root mean square of each transform, as the bits of a float; NaN and infinity count
  /// as 0.
  /// @param dominances  also receives the dominance of each transform, see report::dominance; or
  ///                    null
  template <class Group, class Source>
  HCOMP_HD void measure_block(Group group, Source const& x, int n, std::uint32_t* words,
                              float* dominances = nullptr) const {
    auto const put = [&](int k, measured_norm const& found) {
      words[k] = found.norm;
      if (dominances) dominances[k] = found.dominance;
    };
    int const all = transforms(n);
    if constexpr (HasWarps<Group>) {  // 16 workers per transform
      for (int first = 0; first < all; first += Group::workers / 16) {
        int const k = first + group.worker() / 16;
        auto const nothing = transform_range{0, 0, transform_};
        auto const found = root_mean_square(group, x, k < all ? range_of(n, k) : nothing);
        if (k < all && group.worker() % 16 == 0) put(k, found);
      }
    } else {
      for (int k = group.worker(); k < all; k += Group::workers)
        put(k, root_mean_square(group, x, range_of(n, k)));
    }
    group.sync();
  }

  /// Writes the level index of each of the coordinates(n) coordinates, 0 to 2^b - 1, one byte each,
  /// for callers that sum T[index] themselves. Returns, in every worker, whether NaN or infinity
  /// was met.
  /// @param origin  with statistics as in encode_block; its weight is not used
  template <class Group, class Source>
  HCOMP_HD bool encode_indices(Group group, Source const& x, int n, std::uint8_t* indices,
                               block_origin const& origin) const {
    return encode_to(group, x, n, all_of(n), origin,
                     {level_sink::indices, reinterpret_cast<std::byte*>(indices), 1}, nullptr);
  }

  /// Without origin.statistics (a single rank), encodes with the block's own norms.
  template <class Group, class Source>
  HCOMP_HD void encode_block(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin) const {
    close_block(group, n, block, encode_transforms(group, x, n, all_of(n), block, origin), origin);
  }
  /// See Piecewise.
  template <class Group, class Source>
  HCOMP_HD bool encode_piece(Group group, Source const& x, int n, std::byte* block,
                             block_origin const& origin, int k) const {
    return encode_transforms(group, x, n, transforms_of(n, k), block, origin);
  }
  template <class Group>
  HCOMP_HD void close_block(Group group, int n, std::byte* block, bool nonfinite,
                            block_origin const& origin) const {
    if (group.worker() == 0)
      store_aligned(block, 0, make_header(Codec::codec_id, n, nonfinite, origin));
    group.sync();
  }

  /// Adds the lanes. Blocks whose norms differ must not be added (block_fault::scale).
  template <class Group>
  HCOMP_HD void merge_block(Group group, std::byte* acc, std::byte const* in) const {
    merge_checked<Codec>(group, acc, in, max_summands(), [&](auto const& mine, auto const&) {
      int const n = mine.values;
      bool differ = false;
      for (int k = group.worker(); k < transforms(n); k += Group::workers)
        differ |= norm_in(acc, k) != norm_in(in, k);
      if (group.any(differ)) return block_fault::scale;
      std::size_t const at = lanes_at(n);
      if (lane_bytes_ == 1)
        add_lanes<std::uint8_t>(group, acc + at, in + at, coordinates(n));
      else
        add_lanes<std::uint16_t>(group, acc + at, in + at, coordinates(n));
      return block_fault::none;
    });
  }

  /// Copies header and norms, then writes the lanes in narrow_bits: columns of narrow_lanes over
  /// all coordinates of the block. Rounds them if hop_bits() is less than the sum needs.
  template <class Group>
  HCOMP_HD void narrow_block(Group group, std::byte const* block, std::byte* out) const {
    change_width<true>(group, block, out);
  }
  template <class Group>
  HCOMP_HD void widen_block(Group group, std::byte const* in, std::byte* block) const {
    change_width<false>(group, in, block);
  }
  /// Has the effect of narrow_block followed by widen_block.
  template <class Group> HCOMP_HD void round_block(Group group, std::byte* block) const {
    auto const header = load_aligned<block_header>(block);
    int const n = header.values < block_values ? header.values : block_values;
    std::byte* const lanes = block + lanes_at(n);
    if (auto const grid = rounding_of(header); grid.shift > 0)
      hop_rounding<hop_step::round>(grid, header, lanes, lanes, lane_count(n)).by(group);
    group.sync();
  }

  /// In the worst case all lanes are at an end of the grid, and all coordinates add up in one
  /// value.
  HCOMP_HD double largest_decoded(std::byte const* block, int n, reduce_op r) const {
    return largest_sum(block + block_header_bytes, n, load_aligned<block_header>(block).weight, r);
  }
  template <class Group>
  HCOMP_HD bool stays_finite(Group group, std::byte const* block, int n, reduce_op r) const {
    return sums_stay_finite(group, block + lanes_at(n), block + block_header_bytes, n,
                            load_aligned<block_header>(block).weight, r);
  }

  template <class Group, class Out>
  HCOMP_HD void decode_block(Group group, std::byte const* block, int n, Out* x,
                             reduce_op r) const {
    auto const header = load_aligned<block_header>(block);
    decode_sums(group, block + lanes_at(n), block + block_header_bytes, n,
                {header.key, 0, header.weight, header.index, nullptr}, x, r);
  }
  /// See Piecewise.
  template <class Group, class Out>
  HCOMP_HD void decode_piece(Group group, std::byte const* block, int n, block_origin const& origin,
                             Out* x, reduce_op r, int k) const {
    decode_transforms(group, block + lanes_at(n), block + block_header_bytes, n,
                      transforms_of(n, k), origin, x - k * piece_values(), r);
  }

  /// Decodes sums that come without a header.
  /// @param sums    coordinates(n) lanes of lane_bytes() each, at any address; on devices aligned
  /// @param norms   statistics_in(n) floats on which the ranks agreed; alignment as for `sums`
  /// @param origin  key and index of encoding, and the total weight
  template <class Group, class Out>
  HCOMP_HD void decode_sums(Group group, std::byte const* sums, std::byte const* norms, int n,
                            block_origin const& origin, Out* x, reduce_op r) const {
    decode_transforms(group, sums, norms, n, all_of(n), origin, x, r);
  }
  /// Upper bound on the values of decode_sums.
  HCOMP_HD double largest_sum(std::byte const* norms, int n, std::uint32_t weight,
                              reduce_op r) const {
    return largest_of_transforms(norms, n, all_of(n), weight, r);
  }
  /// See Piecewise.
  HCOMP_HD double largest_of_piece(std::byte const* block, int n, block_origin const& origin,
                                   reduce_op r, int k) const {
    return largest_of_transforms(block + block_header_bytes, n, transforms_of(n, k), origin.weight,
                                 r);
  }
  /// Returns, in every worker, whether decode_sums gives finite values only.
  template <class Group>
  HCOMP_HD bool sums_stay_finite(Group group, std::byte const* sums, std::byte const* norms, int n,
                                 std::uint32_t weight, reduce_op r) const {
    if (lane_bytes_ == 1) return sums_are_finite<std::uint8_t>(group, sums, norms, n, weight, r);
    if (hop_bits_ == 0) return sums_are_finite<std::uint16_t>(group, sums, norms, n, weight, r);
    return sums_are_finite<std::int16_t>(group, sums, norms, n, weight, r);
  }

 protected:
  /// @param uniform  one level at every step, granularity 2^b - 1
  basic_codec(thc_options const& options, bool uniform)
      : truncation_(options.truncation != 0 ? options.truncation : thc_truncation(options.bits)),
        transform_(options.transform),
        hop_bits_(options.hop_bits) {
    auto const refuse = [](std::string const& what) {
      throw std::invalid_argument(error_text({Codec::name, ": ", what}));
    };
    if (options.bits < 1 || options.bits > 8)
      refuse(std::to_string(options.bits) + " bits asked for; 1 to 8 are possible");
    int const least = (1 << options.bits) - 1, most = uniform ? least : 255;
    if (options.granularity != 0 && (options.granularity < least || options.granularity > most))
      refuse("granularity " + std::to_string(options.granularity) + " asked for; with " +
             std::to_string(options.bits) + " bits " + std::to_string(least) + " to " +
             std::to_string(most) + " are possible");
    if (!(truncation_ >= 1e-9 && truncation_ <= 0.5))
      refuse(error_text({"truncation of a share of ", options.truncation,
                         " asked for; 1e-9 to 0.5 are possible, and 0: the default"}));
    if (options.transform < 64 || options.transform > block_values ||
        !detail::is_power_of_two(options.transform))
      refuse("transforms of " + std::to_string(options.transform) +
             " values asked for; powers of two from 64 to " + std::to_string(block_values) +
             " are possible");
    int const fewest = std::max(options.bits, 4);
    if (options.hop_bits != 0 && (options.hop_bits < fewest || options.hop_bits > 14))
      refuse("sums in " + std::to_string(options.hop_bits) + " bits asked for; with " +
             std::to_string(options.bits) + " bits of one rank " + std::to_string(fewest) +
             " to 14 are possible, and 0: as many as they need");
    table_.bits = options.bits;
    fixed_granularity_ = uniform ? least : options.granularity;
    fit_weight(1);
  }

 private:
  /// Largest sum that a lane of `bytes` bytes holds. A sum in an 8-bit lane is never rounded.
  HCOMP_HD constexpr std::uint32_t lane_limit(int bytes) const {
    if (bytes == 1) return hop_bits_ == 0 || hop_bits_ >= 8 ? 255 : (1u << hop_bits_) - 1;
    return hop_bits_ == 0 ? 65535 : static_cast<std::uint32_t>(hop_grid::largest_sum(hop_bits_));
  }
  HCOMP_HD constexpr std::uint64_t largest_lane(std::uint32_t weight) const {
    return static_cast<std::uint64_t>(table_.granularity) * weight;
  }
  HCOMP_HD constexpr hop_grid grid_of(std::uint32_t weight) const {
    if (hop_bits_ == 0 || lane_bytes_ == 1) return {};
    return {hop_bits_, largest_lane(weight)};
  }
  /// A block of one rank is sent as level indices, without rounding.
  HCOMP_HD constexpr hop_grid rounding_of(block_header const& header) const {
    return header.weight == 1 ? hop_grid{} : grid_of(header.weight);
  }

  void fit_weight(std::uint32_t total_weight) {
    std::uint32_t const weight = std::max<std::uint32_t>(total_weight, 1);
    int const b = table_.bits;
    auto const least =
        static_cast<std::uint32_t>(fixed_granularity_ != 0 ? fixed_granularity_ : (1 << b) - 1);
    lane_bytes_ = lane_limit(1) / weight >= least ? 1 : 2;
    std::uint32_t const most_granularity =
        std::min<std::uint32_t>(lane_limit(lane_bytes_) / weight, 255);
    if (most_granularity < least)
      throw std::invalid_argument(
          error_text({Codec::name, ": ", b, " bits of granularity ", least,
                      " leave room for a total weight of ", lane_limit(2) / least,
                      " in lanes of 16 bits, ", weight, " was asked for"}));
    choose_table(static_cast<int>(least), static_cast<int>(most_granularity), weight);
  }
  /// Even granularities are skipped: their middle gap has two steps. Granularities above least + 8
  /// gain little: b = 4, p = 1/32 has rounding error 0.01332 with g = 15, 0.01253 with 17, 0.01292
  /// with 19, 0.01275 with 31, 0.01201 with 51. A finer grid also admits fewer ranks. If sums are
  /// rounded, the error includes their variance per rank, in units of the step 2t/g.
  void choose_table(int least, int most_granularity, std::uint32_t weight) {
    int const most = fixed_granularity_ != 0 ? least : std::min(least + 8, most_granularity);
    std::uint32_t const rounded = hop_bits_ != 0 && lane_bytes_ == 2 ? weight : 0;
    if (most == most_ && rounded == rounded_weight_) return;
    most_ = most;
    rounded_weight_ = rounded;
    thc_table best;
    double least_error = HUGE_VAL;
    for (int g = least; g <= most; g += 2) {
      table_.granularity = g;
      auto const table = make_thc_table(table_.bits, g, truncation_);
      double const step = 2 * table.limit / g;
      double const error = table.rounding_error + hop_variance(weight) * step * step / weight;
      if (error < least_error * (1 - 1e-9)) best = table, least_error = error;
    }
    table_ = best;
    cells_ = level_cells(table_);
  }

  HCOMP_HD constexpr transform_range range_of(int n, int k) const {
    int const first = k * transform_, count = n - first < transform_ ? n - first : transform_;
    int size = transform_;
    while (size > 64 && size / 2 >= count) size /= 2;
    return {first, count, size};
  }
  HCOMP_HD constexpr some_transforms all_of(int n) const { return {0, transforms(n)}; }
  /// The transforms of piece k.
  HCOMP_HD constexpr some_transforms transforms_of(int n, int k) const {
    int const each = piece_values() / transform_, all = transforms(n), first = k * each;
    return {first, first + each < all ? first + each : all};
  }
  /// Number of values in `transforms` transforms from number k on, limited to the block.
  HCOMP_HD constexpr unsigned values_of(int n, int k, int transforms) const {
    int const left = n - k * transform_, most = transforms * transform_;
    return static_cast<unsigned>(left < 0 ? 0 : left < most ? left : most);
  }
  HCOMP_HD constexpr std::size_t lanes_at(int n) const {
    return block_header_bytes + static_cast<std::size_t>(transforms(n)) * sizeof(float);
  }
  template <bool Narrow, class Group>
  HCOMP_HD void change_width(Group group, std::byte const* from, std::byte* to) const {
    auto const header = load_aligned<block_header>(from);
    int const n = header.values < block_values ? header.values : block_values;
    std::size_t const at = lanes_at(n);
    copy_bytes(group, to, from, at);
    if (auto const grid = rounding_of(header); grid.shift > 0) {
      using rounding = hop_rounding<Narrow ? hop_step::narrow : hop_step::widen>;
      rounding(grid, header, from + at, to + at, lane_count(n)).by(group);
      group.sync();
      return;
    }
    if (lane_bytes_ == 1)
      change_lanes<Narrow, std::uint8_t>(group, from + at, n, header.weight, to + at);
    else
      change_lanes<Narrow, std::uint16_t>(group, from + at, n, header.weight, to + at);
  }
  template <bool Narrow, class Lane, class Group>
  HCOMP_HD void change_lanes(Group group, std::byte const* from, int n, std::uint32_t weight,
                             std::byte* to) const {
    std::size_t const count = lane_count(n);
    int const bits = narrow_bits(weight);
    auto const change = [&](auto const& numbers) {
      if constexpr (Narrow)
        narrow_lanes<Lane>(group, from, count, bits, to, numbers);
      else
        widen_lanes<Lane>(group, from, count, bits, to, numbers);
    };
    if (weight != 1 || table_.granularity >> bits == 0) {
      change(same_numbers{});
    } else {
      level_numbers<Lane, Narrow> const numbers(table_.levels.data(), table_.size(),
                                                cells_.entries.data());
      if constexpr (HasWarps<Group>)
        change(share_numbers(group, numbers));
      else
        change(numbers);
    }
  }
  HCOMP_HD constexpr std::size_t lane_count(int n) const {
    return static_cast<std::size_t>(coordinates(n));
  }
  HCOMP_HD static std::uint32_t norm_in(std::byte const* block, int k) {
    return load_aligned<std::uint32_t>(block + block_header_bytes, static_cast<std::size_t>(k));
  }

  HCOMP_HD double largest_of_transforms(std::byte const* norms, int n, some_transforms some,
                                        std::uint32_t weight, reduce_op r) const {
    double largest = 0;
    for (int k = some.first; k < some.end; ++k) {
      double const norm = load_aligned<float>(norms, static_cast<std::size_t>(k));
      double const most = norm * table_.limit * std::sqrt(double(range_of(n, k).size));
      largest = most > largest ? most : largest;
    }
    if (weight != 1 && grid_of(weight).shift > 0) largest *= 1 + 2 * hop_grid::excess(hop_bits_);
    return r == reduce_op::sum ? largest * weight : largest;
  }

  /// Encodes lanes and norms.
  template <class Group, class Source>
  HCOMP_HD bool encode_transforms(Group group, Source const& x, int n, some_transforms some,
                                  std::byte* block, block_origin const& origin) const {
    level_sink const sink{lane_bytes_ == 1 ? level_sink::lanes_8 : level_sink::lanes_16,
                          block + lanes_at(n), origin.weight};
    return encode_to(group, x, n, some, origin, sink, block + block_header_bytes);
  }
  /// Returns, in every worker, whether NaN or infinity was met.
  /// @param norms  receives the norms; null: they are not written
  template <class Group, class Source>
  HCOMP_HD bool encode_to(Group group, Source const& x, int n, some_transforms some,
                          block_origin const& origin, level_sink const& sink,
                          std::byte* norms) const {
    draw_place const place{origin.key, origin.rank, origin.index};
    auto const limit = static_cast<float>(table_.granularity << 15);
    bool nonfinite = false;
    auto const fetch = [&](auto who, int k, int transforms) {
      fetch_values_soon(who, x + static_cast<std::size_t>(k * transform_),
                        values_of(n, k, transforms));
    };
    fetch(group, some.first, teams_of<Group>);
    auto const& cells = [&]() -> decltype(auto) {
      if constexpr (HasWarps<Group>)
        return share_cells(group, cells_, table_.granularity, sink);
      else
        return (cells_);
    }();
    unsigned const floats = shared_floats(transform_, TracksResidual<Source> ? sizeof(x[0]) : 0);
    for_each_transform(group, some, floats, [&](auto who, float* scratch, int k) {
      auto const p = range_of(n, k);
      auto const norm = origin.statistics ? origin.statistics[k] : root_mean_square(who, x, p).norm;
      if (norms && who.worker() == 0) store_aligned(norms, static_cast<std::size_t>(k), norm);
      auto const size = static_cast<double>(same_bits<float>(norm)) * std::sqrt(double(p.size));
      if (size > 0) {
        float_scale const scale(limit / (table_.limit * size));
        nonfinite |= rotate(who, scratch, x, p, scale, place);
        fetch(who, k + teams_of<Group>, 1);
        round_to_levels(who, scratch, x, p, limit, cells, place, sink);
        if constexpr (TracksResidual<Source>)
          note_losses(who, scratch, x, p,
                      scale_of(same_bits<float>(norm), p.size, origin.weight, reduce_op::mean));
      } else {
        nonfinite |= round_zeros(who, x, p, cells_, sink);
        if constexpr (TracksResidual<Source>)
          for (int i = who.worker(); i < p.count; i += who.workers)
            x.losses[p.first + i] = x[static_cast<std::size_t>(p.first + i)];
      }
    });
    return group.any(nonfinite);
  }

  /// Value of one grid step of a sum's coordinate.
  HCOMP_HD float_scale scale_of(float norm, int size, std::uint32_t weight, reduce_op r) const {
    double const steps = static_cast<double>(table_.granularity) *
                         (r == reduce_op::mean ? static_cast<double>(weight) : 1);
    return float_scale(norm * table_.limit / (steps * std::sqrt(double(size))));
  }
  HCOMP_HD std::uint32_t offset_of(std::uint32_t weight) const {
    return static_cast<std::uint32_t>(table_.granularity) * weight;
  }

  /// As decode_from, but only tests the values. Signs do not matter.
  template <class Lane, class Group>
  HCOMP_HD bool sums_are_finite(Group group, std::byte const* sums, std::byte const* norms, int n,
                                std::uint32_t weight, reduce_op r) const {
    bool finite = true;
    unsigned const floats = shared_floats(transform_);
    for_each_transform(group, all_of(n), floats, [&](auto who, float* scratch, int k) {
      auto const p = range_of(n, k);
      auto const scale =
          scale_of(load_aligned<float>(norms, static_cast<std::size_t>(k)), p.size, weight, r);
      center_sums<Lane>(who, scratch, sums, p, offset_of(weight), sums);
      finite &= values_are_finite<T>(who, scratch, p, scale);
    });
    return !group.any(!finite);
  }

  template <class Group, class Out>
  HCOMP_HD void decode_transforms(Group group, std::byte const* sums, std::byte const* norms, int n,
                                  some_transforms some, block_origin const& origin, Out* x,
                                  reduce_op r) const {
    if (lane_bytes_ == 1)
      decode_from<std::uint8_t>(group, sums, norms, n, some, origin, x, r);
    else if (hop_bits_ == 0)
      decode_from<std::uint16_t>(group, sums, norms, n, some, origin, x, r);
    else  // rounded sums may be negative
      decode_from<std::int16_t>(group, sums, norms, n, some, origin, x, r);
  }
  template <class Lane, class Group, class Out>
  HCOMP_HD void decode_from(Group group, std::byte const* sums, std::byte const* norms, int n,
                            some_transforms some, block_origin const& origin, Out* x,
                            reduce_op r) const {
    draw_place const place{origin.key, 0, origin.index};
    std::uint32_t const offset = offset_of(origin.weight);
    auto const fetch = [&](auto who, int k, int transforms) {
      fetch_soon(who, sums + static_cast<std::size_t>(k * transform_) * sizeof(Lane),
                 values_of(n, k, transforms) * static_cast<unsigned>(sizeof(Lane)));
    };
    fetch(group, some.first, teams_of<Group>);
    unsigned const floats = shared_floats(transform_);
    for_each_transform(group, some, floats, [&](auto who, float* scratch, int k) {
      auto const p = range_of(n, k);
      auto const scale = scale_of(load_aligned<float>(norms, static_cast<std::size_t>(k)), p.size,
                                  origin.weight, r);
      if (scale.factor > 0) {
        center_sums<Lane>(who, scratch, sums, p, offset, x);
        fetch(who, k + teams_of<Group>, 1);
        finish_values(who, scratch, p, scale, place, x);
      } else {
        for (int i = who.worker(); i < p.count; i += who.workers)
          x[p.first + i] = static_cast<Out>(0.0f);
      }
    });
  }

  thc_table table_;
  detail::thc::level_cells cells_;
  double truncation_;
  int transform_;
  int fixed_granularity_ = 0;         ///< 0: chosen automatically
  int most_ = 0;                      ///< largest granularity considered
  std::uint32_t rounded_weight_ = 0;  ///< weight for which the table was chosen, if its sums are
                                      ///< rounded
  int lane_bytes_ = 1;
  int hop_bits_ = 0;
};

}  // namespace detail::thc

/// THC: a lossy codec whose encoded values are small integers that any integer adder can sum.
///
/// Every `transform` values are rotated: shared random signs, new for every key, then a Hadamard
/// transform. The coordinates are then nearly normal with a common scale, the largest root mean
/// square among the ranks.
///
/// Coordinates are clipped to [-t, t], which changes a fraction p of them. Each rank rounds its
/// coordinates independently, stochastically and without bias to one of 2^b levels on a uniform
/// grid of g steps. Ranks add the grid positions of the levels, 0 to g. Decoding applies the
/// inverse rotation to the sum.
///
/// Error: n ranks of equal norm and independent directions get a mean with normalized squared error
/// (V + B) / n, where V and B are the errors of rounding and truncation in table(): 0.0184 / n by
/// default. n equal vectors get V / n + B.
///
/// Truncation shrinks normal vectors by 1 - p. It shrinks vectors with few nonzero values, or with
/// a smaller norm than another rank's, by less, so no constant factor corrects all of them. Error
/// feedback does. So does a small p: with 1/4096, results are unbiased on average, with error
/// 0.0236 / n in a single call.
///
/// NaN and infinity encode as 0 and are flagged.
///
/// Size: 8 bits per value for up to 15 ranks (17 with the grid fitted to them), otherwise 16; and
/// 48 bytes per 16384 values. In plans, blocks are narrow on the wire: b bits per value from one
/// rank, then the bits of the largest sum, for example 4 and 7 for 4 ranks, or `hop_bits` if that
/// is less.
///
/// With hop_bits = B, a sum of weight w that needs more bits is rounded before each hop, to every
/// 2^s-th step of the grid. s is the smallest number with g w <= (15/16 2^B + 1) 2^s, or for B
/// below 6 with g w <= (2^B - 1) 2^s.
///
/// The dither is drawn from key, block, coordinate, weight and lowest rank, which sender and
/// receiver know. Subtracting it leaves an unbiased error of variance (4^s + 2) / 12 grid steps.
/// This error depends neither on the data nor on other hops, unless a partial sum is clipped, as
/// the largest sums of similar vectors are by ring with B from 4 to 6. All ranks decode the same
/// bits.
///
/// hop_variance and hop_error return the total over an algorithm's hops. In grid steps it is about
/// (g/2^B)^2 times P^3 with ring and P^2 otherwise, whereas the sum of independent vectors has g^2
/// P / 20. With many ranks, avoid ring. Sums fit up to a weight of (15/16 2^15) / g, 2056 for g =
/// 15. Only plans round, and only narrow blocks: merges, native lanes, aggregators and MPI ops are
/// exact.
///
/// Source: Li et al., THC, NSDI 2024. Additions: a norm per transform, new signs per key, and
/// hop_bits, after L. G. Roberts, Picture coding using pseudo-random noise, IRE Trans. Inf. Theory
/// 8 (1962) 145-154.
template <class T = float> class thc : public detail::thc::basic_codec<thc<T>, T> {
 public:
  static constexpr char const* name = "thc";
  static constexpr std::uint8_t codec_id = codec_ids::thc;

  thc() : thc(thc_options{}) {}
  /// @throws std::invalid_argument  settings out of range
  explicit thc(thc_options const& options) : detail::thc::basic_codec<thc<T>, T>(options, false) {}
};

/// THC with equidistant levels: g = 2^b - 1. Level and index are equal, so no table is needed, and
/// a few more ranks fit into 8 bits. The error is slightly larger: 0.0202 / n instead of 0.0184 /
/// n.
template <class T = float> class uniform_thc : public detail::thc::basic_codec<uniform_thc<T>, T> {
 public:
  static constexpr char const* name = "uniform_thc";
  static constexpr std::uint8_t codec_id = codec_ids::uniform_thc;

  uniform_thc() : uniform_thc(thc_options{}) {}
  /// @throws std::invalid_argument  settings out of range; granularity other than 0 and 2^b - 1
  explicit uniform_thc(thc_options const& options)
      : detail::thc::basic_codec<uniform_thc<T>, T>(options, true) {}
};

}  // namespace hcomp
