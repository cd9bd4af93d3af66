#pragma once
/// @file
/// What is checked before a collective moves anything: this rank's arguments, then that all ranks
/// passed the same. Every decision is made from what all ranks know, so all throw or none does.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/compressor.hpp>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/options.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/detail/code_check.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail {

/// Which collective; part of the agreement, since mixing them would hang.
enum class operation : std::uint32_t { all_reduce = 1, reduce_scatter, all_gather, owner_select };

inline char const* to_text(operation what) {
  switch (what) {
    case operation::all_reduce: return "all_reduce";
    case operation::reduce_scatter: return "reduce_scatter";
    case operation::all_gather: return "all_gather";
    case operation::owner_select: return "owner_selection";
  }
  return "another collective";
}

/// What is wrong with one rank's own arguments.
enum class complaint : std::uint32_t {
  none,
  size,
  memory,
  feedback_size,
  alignment,
  overlap,
  weight
};

inline char const* to_text(complaint what) {
  switch (what) {
    case complaint::none: return "nothing is wrong";
    case complaint::size: return "x has not the number of values of the plan";
    case complaint::memory: return "x is not in memory that the executor can work on";
    case complaint::feedback_size: return "the feedback has not the number of values of x";
    case complaint::alignment: return "x is not aligned to its values";
    case complaint::overlap: return "x overlaps the feedback's memory";
    case complaint::weight: return "the weight is 0, or not 1 in all_gather";
  }
  return "unknown complaint";
}

/// What one rank tells the others about its call. Without padding: it is sent as bytes.
struct call_record {
  operation what = operation::all_reduce;
  complaint refused = complaint::none;
  std::uint32_t codec = 0;  ///< tag
  std::uint32_t value_bytes = 0;
  std::uint64_t values = 0;       ///< of x
  std::uint64_t plan_values = 0;  ///< that x should have
  double parameters[4] = {};      ///< of the codec
  std::uint32_t algorithm = 0;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t result = 0;
  std::uint32_t nonfinite = 0;
  std::uint16_t checksum = 0;
  std::uint16_t narrow = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t decode_on_arrival_bytes = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  std::uint64_t weight = 1;  ///< the only one that may differ
};

/// Describes a call of this rank and what is wrong with its own arguments.
/// @param x       without an address if it is where the executor cannot work
/// @param values  of the plan
template <Compressor C, class F>
call_record describe(operation what, std::span<typename C::value_type> x, std::size_t values,
                     C const& codec, F const& feedback, plan_options const& options,
                     call_options const& call) {
  using value_type = typename C::value_type;
  call_record mine;
  mine.what = what;
  mine.codec = C::tag;
  mine.value_bytes = sizeof(value_type);
  mine.values = x.size();
  mine.plan_values = values;
  std::size_t i = 0;
  for (double const parameter : codec.parameters()) mine.parameters[i++] = parameter;
  mine.algorithm = static_cast<std::uint32_t>(options.how.kind);
  mine.rows = static_cast<std::uint32_t>(options.how.rows);
  mine.columns = static_cast<std::uint32_t>(options.how.columns);
  mine.result = static_cast<std::uint32_t>(call.result);
  mine.nonfinite = static_cast<std::uint32_t>(options.nonfinite);
  mine.checksum = options.checksum;
  mine.narrow = options.narrow;
  mine.segment_bytes = options.segment_bytes;
  mine.decode_on_arrival_bytes = options.decode_on_arrival_bytes;
  mine.seed = call.seed;
  mine.step = call.step;
  mine.tensor = call.tensor;
  mine.weight = call.weight;

  if (x.size() != values)
    mine.refused = complaint::size;
  else if (!x.empty() && x.data() == nullptr)
    mine.refused = complaint::memory;
  else if (feedback.values() != values)
    mine.refused = complaint::feedback_size;
  else if (reinterpret_cast<std::uintptr_t>(x.data()) % alignof(value_type) != 0)
    mine.refused = complaint::alignment;
  else if (feedback.data() && overlap(x.data(), x.size_bytes(), feedback.data(),
                                      values * sizeof(accumulator_t<value_type>)))
    mine.refused = complaint::overlap;
  else if (call.weight == 0 || (what == operation::all_gather && call.weight != 1))
    mine.refused = complaint::weight;
  return mine;
}

/// What all ranks' records have in common: enough to see whether they need to look at each other's.
struct call_summary {
  std::uint64_t lowest, highest;  ///< fingerprint of the record, but for the weight
  std::uint64_t lightest, heaviest;
  std::uint64_t refused;

