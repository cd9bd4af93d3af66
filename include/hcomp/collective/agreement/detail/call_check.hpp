#pragma once
/// @file
/// Checks before a collective moves data: this rank's arguments, then that all ranks passed equal
/// ones. Every decision uses only data that all ranks have, so either all ranks throw or none.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/codec_terms.hpp>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/schedule/algorithm.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/half.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/exec/detail/own_memory.hpp>
#include <hcomp/op/detail/encoded_check.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hcomp::detail {

/// The collective. Part of the agreement, since mixing collectives would hang.
/// sampled_all_reduce is all_reduce with algorithm sampled.
enum class operation : std::uint32_t {
  all_reduce = 1,
  reduce_scatter,
  all_gather,
  sampled_all_reduce
};

inline char const* to_text(operation what) {
  switch (what) {
    case operation::all_reduce: return "all_reduce";
    case operation::reduce_scatter: return "reduce_scatter";
    case operation::all_gather: return "all_gather";
    case operation::sampled_all_reduce: return "all_reduce";
  }
  return "another collective";
}

/// What is wrong with one rank's own arguments.
enum class complaint : std::uint32_t {
  none,
  size,
  null,
  memory,
  feedback_size,
  alignment,
  overlap,
  weight,
  feedback
};

inline char const* to_text(complaint what) {
  switch (what) {
    case complaint::none: return "nothing is wrong";
    case complaint::size: return "x has not the number of values of the plan";
    case complaint::null: return "x is a null pointer";
    case complaint::memory: return "x is not in memory that the executor can work on";
    case complaint::feedback_size: return "the feedback has not the number of values of x";
    case complaint::alignment: return "x is not aligned to its values";
    case complaint::overlap: return "x overlaps the feedback's memory";
    case complaint::weight: return "the weight is 0, or not 1 in all_gather";
    case complaint::feedback: return "feedback was passed, and the codec refuses it";
  }
  return "unknown complaint";
}

/// The call of one rank, sent to all ranks. Without padding, because it is sent as bytes.
struct call_record {
  operation what = operation::all_reduce;
  complaint refused = complaint::none;
  std::uint32_t codec = 0;  ///< codec_id
  std::uint32_t value_bytes = 0;
  std::uint64_t values = 0;       ///< of x
  std::uint64_t plan_values = 0;  ///< size that x must have
  double parameters[4] = {};      ///< of the codec
  std::uint32_t algorithm = 0;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t op = 0;
  std::uint32_t nonfinite = 0;
  std::uint16_t checksum = 0;
  std::uint16_t narrow = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t decode_on_arrival_bytes = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  std::uint64_t group = 0;
  std::uint64_t weight = 1;  ///< may differ between ranks, unlike all other members
};

/// The memory that one rank passes to a call.
struct call_arguments {
  void const* x = nullptr;
  std::size_t values = 0;       ///< of x
  std::size_t value_bytes = 0;  ///< of one value
  std::size_t alignment = 1;    ///< required alignment of x
  bool is_reachable = true;     ///< the executor can access x
  void const* feedback = nullptr;
  std::size_t feedback_values = 0;
  std::size_t feedback_value_bytes = 0;
  bool needs_fallback = false;  ///< for a BoundedVariableRate; from a few values
};

/// @param executor  may be null, unless it is a DeviceExecutor
template <class E, class V, class F>
call_arguments arguments_of(E* executor, std::span<V> x, F const& feedback) {
  return {x.data(),
          x.size(),
          sizeof(V),
          alignof(V),
          can_work_on(executor, x) && (x.empty() || x.data() != nullptr),
          feedback.data(),
          feedback.values(),
          sizeof(accumulator_t<V>)};
}

/// What is wrong with the memory that was passed to a plan of `values` values.
inline complaint complaint_about(call_arguments const& given, std::size_t values) {
  if (given.values != values) return complaint::size;
  if (!given.is_reachable) return given.x ? complaint::memory : complaint::null;
  if (given.feedback_values != values) return complaint::feedback_size;
  if (reinterpret_cast<std::uintptr_t>(given.x) % given.alignment != 0) return complaint::alignment;
  if (given.feedback && overlap(given.x, values * given.value_bytes, given.feedback,
                                values * given.feedback_value_bytes))
    return complaint::overlap;
  return complaint::none;
}

