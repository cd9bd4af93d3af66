// run: single
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <hcomp/ucx/context.hpp>
#include <hcomp/ucx/devices.hpp>
#include <hcomp/ucx/transport.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;

namespace {

struct listener {
  std::string address;  ///< in the kernel's format: hexadecimal, 0100007F is 127.0.0.1
  int port;
};

/// The addresses at which this process accepts IPv4 connections.
std::vector<listener> listeners() {
  std::vector<std::string> own;  // "socket:[12345]"
  for (auto const& it : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own.push_back(std::filesystem::read_symlink(it.path(), gone).string());
  }
  std::vector<listener> found;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);  // the header line
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
        inode;
    if (state == "0A" && std::count(own.begin(), own.end(), "socket:[" + inode + "]") > 0)
      found.push_back({local.substr(0, 8), std::stoi(local.substr(9), nullptr, 16)});
  }
  return found;
}

/// Whether UCX has mapped shared memory into this process.
bool has_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("ucx_shm") != line.npos || line.find("/SYSV") != line.npos) return true;
  return false;
}

/// Runs in a process of its own, because UCX reads its settings only once.
void check_rank(rank_body const& body) {
  auto const ranks = run_ranks(1, body);
  INFO(ranks[0].text);
  CHECK(ranks[0].how == ending::finished);
  CHECK(ranks[0].clean_exit);
}

}  // namespace

TEST_CASE("ucx settings: HCOMP_UCX_TCP_... reaches the interface, UCX_TCP_... does not") {
  check_rank([](member& self) {
    setenv("HCOMP_UCX_TCP_PORT_RANGE", "41000-41100", 1);
    setenv("UCX_TCP_PORT_RANGE", "42000-42100", 1);
    transport ours(self.rank, self.size, self.exchange());
    auto const found = listeners();
    must(!found.empty(), "a listener");
    for (auto const& it : found)
      must(it.port >= 41000 && it.port <= 41100,
           "a port of 41000-41100, not " + std::to_string(it.port));
  });
}

TEST_CASE("ucx settings: UCX_... applies where HCOMP_UCX_... is not set") {
  check_rank([](member& self) {
    setenv("UCX_TCP_PORT_RANGE", "42000-42100", 1);
    transport ours(self.rank, self.size, self.exchange());
    auto const found = listeners();
    must(!found.empty(), "a listener");
    for (auto const& it : found)
      must(it.port >= 42000 && it.port <= 42100,
           "a port of 42000-42100, not " + std::to_string(it.port));
  });
  auto const refused = run_ranks(1, [](member& self) {
    unsetenv("HCOMP_UCX_TLS");
    setenv("UCX_TLS", "nonsense", 1);
    transport ours(self.rank, self.size, self.exchange());
  });
  CHECK(refused[0].how == ending::gave_up);
}

TEST_CASE(
    "ucx settings: the option devices selects the listening address, before the environment") {
  check_rank([](member& self) {
    setenv("HCOMP_UCX_NET_DEVICES", "nonsense", 1);
    transport ours(self.rank, self.size, self.exchange(), {.devices = "lo"});
    auto const found = listeners();
    must(found.size() == 1, "one listener, not " + std::to_string(found.size()));
    must(found[0].address == "0100007F", "127.0.0.1, not " + found[0].address);
  });
}

TEST_CASE("ucx settings: shared memory alone opens no port") {
  check_rank([](member& self) {
    setenv("HCOMP_UCX_TLS", "posix,sysv,self", 1);
    transport ours(self.rank, self.size, self.exchange(), {.failures = peer_failure::ignore});
    must(listeners().empty(), "no listener");
  });
}

TEST_CASE("ucx settings: by default UCX opens shared memory only where it can carry messages") {
  // 4 MiB per rank: /dev/shm of a container is full with 16 ranks.
  for (auto const failures : {peer_failure::detect, peer_failure::ignore})
    check_rank([=](member& self) {
      unsetenv("HCOMP_UCX_TLS");
      transport ours(self.rank, self.size, self.exchange(), {.failures = failures});
      must(has_shared_memory() == (failures == peer_failure::ignore),
           "shared memory only where failures are ignored");
    });
}

