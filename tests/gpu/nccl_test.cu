/// @file
/// Plans over NCCL. Ranks are processes; tests/ptx runs them over a stand-in for libnccl.so.2.

#include <doctest/doctest.h>

#include <signal.h>
#include <chrono>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/codec/float_cast/float_cast.hpp>
#include <hcomp/codec/float_cast/identity.hpp>
#include <hcomp/codec/sign/count.hpp>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/codec/thc/thc.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/nccl/transport.hpp>
#include <iostream>
#include <span>
#include <string>
#include <support/all_or_few.hpp>
#include <support/enqueued_plans.hpp>
#include <support/nccl_ranks.hpp>
#include <thread>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

TEST_CASE("nccl: all-reduces have the bits of hosts, with every algorithm and number of ranks") {
  std::size_t const values = all_or_few(100'001, 9'001);
  for (int const ranks : all_or_few<std::vector<int>>({2, 3, 4, 5}, {2, 3})) {
    auto const x = uniform_vectors(ranks, values, 8);
    auto const all = static_cast<std::uint32_t>(ranks);
    auto const found = statuses_of(ranks, [&](nccl_rank& self, int rank) {
      int differing = 0;
      {
        nccl::transport transport(self.communicator, self.stream);
        auto const compare = [&](auto const& codec, char const* name) {
          plan_options const options{.algorithm = algorithm::from(name)};
          auto const wanted = summed_on_host(codec, x, options);
          auto const i = static_cast<std::size_t>(rank);
          auto const got = self.on_device(x[i], [&](std::span<float> mine) {
            plan sum(values, codec, transport, self.executor, options);
            for (std::uint64_t step = 0; step < 3; ++step) sum.all_reduce(mine, {.step = step});
            sum.check();
          });
          if (got == wanted[i]) return;
          ++differing;
          std::cerr << "rank " << rank << " of " << ranks << ": " << name << " differs\n";
        };
        for (char const* const name : {"ring", "direct"}) {
          compare(identity<float>(), name);
          compare(float_cast<float16>(), name);
          compare(fit(sign<>{}, all), name);
          compare(fit(sign_count<>{}, all), name);
          compare(fit(thc<float>{}, all), name);
        }
        for (char const* const name : {"recursive_doubling", "aggregator"})
          compare(fit(thc<float>{}, all), name);
        compare(float_cast<bfloat16>(), "torus");
      }
      self.destroy();
      return differing;
    });
    CHECK(found == std::vector<int>(static_cast<std::size_t>(ranks), 0));
  }
}

TEST_CASE("nccl: a graph replays messages, and two plans share a communicator") {
  std::size_t const values = 5'000;
  auto const x = uniform_vectors(2, values, 8);
  auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
    auto const i = static_cast<std::size_t>(rank);
    std::vector<float> replayed, enqueued;
    {
      nccl::transport transport(self.communicator, self.stream);
      nccl::transport another(self.communicator, self.stream);
      plan sum(values, identity<float>(), transport, self.executor);
      plan other(values, fit(thc<float>{}, 2), another, self.executor);
      enqueued = self.on_device(x[i], [&](std::span<float> mine) {
        for (int n = 0; n < 3; ++n) sum.all_reduce(mine);
        other.all_reduce(mine, {.step = 7});
        sum.check();
        other.check();
      });
      replayed = self.on_device(x[i], [&](std::span<float> mine) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t made = nullptr;
        HCOMP_CUDA_TRY(cudaStreamBeginCapture(self.stream, cudaStreamCaptureModeGlobal));
        sum.all_reduce(mine);
        HCOMP_CUDA_TRY(cudaStreamEndCapture(self.stream, &graph));
        HCOMP_CUDA_TRY(cudaGraphInstantiateWithFlags(&made, graph, 0));
        for (int n = 0; n < 3; ++n) HCOMP_CUDA_TRY(cudaGraphLaunch(made, self.stream));
        other.all_reduce(mine, {.step = 7});
        other.check();
        HCOMP_CUDA_TRY(cudaGraphExecDestroy(made));
        HCOMP_CUDA_TRY(cudaGraphDestroy(graph));
      });
    }
    self.destroy();
    return replayed == enqueued ? 0 : 1;
  });
  CHECK(found == std::vector{0, 0});
}

TEST_CASE("nccl: every survivor of a killed rank gets an error, and ends") {
  auto const found = statuses_of(3, [&](nccl_rank& self, int rank) {
    std::vector<float> const x(5'000, 1.f);
    nccl::transport transport(self.communicator, self.stream, {.timeout = 60s});
    nccl::transport another(self.communicator, self.stream);
    int status = 1;
    self.on_device(x, [&](std::span<float> mine) {
      plan sum(mine.size(), fit(thc<float>{}, 3), transport, self.executor);
      sum.all_reduce(mine);
      sum.check();
      if (rank == 1) raise(SIGKILL);
      auto const begin = std::chrono::steady_clock::now();
      try {
        sum.all_reduce(mine);
        sum.check();
      } catch (transport_error const& error) {
        std::string const text = error.what();
        bool const is_named = text.find("rank 1") != std::string::npos;
        bool const is_early = std::chrono::steady_clock::now() - begin < 10s;
        status = is_named && is_early && transport.is_aborted() ? 0 : 2;
        if (status) std::cerr << text << '\n';
      }
      for (auto* const one : {&transport, &another}) {
        plan next(mine.size(), identity<float>(), *one, self.executor);
        try {
          next.all_reduce(mine);
          status = 3;
        } catch (transport_error const&) {
        }
      }
      if (!another.is_aborted()) status = 4;
    });
    return status;
  });
  CHECK(found == std::vector{0, -SIGKILL, 0});
}

TEST_CASE("nccl: a rank that is silent for the timeout is an error") {
  auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(3s);
      return 0;
    }
    int status = 1;
    nccl::transport transport(self.communicator, self.stream, {.timeout = 1s});
    self.on_device(std::vector<float>(5'000, 1.f), [&](std::span<float> mine) {
      plan sum(mine.size(), identity<float>(), transport, self.executor);
      try {
        sum.all_reduce(mine);
        sum.check();
      } catch (transport_error const& error) {
        std::string const text = error.what();
        bool const is_right = text ==
                              "nccl: rank 0: a hop is not done within 1000 ms, receiving from rank "
                              "1, sending to rank 1";
        status = is_right && error.peer() == 1 ? 0 : 2;
        if (status) std::cerr << text << '\n';
      }
    });
    return status;
  });
  CHECK(found == std::vector{0, 0});
}

TEST_CASE("nccl: what cannot work is said") {
  auto const found = statuses_of(2, [&](nccl_rank& self, int) {
    auto const says = [](std::string const& wanted, auto const& f) {
      try {
        f();
      } catch (std::exception const& error) {
        if (std::string(error.what()).find(wanted) != std::string::npos) return 0;
        std::cerr << error.what() << '\n';
      }
      return 1;
    };
    int wrong = says("the timeout is 0 ns",
                     [&] { nccl::transport(self.communicator, self.stream, {.timeout = 0s}); });
    wrong += says("invalid argument", [&] { nccl::transport(nullptr, self.stream); });
    wrong += says("the executor's is host memory", [&] {
      nccl::transport transport(self.communicator, self.stream);
      reference_executor executor;
      plan sum(10, identity<float>(), transport, executor);
    });
    self.destroy();
    return wrong;
  });
  CHECK(found == std::vector{0, 0});
}