/// Describes a call of this rank and what is wrong with its own arguments.
/// @param values  of the plan
/// @param key     of the call
inline call_record describe(operation what, call_arguments const& given, std::size_t values,
                            codec_terms const& codec, plan_options const& options,
                            call_options const& call, draw_key const& key) {
  call_record mine;
  mine.what = what;
  mine.codec = codec.codec_id;
  mine.value_bytes = codec.value_bytes;
  mine.values = given.values;
  mine.plan_values = values;
  std::copy(codec.parameters.begin(), codec.parameters.end(), mine.parameters);
  mine.algorithm = static_cast<std::uint32_t>(options.algorithm.kind);
  mine.rows = static_cast<std::uint32_t>(options.algorithm.rows);
  mine.columns = static_cast<std::uint32_t>(options.algorithm.columns);
  mine.op = static_cast<std::uint32_t>(call.op);
  mine.nonfinite = static_cast<std::uint32_t>(options.nonfinite);
  mine.checksum = options.checksum;
  mine.narrow = options.narrow;
  mine.segment_bytes = options.segment_bytes;
  mine.decode_on_arrival_bytes = options.decode_on_arrival_bytes;
  mine.seed = key.seed;
  mine.step = key.step;
  mine.tensor = key.tensor;
  mine.group = key.group;
  mine.weight = call.weight;

  mine.refused = complaint_about(given, values);
  if (mine.refused == complaint::none &&
      (call.weight == 0 || (what == operation::all_gather && call.weight != 1)))
    mine.refused = complaint::weight;
  if (mine.refused == complaint::none && given.feedback && !codec.feedback_refusal.empty())
    mine.refused = complaint::feedback;
  return mine;
}

/// The union of all ranks' records: shows whether ranks must compare records.
struct call_summary {
  std::uint64_t lowest, highest;  ///< fingerprint of the record without the weight
  std::uint64_t lightest, heaviest;
  std::uint64_t refused;
  std::uint64_t needs_fallback;  ///< 1 if any rank's call_arguments request it
  double seconds_of_last;        ///< the largest

  explicit call_summary(call_record mine, bool my_needs_fallback = false,
                        double my_seconds_of_last = 0)
      : lightest(mine.weight),
        heaviest(mine.weight),
        refused(mine.refused != complaint::none),
        needs_fallback(my_needs_fallback),
        seconds_of_last(my_seconds_of_last) {
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
    needs_fallback |= other.needs_fallback;
    seconds_of_last = std::max(seconds_of_last, other.seconds_of_last);
  }
  /// True if all records are equal and no rank refused its arguments.
  bool all_alike() const { return lowest == highest && lightest == heaviest && refused == 0; }
};

/// A value of call records that must be equal on all ranks.
struct common_value {
  char const* name;
  std::uint64_t (*get)(call_record const&);
  /// For messages; without a function the number.
  std::string (*text)(call_record const&) = nullptr;
};
template <int I> constexpr common_value common_parameter(char const* name) {
  return {name,
          [](call_record const& r) {
            return std::bit_cast<std::uint64_t>(r.parameters[I] + 0.0);  // one of the two zeros
          },
          [](call_record const& r) { return error_text({r.parameters[I]}); }};
}
[[gnu::cold]] inline std::string algorithm_text(call_record const& r) {
  return algorithm{static_cast<algorithm_kind>(r.algorithm), static_cast<int>(r.rows),
                   static_cast<int>(r.columns)}
      .name();
}

/// The values that must be equal on all ranks, in the order in which disagreements are reported.
inline constexpr std::array common_values{
    common_value{"the collective",
                 [](call_record const& r) {
                   // algorithm sampled is reported as an algorithm
                   auto const what =
                       r.what == operation::sampled_all_reduce ? operation::all_reduce : r.what;
                   return static_cast<std::uint64_t>(what);
                 },
                 [](call_record const& r) { return std::string(to_text(r.what)); }},
    common_value{"the number of values",
                 [](call_record const& r) -> std::uint64_t { return r.values; }},
    common_value{"the codec (its id)",
                 [](call_record const& r) -> std::uint64_t { return r.codec; }},
    common_value{"the bytes of a value",
                 [](call_record const& r) -> std::uint64_t { return r.value_bytes; }},
    common_parameter<0>("parameter 1 of the codec"),
    common_parameter<1>("parameter 2 of the codec"),
    common_parameter<2>("parameter 3 of the codec"),
    common_parameter<3>("parameter 4 of the codec"),
    common_value{"the algorithm", [](call_record const& r) -> std::uint64_t { return r.algorithm; },
                 algorithm_text},
    common_value{"the algorithm", [](call_record const& r) -> std::uint64_t { return r.rows; },
                 algorithm_text},
    common_value{"the algorithm", [](call_record const& r) -> std::uint64_t { return r.columns; },
                 algorithm_text},
    common_value{"the seed", [](call_record const& r) -> std::uint64_t { return r.seed; }},
    common_value{"the step", [](call_record const& r) -> std::uint64_t { return r.step; }},
    common_value{"the tensor", [](call_record const& r) -> std::uint64_t { return r.tensor; }},
    common_value{"which ranks take part (a fingerprint of them)",
                 [](call_record const& r) -> std::uint64_t { return r.group; }},
    common_value{"the op (0 sum, 1 mean)",
                 [](call_record const& r) -> std::uint64_t { return r.op; }},
    common_value{"the nonfinite policy (0 throw_error, 1 propagate, 2 ignore)",
                 [](call_record const& r) -> std::uint64_t { return r.nonfinite; }},
    common_value{"the checksum (0 off, 1 on)",
                 [](call_record const& r) -> std::uint64_t { return r.checksum; }},
    common_value{"narrow (0 off, 1 on)",
                 [](call_record const& r) -> std::uint64_t { return r.narrow; }},
    common_value{"segment_bytes (device_segment_bytes if x is in device memory)",
                 [](call_record const& r) -> std::uint64_t { return r.segment_bytes; }},
    common_value{"decode_on_arrival_bytes",
                 [](call_record const& r) -> std::uint64_t { return r.decode_on_arrival_bytes; }}};

