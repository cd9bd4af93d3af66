/// @file
/// The part of the CUDA runtime that tests/gpu calls, as a replacement library. It executes kernels
/// from the PTX in the program.
///
/// Streams are lazy: work runs only when a caller waits for it, so that a program that reads a
/// result too early finds the old bytes. One device; one host thread in the library at a time.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <support/ptx/machine.hpp>
#include <support/ptx/memory.hpp>
#include <support/ptx/program.hpp>
#include <support/ptx/report.hpp>
#include <support/ptx/stats.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace hcomp::ptx;

namespace {

constexpr std::size_t default_max_shared = 48 << 10, most_shared = 227 << 10;
constexpr std::size_t device_bytes = std::size_t{64} << 30;

using work = std::function<void()>;

/// Work in the order of submission.
struct stream {
  std::deque<work> waiting;
  std::vector<work>* captured = nullptr;  ///< the graph that captures this stream
  bool is_origin = false;                 ///< the capture began here
  bool is_in_host = false;                ///< a host function runs
  std::uint64_t given = 0;                ///< amount of captured work
  std::uint64_t joined = 0;               ///< captured work that another stream waits for

  void give(work one) {
    ++given;
    if (captured)
      captured->push_back(std::move(one));
    else if (options::get().eager)
      one();
    else
      waiting.push_back(std::move(one));
  }
  void do_one() {
    work const one = std::move(waiting.front());
    waiting.pop_front();
    one();
  }
  void do_all() {
    while (!waiting.empty()) do_one();
  }
};

/// Counts of records and of completed records, and the stream and time of the last one.
struct event {
  std::uint64_t recorded = 0, done = 0, asked = 0;
  std::chrono::steady_clock::time_point at{};
  stream* last = nullptr;
  std::shared_ptr<bool> is_reached = std::make_shared<bool>(true);  ///< the last record
  std::vector<work>* captured = nullptr;  ///< the graph that captured the last record
  std::uint64_t given = 0;                ///< work of `last` before the last record
};
using event_handle = std::shared_ptr<event>;

/// A __global__ function of the program.
struct function {
  std::size_t module = 0;
  std::string name;
  std::size_t shared_limit = default_max_shared;
};

struct module {
  std::string_view text;
  std::unique_ptr<program> parsed;  ///< at the first launch
};

/// All state of the library. Never destroyed, because the last caller is unknown.
struct state {
  std::mutex mutex;
  device_memory memory;
  std::deque<module> modules;
  std::unordered_map<void const*, function> functions;
  stream on_default;
  std::set<stream*> streams;
  std::set<std::vector<work>*> capturing;  ///< graphs whose capture has not ended
  calls counted;

  stream& of(cudaStream_t handle) {
    bool const is_default = reinterpret_cast<std::uintptr_t>(handle) <= 2;
    return is_default ? on_default : *reinterpret_cast<stream*>(handle);
  }
  void do_all() {
    on_default.do_all();
    for (stream* const one : streams) one->do_all();
  }
};
state& all() {
  static auto& one = *new state;
  return one;
}
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t code) { return last_error = code; }

// ---- Kernels ------------------------------------------------------------------------------------

