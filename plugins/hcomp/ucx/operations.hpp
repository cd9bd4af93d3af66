#pragma once
/// @file
/// Pending sends and receives.

#include <ucp/api/ucp.h>

#include <cstddef>
#include <hcomp/transport/detail/deadline.hpp>
#include <hcomp/transport/transport.hpp>
#include <hcomp/ucx/context.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::ucx {

/// One send or receive of the caller.
struct operation {
  enum kind_t { send, receive } kind;
  int peer;
  tag_t tag;
  std::size_t bytes;  ///< sent, or capacity of the receive
  request_handle request = nullptr;
  std::optional<hcomp::detail::deadline> limit = {};  ///< starts with the first wait

  /// UCS_INPROGRESS; or UCS_OK with the bytes moved in `moved`; or an error.
  ucs_status_t test(std::size_t& moved) const {
    moved = bytes;
    if (kind == send) return ucp_request_check_status(request.get());
    ucp_tag_recv_info_t info{};
    ucs_status_t const status = ucp_tag_recv_request_test(request.get(), &info);
    moved = info.length;
    return status;
  }

  /// The start of error texts: "receive of up to 4096 bytes from rank 2 (tag 7)".
  std::string text() const {
    return (kind == send ? "send of " : "receive of up to ") + std::to_string(bytes) + " bytes " +
           (kind == send ? "to" : "from") + " rank " + std::to_string(peer) + " (tag " +
           std::to_string(tag) + ")";
  }
};

/// A table of pending operations with reusable slots. Allocates only if the number of pending
/// operations reaches a new maximum.
class operation_table {
 public:
  operation& operator[](int slot) { return slots_[std::size_t(slot)]; }
  bool empty() const { return free_.size() == slots_.size(); }

  int add(operation&& it) {
    if (free_.empty()) {
      free_.reserve(slots_.size() + 1);  // so that `remove` cannot fail
      slots_.push_back(std::move(it));
      return int(slots_.size()) - 1;
    }
    int const slot = free_.back();
    free_.pop_back();
    (*this)[slot] = std::move(it);
    return slot;
  }

  void remove(int slot) {
    (*this)[slot].request = nullptr;
    free_.push_back(slot);
  }

  /// Cancels receives without a matching message; all other operations end with their endpoints.
  void cancel_receives(ucp_worker_h worker) {
    for (auto const& it : slots_)
      if (it.kind == operation::receive && under_way(it.request))
        ucp_request_cancel(worker, it.request.get());
  }

  bool any_under_way() const {
    for (auto const& it : slots_)
      if (under_way(it.request)) return true;
    return false;
  }

  /// Returns all requests to UCX.
  void clear() {
    slots_.clear();
    free_.clear();
  }

 private:
  std::vector<operation> slots_;
  std::vector<int> free_;
};

}  // namespace hcomp::ucx
