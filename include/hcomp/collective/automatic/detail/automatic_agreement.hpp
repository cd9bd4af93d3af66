#pragma once
/// @file
/// Compares the arguments of an automatic_plan between ranks before anything is measured.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/collective/agreement/detail/call_check.hpp>
#include <hcomp/collective/automatic/automatic_options.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/transport/transport.hpp>
#include <string>
#include <vector>

namespace hcomp::detail {

/// Arguments that must be equal on all ranks. Without padding, because it is sent as bytes.
struct automatic_record {
  std::uint64_t values = 0;
  double magnitude = 0;
  std::uint64_t total_weight = 0;
  std::uint64_t settings = 0;  ///< fingerprint of everything else
  std::array<char, 128> codecs{};
  std::array<char, 64> algorithms{};
};

inline automatic_record describe(std::size_t values, automatic_options const& options,
                                 bool knows_nodes) {
  automatic_record mine{values, options.magnitude.value_or(1), options.total_weight, 0, {}, {}};
  std::string settings;
  auto const add = [&](auto const&... numbers) {
    ((settings += error_text({static_cast<double>(numbers)}) + " "), ...);
  };
  auto const add_name = [&](auto& list, std::string const& name) {
    settings += name + ",";
    std::string const before = list.data();  // the fingerprint covers names that do not fit
    std::string const all = before + (before.empty() ? "" : ", ") + name;
    std::copy_n(all.data(), std::min(all.size(), list.size() - 1), list.data());
  };
  for (auto const& name : options.allowed.codecs) add_name(mine.codecs, name);
  for (auto const& how : options.allowed.algorithms) add_name(mine.algorithms, how.name());
  auto const add_link = [&](link_cost const& link) {
    add(link.seconds_per_message, link.seconds_per_byte, link.seconds_between_messages,
        link.seconds_of_rendezvous, link.eager_bytes);
  };
  add(knows_nodes);
  if (options.costs) {
    add_link(options.costs->link);
    if (auto const& nodes = options.costs->nodes) {
      add(nodes->ranks, nodes->inside, nodes->call);
      add_link(nodes->between);
    }
    for (auto const& [name, c] : options.costs->codecs) {
      settings += name;
      add(c.encode, c.merge, c.decode, c.call, c.measure, c.pack, c.unpack, c.narrow_one, c.narrow,
          c.widen_one, c.widen, c.lane_bits, c.one_bits, c.sum_step, c.sum_bits,
          c.algorithms.bits(), c.block_values, c.block_unit, c.statistics_bytes, c.block_bytes,
          c.header_bytes, c.value_bytes);
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
  auto const number = [](auto value) { return error_text({static_cast<double>(value)}); };
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

/// Returns if all ranks passed equal arguments.
/// @throws disagreement_error  on all ranks alike
template <Transport T>
void agree_on(T& transport, std::size_t values, automatic_options const& options,
              bool knows_nodes) {
  std::vector<automatic_record> all;
  all_gather_records(transport, options.plan.tag, describe(values, options, knows_nodes), all);
  require_agreement(all);
}

}  // namespace hcomp::detail
