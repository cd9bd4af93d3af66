/// @file
/// A switch whose links have a rate, a delay, losses and short queues; for kernels without netem.
///
///   switch --rate BITS --delay US --loss PPM --queue BYTES --seed N --counters FILE
///          [--card LIBRARY --bound E] NETWORK...
///
/// Creates a TAP device eth0 in every network namespace (a file as /proc/<pid>/ns/net), prints
/// "ready", and forwards frames between them until a signal ends it. A rate of 0 means no limit.
/// After SIGUSR1, FILE contains a line "<lost> <dropped>" per namespace: frames from it lost by
/// chance, and frames from or to it dropped at a full queue.
///
/// With a card, every node's link has INCEPTIONN's engine at the node's end: see host_card.hpp.
/// Then FILE.cards contains a line "<packets> <values> <bytes> <damaged> <cycles> <cycles>" per
/// namespace: compressed packets, their values and bytes, damaged packets, and the clock cycles of
/// the compressor and the decompressor.
///
/// The device of namespace i has the address 02:77:00:00:00:<i + 1>, set by lab.sh. Frames to any
/// other address go to all devices. The size of a frame includes its header of 14 bytes, but no
/// preamble, checksum or gap, as in the kernel's own queues.

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <hcomp/core/random.hpp>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host_card.hpp"

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using instant = steady::time_point;
using lab::frame;

/// @throws std::runtime_error  with the system's error text, if `result` is negative
int must(int result, std::string const& what) {
  if (result < 0) throw std::runtime_error(what + ": " + std::strerror(errno));
  return result;
}

struct link_settings {
  double bits_per_second;          ///< 0: no limit
  std::chrono::nanoseconds delay;  ///< between two nodes
  double loss;                     ///< share of the frames from a node
  double queue_bytes;              ///< capacity of the queue at each end of the switch's links
  std::uint64_t seed;
};

/// One direction of a link: frames leave one after the other at its rate, and arrive after a delay.
class line {
 public:
  line(link_settings const& settings, std::chrono::nanoseconds delay)
      : seconds_per_byte_(settings.bits_per_second > 0 ? 8 / settings.bits_per_second : 0),
        longest_wait_(seconds(settings.queue_bytes * seconds_per_byte_)),
        delay_(delay) {}

  /// @return whether it had room for the frame
  bool take(frame&& it, instant now) {
    instant const start = std::max(now, free_);
    if (start - now > longest_wait_) return false;
    free_ = start + seconds(static_cast<double>(it.size()) * seconds_per_byte_);
    under_way_.emplace_back(free_ + delay_, std::move(it));
    return true;
  }

  /// Arrival of the next frame; `instant::max()` if no frame is in flight.
  instant next() const { return under_way_.empty() ? instant::max() : under_way_.front().first; }

  frame give() {
    frame it = std::move(under_way_.front().second);
    under_way_.pop_front();
    return it;
  }

 private:
  static steady::duration seconds(double value) {
    return std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(value));
  }

  double seconds_per_byte_;
  steady::duration longest_wait_;
  std::chrono::nanoseconds delay_;
  instant free_{};
  std::deque<std::pair<instant, frame>> under_way_;  // ordered by time
};

