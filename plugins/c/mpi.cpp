/// @file
/// The C API over MPI: plans on communicators, and HCOMP_CONFIG rules per communicator.

#include <hcomp/hcomp.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/mpi/call.hpp>
#include <hcomp/node/collectives.hpp>
#include <hcomp/node/shared_memory_plan.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include <drop_in/library.hpp>
#include <drop_in/mpi_type.hpp>
#include <drop_in/shared_copy.hpp>
#include "plan.hpp"
#include "settings.hpp"

namespace {

using hcomp::c_api::guarded;
using hcomp::c_api::not_running;
using hcomp::c_api::without;
using hcomp::drop_in::value_type;

void require_mpi() {
  if (!hcomp::mpi::is_running())
    throw not_running("it is called before MPI_Init or after MPI_Finalize");
}
void require_comm(MPI_Comm comm) {
  require_mpi();
  if (comm == MPI_COMM_NULL) throw std::invalid_argument("comm is MPI_COMM_NULL");
  int inter = 0;
  hcomp::mpi::require(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (inter) throw std::invalid_argument("comm is an intercommunicator");
}

/// The transport of one plan, between the ranks of a communicator.
class over_communicator final : public hcomp::c_api::connection {
 public:
  explicit over_communicator(hcomp::drop_in::numbered_transport made)
      : transport_(std::move(made.over)), handle_(made.handle) {}
  hcomp::any_transport& transport() override { return transport_; }
  std::uint64_t next_handle() override { return handle_; }
  std::shared_ptr<hcomp::node::collectives> shared_memory() override {
    return hcomp::node::make_shared_memory(transport_);
  }
  std::unique_lock<std::mutex> enter() override {
    require_mpi();
    return {};
  }

 private:
  hcomp::any_transport transport_;
  std::uint64_t handle_;
};

std::optional<value_type> type_of(int value_bytes) {
  if (value_bytes == 4) return value_type::float32;
  if (value_bytes == 8) return value_type::float64;
  return std::nullopt;
}

int create(MPI_Comm comm, std::size_t values, std::optional<value_type> type, char const* codec,
           hcomp_plan** plan) noexcept {
  if (plan) *plan = nullptr;
  return guarded("hcomp_plan_create", [&] {
    require_comm(comm);
    hcomp::c_api::create_plan(
        std::make_shared<over_communicator>(hcomp::drop_in::transport_over_shared_copy(comm)),
        values, type, codec, plan);
  });
}

int set(MPI_Comm comm, char const* settings) noexcept {
  return guarded("hcomp_comm_set", [&] {
    require_comm(comm);
    auto* const library = hcomp::drop_in::library::running();
    if (!library) throw not_running("the drop-in library is not there; preload libhcomp_pmpi.so");
    try {
      settings ? library->set(comm, settings) : library->unset(comm);
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument(
          without("hcomp_comm_set: ", without("HCOMP_CONFIG: ", error.what())));
    }
  });
}

/// MPI_COMM_NULL if MPI is not running.
MPI_Comm handle_of(int comm) {
  if (!hcomp::mpi::is_running()) return MPI_COMM_NULL;
#if MPI_ABI_VERSION >= 1  // its ABI leaves out Fortran handles
  return PMPI_Comm_fromint(comm);
#else
  return PMPI_Comm_f2c(comm);
#endif
}

}  // namespace

int hcomp_plan_create(MPI_Comm comm, size_t values, MPI_Datatype type, char const* codec,
                      hcomp_plan** plan) {
  // MPI knows no types before MPI_Init, and `create` refuses the call.
  auto const known = hcomp::mpi::is_running() ? hcomp::drop_in::type_of(type) : std::nullopt;
  return create(comm, values, known, codec, plan);
}
int hcomp_plan_create_f(int comm, size_t values, int value_bytes, char const* codec_text,
                        hcomp_plan** plan) {
  return create(handle_of(comm), values, type_of(value_bytes), codec_text, plan);
}

int hcomp_comm_set(MPI_Comm comm, char const* settings) { return set(comm, settings); }
int hcomp_comm_set_f(int comm, char const* settings) { return set(handle_of(comm), settings); }

char const* hcomp_built_for() {
#ifdef OPEN_MPI
#define HCOMP_TEXT(x) #x
#define HCOMP_NUMBERS(a, b, c) HCOMP_TEXT(a) "." HCOMP_TEXT(b) "." HCOMP_TEXT(c)
  return "Open MPI " HCOMP_NUMBERS(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif MPI_ABI_VERSION >= 1
  return "the ABI of MPI 5";
#else
  return "MPICH " MPICH_VERSION;
#endif
}
