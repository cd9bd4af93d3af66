#pragma once
/// @file
/// Ranks of NCCL communicators: processes with a stream.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/nccl/library.hpp>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <support/new_stream.hpp>
#include <support/process.hpp>
#include <vector>

namespace hcomp::testing {

/// NCCL's ncclUniqueId.
struct nccl_id {
  char bytes[128];
};

/// A function of NCCL as programs call it: that of a preloaded library, if it has one.
template <class F> F* of_nccl(char const* name) {
  static void* const nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
  auto* const found = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  if (!nccl || !found) throw std::runtime_error(name);
  return found;
}

inline nccl_id new_nccl_id() {
  // In a process of its own: NCCL may call CUDA, and this process forks.
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  bool const is_made = child_process([&] {
                         nccl_id id{};
                         of_nccl<int(nccl_id*)>("ncclGetUniqueId")(&id);
                         return write(ends[1], &id, sizeof(id)) == sizeof(id) ? 0 : 1;
                       }).wait() == 0;
  nccl_id id{};
  if (!is_made || read(ends[0], &id, sizeof(id)) != sizeof(id))
    throw std::runtime_error("ncclGetUniqueId");
  close(ends[0]);
  close(ends[1]);
  return id;
}

/// One rank: a process with a stream and a communicator.
struct nccl_rank {
  cudaStream_t stream = nullptr;
  nccl::communicator communicator = nullptr;
  gpu::stream_executor executor;

  nccl_rank(nccl_id const& id, int rank, int size)
      : stream(new_stream()), communicator(new_communicator(id, rank, size)), executor(stream) {}

  static nccl::communicator new_communicator(nccl_id const& id, int rank, int size) {
    nccl::communicator made = nullptr;
    auto* const init = of_nccl<int(nccl::communicator*, int, nccl_id, int)>("ncclCommInitRank");
    if (init(&made, size, id, rank) != 0) throw std::runtime_error("ncclCommInitRank");
    return made;
  }
  void destroy() { of_nccl<int(nccl::communicator)>("ncclCommDestroy")(communicator); }

  std::vector<float> on_device(std::vector<float> const& values,
                               std::function<void(std::span<float>)> const& f) {
    gpu::device_buffer memory(values.size() * sizeof(float));
    executor.wait(executor.write(memory.data(), values.data(), memory.size()));
    f({reinterpret_cast<float*>(memory.data()), values.size()});
    std::vector<float> out(values.size());
    executor.wait(executor.read(out.data(), memory.data(), memory.size()));
    return out;
  }
};

/// Runs f(rank, number) in `size` processes. f returns its exit status; 9: an exception.
/// @param nodes  that ranks are on, back and forth; 0: a node for each
template <class F> std::vector<int> statuses_of(int size, F const& f, int nodes = 0) {
  auto const id = new_nccl_id();
  std::vector<child_process> all;
  for (int rank = 0; rank < size; ++rank)
    all.emplace_back([&f, &id, rank, size, nodes] {
      // NCCL takes ranks on one GPU for nodes. Back and forth, so that ranks of a node and nodes
      // of a rank's number have no common order.
      int const turn = nodes > 0 ? rank / nodes : 0;
      int const node = nodes == 0 ? rank : turn % 2 == 0 ? rank % nodes : nodes - 1 - rank % nodes;
      setenv("NCCL_HOSTID", ("node" + std::to_string(node)).c_str(), 1);
      for (char const* const name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"})
        setenv(name, "1", 1);
      try {
        nccl_rank self(id, rank, size);
        return f(self, rank);
      } catch (std::exception const& error) {
        std::cerr << "rank " << rank << ": " << error.what() << '\n';
        return 9;
      }
    });
  std::vector<int> found;
  for (auto& one : all) found.push_back(one.wait());
  return found;
}

}  // namespace hcomp::testing
