// run: single
// main: own
// timeout: 120
//
// A cable between two hosts is pulled: each rank lives in a network namespace of its own, a veth
// pair joins them, and nobody says goodbye. The namespaces are those of the processes and go with
// them. Needs the right to make network namespaces; without it the test says so and counts as
// skipped.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <hcomp/ucx/transport.hpp>
#include <string>
#include <vector>

#include "support.hpp"

using namespace hcomp;
using namespace hcomp::ucx;
using namespace hcomp::ucx::testing;
using namespace std::chrono_literals;

namespace {

bool shell(std::string const& command) { return std::system(command.c_str()) == 0; }

/// A network of this process alone. UCX lists devices by /sys, which shows the network it was
/// mounted in, so there is a new one of that as well.
bool enter_own_network() {
  return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/sys", "sysfs", 0, nullptr) == 0;
}

/// In a child process: `action` decides the answer.
template <class Action> bool in_child(Action action) {
  std::fflush(nullptr);
  pid_t const id = fork();
  if (id == 0) _exit(action() ? 0 : 1);
  int status = 1;
  return id > 0 && waitpid(id, &status, 0) == id && status == 0;
}

bool may_make_networks() {
  return in_child([] {
    return enter_own_network() &&
           shell("ip link add hcomp0 type veth peer name hcomp1 >/dev/null 2>&1");
  });
}

/// Run `command` in the network of process `id`.
bool in_network_of(pid_t id, std::string const& command) {
  return in_child([&] {
    int const network = open(("/proc/" + std::to_string(id) + "/ns/net").c_str(), O_RDONLY);
    return network >= 0 && setns(network, CLONE_NEWNET) == 0 && shell(command);
  });
}

/// Both ends of a cable: 10.77.0.1 on rank 0, 10.77.0.2 on rank 1, and no other network.
void plug_in(member& self) {
  must(enter_own_network(), "a network namespace");
  self.meet();
  if (self.rank == 0)
    must(shell("ip link add hcomp0 type veth peer name hcomp1 netns " + std::to_string(self.id(1))),
         "a veth pair");
  self.meet();
  std::string const device = "hcomp" + std::to_string(self.rank);
  must(shell("ip address add 10.77.0." + std::to_string(self.rank + 1) + "/24 dev " + device +
             " && ip link set " + device + " up"),
       "an address on " + device);
  self.meet();
  // The kernel notices a little later that the other end is up too.
  bool running = false;
  for (double const start = now(); !running && now() - start < 20; usleep(10'000))
    running = shell("grep -qx up /sys/class/net/" + device + "/operstate");
  must(running, device + " running");
  self.meet();
  setenv("HCOMP_UCX_TLS", "tcp,self", 1);
  setenv("HCOMP_UCX_NET_DEVICES", device.c_str(), 1);
}

}  // namespace

TEST_CASE("ucx fault: a link cut; both sides give up within the time limit") {
  for (std::size_t bytes : {std::size_t{64}, std::size_t{4'000'000}}) {
    CAPTURE(bytes);
    auto const ranks = run_ranks(
        2,
        [&](member& self) {
          plug_in(self);
          transport ring(self.rank, self.size, self.exchange(), {.timeout = 2s});
          auto const out = pattern(bytes, 1);
          std::vector<std::byte> in(bytes);
          for (double const start = now(); now() - start < hang_seconds; self.step())
            shift(ring, 1, out, in);
        },
        [](director& fate) {
          fate.await_steps(1, 10);
          fate.mark_fault();
          if (!in_network_of(fate.id(1), "ip link set hcomp1 down"))
            std::perror("cutting the link");
        });
    for (int rank : {0, 1}) {
      auto const& it = ranks[std::size_t(rank)];
      INFO("after " << it.seconds << " s: " << it.text);
      CHECK(it.how == ending::gave_up);
      CHECK(it.peer == 1 - rank);
      CHECK(it.seconds < 8);  // 2 s, half a second for answers, room for a busy machine
      CHECK(it.clean_exit);
    }
  }
}

int main(int argc, char** argv) {
  if (!may_make_networks()) {
    std::printf("Skipped: this process may not make network namespaces and veth pairs\n");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
