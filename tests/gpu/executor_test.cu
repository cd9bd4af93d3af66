/// @file
/// Copies, marks and memory of a CUDA stream, and collectives on it: several ranks share the GPU,
/// each with a stream of its own.

#include <doctest/doctest.h>

#include <collective/on_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/host_staged.hpp>
#include <hcomp/collective/engine/sampled.hpp>
#include <hcomp/collective/plan/plan.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/error_feedback.hpp>
#include <hcomp/gpu/buffer.hpp>
#include <hcomp/gpu/detail/device_array.hpp>
#include <hcomp/gpu/error_feedback.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/op/detail/block_order.hpp>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <support/all_or_few.hpp>
#include <support/data.hpp>
#include <utility>
#include <vector>

using namespace hcomp;
using namespace hcomp::testing;

namespace {

/// Cases that check which work is still running: not for tools that wait after every call.
doctest::test_suite const at_once("at once");

/// A stream that does not synchronize with other streams.
class own_stream {
 public:
  own_stream() { HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  own_stream(own_stream const&) = delete;
  own_stream& operator=(own_stream const&) = delete;
  ~own_stream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }
  bool is_idle() const {
    cudaError_t const code = cudaStreamQuery(stream_);
    static_cast<void>(cudaGetLastError());
    return code == cudaSuccess;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Adds 1 to number i.
struct count_up {
  std::uint32_t* numbers;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (group.worker() == 0) ++numbers[i];
  }
};

/// Results of the functions of core/bits.hpp for word i, as one number.
struct look_at_bits {
  std::uint64_t const* words;
  std::uint64_t* found;

  HCOMP_HD static std::uint64_t of(std::uint64_t word) {
    auto const half = static_cast<std::uint32_t>(word);
    int const all[] = {detail::ones(word),           detail::ones(half),
                       detail::lowest_one(word),     half != 0 ? detail::lowest_one(half) : 0,
                       detail::bit_length(word),     detail::bit_length(half),
                       detail::is_power_of_two(word)};
    std::uint64_t one = 0;
    for (int const x : all) one = 100 * one + static_cast<std::uint64_t>(x);
    return one;
  }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (group.worker() == 0) found[i] = of(words[i]);
  }
};

/// Block i stores the exclusive prefix sum of the blocks before it.
struct add_up {
  detail::block_order order;
  std::size_t i;
  std::uint64_t value;
  std::uint64_t* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t) const {
    std::uint64_t const before = order.sum_before(group, i, value);
    if (group.worker() == 0) *found = before;
  }
};
/// Every block adds the numbers of the blocks before it.
struct add_up_all {
  detail::block_order order;
  std::uint64_t* found;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t place) const {
    std::size_t const i = order.number(group, place);
    std::uint64_t const before = order.sum_before(group, i, i);
    if (group.worker() == 0) found[i] = before;
  }
};

/// Adds 1 to the number of every piece. Adds 1 to the number of every block, or 11 if one of its
/// pieces reported a hit: one piece of every third block.
struct count_pieces {
  static constexpr int piece_workers = 96, of_each = 7;

  std::uint32_t *of_pieces, *of_blocks;

  static constexpr int pieces() { return of_each; }
  static constexpr std::size_t piece_scratch_bytes() { return 0; }
  template <class Group> HCOMP_HD bool piece(Group group, std::size_t i, int k) const {
    if (group.worker() == 0) ++of_pieces[i * of_each + static_cast<std::size_t>(k)];
    return i % 3 == 0 && k == static_cast<int>(i) % of_each;
  }
  template <class Group> HCOMP_HD void close(Group group, std::size_t i, bool any) const {
    if (group.worker() == 0) of_blocks[i] += any ? 11 : 1;
  }
  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    bool any = false;
    for (int k = 0; k < of_each; ++k) any |= piece(group, i, k);
    close(group, i, any);
  }
};

/// Keeps the GPU busy for some tenths of a second.
struct take_time {
  template <class Group> HCOMP_HD void operator()(Group, std::size_t) const {
#if defined(__CUDA_ARCH__)
    long long const start = clock64();
    while (clock64() - start < 500'000'000) {
    }
#endif
  }
};

