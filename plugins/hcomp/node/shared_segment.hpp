#pragma once
/// @file
/// Memory shared by the ranks of one node. Linux.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/node/place.hpp>
#include <hcomp/transport/transport.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::node {

/// Memory shared by all ranks of a transport, which must be on one node. It has no name in any file
/// system: no other process can open it, and it disappears with the last rank, however the ranks
/// end.
class shared_segment {
 public:
  /// Largest number of segments of a process. Each takes a file descriptor, and often a process may
  /// open 1024.
  static constexpr int most = 256;

  /// Creates `bytes` zero bytes. Empty on all ranks alike if the ranks are not all in one place
  /// (see place_of_this_process), the memory is unavailable, or a process has `most` segments.
  /// Collective.
  template <Transport T>
  static std::optional<shared_segment> make(T& transport, tag_t tag, std::size_t bytes) {
    introduction mine{place_of_this_process(), ::getpid(), -1};
    file made;
    if (transport.rank() == 0 && count_ < most) {
      made = file(::memfd_create("hcomp", MFD_CLOEXEC));
      if (made.number < 0 || ::ftruncate(made.number, static_cast<off_t>(bytes)) != 0)
        mine.file = -1;
      else
        mine.file = made.number;
    }
    std::vector<introduction> all;
    all_gather_records(transport, tag, mine, all);
    bool together = all.front().file >= 0;
    for (auto const& one : all) together &= one.place == all.front().place;
    if (!together) return std::nullopt;  // on all ranks alike

    if (transport.rank() != 0 && count_ < most) made = file(opened(all.front()));
    shared_segment segment(std::move(made), bytes, transport.rank(), all);
    std::uint64_t has_failed = !segment.is_usable();
    unite_records(transport, tag, has_failed, [](auto& a, auto b) { a |= b; });
    if (has_failed) return std::nullopt;
    return segment;
  }

  shared_segment(shared_segment&& other) noexcept
      : file_(std::move(other.file_)),
        bytes_(std::exchange(other.bytes_, {})),
        rank_(other.rank_),
        processes_(std::move(other.processes_)) {}
  shared_segment& operator=(shared_segment&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(bytes_, other.bytes_);
    std::swap(rank_, other.rank_);
    std::swap(processes_, other.processes_);
    return *this;
  }
  ~shared_segment() {
    if (bytes_.data()) ::munmap(bytes_.data(), bytes_.size());
  }

  /// The same memory on all ranks, at different addresses.
  std::span<std::byte> bytes() const { return bytes_; }

  /// Copies `to.size()` bytes at an address of a rank's process. False if the kernel refuses it.
  bool read(int rank, std::uint64_t address, std::span<std::byte> to) const {
    auto const process = static_cast<::pid_t>(processes_[static_cast<std::size_t>(rank)]);
    while (!to.empty()) {
      ::iovec const here{to.data(), to.size()};
      ::iovec const there{reinterpret_cast<void*>(address), to.size()};
      auto const came = ::process_vm_readv(process, &here, 1, &there, 1, 0);
      if (came <= 0) return false;
      address += static_cast<std::uint64_t>(came);
      to = to.subspan(static_cast<std::size_t>(came));
    }
    return true;
  }

  /// Whether the process of a rank is alive and has mapped the segment, according to the kernel.
  bool lives(int rank) const {
    auto const process = processes_[static_cast<std::size_t>(rank)];
    if (process == processes_[static_cast<std::size_t>(rank_)]) return true;
    auto lock = lock_of(rank);
    return ::fcntl(file_.number, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  }

 private:
  struct introduction {
    std::uint64_t place = 0;
    std::int64_t process = 0;
    std::int64_t file = -1;
  };
  struct file {
    int number = -1;

    file() = default;
    explicit file(int opened) : number(opened) { count_ += number >= 0; }
    file(file&& other) noexcept : number(std::exchange(other.number, -1)) {}
    file& operator=(file&& other) noexcept {
      std::swap(number, other.number);
      return *this;
    }
    ~file() {
      if (number < 0) return;
      ::close(number);
      --count_;
    }
  };
  static inline std::atomic<int> count_{0};  ///< of open files

  shared_segment(file opened, std::size_t bytes, int rank, std::vector<introduction> const& all)
      : file_(std::move(opened)), rank_(rank) {
    for (auto const& one : all) processes_.push_back(one.process);
    // Held until the process ends, even if it forks: other ranks detect by it that the process is
    // alive.
    auto lock = lock_of(rank);
    if (file_.number < 0 || ::fcntl(file_.number, F_SETLK, &lock) != 0) return;
    // another size: a segment of another version, or a wrong file
    struct ::stat found = {};
    if (::fstat(file_.number, &found) != 0 || found.st_size != static_cast<off_t>(bytes)) return;
    void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number, 0);
    if (place != MAP_FAILED) bytes_ = {static_cast<std::byte*>(place), bytes};
  }
  bool is_usable() const { return bytes_.data() != nullptr; }

  static int opened(introduction const& owner) {
    std::string path = "/proc/";
    path.append(std::to_string(owner.process)).append("/fd/").append(std::to_string(owner.file));
    return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  static struct ::flock lock_of(int rank) {
    struct ::flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
  }

  file file_;
  std::span<std::byte> bytes_;
  int rank_;
  std::vector<std::int64_t> processes_;
};

}  // namespace hcomp::node
