#include "take_over.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <hcomp/mpi/call.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <c/cuda_memory.hpp>
#include <c/device_plan.hpp>
#include "compressed_call.hpp"
#include "faster_call.hpp"
#include "library.hpp"
#include "mpi_type.hpp"
#include "passed_calls.hpp"
#include "staged_call.hpp"

namespace hcomp::drop_in {

namespace {
/// Runs a reduction of host or device buffers.
/// @param make, may_stay  as of take
/// @throws copy_error  the result cannot be copied to the device
template <class Make>
bool staged(communicator& state, compressed_call const& of_program, Make const& make,
            bool may_stay) {
  staged_call const here(state, of_program, may_stay);
  if (!make(state, here.reduction())) return false;
  here.put_back();
  return true;
}

/// Runs the reduction of the call if hcomp takes it over.
/// @param counts  values per rank for a reduce-scatter; else empty
/// @param by_mpi  MPI's function, for rules with when=faster
/// @param make    (state, sum) reduces in host memory and writes the receive buffer; false leaves
///                the call to MPI
/// @param may_stay  `make` also reduces in device memory
template <class Make>
bool take(reduction_call const& call, int& code, std::span<int const> counts,
          function_of_mpi const& by_mpi, Make const& make, bool may_stay = false) {
  auto* const lib = taking();
  if (!lib) return false;
  auto const d = decide(*lib, call, false);
  if (!d.as || !has_buffers(call)) {
    note_passed(*lib, call, d);
    return false;
  }
  code = MPI_SUCCESS;
  bool is_done = true;
  try {
    lib->state_of(call.comm)->run([&](communicator& state) {
      compressed_call reduction(*lib, call, d, counts);
      auto const made = [&](communicator& own, compressed_call const& one) {
        return staged(own, one, make, may_stay);
      };
      if (reduction.as.if_faster)
        code = faster_call(state, std::move(reduction), by_mpi, made)();
      else
        is_done = made(state, reduction);
    });
  } catch (std::exception const& error) {
    code = raise(call, error.what());
  }
  return is_done;
}

/// Reduces into the receive buffer.
/// @param place  see plan_cache::all_reduce
bool reduce_in_place(communicator& state, compressed_call const& reduction, std::size_t place = 0) {
  if (reduction.call.send == MPI_IN_PLACE || reduction.is_out_of_reach) {
    // nothing to copy
  } else if (reduction.is_on_device) {
    loaded_cuda_library().copy(reduction.call.receive, reduction.call.send, reduction.bytes());
  } else {
    std::memcpy(reduction.call.receive, reduction.call.send, reduction.bytes());
  }
  return reduction(state, reduction.call.receive, place);
}

/// Requests of unfinished nonblocking calls.
struct requests_under_way {
  void add(MPI_Request request) {
    std::lock_guard const lock(mutex_);
    requests_.insert(request);
    count_ = static_cast<int>(requests_.size());
  }
  void remove(MPI_Request request) {
    {
      std::lock_guard const lock(mutex_);
      requests_.erase(request);
      count_ = static_cast<int>(requests_.size());
    }
    changed_.notify_all();
  }
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  bool has(MPI_Request request) {
    std::lock_guard const lock(mutex_);
    return requests_.contains(request);
  }
  void wait_for(MPI_Request request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !requests_.contains(request); });
  }

 private:
  std::atomic<int> count_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<MPI_Request> requests_;
};
requests_under_way& under_way() {
  static auto& all = *new requests_under_way;  // outlives threads at the program's end
  return all;
}

