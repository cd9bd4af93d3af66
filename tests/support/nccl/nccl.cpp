/// @file
/// A stand-in for libnccl.so.2: communicators of processes of one node, point-to-point messages.
///
/// Messages are work of their streams, by public calls of CUDA: copies to and from pinned memory,
/// and a host function that exchanges bytes through shared memory. All messages of a group progress
/// together, those of one pair of ranks in order. The first messages of a pair wait on the host for
/// the peer's call, in which NCCL connects ranks.
///
/// Nothing is buffered: a send is done when its
/// receiver has taken all bytes. So a program that relies on buffers, which NCCL does not promise,
/// waits here without end.
///
/// A communicator that is used after ncclCommAbort, which frees NCCL's, ends the process.
///
/// Errors as from NCCL's sockets: a peer that has died is ncclRemoteError of ncclCommGetAsyncError,
/// and its messages wait until ncclCommAbort. Messages of different sizes are ncclInternalError,
/// where NCCL's behaviour is undefined.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

enum result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
};

constexpr int most_ranks = 8;
constexpr std::size_t window_bytes = 16 << 10;

/// The bytes that travel from one rank to another.
struct channel {
  std::atomic<int> is_full;
  std::uint64_t message_bytes;  ///< of the whole message
  std::uint64_t bytes;          ///< in the window
  std::byte window[window_bytes];
};

/// In shared memory.
struct world {
  std::atomic<int> pids[most_ranks];
  std::atomic<int> joined, left;
  std::atomic<int> connects[most_ranks][most_ranks][2];  ///< [from][to]: sender, receiver
  channel channels[most_ranks][most_ranks];              ///< [from][to]
};

struct unique_id {
  char name[128];
};

thread_local std::string last_error;

}  // namespace

struct ncclComm {
  world* shared = nullptr;
  std::string name;
  int rank = 0, size = 0, device = 0;
  std::atomic<int> error = success;
  std::atomic<bool> is_aborted = false;
  std::atomic<int> running = 0;  ///< host functions of groups that are not done
};

