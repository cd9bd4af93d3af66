#pragma once
/// @file
/// Makes everything that the command line asks to be timed.

#include <algorithm>
#include <hcomp/collective/measure_cost.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../support/transports.hpp"
#include "contender.hpp"
#include "options.hpp"

namespace perf {

/// What links and codecs cost here, measured when first asked for. Every call is collective.
class measured_costs {
 public:
  /// Rate and latency as measured, unless the command line says them. Of a rate that is said TCP
  /// leaves 1448 bytes of every 1514 that an Ethernet frame has.
  explicit measured_costs(options const& o) : options_(&o) {}

  template <class Transport>
  hcomp::link_cost const& link(std::string const& transport_name, Transport& transport) {
    auto const [at, is_new] = links_.try_emplace(transport_name);
    if (is_new) {
      at->second = hcomp::measure_link(transport);
      if (options_->rate) at->second.seconds_per_byte = 8 / *options_->rate * 1514 / 1448;
      if (options_->latency) at->second.seconds_per_message = *options_->latency;
    }
    return at->second;
  }
  /// With vectors of about `values` values: what fits into a cache takes less time. On one rank, as
  /// one of those that are to be advised.
  template <class C, class Transport>
  hcomp::codec_cost const& codec(std::string const& name, C const& codec, std::size_t values,
                                 Transport& transport) {
    std::size_t about = std::size_t{1} << 15;
    while (about < std::min(values, std::size_t{1} << 22)) about *= 8;
    auto const [at, is_new] = codecs_.try_emplace({name, about});
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
  options const* options_;
  std::map<std::string, hcomp::link_cost> links_;
  std::map<std::pair<std::string, std::size_t>, hcomp::codec_cost> codecs_;
};

/// The transports of a run, made once, and what they cost.
struct transports {
  measured_costs costs;
  std::unique_ptr<hcomp::mpi::transport> mpi;
#ifdef HCOMP_EXAMPLE_UCX
  std::unique_ptr<hcomp::ucx::transport> ucx;
#endif

  /// Collective.
  /// @throws std::runtime_error  a transport is asked for that this program was built without
  explicit transports(options const& o);
};

template <class T> using contender_list = std::vector<std::unique_ptr<contender<T>>>;

/// The MPI library's own all-reduce first, then every codec with every algorithm and transport that
/// go together. Collective.
/// @param typical  mean |x|: what one sign decodes to
/// @throws std::runtime_error, std::invalid_argument  an unknown name, on all ranks alike
template <class T>
contender_list<T> make_contenders(options const& o, std::size_t values, double typical,
                                  transports& by);

/// What --advise needs of the codecs that were asked for: their costs, and the link's of the first
/// transport. Collective.
template <class T> hcomp::cost_table cost_table_of(options const& o, transports& by);

}  // namespace perf
