#pragma once
/// @file
/// Buffers that are reused between calls.

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace hcomp::drop_in {

/// Pool of host buffers for concurrent calls. First use of new memory takes as long as a fast
/// network, so the pool keeps every buffer. It holds the largest number of buffers ever in use at
/// once. Thread-safe.
class spare_memory {
 public:
  /// One buffer, returned to the pool on destruction. Must not outlive the spare_memory.
  class lent {
   public:
    lent(lent&&) noexcept = default;
    lent& operator=(lent&&) = delete;
    ~lent() {
      if (bytes_.capacity() > 0) from_->give_back(std::move(bytes_));
    }
    std::vector<std::byte>& get() { return bytes_; }

   private:
    friend spare_memory;
    lent(spare_memory& from, std::vector<std::byte> bytes)
        : from_(&from), bytes_(std::move(bytes)) {}
    spare_memory* from_;
    std::vector<std::byte> bytes_;
  };

  lent take(std::size_t bytes) {
    std::vector<std::byte> piece;
    {
      std::lock_guard const lock(mutex_);
      if (!spare_.empty()) {
        piece = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (piece.size() < bytes) piece.resize(bytes);
    return {*this, std::move(piece)};
  }

 private:
  void give_back(std::vector<std::byte> piece) noexcept {
    std::lock_guard const lock(mutex_);
    try {
      spare_.push_back(std::move(piece));
    } catch (...) {  // out of memory: the buffer is freed
    }
  }

  std::mutex mutex_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace hcomp::drop_in