std::uint32_t* numbers_in(std::byte* memory) { return reinterpret_cast<std::uint32_t*>(memory); }

}  // namespace

TEST_CASE("gpu: copies and work happen in the order of the calls") {
  std::size_t const count = all_or_few(300000, 70000);  // exceeds the blocks of one launch
  own_stream const stream;
  gpu::stream_executor device(stream);
  gpu::device_buffer memory(count * sizeof(std::uint32_t));
  gpu::pinned_buffer in(memory.size()), first(memory.size()), second(memory.size());
  auto* const on_device = numbers_in(memory.data());
  std::iota(numbers_in(in.data()), numbers_in(in.data()) + count, 7u);
  device.for_each_block(1, take_time{});
  device.write(memory.data(), in.data(), in.size());
  device.for_each_block(count, count_up{on_device});
  auto const once = device.read(first.data(), memory.data(), memory.size());
  device.for_each_block(count, count_up{on_device});
  auto const twice = device.read(second.data(), memory.data(), memory.size());
  device.wait(twice);
  device.wait(once);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += numbers_in(first.data())[i] != i + 8 || numbers_in(second.data())[i] != i + 9;
  CHECK(wrong == 0);
}

TEST_CASE("gpu: bits are counted as on the host") {
  auto const words = data::words(4096, {.seed = 1});
  std::size_t const bytes = words.size() * sizeof(std::uint64_t);
  gpu::stream_executor device;
  gpu::device_buffer in(bytes), found(bytes);
  std::vector<std::uint64_t> out(words.size());
  device.write(in.data(), reinterpret_cast<std::byte const*>(words.data()), bytes);
  device.for_each_block(words.size(),
                        look_at_bits{reinterpret_cast<std::uint64_t const*>(in.data()),
                                     reinterpret_cast<std::uint64_t*>(found.data())});
  device.wait(device.read(reinterpret_cast<std::byte*>(out.data()), found.data(), bytes));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += out[i] != look_at_bits::of(words[i]);
  CHECK(wrong == 0);
}

TEST_CASE(
    "gpu: every piece of every block runs once, and the block is closed once, with its pieces' "
    "hits") {
  gpu::stream_executor device;
  for (std::size_t const blocks : {1, 2, 16, 1000}) {
    CAPTURE(blocks);
    std::size_t const pieces = blocks * count_pieces::of_each;
    std::vector<std::uint32_t> numbers(pieces + blocks);
    gpu::device_buffer on_device(numbers.size() * sizeof(numbers[0]));
    device.write(on_device.data(), numbers.data(), on_device.size());
    auto* const first = numbers_in(on_device.data());
    for (int turn = 0; turn < 3; ++turn)
      device.for_each_block(blocks, count_pieces{first, first + pieces});
    device.wait(device.read(numbers.data(), first, on_device.size()));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < pieces; ++i) wrong += numbers[i] != 3;
    for (std::size_t i = 0; i < blocks; ++i) wrong += numbers[pieces + i] != (i % 3 == 0 ? 33 : 3);
    CHECK(wrong == 0);
  }
}

TEST_CASE("gpu: a block sums its predecessors, at any distance of the last inclusive sum") {
  // published by earlier blocks: own values, and for one block the inclusive prefix sum
  constexpr std::uint64_t own = std::uint64_t{1} << 62, whole = own << 1;
  gpu::stream_executor device;
  for (std::size_t const i : {1, 31, 32, 33, 64, 97})
    for (std::size_t const back : {std::size_t{1}, (i + 1) / 2, i}) {
      CAPTURE(i);
      CAPTURE(back);
      std::vector<std::uint64_t> words(2 + i);
      std::uint64_t expected = 0;
      for (std::size_t b = 0; b < i; ++b) {
        expected += 3 * b + 1;
        words[1 + b] = b == i - back ? whole | expected : own | (3 * b + 1);
      }
      std::size_t const bytes = words.size() * sizeof(std::uint64_t);
      gpu::device_buffer on_device(bytes + sizeof(std::uint64_t));
      auto* const first = reinterpret_cast<std::uint64_t*>(on_device.data());
      device.write(first, words.data(), bytes);
      device.for_each_block(1, add_up{{first}, i, 7, first + words.size()});
      words.push_back(0);
      device.wait(device.read(words.data(), first, on_device.size()));
      CHECK(words.back() == expected);
      CHECK(words[1 + i] == (whole | (expected + 7)));
    }
}

