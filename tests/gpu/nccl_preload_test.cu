/// @file
/// A program that calls NCCL, with libhcomp_nccl.so preloaded. Ranks are processes, which read
/// HCOMP_CONFIG in their first call; tests/ptx runs them over a stand-in for libnccl.so.2.

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <hcomp/core/half.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/error.hpp>
#include <iostream>
#include <iterator>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <support/all_or_few.hpp>
#include <support/nccl_ranks.hpp>
#include <support/process.hpp>
#include <support/scratch_directory.hpp>
#include <thread>
#include <type_traits>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;
using namespace std::chrono_literals;

namespace {

enum type_number : int { of_int32 = 2, of_half = 6, of_float = 7, of_double = 8, of_bfloat = 9 };
enum op_number : int { op_sum = 0, op_max = 2, op_avg = 4 };

using reduce_call = int(void const*, void*, std::size_t, int, int, nccl::communicator,
                        cudaStream_t);

int all_reduce(void const* send, void* receive, std::size_t count, int type, int op,
               nccl::communicator comm, cudaStream_t stream) {
  return of_nccl<reduce_call>("ncclAllReduce")(send, receive, count, type, op, comm, stream);
}
int reduce_scatter(void const* send, void* receive, std::size_t count, int type, int op,
                   nccl::communicator comm, cudaStream_t stream) {
  return of_nccl<reduce_call>("ncclReduceScatter")(send, receive, count, type, op, comm, stream);
}
int group_start() { return of_nccl<int()>("ncclGroupStart")(); }
int group_end() { return of_nccl<int()>("ncclGroupEnd")(); }

template <class T> constexpr int number_of() {
  if constexpr (std::is_same_v<T, float>) return of_float;
  if constexpr (std::is_same_v<T, double>) return of_double;
  if constexpr (std::is_same_v<T, float16>) return of_half;
  if constexpr (std::is_same_v<T, bfloat16>) return of_bfloat;
  return of_int32;
}

/// A vector in device memory, `offset` values behind an aligned address.
template <class T> struct device_vector {
  gpu::device_buffer memory;
  std::size_t size, offset;

  explicit device_vector(std::vector<T> const& values, std::size_t offset = 0)
      : memory((values.size() + offset + 1) * sizeof(T)), size(values.size()), offset(offset) {
    HCOMP_CUDA_TRY(cudaMemcpy(data(), values.data(), size * sizeof(T), cudaMemcpyDefault));
  }
  T* data() const { return reinterpret_cast<T*>(memory.data()) + offset; }
  std::vector<T> get(cudaStream_t stream) const {
    HCOMP_CUDA_TRY(cudaStreamSynchronize(stream));
    std::vector<T> values(size);
    HCOMP_CUDA_TRY(cudaMemcpy(values.data(), data(), size * sizeof(T), cudaMemcpyDefault));
    return values;
  }
};

/// Values that every rank can compute for every rank.
template <class T> std::vector<T> values_of(int rank, std::size_t n, std::uint32_t seed = 1) {
  std::mt19937 draw(seed * 1000 + static_cast<std::uint32_t>(rank));
  std::vector<T> values(n);
  for (auto& one : values)
    if constexpr (std::is_integral_v<T>)
      one = static_cast<T>(draw() % 1000);
    else
      one = static_cast<T>(static_cast<float>(draw()) / 4294967296.f - 0.5f);
  return values;
}
template <class T>
std::vector<double> exact_sum(int ranks, std::size_t n, int op, std::uint32_t seed = 1) {
  std::vector<double> sum(n);
  for (int rank = 0; rank < ranks; ++rank) {
    auto const x = values_of<T>(rank, n, seed);
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(x[i]);
  }
  if (op == op_avg)
    for (auto& one : sum) one /= ranks;
  return sum;
}
template <class T> double distance(std::vector<T> const& got, std::span<double const> exact) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

/// A hash per rank, in memory that processes share.
class shared_hashes {
 public:
  explicit shared_hashes(std::size_t size)
      : all_(static_cast<std::uint64_t*>(mmap(nullptr, size * sizeof(std::uint64_t),
                                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                              -1, 0)),
             size) {}
  ~shared_hashes() { munmap(all_.data(), all_.size_bytes()); }
  shared_hashes(shared_hashes const&) = delete;
  shared_hashes& operator=(shared_hashes const&) = delete;

