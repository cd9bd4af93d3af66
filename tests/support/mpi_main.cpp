/// @file
/// doctest's main for tests that run as several MPI processes.
///
/// Every rank runs every test case. Output is kept back until the end. Then rank 0 prints its own
/// output and that of ranks that failed. The exit status is the worst of all ranks. A rank that
/// hangs, for example because another rank failed inside a collective, prints its test case and its
/// output after HCOMP_TEST_SECONDS, and ends the job.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <thread>

namespace {

std::atomic<char const*> current_test_case = "none";

struct test_case_tracker : doctest::IReporter {
  explicit test_case_tracker(doctest::ContextOptions const&) {}
  void test_case_start(doctest::TestCaseData const& data) override {
    current_test_case = data.m_name;
  }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};
DOCTEST_REGISTER_LISTENER("tracker", 1, test_case_tracker);

/// Collects the output of one thread, so that another thread can read it at any time.
class kept_output : public std::streambuf {
 public:
  std::string text() {
    std::lock_guard const lock(mutex_);
    return text_;
  }

 private:
  int_type overflow(int_type c) override {
    char const letter = traits_type::to_char_type(c);
    xsputn(&letter, 1);
    return c;
  }
  std::streamsize xsputn(char const* letters, std::streamsize n) override {
    std::lock_guard const lock(mutex_);
    text_.append(letters, static_cast<std::size_t>(n));
    return n;
  }

  std::mutex mutex_;
  std::string text_;
};

void print(int rank, std::string const& text) {
  std::fprintf(stderr, "[rank %d] %s\n", rank, text.c_str());
}

/// Ends the process after `seconds`.
class watchdog {
 public:
  watchdog(int rank, int seconds, kept_output& output)
      : thread_([=, this, &output] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, std::chrono::seconds(seconds), [this] { return finished_; }))
            return;
          print(rank, "no end after " + std::to_string(seconds) + " s, in test case '" +
                          current_test_case.load() + "'\n" + output.text());
          std::this_thread::sleep_for(std::chrono::seconds(1));  // lets the other ranks print, too
          std::_Exit(1);
        }) {}
  ~watchdog() {
    {
      std::lock_guard const lock(mutex_);
      finished_ = true;
    }
    over_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool finished_ = false;
  std::thread thread_;
};

/// Rank 0 prints in the order of ranks. The other ranks send their output to it.
void print_in_order(MPI_Comm comm, std::string const& text) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (rank > 0) {
    MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, 0, comm);
    return;
  }
  print(0, text);
  for (int peer = 1; peer < size; ++peer) {
    MPI_Status status;
    int length = 0;
    MPI_Probe(peer, 0, comm, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string other(static_cast<std::size_t>(length), ' ');
    MPI_Recv(other.data(), length, MPI_CHAR, peer, 0, comm, MPI_STATUS_IGNORE);
    if (length > 0) print(peer, other);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm comm;  // a separate one: a test may leave messages on MPI_COMM_WORLD
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);

  kept_output output;
  std::ostream stream(&output);
  int worst = 0;
  {
    char const* const seconds = std::getenv("HCOMP_TEST_SECONDS");
    watchdog const guard(rank, seconds ? std::atoi(seconds) : 3600, output);

    doctest::Context context;
    context.setOption("no-colors", true);
    context.applyCommandLine(argc, argv);
    context.setCout(&stream);
    int const mine = context.run();
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, comm);
    print_in_order(comm, rank == 0 || mine != 0 ? output.text() : std::string());
  }
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return worst;
}
