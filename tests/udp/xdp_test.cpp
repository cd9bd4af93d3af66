// Compares hcomp-aggregator --mode xdp with --mode process, in a network namespace that the test
// creates.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <collective/packets.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <hcomp/aggregation.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/udp/frame.hpp>
#include <hcomp/udp/packets.hpp>
#include <hcomp/udp/socket.hpp>
#include <hcomp/udp/statistics.hpp>
#include <hcomp/udp/terms.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <support/mean_of_blocks.hpp>
#include <thread>
#include <udp/aggregator_process.hpp>
#include <udp/worker_processes.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;
namespace files = std::filesystem;

namespace {

[[noreturn]] void skip(std::string const& why) {
  std::printf("Skipped: %s\n", why.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}

/// Two network namespaces and a link between them: interface `w0` for this thread, `a0` for the
/// aggregator. Both end with this object.
class two_nodes {
 public:
  two_nodes() : before_(open_mine()) {
    if (::unshare(CLONE_NEWNET) != 0) skip("a network namespace cannot be made; root can");
    theirs_ = open_mine();
    REQUIRE(::unshare(CLONE_NEWNET) == 0);
    mine_ = open_mine();
    auto const theirs = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(theirs_);
    if (!run("ip link add w0 type veth peer name a0 netns " + theirs))
      skip("a pair of veth interfaces cannot be made");
    REQUIRE(run("ip address add 10.9.0.2/24 dev w0 && ip link set w0 up && ip link set lo up"));
    on_node([] {
      REQUIRE(run("ip address add 10.9.0.1/24 dev a0 && ip link set a0 up && ip link set lo up"));
    });
  }
  two_nodes(two_nodes const&) = delete;
  two_nodes& operator=(two_nodes const&) = delete;
  ~two_nodes() {
    ::setns(before_, CLONE_NEWNET);
    for (int const handle : {before_, theirs_, mine_}) ::close(handle);
  }

  /// Calls `body` on the aggregator's node.
  void on_node(std::function<void()> const& body) const {
    enter();
    body();
    REQUIRE(::setns(mine_, CLONE_NEWNET) == 0);
  }
  void enter() const { REQUIRE(::setns(theirs_, CLONE_NEWNET) == 0); }

  /// Selects where the checksums of UDP packets that leave by this thread's interface `name` are
  /// made: in the interface (a veth leaves them out), or in Linux before it.
  static void let_interface_make_checksums(char const* name, bool it_does) {
    ethtool_value what{.cmd = ETHTOOL_STXCSUM, .data = it_does};
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&what);
    int const any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    REQUIRE(::ioctl(any, SIOCETHTOOL, &request) == 0);
    ::close(any);
  }

  /// Returns whether an XDP program, or a tc program attached by a link, is on the aggregator's
  /// interface.
  bool has_programs() const {
    bool found = false;
    on_node([&] {
      found = !run("! ip link show a0 | grep -q xdp");
      bpf_attr query{};
      query.query.target_fd = if_nametoindex("a0");
      query.query.attach_type = 46;  // BPF_TCX_INGRESS
      if (::syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof query) == 0)
        found = found || query.query.prog_cnt > 0;
    });
    return found;
  }

 private:
  static int open_mine() { return ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }
  static bool run(std::string const& command) { return std::system(command.c_str()) == 0; }

  int before_, theirs_ = -1, mine_ = -1;
};

enum class mode { process, xdp, generic_xdp };
std::string name_of(mode how) {
  return how == mode::process ? "process" : how == mode::xdp ? "xdp" : "generic xdp";
}

/// hcomp-aggregator on the other node, in one of its modes.
class remote_aggregator {
 public:
  remote_aggregator(two_nodes const& nodes, mode how)
      : folder_(files::temp_directory_path() / ("hcomp_xdp_test_" + std::to_string(::getpid()))) {
    files::create_directories(folder_);
    options_ = {"--listen", "10.9.0.1:7475", "--report", (folder_ / "report.json").string()};
    if (how != mode::process)
      options_.insert(options_.end(), {"--mode", "xdp", "--interface", "a0"});
    if (how == mode::generic_xdp) options_.push_back("--generic");
    start(nodes);
  }
  void start(two_nodes const& nodes) {
    process = std::make_unique<aggregator_process>(options_, [&] { nodes.enter(); });
  }
  ~remote_aggregator() {
    process.reset();  // writes into the folder
    files::remove_all(folder_);
  }

  /// Ends the aggregator and returns its report.
  nlohmann::json end() {
    CHECK(process->kill(SIGTERM) == 0);
    return read();
  }
  /// Waits until `is_so` holds for its report.
  void await(std::function<bool(nlohmann::json const&)> const& is_so) {
    for (int n = 0; n < 2000; ++n) {
      process->send(SIGUSR1);
      if (is_so(read())) return;
      std::this_thread::sleep_for(5ms);
    }
    FAIL("it did not come to this within 10 s: ", read().dump(2));
  }
  nlohmann::json read() const {
    std::ifstream in(folder_ / "report.json");
    return nlohmann::json::parse(in);
  }

