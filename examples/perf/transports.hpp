#pragma once
/// @file
/// The transports of a run, and the costs of links and codecs.

#include <algorithm>
#include <cstddef>
#include <hcomp/collective/automatic/automatic.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/collective/by_name/codec_entry.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/node/measure.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "options.hpp"

namespace perf {

/// Costs of links and codecs. The first call with an argument measures them. All calls are
/// collective.
class measured_costs {
 public:
  /// Uses --rate and --latency if they are given, and measured values otherwise. Of a given rate,
  /// TCP payload gets 1448 bytes of every Ethernet frame of 1514 bytes.
  explicit measured_costs(options const& o) : options_(&o) {}

  hcomp::link_cost const& link(std::string const& transport_name, hcomp::any_transport& transport) {
    auto const [at, is_new] = links_.try_emplace(transport_name);
    if (is_new) {
      at->second = hcomp::measure_link(transport);
      say_link(at->second, 1);
    }
    return at->second;
  }
  /// Costs of hierarchical all-reduces; none if the nodes do not allow them. A given rate is that
  /// of a node; its ranks share it.
  template <class T>
  std::optional<hcomp::node_cost> const& nodes(std::string const& transport_name,
                                               hcomp::any_transport& transport) {
    auto const [at, is_new] = nodes_.try_emplace(transport_name);
    if (is_new) {
      at->second = hcomp::node::measure_nodes<T>(transport, {.values = std::size_t{1} << 20});
      if (at->second) say_link(at->second->between, at->second->ranks);
    }
    return at->second;
  }
  /// Costs of a codec for vectors of about `values` values: vectors that fit into a cache take less
  /// time. A single rank measures for the number of ranks to advise for.
  template <class T>
  hcomp::codec_cost const& codec(hcomp::named_codec<T> const& codec, std::size_t values,
                                 hcomp::any_transport& transport) {
    std::size_t about = std::size_t{1} << 15;
    while (about < std::min(values, std::size_t{1} << 22)) about *= 8;
    auto const [at, is_new] = codecs_.try_emplace({codec.text(), about});
    if (is_new) {
      hcomp::host_executor executor(options_->threads);
      if (transport.size() > 1)
        at->second = hcomp::measure_codec(codec, executor, transport, {.values = about});
      else
        at->second =
            hcomp::measure_codec(codec, executor, options_->ranks.value_or(1), {.values = about});
    }
    return at->second;
  }

 private:
  /// Replaces measured values of a link by those of the command line.
  void say_link(hcomp::link_cost& link, int sharers) const {
    if (options_->rate) link.seconds_per_byte = sharers * 8 / *options_->rate * 1514 / 1448;
    if (options_->latency) {
      link.seconds_per_message = *options_->latency;
      link.seconds_of_rendezvous = 2 * *options_->latency;  // one round trip
    }
  }

  options const* options_;
  std::map<std::string, hcomp::link_cost> links_;
  std::map<std::string, std::optional<hcomp::node_cost>> nodes_;
  std::map<std::pair<std::string, std::size_t>, hcomp::codec_cost> codecs_;
};

/// The transports of a run, created once, and their costs.
class transports {
 public:
  /// Creates a transport over MPI and all transports of --transport. Collective.
  /// @throws std::runtime_error  the program was built without a requested transport
  explicit transports(options const& o);

  /// @param name  "mpi", or "ucx" if --transport names it
  hcomp::any_transport& at(std::string const& name) { return by_name_.at(name); }

  measured_costs costs;

 private:
  std::map<std::string, hcomp::any_transport> by_name_;
};

}  // namespace perf