/// Runs a nonblocking call in the communicator's progress thread.
void run_aside(communicator& state, compressed_call const& reduction, std::uint64_t number,
               MPI_Request request, int tag) {
  is_summing = true;  // never reset: this thread calls MPI only for reductions
  try {
    auto const in_place = [&](communicator& own, compressed_call const& one) {
      return reduce_in_place(own, one,
                             one.goes_together() ? number % communicator::most_together : 0);
    };
    if (!staged(state, reduction, in_place, true)) {
      // MPI's all-reduces run in this order on all ranks. A rank that waits in one of them has
      // finished its part of all earlier calls.
      state.wait_for_earlier(number);
      mpi::require(PMPI_Allreduce(reduction.call.send, reduction.call.receive, reduction.call.count,
                                  reduction.call.type, MPI_SUM, state.private_copy()),
                   "MPI_Allreduce");
    }
  } catch (std::exception const& error) {
    print(std::string(reduction.call.function) + ": " + error.what());
    PMPI_Comm_call_errhandler(state.private_copy(), MPI_ERR_OTHER);
    PMPI_Abort(MPI_COMM_WORLD, 2);  // a request cannot return an error
  }
  reduction.lib->finish_request(tag);
  under_way().remove(request);
}

/// State of persistent requests.
struct persistent_call {
  compressed_call reduction;
  std::shared_ptr<communicator> state;
  int tag;
};
std::mutex persistent_mutex;
std::map<MPI_Request, persistent_call> persistent;
std::atomic<int> persistent_count{0};

}  // namespace

bool all_reduce(reduction_call const& call, int& code) noexcept {
  return take(
      call, code, {}, mpi_all_reduce,
      [](communicator& state, compressed_call const& reduction) {
        return reduce_in_place(state, reduction);
      },
      true);
}

bool reduce(reduction_call const& call, int root, int& code) noexcept {
  if (call.comm == MPI_COMM_NULL) return false;
  int rank = 0, ranks = 0;
  PMPI_Comm_rank(call.comm, &rank);
  PMPI_Comm_size(call.comm, &ranks);
  if (root < 0 || root >= ranks) return false;
  auto here = call;
  here.root = root;
  here.receives = rank == root;
  if (!here.receives) here.receive = const_cast<void*>(call.send);  // MPI ignores it
  return take(here, code, {}, mpi_reduce,
              [&](communicator& state, compressed_call const& reduction) {
                auto const* const from = static_cast<std::byte const*>(reduction.input());
                std::vector<std::byte> x;
                if (!reduction.is_out_of_reach) x.assign(from, from + reduction.bytes());
                if (!reduction(state, x.data())) return false;
                if (rank == root) std::memcpy(reduction.call.receive, x.data(), x.size());
                return true;
              });
}

namespace {

bool reduce_scatter_by(function_of_mpi const& by_mpi, reduction_call const& call, int const* counts,
                       int& code) {
  if (call.comm == MPI_COMM_NULL || !counts) return false;
  int ranks = 0;
  PMPI_Comm_size(call.comm, &ranks);
  std::int64_t all = 0;
  for (int r = 0; r < ranks; ++r) {
    if (counts[r] < 0) return false;
    all += counts[r];
  }
  if (all < least_count.load(std::memory_order_relaxed) || all > std::numeric_limits<int>::max())
    return false;
  auto whole = call;
  whole.count = static_cast<int>(all);
  whole.scatters = true;
  int rank = 0;
  PMPI_Comm_rank(call.comm, &rank);
  static std::byte nothing;
  if (counts[rank] == 0 && !call.receive) whole.receive = &nothing;  // MPI ignores it
  return take(whole, code, {counts, static_cast<std::size_t>(ranks)}, by_mpi,
              [](communicator& state, compressed_call const& reduction) {
                return reduction(state, reduction.call.receive);
              });
}

}  // namespace

bool reduce_scatter(reduction_call const& call, int const* counts, int& code) noexcept {
  return reduce_scatter_by(mpi_reduce_scatter, call, counts, code);
}

bool reduce_scatter_block(reduction_call const& call, int count, int& code) noexcept {
  if (call.comm == MPI_COMM_NULL) return false;
  int ranks = 0;
  PMPI_Comm_size(call.comm, &ranks);
  if (count < 0 || std::int64_t{count} * ranks < least_count.load(std::memory_order_relaxed))
    return false;
  std::vector<int> const counts(static_cast<std::size_t>(ranks), count);
  return reduce_scatter_by(mpi_reduce_scatter_block, call, counts.data(), code);
}

