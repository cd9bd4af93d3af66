#pragma once
/// @file
/// An executor that runs each block by several workers with shared memory, like thread blocks, and
/// arrays in an executor's memory.

#include <algorithm>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <span>
#include <support/worker_group.hpp>
#include <vector>

namespace workers {

/// Workers that share memory.
template <int Workers> class sharing_group : public worker_group<Workers> {
 public:
  sharing_group(worker_group<Workers> group, float* scratch)
      : worker_group<Workers>(group), scratch_(scratch) {}
  float* scratch() const { return scratch_; }

 private:
  float* scratch_;
};

/// 32 workers or a multiple, in warps. Scratch keeps the contents of the previous block.
template <int Workers> struct sharing_executor {
  static constexpr hcomp::memory_space space = hcomp::memory_space::host;
  using buffer = hcomp::host_buffer;

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    std::size_t bytes = 0;
    if constexpr (requires { f.scratch_bytes(); }) bytes = f.scratch_bytes();
    auto const all_blocks = [&](auto group) {
      for (std::size_t i = 0; i < blocks; ++i) {
        f(group, i);
        group.sync();
      }
    };
    if constexpr (Workers % 32 == 0) {
      run_in_warps<Workers>(bytes, all_blocks);
    } else {
      std::vector<float> scratch(bytes / sizeof(float), -7.0f);
      run<Workers>([&](auto group) { all_blocks(sharing_group<Workers>(group, scratch.data())); });
    }
  }
  void synchronize() {}
};

/// An array in the executor's memory.
template <class T, class E> class array {
 public:
  /// @param shift  index of the first value in the memory
  array(E& executor, std::vector<T> const& values, std::size_t shift = 0)
      : executor_(&executor),
        count_(values.size()),
        shift_(shift),
        memory_((count_ + shift) * sizeof(T)) {
    std::vector<T> all(shift, T{});
    all.insert(all.end(), values.begin(), values.end());
    if (all.empty()) return;
    if constexpr (hcomp::DeviceExecutor<E>)
      executor.wait(executor.write(memory_.data(), all.data(), memory_.size()));
    else
      std::copy_n(reinterpret_cast<std::byte const*>(all.data()), memory_.size(), memory_.data());
  }
  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.data()) + shift_, count_}; }
  std::vector<T> host() const {
    std::vector<T> all(count_ + shift_);
    if (all.empty()) return all;
    if constexpr (hcomp::DeviceExecutor<E>)
      executor_->wait(executor_->read(all.data(), memory_.data(), memory_.size()));
    else
      std::copy_n(memory_.data(), memory_.size(), reinterpret_cast<std::byte*>(all.data()));
    return {all.begin() + static_cast<std::ptrdiff_t>(shift_), all.end()};
  }

 private:
  E* executor_;
  std::size_t count_, shift_;
  typename E::buffer memory_;
};

}  // namespace workers
