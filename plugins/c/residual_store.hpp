#pragma once
/// @file
/// What encoding lost, kept from call to call within a limit of memory.

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

/// Which tensor a call is about.
///
/// The rule: calls on one communicator with the same buffer for the result, type and count are
/// about one tensor, or in turns about as many as the codec says. Only this rank needs to know:
/// a tensor that is not recognized begins with nothing lost.
struct tensor_key {
  std::uint64_t communicator;  ///< number of its state
  void const* buffer;          ///< for the result
  std::size_t values;
  std::uint32_t value_bytes;
  std::uint32_t turn;

  friend auto operator<=>(tensor_key const&, tensor_key const&) = default;
};

/// Residuals of all communicators of a rank. Used by any number of threads.
class residual_store {
 public:
  /// @param most_bytes  of memory; what was not used for longest is forgotten first
  explicit residual_store(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The residual of that tensor, new ones all 0; none if it is too large for the store. It stays
  /// in use, and is not forgotten, as long as somebody holds it.
  template <class V> std::shared_ptr<error_feedback<V>> take(tensor_key const& key) {
    std::lock_guard const lock(mutex_);
    if (auto const found = entries_.find(key); found != entries_.end()) {
      order_.splice(order_.end(), order_, found->second.place);
      return std::static_pointer_cast<error_feedback<V>>(found->second.residual);
    }
    // both the residual and the one that takes its place, see error_feedback
    std::size_t const bytes = 2 * key.values * sizeof(typename error_feedback<V>::residual_type);
    make_room(bytes);
    if (bytes > most_bytes_ || bytes_ > most_bytes_ - bytes) return nullptr;
    auto residual = std::make_shared<error_feedback<V>>(key.values);
    entries_[key] = {residual, bytes, order_.insert(order_.end(), key)};
    bytes_ += bytes;
    return residual;
  }

  /// Of a communicator that is no more.
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
  /// Tensors whose residual was forgotten for want of memory.
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
  void make_room(std::size_t bytes) {
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
  std::list<tensor_key> order_;  ///< the one that was used last is last
  std::size_t bytes_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace hcomp::drop_in
