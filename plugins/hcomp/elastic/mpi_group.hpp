#pragma once
/// @file
/// A fault-tolerant group over MPI: ranks may fail.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/core/error.hpp>
#include <hcomp/elastic/membership.hpp>
#include <hcomp/mpi/call.hpp>
#include <hcomp/mpi/transport.hpp>
#include <hcomp/mpi/ulfm.hpp>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hcomp::elastic {

/// A group of ranks of an MPI job that continues after ranks fail.
///
/// A plan repeats its all-reduce by itself when a rank fails: MPI detects the failure, and the
/// remaining ranks agree on a new communicator (ULFM). Requires Open MPI 5, started with `mpirun
/// --with-ft ulfm --mca async_mpi_finalize 1`; without the latter some releases hang in
/// MPI_Finalize after a failure.
///
/// The program is responsible for its own communicators: an operation on them may wait for ever for
/// a failed rank, or for a rank that continues here. The group waits without limit for a live rank
/// that does not call. New ranks cannot join. For one thread at a time.
class mpi_group final : public membership {
 public:
  /// Collective over `comm`, which is duplicated. Names are its ranks.
  /// @throws std::runtime_error  this MPI does not support ULFM, or was not started for it
  /// @throws transport_error     a rank has failed already
  explicit mpi_group(MPI_Comm comm, mpi::waiting how = mpi::waiting::yield)
      : membership(mpi::rank_of(comm), false), waiting_(how) {
    require_ulfm();
    MPI_Comm mine = MPI_COMM_NULL;
    mpi::require(MPI_Comm_dup(comm, &mine), "MPI_Comm_dup");
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Comm_group(mine, &all);
    first_ = {new MPI_Group(all), [](MPI_Group* group) {
                if (mpi::is_running()) MPI_Group_free(group);
                delete group;
              }};
    take(made_by_all(mine));
  }

  /// Ends the group after the last call. Collective. If ranks fail meanwhile, no remaining rank
  /// waits for one that has ended.
  void close() override {
    std::vector<std::byte> nothing;
    std::uint64_t weight = 0;
    while (!mpi::ulfm::agree(*comm_, true)) {
      has_agreed_ = true;
      recover(nothing, weight);  // serves other ranks: this one has finished all calls
    }
  }

 private:
  static void require_ulfm() {
    if (mpi::ulfm::is_on()) return;
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(name, &length);
    std::string const words(name, static_cast<std::size_t>(length));
    throw std::runtime_error(
        "elastic::mpi_group: this job does not go on after a lost rank; it needs Open MPI 5 and "
        "mpirun --with-ft ulfm, and this is " +
        words.substr(0, words.find_first_of(",\n")));
  }

  /// Returns `comm` once all ranks have created it: Open MPI 5.0.11 crashes in MPI_Comm_dup or
  /// MPIX_Comm_shrink if another rank revokes the new communicator meanwhile.
  static MPI_Comm made_by_all(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    mpi::ulfm::agree(comm, true);
    return comm;
  }

  /// The remaining ranks first agree that some rank misses a peer. Then each gets here exactly
  /// once: from `recover`, or from `close` if it learned of the failure there.
  void connect() override {
    MPI_Comm left = MPI_COMM_NULL;
    try {
      mpi::ulfm::revoke(*comm_);
      if (!has_agreed_) mpi::ulfm::agree(*comm_, false);
      has_agreed_ = false;
      left = made_by_all(mpi::ulfm::shrink(*comm_));
    } catch (transport_error const& error) {  // not a failed rank: a retry would fail again
      throw final_error(-1, error.what());
    }
    any_.reset();
    over_.reset();
    take(left);
  }

  /// @param comm  of this generation; ownership passes to the group
  void take(MPI_Comm comm) {
    before_ = std::move(comm_);  // some rank may still use it
    comm_ = {new MPI_Comm(comm), [](MPI_Comm* one) {
               if (mpi::is_running()) MPI_Comm_free(one);
               delete one;
             }};
    members_.resize(static_cast<std::size_t>(mpi::size_of(comm)));
    std::vector<int> here(members_.size());
    std::iota(here.begin(), here.end(), 0);
    MPI_Group now = MPI_GROUP_NULL;
    MPI_Comm_group(comm, &now);
    MPI_Group_translate_ranks(now, static_cast<int>(here.size()), here.data(), *first_,
                              members_.data());
    MPI_Group_free(&now);
    over_ = std::make_unique<mpi::transport>(mpi::shared_comm{comm_}, waiting_);
    any_.emplace(*over_);
  }

  mpi::waiting waiting_;
  bool has_agreed_ = false;           ///< that some rank misses a peer
  std::shared_ptr<MPI_Group> first_;  ///< its ranks are the names
  std::shared_ptr<MPI_Comm> before_;  ///< of the previous generation
  std::shared_ptr<MPI_Comm> comm_;    ///< of this generation
  std::unique_ptr<mpi::transport> over_;
};

}  // namespace hcomp::elastic
