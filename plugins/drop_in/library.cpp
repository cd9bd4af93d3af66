#include "library.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/detail/float_environment.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/simd_level.hpp>
#include <hcomp/core/version.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/detail/deadline.hpp>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "environment.hpp"
#include "take_over.hpp"

namespace hcomp::drop_in {

std::atomic<int> least_count{std::numeric_limits<int>::max()};
totals so_far;

std::atomic<library*> library::instance_{nullptr};
std::atomic<library*> library::keeper_{nullptr};

namespace {

constexpr int start_tag = 32749;  ///< below 32767, which every MPI supports

/// Prints the text and aborts the job.
[[noreturn]] void end_job(std::string const& text) {
  std::fprintf(stderr, "hcomp: %s\n", hcomp::detail::printable(text).c_str());
  std::fflush(stderr);
  // MPICH's launcher may end before it has forwarded the last output.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  PMPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

/// Settings from the environment, or the error in them.
struct asked {
  settings values;
  std::string codecs, report, error;
  int timeout_seconds = 60;

  /// @param writes_report  this rank writes the report
  explicit asked(bool writes_report) {
    try {
      best_simd_level();  // throws for an invalid HCOMP_MAX_SIMD
      codecs = add_codecs_from_environment();
      require_no_misspelt_config();
      values = settings::from(variable("HCOMP_CONFIG"));
      report = report_from_environment();
      values.shadow_calls = shadow_from_environment().value_or(values.shadow_calls);
      timeout_seconds = timeout_from_environment();
      if (writes_report) require_writable_report(report);
    } catch (std::invalid_argument const& what) {
      error = what.what();
    }
  }
  /// Text that must be equal on all ranks.
  std::string text() const {
    if (!error.empty()) return error;
    return "hcomp " + std::to_string(HCOMP_VERSION_MAJOR) + '.' +
           std::to_string(HCOMP_VERSION_MINOR) + '.' + std::to_string(HCOMP_VERSION_PATCH) +
           ", settings '" + values.text() + "', shadow " + std::to_string(values.shadow_calls) +
           ", report " + (report.empty() ? "off" : "on") +
           (codecs.empty() ? "" : ", codecs " + codecs);
  }
};

/// Polls `done` until the limit; false on timeout.
template <class F> bool wait_until(hcomp::detail::deadline& limit, F const& done) {
  for (;;) {
    if (done()) return true;
    if (limit.passed()) return false;
    std::this_thread::yield();
  }
}

/// Rank 0 receives the settings of the other ranks and confirms them, or ends the job. Uses
/// point-to-point messages with a timeout, because a rank without this library would not answer a
/// collective.
/// Returns the thread level that all ranks support.
int agree(asked const& mine) {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  auto const text = mine.text();
  // Rank 0 waits half as long as the other ranks, so rank 0 reports the missing rank.
  int const seconds = (rank > 0 ? 2 : 1) * mine.timeout_seconds;
  hcomp::detail::deadline limit{std::chrono::seconds(seconds)};
  auto const silent = [&](int who) {
    return "rank " + std::to_string(who) + " has said nothing for " + std::to_string(seconds) +
           " s after MPI_Init (HCOMP_TIMEOUT); is the library loaded there too (mpirun -x "
           "LD_PRELOAD=..., mpiexec -genv LD_PRELOAD ..., or --mca coll_hcomp_priority ...)?";
  };
  if (rank > 0) {
    PMPI_Send(&level, 1, MPI_INT, 0, start_tag, MPI_COMM_WORLD);
    PMPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, start_tag, MPI_COMM_WORLD);
    MPI_Request go;
    PMPI_Irecv(&level, 1, MPI_INT, 0, start_tag, MPI_COMM_WORLD, &go);
    if (!wait_until(limit, [&] {
          int done = 0;
          PMPI_Test(&go, &done, MPI_STATUS_IGNORE);
          return done != 0;
        }))
      end_job(silent(0));
    return level;
  }
  if (!mine.error.empty()) end_job(mine.error);
  for (int other = 1; other < ranks; ++other) {
    MPI_Status status;
    if (!wait_until(limit, [&] {
          int arrived = 0;
          PMPI_Iprobe(other, start_tag, MPI_COMM_WORLD, &arrived, &status);
          return arrived != 0;
        }))
      end_job(silent(other));
    int their_level = level;
    PMPI_Recv(&their_level, 1, MPI_INT, other, start_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    level = std::min(level, their_level);  // MPI orders the levels
    PMPI_Probe(other, start_tag, MPI_COMM_WORLD, &status);
    int count = 0;
    PMPI_Get_count(&status, MPI_CHAR, &count);
    std::string theirs(static_cast<std::size_t>(count), ' ');
    PMPI_Recv(theirs.data(), count, MPI_CHAR, other, start_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (theirs != text)
      end_job("ranks have different settings:\n  rank 0: " + text + "\n  rank " +
              std::to_string(other) + ": " + theirs);
  }
  for (int other = 1; other < ranks; ++other)
    PMPI_Send(&level, 1, MPI_INT, other, start_tag, MPI_COMM_WORLD);
  return level;
}

int least_values(settings const& all) {
  std::size_t least = std::numeric_limits<int>::max();
  for (auto const& one : all.rules)
    if (one.spec.codec != "none") least = std::min(least, one.min_bytes / size_of(one.type));
  return static_cast<int>(least);
}

std::atomic<bool> interposed{false};

}  // namespace

int thread_level(int asked) noexcept {
  interposed = true;
  return library::thread_level(asked);
}
bool is_interposed() noexcept { return interposed; }
bool reports() noexcept {
  auto const* const lib = library::running();
  return lib && lib->reports();
}
void start() noexcept {
  hcomp::detail::float_environment const environment;
  try {
    library::start();
  } catch (std::exception const& error) {
    end_job(error.what());
  }
}
void stop() noexcept {
  hcomp::detail::float_environment const environment;
  try {
    library::stop();
  } catch (std::exception const& error) {
    end_job(error.what());
  }
}

int library::thread_level(int level) {
  try {
    if (settings::from(variable("HCOMP_CONFIG")).nonblocking)
      return std::max<int>(level, MPI_THREAD_MULTIPLE);
  } catch (std::invalid_argument const&) {  // start() reports it
  }
  return level;
}

void library::start() {
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  static bool started = false;
  if (std::exchange(started, true)) return;
  asked const mine(mpi::rank_of(MPI_COMM_WORLD) == 0);
  int const level = agree(mine);
  auto* const one = new library(mine.values, mine.report, level);
  keeper_ = one;
  instance_.store(one, std::memory_order_release);
  one->watch(one->settings_);
  // A forked child has neither the library's threads nor access to MPI.
  pthread_atfork(nullptr, nullptr, [] {
    least_count = std::numeric_limits<int>::max();
    instance_ = nullptr;
  });
}

library::library(settings const& wanted, std::string report, int level)
    : settings_(wanted),
      report_(std::move(report)),
      thread_level_(level),
      residuals_(wanted.feedback_bytes) {
  mpi::require(PMPI_Comm_dup(MPI_COMM_SELF, &self_), "MPI_Comm_dup");
  int* bound = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(self_, MPI_TAG_UB, static_cast<void*>(&bound), &found);
  if (found) largest_tag_ = *bound;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, freed, &state_key_, nullptr);
  PMPI_Comm_create_keyval(
      [](MPI_Comm, int, void*, void* value, void* copy, int* flag) -> int {
        *static_cast<settings**>(copy) = new settings(*static_cast<settings*>(value));
        *flag = 1;
        return MPI_SUCCESS;
      },
      [](MPI_Comm, int, void* value, void*) -> int {
        delete static_cast<settings*>(value);
        return MPI_SUCCESS;
      },
      &settings_key_, nullptr);
  if (has_threads()) state_of(MPI_COMM_WORLD);  // later, nonblocking calls could not copy it
  // MPI_Finalize first deletes the attributes of MPI_COMM_SELF, in every language.
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &end_key_, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, end_key_, this);
}

void library::watch(settings const& wanted) {
  least_count = std::min(least_count.load(), reports() ? 0 : least_values(wanted));
}

settings const& library::settings_of(MPI_Comm comm) {
  if (!has_special_.load(std::memory_order_relaxed)) return settings_;
  settings* special = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, settings_key_, static_cast<void*>(&special), &found);
  return found ? *special : settings_;
}

