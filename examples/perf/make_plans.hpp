#pragma once
/// @file
/// Definitions of plans.hpp. Every file that includes it instantiates them for one value type.

#include <algorithm>
#include <hcomp/extend.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/model.hpp>
#include <hcomp/node/automatic.hpp>
#include <hcomp/node/hierarchical.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bits_text.hpp"
#include "codec_promise.hpp"
#include "plans.hpp"
#ifdef HCOMP_PERF_ZFP
#include "zfp_codec.hpp"
#endif

namespace perf {

/// Codec for comparison. `automatic` does not choose it.
inline constexpr std::string_view peer = "zfp";

template <class T> hcomp::codec_registry<T>& codecs() {
  static auto& all = []() -> auto& {
    auto& table = hcomp::registered_codecs<T>();
#ifdef HCOMP_PERF_ZFP
    if constexpr (std::is_floating_point_v<T>)
      table.add(hcomp::make_codec_entry<zfp_codec<T>>(
          {.name = std::string(peer),
           .about = "decompresses, adds and compresses again",
           .keys = {{"bits", hcomp::codec_key::kind::whole, 4, 32, {}, "of a value"}},
           .promise = hcomp::accuracy_class::noisy},
          [](hcomp::codec_settings const& s) { return zfp_codec<T>{s.whole("bits")}; }));
#endif
    return table;
  }
  ();
  return all;
}

/// An all-reduce plan of hcomp.
template <class T> class plan_contender final : public contender<T> {
 public:
  plan_contender(strategy name, hcomp::named_codec<T> const& codec, job const& it,
                 hcomp::any_transport& transport, hcomp::algorithm const& how)
      : executor_(it.o.threads),
        values_sent_(2.0 * (transport.size() - 1) / transport.size() *
                     static_cast<double>(it.values)),
        says_bits_(codec.entry->promise == hcomp::accuracy_class::error_bounded &&
                   how.kind != hcomp::algorithm_kind::aggregator && transport.size() > 1),
        plan_(hcomp::node::make_plan<T>(codec.text(), it.values, transport, executor_,
                                        {.algorithm = how})) {
    if (codec.entry->has_magnitude() && codec.entry->is_called(name.codec))
      plan_.set_magnitude(it.typical);
    this->name = std::move(name);
    this->accuracy = promise_of<T>(*codec.entry, codec.settings, transport.size(), it.o.mean);
    if (how.hierarchical && codec.settings.text().find("rel=") != std::string::npos)
      this->accuracy.largest_error = {};  // relative to the nodes' sums, which are unknown here
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    auto const stats = plan_.all_reduce(x, call);
    this->note_memory(stats);
    this->bytes_to_send = static_cast<double>(stats.bytes_sent);
    this->remark = plan_.about_last_call();
    if (says_bits_)
      this->remark = bits_text(this->name.codec, 8 * this->bytes_to_send / values_sent_, stats);
    return stats;
  }

 private:
  hcomp::host_executor executor_;
  double values_sent_;  ///< values that a rank sends on a ring
  bool says_bits_;
  hcomp::any_plan<T> plan_;
};

/// An automatic_plan: the fastest strategy by the cost model.
template <class T> class automatic_contender final : public contender<T> {
 public:
  automatic_contender(job const& it, std::string const& transport_name,
                      hcomp::automatic_options const& how)
      : executor_(it.o.threads),
        plan_(it.values, it.by.at(transport_name), executor_, how, codecs<T>()) {
    auto const& chosen = plan_.chosen();
    this->name = {"automatic", "chosen", transport_name};
    this->remark = "automatic took " + hcomp::to_text(chosen) + " expected";
    this->predicted_seconds = chosen.seconds();
    auto const codec = hcomp::codec_from(codecs<T>(), chosen.codec);
    this->accuracy =
        promise_of<T>(*codec.entry, codec.settings, it.by.at(transport_name).size(), it.o.mean);
  }
  hcomp::report run(std::span<T> x, hcomp::call_options const& call) override {
    auto const stats = plan_.all_reduce(x, call);
    this->note_memory(stats);
    this->bytes_to_send = static_cast<double>(stats.bytes_sent);
    if (plan_.changes() > 0)
      this->remark = "automatic took " + hcomp::to_text(plan_.chosen()) + " expected, after " +
                     std::to_string(plan_.changes()) + " changes";
    return stats;
  }

 private:
  hcomp::host_executor executor_;
  hcomp::node::automatic_plan<T> plan_;
};

template <class T>
void add_plans(contender_list<T>& list, job const& it, std::string const& name,
               std::string const& transport_name) {
  auto& transport = it.by.at(transport_name);
  auto const codec = hcomp::codec_from(codecs<T>(), name);
  for (auto const& how : it.o.algorithms) {
    if (std::ranges::find(codec.entry->algorithms, how.kind) == codec.entry->algorithms.end())
      continue;
    list.push_back(std::make_unique<plan_contender<T>>(strategy{name, how.name(), transport_name},
                                                       codec, it, transport, how));
    if (!codec.entry->measure) continue;
    auto const& cost = it.by.costs.codec(codec, it.values, transport);
    if (!cost.algorithms.contains(how.kind)) continue;
    bool const may_share_memory =
        hcomp::node::uses_shared_memory(*codec.entry, {.algorithm = how}) && transport.size() > 1;
    std::optional<hcomp::node_cost> nodes;
    if (how.hierarchical || may_share_memory)
      nodes = it.by.costs.nodes<T>(transport_name, transport);
    if (how.hierarchical || (nodes && nodes->ranks == transport.size())) {
      if (nodes)
        list.back()->predicted_seconds =
            hcomp::predict_by_nodes(how, transport.size(), it.values, cost, *nodes).seconds();
    } else {
      list.back()->predicted_seconds = hcomp::predicted_seconds(
          how, transport.size(), it.values, cost, it.by.costs.link(transport_name, transport));
    }
  }
}

/// Names of the codecs of the command line without duplicates, and identity.
template <class T> std::vector<std::string> codecs_to_choose_from(options const& o) {
  std::vector<std::string> names{"identity"};
  for (auto const& asked : o.codecs) {
    if (is_own(asked)) continue;
    auto const codec = hcomp::codec_from(codecs<T>(), asked);
    if (codec.entry->measure && codec.entry->name != peer &&
        std::ranges::find(names, asked) == names.end())
      names.push_back(asked);
  }
  return names;
}

template <class T> hcomp::cost_table cost_table_of(job const& it, std::string const& over) {
  auto& transport = it.by.at(over);
  hcomp::cost_table table;
  table.link = it.by.costs.link(over, transport);
  if (std::ranges::any_of(it.o.algorithms, &hcomp::algorithm::hierarchical))
    table.nodes = it.by.costs.nodes<T>(over, transport);
  for (auto const& name : codecs_to_choose_from<T>(it.o))
    table.codecs.push_back(
        {name, it.by.costs.codec(hcomp::codec_from(codecs<T>(), name), it.values, transport)});
  return table;
}

template <class T> hcomp::codec_cost const& identity_cost(job const& it) {
  return it.by.costs.codec(hcomp::codec_from(codecs<T>(), "identity"), it.values, it.by.at("mpi"));
}

template <class T>
void add_automatic(contender_list<T>& list, job const& it, std::string const& transport_name) {
  hcomp::automatic_options how;
  how.allowed = {codecs_to_choose_from<T>(it.o), it.o.algorithms};
  how.magnitude = it.typical;
  how.costs = cost_table_of<T>(it, transport_name);
  list.push_back(std::make_unique<automatic_contender<T>>(it, transport_name, how));
}

}  // namespace perf
