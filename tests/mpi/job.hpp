#pragma once
/// @file
/// Runs a separate MPI job from a test, kills some of its ranks, and records the outcome of the
/// other ranks.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <hcomp/core/error.hpp>
#include <iterator>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <support/lost_ranks.hpp>
#include <support/process.hpp>
#include <support/scratch_directory.hpp>
#include <vector>

namespace hcomp::mpi::testing {

inline constexpr int max_ranks = 8, max_steps = 400;

using hcomp::testing::ending;
using hcomp::testing::must;
using hcomp::testing::now;

/// Commands from the test to the ranks and their results, in a memory file.
struct ledger {
  struct place {
    std::atomic<int> id;     ///< process id
    std::atomic<int> steps;  ///< taken
    std::atomic<ending> how;
    std::atomic<int> peer;                       ///< rank named by the transport_error
    char text[400];                              ///< exception text
    std::atomic<std::uint64_t> who[max_steps];   ///< per step: one bit for each summand
    std::atomic<std::uint64_t> bits[max_steps];  ///< of the results
    std::atomic<double> when[max_steps];         ///< completion times
    std::atomic<int> fetched;                    ///< number of results received from another rank
  };
  int size, steps;
  std::size_t values;
  std::atomic<double> lost_at;  ///< time of the first kill
  place ranks[max_ranks];

  static ledger& open(std::filesystem::path const& path) {
    int const file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    must(file >= 0 && ::ftruncate(file, sizeof(ledger)) == 0, "the ledger can be made");
    void* const memory = mmap(nullptr, sizeof(ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    must(memory != MAP_FAILED, "the ledger can be mapped");
    return *static_cast<ledger*>(memory);  // initially all zero
  }
};

/// One run of this program as an MPI job.
class job {
 public:
  /// @param how  the work of the ranks: an argument of the program
  job(int size, std::string const& how, int steps = 0, std::size_t values = 0)
      : seen(ledger::open(place_.path() / "ledger")), how_(how) {
    seen.size = size;
    seen.steps = steps;
    seen.values = values;
  }
  ~job() {
    if (launcher_ && launcher_->is_running()) {
      ::kill(-launcher_->id(), SIGKILL);
      for (int rank = 0; rank < seen.size; ++rank)
        if (seen.ranks[rank].id > 0) ::kill(seen.ranks[rank].id, SIGKILL);
    }
    munmap(&seen, sizeof seen);
  }
  job(job const&) = delete;
  job& operator=(job const&) = delete;

  /// @param launcher  words before the number of ranks
  void start(std::string const& launcher) {
    std::vector<std::string> words;
    std::istringstream all(launcher);
    for (std::string word; all >> word;) words.push_back(word);
    words.push_back(std::to_string(seen.size));
    words.push_back(std::filesystem::read_symlink("/proc/self/exe"));
    words.insert(words.end(), {"--rank", how_, place_.path() / "ledger"});
    launcher_.emplace([&] {
      setpgid(0, 0);
      // Removes files that killed ranks leave for Open MPI's shared memory, together with the job.
      setenv("OMPI_MCA_btl_sm_backing_directory", place_.path().c_str(), 1);
      int const output = ::open((place_.path() / "output").c_str(), O_WRONLY | O_CREAT, 0600);
      int const input = ::open("/dev/null", O_RDONLY);
      dup2(input, 0), dup2(output, 1), dup2(output, 2);
      return hcomp::testing::execute(words);
    });
    setpgid(launcher_->id(), launcher_->id());
  }
  /// Waits until a rank has made that number of steps.
  bool await_steps(int rank, int steps) {
    auto const& one = seen.ranks[rank];
    for (double const start = now(); one.steps < steps; usleep(200))
      if (one.how != ending::none || now() - start > 30 || !launcher_->is_running()) return false;
    return true;
  }
  void lose(int rank) {
    double never = 0;
    seen.lost_at.compare_exchange_strong(never, now());
    ::kill(seen.ranks[rank].id, SIGKILL);
  }
  /// Waits for the end of the launcher. Returns false if it hangs.
  bool end(double seconds) {
    auto const ended = launcher_->wait_for(std::chrono::duration<double>(seconds));
    status = ended.value_or(0);
    return ended.has_value();
  }
  std::string output() const {
    std::ifstream file(place_.path() / "output");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  hcomp::testing::scratch_directory place_;

 public:
  ledger& seen;
  int status = 0;  ///< of the launcher, once it has ended

 private:
  std::string how_;
  std::optional<hcomp::testing::child_process> launcher_;
};

/// Runs the body of a rank and records whether it succeeds.
template <class F> void write_ending(ledger::place& mine, F const& body) {
  auto const ended = [&](ending how, std::string const& text, int peer = -1) {
    text.copy(mine.text, sizeof mine.text - 1);
    mine.peer = peer;
    mine.how = how;
  };
  try {
    body();
    ended(ending::finished, "finished");
  } catch (transport_error const& error) {
    ended(ending::gave_up, error.what(), error.peer());
  } catch (std::exception const& error) {
    ended(ending::other_exception, error.what());
  }
}

}  // namespace hcomp::mpi::testing