template <class T> T field(char const* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// The PTX for the newest architecture in a fat binary. The layout is undocumented: a header of 16
/// bytes (magic number, size of the header at 6, size of the rest at 8), then entries of kind (1 is
/// PTX), size of the header at 4, size of the rest at 8, architecture at 28, flags at 40.
std::string_view ptx_of(char const* fat) {
  if (field<std::uint32_t>(fat) != 0xba55ed50)
    report::fail("the program carries its kernels in an unknown format");
  char const* at = fat + field<std::uint16_t>(fat + 6);
  char const* const end = at + field<std::uint64_t>(fat + 8);
  std::uint32_t newest = 0;
  std::string_view found;
  while (at < end) {
    auto const header = field<std::uint32_t>(at + 4);
    auto const size = field<std::uint64_t>(at + 8);
    auto const architecture = field<std::uint32_t>(at + 28);
    if (field<std::uint16_t>(at) == 1 && architecture > newest) {
      newest = architecture;
      found = {at + header, size};
    }
    at += header + size;
  }
  found = found.substr(0, found.find('\0'));
  if (found.find(".version") == std::string_view::npos)
    report::fail("the program carries no PTX, or compressed PTX: nvcc needs --no-compress");
  return found;
}

kernel const* kernel_of(function const& one) {
  module& in = all().modules[one.module];
  if (!in.parsed) {
    try {
      in.parsed = std::make_unique<program>(parse(in.text));
    } catch (parse_error const& error) {
      report::fail(error.what());
    }
    for (auto const& one : in.parsed->kernels) report::get().add(one);
    for (auto const& variable : in.parsed->globals)
      all().memory.add(variable.begin, variable.size, memory_kind::constant);
  }
  auto const found = in.parsed->by_name.find(one.name);
  return found == in.parsed->by_name.end() ? nullptr : found->second;
}

cudaError_t give_launch(void const* host_function, dim3 grid, dim3 block, void** arguments,
                        std::size_t shared, cudaStream_t on) {
  std::lock_guard const lock(all().mutex);
  auto const found = all().functions.find(host_function);
  if (found == all().functions.end()) return failed(cudaErrorInvalidDeviceFunction);
  function const& called = found->second;
  kernel const* const code = kernel_of(called);
  if (!code) return failed(cudaErrorNoKernelImageForDevice);
  if (grid.y != 1 || grid.z != 1 || block.y != 1 || block.z != 1)
    report::fail("grids and blocks of more than one dimension are not supported");
  unsigned const most = code->max_threads > 0 ? code->max_threads : 1024;
  if (grid.x == 0 || block.x == 0) return failed(cudaErrorInvalidConfiguration);
  if (block.x > most || shared + code->shared_bytes > called.shared_limit)
    return failed(cudaErrorInvalidValue);
  std::vector<std::byte> parameters(code->parameter_bytes);
  for (auto const& one : code->parameters)
    std::memcpy(parameters.data() + one.offset, *arguments++, one.bytes);
  all().of(on).give([code, grid, block, shared, parameters = std::move(parameters)] {
    launch(all().memory, *code, grid.x, block.x, parameters, shared);
  });
  return cudaSuccess;
}

// ---- Memory -------------------------------------------------------------------------------------

cudaError_t allocate(void** to, std::size_t bytes, memory_kind kind) {
  std::lock_guard const lock(all().mutex);
  ++all().counted.allocations;
  *to = nullptr;
  if (bytes > device_bytes) return failed(cudaErrorMemoryAllocation);
  if (bytes == 0) return cudaSuccess;
  std::size_t const rounded = (bytes + 255) / 256 * 256;
  void* const memory = std::aligned_alloc(256, rounded);
  if (!memory) return failed(cudaErrorMemoryAllocation);
  std::memset(memory, 0xa5, rounded);
  all().memory.add(reinterpret_cast<std::uintptr_t>(memory), bytes, kind);
  *to = memory;
  return cudaSuccess;
}
cudaError_t release(void* memory) {
  std::lock_guard const lock(all().mutex);
  if (!memory) return cudaSuccess;
  ++all().counted.allocations;
  all().do_all();
  if (!all().memory.remove(reinterpret_cast<std::uintptr_t>(memory)))
    return failed(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}

/// Ends the program if the range leaves the allocation in which it begins.
void require_inside(char const* call, void const* memory, std::size_t bytes) {
  allocation const* const allocated = all().memory.find(memory);
  if (allocated && reinterpret_cast<std::uintptr_t>(memory) + bytes > allocated->end())
    report::fail(std::string(call) + ": " + std::to_string(bytes) + " bytes, " +
                 std::to_string(allocated->end() - reinterpret_cast<std::uintptr_t>(memory)) +
                 " are left in the allocation");
}
bool is_pageable(void const* memory) { return all().memory.find(memory) == nullptr; }
bool is_on_device(void const* memory) {
  allocation const* const allocated = all().memory.find(memory);
  return allocated && allocated->kind != memory_kind::pinned;
}
/// Whether the given direction matches the addresses.
bool is_right(void const* to, void const* from, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return is_on_device(to) && !is_on_device(from);
    case cudaMemcpyDeviceToHost: return !is_on_device(to) && is_on_device(from);
    case cudaMemcpyDeviceToDevice: return is_on_device(to) && is_on_device(from);
    default: return true;
  }
}
cudaError_t refuse_copy(char const* call, void const* to, void const* from, std::size_t bytes,
                        cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (!to || !from || !is_right(to, from, kind)) return failed(cudaErrorInvalidValue);
  require_inside(call, to, bytes);
  require_inside(call, from, bytes);
  return cudaSuccess;
}
void copy(void* to, void const* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memmove(to, from, bytes);
  all().memory.copy_history(to, from, bytes);
}
cudaError_t give_memset(void* to, int value, std::size_t bytes, cudaStream_t on) {
  std::lock_guard const lock(all().mutex);
  if (!is_on_device(to)) return failed(cudaErrorInvalidValue);
  require_inside("cudaMemset", to, bytes);
  all().of(on).give([=] {
    std::memset(to, value, bytes);
    all().memory.set_written(to, bytes);
  });
  return cudaSuccess;
}

[[gnu::constructor]] void begin() { setenv("HCOMP_PTX_MACHINE", "1", 1); }
[[gnu::destructor]] void end() {
  if (report::get().finish()) return;
  std::fflush(stdout);
  std::_Exit(1);
}

struct call_configuration {
  dim3 grid, block;
  std::size_t shared;
  void* on;
};
thread_local call_configuration configuration;

}  // namespace

