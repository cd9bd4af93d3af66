#pragma once
/// @file
/// Compensation state in host memory.

#include <cstddef>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Values in host memory, initially zero. Array types of other memory spaces have the same
/// functions.
template <class T> class host_array {
 public:
  explicit host_array(std::size_t values) : values_(values) {}

  T* data() { return values_.data(); }
  T const* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  void clear() { values_.assign(values_.size(), T{}); }
  std::vector<T> const& to_host() const { return values_; }
  /// @param values  size() values
  void from_host(std::vector<T>&& values) { values_ = std::move(values); }

 private:
  std::vector<T> values_;
};

}  // namespace hcomp::detail