namespace {

struct message {
  ncclComm* comm;
  cudaStream_t stream;
  int peer;
  void* at;
  std::size_t bytes;
  bool is_receive;
  std::byte* staged = nullptr;
  std::size_t moved = 0;
  bool is_done = false;
};

/// The messages of a group on one stream of one communicator.
struct group {
  ncclComm* comm;
  std::vector<message> messages;
};

ncclComm const* living(ncclComm const* comm) {
  if (comm && comm->is_aborted) {
    std::fprintf(stderr, "stand-in for NCCL: a communicator is used after ncclCommAbort\n");
    std::abort();
  }
  return comm;
}

thread_local int depth = 0;
thread_local std::vector<message> posted;

/// Also of a process that its parent has not waited for yet.
bool has_ended(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  auto const name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z' || text[name_end + 2] == 'X';
}

/// Moves at most one window. Returns whether it moved any.
bool advance(ncclComm& comm, message& one) {
  auto& way = one.is_receive ? comm.shared->channels[one.peer][comm.rank]
                             : comm.shared->channels[comm.rank][one.peer];
  if (!one.is_receive) {
    if (way.is_full.load(std::memory_order_acquire)) return false;
    if (one.moved == one.bytes)
      return one.is_done = true;  // the receiver has taken the last window
    way.message_bytes = one.bytes;
    way.bytes = std::min(window_bytes, one.bytes - one.moved);
    std::memcpy(way.window, one.staged + one.moved, way.bytes);
    one.moved += way.bytes;
    way.is_full.store(1, std::memory_order_release);
    return true;
  }
  if (!way.is_full.load(std::memory_order_acquire)) return false;
  if (way.message_bytes != one.bytes) {
    comm.error = internal_error;
    return false;
  }
  std::memcpy(one.staged + one.moved, way.window, way.bytes);
  one.moved += way.bytes;
  one.is_done = one.moved == one.bytes;
  way.is_full.store(0, std::memory_order_release);
  return true;
}

void exchange(void* argument) {
  auto& all = *static_cast<group*>(argument);
  auto& comm = *all.comm;
  ++comm.running;
  while (!comm.is_aborted) {
    bool is_done = true, has_moved = false;
    std::array<std::array<bool, most_ranks>, 2> is_taken{};  // by an earlier message of the pair
    for (auto& one : all.messages) {
      auto& taken = is_taken[one.is_receive][static_cast<std::size_t>(one.peer)];
      if (one.is_done || taken) continue;
      taken = true;
      has_moved |= advance(comm, one);
      is_done &= one.is_done;
    }
    if (is_done && std::all_of(all.messages.begin(), all.messages.end(),
                               [](message const& one) { return one.is_done; }))
      break;
    if (has_moved) continue;
    std::this_thread::yield();
  }
  --comm.running;
}

result enqueue(ncclComm* comm, cudaStream_t stream, std::vector<message> messages) {
  auto* const all = new group{comm, std::move(messages)};  // a graph can replay it
  for (auto& one : all->messages) {
    if (cudaMallocHost(reinterpret_cast<void**>(&one.staged), one.bytes) != cudaSuccess)
      return unhandled_cuda_error;
    if (!one.is_receive && cudaMemcpyAsync(one.staged, one.at, one.bytes, cudaMemcpyDeviceToHost,
                                           stream) != cudaSuccess)
      return unhandled_cuda_error;
  }
  auto const begin = [](void* argument) {
    for (auto& one : static_cast<group*>(argument)->messages) {
      one.moved = 0;
      one.is_done = false;
    }
    exchange(argument);
  };
  if (cudaLaunchHostFunc(stream, begin, all) != cudaSuccess) return unhandled_cuda_error;
  for (auto& one : all->messages)
    if (one.is_receive && cudaMemcpyAsync(one.at, one.staged, one.bytes, cudaMemcpyHostToDevice,
                                          stream) != cudaSuccess)
      return unhandled_cuda_error;
  return success;
}

/// Waits until the peers of these messages have made their calls once.
result connect(std::vector<message> const& messages) {
  auto const side_of = [](message const& one, bool is_peers) -> std::atomic<int>& {
    auto& all = one.comm->shared->connects;
    return one.is_receive ? all[one.peer][one.comm->rank][is_peers ? 0 : 1]
                          : all[one.comm->rank][one.peer][is_peers ? 1 : 0];
  };
  for (auto const& one : messages) side_of(one, false) = 1;
  for (auto const& one : messages)
    while (!side_of(one, true)) {
      if (one.comm->is_aborted) return remote_error;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  return success;
}

result post(message const& one) {
  if (!living(one.comm)) return invalid_argument;
  if (one.peer < 0 || one.peer >= one.comm->size || one.peer == one.comm->rank) {
    last_error = "rank " + std::to_string(one.peer) + " of " + std::to_string(one.comm->size);
    return invalid_argument;
  }
  cudaPointerAttributes about{};
  if (cudaPointerGetAttributes(&about, one.at) != cudaSuccess ||
      about.type != cudaMemoryTypeDevice) {
    last_error = "the buffer is not in device memory";
    return invalid_argument;
  }
  posted.push_back(one);
  return success;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 21403;
  return success;
}
char const* ncclGetErrorString(int code) {
  switch (code) {
    case success: return "no error";
    case unhandled_cuda_error: return "unhandled cuda error";
    case system_error: return "unhandled system error";
    case internal_error: return "internal error";
    case invalid_argument: return "invalid argument";
    case invalid_usage: return "invalid usage";
    case remote_error: return "remote process exited or there was a network error";
    case 7: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
char const* ncclGetLastError(ncclComm*) { return last_error.c_str(); }

int ncclGetUniqueId(unique_id* id) {
  std::random_device draw;
  std::snprintf(id->name, sizeof(id->name), "/hcomp-nccl-%d-%08x", static_cast<int>(getpid()),
                draw());
  return success;
}
int ncclCommInitRank(ncclComm** comm, int size, unique_id id, int rank) {
  if (size < 1 || size > most_ranks || rank < 0 || rank >= size) return invalid_argument;
  auto made = std::make_unique<ncclComm>();
  int const file = shm_open(id.name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(world)) != 0) return system_error;
  void* const memory = mmap(nullptr, sizeof(world), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return system_error;
  made->shared = static_cast<world*>(memory);
  made->name = id.name;
  made->rank = rank;
  made->size = size;
  cudaGetDevice(&made->device);
  made->shared->pids[rank] = getpid();
  ++made->shared->joined;
  while (made->shared->joined < size) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (rank == 0) shm_unlink(id.name);
  *comm = made.release();
  return success;
}
int ncclCommCount(ncclComm const* comm, int* count) {
  if (!living(comm)) return invalid_argument;
  *count = comm->size;
  return success;
}
int ncclCommUserRank(ncclComm const* comm, int* rank) {
  if (!living(comm)) return invalid_argument;
  *rank = comm->rank;
  return success;
}
int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  living(comm);
  if (comm->error == success && comm->running > 0)
    for (int rank = 0; rank < comm->size; ++rank)
      if (has_ended(comm->shared->pids[rank])) comm->error = remote_error;
  *error = comm->error;
  return success;
}
/// The memory stays: groups that are enqueued use it.
int ncclCommAbort(ncclComm* comm) {
  living(comm);
  comm->is_aborted = true;
  return success;
}
int ncclCommDestroy(ncclComm* comm) {
  living(comm);
  ++comm->shared->left;
  munmap(comm->shared, sizeof(world));
  delete comm;
  return success;
}

int ncclGroupStart() {
  ++depth;
  return success;
}
int ncclGroupEnd() {
  if (depth == 0) return invalid_usage;
  if (--depth > 0) return success;
  auto rest = std::move(posted);
  posted.clear();
  if (auto const code = connect(rest)) return code;
  while (!rest.empty()) {
    auto* const comm = rest.front().comm;
    auto const stream = rest.front().stream;
    std::vector<message> together, others;
    for (auto const& one : rest)
      (one.comm == comm && one.stream == stream ? together : others).push_back(one);
    if (auto const code = enqueue(comm, stream, std::move(together))) return code;
    rest = std::move(others);
  }
  return success;
}
int ncclSend(void const* from, std::size_t count, int type, int peer, ncclComm* comm,
             cudaStream_t stream) {
  if (type != 0 && type != 1) return invalid_argument;  // bytes
  ncclGroupStart();
  auto const code = post({comm, stream, peer, const_cast<void*>(from), count, false});
  auto const ended = ncclGroupEnd();
  return code != success ? code : ended;
}
int ncclRecv(void* to, std::size_t count, int type, int peer, ncclComm* comm, cudaStream_t stream) {
  if (type != 0 && type != 1) return invalid_argument;
  ncclGroupStart();
  auto const code = post({comm, stream, peer, to, count, true});
  auto const ended = ncclGroupEnd();
  return code != success ? code : ended;
}

}  // extern "C"
