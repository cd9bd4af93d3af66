#include "communicator.hpp"

#include <hcomp/mpi/call.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <thread>
#include <utility>

#include "handle_number.hpp"

namespace hcomp::drop_in {

communicator::communicator(MPI_Comm comm, bool may_sum_aside, std::uint64_t number,
                           residual_store& residuals)
    : number_(number), residuals_(&residuals) {
  if (may_sum_aside)
    mpi::require(PMPI_Comm_idup(comm, &copy_, &copied_), "MPI_Comm_idup");
  else
    use(transport_over_shared_copy(comm));
}

communicator::~communicator() = default;

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
  {
    std::unique_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    if (has_thread_) {
      changed_.wait(lock, [&] { return has_copy_ || thread_ == std::this_thread::get_id(); });
      return;
    }
  }
  give_back();
}

void communicator::give_back() {
  if (copied_ != MPI_REQUEST_NULL) PMPI_Wait(&copied_, MPI_STATUS_IGNORE);
  if (!sums_) PMPI_Comm_free(&copy_);
  sums_.reset();
}

void communicator::wait_for_copy() {
  if (copied_ == MPI_REQUEST_NULL) return;
  mpi::require(PMPI_Wait(&copied_, MPI_STATUS_IGNORE), "MPI_Comm_idup");
  {
    std::lock_guard const lock(mutex_);
    has_copy_ = true;
  }
  changed_.notify_all();
}

void communicator::use(numbered_transport made) {
  transport_ = made.over.get();
  sums_ = std::make_unique<summer>(any_transport(std::move(made.over)), number_, made.handle,
                                   *residuals_);
}

summer& communicator::sums() {
  wait_for_copy();
  if (!sums_) {
    auto own = std::make_unique<mpi::transport>(mpi::private_comm{copy_});
    auto const handle = next_handle_number(*own);
    use({std::move(own), handle});
  }
  // A thread beside the program's own must not take its processor while it waits.
  transport_->set_waiting(is_aside() ? mpi::waiting::sleep : mpi::waiting::yield);
  return *sums_;
}

void communicator::run(work const& sum) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  lock.unlock();  // no other thread may call a collective on this communicator now
  sum(*this);
}

namespace {

/// Threads that have not ended.
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

void communicator::begin(work sum) {
  std::lock_guard const lock(mutex_);
  waiting_.push_back(std::move(sum));
  changed_.notify_all();
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
  std::unique_lock lock(mutex_);
  thread_ = std::this_thread::get_id();
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    auto const next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    next(*this);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
  lock.unlock();
  give_back();
}

}  // namespace hcomp::drop_in
