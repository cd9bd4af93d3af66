/// @file
/// exchange mpi|ucx BYTES: every rank sends BYTES bytes to the next rank, over one of hcomp's
/// transports, and prints its node. Tests compare BYTES with the byte counters of the links.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <hcomp/mpi/mpi.hpp>
#include <stdexcept>
#include <string_view>
#include <vector>
#ifdef HCOMP_LAB_UCX
#include <hcomp/ucx/transport.hpp>
#endif

namespace {

std::byte content(int rank, std::size_t i) {
  return static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(rank));
}

template <hcomp::Transport Transport> void exchange(Transport& transport, std::size_t bytes) {
  int const rank = transport.rank(), size = transport.size();
  int const before = (rank + size - 1) % size;
  std::vector<std::byte> out(bytes), in(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = content(rank, i);
  auto receive = transport.irecv(before, 1, in);
  auto send = transport.isend((rank + 1) % size, 1, out);
  transport.wait(receive);
  transport.wait(send);
  for (std::size_t i = 0; i < bytes; ++i)
    if (in[i] != content(before, i))
      throw std::runtime_error("byte " + std::to_string(i) + " from rank " +
                               std::to_string(before) + " is not what it sent");
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::printf("rank %d of %d on %s\n", rank, size, host.data());
}

void run(std::string_view over, std::size_t bytes) {
  if (over == "mpi") {
    hcomp::mpi::transport transport(MPI_COMM_WORLD);
    exchange(transport, bytes);
#ifdef HCOMP_LAB_UCX
  } else if (over == "ucx") {
    auto transport = hcomp::mpi::connect<hcomp::ucx::transport>(MPI_COMM_WORLD);
    exchange(transport, bytes);
#endif
  } else {
    throw std::invalid_argument("exchange: there is no transport '" + std::string(over) + "' here");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc != 3) throw std::invalid_argument("usage: exchange mpi|ucx BYTES");
    run(argv[1], std::strtoull(argv[2], nullptr, 10));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
