#pragma once
/// @file
/// Network namespaces for ranks, connected by cables that a test can pull.
///
/// A namespace belongs to its process and ends with it.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support.hpp"

namespace hcomp::ucx::testing {

inline bool shell(std::string const& command) { return std::system(command.c_str()) == 0; }

/// Enters a network namespace of this process. UCX lists devices from /sys, which shows the network
/// of the mount; therefore mounts a new /sys, too.
inline bool enter_own_network() {
  return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/sys", "sysfs", 0, nullptr) == 0;
}

/// Runs `action` in a child process and returns its result.
template <class Action> bool in_child(Action action) {
  return child_process([&] { return action() ? 0 : 1; }).wait() == 0;
}

/// Returns whether this process has the rights and the tools.
inline bool may_make_networks() {
  return in_child([] {
    return enter_own_network() &&
           shell(
               "ip link add hcomp0 type veth peer name hcomp1 >/dev/null 2>&1 && "
               "ip link add hcomp2 type bridge >/dev/null 2>&1");
  });
}

/// Moves this process into a network that connects the ranks, as a switch. Ranks are its children.
inline bool become_switch() {
  return enter_own_network() && shell("ip link add switch type bridge && ip link set switch up");
}

/// The switch's end of a rank's cable. Its name contains the process id, because old ends may
/// disappear late.
inline std::string port_of(pid_t rank) { return "port" + std::to_string(rank); }

/// Called by the switch: from now on all packets from and to the rank are dropped.
inline bool pull_cable(pid_t rank) {
  return shell("ip link set " + port_of(rank) + " down 2>/dev/null");
}

/// The network of some ranks. Its addresses are new, because earlier ranks may answer for a while
/// after their end.
struct lan {
  pid_t hub;   ///< process of the switch
  int number;  ///< of this network

  std::string address_of(int rank) const {
    return "10.77." + std::to_string(number % 256) + "." + std::to_string(rank + 1);
  }
};

/// Called by the switch before it forks ranks.
inline lan next_lan() {
  static int number = 0;
  return {getpid(), number++};
}

/// Called by all ranks: gives each an address and a cable to the switch, and no other network.
inline void plug_in(member& self, lan const& joined) {
  int const network = open(("/proc/" + std::to_string(joined.hub) + "/ns/net").c_str(), O_RDONLY);
  must(network >= 0 && enter_own_network(), "a network namespace");
  std::string const id = std::to_string(getpid()), port = port_of(getpid());
  must(in_child([&] {
         return setns(network, CLONE_NEWNET) == 0 &&
                shell("ip link add " + port + " type veth peer name eth0 netns " + id +
                      " && ip link set " + port + " master switch up");
       }),
       "a cable to the switch");
  close(network);
  must(shell("ip address add " + joined.address_of(self.rank) +
             "/24 dev eth0 && ip link set eth0 up"),
       "an address on eth0");
  // The kernel detects a little later that the other end is up, too.
  bool running = false;
  for (double const start = now(); !running && now() - start < 20; usleep(5'000))
    running = shell("grep -qx up /sys/class/net/eth0/operstate");
  must(running, "eth0 running");
  setenv("HCOMP_UCX_TLS", "tcp,self", 1);
  setenv("HCOMP_UCX_NET_DEVICES", "eth0", 1);
  self.meet();
}

/// Makes the kernel learn the location of `rank`: sends a packet to a closed port, which is
/// rejected.
inline bool meet_neighbour(lan const& joined, int rank) {
  int const end = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, joined.address_of(rank).c_str(), &to.sin_addr);
  bool const refused =
      connect(end, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 && errno == ECONNREFUSED;
  close(end);
  return refused;
}

}  // namespace hcomp::ucx::testing