  std::unique_ptr<aggregator_process> process;

 private:
  files::path folder_;
  std::vector<std::string> options_;
};

/// Skips the test if the kernel or this build of the command lacks support.
two_nodes const& nodes() {
  static two_nodes const* const made = [] {
    auto const* const some = new two_nodes;  // lives until the process ends
    auto const said =
        files::temp_directory_path() / ("hcomp_xdp_try_" + std::to_string(::getpid()));
    int status = 0;
    some->on_node([&] {
      status = std::system(("timeout --preserve-status -s TERM 1 " HCOMP_AGGREGATOR
                            " --mode xdp --interface a0 > " +
                            said.string() + " 2>&1")
                               .c_str());
    });
    std::ifstream in(said);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    files::remove(said);
    for (auto const* const words :
         {"built without it", "Operation not permitted", "Function not implemented"})
      if (status != 0 && text.find(words) != std::string::npos) skip(text.substr(0, 1000));
    REQUIRE_MESSAGE(status == 0, text);
    return some;
  }();
  return *made;
}

/// A worker that sends datagrams chosen by the test.
class raw_worker {
 public:
  raw_worker(std::uint32_t job, int rank)
      : frame_{.job = job,
               .rank = static_cast<std::uint16_t>(rank),
               .session = static_cast<std::uint32_t>(1000 + rank)} {}

  udp::frame& frame() { return frame_; }

  void send(std::span<std::byte const> datagram) { socket_.send(to_, datagram); }
  void send(udp::frame_kind kind, std::span<std::byte const> body) { send(sealed(kind, body)); }
  std::vector<std::byte> sealed(udp::frame_kind kind, std::span<std::byte const> body) const {
    std::vector<std::byte> datagram(udp::frame_bytes);
    datagram.insert(datagram.end(), body.begin(), body.end());
    auto header = frame_;
    header.kind = kind;
    udp::seal(datagram, header);
    return datagram;
  }
  /// Returns the next datagram, empty at the timeout.
  packet receive(std::chrono::nanoseconds timeout) {
    packet buffer(2000);
    udp::address from;
    auto bytes = socket_.receive(buffer, from);
    if (!bytes) {
      socket_.wait(timeout);
      bytes = socket_.receive(buffer, from);
    }
    buffer.resize(bytes.value_or(0));
    return buffer;
  }
  void join(aggregator_options const& terms) {
    send(udp::frame_kind::join, udp::to_terms(terms));
    auto const answer = receive(2s);
    udp::frame header;
    REQUIRE(udp::read_frame(answer, header) == udp::frame_fault::none);
    REQUIRE(header.kind == udp::frame_kind::welcome);
  }
  void leave() {
    aggregation_packet h;
    h.kind = packet_kind::leave;
    h.rank = frame_.rank;
    send(udp::frame_kind::packet, packet_of(h, {}));
  }

 private:
  udp::socket socket_{udp::address("10.9.0.2:0")};
  udp::address to_{"10.9.0.1:7475"};
  udp::frame frame_;
};

struct job_shape {
  char const* name;
  int bits, largest_level;
  std::uint32_t chunk_values, rounds;
};

constexpr int workers = 4;
constexpr std::uint32_t chunks = 32;

aggregator_options terms_of(job_shape const& shape) {
  aggregator_options o;
  o.workers = workers;
  o.bits = shape.bits;
  o.levels = even_levels(shape.bits, shape.largest_level);
  o.chunks = chunks;
  o.chunk_values = shape.chunk_values;
  o.word_chunks = 1;
  return o;
}

packet contribution(aggregator_options const& o, std::uint32_t round, std::uint32_t chunk, int rank,
                    std::uint32_t values) {
  aggregation_packet h;
  h.bits = static_cast<std::uint8_t>(o.bits);
  h.largest_level = o.levels.back();
  h.round = round;
  h.chunk = chunk;
  h.rank = static_cast<std::uint16_t>(rank);
  h.key = round * 3;
  h.unit = round + chunk;
  h.flags = round % 7 == 0 && rank == 1 ? packet_has_nonfinite : packet_flag{};
  random_numbers draws(round * 1000 + chunk, static_cast<std::uint32_t>(rank));
  std::vector<std::uint32_t> indices(values);
  for (auto& index : indices) index = draws.next() & ((1u << o.bits) - 1);
  return packet_of(h, indices);
}

using sum_map = std::map<std::pair<std::uint32_t, std::uint32_t>, packet>;

/// The answers of all workers, and the aggregator's report.
struct result {
  sum_map sums;
  nlohmann::json report;
  std::uint64_t sent = 0;  ///< contributions
};

