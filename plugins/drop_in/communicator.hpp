#pragma once
/// @file
/// What belongs to one communicator of the program: sums over messages of its own, one after the
/// other here, or several at a time in a thread.

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

/// Created by all ranks of a communicator in their first call that is summed here.
///
/// Sums are begun in the order of the calls. Those that may take place beside the program go to a
/// thread of this communicator's own: a single thread for all of them would wait for ever where
/// ranks begin sums on two communicators in different orders, which MPI allows.
class communicator : public std::enable_shared_from_this<communicator> {
 public:
  using work = std::function<void(communicator&)>;
  /// Which sum in the thread it is, from 0, in the order of the calls.
  using work_aside = std::function<void(communicator&, std::uint64_t number)>;
  static constexpr std::size_t most_together = 4;

  /// Collective. Waits as a broadcast does, but for nobody if sums may be made aside: these need a
  /// copy of `comm`, for MPI may have to make them.
  communicator(MPI_Comm comm, bool may_sum_aside, std::uint64_t number, residual_store& residuals);
  ~communicator();
  communicator(communicator const&) = delete;
  communicator& operator=(communicator const&) = delete;

  /// Does it now, after all that was begun before. What it throws comes through.
  void run(work const& sum);
  /// Does it soon, in the thread. It must not throw. MPI_THREAD_MULTIPLE is needed.
  /// @param together  it may be under way with up to most_together - 1 of those before and behind it;
  ///                  otherwise it is alone. The same on all ranks
  void begin(work_aside sum, bool together);

  /// A persistent request may begin sums at any time, even when the program has freed the
  /// communicator; until let_go.
  void keep();
  bool let_go();  ///< as release

  /// The program has freed the communicator. What was begun goes on; then, when no persistent
  /// request is left, all that MPI keeps is given back, in the thread if there is one: MPICH tells
  /// us in the middle of its work there.
  /// Waits for the copy: Open MPI 4.1 crashes where one of a freed communicator is being made.
  /// Returns false as long as a persistent request is left.
  bool release();
  /// The same at the end of the program, whatever is left.
  void release_for_good() { end(); }
  /// Waits until the threads of all communicators that were released have ended.
  static void wait_for_threads();

  std::uint64_t number() const { return number_; }
  /// For work alone. @throws transport_error
  plan_cache& sums();
  /// For work alone: whether it is in the thread, beside the program's own.
  bool is_aside() const { return thread_ == std::this_thread::get_id(); }
  /// For work aside alone, after sums(): for sums by MPI, which others may begin meanwhile on the
  /// program's communicator.
  MPI_Comm private_copy() const { return copy_; }
  /// For work aside alone: returns when those with smaller numbers are done.
  void wait_for_earlier(std::uint64_t number) { begun_.wait_for_earlier(*over_, number); }
  /// For copies of what is in a device's memory.
  spare_memory& spare() { return spare_; }
  /// For work alone: how many sums were made before this one; the same on all ranks.
  std::uint64_t next_call() { return calls_++; }
  std::uint64_t calls() const { return calls_; }
  /// The same of those by a rule: one that is compared now and then.
  std::uint64_t next_call_by(std::string const& rule) { return calls_by_[rule]++; }
  /// Which way sums by such a rule go, of about so many bytes and like that function of MPI.
  faster_strategy& strategy_of(std::string const& rule, std::string_view function,
                               std::size_t bytes) {
    return strategies_[{rule, function, size_class(bytes)}];
  }

 private:
  void serve();
  void sum_all_that_wait();
  void wait_for_copy();
  void end();
  void give_back();

  MPI_Comm copy_ = MPI_COMM_NULL;
  MPI_Request copied_ = MPI_REQUEST_NULL;
  std::uint64_t number_, calls_ = 0;
  std::map<std::string, std::uint64_t> calls_by_;
  std::map<std::tuple<std::string, std::string_view, unsigned>, faster_strategy> strategies_;
  residual_store* residuals_;
  spare_memory spare_;  // before the sums under way, which give back what they took
  // Where sums may be made aside: what sums_ uses.
  std::unique_ptr<mpi::transport> transport_;
  std::unique_ptr<concurrent_transport> over_;
  std::unique_ptr<plan_cache> sums_;
  request_queue begun_{most_together};
  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::thread::id thread_;
  int kept_ = 0;  ///< by persistent requests
  bool has_thread_ = false, has_copy_ = false, is_released_ = false;
};

}  // namespace hcomp::drop_in
