#pragma once
/// @file
/// Memory of the device, and the last accesses of every byte.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <new>

namespace hcomp::ptx {

/// The last access of a byte. An epoch is the work of the warps of one thread block, or of some of
/// them, between two barriers at which they meet. Epochs of all blocks and launches are numbered in
/// the order of their begin, from 2 on.
struct access_record {
  std::uint64_t epoch : 38;       ///< 0: never; 1: by the host, or a copy
  std::uint64_t warp_syncs : 11;  ///< syncs of the warp in this epoch before the access
  std::uint64_t thread : 10;
  std::uint64_t atomic : 1;
  std::uint64_t lanes : 1;      ///< also other lanes of the warp, since its last synchronisation
  std::uint64_t warps : 1;      ///< also other warps, in this epoch
  std::uint64_t epochs : 1;     ///< also warps in other epochs that have not met this one since
  std::uint64_t elsewhere : 1;  ///< also other blocks, in this launch
};
static_assert(sizeof(access_record) == 8);

struct byte_history {
  access_record written, read;
};

/// Access records of a range of bytes. They start as zero, and take no memory until they are
/// touched.
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
  /// The host can write managed and pinned memory undetected.
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
  /// The allocation that contains `address`, or null.
  allocation* find(std::uint64_t address) const {
    auto after = all_.upper_bound(address);
    if (after == all_.begin()) return nullptr;
    auto& found = *std::prev(after)->second;
    return address < found.end() ? &found : nullptr;
  }
  /// The last allocation that begins at or before `address`, or null.
  allocation const* before(std::uint64_t address) const {
    auto after = all_.upper_bound(address);
    return after == all_.begin() ? nullptr : std::prev(after)->second.get();
  }
  allocation* find(void const* pointer) const {
    return find(reinterpret_cast<std::uintptr_t>(pointer));
  }

  /// Records that a copy or the host wrote these bytes.
  void set_written(void const* to, std::size_t size) const {
    if (allocation* const allocated = find(to); allocated && allocated->is_tracked())
      for (std::size_t i = 0, at = offset(*allocated, to); i < size && at + i < allocated->size;
           ++i)
        allocated->bytes.data()[at + i] = by_host(true);
  }
  /// Copies the records, too: bytes that were never written remain so after a copy on the device.
  void copy_history(void const* to, void const* from, std::size_t size) const {
    allocation *const allocated = find(to), *const here = find(from);
    if (!allocated || !allocated->is_tracked()) return;
    if (!here || !here->is_tracked()) return set_written(to, size);
    auto* const t = allocated->bytes.data() + offset(*allocated, to);
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
