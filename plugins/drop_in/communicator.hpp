#pragma once
/// @file
/// State of one communicator of the program: private messages, blocking calls in the caller's
/// thread, and nonblocking calls in a progress thread.

#include <mpi.h>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/transport/concurrent_transport.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

#include <c/plan_cache.hpp>
#include <c/request_queue.hpp>
#include <c/residual_store.hpp>
#include <c/settings.hpp>
#include <c/spare_memory.hpp>
#include "faster_strategy.hpp"
#include "shared_copy.hpp"

namespace hcomp::drop_in {

/// Created collectively in a communicator's first call that hcomp takes over.
///
/// Calls start in program order. Nonblocking calls run in the communicator's own progress thread. A
/// single thread for all communicators could deadlock: MPI allows ranks to start nonblocking calls
/// on two communicators in different orders.
class communicator : public std::enable_shared_from_this<communicator> {
 public:
  using work = std::function<void(communicator&)>;
  /// Work of a nonblocking call, with its position in the order of the calls, from 0.
  using work_aside = std::function<void(communicator&, std::uint64_t number)>;
  static constexpr std::size_t most_together = 4;

  /// Collective. Waits for other ranks only for MPI_COMM_WORLD with `may_run_aside`. The
  /// communicator is then copied, because MPI may have to run a nonblocking call. Otherwise it uses
  /// a shared copy. `comm` must exist until `plans` has been called.
  communicator(MPI_Comm comm, bool may_run_aside, std::uint64_t number, residual_store& residuals);
  ~communicator();
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;

  /// Runs a blocking call after all started calls. Passes its exceptions on.
  void run(work const& body);
  /// Queues a nonblocking call for the progress thread. The call must not throw. Needs
  /// MPI_THREAD_MULTIPLE.
  /// @param together  the call may overlap with up to most_together - 1 neighbouring calls;
  ///                  otherwise it runs alone. Equal on all ranks
  void begin(work_aside body, bool together);

  /// Keeps the communicator alive for a persistent request until let_go. Such a request may start
  /// calls even after the program has freed the communicator.
  void keep();
  bool let_go();  ///< result: as release

  /// Called when the program frees the communicator. Started calls continue. The communicator
  /// returns all MPI objects once no persistent request is left. The progress thread does this if
  /// it exists, because MPICH calls `release` in the middle of its own work.
  /// Waits until the duplicate of the communicator exists, because Open MPI 4.1 crashes if the
  /// program frees the original earlier.
  /// Returns false while a persistent request is left.
  bool release();
  /// The same at the program's end, regardless of persistent requests.
  void release_for_good() { end(); }
  /// Waits until the progress threads of all released communicators have ended.
  static void wait_for_threads();

  std::uint64_t number() const { return number_; }
  /// Why a nonblocking call is impossible, equally on all ranks; null if it is possible.
  /// @param waits  the call may wait for other ranks
  char const* why_not_aside(bool waits) const;
  /// Only within a call. @throws transport_error
  plan_cache& plans();
  /// Only within a call: whether it runs in the progress thread.
  bool is_aside() const { return thread_ == std::this_thread::get_id(); }
  /// Only within a nonblocking call, after `plans()`: the communicator for MPI's all-reduces. The
  /// program may start other collectives on its own communicator meanwhile.
  MPI_Comm private_copy() const { return copy_; }
  /// Only within a nonblocking call: returns when all calls with smaller numbers are done.
  void wait_for_earlier(std::uint64_t number) { begun_.wait_for_earlier(*over_, number); }
  /// Host copies of device buffers.
  spare_memory& spare() { return spare_; }
  /// Only within a call: number of earlier calls, equal on all ranks.
  std::uint64_t next_call() { return calls_++; }
  std::uint64_t calls() const { return calls_; }
  /// The same per rule, for rules that compare every n-th call.
  std::uint64_t next_call_by(std::string const& rule) { return calls_by_[rule]++; }
  /// The choice between codec and MPI for this rule, MPI function and size class.
  faster_strategy& strategy_of(std::string const& rule, std::string_view function,
                               std::size_t bytes) {
    return strategies_[{rule, function, size_class(bytes)}];
  }

 private:
  void serve();
  void run_pending();
  void make_copy();
  void end();
  void give_back();

  /// Open MPI's MPI_Comm_idup consists of several nonblocking collectives. They pair with those
  /// that the program starts meanwhile. So only a blocking call can make the copy.
#ifdef OPEN_MPI
  static constexpr bool pairs_idup_wrongly = true;
#else
  static constexpr bool pairs_idup_wrongly = false;
#endif

  MPI_Comm comm_, copy_ = MPI_COMM_NULL;
  MPI_Request pending_ = MPI_REQUEST_NULL;  ///< makes the copy
  std::uint64_t number_, calls_ = 0;
  std::map<std::string, std::uint64_t> calls_by_;
  std::map<std::tuple<std::string, std::string_view, unsigned>, faster_strategy> strategies_;
  residual_store* residuals_;
  spare_memory spare_;  // before the calls in progress, which return their buffers to it
  // Used by sums_ if nonblocking calls are possible.
  std::unique_ptr<mpi::transport> transport_;
  std::unique_ptr<concurrent_transport> over_;
  std::unique_ptr<plan_cache> sums_;
  request_queue begun_{most_together};
  std::mutex mutex_;  ///< of the members below
  std::condition_variable changed_;
  std::thread::id thread_;
  int kept_ = 0;  ///< number of persistent requests
  bool has_thread_ = false, has_copy_ = false, is_released_ = false;
  bool has_own_copy_;  ///< or will have; false: uses the shared copy
};

}  // namespace hcomp::drop_in
