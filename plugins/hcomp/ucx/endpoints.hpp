#pragma once
/// @file
/// One worker and its endpoints to all ranks: opens, monitors and force-closes them.

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/detail/nap.hpp>
#include <hcomp/ucx/context.hpp>
#include <hcomp/ucx/devices.hpp>
#include <hcomp/ucx/offers.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// An all-gather of the ranks' addresses by any means: MPI, files, sockets, shared memory.
///
/// Every rank calls it once, with its own address, of some hundred bytes; element i of the result
/// is the address of rank i.
using address_exchange =
    std::function<std::vector<std::vector<std::byte>>(std::span<std::byte const> mine)>;

/// The result of a meeting of ranks whose number is not known in advance: the addresses in rank
/// order, and this rank's number.
struct roll_call {
  int rank = 0;
  std::vector<std::vector<std::byte>> addresses = {};  ///< of all ranks
};
/// Every rank calls it once with its own address; it returns the same addresses on all ranks.
using meeting = std::function<roll_call(std::span<std::byte const> mine)>;

/// The offers of this rank, without addresses.
/// @param devices  as in HCOMP_UCX_NET_DEVICES; empty: taken from the environment, else
///                 default_offers
inline std::vector<offer> offers_of_this_rank(std::string devices) {
  char const* const transports = environment("TLS");
  if (transports != nullptr && !allows_tcp(transports)) return {{.devices = std::move(devices)}};
  auto interfaces = network_interfaces();
  if (devices.empty())
    if (char const* const named = environment("NET_DEVICES")) devices = named;
  if (devices.empty())
    return default_offers(std::move(interfaces),
                          transports != nullptr && allows_only_tcp(transports)
                              ? std::vector<std::string>{}
                              : rdma_ports());
  if (devices != "all")
    std::erase_if(interfaces, [&](auto const& one) {
      return ("," + devices + ",").find("," + std::string(one.name.data()) + ",") ==
             std::string::npos;
    });
  return {{std::move(devices), std::move(interfaces)}};
}

/// The endpoints of one rank. Not movable: UCX's error callback stores its address.
class endpoints {
 public:
  /// @throws transport_error  UCX cannot start, or an address is missing or damaged
  endpoints(meeting const& meet, peer_failure failures, std::string const& devices)
      : failures_(failures) {
    auto mine = offers_of_this_rank(devices);
    std::vector<std::pair<context_handle, worker_handle>> opened;
    for (auto& one : mine) {
      auto context = open_context(one.devices, failures);
      auto worker = open_worker(context.get());
      one.address = worker_address(worker.get());
      opened.emplace_back(std::move(context), std::move(worker));
    }
    auto const met = meet(packed(mine));
    rank_ = met.rank;
    std::vector<std::vector<offer>> all;
    for (auto const& bytes : met.addresses) {
      int const rank = int(all.size());
      if (bytes.empty())
        throw transport_error(
            rank, "ucx: the exchange returned no address of rank " + std::to_string(rank));
      all.push_back(unpacked(bytes, rank));
    }
    auto const chosen = chosen_offers(all);
    bool const is_one_node = are_on_one_node(all);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      peers_.push_back({std::move(all[rank][chosen[rank]])});
    auto& [context, worker] = opened.at(chosen.at(std::size_t(rank_)));
    context_ = std::move(context);
    worker_ = std::move(worker);
    // Over TCP, UCX takes up to 9 times as long with device memory as hcomp through pinned memory.
    char const* const transports = environment("TLS");
    reaches_device_ =
        supports_device(context_.get()) &&
        (uses_rdma(transports, rdma_ports()) || (allows_cuda_ipc(transports) && is_one_node));
  }

  endpoints(endpoints const&) = delete;
  endpoints& operator=(endpoints const&) = delete;

  int rank() const { return rank_; }
  int size() const { return int(peers_.size()); }
  ucp_worker_h worker() const { return worker_.get(); }
  bool reaches_device() const { return reaches_device_; }
  bool is_open(int peer) const { return peers_[std::size_t(peer)].handle != nullptr; }

  /// The interfaces that connect this rank and `peer`: "eth0 10.0.0.1 to eth0 10.0.0.2".
  std::string interfaces_to(int peer) const {
    auto const text_of = [](offer const& one) {
      std::string text;
      for (auto const& interface : one.interfaces)
        text += (text.empty() ? "" : ", ") + interface.text();
      return text.empty() ? "no known address" : text;
    };
    return text_of(peers_[std::size_t(rank_)].where) + " to " +
           text_of(peers_[std::size_t(peer)].where);
  }

