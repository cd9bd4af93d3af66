#pragma once
/// @file
/// A link that carries one message at a time, for models of time.

#include <algorithm>
#include <hcomp/collective/cost/costs.hpp>

namespace hcomp::detail {

/// One direction of a rank's link, in or out.
class busy_link {
 public:
  explicit busy_link(link_cost const& cost) : cost_(cost) {}
  /// The time when a message that is sent at `now` has passed the link.
  double pass(double now, double bytes) {
    bool const asks = bytes > static_cast<double>(cost_.eager_bytes);
    is_free_ = std::max(is_free_, now + (asks ? cost_.seconds_of_rendezvous : 0)) +
               cost_.seconds_between_messages + bytes * cost_.seconds_per_byte;
    return is_free_;
  }

 private:
  link_cost cost_;
  double is_free_ = 0;
};

}  // namespace hcomp::detail