  template <class T> void add(int rank, std::vector<T> const& values) {
    auto& hash = all_[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < values.size() * sizeof(T); ++i)
      hash = (hash ^ reinterpret_cast<unsigned char const*>(values.data())[i]) * 0x100000001b3;
  }
  bool are_equal() const {
    return all_[0] != 0 && std::ranges::all_of(all_, [&](auto one) { return one == all_[0]; });
  }

 private:
  std::span<std::uint64_t> all_;
};

/// Checks of a rank: prints what differs, and counts it.
struct checker {
  int rank, wrong = 0;

  void operator()(bool is_right, std::string const& what) {
    if (is_right) return;
    ++wrong;
    std::cerr << "rank " << rank << ": " << what << '\n';
  }
};

/// All-reduces and reduce-scatters of values of type T, in place or not.
/// @param least, most  of the error relative to the norm; least > 0: hcomp must have encoded
template <class T>
void reduce_and_check(nccl_rank& self, int rank, int ranks, std::size_t n, double least,
                      double most, shared_hashes& hashes, checker& check) {
  for (int const op : {op_sum, op_avg})
    for (bool const in_place : {false, true}) {
      auto const name = std::string(in_place ? "in place" : "") + " op " + std::to_string(op) +
                        ", type " + std::to_string(number_of<T>());
      auto const within = [&](double error) { return error >= least && error <= most; };
      auto const mine = values_of<T>(rank, n);
      auto const exact = exact_sum<T>(ranks, n, op);
      {
        device_vector<T> const x(mine), y(std::vector<T>(n, T(3.f)));
        auto const& to = in_place ? x : y;
        check(all_reduce(x.data(), to.data(), n, number_of<T>(), op, self.communicator,
                         self.stream) == 0,
              "all-reduce fails");
        auto const got = to.get(self.stream);
        auto const error = distance(got, exact);
        check(within(error), "all-reduce " + name + " has an error of " + std::to_string(error));
        hashes.add(rank, got);
        if (!in_place)
          check(std::ranges::equal(x.get(self.stream), mine,
                                   [](T a, T b) { return double(a) == double(b); }),
                "the input has changed");
      }
      std::size_t const part = n / static_cast<std::size_t>(ranks);
      auto const first = part * static_cast<std::size_t>(rank);
      device_vector<T> const x(mine), y(std::vector<T>(part, T(3.f)));
      auto* const to = in_place ? x.data() + first : y.data();
      check(reduce_scatter(x.data(), to, part, number_of<T>(), op, self.communicator,
                           self.stream) == 0,
            "reduce-scatter fails");
      auto const all = (in_place ? x : y).get(self.stream);
      std::vector<T> const got(all.begin() + (in_place ? std::ptrdiff_t(first) : 0),
                               all.begin() + std::ptrdiff_t(in_place ? first + part : part));
      auto const error = distance(got, std::span(exact).subspan(first, part));
      check(within(error), "reduce-scatter " + name + " has an error of " + std::to_string(error));
    }
}

struct config {
  explicit config(std::string const& text) { setenv("HCOMP_CONFIG", text.c_str(), 1); }
};

}  // namespace

TEST_CASE("preloaded for NCCL: rules choose the codec of every type") {
  for (int const ranks : all_or_few<std::vector<int>>({2, 3, 4}, {3})) {
    shared_hashes hashes(static_cast<std::size_t>(ranks));
    std::size_t const n = 12'000;  // a multiple of 2, 3 and 4
    auto const found = statuses_of(ranks, [&](nccl_rank& self, int rank) {
      config const rules("float: thc:bits=4 min=1KiB; float16: fp16 min=0; bfloat16: sign min=0");
      checker check{rank};
      reduce_and_check<float>(self, rank, ranks, n, 1e-3, 0.2, hashes, check);
      reduce_and_check<float16>(self, rank, ranks, n, 1e-5, 2e-3, hashes, check);
      reduce_and_check<bfloat16>(self, rank, ranks, n, 0.1, 3, hashes, check);
      reduce_and_check<double>(self, rank, ranks, n, 0, 1e-15, hashes, check);  // no rule
      reduce_and_check<float>(self, rank, ranks, 240, 0, 1e-6, hashes, check);  // below min
      self.destroy();
      return check.wrong;
    });
    CHECK(found == std::vector(static_cast<std::size_t>(ranks), 0));
    CHECK(hashes.are_equal());
  }
}