TEST_CASE("gpu: all blocks sum their predecessors while they run") {
  std::size_t const blocks = all_or_few(100'000, 300);
  gpu::stream_executor device;
  std::vector<std::uint64_t> words(detail::block_order::words_for(blocks));
  std::size_t const bytes = words.size() * sizeof(std::uint64_t);
  gpu::device_buffer order(bytes), found(blocks * sizeof(std::uint64_t));
  device.write(order.data(), words.data(), bytes);
  device.for_each_block(blocks, add_up_all{{reinterpret_cast<std::uint64_t*>(order.data())},
                                           reinterpret_cast<std::uint64_t*>(found.data())});
  device.wait(device.read(words.data(), found.data(), found.size()));
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < blocks; ++i) wrong += words[i] != i * (i - 1) / 2;
  CHECK(wrong == 0);
}

TEST_CASE("gpu: copies return at once, and a mark waits for no work after its copy" * at_once) {
  own_stream const stream;
  gpu::stream_executor device(stream);
  gpu::device_buffer memory(sizeof(std::uint32_t));
  gpu::pinned_buffer in(memory.size()), out(memory.size());
  *numbers_in(in.data()) = 7;
  *numbers_in(out.data()) = 0;
  device.for_each_block(1, take_time{});  // loads the kernel
  device.synchronize();
  auto const before = device.write(memory.data(), in.data(), in.size());
  device.for_each_block(1, take_time{});
  auto const after = device.read(out.data(), memory.data(), out.size());
  auto const last = device.write(memory.data(), in.data(), in.size());
  CHECK_FALSE(stream.is_idle());
  device.wait(before);
  CHECK_FALSE(stream.is_idle());
  CHECK(*numbers_in(out.data()) == 0);
  auto moved = std::move(device);
  moved.wait(after);
  CHECK(*numbers_in(out.data()) == 7);
  moved.wait(last);
  CHECK(stream.is_idle());
  moved.wait(gpu::stream_executor::mark{});
}

TEST_CASE("gpu: marks without a wait do no harm, nor do empty copies") {
  own_stream const stream;
  gpu::stream_executor device(stream);
  gpu::device_buffer memory(sizeof(std::uint32_t));
  gpu::pinned_buffer in(10000 * sizeof(std::uint32_t)), out(memory.size());
  for (std::uint32_t i = 0; i < 10000; ++i) {
    numbers_in(in.data())[i] = i;
    device.write(memory.data(), in.data() + i * sizeof(i), sizeof(i));
  }
  device.read(nullptr, nullptr, 0);
  device.wait(device.read(out.data(), memory.data(), memory.size()));
  CHECK(*numbers_in(out.data()) == 9999);
}

TEST_CASE(
    "gpu: a concurrent read returns earlier work's data, and later work does not wait for it" *
    at_once) {
  own_stream const stream;
  gpu::stream_executor device(stream);
  gpu::device_buffer memory(sizeof(std::uint32_t)), other(memory.size());
  gpu::pinned_buffer in(memory.size()), out(memory.size());
  *numbers_in(in.data()) = 7;
  *numbers_in(out.data()) = 0;
  device.for_each_block(1, take_time{});
  device.write(memory.data(), in.data(), in.size());
  device.for_each_block(1, count_up{numbers_in(memory.data())});
  auto const on_device = device.read_beside(out.data(), memory.data(), memory.size());
  device.for_each_block(1, take_time{});
  auto const last = device.write(other.data(), in.data(), in.size());
  CHECK(*numbers_in(out.data()) == 0);
  auto moved = std::move(device);
  moved.wait(on_device);
  CHECK(*numbers_in(out.data()) == 8);
  CHECK_FALSE(stream.is_idle());
  moved.wait(last);
  CHECK(stream.is_idle());
}