extern "C" {

// ---- What nvcc's host code calls ----------------------------------------------------------------

void** __cudaRegisterFatBinary(void* wrapper) {
  std::lock_guard const lock(all().mutex);
  auto const* const fat = field<char const*>(static_cast<char const*>(wrapper) + 8);
  all().modules.push_back({ptx_of(fat), nullptr});
  return reinterpret_cast<void**>(all().modules.size() - 1);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** module, char const* host, char*, char const* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  std::lock_guard const lock(all().mutex);
  all().functions[host] = {reinterpret_cast<std::size_t>(module), name};
}
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* on) {
  configuration = {grid, block, shared, on};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* on) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  std::memcpy(on, &configuration.on, sizeof(void*));
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* code, void const* host) {
  *code = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t code, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t on) {
  return give_launch(code, grid, block, arguments, shared, on);
}

// ---- Kernels and the device ---------------------------------------------------------------------

cudaError_t cudaLaunchKernel(void const* host, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared, cudaStream_t on) {
  return give_launch(host, grid, block, arguments, shared, on);
}
cudaError_t cudaFuncSetAttribute(void const* host, cudaFuncAttribute what, int value) {
  std::lock_guard const lock(all().mutex);
  auto const found = all().functions.find(host);
  if (found == all().functions.end()) return failed(cudaErrorInvalidDeviceFunction);
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize)
    report::fail("cudaFuncSetAttribute: attribute " + std::to_string(what) + " is not supported");
  kernel const* const code = kernel_of(found->second);
  std::size_t const wanted = static_cast<std::size_t>(value) + (code ? code->shared_bytes : 0);
  if (value < 0 || wanted > most_shared) return failed(cudaErrorInvalidValue);
  found->second.shared_limit = std::max(wanted, default_max_shared);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
/// A name, and multiprocessors without a clock.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int device) {
  if (device != 0) return failed(cudaErrorInvalidDevice);
  std::memset(about, 0, sizeof(*about));
  std::strcpy(about->name, "PTX machine, no GPU");
  about->multiProcessorCount = options::get().multiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  if (what != cudaDevAttrClockRate && what != cudaDevAttrMultiProcessorCount)
    report::fail("cudaDeviceGetAttribute: attribute " + std::to_string(what) + " is not supported");
  *value = what == cudaDevAttrMultiProcessorCount ? options::get().multiprocessors : 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  std::lock_guard const lock(all().mutex);
  ++all().counted.waits;
  all().do_all();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
