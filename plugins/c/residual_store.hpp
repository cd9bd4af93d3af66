#pragma once
/// @file
/// Residuals of error feedback, kept between calls within a memory limit.

#include <cstddef>
#include <cstdint>
#include <hcomp/feedback/error_feedback.hpp>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace hcomp::drop_in {

/// Identifies the tensor of a call.
///
/// Calls on one communicator with the same result buffer, type and count refer to one tensor. With
/// key `turns` of the codec they cycle through that number of tensors. The key is local to this
/// rank: an unknown tensor starts with a zero residual.
struct tensor_key {
  std::uint64_t communicator;  ///< number of the communicator's plan_cache
  void const* buffer;          ///< result buffer
  std::size_t values;
  std::uint32_t value_bytes;
  std::uint32_t turn;
  bool is_on_device = false;  ///< the residual is in device memory

  friend auto operator<=>(tensor_key const&, tensor_key const&) = default;
};

/// Residuals of all communicators of a rank. Thread-safe.
class residual_store {
 public:
  /// @param most_bytes  memory limit; the least recently used residual is dropped first
  explicit residual_store(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The residual of the tensor, zero for a new one. Null if it exceeds the memory limit. A
  /// residual in use is never dropped.
  template <class V> std::shared_ptr<error_feedback<V>> take(tensor_key const& key) {
    return take<V>(key, [&] { return std::make_shared<error_feedback<V>>(key.values); });
  }
  /// @param make  () returns a shared_ptr to a residual of zeros, in the memory of the key
  template <class V, class Make> auto take(tensor_key const& key, Make const& make) {
    using pointer = decltype(make());
    std::lock_guard const lock(mutex_);
    if (auto const found = entries_.find(key); found != entries_.end()) {
      order_.splice(order_.end(), order_, found->second.place);
      return std::static_pointer_cast<typename pointer::element_type>(found->second.residual);
    }
    // the current residual and its successor
    std::size_t const bytes = 2 * key.values * sizeof(typename error_feedback<V>::residual_type);
    evict_for(bytes);
    if (bytes > most_bytes_ || bytes_ > most_bytes_ - bytes) return pointer();
    pointer residual = make();
    entries_[key] = {residual, bytes, order_.insert(order_.end(), key)};
    bytes_ += bytes;
    return residual;
  }

  /// Drops the residuals of a freed communicator.
  void forget(std::uint64_t communicator) {
    std::lock_guard const lock(mutex_);
    auto const first = entries_.lower_bound({communicator, nullptr, 0, 0, 0});
    auto const end = entries_.lower_bound({communicator + 1, nullptr, 0, 0, 0});
    for (auto one = first; one != end;) one = erase(one);
  }

  std::size_t bytes() const {
    std::lock_guard const lock(mutex_);
    return bytes_;
  }
  /// Number of residuals dropped because of the memory limit.
  std::uint64_t forgotten() const {
    std::lock_guard const lock(mutex_);
    return forgotten_;
  }

 private:
  struct entry {
    std::shared_ptr<void> residual;
    std::size_t bytes = 0;
    std::list<tensor_key>::iterator place;
  };
  using entries = std::map<tensor_key, entry>;

  entries::iterator erase(entries::iterator one) {
    bytes_ -= one->second.bytes;
    order_.erase(one->second.place);
    return entries_.erase(one);
  }
  void evict_for(std::size_t bytes) {
    for (auto key = order_.begin();
         key != order_.end() && bytes <= most_bytes_ && bytes_ > most_bytes_ - bytes;) {
      auto const one = entries_.find(*key++);
      if (one->second.residual.use_count() > 1) continue;
      erase(one);
      ++forgotten_;
    }
  }

  std::size_t const most_bytes_;
  mutable std::mutex mutex_;
  entries entries_;
  std::list<tensor_key> order_;  ///< most recently used last
  std::size_t bytes_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace hcomp::drop_in