TEST_CASE("ucx settings: by default a rank listens on no interface that leads to no other node") {
  check_rank([](member& self) {
    unsetenv("HCOMP_UCX_NET_DEVICES");
    auto const found = network_interfaces();
    transport ours(self.rank, self.size, self.exchange());
    bool const is_alone =
        std::ranges::all_of(found, [](auto const& one) { return is_inside_node(one.name.data()); });
    for (auto const& it : listeners())
      must(is_alone || it.address != "0100007F", "127.0.0.1 only if there is nothing else");
  });
}

TEST_CASE("ucx settings: TCP is allowed as in UCX's own reading of its transport list") {
  for (char const* yes : {"tcp", "tcp,self", "self,tcp", "all", "^posix", "^posix,sysv"})
    CHECK(allows_tcp(yes));
  for (char const* no : {"self", "posix,sysv,self", "^tcp", "^posix,tcp", "tcpx"})
    CHECK_FALSE(allows_tcp(no));
  for (char const* yes : {"tcp", "tcp,self", "self,tcp"}) CHECK(allows_only_tcp(yes));
  for (char const* no : {"all", "tcp,rc", "^rc", "posix,tcp", "tcpx"})
    CHECK_FALSE(allows_only_tcp(no));
}

TEST_CASE("ucx settings: messages in device memory need RDMA or CUDA IPC") {
  std::vector<std::string> const none, ports{"mlx5_0:1"};
  for (char const* transports : {static_cast<char const*>(nullptr), "all", "rc,cuda_copy", "^sm"}) {
    CHECK(uses_rdma(transports, ports));
    CHECK_FALSE(uses_rdma(transports, none));
  }
  for (char const* transports : {"tcp,self", "tcp,self,cuda_copy", "tcp,cuda"})
    CHECK_FALSE(uses_rdma(transports, ports));
  CHECK(allows_cuda_ipc(nullptr));
  for (char const* yes : {"all", "tcp,cuda", "tcp,self,cuda_ipc", "^sm"})
    CHECK(allows_cuda_ipc(yes));
  for (char const* no : {"tcp,self", "tcp,self,cuda_copy", "^cuda", "^sm,cuda_ipc"})
    CHECK_FALSE(allows_cuda_ipc(no));
}

TEST_CASE("ucx settings: over TCP long messages use the eager protocol") {
  // A rendezvous would wait behind the receiver's own messages. Eager: the receiver posts the
  // receive of the message only after a later message has arrived.
  auto const ranks_end = [](char const* threshold) {
    return run_ranks(2, [&](member& self) {
      setenv("HCOMP_UCX_TLS", "tcp,self", 1);  // also on nodes with RDMA devices
      if (threshold) setenv("HCOMP_UCX_RNDV_THRESH", threshold, 1);
      transport t(self.rank, self.size, self.exchange(), {.timeout = std::chrono::seconds(2)});
      auto const long_one = pattern(1 << 18, 1), later = pattern(8, 2);
      std::vector<std::byte> in(long_one.size()), first(later.size());
      if (self.rank == 0) {
        auto going = t.isend(1, 1, long_one);
        t.wait(going);
        auto last = t.isend(1, 2, later);
        t.wait(last);
      } else {
        auto coming = t.irecv(0, 2, first);
        t.wait(coming);
        auto before = t.irecv(0, 1, in);
        must(t.wait(before) == in.size() && in == long_one, "the bytes that were sent");
      }
    });
  };
  for (auto const& rank : ranks_end(nullptr)) {
    INFO(rank.text);
    CHECK(rank.how == ending::finished);
  }
  for (auto const& rank : ranks_end("64k")) CHECK(rank.how == ending::gave_up);
}