  /// Precondition: the endpoint is open.
  ucp_ep_h operator[](int peer) const { return peers_[std::size_t(peer)].handle; }

  /// UCS_OK, until opening the endpoint fails or UCX reports the peer as failed.
  ucs_status_t status(int peer) const { return peers_[std::size_t(peer)].status; }

  /// The ranks whose endpoints failed, in order of failure.
  std::vector<int> const& failed() const { return failed_; }

  /// Opens the endpoint unless it is open.
  ucs_status_t open(int peer) {
    auto& it = peers_[std::size_t(peer)];
    if (it.handle != nullptr || it.status != UCS_OK) return it.status;

    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<ucp_address_t const*>(it.where.address.data());
    params.err_mode =
        failures_ == peer_failure::detect ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler = {on_failure, this};
    it.status = ucp_ep_create(worker_.get(), &params, &it.handle);
    return it.status;
  }

  /// Makes progress on one connection; does not wait.
  /// @return  whether any work was done
  bool step() {
    if (ucp_worker_progress(worker_.get()) == 0) return false;
    idle_since_.reset();
    return true;
  }

  /// Makes progress. If there is no work, yields the core, because there may be more ranks than
  /// cores. After 2 ms without work it sleeps, each time for 1/64 of the time waited so far; this
  /// bounds the added latency.
  /// @return  whether any work was done
  bool progress() {
    if (step()) return true;
    auto const now = std::chrono::steady_clock::now();
    if (!idle_since_) idle_since_ = now;
    if (now - *idle_since_ < std::chrono::milliseconds(2))
      sched_yield();
    else
      hcomp::detail::nap(now - *idle_since_, 64);
    return false;
  }

  /// @return  false if the deadline passed before `done()` was true
  template <class Done> bool progress_until(hcomp::detail::deadline& limit, Done done) {
    while (!done()) {
      if (limit.passed()) return false;
      progress();
    }
    return true;
  }

  /// Flushes messages to ranks whose endpoints have not failed.
  void flush(hcomp::detail::deadline& limit) {
    ucp_request_param_t const how{};
    std::vector<request_handle> flushing;
    for (auto const& it : peers_)
      if (it.handle != nullptr && it.status == UCS_OK)
        flushing.push_back(started_request(ucp_ep_flush_nbx(it.handle, &how)));
    progress_until(limit,
                   [&] { return std::none_of(flushing.begin(), flushing.end(), under_way); });
  }

  /// Discards messages that were not received; UCX would print a warning for each.
  void discard_arrived() {
    ucp_tag_recv_info_t info{};
    ucp_request_param_t const how{};
    while (auto const message = ucp_tag_probe_nb(worker(), 0, 0, /*remove=*/1, &info))
      started_request(ucp_tag_msg_recv_nbx(worker(), nullptr, 0, message, &how));
  }

  /// Force-closes every endpoint without asking the peers. Peers that still wait for this rank
  /// detect it.
  ///
  /// Without failure handling UCX cannot do that; then the endpoints are destroyed with the worker.
  /// @return  requests to be progressed until all are complete
  std::vector<request_handle> start_closing() {
    std::vector<request_handle> closing;
    if (failures_ == peer_failure::ignore) return closing;
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (auto& it : peers_)
      if (it.handle != nullptr)
        closing.push_back(
            started_request(ucp_ep_close_nbx(std::exchange(it.handle, nullptr), &how)));
    return closing;
  }

  /// Destroys all UCX objects, including open endpoints.
  void destroy() {
    worker_.reset();
    context_.reset();
  }

 private:
  struct peer {
    offer where;
    ucp_ep_h handle = nullptr;
    ucs_status_t status = UCS_OK;
  };

  /// Called by UCX inside ucp_worker_progress; the waiting caller closes and cancels.
  static void on_failure(void* self, ucp_ep_h endpoint, ucs_status_t status) {
    auto& all = *static_cast<endpoints*>(self);
    for (std::size_t rank = 0; rank < all.peers_.size(); ++rank)
      if (all.peers_[rank].handle == endpoint) {
        all.peers_[rank].status = status;
        all.failed_.push_back(int(rank));
      }
  }

  int rank_ = 0;
  peer_failure failures_;
  context_handle context_;
  bool reaches_device_ = false;
  worker_handle worker_;  // after context_: destroyed first
  std::vector<peer> peers_;
  std::vector<int> failed_;
  std::optional<std::chrono::steady_clock::time_point>
      idle_since_;  ///< begin of the current time without work
};

}  // namespace hcomp::ucx
