#pragma once
/// @file
/// Memory of the device, and what is known of every byte: who touched it last.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <new>

namespace hcomp::ptx {

/// Who touched a byte, and when. An epoch is a stretch of the warps of one thread block, or of some of
/// them, between two barriers at which they meet; epochs of all blocks and launches are numbered in the
/// order in which they begin, from 2 on.
struct access_record {
  std::uint64_t epoch : 38;       ///< 0: nobody; 1: the host, or a copy
  std::uint64_t warp_syncs : 11;  ///< that the warp had passed in this epoch
  std::uint64_t thread : 10;
  std::uint64_t atomic : 1;
  std::uint64_t lanes : 1;      ///< other lanes of the warp, too, since its last synchronisation
  std::uint64_t warps : 1;      ///< other warps, too, in this epoch
  std::uint64_t epochs : 1;     ///< warps in other epochs, too, that have not met this one since
  std::uint64_t elsewhere : 1;  ///< other blocks, too, in this launch
};
static_assert(sizeof(access_record) == 8);

struct byte_history {
  access_record written, read;
};

/// Histories of a range of bytes. Zero, and no memory until they are touched.
class histories {
 public:
  explicit histories(std::size_t bytes) : size_(bytes * sizeof(byte_history)) {
    if (size_ == 0) return;
    void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<byte_history*>(at);
  }
  histories(histories const&) = delete;
  histories& operator=(histories const&) = delete;
  ~histories() {
    if (first_) munmap(first_, size_);
  }
  byte_history* data() const { return first_; }

 private:
  std::size_t size_;
  byte_history* first_ = nullptr;
};

enum class memory_kind { device, managed, pinned, constant };

struct allocation {
  std::uint64_t begin, size;
  memory_kind kind;
  histories bytes;

  std::uint64_t end() const { return begin + size; }
  /// The host writes managed and pinned memory without anybody's notice.
  bool is_tracked() const { return kind == memory_kind::device; }
};

/// All allocations, by address.
class device_memory {
 public:
  allocation& add(std::uint64_t begin, std::size_t size, memory_kind kind) {
    auto& place = all_[begin];
    place.reset(new allocation{begin, size, kind, histories(size)});
    return *place;
  }
  bool remove(std::uint64_t begin) { return all_.erase(begin) > 0; }
  /// The one that `address` is in, or null.
  allocation* find(std::uint64_t address) const {
    auto after = all_.upper_bound(address);
    if (after == all_.begin()) return nullptr;
    auto& found = *std::prev(after)->second;
    return address < found.end() ? &found : nullptr;
  }
  /// The last one that begins at `address` or before, or null.
  allocation const* before(std::uint64_t address) const {
    auto after = all_.upper_bound(address);
    return after == all_.begin() ? nullptr : std::prev(after)->second.get();
  }
  allocation* find(void const* pointer) const {
    return find(reinterpret_cast<std::uintptr_t>(pointer));
  }

  /// Says that a copy or the host wrote these bytes.
  void set_written(void const* to, std::size_t size) const {
    if (allocation* const there = find(to); there && there->is_tracked())
      for (std::size_t i = 0, at = offset(*there, to); i < size && at + i < there->size; ++i)
        there->bytes.data()[at + i] = by_host(true);
  }
  /// A copy on the device copies what was never written as such.
  void copy_history(void const* to, void const* from, std::size_t size) const {
    allocation *const there = find(to), *const here = find(from);
    if (!there || !there->is_tracked()) return;
    if (!here || !here->is_tracked()) return set_written(to, size);
    auto* const t = there->bytes.data() + offset(*there, to);
    auto const* const h = here->bytes.data() + offset(*here, from);
    for (std::size_t i = 0; i < size; ++i) t[i] = by_host(h[i].written.epoch != 0);
  }

 private:
  std::map<std::uint64_t, std::unique_ptr<allocation>> all_;

  static byte_history by_host(bool is_written) {
    byte_history byte{};
    byte.written.epoch = is_written;
    return byte;
  }
  static std::size_t offset(allocation const& one, void const* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) - one.begin;
  }
};

}  // namespace hcomp::ptx
