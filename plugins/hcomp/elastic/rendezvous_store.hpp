#pragma once
/// @file
/// Rendezvous stores: how ranks without a connection find each other.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::elastic {

/// A key-value store of notes that all ranks of a job can read. Every job needs its own.
class rendezvous_store {
 public:
  rendezvous_store() = default;
  rendezvous_store(rendezvous_store const&) = delete;
  rendezvous_store& operator=(rendezvous_store const&) = delete;
  virtual ~rendezvous_store() = default;

  /// Stores a note unless the name already has one: the first note stays. Atomic.
  virtual void put(std::string const& name, std::span<std::byte const> note) = 0;
  /// Returns empty if the name has no note yet.
  virtual std::optional<std::vector<std::byte>> find(std::string const& name) = 0;

  /// Registers that this process is alive under a name, until it ends.
  virtual void live_as(std::string const& name) = 0;
  /// True only if a process registered under the name has certainly ended.
  virtual bool has_ended(std::string const& name) = 0;
};

/// Files in a directory shared by all ranks: on one node, or on a network file system with atomic
/// links and locks (NFS 4). File locks show which processes are alive: the kernel releases them
/// however a process ends.
class directory_store final : public rendezvous_store {
 public:
  /// @param path  directory of this run only; created if it does not exist
  /// @throws std::filesystem::filesystem_error  it cannot be created
  explicit directory_store(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }
  ~directory_store() override {
    for (auto const& [name, file] : lives_) ::close(file);
  }

  /// @throws std::runtime_error  the note cannot be written
  void put(std::string const& name, std::span<std::byte const> note) override {
    auto const place = path_ / name;
    auto const draft = path_ / (name + "." + std::to_string(::getpid()));
    {
      std::ofstream file(draft, std::ios::binary);
      file.write(reinterpret_cast<char const*>(note.data()),
                 static_cast<std::streamsize>(note.size()));
      file.close();
      if (!file) fail("cannot write", draft);
    }
    bool const is_up = ::link(draft.c_str(), place.c_str()) == 0 || errno == EEXIST;
    int const why = errno;
    ::unlink(draft.c_str());
    errno = why;
    if (!is_up) fail("cannot make", place);
  }
  std::optional<std::vector<std::byte>> find(std::string const& name) override {
    std::ifstream file(path_ / name, std::ios::binary);
    if (!file) return std::nullopt;
    std::vector<char> const bytes(std::istreambuf_iterator<char>(file), {});
    auto const* const first = reinterpret_cast<std::byte const*>(bytes.data());
    return std::vector<std::byte>(first, first + bytes.size());
  }

  /// @throws std::runtime_error  the file cannot be locked
  void live_as(std::string const& name) override {
    auto const place = path_ / (name + ".lives"), draft = path_ / (name + ".born");
    int const file = ::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail("cannot open", draft);
    lives_[name] = file;
    auto lock = whole_file();
    if (::fcntl(file, F_SETLK, &lock) != 0) fail("cannot lock", draft);
    if (::rename(draft.c_str(), place.c_str()) != 0) fail("cannot make", place);  // already locked
  }
  bool has_ended(std::string const& name) override {
    if (lives_.contains(name)) return false;  // closing the file here would release the lock
    auto const place = path_ / (name + ".lives");
    int const file = ::open(place.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return false;  // not registered yet
    auto lock = whole_file();
    bool const is_free = ::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    ::close(file);
    return is_free;
  }

 private:
  static struct ::flock whole_file() {
    struct ::flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
  }
  [[noreturn]] static void fail(char const* what, std::filesystem::path const& place) {
    throw std::runtime_error("rendezvous store: " + std::string(what) + " " + place.string() +
                             ": " + std::strerror(errno));
  }

  std::filesystem::path path_;
  std::map<std::string, int> lives_;  ///< files that this process has locked
};

}  // namespace hcomp::elastic