TEST_CASE("gpu: a concurrent write waits for its destination, and work waits for the write" *
          at_once) {
  own_stream const stream;
  gpu::stream_executor device(stream);
  gpu::device_buffer memory(sizeof(std::uint32_t));
  gpu::pinned_buffer in(memory.size()), first(memory.size()), second(memory.size());
  *numbers_in(in.data()) = 7;
  device.wait(device.write(memory.data(), in.data(), in.size()));
  device.for_each_block(1, take_time{});
  device.for_each_block(1, count_up{numbers_in(memory.data())});
  device.read(first.data(), memory.data(), memory.size());
  auto const free = device.now();
  device.for_each_block(1, take_time{});  // the copy does not wait for it
  *numbers_in(in.data()) = 20;
  auto const on_device = device.write_beside(memory.data(), in.data(), in.size(), free);
  device.for_each_block(1, count_up{numbers_in(memory.data())});
  auto const last = device.read(second.data(), memory.data(), memory.size());
  device.wait(on_device);
  CHECK(*numbers_in(first.data()) == 8);
  CHECK_FALSE(stream.is_idle());
  device.wait(last);
  CHECK(*numbers_in(second.data()) == 21);
  CHECK_THROWS_WITH_AS(gpu::stream_executor().wait(on_device),
                       "stream_executor: the mark of another executor", std::invalid_argument);
}

TEST_CASE("gpu: a received message is on the device before messages to send are copied" * at_once) {
  own_stream const stream;
  gpu::stream_executor device(stream);
  in_process_world world(2);
  in_process mine(world, 0), peer(world, 1);
  host_staged over(mine, device);
  gpu::device_buffer memory(4);
  std::vector<std::byte> in(4), sent(4), got(4);
  device.wait(device.write(memory.data(), sent.data(), sent.size()));
  auto theirs = peer.isend(0, 7, sent);
  auto coming = over.irecv(1, 7, in);
  device.for_each_block(1, take_time{});
  auto going = over.isend(1, 8, {memory.data(), memory.size()});
  CHECK(over.wait(coming) == 4);
  CHECK(mine.bytes_sent() == 0);
  CHECK_FALSE(stream.is_idle());
  auto to_peer = peer.irecv(0, 8, got);
  CHECK(over.wait(going) == 4);
  CHECK(mine.bytes_sent() == 4);
  peer.wait(to_peer);
  peer.wait(theirs);
}

TEST_CASE("gpu: device and managed memory are on the device, all other memory on the host") {
  gpu::device_buffer memory(1000);
  gpu::pinned_buffer pinned(1000);
  auto const plain = std::make_unique<std::byte[]>(1000);
  int local = 0;
  void* managed = nullptr;
  HCOMP_CUDA_TRY(cudaMallocManaged(&managed, 1000));
  gpu::stream_executor device;
  CHECK(device.space_of(memory.data()) == memory_space::device);
  CHECK(device.space_of(memory.data() + 999) == memory_space::device);
  CHECK(device.space_of(managed) == memory_space::device);
  CHECK(device.space_of(pinned.data()) == memory_space::host);
  CHECK(device.space_of(plain.get()) == memory_space::host);
  CHECK(device.space_of(&local) == memory_space::host);
  CHECK(device.space_of(nullptr) == memory_space::host);
  HCOMP_CUDA_TRY(cudaFree(managed));
}

TEST_CASE("gpu: buffers can be moved, and a failed allocation names its size") {
  gpu::device_buffer a(100), b(std::move(a));
  CHECK(a.data() == nullptr);
  CHECK(a.size() == 0);
  CHECK(b.size() == 100);
  a = std::move(b);
  CHECK(a.size() == 100);
  CHECK(b.data() == nullptr);
  std::string text;
  try {
    gpu::device_buffer too_much(std::size_t{1} << 50);
  } catch (gpu::cuda_error const& error) {
    text = error.what();
    CHECK(error.code() == cudaErrorMemoryAllocation);
  }
  CHECK(text.find("device_buffer: 1125899906842624 bytes asked for: ") == 0);
}

