#include "communicator.hpp"

#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <thread>
#include <utility>

#include <c/handle_number.hpp>

namespace hcomp::drop_in {

communicator::communicator(MPI_Comm comm, bool may_run_aside, std::uint64_t number,
                           residual_store& residuals)
    : comm_(comm), number_(number), residuals_(&residuals) {
  has_own_copy_ = may_run_aside && mpi::is_in_world(comm);
  if (!has_own_copy_) return;
  if (comm == MPI_COMM_WORLD)
    make_copy();
  else if (!pairs_idup_wrongly)
    mpi::require(PMPI_Comm_idup(comm, &copy_, &pending_), "MPI_Comm_idup");
}

communicator::~communicator() = default;

char const* communicator::why_not_aside(bool waits) const {
  if (!has_own_copy_) return "nonblocking, with ranks of several jobs";
  if (waits || !pairs_idup_wrongly || has_copy_) return nullptr;
  return "nonblocking, before the first blocking reduction of the communicator (Open MPI)";
}

void communicator::keep() {
  std::lock_guard const lock(mutex_);
  ++kept_;
}

bool communicator::let_go() {
  {
    std::lock_guard const lock(mutex_);
    if (--kept_ > 0 || !is_released_) return false;
  }
  end();
  return true;
}

bool communicator::release() {
  {
    std::lock_guard const lock(mutex_);
    is_released_ = true;
    if (kept_ > 0) return false;
  }
  end();
  return true;
}

void communicator::end() {
  begun_.end();
  {
    std::unique_lock lock(mutex_);
    if (has_thread_) {
      changed_.wait(lock, [&] { return has_copy_ || thread_ == std::this_thread::get_id(); });
      return;
    }
  }
  give_back();
}

void communicator::give_back() {
  PMPI_Wait(&pending_, MPI_STATUS_IGNORE);
  if (copy_ != MPI_COMM_NULL && !transport_) PMPI_Comm_free(&copy_);
  sums_.reset();
  over_.reset();
  transport_.reset();
}

void communicator::make_copy() {
  if (has_copy_) return;
  if (pending_ != MPI_REQUEST_NULL)
    mpi::require(PMPI_Wait(&pending_, MPI_STATUS_IGNORE), "MPI_Comm_idup");
  else
    copy_ = copy_of(comm_);
  {
    std::lock_guard const lock(mutex_);
    has_copy_ = true;
  }
  changed_.notify_all();
}

plan_cache& communicator::plans() {
  if (!has_own_copy_) {
    if (sums_) return *sums_;
    auto shared = transport_over_shared_copy(comm_);
    sums_ = std::make_unique<plan_cache>(any_transport(std::move(shared.over)), number_,
                                         shared.handle, *residuals_);
    sums_->share_memory();
    return *sums_;
  }
  make_copy();
  if (!over_) {
    transport_ = std::make_unique<mpi::transport>(mpi::private_comm{copy_});
    over_ = std::make_unique<concurrent_transport>(*transport_);
  }
  // The progress thread yields the processor to the program's threads while it waits.
  over_->set_sleeps(is_aside());
  if (!sums_)
    sums_ = std::make_unique<plan_cache>(any_transport(*over_), number_, next_handle_number(*over_),
                                         *residuals_);
  return *sums_;
}

void communicator::run(work const& body) {
  begun_.wait_for_all().unlock();  // no other thread may use this communicator now
  if (has_own_copy_) make_copy();  // the program's next collective may not overlap with it
  body(*this);
}

namespace {

/// Progress threads that have not ended.
struct running_threads {
  std::mutex mutex;
  std::condition_variable ended;
  int count = 0;
};
running_threads& threads() {
  static auto& all = *new running_threads;  // outlives threads at the program's end
  return all;
}

}  // namespace

void communicator::begin(work_aside body, bool together) {
  begun_.begin([this, body = std::move(body)](std::uint64_t number) { body(*this, number); },
               {.together = together});
  std::lock_guard const lock(mutex_);
  if (std::exchange(has_thread_, true)) return;
  {
    std::lock_guard const counting(threads().mutex);
    ++threads().count;
  }
  std::thread([self = shared_from_this()]() mutable {
    self->serve();
    self.reset();
    std::lock_guard const counting(threads().mutex);
    --threads().count;
    threads().ended.notify_all();
  }).detach();
}

void communicator::wait_for_threads() {
  std::unique_lock lock(threads().mutex);
  threads().ended.wait(lock, [] { return threads().count == 0; });
}

void communicator::serve() {
  {
    std::lock_guard const lock(mutex_);
    thread_ = std::this_thread::get_id();
  }
  begun_.serve([&] { run_pending(); }, [](auto& lock, auto& changed,
                                          auto const& has_work) { changed.wait(lock, has_work); });
  give_back();
}

void communicator::run_pending() {
  try {
    plans();  // communicates with other ranks; later calls reuse the result
  } catch (std::exception const&) {
    begun_.make_first();  // hits the same error, and ends the program
    return;
  }
  begun_.make_all(*over_);
}

}  // namespace hcomp::drop_in
