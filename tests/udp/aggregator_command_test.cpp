// hcomp-aggregator as a process, and workers as processes: the test kills workers and the
// aggregator.
#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <hcomp/aggregation.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/socket.hpp>
#include <hcomp/udp/terms.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <udp/aggregator_process.hpp>
#include <udp/worker_processes.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;
namespace files = std::filesystem;

namespace {

constexpr int workers = worker_processes::count;

/// Malformed and foreign datagrams of eight kinds in turn; `sent` counts each kind.
class flood {
 public:
  explicit flood(std::string const& aggregator) : to_(aggregator), draws_(21) {}

  void send(int count) {
    auto const good = udp::to_terms(worker_processes::terms());
    auto other = worker_processes::terms();
    other.quota = 1;
    aggregation_packet h;
    h.bits = 4;
    h.largest_level = 30;
    packet const contribution = packet_of(h, std::vector<std::uint32_t>(1024, 15));
    for (int n = 0; n < count; ++n) {
      auto const rank = static_cast<std::uint16_t>(draws_.integer(0, workers - 1));
      auto const kind = static_cast<std::size_t>(n % 8);
      switch (kind) {
        case 0: {
          std::vector<std::byte> bytes(draws_.next() % 1400);
          for (auto& byte : bytes) byte = static_cast<std::byte>(draws_.next());
          socket_.send(to_, bytes);
          break;
        }
        case 1: {
          auto bytes = datagram(udp::frame_kind::packet, 5, rank, contribution);
          bytes[8 + draws_.next() % (bytes.size() - 8)] ^= std::byte{16};
          socket_.send(to_, bytes);
          break;
        }
        case 2: pass(udp::frame_kind::packet, 5, rank, contribution); break;
        case 3: pass(udp::frame_kind::packet, 6, rank, contribution); break;
        case 4: pass(udp::frame_kind::welcome, 5, rank, {}); break;
        case 5: pass(udp::frame_kind::join, 5, rank, good); break;
        case 6: pass(udp::frame_kind::join, 5, rank, udp::to_terms(other)); break;
        case 7: pass(udp::frame_kind::join, 5, 9, good); break;
      }
      ++sent[kind];
      // Every eighth datagram gets an answer. Waiting for it keeps the aggregator's receive buffer
      // from overflowing.
      if (kind == 7) await_refusal(udp::refusal_reason::rank);
    }
  }
  std::array<std::uint64_t, 8> sent{};

 private:
  std::vector<std::byte> datagram(udp::frame_kind kind, std::uint32_t job, std::uint16_t rank,
                                  std::span<std::byte const> body) {
    std::vector<std::byte> bytes(udp::frame_bytes);
    bytes.insert(bytes.end(), body.begin(), body.end());
    udp::seal(bytes, {.job = job, .kind = kind, .rank = rank, .session = draws_.next()});
    return bytes;
  }
  void pass(udp::frame_kind kind, std::uint32_t job, std::uint16_t rank,
            std::span<std::byte const> body) {
    socket_.send(to_, datagram(kind, job, rank, body));
  }
  void await_refusal(udp::refusal_reason reason) {
    std::vector<std::byte> buffer(2000);
    udp::address from;
    REQUIRE(wait_until([&] {
      while (auto const bytes = socket_.receive(buffer, from))
        if (*bytes == udp::frame_bytes + 4 &&
            load<udp::refusal_reason>(buffer.data() + udp::frame_bytes) == reason)
          return true;
      socket_.wait(10ms);
      return false;
    }));
  }

