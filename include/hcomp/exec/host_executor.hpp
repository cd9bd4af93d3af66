#pragma once
/// @file
/// Block work on the CPU: in the calling thread, or shared with a fixed crew of helper threads.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/executor.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hcomp {

/// Host memory that starts on a cache line; contents uninitialised.
class host_buffer {
 public:
  host_buffer() = default;
  explicit host_buffer(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::operator new(bytes, alignment))), size_(bytes) {}

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
  };
  std::unique_ptr<std::byte, release> bytes_;
  std::size_t size_ = 0;
};

namespace detail {

/// Threads that wait for a job and share its blocks out among themselves and the caller.
class thread_crew {
 public:
  explicit thread_crew(int helpers) {
    for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
  }
  thread_crew(thread_crew const&) = delete;
  thread_crew& operator=(thread_crew const&) = delete;
  ~thread_crew() {
    {
      std::lock_guard const lock(mutex_);
      quit_ = true;
    }
    start_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Calls work(context, first, end) for parts of all blocks and returns when all are done. `work`
  /// must not throw.
  void run(std::size_t blocks, void (*work)(void const*, std::size_t, std::size_t),
           void const* context) {
    {
      std::lock_guard const lock(mutex_);
      blocks_ = blocks;
      work_ = work;
      context_ = context;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(threads_.size());
      ++job_;
    }
    start_.notify_all();
    take_blocks();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void serve() {
    for (unsigned seen = 0;;) {
      {
        std::unique_lock lock(mutex_);
        start_.wait(lock, [&] { return quit_ || job_ != seen; });
        if (quit_) return;
        seen = job_;
      }
      take_blocks();
      std::lock_guard const lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }
  void take_blocks() {
    for (;;) {
      std::size_t const i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= blocks_) return;
      work_(context_, i, i + 1);
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::size_t blocks_ = 0;
  void (*work_)(void const*, std::size_t, std::size_t) = nullptr;
  void const* context_ = nullptr;
  std::atomic<std::size_t> next_{0};
  int busy_ = 0;
  unsigned job_ = 0;
  bool quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace detail

/// Runs blocks on the CPU with `Group` lanes: `simd_group` by default, `serial_group` for
/// reference.
///
/// With one thread everything happens in the caller; with more, `threads` - 1 helpers wait between
/// jobs without using the processor. Movable; one caller at a time.
template <class Group> class basic_host_executor {
 public:
  static constexpr memory_space space = memory_space::host;
  using buffer = host_buffer;

  /// @throws std::invalid_argument  threads < 1
  explicit basic_host_executor(int threads = 1) {
    if (threads < 1)
      throw std::invalid_argument("host_executor: " + std::to_string(threads) +
                                  " threads asked for, at least 1 is needed");
    if (threads > 1) crew_ = std::make_unique<detail::thread_crew>(threads - 1);
  }

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    if (crew_ && blocks > 1)
      crew_->run(blocks, &do_blocks<F>, &f);
    else
      do_blocks<F>(&f, 0, blocks);
  }

  void synchronize() {}

 private:
  /// Compiled once for both ways to run it: kernels are most of what a program compiles.
  template <class F>
  [[gnu::noinline]] static void do_blocks(void const* f, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) (*static_cast<F const*>(f))(Group{}, i);
  }

  std::unique_ptr<detail::thread_crew> crew_;
};

using host_executor = basic_host_executor<simd_group>;
using reference_executor = basic_host_executor<serial_group>;

static_assert(Executor<host_executor>);

}  // namespace hcomp