void library::set(MPI_Comm comm, std::string const& text) {
  std::string error;
  auto wanted = std::make_unique<settings>();
  try {
    *wanted = settings::from(text);
  } catch (std::invalid_argument const& what) {
    error = what.what();
  }
  auto const told = error.empty() ? wanted->text() : error;
  auto const print =
      fingerprint(serial_group{}, reinterpret_cast<std::byte const*>(told.data()), told.size());
  std::uint64_t range[] = {print, ~print};
  mpi::require(PMPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_UINT64_T, MPI_MAX, comm),
               "MPI_Allreduce");
  if (!error.empty()) throw std::invalid_argument(error);
  if (range[0] != print || range[1] != ~print)
    throw disagreement_error("hcomp_comm_set: ranks have different settings; here '" + told + "'");
  watch(*wanted);
  has_special_ = true;
  mpi::require(PMPI_Comm_set_attr(comm, settings_key_, wanted.get()), "MPI_Comm_set_attr");
  wanted.release();  // MPI frees it with the communicator
}

void library::unset(MPI_Comm comm) {
  settings* special = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, settings_key_, static_cast<void*>(&special), &found);
  if (found) mpi::require(PMPI_Comm_delete_attr(comm, settings_key_), "MPI_Comm_delete_attr");
}

std::shared_ptr<communicator> library::state_of(MPI_Comm comm) {
  communicator* state = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, state_key_, static_cast<void*>(&state), &found);
  if (found) return state->shared_from_this();
  std::unique_lock lock(mutex_);
  std::uint64_t const number = communicators_++;
  lock.unlock();
  auto made = std::make_shared<communicator>(comm, has_threads(), number, residuals_);
  mpi::require(PMPI_Comm_set_attr(comm, state_key_, made.get()), "MPI_Comm_set_attr");
  lock.lock();
  states_.emplace(number, made);
  return made;
}

