/// @file
/// Behaviour without a GPU or a driver, and parts that can be tested without either.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/registry.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hcomp::testing {

bool runs_without_gpu() { return true; }

}  // namespace hcomp::testing

namespace {

using namespace hcomp;

/// CUDA's text for the missing GPU.
std::string cause() {
  int devices = 0;
  cudaError_t const code = cudaGetDeviceCount(&devices);
  return std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
}

/// Returns the text of the exception that `f` throws.
template <class F> std::string error_of(F const& f) {
  std::string text = "nothing";
  try {
    f();
  } catch (gpu::cuda_error const& error) {
    text = error.what();
  }
  return text;
}

/// A stream that makes no progress by itself: its work is complete up to `done`.
struct hand_stream {
  std::uint64_t given = 0, done = 0;
  std::vector<std::uint64_t> waited_for;
};

/// An event of that stream, with the interface of gpu::detail::event.
struct hand_event {
  void record(hand_stream* stream) {
    stream_ = stream;
    place_ = ++stream->given;
  }
  bool is_done() const { return place_ <= stream_->done; }
  void wait() const {
    stream_->waited_for.push_back(place_);
    if (stream_->done < place_) stream_->done = place_;
  }

 private:
  hand_stream* stream_ = nullptr;
  std::uint64_t place_ = 0;
};

}  // namespace

TEST_CASE("no gpu: the device count is 0, and asking for it is no error") {
  CHECK(gpu::device_count() == 0);
}

TEST_CASE("no gpu: every operation that needs one reports CUDA's text once, and an alternative") {
  std::string const why =
      ": no usable GPU (values in host memory need none, with hcomp::host_executor): " + cause();
  CHECK(error_of([] { gpu::stream_executor executor; }) == "stream_executor" + why);
  CHECK(error_of([] { gpu::device_buffer memory(1); }) == "device_buffer" + why);
  CHECK(error_of([] { gpu::pinned_buffer memory(1); }) == "pinned_buffer" + why);
}

TEST_CASE("no gpu: every pointer is the host's, and empty buffers cause no error") {
  int value = 0;
  CHECK(gpu::space_of(&value) == memory_space::host);
  CHECK(gpu::space_of(nullptr) == memory_space::host);
  gpu::device_buffer none, moved(std::move(none));
  gpu::pinned_buffer empty(0);
  CHECK(moved.data() == nullptr);
  CHECK(empty.size() == 0);
}

TEST_CASE("no gpu: the same program encodes, merges and decodes in host memory, with vectors") {
  constexpr std::size_t values = 10001;
  std::vector<float> x(values);
  for (std::size_t i = 0; i < values; ++i) x[i] = i % 3 == 0 ? 1.f : -1.f;
  codec_list<sign<>, float_cast<float16>, thc<>>::for_each([&]<class C>() {
    CAPTURE(C::name);
    auto const on = [&](auto executor) {
      auto const codec = fit(C{}, 2);
      auto const layout = layout_of(codec, values);
      std::vector<std::byte> code(2 * layout.bytes());
      std::vector<float> decoded(values);
      std::uint32_t rank = 0;
      for (std::byte* const to : {code.data(), code.data() + layout.bytes()})
        executor.for_each_block(
            layout.blocks(),
            encode_blocks<C, float const*>{codec, layout, x.data(), to, {.rank = rank++}});
      executor.for_each_block(layout.blocks() - 1,
                              merge_blocks<C>{codec, code.data(), code.data() + layout.bytes()});
      executor.for_each_block(layout.blocks(),
                              decode_blocks<C>{codec, layout, 0, code.data(), decoded.data()});
      std::vector<std::byte> narrow(layout.bytes()), wide(layout.bytes());
      if constexpr (Narrowable<C>) {
        std::vector<std::size_t> places;
        for (std::size_t b = 0; b < layout.blocks(); ++b) places.push_back(layout.offset(b));
        executor.for_each_block(
            layout.blocks(),
            narrow_blocks<C>{codec, code.data(), layout.block_bytes, narrow.data(), places.data()});
        executor.for_each_block(
            layout.blocks(),
            widen_blocks<C>{codec, narrow.data(), places.data(), wide.data(), layout.block_bytes});
      }
      return std::tuple(code, decoded, wide);
    };
    CHECK(on(host_executor{}) == on(reference_executor{}));
  });
}

TEST_CASE("marks: a wait ends with the mark's own work, however many marks are pending") {
  hand_stream stream;
  gpu::detail::mark_ring<hand_event> marks;
  marks.wait(0);  // nobody's
  for (std::uint64_t number = 1; number <= 100; ++number) CHECK(marks.record(&stream) == number);
  CHECK(marks.events() == 100);
  for (std::uint64_t const number : {40, 7, 40, 41, 100, 1}) marks.wait(number);
  // the other marks were complete
  CHECK(stream.waited_for == std::vector<std::uint64_t>{40, 41, 100});
  CHECK_THROWS_WITH_AS(marks.wait(101),
                       "stream_executor: wait for mark 101, but this executor has made 100",
                       std::invalid_argument);
}

TEST_CASE("marks: a query does not wait, and completes earlier marks") {
  hand_stream stream;
  gpu::detail::mark_ring<hand_event> marks;
  CHECK(marks.is_done(0));
  for (int i = 0; i < 5; ++i) marks.record(&stream);
  CHECK_FALSE(marks.is_done(1));
  stream.done = 3;
  CHECK(marks.is_done(3));
  CHECK(marks.is_done(1));
  CHECK_FALSE(marks.is_done(4));
  CHECK(stream.waited_for.empty());
  CHECK_THROWS_AS(marks.is_done(6), std::invalid_argument);
}

TEST_CASE("marks: events are reused as soon as their work is complete, and only then") {
  // from a fixed seed: up to 9 pending marks, waited for in any order or never
  for (bool const waits : {true, false}) {
    CAPTURE(waits);
    hand_stream stream;
    gpu::detail::mark_ring<hand_event> marks;
    std::size_t most = 0;
    for (std::uint64_t step = 0; step < 5000; ++step) {
      std::uint64_t const pending = mix(step) % 10;
      if (stream.given > pending + stream.done) {
        if (waits) {
          std::uint64_t const number = stream.given - pending;
          stream.waited_for.clear();
          marks.wait(number);
          CHECK(stream.waited_for == std::vector<std::uint64_t>{number});
        } else {
          stream.done = stream.given - pending;
        }
      }
      if (step % 1000 == 999) {
        stream.done = stream.given;
        marks.all_done();
        stream.waited_for.clear();
        marks.wait(stream.given);
        CHECK(stream.waited_for.empty());
      }
      CHECK(marks.record(&stream) == stream.given);
      most = std::max<std::size_t>(most, stream.given - stream.done);
    }
    CHECK(most > 5);
    CHECK(marks.events() <= most);
  }
}
