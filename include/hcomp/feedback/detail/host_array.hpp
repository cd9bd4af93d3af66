#pragma once
/// @file
/// Where compensation keeps its values, in host memory.

#include <cstddef>
#include <utility>
#include <vector>

namespace hcomp::detail {

/// Values in host memory, zero at first. What stands for it elsewhere has the same functions.
template <class T> class host_array {
 public:
  explicit host_array(std::size_t values) : values_(values) {}

  T* data() { return values_.data(); }
  T const* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

  void clear() { values_.assign(values_.size(), T{}); }
  std::vector<T> const& to_host() const { return values_; }
  /// @param values  size() of them
  void from_host(std::vector<T>&& values) { values_ = std::move(values); }

 private:
  std::vector<T> values_;
};

}  // namespace hcomp::detail