/// Runs a job whose contributions are dropped, duplicated and shuffled, by a seed.
result run_job(mode how, job_shape const& shape) {
  remote_aggregator aggregator(nodes(), how);
  auto const terms = terms_of(shape);
  std::vector<std::unique_ptr<raw_worker>> all;
  for (int rank = 0; rank < workers; ++rank) {
    all.push_back(std::make_unique<raw_worker>(5, rank));
    all.back()->join(terms);
  }
  result seen;
  random_numbers draws(31);
  for (std::uint32_t round = 0; round < shape.rounds; ++round) {
    auto const values_of = [&](std::uint32_t chunk) {
      return chunk + 1 == chunks ? shape.chunk_values - 23 : shape.chunk_values;
    };
    std::vector<std::vector<char>> answered(workers, std::vector<char>(chunks));
    auto const drain = [&](std::chrono::nanoseconds timeout) {
      for (std::size_t rank = 0; rank < workers; ++rank)
        while (true) {
          auto const datagram = all[rank]->receive(timeout);
          if (datagram.empty()) break;
          udp::frame header;
          REQUIRE(udp::read_frame(datagram, header) == udp::frame_fault::none);
          REQUIRE(header.job == 5);
          packet const body(datagram.begin() + udp::frame_bytes, datagram.end());
          auto const h = header_of(body);
          REQUIRE(h.kind == packet_kind::sums);
          auto const [it, is_first] = seen.sums.try_emplace({h.round, h.chunk}, body);
          if (!is_first) REQUIRE(it->second == body);
          if (h.round == round) answered[rank][h.chunk] = 1;
        }
    };
    for (int turn = 0; turn < 5000;  // takes 10 s
         ++turn) {
      std::vector<std::pair<int, std::uint32_t>> wanted;
      for (int rank = 0; rank < workers; ++rank)
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
          if (answered[static_cast<std::size_t>(rank)][chunk]) continue;
          if (turn == 0 && draws.integer(0, 9) == 0) continue;  // lost
          wanted.emplace_back(rank, chunk);
          if (draws.integer(0, 9) == 0) wanted.emplace_back(rank, chunk);
        }
      if (wanted.empty()) break;
      for (std::size_t i = wanted.size() - 1; i > 0; --i)
        std::swap(wanted[i],
                  wanted[static_cast<std::size_t>(draws.integer(0, static_cast<int>(i)))]);
      std::size_t count = 0;
      for (auto const& [rank, chunk] : wanted) {
        auto& from = *all[static_cast<std::size_t>(rank)];
        from.send(udp::frame_kind::packet,
                  contribution(terms, round, chunk, rank, values_of(chunk)));
        ++seen.sent;
        if (++count % 16 == 0) drain(0ns);
      }
      if (round >= 2) {  // one of a round whose slot a newer round has taken
        all[0]->send(udp::frame_kind::packet, contribution(terms, round - 2, wanted[0].second, 0,
                                                           values_of(wanted[0].second)));
        ++seen.sent;
      }
      drain(500us);
    }
    for (auto const& one : answered) REQUIRE(std::count(one.begin(), one.end(), 1) == chunks);
  }
  seen.report = aggregator.end();
  for (auto const& one : seen.report["jobs"]) CHECK(one["in_kernel"] == (how != mode::process));
  return seen;
}

/// Workers whose contributions are dropped, duplicated, delayed and reordered, mixed with malformed
/// and foreign datagrams. Compares every answer with the sum of its members' contributions.
class campaign {
 public:
  explicit campaign(mode how) : aggregator_(nodes(), how), terms_(terms_of({"", 4, 30, 1024, 0})) {
    terms_.deadline = 1s;  // longer than a round with all workers, also on a busy machine
    for (int rank = 0; rank < workers; ++rank)
      all_.push_back(std::make_unique<raw_worker>(5, rank));
    join();
  }

