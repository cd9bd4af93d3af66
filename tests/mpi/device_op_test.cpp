// ranks: 1 3
#include <doctest/doctest.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/plan/encoded_vector.hpp>
#include <hcomp/mpi/op.hpp>
#include <hcomp/op/encode.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <support/data.hpp>
#include <support/guarded_executor.hpp>
#include <support/process.hpp>
#include <thread>
#include <vector>

/// Runs in a child process of a test: aborting is the only error path of an op.
extern "C" int MPI_Abort(MPI_Comm, int code) {
  std::fprintf(stderr, "aborted%s", code == MPI_ERR_TYPE ? " for its type" : "");
  std::fflush(stderr);
  _exit(1);
}

namespace {

using namespace hcomp;
using testing::device_vector;
using testing::guarded_executor;

using bytes = std::vector<std::byte>;
using some_codecs = codec_list<sign<>, sign_count<>>;

/// Encodes the vectors of two ranks alike.
template <class C> std::vector<bytes> two_encodings(C const& codec, std::size_t values) {
  auto const largest = data::uniform<float>(values, 8, 8, {.seed = 1});
  auto const statistics = measure(codec, std::span(largest));
  std::vector<bytes> encodings;
  for (int rank = 0; rank < 2; ++rank) {
    auto const x = data::whole_numbers(values, rank);
    encodings.push_back(
        encode(codec, std::span(x), {.rank = rank, .checksum = true, .statistics = statistics}));
  }
  return encodings;
}

/// An executor that counts the requests for its memory.
struct counting_executor : guarded_executor {
  static inline int buffers = 0;
  struct buffer : testing::guarded_buffer {
    explicit buffer(std::size_t size) : testing::guarded_buffer(size) { ++buffers; }
  };
};

/// An executor that detects a copy enqueued before the previous caller has its result.
struct jealous_executor : guarded_executor {
  static inline std::atomic<bool> is_used = false;
  static inline std::atomic<int> interruptions = 0;

  mark write(std::byte* to, void const* from, std::size_t size) {
    if (is_used.exchange(true)) ++interruptions;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return guarded_executor::write(to, from, size);
  }
  void wait(mark done) {
    guarded_executor::wait(done);
    is_used = false;
  }
};

/// A device that cannot start any work.
struct broken_executor : guarded_executor {
  template <class F> void for_each_block(std::size_t, F const&) {
    throw std::runtime_error("no kernel image is available");
  }
};

/// Runs `f` in a process of its own until it ends; returns its output to stderr.
std::string last_words(std::function<void()> const& f) {
  testing::child_process child(
      [&] {
        f();
        return 0;
      },
      STDERR_FILENO);
  auto const text = child.rest();
  return child.wait() == 1 ? text : "it went on";
}

}  // namespace

TEST_CASE("device op: operands on the device, the host, or one on each give the host op's bytes") {
  some_codecs::for_each([&]<class C>() {
    auto const codec = fit(C{}, 2);
    std::size_t const values = std::size_t{C::block_values} * 2 + 7;
    auto const encodings = two_encodings(codec, values);
    mpi::op const host{codec};
    bytes expected = encodings[1];
    MPI_Reduce_local(encodings[0].data(), expected.data(), host.count(values), host.type(),
                     host.handle());
    REQUIRE(expected != encodings[1]);
    guarded_executor executor;
    mpi::op const sum{codec, executor};
    for (bool const in_on_device : {false, true})
      for (bool const acc_on_device : {false, true}) {
        CAPTURE(std::string(C::name));
        CAPTURE(in_on_device);
        CAPTURE(acc_on_device);
        bytes in = encodings[0], acc = encodings[1];
        device_vector<std::byte> const device_in(in, executor), device_acc(acc, executor);
        MPI_Reduce_local(in_on_device ? device_in.span().data() : in.data(),
                         acc_on_device ? device_acc.span().data() : acc.data(), sum.count(values),
                         sum.type(), sum.handle());
        CHECK((acc_on_device ? device_acc.host() : acc) == expected);
        CHECK((acc_on_device ? acc : device_acc.host()) == encodings[1]);
        CHECK(in == encodings[0]);
        CHECK(device_in.host() == encodings[0]);
      }
  });
}

TEST_CASE("device op: memory for copies grows only when a call has more blocks") {
  sign<> const codec;
  std::size_t const values = std::size_t{sign<>::block_values} * 5;
  auto const encodings = two_encodings(codec, values);
  bytes acc = encodings[1];
  counting_executor executor;
  device_vector<std::byte> const on_device(encodings[0], executor);
  mpi::op const sum{codec, executor};
  counting_executor::buffers = 0;
  auto const merge = [&](int blocks) {
    MPI_Reduce_local(on_device.span().data(), acc.data(), blocks, sum.type(), sum.handle());
    return counting_executor::buffers;
  };
  CHECK(merge(0) == 0);
  CHECK(merge(2) == 1);
  CHECK(merge(1) == 1);
  CHECK(merge(2) == 1);
  CHECK(merge(5) == 2);
  CHECK(merge(4) == 2);
}

