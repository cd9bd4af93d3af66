#pragma once
/// @file
/// A simulated device for collectives: memory that the host cannot touch, and work that runs only
/// when a caller waits for it.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <hcomp/core/config.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <mutex>
#include <new>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace hcomp::testing {

/// Memory that is accessible only while work runs. Access from outside ends the program (SIGSEGV),
/// unless another rank works at that moment.
class guarded_memory {
 public:
  static guarded_memory& get() {
    static guarded_memory memory;
    return memory;
  }

  std::byte* allocate(std::size_t bytes) {
    std::lock_guard const lock(mutex_);
    std::size_t const pages = (bytes + page - 1) / page + 1;  // plus a guard page
    if (used_ + pages * page > size) throw std::bad_alloc();
    auto* const place = begin_ + used_;
    used_ += pages * page;
    ++alive_;
    return place;
  }
  void release() {
    std::lock_guard const lock(mutex_);
    if (--alive_ > 0) return;
    madvise(begin_, used_, MADV_DONTNEED);
    used_ = 0;
  }
  bool has(void const* place) const { return place >= begin_ && place < begin_ + size; }

  /// While an object exists, all threads may access the memory.
  class opened {
   public:
    opened() : lock_(get().mutex_) { mprotect(get().begin_, size, PROT_READ | PROT_WRITE); }
    ~opened() { mprotect(get().begin_, size, PROT_NONE); }
    opened(opened const&) = delete;
    opened& operator=(opened const&) = delete;

   private:
    std::lock_guard<std::mutex> lock_;
  };

 private:
  guarded_memory() {
    void* const place =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(place);
  }

  static constexpr std::size_t page = 4096, size = std::size_t{1} << 30;
  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::size_t used_ = 0;
  int alive_ = 0;
};

/// Number of this thread's waits for unfinished work of guarded executors.
inline thread_local std::size_t waits_for_work = 0;

/// Number of buffers that this thread has made for guarded executors, staging buffers included.
/// Each one costs a call of a GPU's driver.
inline thread_local std::size_t buffers_made = 0;

class guarded_buffer {
 public:
  explicit guarded_buffer(std::size_t bytes)
      : bytes_(guarded_memory::get().allocate(bytes)), size_(bytes) {
    ++buffers_made;
  }
  guarded_buffer(guarded_buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  guarded_buffer& operator=(guarded_buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~guarded_buffer() {
    if (bytes_) guarded_memory::get().release();
  }

  std::byte* data() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* bytes_;
  std::size_t size_;
};

class staging_buffer : public host_buffer {
 public:
  explicit staging_buffer(std::size_t bytes) : host_buffer(bytes) { ++buffers_made; }
};

/// Like gpu::detail::device_array. All members except pointers need all work done.
template <class T> class guarded_array {
 public:
  explicit guarded_array(std::size_t values) : memory_(values * sizeof(T)) { clear(); }

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return memory_.size() / sizeof(T); }

  void clear() {
    guarded_memory::opened const open;
    std::fill_n(data(), size(), T{});
  }
  std::vector<T> to_host() const {
    guarded_memory::opened const open;
    return {data(), data() + size()};
  }
  void from_host(std::vector<T> const& values) {
    guarded_memory::opened const open;
    std::copy(values.begin(), values.end(), data());
  }

 private:
  guarded_buffer memory_;
};

class guarded_executor {
 public:
  static constexpr memory_space space = memory_space::device;
  using buffer = guarded_buffer;
  using staging = staging_buffer;
  template <class T> using array = guarded_array<T>;
  using mark = std::size_t;

  template <class F> void for_each_block(std::size_t blocks, F const& f) {
    give([blocks, f] {
      for (std::size_t i = 0; i < blocks; ++i) f(serial_group{}, i);
    });
  }
  mark read(void* to, std::byte const* from, std::size_t bytes) {
    return give([=] { copy(to, from, bytes); });
  }
  mark write(std::byte* to, void const* from, std::size_t bytes) {
    return give([=] { copy(to, from, bytes); });
  }
  void wait(mark done) {
    if (done_ < done) ++waits_for_work;
    guarded_memory::opened const open;
    for (; done_ < done; ++done_) {
      work_.front()();
      work_.pop();
    }
  }
  void synchronize() { wait(given_); }
  memory_space space_of(void const* place) const {
    return guarded_memory::get().has(place) ? memory_space::device : memory_space::host;
  }

 private:
  static void copy(void* to, void const* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);  // an empty vector has no address
  }
  mark give(std::function<void()> work) {
    work_.push(std::move(work));
    return ++given_;
  }

  std::queue<std::function<void()>> work_;
  mark given_ = 0, done_ = 0;
};

static_assert(DeviceExecutor<guarded_executor>);

/// Values in guarded memory, with copies to and from the host.
template <class T> class device_vector {
 public:
  device_vector(std::vector<T> const& x, guarded_executor& executor)
      : memory_(x.size() * sizeof(T)), executor_(&executor) {
    executor.wait(executor.write(memory_.data(), x.data(), memory_.size()));
  }
  std::span<T> span() const {
    return {reinterpret_cast<T*>(memory_.data()), memory_.size() / sizeof(T)};
  }
  std::vector<T> host() const {
    std::vector<T> x(memory_.size() / sizeof(T));
    executor_->wait(executor_->read(x.data(), memory_.data(), memory_.size()));
    return x;
  }

 private:
  guarded_buffer memory_;
  guarded_executor* executor_;
};

}  // namespace hcomp::testing