  /// Runs one round.
  /// @param alive          number of live workers, the first ones
  /// @param then_is_killed  kills the aggregator after the workers have sent for the first time
  void run(std::uint32_t round, std::size_t alive, bool then_is_killed = false) {
    round_ = round;
    sums_.erase(sums_.begin(), sums_.lower_bound({std::max(round, 1u) - 1, 0}));
    answered_.assign(alive, std::vector<char>(chunks));
    is_whole_ = alive == workers;
    std::vector<piece> late;
    for (int turn = 0; turn < 5000; ++turn) {
      std::vector<piece> wanted;
      for (std::size_t rank = 0; rank < alive; ++rank)
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
          if (answered_[rank][chunk]) continue;
          int const fate = turn == 0 ? draws_.integer(0, 99) : 99;
          if (fate == 0) continue;  // lost
          if (fate < 6) {
            late.push_back({rank, chunk});
            continue;
          }
          wanted.push_back({rank, chunk});
          if (fate == 6) wanted.push_back({rank, chunk});
          if (draws_.integer(0, 99) == 0) send_junk();
        }
      if (wanted.empty() && turn > 0) break;
      send(wanted);
      if (turn == 0 && then_is_killed) restart();
      drain(is_whole_ ? 0ns : 100ms);
    }
    for (auto const& one : answered_) REQUIRE(std::count(one.begin(), one.end(), 1) == chunks);
    send(late);
    drain(0ns);
  }

  /// A stranger joins as the last rank, like a killed worker that returns.
  void refuse_newcomer() {
    raw_worker other(5, workers - 1);
    other.frame().session += 1;
    other.send(udp::frame_kind::join, udp::to_terms(terms_));
    ++sent_;
    ++junk_[5];
    auto const answer = other.receive(2s);
    udp::frame header;
    REQUIRE(udp::read_frame(answer, header) == udp::frame_fault::none);
    CHECK(header.kind == udp::frame_kind::refusal);
  }

  /// Checks that the counters cover every datagram sent since the aggregator's start, by kind.
  void check_counts() {
    sync();
    aggregator_.await([&](auto const& report) { return report["received"] == sent_; });
    auto const report = aggregator_.read();
    std::uint64_t dropped = 0;
    for (auto const& [words, count] : report["dropped"].items())
      dropped += count.template get<std::uint64_t>();
    CHECK(dropped == junk_[0] + junk_[1] + junk_[4]);
    CHECK(report["foreign"] == junk_[2]);
    CHECK(report["unknown_job"] == junk_[3]);
    CHECK(report["joins_refused"]["another sender has this rank"] == junk_[5]);
    CHECK(report["joins_refused"]
                ["no terms, impossible ones, or others than the job's first worker had"] ==
          junk_[6]);
    auto const& sums = report["jobs"][0]["sums"];
    CHECK(sums["refused"][to_text(packet_fault::chunk)] == junk_[7]);
    CHECK(sums["refused"][to_text(packet_fault::values)] == junk_[8]);
    std::uint64_t contributions = 0;
    for (auto const* const what : {"added", "duplicates", "late", "stale"})
      contributions += sums[what].get<std::uint64_t>();
    CHECK(contributions == contributions_);
  }
  std::uint64_t all_contributions() const { return all_contributions_ + contributions_; }
  std::uint64_t junk() const { return std::accumulate(junk_.begin(), junk_.end(), all_junk_); }
  std::uint64_t partial = 0, compared = 0;  ///< answers

 private:
  struct piece {
    std::size_t rank;
    std::uint32_t chunk;
  };

  void join() {
    for (auto& one : all_) one->join(terms_);
    sent_ += all_.size();
  }
  static std::uint32_t values_of(std::uint32_t chunk) { return chunk + 1 == chunks ? 1001 : 1024; }

  void send(std::vector<piece> pieces) {
    for (std::size_t i = pieces.size(); i > 1; --i)
      std::swap(pieces[i - 1],
                pieces[static_cast<std::size_t>(draws_.integer(0, static_cast<int>(i) - 1))]);
    for (auto const& [rank, chunk] : pieces) {
      all_[rank]->send(
          udp::frame_kind::packet,
          contribution(terms_, round_, chunk, static_cast<int>(rank), values_of(chunk)));
      ++sent_;
      if (++contributions_ % 16 == 0) drain(0ns);
      if (contributions_ % 64 == 0) sync();
    }
    sync();
  }
  /// Waits until the aggregator has received every datagram, so that no buffer overflows.
  void sync() {
    udp::ask_for_statistics(udp::address("10.9.0.1:7475"), 10s);
    ++sent_;
  }

  void send_junk() {
    auto const kind = static_cast<std::size_t>(draws_.integer(0, 8));
    auto const rank = static_cast<std::size_t>(draws_.integer(0, workers - 1));
    auto const good = contribution(terms_, round_, 0, static_cast<int>(rank), 1024);
    raw_worker stranger(kind == 3 ? 6 : 5, static_cast<int>(rank));
    stranger.frame().session = draws_.next();
    switch (kind) {
      case 0: {
        packet noise(draws_.next() % 1400);
        for (auto& byte : noise) byte = static_cast<std::byte>(draws_.next());
        stranger.send(noise);
        break;
      }
      case 1: {
        auto damaged = all_[rank]->sealed(udp::frame_kind::packet, good);
        damaged[8 + draws_.next() % (damaged.size() - 8)] ^= std::byte{16};
        all_[rank]->send(damaged);
        break;
      }
      case 2:
      case 3: stranger.send(udp::frame_kind::packet, good); break;
      case 4: stranger.send(udp::frame_kind::welcome, {}); break;
      case 5: stranger.send(udp::frame_kind::join, udp::to_terms(terms_)); break;
      case 6: {
        auto other = terms_;
        other.quota = 1;
        stranger.send(udp::frame_kind::join, udp::to_terms(other));
        break;
      }
      case 7:
        all_[rank]->send(udp::frame_kind::packet,
                         contribution(terms_, round_, chunks, static_cast<int>(rank), 64));
        break;
      case 8:
        all_[rank]->send(udp::frame_kind::packet,
                         contribution(terms_, round_, 1, static_cast<int>(rank), 1032));
        break;
    }
    ++junk_[kind];
    ++sent_;
    if (junk_[kind] % 8 == 0) sync();
  }

  /// SIGKILL, then a new aggregator at the same address. Workers join again, as udp::packets does.
  void restart() {
    check_counts();
    all_contributions_ = all_contributions();
    all_junk_ = junk();
    contributions_ = sent_ = 0;
    junk_ = {};
    CHECK(aggregator_.process->kill(SIGKILL) == -SIGKILL);
    for (int n = 0; n < 1000 && nodes().has_programs(); ++n) std::this_thread::sleep_for(10ms);
    drain(0ns);
    aggregator_.start(nodes());
    join();
  }

  void drain(std::chrono::nanoseconds timeout) {
    for (std::size_t rank = 0; rank < answered_.size(); ++rank)
      while (true) {
        auto const datagram = all_[rank]->receive(timeout);
        if (datagram.empty()) break;
        udp::frame header;
        REQUIRE(udp::read_frame(datagram, header) == udp::frame_fault::none);
        REQUIRE(header.job == 5);
        take(rank, packet(datagram.begin() + udp::frame_bytes, datagram.end()));
      }
  }
  void take(std::size_t rank, packet sum) {
    auto h = header_of(sum);
    REQUIRE(h.kind == packet_kind::sums);
    h.flags = static_cast<std::uint16_t>(h.flags & ~packet_comes_late);
    store(sum.data(), 0, h);
    auto const [it, is_first] = sums_.try_emplace({h.round, h.chunk}, sum);
    if (!is_first && it->second != sum) {  // from the restarted aggregator
      REQUIRE(all_contributions_ > 0);
      it->second = sum;
      compare(sum);
    } else if (is_first) {
      compare(sum);
    }
    if (h.round == round_) answered_[rank][h.chunk] = 1;
  }
  void compare(packet const& sum) {
    auto const h = header_of(sum);
    auto const members = members_in(sum);
    ++compared;
    if (members.size() < workers) ++partial;
    if (is_whole_ && all_contributions_ == 0) REQUIRE(members.size() == workers);
    std::vector<std::uint32_t> expected(values_of(h.chunk));
    bool is_nonfinite = false;
    for (int const rank : members) {
      auto const one = contribution(terms_, h.round, h.chunk, rank, values_of(h.chunk));
      is_nonfinite |= header_of(one).flags != 0;
      REQUIRE(header_of(one).key == h.key);
      REQUIRE(header_of(one).unit == h.unit);
      auto const indices = numbers_in(one);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += terms_.levels[indices[i]];
    }
    REQUIRE(numbers_in(sum) == expected);
    REQUIRE(h.members == members.size());
    REQUIRE((h.flags == packet_has_nonfinite) == is_nonfinite);
  }

  remote_aggregator aggregator_;
  aggregator_options terms_;
  random_numbers draws_{77};
  std::vector<std::unique_ptr<raw_worker>> all_;
  std::uint32_t round_ = 0;
  bool is_whole_ = true;                     ///< all workers are alive
  std::vector<std::vector<char>> answered_;  ///< in this round: by rank and chunk
  sum_map sums_;                             ///< of this round and the previous one
  std::array<std::uint64_t, 9> junk_{};
  std::uint64_t sent_ = 0, contributions_ = 0;          ///< to the current aggregator
  std::uint64_t all_contributions_ = 0, all_junk_ = 0;  ///< to the previous ones
};

}  // namespace

