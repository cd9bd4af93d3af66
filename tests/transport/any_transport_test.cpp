
#include <doctest/doctest.h>

#include <array>
#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <hcomp/transport/in_process.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// A transport whose every property differs from those of other transports. It counts its live
/// objects.
class lone_rank {
 public:
  struct request {
    std::array<std::uint64_t, 6> numbers{};  // the largest size allowed
  };

  explicit lone_rank(int& alive) : alive_(&alive) { ++*alive_; }
  lone_rank(lone_rank const&) = delete;
  lone_rank& operator=(lone_rank const&) = delete;
  ~lone_rank() { --*alive_; }

  int rank() const { return 3; }
  int size() const { return 7; }
  bool reaches(memory_space space) const { return space == memory_space::device; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  request isend(int peer, tag_t tag, std::span<std::byte const> bytes) {
    bytes_sent_ += bytes.size();
    return {{1, static_cast<std::uint64_t>(peer), tag, bytes.size(), 0, 10}};
  }
  request irecv(int peer, tag_t tag, std::span<std::byte> bytes) {
    return {{2, static_cast<std::uint64_t>(peer), tag, bytes.size(), 0, 20}};
  }
  /// The arguments of a call as one number. The request counts its waits.
  std::size_t wait(request& r) {
    ++r.numbers[4];
    std::size_t all = 0;
    for (auto const number : r.numbers) all = all * 100 + number;
    return all;
  }

 private:
  int* alive_;
  std::uint64_t bytes_sent_ = 0;
};

/// Also copies messages from a device, like `host_staged`.
class staging_rank : public lone_rank {
 public:
  staging_rank(int& alive, bool copies) : lone_rank(alive), copies_(copies) {}
  static constexpr bool waits_for_work() { return true; }
  bool copies_messages() const { return copies_; }

 private:
  bool copies_;
};

}  // namespace

TEST_CASE("any_transport: forwards whether it waits for work and copies messages") {
  int alive = 0;
  lone_rank plain(alive);
  CHECK_FALSE(any_transport(plain).waits_for_work());
  CHECK_FALSE(any_transport(plain).copies_messages());
  for (bool const copies : {false, true}) {
    staging_rank inner(alive, copies);
    any_transport transport(inner);
    CHECK(transport.waits_for_work());
    CHECK(transport.copies_messages() == copies);
  }
}

TEST_CASE("any_transport: arguments and results come through unchanged") {
  int alive = 0;
  lone_rank inner(alive);
  any_transport transport(inner);
  CHECK(transport.rank() == 3);
  CHECK(transport.size() == 7);
  CHECK(transport.reaches(memory_space::device));
  CHECK_FALSE(transport.reaches(memory_space::host));
  std::array<std::byte, 5> bytes{};
  auto send = transport.isend(2, 9, bytes);
  auto receive = transport.irecv(6, 8, std::span(bytes).first(4));
  CHECK(transport.bytes_sent() == 5);
  CHECK(transport.wait(receive) == 20608040120u);
  CHECK(transport.wait(send) == 10209050110u);
  auto copy = send;  // lists of requests grow and copy them
  CHECK(transport.wait(copy) == 10209050210u);
}

TEST_CASE("any_transport: owns a transport passed by unique_ptr, and only that") {
  int alive = 0;
  {
    any_transport first(std::make_unique<lone_rank>(alive));
    CHECK(alive == 1);
    any_transport second(std::move(first));
    CHECK(alive == 1);
    CHECK(second.rank() == 3);
  }
  CHECK(alive == 0);
  lone_rank inner(alive);
  { any_transport transport(inner); }
  CHECK(alive == 1);
  CHECK_THROWS_WITH_AS(any_transport(std::unique_ptr<lone_rank>()),
                       "any_transport: the pointer to the transport is null",
                       std::invalid_argument);
}

TEST_CASE("any_transport: a request is plain bytes, so that lists of them allocate only to grow") {
  CHECK(std::is_trivially_copyable_v<any_transport::request>);
  CHECK(std::is_trivially_destructible_v<any_transport::request>);
  CHECK(sizeof(any_transport::request) == any_transport::request::capacity);
}

TEST_CASE("any_transport: an all-reduce has the result and the bytes of the transport itself") {
  for (char const* how : {"ring", "direct"}) {
    CAPTURE(how);
    run_ranks(4, [&](in_process& inner) {
      std::vector<float> x(100'001, inner.rank() % 2 == 0 ? 1.0f : -2.0f), y = x;
      host_executor executor;
      plan_options const options{.algorithm = algorithm::from(how), .segment_bytes = 1000};
      auto const direct = all_reduce(std::span(x), sign<float>{}, inner, executor, {}, options);
      any_transport transport(inner);
      auto const indirect =
          all_reduce(std::span(y), sign<float>{}, transport, executor, {}, options);
      // doctest's checks work in one thread only
      if (x != y) throw std::runtime_error("another sum");
      if (direct.bytes_sent != indirect.bytes_sent) throw std::runtime_error("more or fewer bytes");
    });
  }
}

TEST_CASE("any_transport: errors are those of the transport behind it") {
  in_process_world world(2);
  in_process inner(world, 0);
  any_transport transport(inner);
  std::array<std::byte, 1> byte{};
  CHECK_THROWS_WITH_AS(transport.isend(2, 0, byte),
                       "isend: peer 2, but the transport has 2 ranks (0 to 1)",
                       std::invalid_argument);
  auto receive = transport.irecv(1, 0, byte);
  world.fail(1, "unplugged");
  auto const end = outcome_of([&] { transport.wait(receive); });
  CHECK(end.what == "transport_error");
  CHECK(end.peer == 1);
}
