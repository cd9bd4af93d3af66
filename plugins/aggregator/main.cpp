/// @file
/// hcomp-aggregator: reduces vectors that workers send over UDP, for many jobs at once.

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/version.hpp>
#include <hcomp/udp/address.hpp>
#include <hcomp/udp/aggregation_server.hpp>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "report.hpp"
#ifdef HCOMP_AGGREGATOR_XDP
#include <xdp/kernel_adder.hpp>
#endif

namespace {

using namespace hcomp;

volatile std::sig_atomic_t has_to_end = 0, has_to_report = 0;

void take_signal(int number) { (number == SIGUSR1 ? has_to_report : has_to_end) = 1; }

/// @throws std::runtime_error  a write to standard output fails
void put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error("standard output could not be written to its end");
}

int fail(std::string_view text) {
  fmt::print(stderr, "hcomp-aggregator: {}\n", hcomp::detail::printable(text));
  return EXIT_FAILURE;
}

struct settings {
  std::string listen = "0.0.0.0:7475", mode = "process", report, interface;
  std::size_t kernel_slots = 65536;
  bool generic = false;
  double idle_s = 60, deadline_ms = 0, word_deadline_ms = 0;
  std::size_t memory_mib = 1024;
  udp::server_options server;
};

std::chrono::nanoseconds time_of(double count, double unit_ns) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count * unit_ns));
}

void report(udp::aggregation_server const& server, std::string const& file) {
  if (file.empty())
    put(aggregator_command::to_text(server));
  else
    aggregator_command::write_file(file, aggregator_command::to_json(server));
}

#ifdef HCOMP_AGGREGATOR_XDP
std::string const no_xdp;
using kernel_adder = xdp::kernel_adder;
std::unique_ptr<kernel_adder> add_in_kernel(udp::aggregation_server& server, settings const& how) {
  auto adder = std::make_unique<kernel_adder>(udp::address(server.local()),
                                              xdp::adder_options{.interface = how.interface,
                                                                 .jobs = how.server.jobs,
                                                                 .slots = how.kernel_slots,
                                                                 .generic = how.generic});
  server.offload_to(*adder);
  return adder;
}
#else
std::string const no_xdp = HCOMP_AGGREGATOR_NO_XDP;
struct kernel_adder {
  static std::string text() { return {}; }
  static std::string time_text() { return {}; }
};
std::unique_ptr<kernel_adder> add_in_kernel(udp::aggregation_server&, settings const&) {
  return {};
}
#endif

/// @throws std::invalid_argument  the settings contradict each other
void check(settings const& how) {
  if (how.mode != "xdp" && (!how.interface.empty() || how.generic))
    throw std::invalid_argument("--interface and --generic belong to --mode xdp");
  if (how.mode == "xdp" && !no_xdp.empty())
    throw std::invalid_argument("--mode xdp: this was built without it, because " + no_xdp);
  if (how.mode == "xdp" && how.interface.empty())
    throw std::invalid_argument("--mode xdp needs --interface, by which contributions arrive");
}