TEST_CASE(
    "xdp: a campaign of harmed and hostile packets and kills gives right sums in every mode") {
  nodes();
  auto const* const asked = std::getenv("HCOMP_AGGREGATION_PACKETS");
  auto const packets = asked ? std::strtoull(asked, nullptr, 10) : 4000;
  auto const rounds =
      std::max<std::uint32_t>(static_cast<std::uint32_t>(packets) / (workers * chunks), 8);
  for (mode const how : {mode::process, mode::xdp, mode::generic_xdp}) {
    CAPTURE(name_of(how));
    auto const start = std::chrono::steady_clock::now();
    campaign all(how);
    for (std::uint32_t round = 0; round < rounds; ++round)
      all.run(round, workers, round == rounds / 2);
    CHECK(all.compared >= rounds * chunks);
    all.refuse_newcomer();
    auto const before = all.partial;
    // The last worker stops sending, like a killed one.
    for (std::uint32_t round = rounds; round < rounds + 2; ++round) all.run(round, workers - 1);
    CHECK(all.partial == before + 2 * chunks);
    all.check_counts();
#ifdef HCOMP_INFO
    if (how != mode::process)
      nodes().on_node([] {
        CHECK(std::system(HCOMP_INFO
                          " | grep -A 3 'hcomp-aggregator adds at 10.9.0.1:7475 by a0, jobs: 1$' | "
                          "grep -q 'sums: [1-9][0-9]* whole, 64 partial'") == 0);
      });
#endif
    std::printf("%s: %llu contributions, %llu that are none, %llu sums compared, %.0f s\n",
                name_of(how).c_str(), static_cast<unsigned long long>(all.all_contributions()),
                static_cast<unsigned long long>(all.junk()),
                static_cast<unsigned long long>(all.compared),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

TEST_CASE("xdp: the process's sums, bit for bit, from 10,000 packets lost, duplicated, shuffled") {
  nodes();
  for (job_shape const& shape : {job_shape{"THC, 8 bits", 4, 30, 1024, 80},
                                 {"THC, 16 bits", 4, 255, 512, 6},
                                 {"sign counts", 1, 1, 1024, 6},
                                 {"two bits", 2, 60, 1000, 6},
                                 {"bytes, 16 bits", 8, 200, 512, 6}}) {
    CAPTURE(shape.name);
    auto const expected = run_job(mode::process, shape);
    if (shape.rounds == 80) CHECK(expected.sent > 10'000);
    CHECK(expected.sums.size() == shape.rounds * chunks);
    // The process's sums are also right.
    auto const terms = terms_of(shape);
    for (std::uint32_t round : {0u, shape.rounds - 1}) {
      std::vector<std::uint32_t> sum(shape.chunk_values);
      for (int rank = 0; rank < workers; ++rank) {
        auto const some = numbers_in(contribution(terms, round, 3, rank, shape.chunk_values));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += terms.levels[some[i]];
      }
      CHECK(numbers_in(expected.sums.at({round, 3})) == sum);
    }
    for (mode const how : {mode::xdp, mode::generic_xdp}) {
      CAPTURE(name_of(how));
      auto const found = run_job(how, shape);
      CHECK(found.sums == expected.sums);
      auto const& a = expected.report["jobs"][0]["sums"];
      auto const& b = found.report["jobs"][0]["sums"];
      for (auto const* const count : {"added", "whole", "partial", "abandoned", "refused"})
        CHECK(a[count] == b[count]);
      // Every datagram counts once. How often a resend crosses its answer may differ.
      for (auto const* const one : {&expected, &found}) {
        auto const& sums = one->report["jobs"][0]["sums"];
        CHECK(sums["added"].get<std::uint64_t>() + sums["duplicates"].get<std::uint64_t>() +
                  sums["stale"].get<std::uint64_t>() + workers ==
              one->report["received"]);
      }
      CHECK(found.report["received"] == found.sent + workers);  // no receive buffer overflowed
    }
  }
}

TEST_CASE("xdp: quota, late workers and deadlines behave as in the process") {
  nodes();
  std::vector<std::vector<packet>> answers;
  std::vector<nlohmann::json> reports;
  for (mode const how : {mode::process, mode::xdp, mode::generic_xdp}) {
    CAPTURE(name_of(how));
    remote_aggregator aggregator(nodes(), how);
    auto terms = terms_of({"", 4, 30, 64, 0});
    terms.quota = 3;
    terms.deadline = 200ms;
    std::vector<std::unique_ptr<raw_worker>> all;
    for (int rank = 0; rank < workers; ++rank) {
      all.push_back(std::make_unique<raw_worker>(5, rank));
      all.back()->join(terms);
    }
    auto& seen = answers.emplace_back();
    auto const send = [&](std::size_t rank, std::uint32_t round, std::uint32_t chunk,
                          std::uint32_t values = 64) {
      all[rank]->send(udp::frame_kind::packet,
                      contribution(terms, round, chunk, static_cast<int>(rank), values));
    };
    auto const await = [&](std::size_t rank, std::chrono::nanoseconds timeout) {
      auto datagram = all[rank]->receive(timeout);
      if (!datagram.empty()) datagram.erase(datagram.begin(), datagram.begin() + udp::frame_bytes);
      seen.push_back(datagram);
      return datagram;
    };
    // The fourth worker has sent nothing through this interface, so the kernel cannot answer it.
    for (std::size_t rank = 0; rank < 3; ++rank) send(rank, 1, 2);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      auto const sum = await(rank, 2s);
      REQUIRE(!sum.empty());
      CHECK(members_in(sum) == std::vector{0, 1, 2});
    }
    send(3, 1, 2);
    auto const late = await(3, 2s);
    REQUIRE(!late.empty());
    CHECK((header_of(late).flags & packet_comes_late) != 0);
    // Now the kernel can answer.
    for (std::size_t const rank : {3u, 1u, 0u}) send(rank, 1, 5);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(members_in(await(rank, 2s)) == std::vector{0, 1, 3});
    // Two of four contributions, until the deadline.
    auto const start = std::chrono::steady_clock::now();
    send(1, 2, 0);
    send(2, 2, 0);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(members_in(await(rank, 2s)) == std::vector{1, 2});
    CHECK(std::chrono::steady_clock::now() - start >= 200ms);
    // Refused: other values, another rank's packet, a round too far ahead, a chunk out of range.
    send(1, 3, 0);
    send(2, 3, 0, 63);
    all[0]->send(udp::frame_kind::packet, contribution(terms, 3, 0, 2, 64));
    send(0, 3 + 1025, 0);
    send(0, 3, chunks);
    send(0, 3, 1, 65);
    packet longer = contribution(terms, 3, 0, 0, 64);
    longer.resize(1400);
    all[0]->send(udp::frame_kind::packet, longer);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(members_in(await(rank, 2s)) == std::vector{1});
    // Round 4 takes the slot of a pending round.
    send(0, 5, 7);
    send(0, 7, 7);
    for (std::size_t rank = 0; rank < 4; ++rank)
      CHECK(members_in(await(rank, 2s)) == std::vector{0});
    // A worker that has left gets nothing; when all have left, the job ends.
    all[3]->leave();
    aggregator.await([](auto const& report) {
      return report.value(nlohmann::json::json_pointer("/jobs/0/left"), 0) == 1;
    });
    for (std::size_t rank = 0; rank < 3; ++rank) send(rank, 8, 1);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(!await(rank, 2s).empty());
    CHECK(await(3, 20ms).empty());
    for (std::size_t rank = 0; rank < 3; ++rank) all[rank]->leave();
    aggregator.await([](auto const& report) { return report["jobs_left"] == 1; });
    reports.push_back(aggregator.end());
  }
  for (std::size_t other : {1u, 2u}) {
    CHECK(answers[other] == answers[0]);
    CHECK(reports[other] == reports[0]);
  }
  CHECK(reports[0]["ended"]["late"] == 1);
  CHECK(reports[0]["ended"]["abandoned"] == 1);
  CHECK(reports[0]["jobs_left"] == 1);
  CHECK(reports[0]["ended"]["refused"].dump().find("1,") != std::string::npos);
}

TEST_CASE("xdp: a mean through the kernel equals that of the workers' blocks") {
  nodes();
  constexpr std::size_t values = 100'000;
  for (mode const how : {mode::xdp, mode::generic_xdp}) {
    CAPTURE(name_of(how));
    remote_aggregator aggregator(nodes(), how);
    std::vector<std::vector<float>> x;
    for (int rank = 0; rank < workers; ++rank) x.push_back(uniform_values(values, 9, rank));
    thc<float> const codec;
    std::vector<std::vector<float>> means(workers);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back([&, rank] {
        udp::packets link(
            {.rank = rank, .workers = workers, .aggregators = {"10.9.0.1:7475"}, .job = 6});
        aggregated_mean mean(values, codec, link, {.share = {workers}, .resend_after = 20ms});
        link.set_terms(mean.layout().aggregator());
        for (std::uint64_t step = 0; step < 5; ++step) {
          auto own = x[static_cast<std::size_t>(rank)];
          mean.average(std::span(own), draw_key{.seed = 1, .step = step});
          means[static_cast<std::size_t>(rank)] = own;
        }
        mean.leave();
      });
    for (auto& one : threads) one.join();
    auto const expected = mean_of_blocks(codec.fitted(workers), x, draw_key{.seed = 1, .step = 4});
    for (auto const& mean : means) CHECK(first_difference(mean, expected) == nowhere);
    aggregator.await([](auto const& report) { return report["jobs_left"] == 1; });
    auto const report = aggregator.end();
    CHECK(report["ended"]["whole"].get<std::uint64_t>() >= 5 * (values / 1024));
    CHECK(report["ended"]["partial"] == 0);
  }
}

TEST_CASE("xdp: a worker is killed, and sums go out without it, none wrong") {
  nodes();
  using place = nlohmann::json::json_pointer;
  for (mode const how : {mode::xdp, mode::generic_xdp}) {
    CAPTURE(name_of(how));
    remote_aggregator aggregator(nodes(), how);
    worker_processes all("10.9.0.1:7475");
    REQUIRE(wait_until([&] { return all.rounds(workers - 1) >= 20; }));
    aggregator.await([](auto const& it) { return it.value(place("/jobs/0/in_kernel"), false); });
    all.check_without_last(all.kill_last());
    aggregator.await(
        [](auto const& it) { return it.value(place("/jobs/0/left"), 0) == workers - 1; });
    auto const report = aggregator.end();
    CHECK(report["jobs"][0]["joined"] == workers);
    CHECK(report["jobs"][0]["sums"]["partial"] >= 3 * 5);  // three rounds of five packets
  }
}

TEST_CASE("xdp: packets that are no contributions pass unchanged, damaged ones are counted") {
  nodes();
  for (mode const how : {mode::xdp, mode::generic_xdp}) {
    CAPTURE(name_of(how));
    remote_aggregator aggregator(nodes(), how);
    auto const terms = terms_of({"", 4, 30, 1024, 0});
    raw_worker one(5, 0);
    one.join(terms);
    std::unique_ptr<udp::socket> other_port;
    nodes().on_node(
        [&] { other_port = std::make_unique<udp::socket>(udp::address("10.9.0.1:7000")); });
    // To another port: contributions, and datagrams of several frames.
    udp::socket from{udp::address("10.9.0.2:0")};
    auto const good = one.sealed(udp::frame_kind::packet, contribution(terms, 0, 0, 0, 1024));
    random_numbers draws(3);
    std::vector<std::byte> buffer(70'000);
    udp::address sender;
    for (std::size_t const bytes : {0u, 1u, 41u, 568u, 1472u, 1473u, 5000u, 60'000u}) {
      packet sent = good;
      sent.resize(bytes);
      for (auto& byte : sent)
        if (bytes != good.size()) byte = static_cast<std::byte>(draws.next());
      from.send(udp::address("10.9.0.1:7000"), sent);
      other_port->wait(2s);
      auto const got = other_port->receive(buffer, sender);
      REQUIRE(got);
      CHECK(packet(buffer.begin(), buffer.begin() + static_cast<long>(*got)) == sent);
    }
    // To the aggregator's port: noise, a damaged contribution, one of an unknown job, one of a
    // stranger, and one in two fragments.
    for (int n = 0; n < 200; ++n) {
      packet noise(draws.next() % 1400);
      for (auto& byte : noise) byte = static_cast<std::byte>(draws.next());
      one.send(noise);
    }
    for (std::size_t const at : {8u, 30u, 100u, 567u}) {
      auto damaged = good;
      damaged[at] ^= std::byte{1};
      one.send(damaged);
    }
    raw_worker stranger(5, 0), unknown(9, 0);
    stranger.send(good);
    unknown.send(udp::frame_kind::packet, contribution(terms, 0, 0, 0, 1024));
    one.frame().session ^= 1;
    one.send(udp::frame_kind::packet, contribution(terms, 0, 0, 0, 1024));
    one.frame().session ^= 1;
    packet fragments = good;
    fragments.resize(4000);
    one.send(fragments);
    // The process handles words.
    aggregation_packet h;
    h.kind = packet_kind::words;
    h.bits = 32;
    one.send(udp::frame_kind::packet, packet_of(h, {7, 8, 9}));
    aggregator.await(
        [](auto const& report) { return report["received"] == 1 + 200 + 4 + 3 + 1 + 1; });
    auto const report = aggregator.end();
    std::uint64_t dropped = 0;
    for (auto const& [words, count] : report["dropped"].items())
      dropped += count.get<std::uint64_t>();
    CHECK(dropped == 200 + 4 + 1);
    CHECK(report["foreign"] == 2);
    CHECK(report["unknown_job"] == 1);
    CHECK(report["jobs"][0]["sums"]["added"] == 1);
  }
}

/// Waits for the sum of a chunk; answers about earlier chunks may come before it.
bool is_answered(raw_worker& one, std::uint32_t chunk) {
  while (true) {
    auto const datagram = one.receive(2s);
    if (datagram.empty()) return false;
    REQUIRE(datagram.size() == 56 + 1024 + 1);
    if (header_of(packet(datagram.begin() + udp::frame_bytes, datagram.end())).chunk == chunk)
      return true;
  }
}

TEST_CASE("xdp: answers arrive wherever checksums are made, in both directions") {
  nodes();
  for (mode const how : {mode::xdp, mode::generic_xdp})
    for (bool const on_node : {false, true})
      for (bool const back : {false, true}) {
        CAPTURE(name_of(how));
        CAPTURE(on_node);
        CAPTURE(back);
        two_nodes::let_interface_make_checksums("w0", on_node);
        nodes().on_node([&] { two_nodes::let_interface_make_checksums("a0", back); });
        remote_aggregator aggregator(nodes(), how);
        auto terms = terms_of({"", 4, 30, 1024, 0});
        std::vector<std::unique_ptr<raw_worker>> all;
        for (int rank = 0; rank < workers; ++rank) {
          all.push_back(std::make_unique<raw_worker>(5, rank));
          all.back()->join(terms);
        }
        // A datagram may be lost, so a worker sends again. Wrong checksums lose all of them.
        int lost = 0;
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
          std::set<int> unanswered;
          for (int rank = 0; rank < workers; ++rank) unanswered.insert(rank);
          for (; lost <= workers; ++lost) {
            for (int const rank : unanswered)
              all[static_cast<std::size_t>(rank)]->send(udp::frame_kind::packet,
                                                        contribution(terms, 0, chunk, rank, 1024));
            std::erase_if(unanswered, [&](int rank) {
              return is_answered(*all[static_cast<std::size_t>(rank)], chunk);
            });
            if (unanswered.empty()) break;
          }
          REQUIRE(unanswered.empty());
        }
      }
  two_nodes::let_interface_make_checksums("w0", true);
  nodes().on_node([] { two_nodes::let_interface_make_checksums("a0", true); });
}

TEST_CASE("xdp: no program stays attached, also after SIGKILL, and the next aggregator starts") {
  for (mode const how : {mode::xdp, mode::generic_xdp})
    for (int const signal : {SIGTERM, SIGKILL}) {
      CAPTURE(name_of(how));
      CHECK_FALSE(nodes().has_programs());
      remote_aggregator aggregator(nodes(), how);
      CHECK(nodes().has_programs());
      // A second aggregator is refused, and the first one continues.
      nodes().on_node([] {
        CHECK(std::system(HCOMP_AGGREGATOR
                          " --mode xdp --interface a0 --listen 10.9.0.1:7476 2>&1 | "
                          "grep -q 'xdp: attaching to a0: .* (1[67])'") == 0);
      });
      CHECK(nodes().has_programs());
      CHECK(aggregator.process->kill(signal) == (signal == SIGTERM ? 0 : -SIGKILL));
      // The kernel frees the links of a killed process a little later.
      for (int n = 0; n < 100 && nodes().has_programs(); ++n) std::this_thread::sleep_for(10ms);
      CHECK_FALSE(nodes().has_programs());
    }
}
