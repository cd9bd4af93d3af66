#pragma once
/// @file
/// libhcomp_nccl.so in one process.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <c/settings.hpp>
#include <drop_in/journal.hpp>
#include "communicator.hpp"
#include "reduction_call.hpp"

namespace hcomp::drop_in {

/// Takes calls over by the rules of HCOMP_CONFIG. Any thread may call its functions; one thread at a
/// time uses a communicator, as NCCL demands.
class nccl_library {
 public:
  static nccl_library& get();

  /// Runs a call, or keeps it until the end of this thread's group. Result of NCCL.
  int reduce(reduction_call const& call);
  int begin_group();
  int end_group();
  /// @param by_nccl  NCCL's function, which ends the group without its calls
  int simulate_group(std::function<int()> const& by_nccl);
  /// The asynchronous error of a communicator, or of those of its nodes.
  int async_error(nccl::communicator comm, int* error);
  /// Ends a communicator by NCCL's function, and frees what belongs to it.
  int end(char const* function, nccl::communicator comm);

 private:
  struct decision {
    rule const* as = nullptr;  ///< null: NCCL reduces the vector
    char const* why = "";
  };
  /// Key of the report's rows. Texts are compared by address.
  struct row {
    char const* function;
    void const* caller;
    int type;
    int ranks;
    rule const* as;
    char const* why;

    friend auto operator<=>(row const&, row const&) = default;
  };
  /// A call whose time is not known yet.
  struct timed_call {
    row where;
    int device;
    cudaEvent_t begin, end;
  };

  nccl_library();

  /// @throws std::runtime_error  the communicator is ending
  std::shared_ptr<nccl_communicator> state_of(nccl::communicator comm);
  /// Frees ended communicators whose work is done. Not while `mutex_` is locked: freeing memory
  /// waits for the device.
  void free_ended();
  /// Why hcomp cannot reduce a vector of this type or operation; null: it can.
  static char const* unfit(reduction_call const& call);
  decision decide(reduction_call const& call, nccl_communicator const& state) const;
  /// Introduces the ranks of these communicators, if they are not.
  void introduce(std::span<std::shared_ptr<nccl_communicator> const> all);
  /// Reduces calls of one communicator, stream, type and rule.
  int take(nccl_communicator& state, std::span<reduction_call const> calls, rule const& as);
  int pass(reduction_call const& call, char const* why, int ranks);
  /// The calls of a group, after its end.
  int reduce_kept(std::vector<reduction_call> const& calls);

  void count(row const& where, std::size_t values, std::size_t plain, std::size_t sent);
  /// Of calls that are done.
  void collect_times();
  void write_report();
  /// Runs f. An exception becomes a line on standard error and a result of NCCL.
  int guarded(char const* function, std::function<int()> const& f);

  settings settings_;
  std::string report_;
  int seconds_ = 60;
  std::string invalid_;      ///< why the environment is; empty: it is valid
  bool is_patient_ = false;  ///< HCOMP_TIMEOUT is not set: waits without end, and says so once
  introduction own_;
  std::mutex mutex_;
  std::map<nccl::communicator, std::shared_ptr<nccl_communicator>> states_;
  std::vector<std::shared_ptr<nccl_communicator>> ended_;  ///< whose work may still go on
  std::optional<int> first_rank_;  ///< in the first communicator of several ranks

  std::mutex report_mutex_;
  std::map<row, site_stats> rows_;
  std::deque<timed_call> timed_;
  std::map<int, std::vector<std::pair<cudaEvent_t, cudaEvent_t>>> spare_events_;  ///< by device
};

}  // namespace hcomp::drop_in
