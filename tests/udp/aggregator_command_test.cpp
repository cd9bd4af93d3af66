// hcomp-aggregator as a process, with workers that are processes: some are killed, and so is it.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/packets.hpp>
#include <hcomp/udp/socket.hpp>
#include <hcomp/udp/terms.hpp>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <udp/aggregator_process.hpp>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;
namespace files = std::filesystem;

namespace {

constexpr int workers = 4;
constexpr std::size_t values = 5000;  // in five packets
constexpr auto deadline = 400ms;      // of norms, and again of sums

/// What workers, which are processes, tell the test: in memory that they share.
struct round_result {
  std::atomic<int> members;    ///< of all sums, if it is the same of all and none was lost; else 0
  std::atomic<bool> is_right;  ///< then: the mean of the first so many ranks, bit by bit
  std::atomic<int> ms;         ///< it took
};
constexpr int most_rounds = 400;
struct board {
  std::atomic<int> end = most_rounds;            ///< of rounds; the test lowers it
  std::array<std::atomic<int>, workers> rounds;  ///< done by each
  std::array<std::array<round_result, most_rounds>, workers> results;
};

board* make_board() {
  void* const memory =
      ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return new (memory) board{};
}

std::vector<std::vector<float>> vectors() {
  std::vector<std::vector<float>> x;
  for (int rank = 0; rank < workers; ++rank) x.push_back(uniform_values(values, 9, rank));
  return x;
}

aggregator_options terms() {
  aggregation_layout const layout(values, thc<float>(), workers + 1, {workers});
  aggregator_options wanted;
  wanted.deadline = deadline;
  return layout.aggregator(wanted);
}

/// Averages until the board says that it is enough, with a pause after each round.
void work(board& all, std::string const& aggregator, int rank) {
  auto const x = vectors();
  thc<float> const codec;
  udp::packets link({.rank = rank, .workers = workers, .aggregators = {aggregator}, .job = 5});
  aggregated_mean mean(
      values, codec, link,
      {.share = {workers}, .norm_patience = 3s, .patience = 2s, .resend_after = 30ms});
  link.set_terms(terms());
  auto const me = static_cast<std::size_t>(rank);
  for (int round = 0; round < all.end; ++round) {
    auto& result = all.results[me][static_cast<std::size_t>(round)];
    draw_key const key{.seed = 1, .step = static_cast<std::uint64_t>(round)};
    auto own = x[me];
    auto const start = link.now();
    try {
      auto const report = mean.average(std::span(own), key);
      if (report.lost == 0 && report.contributions % report.chunks == 0) {
        auto const members = report.contributions / report.chunks;
        auto const some = std::vector(x.begin(), x.begin() + static_cast<long>(members));
        result.is_right =
            first_difference(own, mean_of_blocks(codec.fitted(workers), some, key)) == nowhere;
        result.members = static_cast<int>(members);
      }
    } catch (transport_error const&) {  // not one sum came: the round is lost
    }
    result.ms = static_cast<int>((link.now() - start) / 1ms);
    all.rounds[me] = round + 1;
    std::this_thread::sleep_for(5ms);
  }
  mean.leave();
}

/// A process that calls work.
pid_t start_worker(board& all, std::string const& aggregator, int rank) {
  pid_t const id = ::fork();
  if (id != 0) return id;
  try {
    work(all, aggregator, rank);
  } catch (std::exception const& why) {
    std::fprintf(stderr, "worker %d: %s\n", rank, why.what());
    ::_exit(1);
  }
  ::_exit(0);
}
bool has_ended_well(pid_t id) {
  int status = 0;
  return ::waitpid(id, &status, 0) == id && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Until `is_done()`, a minute at most.
bool wait_until(std::function<bool()> const& is_done) {
  for (int n = 0; n < 60'000; ++n) {
    if (is_done()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// Malformed and foreign datagrams, in turn of eight kinds; `sent` counts each kind.
class flood {
 public:
  explicit flood(std::string const& aggregator) : to_(aggregator), draws_(21) {}

  void send(int count) {
    auto const good = udp::to_terms(terms());
    auto other = terms();
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
      // Every eighth has an answer; without waiting for it the aggregator's buffer would overflow.
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
    std::vector<std::byte> room(2000);
    udp::address from;
    REQUIRE(wait_until([&] {
      while (auto const bytes = socket_.receive(room, from))
        if (*bytes == udp::frame_bytes + 4 &&
            load<udp::refusal_reason>(room.data() + udp::frame_bytes) == reason)
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
    "hcomp-aggregator: a worker is killed and 10,000 hostile datagrams come, and no sum is wrong") {
  auto const folder =
      files::temp_directory_path() / ("hcomp_aggregator_test_" + std::to_string(::getpid()));
  files::create_directories(folder);
  auto const report = folder / "report.json";
  aggregator_process aggregator({"--listen", "127.0.0.1:0", "--report", report.string()});
  board& all = *make_board();
  constexpr int before = 60, after = 3, victim = workers - 1;
  std::array<pid_t, workers> ids{};
  for (std::size_t rank = 0; rank < workers; ++rank)
    ids[rank] = start_worker(all, aggregator.address, static_cast<int>(rank));
  REQUIRE(wait_until([&] { return all.rounds[0] > 0; }));
  flood hostile(aggregator.address);
  hostile.send(6000);
  REQUIRE(wait_until([&] { return all.rounds[victim] >= before - 1; }));
  ::kill(ids[victim], SIGKILL);
  ::waitpid(ids[victim], nullptr, 0);
  int const last = all.rounds[victim];  // the round in which it was killed
  all.end = last + 1 + after;           // whose sums wait for their deadlines
  hostile.send(4000);
  aggregator.send(SIGUSR1);
  CHECK(wait_until([&] { return read_json(report)["received"] > 10'000; }));
  for (std::size_t rank = 0; rank < victim; ++rank) CHECK(has_ended_well(ids[rank]));
  CHECK(read_json(report)["jobs"][0]["joined"] == workers);
  CHECK(aggregator.kill(SIGTERM) == 0);

  int whole = 0;
  for (std::size_t rank = 0; rank < victim; ++rank)
    for (int round = 0; round < all.end; ++round) {
      auto const& one = all.results[rank][static_cast<std::size_t>(round)];
      CAPTURE(rank);
      CAPTURE(round);
      int const members = one.members;
      if (members == workers || (members == workers - 1 && round > last)) CHECK(one.is_right);
      whole += members == workers;
      if (round > last) CHECK(members == workers - 1);
      CHECK(one.ms < 2 * (deadline / 1ms) + 1000);
    }
  CHECK(whole >= (last - 5) * victim);  // a machine that stops for a moment misses a deadline

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

TEST_CASE("hcomp-aggregator: killed and started anew, and the workers go on within the deadlines") {
  board& all = *make_board();
  auto first =
      std::make_unique<aggregator_process>(std::vector<std::string>{"--listen", "127.0.0.1:0"});
  auto const address = first->address;
  std::array<pid_t, workers> ids{};
  for (std::size_t rank = 0; rank < workers; ++rank)
    ids[rank] = start_worker(all, address, static_cast<int>(rank));
  REQUIRE(wait_until([&] { return all.rounds[1] >= 20; }));
  CHECK(first->kill(SIGKILL) == -SIGKILL);
  int killed_in = 0;
  for (auto const& done : all.rounds) killed_in = std::max<int>(killed_in, done);
  all.end = killed_in + 30;
  first.reset();
  aggregator_process second({"--listen", address});
  for (pid_t const id : ids) CHECK(has_ended_well(id));
  CHECK(second.kill(SIGINT) == 0);

  for (std::size_t rank = 0; rank < workers; ++rank) {
    int other = 0;
    for (int round = 0; round < all.end; ++round) {
      auto const& one = all.results[rank][static_cast<std::size_t>(round)];
      CAPTURE(rank);
      CAPTURE(round);
      if (one.members == workers)
        CHECK(one.is_right);
      else
        ++other;
      CHECK(one.ms < 2 * (deadline / 1ms) + 1000);
      if (round > killed_in + 5) CHECK(one.members == workers);
    }
    CHECK(other <= 3);  // the round of the kill, and neighbours if workers came apart there
  }
  auto const said = second.rest();
  CHECK_MESSAGE(said.find("1 jobs begun, 1 left, 0 idle") != std::string::npos, said);
}

TEST_CASE("hcomp-aggregator: what cannot be is refused with its values") {
  auto const run = [](std::string const& options) {
    auto const file = files::temp_directory_path() /
                      ("hcomp_aggregator_test_" + std::to_string(::getpid()) + ".txt");
    int const status =
        std::system((HCOMP_AGGREGATOR " " + options + " > " + file.string() + " 2>&1").c_str());
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    files::remove(file);
    return std::to_string(WEXITSTATUS(status)) + " " + text.str();
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
