#pragma once
/// @file
/// A simulated cluster of SimGrid; its MPI ranks run in one process.

#include <mpi.h>
#include <xbt/log.h>
#include <simgrid/s4u.hpp>

#include <functional>
#include <hcomp/collective/cost/costs.hpp>
#include <limits>
#include <stdexcept>
#include <string>

namespace scale {

/// `nodes` nodes with one rank each, around a switch that is never the bottleneck.
///
/// A message of n bytes takes link.seconds_per_message + n * link.seconds_per_byte between any two
/// nodes. A node sends its messages one after the other, as through a TCP connection or a queue
/// pair. Messages that it receives at the same time share its cable. Sending and receiving do not
/// slow each other. Only `this_actor::sleep_for` takes simulated time besides messages.
///
/// SimGrid supports one simulation per process, so there is one cluster per process.
class cluster {
 public:
  /// @param rendezvous  messages leave when their receive is posted, as in MPIs for large messages;
  ///                    otherwise they leave at once, which takes memory for those in flight
  cluster(int nodes, hcomp::link_cost const& link, bool rendezvous)
      : nodes_(nodes), engine_("scale"), start_line_(simgrid::s4u::Barrier::create(nodes)) {
    using simgrid::s4u::Engine;
    // SimGrid's own factors describe real Gigabit clusters. Here `link` sets latency and bandwidth,
    // and MPI calls and the ranks' own work take no simulated time.
    xbt_log_control_set("xbt_cfg.thres:warning");
    xbt_log_control_set("smpi_config.thres:warning");
    for (char const* setting :
         {"network/model:CM02", "network/latency-factor:1", "network/bandwidth-factor:1",
          "network/weight-S:0", "network/TCP-gamma:0", "network/crosstraffic:0",
          "smpi/simulate-computation:no", "smpi/wtime:0", "surf/precision:1e-9",
          "contexts/stack-size:1024"})
      Engine::set_config(setting);
    for (char const* limit : {"smpi/send-is-detached-thresh", "smpi/async-small-thresh"})
      Engine::set_config(limit, rendezvous ? 0 : std::numeric_limits<int>::max());
    auto* const zone = simgrid::s4u::create_star_zone("cluster");
    for (int h = 0; h < nodes; ++h) {
      auto* const host = zone->create_host(name_of(h), "1Gf");
      auto* const cable =
          zone->create_split_duplex_link("cable" + name_of(h), 1 / link.seconds_per_byte);
      cable->set_latency(link.seconds_per_message / 2);  // a path has two cables
      // Without this limit, messages from one node to another share the cable. A later message then
      // delays the one that the receiver waits for, and a ring whose chunks differ by a block takes
      // 1.5 times as long.
      cable->get_link_up()->set_concurrency_limit(1);
      zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                      {{cable, simgrid::s4u::LinkInRoute::Direction::UP}}, true);
    }
    zone->seal();
  }

  /// Runs `rank` on every node, between MPI_Init and MPI_Finalize; returns when all are done. Ranks
  /// run one at a time, so they may share memory without locks.
  /// @throws std::runtime_error  ranks deadlock
  void run(std::function<void()> const& rank) {
    int running = nodes_;
    SMPI_init();
    SMPI_app_instance_register("ranks", nullptr, nodes_);
    for (int h = 0; h < nodes_; ++h) {
      auto actor = simgrid::s4u::Actor::init(name_of(h), engine_.host_by_name(name_of(h)));
      actor->set_property("instance_id", "ranks");
      actor->set_property("rank", std::to_string(h));
      actor->start([&rank, &running] {
        MPI_Init(nullptr, nullptr);
        rank();
        MPI_Finalize();
        --running;
      });
    }
    engine_.run();
    if (running > 0)
      throw std::runtime_error("cluster: " + std::to_string(running) + " of " +
                               std::to_string(nodes_) + " ranks wait for ever");
  }

  /// Simulated seconds since the start.
  static double now() { return simgrid::s4u::Engine::get_clock(); }
  /// A barrier: all ranks leave at the same simulated time.
  void line_up() const { start_line_->wait(); }

 private:
  static std::string name_of(int host) { return "host" + std::to_string(host); }

  int nodes_;
  simgrid::s4u::Engine engine_;
  simgrid::s4u::BarrierPtr start_line_;
};

}  // namespace scale
