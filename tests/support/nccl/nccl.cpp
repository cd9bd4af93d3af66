/// @file
/// A stand-in for libnccl.so.2: communicators of processes of one node, point-to-point messages,
/// and collectives of vectors.
///
/// A collective is a message of each rank to each other; values are added in rank order, those of
/// 16 bits as floats.
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
#include <hcomp/core/half.hpp>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
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
constexpr int most_splits = 16;
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
  std::atomic<int> joined, left, aborted;
  std::atomic<int> split_calls[most_splits];  ///< ranks that have called a split
  int colors[most_splits][most_ranks], keys[most_splits][most_ranks];
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
  int splits = 0;
  std::atomic<int> error = success;
  std::atomic<bool> is_aborted = false;
  std::atomic<int> running = 0;  ///< host functions of groups that are not done
};

namespace {

enum class kind { all_reduce, reduce_scatter, all_gather };

/// A collective of one rank.
struct collective {
  ncclComm* comm;
  cudaStream_t stream;
  kind what;
  int type, op;
  std::size_t part_bytes;  ///< of the message between two ranks
  void const* send;
  void* receive;
  std::byte* own = nullptr;            ///< copy of the input in pinned memory
  std::byte* out = nullptr;            ///< for `receive`, in pinned memory
  std::vector<std::byte*> parts = {};  ///< of each rank, in rank order