  udp::socket socket_{udp::address("127.0.0.1:0")};
  udp::address to_;
  random_numbers draws_;
};

nlohmann::json read_json(files::path const& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

}  // namespace

TEST_CASE(
    "hcomp-aggregator: a worker is killed and 10,000 hostile datagrams arrive; no sum is wrong") {
  auto const folder =
      files::temp_directory_path() / ("hcomp_aggregator_test_" + std::to_string(::getpid()));
  files::create_directories(folder);
  auto const report = folder / "report.json";
  aggregator_process aggregator({"--listen", "127.0.0.1:0", "--report", report.string()});
  worker_processes all(aggregator.address);
  constexpr int before = 60, victim = workers - 1;
  REQUIRE(wait_until([&] { return all.rounds(0) > 0; }));
  flood hostile(aggregator.address);
  hostile.send(6000);
  REQUIRE(wait_until([&] { return all.rounds(victim) >= before - 1; }));
  int const last = all.kill_last();
  hostile.send(4000);
  aggregator.send(SIGUSR1);
  CHECK(wait_until([&] { return read_json(report)["received"] > 10'000; }));
  all.check_without_last(last);
  CHECK(read_json(report)["jobs"][0]["joined"] == workers);
  CHECK(aggregator.kill(SIGTERM) == 0);

  auto const seen = read_json(report);
  auto const& sent = hostile.sent;
  CHECK(seen["foreign"] == sent[2]);
  CHECK(seen["unknown_job"] == sent[3]);
  CHECK(seen["dropped"]["a kind of datagram that is not for this side"] == sent[4]);
  CHECK(seen["joins_refused"]["another sender has this rank"] == sent[5]);
  CHECK(seen["joins_refused"]
            ["no terms, impossible ones, or others than the job's first worker had"] == sent[6]);
  CHECK(seen["joins_refused"]["the job has no worker of this rank"] == sent[7]);
  auto const& dropped = seen["dropped"];
  std::uint64_t damaged = 0;
  for (auto const* const words :
       {"a datagram of another length", "not a datagram of this version", "a damaged datagram"})
    damaged += dropped[words].get<std::uint64_t>();
  CHECK(damaged == sent[0] + sent[1]);
  CHECK(seen["jobs"][0]["left"] == workers - 1);
  CHECK(seen["jobs"][0]["sums"]["partial"] > 0);
  CHECK_MESSAGE(aggregator.rest().find(std::to_string(sent[2]) +
                                       " dropped: a packet that is not from its rank's sender") !=
                    std::string::npos,
                "no such line");
  files::remove_all(folder);
}

TEST_CASE("hcomp-aggregator: killed and restarted; the workers continue within the deadlines") {
  auto first =
      std::make_unique<aggregator_process>(std::vector<std::string>{"--listen", "127.0.0.1:0"});
  auto const address = first->address;
  worker_processes all(address);
  REQUIRE(wait_until([&] { return all.rounds(1) >= 20; }));
  CHECK(first->kill(SIGKILL) == -SIGKILL);
  int const killed_in = all.most_rounds(), end = killed_in + 30;
  all.end_after(end);
  first.reset();
  aggregator_process second({"--listen", address});
  for (int rank = 0; rank < workers; ++rank) CHECK(all.has_ended_well(rank));
  CHECK(second.kill(SIGINT) == 0);

  for (int rank = 0; rank < workers; ++rank) {
    int other = 0;
    for (int round = 0; round < end; ++round) {
      auto const& one = all.of(rank, round);
      CAPTURE(rank);
      CAPTURE(round);
      if (one.members == workers)
        CHECK(one.is_right);
      else
        ++other;
      CHECK(one.ms < 2 * (worker_processes::deadline / 1ms) + 1000);
      if (round > killed_in + 5) CHECK(one.members == workers);
    }
    // the round of the kill, and adjacent rounds if workers were in different ones
    CHECK(other <= 3);
  }
  auto const said = second.rest();
  CHECK_MESSAGE(said.find("1 jobs begun, 1 left, 0 idle") != std::string::npos, said);
}

TEST_CASE("hcomp-aggregator: invalid options are refused with their values") {
  auto const run = [](std::string const& options) {
    child_process command(
        [&] {
          return execute({"sh", "-c", HCOMP_AGGREGATOR " " + options + " 2>&1"});
        },
        STDOUT_FILENO);
    auto const text = command.rest();
    return std::to_string(command.wait()) + " " + text;
  };
  CHECK(run("--listen nowhere") == "1 hcomp-aggregator: udp: address 'nowhere'; it is HOST:PORT\n");
  CHECK(run("--listen 127.0.0.1:0 --report /nowhere/x") ==
        "1 hcomp-aggregator: report /nowhere/x.new cannot be written: No such file or directory\n");
  CHECK(run("--mode tcp").find("tcp not in {process,xdp}") != std::string::npos);
  CHECK(run("--generic") == "1 hcomp-aggregator: --interface and --generic belong to --mode xdp\n");
  CHECK(run("--mode xdp").starts_with("1 hcomp-aggregator: --mode xdp"));  // needs an interface
  CHECK(run("--version").starts_with("0 "));
  aggregator_process one({"--listen", "127.0.0.1:0"});
  CHECK(run("--listen " + one.address) ==
        "1 hcomp-aggregator: udp: listen on " + one.address + ": Address already in use (98)\n");
}
