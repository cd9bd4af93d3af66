#pragma once
/// @file
/// Compensation state in host memory.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Values in host memory, initially zero. Array types of other memory spaces have the same
/// functions.
template <class T> class host_array {
 public:
  explicit host_array(std::size_t values) : own_(values) {}
  /// @param borrowed  memory of the caller; its values stay
  explicit host_array(std::span<T> borrowed) : borrowed_(borrowed) {}

  T* data() const { return all().data(); }
  std::size_t size() const { return all().size(); }

  void clear() { std::ranges::fill(all(), T{}); }
  std::vector<T> to_host() const { return {all().begin(), all().end()}; }
  /// @param values  size() values
  void from_host(std::vector<T> const& values) { std::ranges::copy(values, data()); }

 private:
  std::span<T> all() const {
    return own_.empty() ? borrowed_ : std::span(const_cast<T*>(own_.data()), own_.size());
  }

  std::vector<T> own_;  ///< empty if the values are borrowed
  std::span<T> borrowed_;
};

}  // namespace hcomp::detail
