/// @file
/// Ranks are processes that share a GPU. Each rank opens the device itself: CUDA does not work in
/// the child of a process that has used it.
#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/ucx/transport.hpp>
#include <span>
#include <string>
#include <support/all_or_few.hpp>
#include <vector>

#include "support.hpp"

using namespace hcomp;
using hcomp::testing::first_difference;
using hcomp::testing::must;
using hcomp::testing::nowhere;
using hcomp::testing::uniform_values;

namespace {

constexpr int ranks = 3;
std::size_t const values = testing::all_or_few(300'001, 34'001);

/// Runs twice, so that the second run reuses the state of the first.
template <class T, class E, class C>
void sum_twice(std::span<float> x, C const& codec, T& transport, E& executor) {
  plan sum(x.size(), codec, transport, executor, {.segment_bytes = 20'000});
  for (std::uint64_t step = 0; step < 2; ++step) sum.all_reduce(x, {.step = step});
}

template <class C> std::vector<float> reduce_among_threads(C const& codec, int rank) {
  std::vector<std::vector<float>> x;
  for (int r = 0; r < ranks; ++r) x.push_back(uniform_values(values, 8, r));
  return testing::on_ranks(x, [&](in_process& transport, auto& mine) {
    reference_executor executor;
    sum_twice(std::span(mine), codec, transport, executor);
  })[std::size_t(rank)];
}

/// Returns whether this UCX was built with CUDA and finds a device. Asks in a process of its own.
bool has_cuda() {
  return ucx::testing::run_ranks(1,
                                 [](ucx::testing::member&) {
                                   setenv("HCOMP_UCX_TLS", "tcp,self,cuda_copy", 1);
                                   must(ucx::supports_device(ucx::open_context().get()),
                                        "a UCX with CUDA");
                                 })[0]
             .how == testing::ending::finished;
}

/// @param transports  UCX's list of transports. @param reaches  expected answer for device memory
template <class C>
void compare(ucx::testing::member& self, C const& codec, std::string const& transports,
             bool reaches) {
  setenv("HCOMP_UCX_TLS", transports.c_str(), 1);
  ucx::transport transport(self.rank, self.size, self.exchange());
  must(transport.reaches(memory_space::device) == reaches,
       transports + (reaches ? ": reaches the device" : ": does not reach the device"));
  gpu::stream_executor executor;
  host_staged over(transport, executor);
  must(over.copies_messages() != reaches, "messages are copied where nothing reaches the device");
  auto x = uniform_values(values, 8, self.rank);
  gpu::device_buffer const memory(x.size() * sizeof(float));
  executor.wait(executor.write(memory.data(), x.data(), memory.size()));
  sum_twice(std::span(reinterpret_cast<float*>(memory.data()), x.size()), codec, over, executor);
  executor.wait(executor.read(x.data(), memory.data(), memory.size()));
  must(first_difference(x, reduce_among_threads(codec, self.rank)) == nowhere, "the bits of nodes");
}

void compare_by_processes(std::string const& transports, bool reaches) {
  for (auto const& one : ucx::testing::run_ranks(ranks, [&](ucx::testing::member& self) {
         compare(self, sign<float>{.magnitude = 0.01f}, transports, reaches);
         compare(self, float_cast<float16>{}, transports, reaches);
       })) {
    INFO(one.text);
    CHECK(one.how == testing::ending::finished);
    CHECK(one.clean_exit);
  }
}

}  // namespace

TEST_CASE("ucx: ranks that share a GPU have the bits of nodes, through pinned memory") {
  compare_by_processes("tcp,self", false);
  compare_by_processes("tcp,self,cuda_copy", false);  // over TCP also where UCX could
}

TEST_CASE(
    "ucx: ranks that share a GPU have the bits of nodes, through UCX's transports for devices") {
  if (!has_cuda()) {
    MESSAGE("left out: this UCX has no CUDA");
    return;
  }
  compare_by_processes("tcp,self,cuda_copy,cuda_ipc", true);
}
