#pragma once
/// @file
/// What the ranks of an automatic_plan must agree on: what was asked for, and what is chosen.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement.hpp>
#include <hcomp/collective/automatic_options.hpp>
#include <hcomp/collective/detail/call_check.hpp>
#include <hcomp/collective/detail/running_costs.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/transport/transport.hpp>
#include <string>
#include <vector>

namespace hcomp::detail {

/// What all ranks must have asked for. Without padding: it is sent as bytes.
struct automatic_record {
  std::uint64_t values = 0;
  double magnitude = 0;
  std::uint64_t total_weight = 0;
  std::uint64_t settings = 0;  ///< fingerprint of everything else
  std::array<char, 128> codecs{};
  std::array<char, 64> algorithms{};
};

inline automatic_record describe(std::size_t values, automatic_options const& options) {
  automatic_record mine{values, options.magnitude.value_or(1), options.total_weight, 0, {}, {}};
  std::string settings;
  auto const add = [&](auto const&... numbers) {
    ((settings += to_text(static_cast<double>(numbers)) + " "), ...);
  };
  auto const add_name = [&](auto& list, std::string const& name) {
    settings += name + ",";
    std::string const before = list.data();  // what does not fit is in the fingerprint
    std::string const all = before + (before.empty() ? "" : ", ") + name;
    std::copy_n(all.data(), std::min(all.size(), list.size() - 1), list.data());
  };
  for (auto const& name : options.allowed.codecs) add_name(mine.codecs, name);
  for (auto const& how : options.allowed.algorithms) add_name(mine.algorithms, how.name());
  if (options.costs) {
    auto const& link = options.costs->link;
    add(link.seconds_per_message, link.seconds_per_byte, link.seconds_between_messages,
        link.seconds_of_rendezvous, link.eager_bytes);
    for (auto const& [name, c] : options.costs->codecs) {
      settings += name;
      add(c.encode, c.merge, c.decode, c.call, c.measure, c.pack, c.unpack, c.narrow_one, c.narrow,
          c.widen_one, c.widen, c.lane_bits, c.one_bits, c.sum_step, c.algorithms.bits(),
          c.block_values, c.block_unit, c.statistics_bytes, c.block_bytes, c.header_bytes,
          c.value_bytes);
    }
  }
  add(options.magnitude.has_value(), options.watching);
  auto const& m = options.measuring;
  add(m.values, m.codec_seconds, m.link_seconds, m.tag);
  auto const& p = options.plan;
  add(static_cast<int>(p.nonfinite), p.check, p.checksum, p.narrow, p.segment_bytes,
      p.decode_on_arrival_bytes, p.tag);
  mine.settings = fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(settings.data()),
                              settings.size());
  return mine;
}

/// @throws disagreement_error  the records contradict each other; on all ranks alike
inline void require_agreement(std::vector<automatic_record> const& all) {
  auto const compare = [&](char const* what, auto const& member, auto const& text) {
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (member(all[rank]) != member(all[0]))
        throw disagreement_error("automatic_plan: ranks disagree on " + std::string(what) +
                                 ": rank 0 has " + text(member(all[0])) + ", rank " +
                                 std::to_string(rank) + " has " + text(member(all[rank])));
  };
  auto const number = [](auto value) { return to_text(static_cast<double>(value)); };
  auto const names = [](auto const& list) { return std::string(list.data()); };
  using record = automatic_record;
  compare(
      "the number of values", [](record const& r) { return r.values; }, number);
  compare(
      "the allowed codecs", [](record const& r) { return r.codecs; }, names);
  compare(
      "the allowed algorithms", [](record const& r) { return r.algorithms; }, names);
  compare(
      "the magnitude", [](record const& r) { return r.magnitude; }, number);
  compare(
      "the total weight", [](record const& r) { return r.total_weight; }, number);
  compare(
      "the given costs or other settings (their fingerprint)",
      [](record const& r) { return r.settings; },
      [](std::uint64_t value) { return std::to_string(value); });
}

/// What all do as one rank decided. Without padding: it is sent as bytes.
struct way_decision {
  std::int32_t rank = 0;
  std::uint32_t way = 0;     ///< number of, in running_costs
  std::uint64_t calls = 1;   ///< until the ranks compare times again
  double expected = 0;       ///< seconds of a sum
  double measure_after = 0;  ///< so many seconds of sums the link is measured
  double per_byte = 0, load = 1;
};

/// What the last sums took, by one rank's clock or by all ranks'. Without padding: it is sent as
/// bytes.
class recent_times {
 public:
  /// @param left_out  so many sums from now on do not count
  explicit recent_times(std::uint64_t left_out = 0) : left_out_(left_out) {}

  /// @param seconds  that the sum took since all ranks had called
  /// @param work     encoding, merging and decoding
  void add(double seconds, double work) {
    if (left_out_ > 0) {
      --left_out_;
      return;
    }
    seconds_[added_ % kept] = seconds;
    work_[added_ % kept] = work;
    ++added_;
  }
  bool empty() const { return added_ == 0; }
  void unite(recent_times const& other) {
    for (std::size_t i = 0; i < kept; ++i) {
      seconds_[i] = std::max(seconds_[i], other.seconds_[i]);
      work_[i] = std::max(work_[i], other.work_[i]);
    }
  }
  /// Of two the longer. Not without sums.
  sum_time median() const {
    auto const count = static_cast<std::size_t>(std::min<std::uint64_t>(added_, kept));
    auto const middle = [&](std::array<double, kept> all) {
      std::sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      return all[count / 2];
    };
    return {middle(seconds_), middle(work_)};
  }

 private:
  static constexpr std::size_t kept = 8;
  std::uint64_t left_out_, added_ = 0;
  std::array<double, kept> seconds_{}, work_{};
};

/// Returns if all ranks passed the same.
/// @throws disagreement_error  on all ranks alike
template <Transport T>
void agree_on(T& transport, std::size_t values, automatic_options const& options) {
  std::vector<automatic_record> all;
  all_gather_records(transport, options.plan.tag, describe(values, options), all);
  require_agreement(all);
}

}  // namespace hcomp::detail
