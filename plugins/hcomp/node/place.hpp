#pragma once
/// @file
/// Detects processes on one node. Linux.

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <string>

namespace hcomp::node {

/// Equal for processes of one user on one node, in one container and network namespace; different
/// for any other process. Unique per process if it cannot be determined.
inline std::uint64_t place_of_this_process() {
  std::string boot;  // of this boot of the machine
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct ::stat processes = {}, network = {};
  bool const is_known = !boot.empty() && ::stat("/proc/self/ns/pid", &processes) == 0 &&
                        ::stat("/proc/self/ns/net", &network) == 0;
  auto const bytes = reinterpret_cast<std::byte const*>(boot.data());
  std::uint64_t place = fingerprint(serial_group{}, bytes, boot.size());
  for (std::uint64_t const one :
       {std::uint64_t{processes.st_ino}, std::uint64_t{network.st_ino}, std::uint64_t{::geteuid()},
        is_known ? 0 : static_cast<std::uint64_t>(::getpid())})
    place = mix(place ^ one);
  return place;
}

}  // namespace hcomp::node