  explicit call_summary(call_record mine)
      : lightest(mine.weight), heaviest(mine.weight), refused(mine.refused != complaint::none) {
    mine.weight = 1;
    lowest = highest =
        fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(&mine), sizeof(mine));
  }
  call_summary() = default;

  void unite(call_summary const& other) {
    lowest = std::min(lowest, other.lowest);
    highest = std::max(highest, other.highest);
    lightest = std::min(lightest, other.lightest);
    heaviest = std::max(heaviest, other.heaviest);
    refused |= other.refused;
  }
  /// True if all records are the same and nobody refused.
  bool all_alike() const { return lowest == highest && lightest == heaviest && refused == 0; }
};

/// The fewest digits that tell it from every other number.
inline std::string to_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

/// Makes no text, and so allocates nothing, unless it throws.
/// @throws disagreement_error     the records contradict each other
/// @throws std::invalid_argument  some rank refused its own arguments; memory_error among them
inline void require_agreement(std::span<call_record const> all) {
  auto const who = [&] { return std::string(to_text(all[0].what)) + ": "; };
  auto const compare = [&](char const* what, auto const& member, auto const& text) {
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (member(all[rank]) != member(all[0]))
        throw disagreement_error(who() + "ranks disagree on " + what + ": rank 0 has " +
                                 text(member(all[0])) + ", rank " + std::to_string(rank) + " has " +
                                 text(member(all[rank])));
  };
  auto const number = [](auto value) { return std::to_string(value); };
  auto const real = [](double value) { return to_text(value); };
  auto const algorithm_name = [](auto shape) { return shape.name(); };

  compare(
      "the collective", [](auto& r) { return r.what; },
      [](operation o) { return std::string(to_text(o)); });
  compare(
      "the number of values", [](auto& r) { return r.values; }, number);
  compare(
      "the codec (its tag)", [](auto& r) { return r.codec; }, number);
  compare(
      "the bytes of a value", [](auto& r) { return r.value_bytes; }, number);
  char const* const parameters[] = {"parameter 1 of the codec", "parameter 2 of the codec",
                                    "parameter 3 of the codec", "parameter 4 of the codec"};
  for (int i = 0; i < 4; ++i)
    compare(
        parameters[i], [i](auto& r) { return r.parameters[i]; }, real);
  compare(
      "the algorithm",
      [](auto& r) {
        return algorithm{static_cast<algorithm_kind>(r.algorithm), static_cast<int>(r.rows),
                         static_cast<int>(r.columns)};
      },
      algorithm_name);
  compare(
      "the seed", [](auto& r) { return r.seed; }, number);
  compare(
      "the step", [](auto& r) { return r.step; }, number);
  compare(
      "the tensor", [](auto& r) { return r.tensor; }, number);
  compare(
      "the result (0 sum, 1 mean)", [](auto& r) { return r.result; }, number);
  compare(
      "the nonfinite policy (0 throw_error, 1 propagate, 2 ignore)",
      [](auto& r) { return r.nonfinite; }, number);
  compare(
      "the checksum (0 off, 1 on)", [](auto& r) { return r.checksum; }, number);
  compare(
      "narrow (0 off, 1 on)", [](auto& r) { return r.narrow; }, number);
  compare(
      "segment_bytes", [](auto& r) { return r.segment_bytes; }, number);
  compare(
      "decode_on_arrival_bytes", [](auto& r) { return r.decode_on_arrival_bytes; }, number);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    auto const& one = all[rank];
    if (one.refused == complaint::none) continue;
    auto const text = who() + "on rank " + std::to_string(rank) + " " + to_text(one.refused) +
                      " (x has " + std::to_string(one.values) + " values, the plan " +
                      std::to_string(one.plan_values) + ", the weight is " +
                      std::to_string(one.weight) + ")";
    if (one.refused == complaint::memory) throw memory_error(text);
    throw std::invalid_argument(text);
  }
}

/// The weight of the finished sum.
/// @throws std::invalid_argument  the codec has no room for it; on all ranks alike
template <HomomorphicSum C>
std::uint64_t total_weight(C const& codec, std::span<call_record const> all) {
  std::uint64_t total = 0;
  for (auto const& record : all) total += record.weight;
  if (total > codec.max_summands())
    throw std::invalid_argument(std::string(to_text(all[0].what)) + ": codec '" + C::name +
                                "' holds " + std::to_string(codec.max_summands()) +
                                " summands, the ranks' weights add up to " + std::to_string(total) +
                                "; fit it: fit(codec, " + std::to_string(total) + ")");
  return total;
}

}  // namespace hcomp::detail