/// Creates a TAP device eth0 in the namespace of the file `network`. The calling thread stays in
/// that namespace.
int make_device(std::string const& network) {
  int const space = must(open(network.c_str(), O_RDONLY | O_CLOEXEC), "opening " + network);
  must(setns(space, CLONE_NEWNET), "entering " + network);
  close(space);
  int const device = must(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strcpy(request.ifr_name, "eth0");
  must(ioctl(device, TUNSETIFF, &request), "making eth0 in " + network);
  return device;
}

/// State of one node.
struct port {
  int device;
  line from_host, to_host;
  lab::host_card card;
  std::uint64_t frames = 0;   ///< read from it
  std::uint64_t lost = 0;     ///< frames lost by chance
  std::uint64_t dropped = 0;  ///< frames from it or to it dropped at a full queue
};

class lab_switch {
 public:
  lab_switch(std::vector<std::string> const& networks, link_settings const& settings,
             std::string const& card, unsigned bound_exponent)
      : settings_(settings) {
    int const home = must(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), "/proc/self/ns/net");
    for (auto const& network : networks)
      ports_.push_back({make_device(network), line(settings, settings.delay), line(settings, 0ns),
                        lab::host_card(card, bound_exponent)});
    must(setns(home, CLONE_NEWNET), "going back to the first network");
    close(home);
  }

  /// Forwards frames that have arrived, and waits for more until a signal that `open` allows.
  void work(sigset_t const& open) {
    instant const soonest = pass_on();
    std::vector<pollfd> devices;
    for (auto const& it : ports_) devices.push_back({it.device, POLLIN, 0});
    auto const wait = std::max<steady::duration>(soonest - steady::now(), 0ns);
    timespec const limit{wait / 1s, wait % 1s / 1ns};
    int const ready =
        ppoll(devices.data(), devices.size(), soonest == instant::max() ? nullptr : &limit, &open);
    if (ready < 0 && errno != EINTR) must(ready, "waiting for frames");
    if (ready <= 0) return;
    for (std::size_t i = 0; i < ports_.size(); ++i)
      if (devices[i].revents != 0) listen_to(i);
  }

  /// Writes the file in one step: a reader finds no file or a complete one.
  void write_counters(std::string const& file) const {
    {
      std::ofstream out(file + ".new");
      for (auto const& it : ports_) out << it.lost << ' ' << it.dropped << '\n';
    }
    {
      std::ofstream out(file + ".cards");
      for (auto const& it : ports_) {
        auto const& seen = it.card.counted();
        out << seen.packets << ' ' << seen.values << ' ' << seen.bytes << ' ' << seen.damaged << ' '
            << seen.compress_cycles << ' ' << seen.decompress_cycles << '\n';
      }
    }
    must(std::rename((file + ".new").c_str(), file.c_str()), "writing " + file);
  }

 private:
  /// Forwards every frame that is due, ordered by time. A frame's due time counts as its arrival,
  /// however late this call is, so the rates also hold on a busy machine.
  /// @return due time of the next frame
  instant pass_on() {
    for (;;) {
      port* first = nullptr;
      bool up = false;
      instant soonest = instant::max();
      for (auto& it : ports_) {
        if (it.from_host.next() < soonest) first = &it, up = true, soonest = it.from_host.next();
        if (it.to_host.next() < soonest) first = &it, up = false, soonest = it.to_host.next();
      }
      if (first == nullptr || soonest > steady::now()) return soonest;
      if (up) {
        distribute(*first, first->from_host.give(), soonest);
      } else {
        frame const it = first->card.arrive(first->to_host.give());
        if (!it.empty() && write(first->device, it.data(), it.size()) < 0) ++first->dropped;
      }
    }
  }

  void distribute(port const& from, frame&& it, instant now) {
    static constexpr std::array<unsigned char, 5> ours{0x02, 0x77, 0, 0, 0};
    std::size_t const to = it[5] - std::size_t{1};
    if (std::equal(ours.begin(), ours.end(), it.begin()) && to < ports_.size()) {
      ports_[to].dropped += !ports_[to].to_host.take(std::move(it), now);
      return;
    }
    for (auto& each : ports_)
      if (&each != &from) each.dropped += !each.to_host.take(frame(it), now);
  }

  /// Reads the frames that node `i` has sent.
  void listen_to(std::size_t i) {
    auto& it = ports_[i];
    // Limited, because other nodes wait.
    for (int turn = 0; turn < 64; ++turn) {
      std::array<unsigned char, 2048> buffer;
      auto const bytes = read(it.device, buffer.data(), buffer.size());
      if (bytes < 14) return;
      if (is_lost(i, it.frames++))
        ++it.lost;
      else
        it.dropped += !it.from_host.take(it.card.leave({buffer.begin(), buffer.begin() + bytes}),
                                         steady::now());
    }
  }

  /// A pure function of seed, node and frame number, so a run can be repeated.
  bool is_lost(std::size_t host, std::uint64_t number) const {
    auto const draw = hcomp::philox4x32(
        {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
         static_cast<std::uint32_t>(host), 0},
        settings_.seed)[0];
    return draw < settings_.loss * 0x1p32;
  }

  link_settings settings_;
  std::vector<port> ports_;
};

int run(int argc, char** argv) {
  std::map<std::string, std::string> options;
  int next = 1;
  for (; next + 1 < argc && std::string_view(argv[next]).starts_with("--"); next += 2)
    options[argv[next]] = argv[next + 1];
  auto const number = [&](char const* name) {
    auto const& text = options[name];
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      throw std::invalid_argument(std::string(name) + " is '" + text + "'; it takes a number");
    return value;
  };
  link_settings const settings{.bits_per_second = static_cast<double>(number("--rate")),
                               .delay = std::chrono::microseconds(number("--delay")),
                               .loss = 1e-6 * static_cast<double>(number("--loss")),
                               .queue_bytes = static_cast<double>(number("--queue")),
                               .seed = number("--seed")};
  std::string const counters = options["--counters"], card = options["--card"];
  auto const bound_exponent = card.empty() ? 0 : static_cast<unsigned>(number("--bound"));
  std::vector<std::string> const networks(argv + next, argv + argc);
  if (counters.empty() || networks.empty())
    throw std::invalid_argument("there must be --counters FILE, and a network for every host");

  // Signals are delivered only during waits.
  static volatile std::sig_atomic_t asked = 0;
  sigset_t usr1, open;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  must(sigprocmask(SIG_BLOCK, &usr1, &open), "blocking SIGUSR1");
  std::signal(SIGUSR1, [](int) { asked = 1; });
  // The kernel wakes a process up to 50 us late by default.
  must(prctl(PR_SET_TIMERSLACK, 1), "asking for punctual timers");
  // Real-time priority, because other processes on a busy machine slow the links: links of 100
  // Mbit/s with 1 ms delay carried 83 Mbit/s beside five other processes on two cores. Without the
  // right to it, the switch continues.
  sched_param const first{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR, &first);

  lab_switch links(networks, settings, card, bound_exponent);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    links.work(open);
    if (std::exchange(asked, 0) != 0) links.write_counters(counters);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "switch: %s\n", error.what());
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "switch: %s\n", error.what());
    return 1;
  }
}
