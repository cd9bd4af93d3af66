#pragma once
/// @file
/// A small array that both the host and an executor's work look at.

#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <type_traits>

namespace hcomp {

/// Where the host can touch the executor's memory, there is one array; otherwise one on either
/// side. After construction nothing is allocated.
template <class T, Executor E> class mirror {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit mirror(std::size_t count) : memory_(count * sizeof(T)) {}

  /// For the executor's work.
  T* for_work() const { return reinterpret_cast<T*>(memory_.data()); }
  /// For the host.
  T* for_host() const { return for_work(); }
  /// What work has written is here afterwards: `count` of them from `first` on.
  void fetch(E& executor, std::size_t /*count*/, std::size_t /*first*/ = 0) {
    executor.synchronize();
  }
  /// What the host has written is there for work given afterwards; here it can be changed when that
  /// is done.
  void send(E&, std::size_t /*count*/, std::size_t /*first*/ = 0) {}

 private:
  typename E::buffer memory_;
};

template <class T, DeviceExecutor E> class mirror<T, E> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit mirror(std::size_t count) : there_(count * sizeof(T)), here_(count * sizeof(T)) {}

  T* for_work() const { return reinterpret_cast<T*>(there_.data()); }
  T* for_host() const { return reinterpret_cast<T*>(here_.data()); }
  void fetch(E& executor, std::size_t count, std::size_t first = 0) {
    executor.wait(
        executor.read(for_host() + first, there_.data() + first * sizeof(T), count * sizeof(T)));
  }
  void send(E& executor, std::size_t count, std::size_t first = 0) {
    executor.write(there_.data() + first * sizeof(T), for_host() + first, count * sizeof(T));
  }

 private:
  typename E::buffer there_;
  typename E::staging here_;
};

}  // namespace hcomp
