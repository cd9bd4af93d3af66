#pragma once
/// @file
/// Block work on the CPU: in the calling thread, or shared with a fixed pool of threads.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <hcomp/core/config.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/simd_level.hpp>
#include <hcomp/exec/executor.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hcomp {

/// Host memory aligned to a cache line; uninitialised.
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

/// A thread pool whose helpers share the blocks of a job with the caller. Jobs follow each other
/// closely, and waking a thread takes as long as encoding a segment. So helpers poll for the next
/// job for `timeout`, yielding the core, before they sleep.
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

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls work(context, first, end) for disjoint ranges that cover all blocks; returns when all
  /// are complete. `work` must not throw. Does not wait for helpers that wake after all blocks are
  /// taken.
  void run(std::size_t blocks, void (*work)(void const*, std::size_t, std::size_t),
           void const* context) {
    {
      std::lock_guard const lock(mutex_);
      blocks_ = blocks;
      work_ = work;
      context_ = context;
      next_.store(0, std::memory_order_relaxed);
      is_open_ = true;
      ++job_;
    }
    start_.notify_all();
    take_blocks();
    {
      std::lock_guard const lock(mutex_);
      is_open_ = false;
    }
    look_for([this] { return busy_ == 0; });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  static constexpr std::chrono::microseconds timeout{50};

  template <class F> static void look_for(F const& found) {
    auto const end = std::chrono::steady_clock::now() + timeout;
    while (!found() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
  void serve() {
    float_environment const environment;
    for (unsigned seen = 0;;) {
      look_for([&] { return job_ != seen; });
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return quit_ || (is_open_ && job_ != seen); });
      if (quit_) return;
      seen = job_;
      ++busy_;
      lock.unlock();
      take_blocks();
      lock.lock();
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
  std::atomic<int> busy_{0};  ///< helpers that are running work
  std::atomic<unsigned> job_{0};
  bool is_open_ = false, quit_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace detail

/// Runs blocks on the CPU with `Group` workers: `simd_group` by default, `serial_group` as the
/// reference.
///
/// With one thread all work runs in the caller. With more, `threads` - 1 helpers yield for 50
/// microseconds after a job, then sleep until the next. Movable; one caller at a time.
template <class Group> class basic_host_executor {
 public:
  static constexpr memory_space space = memory_space::host;
  using buffer = host_buffer;

  /// @throws std::invalid_argument  threads < 1, or HCOMP_MAX_SIMD names no level
  explicit basic_host_executor(int threads = 1) {
    if (threads < 1)
      throw std::invalid_argument(detail::error_text(
          {"host_executor: ", threads, " threads asked for, at least 1 is needed"}));
    best_simd_level();  // throws here, not in a helper
    if (threads > 1) crew_ = std::make_unique<detail::thread_crew>(threads - 1);
  }

  int threads() const { return crew_ ? crew_->threads() : 1; }

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    detail::float_environment const environment;
    if (crew_ && blocks > 1)
      crew_->run(blocks, &do_blocks<F>, &f);
    else
      do_blocks<F>(&f, 0, blocks);
  }

  void synchronize() {}

 private:
  /// Compiled once for both paths: kernels dominate the compile time of a program.
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
