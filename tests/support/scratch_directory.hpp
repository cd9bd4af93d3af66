#pragma once
/// @file
/// A temporary directory of one test.

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

namespace hcomp::testing {

class scratch_directory {
 public:
  scratch_directory() {
    char name[] = "/tmp/hcomp_test.XXXXXX";
    if (mkdtemp(name) == nullptr) throw std::runtime_error("a directory can be made");
    path_ = name;
  }
  ~scratch_directory() { std::filesystem::remove_all(path_); }
  scratch_directory(scratch_directory const&) = delete;
  scratch_directory& operator=(scratch_directory const&) = delete;
  std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace hcomp::testing