TEST_CASE("preloaded for NCCL: without a rule, and on one node, results are NCCL's") {
  for (bool const has_rule : {false, true}) {
    shared_hashes hashes(2);
    auto const found = statuses_of(
        2,
        [&](nccl_rank& self, int rank) {
          config const rules(has_rule ? "all: sign min=0" : "");
          checker check{rank};
          reduce_and_check<float>(self, rank, 2, 6'000, 0, 1e-6, hashes, check);
          reduce_and_check<bfloat16>(self, rank, 2, 6'000, 0, 1e-2, hashes, check);
          self.destroy();
          return check.wrong;
        },
        has_rule ? 1 : 2);
    CHECK(found == std::vector{0, 0});
    CHECK(hashes.are_equal());
  }
}

TEST_CASE("preloaded for NCCL: hierarchical calls encode between nodes only") {
  scratch_directory const folder;
  auto const file = (folder.path() / "report.json").string();
  shared_hashes hashes(4);
  auto const found = statuses_of(
      4,
      [&](nccl_rank& self, int rank) -> int {
        config const rules(
            "float: fp16 min=1KiB algorithm=hierarchical; float16: fp16 min=0 "
            "algorithm=hierarchical; bfloat16: sign min=0 algorithm=hierarchical feedback=yes");
        setenv("HCOMP_REPORT", ("json:" + file).c_str(), 1);
        checker check{rank};
        reduce_and_check<float>(self, rank, 4, 12'000, 1e-5, 1e-3, hashes, check);
        reduce_and_check<float16>(self, rank, 4, 12'000, 1e-5, 2e-3, hashes, check);
        reduce_and_check<bfloat16>(self, rank, 4, 12'000, 0.1, 3, hashes, check);
        // Sizes that nodes do not share evenly, in a group.
        device_vector<float> const x(values_of<float>(rank, 1'001)), y(values_of<float>(rank, 777));
        group_start();
        for (auto const* one : {&x, &y})
          check(all_reduce(one->data(), one->data(), one->size, of_float, op_avg, self.communicator,
                           self.stream) == 0,
                "all-reduce of a group");
        check(group_end() == 0, "ncclGroupEnd");
        for (auto const* one : {&x, &y})
          check(distance(one->get(self.stream), exact_sum<float>(4, one->size, op_avg)) < 1e-3,
                "mean of a group");
        self.destroy();
        std::exit(check.wrong);
      },
      2);
  CHECK(found == std::vector(4, 0));
  CHECK(hashes.are_equal());
  // A rank sends half of its share to the other node, and gets half of the result: for four
  // all-reduces of 12,000 values in 2 bytes 48 kB, where four ranks without nodes send 144 kB.
  std::ifstream in(file);
  std::string const text((std::istreambuf_iterator<char>(in)), {});
  auto const row = text.find("\"type\": \"float\"");
  REQUIRE(row != std::string::npos);
  auto const sent = text.find("\"bytes_sent\": ", row);
  REQUIRE(sent != std::string::npos);
  auto const bytes = std::stoul(text.substr(sent + 14));
  CHECK(bytes > 48'000);
  CHECK(bytes < 58'000);
}

TEST_CASE("preloaded for NCCL: groups of calls, also of two communicators") {
  auto const other_id = new_nccl_id();
  auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
    config const rules("float: fp16 min=4KiB");
    checker check{rank};
    auto const other = nccl_rank::new_communicator(other_id, rank, 2);
    auto const stream = new_stream(), beside = new_stream();
    std::size_t const sizes[] = {5'000, 100, 3'001, 2'048};
    for (int round = 0; round < 3; ++round) {
      std::vector<device_vector<float>> x, y;
      for (std::size_t const n : sizes) {
        x.emplace_back(values_of<float>(rank, n));
        y.emplace_back(values_of<float>(rank, n));
      }
      device_vector<std::int32_t> const whole(values_of<std::int32_t>(rank, 50));
      check(group_start() == 0 && group_start() == 0, "ncclGroupStart");
      for (std::size_t i = 0; i < x.size(); ++i)  // streams need not be alike on all ranks
        check(all_reduce(x[i].data(), x[i].data(), x[i].size, of_float, op_sum, self.communicator,
                         rank == 0 && i % 2 == 0 ? beside : self.stream) == 0,
              "all-reduce");
      check(group_end() == 0, "the inner ncclGroupEnd");
      check(all_reduce(whole.data(), whole.data(), 50, of_int32, op_max, self.communicator,
                       self.stream) == 0,
            "all-reduce of integers");
      for (auto const& one : y)
        check(all_reduce(one.data(), one.data(), one.size, of_float, op_avg, other, stream) == 0,
              "all-reduce of the other communicator");
      check(group_end() == 0, "ncclGroupEnd");
      HCOMP_CUDA_TRY(cudaStreamSynchronize(beside));
      for (std::size_t i = 0; i < x.size(); ++i) {
        bool const is_small = sizes[i] * sizeof(float) < 4096;
        auto const within = [&](double error) {
          return is_small ? error < 1e-6 : error > 1e-6 && error < 1e-3;
        };
        check(within(distance(x[i].get(self.stream), exact_sum<float>(2, sizes[i], op_sum))),
              "sum " + std::to_string(i));
        check(within(distance(y[i].get(stream), exact_sum<float>(2, sizes[i], op_avg))),
              "mean " + std::to_string(i));
      }
      auto const a = values_of<std::int32_t>(0, 50), b = values_of<std::int32_t>(1, 50);
      auto const got = whole.get(self.stream);
      for (std::size_t i = 0; i < 50; ++i) check(got[i] == std::max(a[i], b[i]), "maximum");
    }
    of_nccl<int(nccl::communicator)>("ncclCommDestroy")(other);
    self.destroy();
    return check.wrong;
  });
  CHECK(found == std::vector{0, 0});
}

TEST_CASE("preloaded for NCCL: a graph replays a call, also one whose size is new") {
  auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
    config const rules("float: fp16 min=0; bfloat16: fp16 min=0");
    checker check{rank};
    std::size_t const n = 3'000;
    device_vector<float> const first(values_of<float>(rank, 10));
    all_reduce(first.data(), first.data(), 10, of_float, op_sum, self.communicator, self.stream);
    auto const mine = values_of<float>(rank, n);
    auto const halves = values_of<bfloat16>(rank, n);
    device_vector<float> const x(std::vector<float>(n, 0.f)), sum(x.get(self.stream));
    device_vector<bfloat16> const half(halves), half_sum(halves);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    HCOMP_CUDA_TRY(cudaStreamBeginCapture(self.stream, cudaStreamCaptureModeGlobal));
    check(
        all_reduce(x.data(), sum.data(), n, of_float, op_sum, self.communicator, self.stream) == 0,
        "captured all-reduce");
    check(all_reduce(half.data(), half_sum.data(), n, of_bfloat, op_avg, self.communicator,
                     self.stream) == 0,
          "captured all-reduce of bfloat16");
    HCOMP_CUDA_TRY(cudaStreamEndCapture(self.stream, &graph));
    HCOMP_CUDA_TRY(cudaGraphInstantiateWithFlags(&made, graph, 0));
    HCOMP_CUDA_TRY(cudaMemcpy(x.data(), mine.data(), n * sizeof(float), cudaMemcpyDefault));
    for (int n_launches = 0; n_launches < 2; ++n_launches)
      HCOMP_CUDA_TRY(cudaGraphLaunch(made, self.stream));
    auto const error = distance(sum.get(self.stream), exact_sum<float>(2, n, op_sum));
    check(error > 1e-6 && error < 1e-3, "the replayed sum");
    check(distance(half_sum.get(self.stream), exact_sum<bfloat16>(2, n, op_avg)) < 1e-2,
          "the replayed mean");
    // The same call beside the graph.
    device_vector<float> const again(std::vector<float>(n, 0.f));
    all_reduce(x.data(), again.data(), n, of_float, op_sum, self.communicator, self.stream);
    check(again.get(self.stream) == sum.get(self.stream), "the call beside the graph");
    HCOMP_CUDA_TRY(cudaGraphExecDestroy(made));
    HCOMP_CUDA_TRY(cudaGraphDestroy(graph));
    self.destroy();
    return check.wrong;
  });
  CHECK(found == std::vector{0, 0});
}

TEST_CASE("preloaded for NCCL: a residual belongs to a buffer and its size") {
  // Over K steps the error of the mean falls as 1/sqrt(K), with feedback as 1/K: here 6 times less.
  auto const error_with = [](std::string const& text) {
    shared_hashes errors(2);
    auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
      config const rules(text);
      std::size_t const n = 4'096;
      int const steps = 40;
      std::vector<double> mean(n);
      auto const mine = values_of<float>(rank, n);
      device_vector<float> const x(mine), sum(mine);
      for (int step = 0; step < steps; ++step) {
        all_reduce(x.data(), sum.data(), n, of_float, op_sum, self.communicator, self.stream);
        auto const got = sum.get(self.stream);
        for (std::size_t i = 0; i < n; ++i) mean[i] += got[i] / steps;
      }
      self.destroy();
      // 1000 times the relative error, as the exit status
      return std::min(255, int(1000 * distance(mean, exact_sum<float>(2, n, op_sum))));
    });
    CHECK(found[0] == found[1]);
    return found[0];
  };
  int const without = error_with("float: thc:bits=2 min=0");
  int const with = error_with("float: thc:bits=2 min=0 feedback=yes");
  MESSAGE("errors of ", without, " and ", with, " in 1000");
  CHECK(without > 20);
  CHECK(with < without / 2);
}

TEST_CASE("preloaded for NCCL: ranks with different or invalid rules all get an error") {
  struct {
    std::string first, second;
  } const cases[] = {
      {"float: fp16", "float: bf16"},        {"float: fp16", ""},
      {"float: gzip", "float: fp16"},        {"float: lossless", "float: lossless"},
      {"double: fp16", "double: fp16"},      {"float: fp16 when=faster", "float: fp16 when=faster"},
      {"nonblocking=yes", "nonblocking=yes"}};
  for (auto const& one : cases) {
    auto const found = statuses_of(2, [&](nccl_rank& self, int rank) {
      config const rules(rank == 0 ? one.first : one.second);
      device_vector<float> const x(values_of<float>(rank, 1'000));
      int const in_first =
          all_reduce(x.data(), x.data(), 1'000, of_float, op_sum, self.communicator, self.stream);
      int const later =
          all_reduce(x.data(), x.data(), 1'000, of_float, op_sum, self.communicator, self.stream);
      self.destroy();
      return in_first == 5 && later == 5 ? 0 : 1;  // ncclInvalidUsage
    });
    CHECK_MESSAGE((found == std::vector{0, 0}), one.first, " and ", one.second);
  }
}

TEST_CASE("preloaded for NCCL: a killed rank is NCCL's error, and the others end") {
  auto const survive = [](nccl_rank& self, int rank, char const* text) {
    config const rules(text);
    std::size_t const n = 5'000;
    device_vector<float> const x(values_of<float>(rank, n));
    all_reduce(x.data(), x.data(), n, of_float, op_sum, self.communicator, self.stream);
    x.get(self.stream);
    if (rank == 1) raise(SIGKILL);
    // What programs do: a thread finds the error and aborts, which ends the work of the stream.
    int error = 0;
    std::thread watchdog([&] {
      auto const end = std::chrono::steady_clock::now() + 20s;
      while (error == 0 && std::chrono::steady_clock::now() < end) {
        of_nccl<int(nccl::communicator, int*)>("ncclCommGetAsyncError")(self.communicator, &error);
        std::this_thread::sleep_for(1ms);
      }
      of_nccl<int(nccl::communicator)>("ncclCommAbort")(self.communicator);
    });
    all_reduce(x.data(), x.data(), n, of_float, op_sum, self.communicator, self.stream);
    HCOMP_CUDA_TRY(cudaStreamSynchronize(self.stream));
    watchdog.join();
    return error == 6 ? 0 : 1;  // ncclRemoteError
  };
  CHECK(statuses_of(3, [&](nccl_rank& self, int rank) {
          return survive(self, rank, "float: fp16 min=0");
        }) == std::vector{0, -SIGKILL, 0});
  // Messages are those of other communicators, whose errors are the program's.
  CHECK(statuses_of(
            4,
            [&](nccl_rank& self, int rank) {
              return survive(self, rank, "float: fp16 min=0 algorithm=hierarchical");
            },
            2) == std::vector{0, -SIGKILL, 0, 0});
}

TEST_CASE("preloaded for NCCL: the report counts calls, bytes, and why calls stay NCCL's") {
  scratch_directory const folder;
  auto const file = (folder.path() / "report.json").string();
  auto const found = statuses_of(2, [&](nccl_rank& self, int rank) -> int {
    config const rules("float: fp16 min=1KiB");
    setenv("HCOMP_REPORT", ("json:" + file).c_str(), 1);
    device_vector<float> const x(values_of<float>(rank, 10'000));
    for (int call = 0; call < 3; ++call)
      all_reduce(x.data(), x.data(), 10'000, of_float, op_sum, self.communicator, self.stream);
    reduce_scatter(x.data(), x.data(), 5'000, of_float, op_sum, self.communicator, self.stream);
    all_reduce(x.data(), x.data(), 10, of_float, op_sum, self.communicator, self.stream);
    all_reduce(x.data(), x.data(), 10, of_float, op_max, self.communicator, self.stream);
    x.get(self.stream);
    self.destroy();
    std::exit(0);
  });
  CHECK(found == std::vector{0, 0});
  std::ifstream in(file);
  std::string const text((std::istreambuf_iterator<char>(in)), {});
  auto const contains = [&](std::string const& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " is not in ", text);
  };
  contains(
      "\"strategy\": \"fp16\",\n      \"why\": \"rule 'float: fp16 min=1KiB'\",\n      \"calls\": "
      "3");
  contains("\"function\": \"ncclReduceScatter\"");
  contains("\"bytes_plain\": 120000");  // three all-reduces of 40 kB between two ranks
  contains("smaller than min of its rules");
  contains("its operation is neither sum nor average");
}

TEST_CASE("preloaded for NCCL: random calls have the sums of NCCL, within the error of fp16") {
  int const calls = all_or_few(1'000, 60);
  auto const other_id = new_nccl_id();
  auto const found = statuses_of(3, [&](nccl_rank& self, int rank) {
    config const rules("all: fp16 min=400");
    checker check{rank};
    std::mt19937 draw(7);  // equal on all ranks
    nccl::communicator const comms[] = {self.communicator,
                                        nccl_rank::new_communicator(other_id, rank, 3)};
    cudaStream_t const streams[] = {self.stream, new_stream()};
    for (int call = 0; call < calls;) {
      struct one_call {
        device_vector<float> x, y;
        int op;
        bool is_scattered, in_place;
        std::uint32_t seed;
      };
      std::vector<one_call> all;
      auto const together = 1 + draw() % 4;
      bool const is_group = together > 1 || draw() % 2 == 0;
      auto const which = draw() % 2;
      auto const comm = comms[which];
      auto const stream = streams[draw() % 2];
      if (is_group) group_start();
      for (unsigned i = 0; i < together; ++i, ++call) {
        std::size_t const n = draw() % 8 == 0 ? 0 : 3 * (draw() % 700);
        auto const seed = static_cast<std::uint32_t>(call + 2);
        auto const mine = values_of<float>(rank, n, seed);
        all.push_back({device_vector(mine, draw() % 4), device_vector(mine, draw() % 4),
                       draw() % 2 ? op_sum : op_avg, draw() % 3 == 0, draw() % 2 == 0, seed});
        auto const& c = all.back();
        std::size_t const part = n / 3;
        int const result =
            c.is_scattered
                ? reduce_scatter(c.x.data(),
                                 c.in_place ? c.x.data() + part * unsigned(rank) : c.y.data(), part,
                                 of_float, c.op, comm, stream)
                : all_reduce(c.x.data(), c.in_place ? c.x.data() : c.y.data(), n, of_float, c.op,
                             comm, stream);
        check(result == 0, "call " + std::to_string(call));
      }
      if (is_group) check(group_end() == 0, "ncclGroupEnd");
      for (auto const& c : all) {
        std::size_t const n = c.x.size, part = n / 3, first = part * unsigned(rank);
        if (n == 0) continue;
        auto const exact = exact_sum<float>(3, n, c.op, c.seed);
        auto const got = (c.in_place ? c.x : c.y).get(stream);
        auto const from = c.is_scattered && c.in_place ? first : 0;
        std::size_t const count = c.is_scattered ? part : n;
        std::vector<float> const result(got.begin() + std::ptrdiff_t(from),
                                        got.begin() + std::ptrdiff_t(from + count));
        check(distance(result, std::span(exact).subspan(c.is_scattered ? first : 0, count)) < 2e-3,
              "sum before call " + std::to_string(call));
      }
      // Streams of a communicator take turns in the program's order.
      for (auto const one : streams) HCOMP_CUDA_TRY(cudaStreamSynchronize(one));
    }
    of_nccl<int(nccl::communicator)>("ncclCommDestroy")(comms[1]);
    self.destroy();
    return check.wrong;
  });
  CHECK(found == std::vector{0, 0, 0});
}
