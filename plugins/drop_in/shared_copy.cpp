#include "shared_copy.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <hcomp/mpi/call.hpp>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c/handle_number.hpp>

namespace hcomp::drop_in {

namespace {

/// During its lifetime MPI errors on the program's communicator return as codes.
class returning_errors {
 public:
  explicit returning_errors(MPI_Comm comm) : comm_(comm) {
    PMPI_Comm_get_errhandler(comm_, &before_);
    PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~returning_errors() {
    PMPI_Comm_set_errhandler(comm_, before_);
    PMPI_Errhandler_free(&before_);
  }
  returning_errors(returning_errors const&) = delete;
  returning_errors& operator=(returning_errors const&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// A private communicator. The first of its ranks assigns its tags.
struct shared_copy {
  std::shared_ptr<MPI_Comm const> comm;
  int next_tag = 0;
};

/// Communicator and tags of one transport, assigned by the first of the ranks.
struct place {
  std::uint64_t handle;
  std::uint64_t copy;  ///< index among the copies that this rank created
  std::int32_t first_tag;
  std::int32_t is_new;  ///< all ranks create the copy now
};

/// The copies of this process.
class shared_copies {
 public:
  static shared_copies& all() {
    static auto& one = *new shared_copies;  // MPI frees its communicators
    return one;
  }

  /// Called on the first rank: selects the newest copy, or announces a new one.
  place give_place(std::vector<int> const& ranks) {
    std::lock_guard const lock(mutex_);
    if (auto const found = copies_.find(ranks); found != copies_.end()) {
      auto& [number, copy] = *found->second.rbegin();
      if (copy.next_tag < last_tag_) {
        place const here{handle_numbers::take(), number, copy.next_tag, 0};
        copy.next_tag += 2;
        return here;
      }
    }
    return {handle_numbers::take(), next_number_++, 0, 1};
  }

  void add(std::vector<int> const& ranks, std::uint64_t number, MPI_Comm comm) {
    {
      std::lock_guard const lock(mutex_);
      free_before_finalize();
      std::shared_ptr<MPI_Comm const> const held(new MPI_Comm(comm), [](MPI_Comm* it) {
        if (mpi::is_running()) PMPI_Comm_free(it);
        delete it;
      });
      copies_[ranks][number] = {held, 2};
    }
    changed_.notify_all();
  }

  /// Waits if another thread is still creating the copy.
  std::shared_ptr<MPI_Comm const> find(std::vector<int> const& ranks, std::uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copies_[ranks].contains(number); });
    return copies_[ranks][number].comm;
  }

 private:
  shared_copies() {
    int* bound = nullptr;
    int found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found);
    if (found) last_tag_ = *bound;
  }

  /// MPI_Finalize first deletes the attributes of MPI_COMM_SELF.
  void free_before_finalize() {
    if (std::exchange(is_told_of_end_, true)) return;
    int key = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(
        MPI_COMM_NULL_COPY_FN,
        [](MPI_Comm, int, void* value, void*) -> int {
          auto& it = *static_cast<shared_copies*>(value);
          std::lock_guard const lock(it.mutex_);
          it.copies_.clear();
          return MPI_SUCCESS;
        },
        &key, nullptr);
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, this);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::vector<int>, std::map<std::uint64_t, shared_copy>> copies_;  ///< by ranks, number
  std::uint64_t next_number_ = 0;
  int last_tag_ = 32767;  ///< guaranteed by MPI
  bool is_told_of_end_ = false;
};

}  // namespace

MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm copy = MPI_COMM_NULL;
  mpi::require(PMPI_Comm_group(comm, &group), "MPI_Comm_group");
  int const code = PMPI_Comm_create(comm, group, &copy);
  PMPI_Group_free(&group);
  mpi::require(code, "MPI_Comm_create");
  PMPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

numbered_transport transport_over_shared_copy(MPI_Comm comm) {
  returning_errors const guard(comm);
  auto const ranks = mpi::ranks_in_world(comm);
  auto& copies = shared_copies::all();
  place here{};
  if (mpi::rank_of(comm) == 0) here = copies.give_place(ranks);
  mpi::require(PMPI_Bcast(&here, sizeof here, MPI_BYTE, 0, comm), "MPI_Bcast");
  handle_numbers::skip(here.handle);
  if (!mpi::is_in_world(comm))
    return {std::make_unique<mpi::transport>(mpi::private_comm{copy_of(comm)}), here.handle};
  if (here.is_new) copies.add(ranks, here.copy, copy_of(comm));
  return {std::make_unique<mpi::transport>(
              mpi::private_tags{copies.find(ranks, here.copy), here.first_tag}),
          here.handle};
}

}  // namespace hcomp::drop_in
