#pragma once
/// @file
/// A small array that both the host and an executor's work access.

#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <type_traits>

namespace hcomp {

/// One array if the host can access the executor's memory; otherwise one on each side. Allocates
/// only in the constructor.
template <class T, Executor E> class mirror {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit mirror(std::size_t count) : memory_(count * sizeof(T)) {}

  std::size_t count() const { return memory_.size() / sizeof(T); }
  /// The array for the executor's work.
  T* for_work() const { return reinterpret_cast<T*>(memory_.data()); }
  /// The array for the host.
  T* for_host() const { return for_work(); }
  /// Makes elements `first` to `first` + `count` - 1, as written by work, visible to the host.
  void fetch(E& executor, std::size_t /*count*/, std::size_t /*first*/ = 0) {
    executor.synchronize();
  }
  /// Makes elements written by the host visible to work submitted afterwards. The host may change
  /// them again when that work is complete.
  void send(E&, std::size_t /*count*/, std::size_t /*first*/ = 0) {}

 private:
  typename E::buffer memory_;
};

template <class T, DeviceExecutor E> class mirror<T, E> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit mirror(std::size_t count) : on_device_(count * sizeof(T)), on_host_(count * sizeof(T)) {}

  std::size_t count() const { return on_device_.size() / sizeof(T); }
  T* for_work() const { return reinterpret_cast<T*>(on_device_.data()); }
  T* for_host() const { return reinterpret_cast<T*>(on_host_.data()); }
  void fetch(E& executor, std::size_t count, std::size_t first = 0) {
    executor.wait(executor.read(for_host() + first, on_device_.data() + first * sizeof(T),
                                count * sizeof(T)));
  }
  void send(E& executor, std::size_t count, std::size_t first = 0) {
    executor.write(on_device_.data() + first * sizeof(T), for_host() + first, count * sizeof(T));
  }

 private:
  typename E::buffer on_device_;
  typename E::staging on_host_;
};

}  // namespace hcomp