namespace {

/// Uses the result of earlier blocking calls. The time of a nonblocking call would include the
/// program's computation.
bool is_faster_by_mpi(communicator& state, reduction_call const& call, decision const& d) {
  auto const bytes = static_cast<std::size_t>(call.count) * size_of(d.type);
  return state.strategy_of(d.as->text(), mpi_all_reduce.name, bytes).used() ==
         faster_strategy::strategy::mpi;
}

/// Takes over a call that returns a request.
/// @param keep  (state, sum, tag) starts it, or stores it for later; the request exists already
template <class Keep>
bool take_with_request(reduction_call const& call, bool is_persistent, MPI_Request* request,
                       int& code, Keep const& keep) {
  auto* const lib = taking();
  if (!lib) return false;
  auto d = decide(*lib, call, true);
  if (!d.as || !has_buffers(call)) {
    note_passed(*lib, call, d);
    return false;
  }
  code = MPI_SUCCESS;
  try {
    auto const state = lib->state_of(call.comm);
    if (auto const* const why = state->why_not_aside(is_persistent)) {
      d.why = why;
      note_passed(*lib, call, d);
      return false;
    }
    if (d.as->if_faster && is_faster_by_mpi(*state, call, d)) {
      d.why = why_faster;
      note_passed(*lib, call, d);
      return false;
    }
    int tag = 0;
    mpi::require(lib->make_request(is_persistent, request, tag), "a request");
    compressed_call reduction(*lib, call, d);
    reduction.context = current_context();
    keep(state, reduction, tag);
  } catch (std::exception const& error) {
    code = raise(call, error.what());
  }
  return true;
}

void begin(communicator& state, compressed_call const& reduction, MPI_Request request, int tag) {
  under_way().add(request);
  state.begin(
      [reduction, request, tag](communicator& me, std::uint64_t number) {
        run_aside(me, reduction, number, request, tag);
      },
      reduction.goes_together());
}

}  // namespace

bool iall_reduce(reduction_call const& call, MPI_Request* request, int& code) noexcept {
  return take_with_request(
      call, false, request, code,
      [&](std::shared_ptr<communicator> const& state, compressed_call const& reduction, int tag) {
        begin(*state, reduction, *request, tag);
      });
}

bool all_reduce_init(reduction_call const& call, MPI_Request* request, int& code) noexcept {
  return take_with_request(
      call, true, request, code,
      [&](std::shared_ptr<communicator> const& state, compressed_call const& reduction, int tag) {
        state->run([](communicator& me) { me.plans(); });  // makes the copy while comm exists
        state->keep();
        std::lock_guard const lock(persistent_mutex);
        persistent.insert_or_assign(*request, persistent_call{reduction, state, tag});
        ++persistent_count;
      });
}

void started(MPI_Request request) noexcept {
  if (persistent_count.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard const lock(persistent_mutex);
  auto const found = persistent.find(request);
  if (found == persistent.end()) return;
  begin(*found->second.state, found->second.reduction, request, found->second.tag);
}

void wait_for(MPI_Request request) noexcept {
  if (!under_way().is_empty()) under_way().wait_for(request);
}

bool is_under_way(MPI_Request const* requests, int count) noexcept {
  return !under_way().is_empty() &&
         std::any_of(requests, requests + count, [](auto one) { return under_way().has(one); });
}

int refuse_to_cancel() noexcept {
#ifndef OPEN_MPI  // Open MPI only returns this code
  PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_REQUEST);
#endif
  return MPI_ERR_REQUEST;
}

void request_freed(MPI_Request request) noexcept {
  if (!under_way().is_empty()) under_way().remove(request);
  if (persistent_count.load(std::memory_order_relaxed) == 0) return;
  std::shared_ptr<communicator> state;
  {
    std::lock_guard const lock(persistent_mutex);
    auto const found = persistent.find(request);
    if (found == persistent.end()) return;
    state = std::move(found->second.state);
    persistent.erase(found);
    --persistent_count;
  }
  if (auto* const lib = library::running(); lib && state->let_go()) lib->forget(*state);
}

}  // namespace hcomp::drop_in