char const* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    default: return "another cudaError";
  }
}
char const* cudaGetErrorString(cudaError_t code) {
  static thread_local char text[32];
  std::snprintf(text, sizeof(text), "error %d", static_cast<int>(code));
  return text;
}

void hcomp_ptx_take_stats(stats* found) {
  std::lock_guard const lock(all().mutex);
  *found = report::get().take_stats();
}

void hcomp_ptx_count_calls(calls* found) {
  std::lock_guard const lock(all().mutex);
  *found = all().counted;
}

// ---- Memory -------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  return allocate(to, bytes, memory_kind::device);
}
cudaError_t cudaMallocManaged(void** to, std::size_t bytes, unsigned) {
  return allocate(to, bytes, memory_kind::managed);
}
cudaError_t cudaMallocHost(void** to, std::size_t bytes) {
  return allocate(to, bytes, memory_kind::pinned);
}
cudaError_t cudaFree(void* memory) { return release(memory); }
cudaError_t cudaFreeHost(void* memory) { return release(memory); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, void const* pointer) {
  std::lock_guard const lock(all().mutex);
  std::memset(about, 0, sizeof(*about));
  allocation const* const allocated = all().memory.find(pointer);
  about->type = !allocated                                ? cudaMemoryTypeUnregistered
                : allocated->kind == memory_kind::pinned  ? cudaMemoryTypeHost
                : allocated->kind == memory_kind::managed ? cudaMemoryTypeManaged
                                                          : cudaMemoryTypeDevice;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  std::lock_guard const lock(all().mutex);
  if (auto const code = refuse_copy("cudaMemcpy", to, from, bytes, kind)) return code;
  ++all().counted.waits;
  all().on_default.do_all();
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t on) {
  std::lock_guard const lock(all().mutex);
  if (auto const code = refuse_copy("cudaMemcpyAsync", to, from, bytes, kind)) return code;
  stream& s = all().of(on);
  if (is_pageable(from)) {  // CUDA has read pageable memory on return
    auto const* const first = static_cast<std::byte const*>(from);
    s.give(
        [=, bytes_now = std::vector(first, first + bytes)] { copy(to, bytes_now.data(), bytes); });
  } else {
    s.give([=] { copy(to, from, bytes); });
  }
  if (is_pageable(to) && !s.captured) {
    ++all().counted.waits;
    s.do_all();
  }
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return give_memset(to, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t on) {
  return give_memset(to, value, bytes, on);
}

// ---- Streams, events, graphs --------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
  std::lock_guard const lock(all().mutex);
  auto* const one = new stream;
  all().streams.insert(one);
  *handle = reinterpret_cast<cudaStream_t>(one);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithFlags(handle, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::lock_guard const lock(all().mutex);
  stream& one = all().of(handle);
  one.do_all();
  all().streams.erase(&one);
  delete &one;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::lock_guard const lock(all().mutex);
  stream& one = all().of(handle);
  if (one.captured) return failed(cudaErrorStreamCaptureUnsupported);
  ++all().counted.waits;
  one.do_all();
  return cudaSuccess;
}
/// The other threads of the program go on meanwhile, as on a device.
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  std::lock_guard const lock(all().mutex);
  stream& s = all().of(handle);
  s.give([&s, function, argument] {
    s.is_in_host = true;
    all().mutex.unlock();
    function(argument);
    all().mutex.lock();
    s.is_in_host = false;
  });
  return cudaSuccess;
}
/// Captures of the machine prohibit nothing.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  std::lock_guard const lock(all().mutex);
  *status = all().of(handle).captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     cudaGraphNode_t const**, cudaGraphEdgeData const**,
                                     std::size_t*) {
  std::lock_guard const lock(all().mutex);
  auto const* const captured = all().of(handle).captured;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (number) *number = reinterpret_cast<std::uintptr_t>(captured);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  std::lock_guard const lock(all().mutex);
  stream const& one = all().of(handle);
  if (one.captured) return failed(cudaErrorStreamCaptureUnsupported);
  return one.waiting.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned) {
  *handle = reinterpret_cast<cudaEvent_t>(new event_handle(std::make_shared<event>()));
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  delete reinterpret_cast<event_handle*>(handle);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  std::lock_guard const lock(all().mutex);
  auto const one = *reinterpret_cast<event_handle*>(handle);
  stream& s = all().of(on);
  one->last = &s;
  one->captured = s.captured;
  one->given = s.given;
  if (s.captured) return cudaSuccess;
  // Streams wait for the record before their wait, also if the event is recorded elsewhere later.
  one->is_reached = std::make_shared<bool>(false);
  s.give([one, number = ++one->recorded, is_reached = one->is_reached] {
    *is_reached = true;
    one->done = std::max(one->done, number);
    one->at = std::chrono::steady_clock::now();
  });
  return cudaSuccess;
}
/// Repeated queries make progress.
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  std::lock_guard const lock(all().mutex);
  auto& one = **reinterpret_cast<event_handle*>(handle);
  if (one.captured) return failed(cudaErrorCapturedEvent);
  if (one.done < one.recorded && ++one.asked % 16 == 0 && !one.last->is_in_host) one.last->do_one();
  return one.done == one.recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  std::lock_guard const lock(all().mutex);
  auto const& one = **reinterpret_cast<event_handle*>(handle);
  if (one.captured) return failed(cudaErrorCapturedEvent);
  ++all().counted.waits;
  while (one.done < one.recorded) one.last->do_one();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  std::lock_guard const lock(all().mutex);
  stream& s = all().of(handle);
  auto const one = *reinterpret_cast<event_handle*>(event);
  if (one->captured) {  // captured work is in the order of submission, in which events are recorded
    if (!all().capturing.contains(one->captured)) return failed(cudaErrorCapturedEvent);
    if (s.captured && s.captured != one->captured) return failed(cudaErrorStreamCaptureMerge);
    s.captured = one->captured;
    one->last->joined = std::max(one->last->joined, one->given);
    return cudaSuccess;
  }
  if (s.captured) return failed(cudaErrorStreamCaptureIsolation);
  s.give([is_reached = one->is_reached, on = one->last] {
    while (!*is_reached) on->do_one();
  });
  return cudaSuccess;
}
/// Time of the machine, unrelated to a GPU's.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  std::lock_guard const lock(all().mutex);
  auto const& first = **reinterpret_cast<event_handle*>(begin);
  auto const& last = **reinterpret_cast<event_handle*>(end);
  if (first.recorded == 0 || last.recorded == 0) return failed(cudaErrorInvalidResourceHandle);
  if (first.done < first.recorded || last.done < last.recorded) return failed(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last.at - first.at).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  std::lock_guard const lock(all().mutex);
  stream& s = all().of(handle);
  if (s.captured) return failed(cudaErrorIllegalState);
  s.captured = new std::vector<work>;
  s.is_origin = true;
  all().capturing.insert(s.captured);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  std::lock_guard const lock(all().mutex);
  stream& s = all().of(handle);
  *graph = nullptr;
  if (!s.captured || !s.is_origin) return failed(cudaErrorStreamCaptureUnmatched);
  auto* const made = s.captured;
  all().capturing.erase(made);
  bool are_joined = true;
  auto const leave = [&](stream& one) {
    if (one.captured != made) return;
    are_joined &= one.is_origin || one.joined == one.given;
    one.captured = nullptr;
    one.is_origin = false;
  };
  leave(all().on_default);
  for (stream* const one : all().streams) leave(*one);
  if (!are_joined) {
    delete made;
    return failed(cudaErrorStreamCaptureUnjoined);
  }
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t graph,
                                          unsigned long long) {
  *to = reinterpret_cast<cudaGraphExec_t>(
      new std::vector<work>(*reinterpret_cast<std::vector<work> const*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<std::vector<work>*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<std::vector<work>*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t on) {
  std::lock_guard const lock(all().mutex);
  for (work const& one : *reinterpret_cast<std::vector<work> const*>(graph)) all().of(on).give(one);
  return cudaSuccess;
}

}  // extern "C"