TEST_CASE("device op: concurrent threads and copies of the datatype share the executor in turn") {
  sign_count<> const codec{.magnitude = 1, .summands = 2};
  std::size_t const values = std::size_t{sign_count<>::block_values} * 2;
  auto const encodings = two_encodings(codec, values);
  jealous_executor executor;
  device_vector<std::byte> const on_device(encodings[0], executor);
  bytes expected = encodings[1];
  auto const merge = [&](bytes& acc, auto const& sum, MPI_Datatype type) {
    MPI_Reduce_local(on_device.span().data(), acc.data(), sum.count(values), type, sum.handle());
  };
  mpi::op const sum{codec, executor};
  merge(expected, sum, sum.type());
  MPI_Datatype copy, orphan;
  MPI_Type_dup(sum.type(), &copy);
  {
    mpi::op const short_lived{codec, executor};
    MPI_Type_dup(short_lived.type(), &orphan);
  }
  bytes found = encodings[1];
  merge(found, sum, orphan);
  CHECK(found == expected);

  jealous_executor::interruptions = 0;
  std::vector<bytes> results(3);
  std::vector<std::thread> crew;
  for (auto& mine : results)
    crew.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        mine = encodings[1];
        merge(mine, sum, round % 2 == 0 ? copy : sum.type());
      }
    });
  for (auto& thread : crew) thread.join();
  for (auto const& one : results) CHECK(one == expected);
  CHECK(jealous_executor::interruptions == 0);
  MPI_Type_free(&copy);
  MPI_Type_free(&orphan);
}

TEST_CASE("device op: an MPI that passes host copies reduces device vectors") {
  int const rank = mpi::rank_of(MPI_COMM_WORLD), ranks = mpi::size_of(MPI_COMM_WORLD);
  auto const codec = fit(thc<>{}, 4);
  std::size_t const values = std::size_t{thc<>::block_values} * 3 + 5;
  auto x = data::whole_numbers(values, rank);
  draw_key const key{.seed = 5, .step = 6};
  auto const add = [&](bytes& encoded, auto const& sum) {
    MPI_Allreduce(MPI_IN_PLACE, encoded.data(), sum.count(values), sum.type(), sum.handle(),
                  MPI_COMM_WORLD);
  };

  guarded_executor executor;
  device_vector<float> const on_device(x, executor);
  encoded_vector vector(values, codec, executor);
  auto const words = mpi::measure(vector, std::span<float const>(on_device.span()), MPI_COMM_WORLD);
  vector.encode(on_device.span(), {.key = key, .rank = rank, .statistics = words});
  bytes copy(vector.size());
  executor.wait(executor.read(copy.data(), vector.data(), copy.size()));
  add(copy, mpi::op{codec, executor});
  executor.wait(executor.write(vector.data(), copy.data(), copy.size()));
  CHECK(vector.decode(on_device.span(), {.key = key}) == static_cast<std::uint64_t>(ranks));

  auto const statistics = mpi::measure(codec, std::span<float const>(x), MPI_COMM_WORLD);
  CHECK(words == statistics);
  auto encoded = encode(codec, std::span<float const>(x),
                        {.key = key, .rank = rank, .statistics = statistics});
  add(encoded, mpi::op{codec});
  decode(codec, encoded, std::span(x), {.key = key});
  CHECK(on_device.host() == x);
}

TEST_CASE("device op: an internal error aborts the job with its reason") {
  if (mpi::size_of(MPI_COMM_WORLD) > 1) return;
  sign<> const codec;
  auto const encodings = two_encodings(codec, 1);
  guarded_executor executor;
  device_vector<std::byte> const on_device(encodings[0], executor);
  broken_executor broken;
  auto const ends = [&](auto const& sum, MPI_Datatype type, std::size_t shift) {
    return last_words([&] {
      bytes acc = encodings[1];
      MPI_Reduce_local(on_device.span().data() + shift, acc.data(), 1, type, sum.handle());
    });
  };
  mpi::op const on_broken{codec, broken};
  mpi::op const with_executor{codec, executor};
  mpi::op const on_host{codec};
  CHECK(ends(on_broken, on_broken.type(), 0) ==
        "hcomp: the op of codec 'sign' could not add up 1 blocks: no kernel image is available\n"
        "aborted");
  std::string const address =
      std::to_string(reinterpret_cast<std::uintptr_t>(on_device.span().data()) + 2);
  CHECK(ends(with_executor, with_executor.type(), 2) ==
        "hcomp: the op of codec 'sign' could not add up 1 blocks: they start at the device's "
        "address " +
            address + ", which is not a multiple of 4\naborted");
  CHECK(ends(with_executor, on_host.type(), 0) ==
        "hcomp: the op of codec 'sign' was called with a datatype that is not its own; use "
        "op.type() together with op.handle()\naborted for its type");
}