int library::freed(MPI_Comm, int, void* value, void*) {
  library* const owner = keeper_;
  if (!owner) return MPI_SUCCESS;
  std::shared_ptr<communicator> gone;
  {
    std::lock_guard const lock(owner->mutex_);
    auto const found = std::ranges::find_if(
        owner->states_, [&](auto const& one) { return one.second.get() == value; });
    if (found == owner->states_.end()) return MPI_SUCCESS;
    gone = found->second;
  }
  if (gone->release()) owner->forget(*gone);
  return MPI_SUCCESS;
}

void library::forget(communicator const& state) {
  std::lock_guard const lock(mutex_);
  states_.erase(state.number());
}

int library::make_request(bool persistent, MPI_Request* request, int& tag) {
  tag = static_cast<int>(static_cast<unsigned>(next_tag_++) % static_cast<unsigned>(largest_tag_));
  return persistent ? PMPI_Recv_init(nullptr, 0, MPI_BYTE, 0, tag, self_, request)
                    : PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, tag, self_, request);
}
void library::finish_request(int tag) { PMPI_Send(nullptr, 0, MPI_BYTE, 0, tag, self_); }

int library::at_end(MPI_Comm, int, void* value, void*) {
  auto* const it = static_cast<library*>(value);
  drop_in::stop();
  if (it->is_finished_) delete it;  // not in a forked child
  return MPI_SUCCESS;
}

void library::stop() {
  if (auto* const it = running()) it->finish();
}

void library::finish() {
  is_finished_ = true;
  least_count = std::numeric_limits<int>::max();
  instance_ = nullptr;
  // In order of creation, which is equal on all ranks. Communicators that the program did not free
  // keep their attribute, and MPI calls `freed` for them.
  for (auto& one : states_) one.second->release_for_good();
  communicator::wait_for_threads();
  states_.clear();
  keeper_ = nullptr;
  if (reports()) write_report();
  PMPI_Comm_free(&self_);
}

void library::write_report() {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  passed_.move_to(journal_);
  auto const mine = journal_.to_json();
  int const bytes = static_cast<int>(mine.size());
  std::vector<int> all(static_cast<std::size_t>(ranks)), places(all.size());
  PMPI_Gather(&bytes, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string texts;
  if (rank == 0) {
    int place = 0;
    for (std::size_t r = 0; r < all.size(); ++r) places[r] = std::exchange(place, place + all[r]);
    texts.resize(static_cast<std::size_t>(place));
  }
  PMPI_Gatherv(mine.data(), bytes, MPI_CHAR, texts.data(), all.data(), places.data(), MPI_CHAR, 0,
               MPI_COMM_WORLD);
  if (rank > 0) return;
  for (std::size_t r = 1; r < all.size(); ++r)
    journal_.merge_json({texts.data() + places[r], static_cast<std::size_t>(all[r])});
  if (report_.starts_with("json:")) {
    auto const file = report_.substr(5);
    std::ofstream out(file);
    out << journal_.report_json(ranks, settings_.text()) << '\n';
    if (!out.flush())
      std::fprintf(stderr, "hcomp: HCOMP_REPORT: '%s' could not be written to its end\n",
                   hcomp::detail::printable(file).c_str());
  } else if (!report_.empty()) {
    std::fputs(journal_.summary(ranks).c_str(), stderr);
  }
  if (settings_.shadow_calls > 0) std::fputs(journal_.prediction(ranks).c_str(), stderr);
}

}  // namespace hcomp::drop_in
