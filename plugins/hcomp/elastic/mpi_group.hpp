#pragma once
/// @file
/// Ranks over MPI that go on when some of them are lost.

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

/// A group of ranks of an MPI job that goes on without those who are lost.
///
/// Sums are made by sum, which goes on by itself when somebody is lost: the MPI notices it, and those who
/// are left agree on a communicator of theirs (ULFM). Needs Open MPI 5, started by
/// `mpirun --with-ft ulfm --mca async_mpi_finalize 1`: without the latter some releases hang in MPI_Finalize
/// after a loss. Other communicators are the program's own business: what waits on one of them for a
/// rank that is lost, or that goes on here, may wait for ever.
/// Who lives and does not come to a call is waited for without limit; newcomers are not let in.
/// For one thread at a time.
class mpi_group final : public membership {
 public:
  /// Collective over `comm`, which is duplicated. Names are its ranks.
  /// @throws std::runtime_error  this MPI does not go on after a loss, or was not started for it
  /// @throws transport_error     a rank is lost already
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

  /// The end, when no call is to come. Collective; whoever is lost meanwhile, nobody who is left waits for
  /// somebody who is gone.
  void close() override {
    std::vector<std::byte> nothing;
    std::uint64_t weight = 0;
    while (!mpi::ulfm::agree(*comm_, true)) {
      has_agreed_ = true;
      recover(nothing, weight);  // for others: this one has finished all calls
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

  /// `comm`, when no rank is still making it: Open MPI 5.0.11 crashes on ranks in MPI_Comm_dup or
  /// MPIX_Comm_shrink whose new communicator others revoke already.
  static MPI_Comm made_by_all(MPI_Comm comm) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    mpi::ulfm::agree(comm, true);
    return comm;
  }

  /// Those who are left agree that somebody lacks a rank. Then each comes here once: from `recover`, or from
  /// `close`, where it has heard so.
  void connect() override {
    MPI_Comm left = MPI_COMM_NULL;
    try {
      mpi::ulfm::revoke(*comm_);
      if (!has_agreed_) mpi::ulfm::agree(*comm_, false);
      has_agreed_ = false;
      left = made_by_all(mpi::ulfm::shrink(*comm_));
    } catch (transport_error const& error) {  // not of a loss: it would be the same again
      throw left_out(-1, error.what());
    }
    any_.reset();
    over_.reset();
    take(left);
  }

  /// @param comm  of this generation; owned from now on
  void take(MPI_Comm comm) {
    before_ = std::move(comm_);  // somebody may not have come out of it yet
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
  bool has_agreed_ = false;           ///< on that somebody lacks a rank
  std::shared_ptr<MPI_Group> first_;  ///< whose ranks are the names
  std::shared_ptr<MPI_Comm> before_;  ///< of the last one
  std::shared_ptr<MPI_Comm> comm_;    ///< of this generation
  std::unique_ptr<mpi::transport> over_;
};

}  // namespace hcomp::elastic