/// Checks that all records agree. Allocates only if it throws.
/// @param codec                   of this rank
/// @throws disagreement_error     the records contradict each other
/// @throws std::invalid_argument  a rank refused its own arguments
/// @throws memory_error           a rank refused them because of their memory
inline void require_agreement(codec_terms const& codec, std::span<call_record const> all) {
  auto const who = [&] { return error_text({to_text(all[0].what), ": "}); };
  for (auto const& value : common_values)
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (value.get(all[rank]) == value.get(all[0])) continue;
      auto const text = [&](call_record const& r) {
        return value.text ? value.text(r) : std::to_string(value.get(r));
      };
      throw disagreement_error(
          error_text({who(), "ranks disagree on ", value.name, ": rank 0 has ", text(all[0]),
                      ", rank ", rank, " has ", text(all[rank])}));
    }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    auto const& one = all[rank];
    if (one.refused == complaint::none) continue;
    if (one.refused == complaint::feedback)
      throw std::invalid_argument(error_text({who(), codec.feedback_refusal}));
    auto const text =
        error_text({who(), "on rank ", rank, " ", to_text(one.refused), " (x has ", one.values,
                    " values, the plan ", one.plan_values, ", the weight is ", one.weight, ")"});
    if (one.refused == complaint::memory || one.refused == complaint::null)
      throw memory_error(text);
    throw std::invalid_argument(text);
  }
}

/// @param all  a record of ranks that agree
/// @throws std::invalid_argument  a mean was requested, and the codec has none; on all ranks alike
inline void require_op(codec_terms const& codec, call_record const& all) {
  if (!codec.has_means && all.what != operation::all_gather &&
      static_cast<reduce_op>(all.op) == reduce_op::mean)
    throw std::invalid_argument(error_text({to_text(all.what), ": codec '", codec.name,
                                            "' sums integers, and integers have no mean"}));
}

/// The weight of the result.
/// @throws std::invalid_argument  the codec has no room for it; on all ranks alike
/// @throws nonfinite_error        the sum of the magnitudes overflows the value type, and the
///                                policy is throw_error; on all ranks alike
inline std::uint64_t total_weight(codec_terms const& codec, std::span<call_record const> all) {
  std::uint64_t total = 0;
  for (auto const& record : all) total += record.weight;
  if (total > codec.max_summands)
    throw std::invalid_argument(error_text(
        {to_text(all[0].what), ": codec '", codec.name, "' holds ", codec.max_summands,
         " summands, the ranks' weights add up to ", total, "; fit it: fit(codec, ", total, ")"}));
  bool const is_one =
      static_cast<reduce_op>(all[0].op) == reduce_op::mean || all[0].what == operation::all_gather;
  if (double const most = codec.magnitude * static_cast<double>(is_one ? 1 : total);
      most > codec.largest_value &&
      static_cast<nonfinite_policy>(all[0].nonfinite) == nonfinite_policy::throw_error)
    throw nonfinite_error(error_text(
        {to_text(all[0].what), ": codec '", codec.name, "' has a magnitude of ", codec.magnitude,
         ", the ranks' weights add up to ", total, "; values of the result of up to ", most,
         " overflow, the largest is ", codec.largest_value, "; x is unchanged"}));
  return total;
}

}  // namespace hcomp::detail