  std::size_t input_bytes() const {
    return part_bytes * (what == kind::reduce_scatter ? size() : 1);
  }
  std::size_t result_bytes() const { return part_bytes * (what == kind::all_gather ? size() : 1); }
  std::size_t size() const { return static_cast<std::size_t>(comm->size); }
  /// What goes to this rank.
  std::byte* part_for(int rank) const {
    return own + (what == kind::reduce_scatter ? part_bytes * static_cast<std::size_t>(rank) : 0);
  }
  result prepare();
  void finish() const;
};

struct message {
  ncclComm* comm;
  cudaStream_t stream;
  int peer;
  void* at;  ///< in device memory; null: `staged` belongs to a collective
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
  std::vector<collective> collectives;
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
thread_local std::vector<collective> posted_collectives;

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

std::size_t size_of(int type) {
  switch (type) {
    case 2:
    case 3:
    case 7: return 4;
    case 6:
    case 9: return 2;
    case 8: return 8;
    default: return 1;
  }
}

/// Reduces `count` values of all ranks, as values of type T.
template <class T, class Sum = T> void reduce(collective const& c, std::size_t count) {
  auto* const to = reinterpret_cast<T*>(c.out);
  for (std::size_t i = 0; i < count; ++i) {
    auto const value = [&](std::byte* part) {
      return static_cast<Sum>(reinterpret_cast<T*>(part)[i]);
    };
    Sum sum = value(c.parts[0]);
    for (std::size_t rank = 1; rank < c.size(); ++rank)
      sum = c.op == 2 ? std::max(sum, value(c.parts[rank]))
                      : static_cast<Sum>(sum + value(c.parts[rank]));
    if (c.op == 4) sum = static_cast<Sum>(sum / static_cast<Sum>(c.size()));
    to[i] = static_cast<T>(sum);
  }
}

void collective::finish() const {
  if (what == kind::all_gather) {
    for (std::size_t rank = 0; rank < size(); ++rank)
      std::memcpy(out + rank * part_bytes, parts[rank], part_bytes);
    return;
  }
  std::size_t const count = part_bytes / size_of(type);
  switch (type) {
    case 2: return reduce<std::int32_t>(*this, count);
    case 3: return reduce<std::uint32_t>(*this, count);
    case 6: return reduce<hcomp::float16, float>(*this, count);
    case 7: return reduce<float>(*this, count);
    case 8: return reduce<double>(*this, count);
    case 9: return reduce<hcomp::bfloat16, float>(*this, count);
    default: return reduce<std::uint8_t>(*this, count);
  }
}

std::byte* pinned(std::size_t bytes) {
  void* memory = nullptr;
  return cudaMallocHost(&memory, bytes) == cudaSuccess ? static_cast<std::byte*>(memory) : nullptr;
}

/// Allocates pinned memory. The result is not a copy of the program's vectors yet.
result collective::prepare() {
  own = pinned(input_bytes());
  out = pinned(result_bytes());
  for (int rank = 0; rank < comm->size; ++rank)
    parts.push_back(rank == comm->rank ? part_for(rank) : pinned(part_bytes));
  bool const has_all =
      own && out && std::all_of(parts.begin(), parts.end(), [](auto* one) { return one; });
  return has_all ? success : unhandled_cuda_error;
}

result enqueue(ncclComm* comm, cudaStream_t stream, std::vector<message> messages,
               std::vector<collective> collectives) {
  auto* const all =
      new group{comm, std::move(messages), std::move(collectives)};  // a graph can replay it
  for (auto& one : all->collectives)
    if (cudaMemcpyAsync(one.own, one.send, one.input_bytes(), cudaMemcpyDeviceToHost, stream) !=
        cudaSuccess)
      return unhandled_cuda_error;
  for (auto& one : all->messages) {
    if (!one.at) continue;
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
    auto const& all = *static_cast<group*>(argument);
    if (!all.comm->is_aborted)
      for (auto const& one : all.collectives) one.finish();
  };
  if (cudaLaunchHostFunc(stream, begin, all) != cudaSuccess) return unhandled_cuda_error;
  for (auto& one : all->collectives)
    if (cudaMemcpyAsync(one.receive, one.out, one.result_bytes(), cudaMemcpyHostToDevice, stream) !=
        cudaSuccess)
      return unhandled_cuda_error;
  for (auto& one : all->messages)
    if (one.at && one.is_receive &&
        cudaMemcpyAsync(one.at, one.staged, one.bytes, cudaMemcpyHostToDevice, stream) !=
            cudaSuccess)
      return unhandled_cuda_error;
  return success;
}

bool is_in_device_memory(void const* at) {
  cudaPointerAttributes about{};
  bool const is_there =
      cudaPointerGetAttributes(&about, at) == cudaSuccess && about.type == cudaMemoryTypeDevice;
  if (!is_there) last_error = "the buffer is not in device memory";
  return is_there;
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
  if (!is_in_device_memory(one.at)) return invalid_argument;
  posted.push_back(one);
  return success;
}

result post(collective one, std::size_t count, std::size_t value_bytes) {
  if (!living(one.comm)) return invalid_argument;
  if (value_bytes == 0 || one.op < 0 || one.op > 4 || one.op == 1 || one.op == 3) {
    last_error = "type " + std::to_string(one.type) + ", operation " + std::to_string(one.op);
    return invalid_argument;
  }
  if (count == 0) return success;
  if (!is_in_device_memory(one.send) || !is_in_device_memory(one.receive)) return invalid_argument;
  one.part_bytes = count * value_bytes;
  if (auto const code = one.prepare(); code != success) return code;
  for (int hop = 1; hop < one.comm->size; ++hop) {
    int const to = (one.comm->rank + hop) % one.comm->size;
    int const from = (one.comm->rank + one.comm->size - hop) % one.comm->size;
    posted.push_back({one.comm, one.stream, to, nullptr, one.part_bytes, false, one.part_for(to)});
    posted.push_back({one.comm, one.stream, from, nullptr, one.part_bytes, true,
                      one.parts[static_cast<std::size_t>(from)]});
  }
  posted_collectives.push_back(std::move(one));
  return success;
}

/// Posts a collective in a group.
result run(collective one, std::size_t count, std::size_t value_bytes);

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
/// Waits for all ranks, also within a group.
int ncclCommSplit(ncclComm* comm, int color, int key, ncclComm** made, void*) {
  if (!living(comm) || comm->splits == most_splits) return invalid_argument;
  auto& shared = *comm->shared;
  int const split = comm->splits++;
  shared.colors[split][comm->rank] = color;
  shared.keys[split][comm->rank] = key;
  ++shared.split_calls[split];
  while (shared.split_calls[split] < comm->size)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  int size = 0, rank = 0;
  for (int other = 0; other < comm->size; ++other) {
    if (shared.colors[split][other] != color) continue;
    ++size;
    int const theirs = shared.keys[split][other];
    rank += theirs < key || (theirs == key && other < comm->rank);
  }
  unique_id id{};
  std::snprintf(id.name, sizeof(id.name), "%s-%d-%d", comm->name.c_str(), split, color);
  return ncclCommInitRank(made, size, id, rank);
}
int ncclCommCount(ncclComm const* comm, int* count) {
  if (!living(comm)) return invalid_argument;
  *count = comm->size;
  return success;
}
int ncclCommCuDevice(ncclComm const* comm, int* device) {
  if (!living(comm)) return invalid_argument;
  *device = comm->device;
  return success;
}
int ncclCommUserRank(ncclComm const* comm, int* rank) {
  if (!living(comm)) return invalid_argument;
  *rank = comm->rank;
  return success;
}
int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  living(comm);
  if (comm->error == success && comm->running > 0 && comm->shared->aborted > 0)
    comm->error = remote_error;
  if (comm->error == success && comm->running > 0)
    for (int rank = 0; rank < comm->size; ++rank)
      if (has_ended(comm->shared->pids[rank])) comm->error = remote_error;
  *error = comm->error;
  return success;
}
/// The memory stays: groups that are enqueued use it.
int ncclCommAbort(ncclComm* comm) {
  living(comm);
  ++comm->shared->aborted;
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
  auto rest = std::exchange(posted, {});
  auto collectives = std::exchange(posted_collectives, {});
  if (auto const code = connect(rest)) return code;
  while (!rest.empty() || !collectives.empty()) {
    auto* const comm = rest.empty() ? collectives.front().comm : rest.front().comm;
    auto const stream = rest.empty() ? collectives.front().stream : rest.front().stream;
    auto const taken = [&](auto& all) {
      auto const end = std::stable_partition(all.begin(), all.end(), [&](auto const& one) {
        return one.comm == comm && one.stream == stream;
      });
      std::vector<typename std::remove_reference_t<decltype(all)>::value_type> together(
          std::make_move_iterator(all.begin()), std::make_move_iterator(end));
      all.erase(all.begin(), end);
      return together;
    };
    auto messages = taken(rest);
    if (auto const code = enqueue(comm, stream, std::move(messages), taken(collectives)))
      return code;
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

int ncclAllReduce(void const* from, void* to, std::size_t count, int type, int op, ncclComm* comm,
                  cudaStream_t stream) {
  return run({comm, stream, kind::all_reduce, type, op, 0, from, to}, count, size_of(type));
}
int ncclReduceScatter(void const* from, void* to, std::size_t count, int type, int op,
                      ncclComm* comm, cudaStream_t stream) {
  return run({comm, stream, kind::reduce_scatter, type, op, 0, from, to}, count, size_of(type));
}
int ncclAllGather(void const* from, void* to, std::size_t count, int type, ncclComm* comm,
                  cudaStream_t stream) {
  return run({comm, stream, kind::all_gather, type, 0, 0, from, to}, count, size_of(type));
}

}  // extern "C"

namespace {

result run(collective one, std::size_t count, std::size_t value_bytes) {
  ncclGroupStart();
  auto const code = post(std::move(one), count, value_bytes);
  auto const ended = ncclGroupEnd();
  return code != success ? code : static_cast<result>(ended);
}

}  // namespace