void serve(settings const& how) {
  check(how);
  // Longest delay of a signal that arrives between two waits.
  constexpr auto look = std::chrono::milliseconds(100);
  struct sigaction action {};
  action.sa_handler = take_signal;  // without SA_RESTART: a signal ends the wait for datagrams
  for (int const number : {SIGINT, SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
  std::unique_ptr<kernel_adder> adder;  // outlives the server's jobs
  udp::aggregation_server server(udp::address(how.listen), how.server);
  if (how.mode == "xdp") adder = add_in_kernel(server, how);
  if (!how.report.empty()) report(server, how.report);  // fails early if the file is not writable
  put(fmt::format("hcomp-aggregator: listens on {}\n", server.local()));
  if (adder) put(fmt::format("hcomp-aggregator: the kernel adds on {}\n", adder->text()));
  while (!has_to_end) {
    server.serve(look);
    if (!has_to_report) continue;
    has_to_report = 0;
    try {
      report(server, how.report);
    } catch (std::runtime_error const& why) {  // for example a full disk; the jobs continue
      fail(why.what());
    }
  }
  if (!how.report.empty()) report(server, how.report);
  put(aggregator_command::to_text(server));
  if (auto const time = adder ? adder->time_text() : std::string(); !time.empty())
    put(fmt::format("in the kernel: {}\n", time));
}

}  // namespace

int main(int count, char** words) {
  settings how;
  CLI::App app(
      "Adds up what workers send by UDP, for many jobs at once: integers in, integers out.\nA job "
      "begins when its first worker joins, which also sets its parameters. Statistics come "
      "at the end (SIGINT, SIGTERM) and after SIGUSR1.\nExit status: 0 after a signal, else 1.",
      "hcomp-aggregator");
  app.set_version_flag("--version", fmt::format("{}.{}.{}", HCOMP_VERSION_MAJOR,
                                                HCOMP_VERSION_MINOR, HCOMP_VERSION_PATCH));
  app.option_defaults()->always_capture_default();
  app.add_option("--listen", how.listen, "HOST:PORT; port 0 is a free one, which is printed");
  app.add_option("--mode", how.mode,
                 "Where to add; process: in this program, xdp: in the kernel, as packets "
                 "arrive (root, Linux 6.1 or newer)")
      ->check(CLI::IsMember({"process", "xdp"}));
  app.add_option("--interface", how.interface,
                 "With --mode xdp: interface that receives contributions");
  app.add_flag("--generic", how.generic,
               "With --mode xdp: not by the interface's driver, even if it could");
  app.add_option("--kernel-slots", how.kernel_slots,
                 "With --mode xdp: maximum of current and kept results, of all jobs, 1.1 KiB each; "
                 "further jobs run in this program")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--report", how.report,
                 "FILE for the statistics, as JSON, at the start, after SIGUSR1 and at the end; "
                 "without it SIGUSR1 prints them");
  app.add_option("--jobs", how.server.jobs, "Most jobs at a time")->check(CLI::Range(1, 1000000));
  app.add_option("--memory", how.memory_mib, "Maximum memory for the results of all jobs, in MiB")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--idle", how.idle_s, "A silent job ends after this many seconds")
      ->check(CLI::Range(0.01, 1e6));
  app.add_option("--deadline", how.deadline_ms,
                 "Milliseconds after which a partial result is sent, for jobs that set no "
                 "deadline; 0: wait for all workers")
      ->check(CLI::Range(0., 1e7));
  app.add_option("--word-deadline", how.word_deadline_ms,
                 "The same for norms, with which a round begins; 0: as --deadline")
      ->check(CLI::Range(0., 1e7));
  app.add_option("--rounds-ahead", how.server.rounds_ahead,
                 "Packets of rounds that are further ahead are refused")
      ->check(CLI::Range(1, 0x7fffffff));
  app.add_option("--datagram-bytes", how.server.datagram_bytes,
                 "Longest datagram; 1472 suits Ethernet frames of 1500 bytes, 8972 jumbo frames")
      ->check(CLI::Range(512, 65507));
  app.add_option("--buffer-bytes", how.server.buffer_bytes,
                 "Wanted for datagrams that wait; the kernel's limit is net.core.rmem_max")
      ->check(CLI::Range(1, 1 << 30));
  try {
    app.parse(count, words);
    how.server.memory_bytes = how.memory_mib << 20;
    how.server.idle = time_of(how.idle_s, 1e9);
    how.server.deadline = time_of(how.deadline_ms, 1e6);
    how.server.word_deadline = time_of(how.word_deadline_ms, 1e6);
    serve(how);
  } catch (CLI::ParseError const& one) {
    std::ostringstream out, errors;
    int const status = app.exit(one, out, errors);
    fmt::print(stderr, "{}", hcomp::detail::printable(errors.str()));
    try {
      put(out.str());
    } catch (std::runtime_error const& why) {
      return fail(why.what());
    }
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (std::exception const& why) {
    return fail(why.what());
  }
  return EXIT_SUCCESS;
}