TEST_CASE("gpu: a buffer is released by the device_allocator that made it") {
  struct counts {
    std::size_t made = 0, released = 0;
  } of;
  gpu::device_allocator const counting{[](void** bytes, std::size_t size, void* context) {
                                         static_cast<counts*>(context)->made += size;
                                         return size > 1000 ? cudaErrorMemoryAllocation
                                                            : cudaMalloc(bytes, size);
                                       },
                                       [](void* bytes, std::size_t size, void* context) {
                                         static_cast<counts*>(context)->released += size;
                                         cudaFree(bytes);
                                       },
                                       &of};
  gpu::device_buffer before(100);
  auto const usual = gpu::set_device_allocator(counting);
  gpu::device_buffer made(10), moved(20), empty(0);
  std::string text;
  try {
    gpu::device_buffer too_much(1001);
  } catch (gpu::cuda_error const& error) {
    text = error.what();
  }
  CHECK(text.find("device_buffer: 1001 bytes asked for: ") == 0);
  CHECK(gpu::set_device_allocator(usual).context == &of);
  moved = gpu::device_buffer(300);
  CHECK(of.made == 10 + 20 + 1001);
  CHECK(of.released == 20);
  std::swap(made, before);
  before = {};
  made = {};
  CHECK(of.released == 20 + 10);
}

TEST_CASE("gpu: a launch does not report the error of an earlier call") {
  gpu::stream_executor device;
  REQUIRE(cudaMemcpy(nullptr, nullptr, 1, cudaMemcpyDeviceToHost) != cudaSuccess);
  device.for_each_block(1, take_time{});
  device.synchronize();
  static_cast<void>(cudaGetLastError());
  CHECK_THROWS_AS(HCOMP_CUDA_TRY(cudaMemcpy(nullptr, nullptr, 1, cudaMemcpyDeviceToHost)),
                  gpu::cuda_error);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "gpu: all-reduce with error feedback in own or borrowed memory gives the host's bits and "
    "state") {
  constexpr int ranks = 3;
  constexpr std::uint64_t steps = 3;
  sign<> const codec{0.25f};
  for (std::size_t const values : {std::size_t{1}, 4 * std::size_t{sign<>::block_values} + 7}) {
    CAPTURE(values);
    std::vector<std::vector<float>> expected(ranks), found(ranks);
    std::vector<std::vector<std::byte>> wanted_state(ranks), state(ranks);
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      reference_executor host;
      plan sum(values, codec, transport, host);
      error_feedback<float> feedback(values);
      for (std::uint64_t step = 0; step < steps; ++step) {
        expected[rank] = uniform_values(values, step, transport.rank());
        sum.all_reduce(std::span(expected[rank]), feedback, {.step = step});
      }
      wanted_state[rank] = feedback.save();
    });
    run_ranks(ranks, [&](in_process& transport) {
      auto const rank = static_cast<std::size_t>(transport.rank());
      own_stream const stream;
      gpu::stream_executor device(stream);
      host_staged over(transport, device);
      plan sum(values, codec, over, device);
      using array = gpu::detail::device_array<float>;
      array const residual(values), pending(values);
      gpu::detail::device_array<std::uint64_t> const withheld(1);
      auto feedback =
          transport.rank() == 1
              ? gpu::error_feedback<float>({residual.data(), values}, {pending.data(), values},
                                           std::span<std::uint64_t, 1>(withheld.data(), 1))
              : gpu::error_feedback<float>(values);
      gpu::device_buffer memory(values * sizeof(float));
      std::span<float> const x(reinterpret_cast<float*>(memory.data()), values);
      for (std::uint64_t step = 0; step < steps; ++step) {
        found[rank] = uniform_values(values, step, transport.rank());
        device.wait(device.write(memory.data(), found[rank].data(), memory.size()));
        sum.all_reduce(x, feedback, {.step = step});
        device.wait(device.read(found[rank].data(), memory.data(), memory.size()));
      }
      state[rank] = feedback.save();
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CHECK(first_difference(found[rank], expected[rank]) == nowhere);
      CHECK(state[rank] == wanted_state[rank]);
    }
  }
  gpu::detail::device_array<float> const memory(3);
  gpu::detail::device_array<std::uint64_t> const withheld(1);
  CHECK_THROWS_WITH_AS(gpu::error_feedback<float>({memory.data(), 2}, {memory.data(), 3},
                                                  std::span<std::uint64_t, 1>(withheld.data(), 1)),
                       "error_feedback: a residual of 2 values, pending has 3",
                       std::invalid_argument);
}
