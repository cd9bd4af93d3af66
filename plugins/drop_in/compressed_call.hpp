#pragma once
/// @file
/// One reduction that hcomp takes over: the decision, its buffers, its execution, comparison and
/// report.

#include <mpi.h>
#include <cstddef>
#include <hcomp/mpi/call.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "communicator.hpp"
#include "environment.hpp"
#include "journal.hpp"
#include "library.hpp"
#include "mpi_type.hpp"
#include "take_over.hpp"

namespace hcomp::drop_in {

/// This rank cannot copy a finished result to its destination.
class copy_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Decision on a call: the rule that applies, or the reason why MPI runs it.
struct decision {
  rule const* as = nullptr;
  value_type type = value_type::float32;
  int ranks = 0;
  char const* why = "";
};

decision decide(library& lib, reduction_call const& call, bool nonblocking);

/// True if the buffers are valid. MPI handles invalid buffers and reports the errors. Valid buffers
/// are valid on all ranks. This local check must not depend on values that may differ between
/// ranks, for example an empty part, which needs no buffer.
bool has_buffers(reduction_call const& call);

/// Records a call that is left to MPI.
void note_passed(library& lib, reduction_call const& call, decision const& d);

/// Reports an hcomp error as an MPI error.
int raise(reduction_call const& call, char const* what);

/// True while hcomp runs a reduction. Its own MPI calls pass through the interposed functions,
/// which must not take them over.
extern thread_local constinit bool is_summing;
class collective_now {
 public:
  collective_now() : was_summing_(std::exchange(is_summing, true)) {}
  ~collective_now() { is_summing = was_summing_; }
  collective_now(collective_now const&) = delete;
  collective_now& operator=(collective_now const&) = delete;

 private:
  bool was_summing_;
};
/// The library, or null if this call must pass through to MPI.
library* taking();

/// A reduction over all ranks by a rule, with MPI as the fallback.
struct compressed_call {
  library* lib;
  reduction_call call;
  decision d;
  // Copies: the communicator and its settings may be freed while a thread uses them.
  rule as;
  std::size_t shadow_calls;
  std::span<int const> counts;   ///< of a reduce-scatter; empty: all-reduce
  void const* tensor;            ///< the program's receive buffer
  void* context = nullptr;       ///< CUDA context of the program's thread; null: this thread
  bool is_out_of_reach = false;  ///< a device buffer without a host copy
  bool is_on_device = false;     ///< the receive buffer is in device memory, and stays there
  bool is_timed = false;         ///< excluded from comparison with MPI
  bool is_look = false;          ///< a probe: reduces a part, discards the result, not reported

  compressed_call(library& l, reduction_call const& c, decision const& taken,
                  std::span<int const> counts_of_ranks = {})
      : lib(&l),
        call(c),
        d(taken),
        as(*taken.as),
        shadow_calls(l.settings_of(c.comm).shadow_calls),
        counts(counts_of_ranks),
        tensor(c.receive) {
    d.as = nullptr;
  }

  std::size_t values() const { return static_cast<std::size_t>(call.count); }
  std::size_t bytes() const { return values() * size_of(d.type); }
  /// Size of this rank's result.
  std::size_t result_bytes() const { return result_values() * size_of(d.type); }
  void const* input() const { return call.send == MPI_IN_PLACE ? call.receive : call.send; }
  /// True if other calls may run concurrently. False for calls compared with MPI, and for
  /// hierarchical algorithms, which share memory.
  bool goes_together() const {
    return bytes() <= most_bytes_together && as.check_every == 0 && shadow_calls == 0 &&
           !as.spec.algorithm.hierarchical;
  }

  /// Runs the reduction. Returns false, on all ranks alike and with x unchanged, if MPI has to run
  /// it: the codec does not support the values, or some rank cannot access its buffers.
  /// @param x      input, on return the result. For a reduce-scatter, the buffer for this rank's
  ///               part. Ignored if out of reach
  /// @param place  see plan_cache::all_reduce
  /// @throws disagreement_error, wire_error, transport_error, std::bad_alloc
  bool operator()(communicator& state, void* x, std::size_t place = 0) const;

  /// Returns when all ranks have called it.
  void wait_for_all(communicator& state) const {
    mpi::require(PMPI_Barrier(comm_of(state)), "MPI_Barrier");
  }
  MPI_Comm comm_of(communicator& state) const {
    return state.is_aside() ? state.private_copy() : call.comm;
  }

 private:
  void compare(site_stats& stats, void const* sum, void const* exact, std::size_t n) const;
  std::size_t result_values() const;
  report reduce_by_rule(plan_cache& plans, void* x, bool is_aside, std::size_t place) const;
  void reduce_by_mpi(communicator& state, void* x) const;
  /// Counts and reports the call.
  /// @param left_because  why MPI has to run the call
  void record(site_stats const& stats, std::optional<std::string> const& left_because) const;
};

}  // namespace hcomp::drop_in
