#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
// includes everything: host-only code must not be compiled for the device
#include <hcomp/aggregation.hpp>
#include <hcomp/extend.hpp>
#include <hcomp/gpu/stream_executor.hpp>
#include <hcomp/hcomp.hpp>
#include <hcomp/lanes.hpp>
#include <hcomp/model.hpp>
#include <support/all_or_few.hpp>
#include <support/data.hpp>
#include <vector>

namespace {

using namespace hcomp;
using namespace hcomp::testing;

/// Narrow blocks at the positions of wide ones.
struct place_blocks {
  std::size_t* places;
  std::size_t stride;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t i) const {
    if (group.worker() == 0) places[i] = i * stride;
    group.sync();
  }
};

/// halves[i] = x[i], and back.
struct convert_by_halves {
  static constexpr std::size_t run = 4096;

  float* x;
  std::uint16_t* halves;
  std::size_t count;

  template <class Group> HCOMP_HD void operator()(Group group, std::size_t block) const {
    std::size_t const end = (block + 1) * run < count ? (block + 1) * run : count;
    for (auto i = block * run + static_cast<std::size_t>(group.worker()); i < end;
         i += Group::workers) {
      halves[i] = float16::from_float(x[i]);
      x[i] = float16::to_float(halves[i]);
    }
  }
};

/// Results of `executor` for two vectors: the shared statistics, the encoded vectors, the merged
/// vector, the vector restored from its narrow form, and the decoded sum.
template <class C, class E> struct pipeline {
  using value = typename C::value_type;

  C codec;
  E& executor;
  encoded_layout layout;
  std::size_t words;  ///< of each vector's statistics
  typename E::buffer x, y, statistics, a, b, sum, places, narrow, wide;

  pipeline(C const& c, E& e, std::size_t values)
      : codec(c),
        executor(e),
        layout(layout_of(c, values)),
        words(statistics_words(codec, layout)),
        x(values * sizeof(value)),
        y(values * sizeof(value)),
        statistics(2 * words * sizeof(std::uint32_t)),
        a(layout.bytes()),
        b(layout.bytes()),
        sum(values * sizeof(value)),
        places(layout.blocks() * sizeof(std::size_t)),
        narrow(layout.bytes()),
        wide(layout.bytes()) {}

  /// Returns at once if the executor does.
  void give(bool checksum) {
    auto const* const first = reinterpret_cast<value const*>(x.data());
    auto const* const second = reinterpret_cast<value const*>(y.data());
    std::uint32_t const* agreed = nullptr;
    if constexpr (Calibrated<C>) {
      auto* const mine = reinterpret_cast<std::uint32_t*>(statistics.data());
      using measure = measure_blocks<C, value const*>;
      executor.for_each_block(layout.blocks(), measure{codec, layout, first, mine});
      executor.for_each_block(layout.blocks(), measure{codec, layout, second, mine + words});
      executor.for_each_block((words + unite_statistics::run - 1) / unite_statistics::run,
                              unite_statistics{mine, mine + words, words});
      agreed = mine;
    }
    executor.for_each_block(layout.blocks(),
                            encode_blocks<C, value const*>{
                                codec, layout, first, a.data(), {77, 0, 1, 0, agreed, checksum}});
    executor.for_each_block(layout.blocks(),
                            encode_blocks<C, value const*>{
                                codec, layout, second, b.data(), {77, 1, 2, 0, agreed, checksum}});
    executor.for_each_block(layout.blocks(), merge_blocks<C>{codec, a.data(), b.data()});
    executor.for_each_block(layout.blocks(), decode_blocks<C>{codec, layout, 0, a.data(),
                                                              reinterpret_cast<value*>(sum.data()),
                                                              reduce_op::mean, false});
    if constexpr (Narrowable<C>) {
      auto* const at = reinterpret_cast<std::size_t*>(places.data());
      executor.for_each_block(layout.blocks(), place_blocks{at, layout.block_bytes});
      executor.for_each_block(layout.blocks(), narrow_blocks<C>{codec, a.data(), layout.block_bytes,
                                                                narrow.data(), at});
      executor.for_each_block(layout.blocks(), widen_blocks<C>{codec, narrow.data(), at,
                                                               wide.data(), layout.block_bytes});
    }
  }
  void run(bool checksum) {
    give(checksum);
    executor.synchronize();
  }
};

/// Captures the work that `work` enqueues on a stream, as a graph.
class captured {
 public:
  template <class F> captured(cudaStream_t stream, F const& work) {
    cudaGraph_t graph = nullptr;
    HCOMP_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    HCOMP_CUDA_TRY(cudaStreamEndCapture(stream, &graph));
    HCOMP_CUDA_TRY(cudaGraphInstantiateWithFlags(&graph_, graph, 0));
    HCOMP_CUDA_TRY(cudaGraphDestroy(graph));
  }
  captured(captured const&) = delete;
  captured& operator=(captured const&) = delete;
  ~captured() { cudaGraphExecDestroy(graph_); }

  void launch(cudaStream_t stream) const { HCOMP_CUDA_TRY(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

template <class OnHost, class OnDevice> void copy_values(OnHost const& host, OnDevice& device) {
  HCOMP_CUDA_TRY(cudaMemcpy(device.x.data(), host.x.data(), host.x.size(), cudaMemcpyDefault));
  HCOMP_CUDA_TRY(cudaMemcpy(device.y.data(), host.y.data(), host.y.size(), cudaMemcpyDefault));
}
/// The same values for both.
template <class OnHost, class OnDevice>
void give_values(OnHost& host, OnDevice& device, std::size_t values) {
  using value = typename OnHost::value;
  auto* const x = reinterpret_cast<value*>(host.x.data());
  auto* const y = reinterpret_cast<value*>(host.y.data());
  for (std::size_t i = 0; i < values; ++i) {
    x[i] = static_cast<value>(static_cast<float>(mix(i) % 2001) / 1000 - 1);
    y[i] = static_cast<value>(static_cast<float>(mix(i + 1234567) % 2001) / 1000 - 1);
  }
  copy_values(host, device);
}
/// The same for both: every pair of NaNs, infinities and a number.
template <class OnHost, class OnDevice>
void give_nonfinite_values(OnHost& host, OnDevice& device, std::size_t values) {
  using value = typename OnHost::value;
  auto specials = data::nonfinite_specials<value>();
  specials.push_back(data::as<value>(0.5));
  auto* const x = reinterpret_cast<value*>(host.x.data());
  auto* const y = reinterpret_cast<value*>(host.y.data());
  for (std::size_t i = 0; i < values; ++i) {
    x[i] = specials[i % specials.size()];
    y[i] = specials[i / specials.size() % specials.size()];
  }
  copy_values(host, device);
}
std::vector<std::byte> from_device(gpu::device_buffer const& buffer) {
  std::vector<std::byte> host(buffer.size());
  HCOMP_CUDA_TRY(cudaMemcpy(host.data(), buffer.data(), host.size(), cudaMemcpyDefault));
  return host;
}
std::vector<std::byte> copy_of(host_buffer const& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

/// Returns the number of blocks that are not the sum of three ranks (weights 1 and 2), hence not
/// merged.
template <class P> std::size_t unmerged_blocks(P const& of) {
  std::size_t count = 0;
  for (std::size_t b = 0; b < of.layout.blocks(); ++b) {
    auto const header = load_aligned<block_header>(of.a.data() + of.layout.offset(b));
    count += header.weight != 3 || header.fault != block_fault::none;
  }
  return count;
}

}  // namespace

TEST_CASE("gpu: every codec gives the CPU's bytes, encoded, merged and decoded") {  // marsit (c) 9
  builtin_codecs<float>::for_each([&]<class C>() {
    for (std::size_t const values : {1, 65, all_or_few(300001, 40001)})
      for (bool const checksum : {false, true}) {
        CAPTURE(C::name);
        CAPTURE(values);
        CAPTURE(checksum);
        reference_executor cpu;
        gpu::stream_executor device;
        pipeline<C, reference_executor> expected(fit(C{}, 3), cpu, values);
        pipeline<C, gpu::stream_executor> found(fit(C{}, 3), device, values);
        give_values(expected, found, values);
        expected.run(checksum);
        found.run(checksum);
        CHECK(unmerged_blocks(expected) == 0);
        CHECK(copy_of(expected.statistics) == from_device(found.statistics));
        CHECK(copy_of(expected.a) == from_device(found.a));
        CHECK(copy_of(expected.b) == from_device(found.b));
        CHECK(copy_of(expected.sum) == from_device(found.sum));
        if constexpr (Narrowable<C>) {
          CHECK(copy_of(expected.wide) == copy_of(expected.a));
          CHECK(copy_of(expected.wide) == from_device(found.wide));
        }
      }
  });
}

TEST_CASE_TEMPLATE("gpu: NaN and infinity have the CPU's bits in sums and means", T, float, double,
                   bfloat16) {
  builtin_codecs<T>::for_each([&]<class C>() {
    if constexpr (C::passes_nonfinite) {
      CAPTURE(C::name);
      std::size_t const values = 67;  // groups of four, and a remainder
      reference_executor cpu;
      gpu::stream_executor device;
      pipeline<C, reference_executor> expected(fit(C{}, 3), cpu, values);
      pipeline<C, gpu::stream_executor> found(fit(C{}, 3), device, values);
      give_nonfinite_values(expected, found, values);
      expected.run(false);
      found.run(false);
      CHECK(copy_of(expected.a) == from_device(found.a));
      CHECK(copy_of(expected.sum) == from_device(found.sum));
    }
  });
}

TEST_CASE("gpu: THC's transforms of all sizes give the CPU's bytes") {
  std::vector const all{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
      few{64, 256, 1024, 16384};
  for (int const transform : all_or_few(all, few)) {
    for (bool const checksum : {false, true}) {  // with and without pieces
      CAPTURE(transform);
      CAPTURE(checksum);
      std::uint32_t const ranks = transform < 1024 ? 9 : 40;  // lanes of 8 bits, and of 16
      auto const codec = thc<>({.granularity = 21, .transform = transform}).fitted(ranks);
      // one full transform, and one of 128
      auto const values = static_cast<std::size_t>(transform + 65);
      reference_executor cpu;
      gpu::stream_executor device;
      pipeline<thc<>, reference_executor> expected(codec, cpu, values);
      pipeline<thc<>, gpu::stream_executor> found(codec, device, values);
      give_values(expected, found, values);
      expected.run(checksum);
      found.run(checksum);
      CHECK(copy_of(expected.a) == from_device(found.a));
      CHECK(copy_of(expected.sum) == from_device(found.sum));
    }
  }
}

TEST_CASE("gpu: sums that are rounded on every hop have the CPU's bytes") {
  auto const codec = thc<>({.hop_bits = 4}).fitted(40);
  for (std::size_t const values : {1, 65, all_or_few(100001, 20001)})
    for (bool const checksum : {false, true}) {
      CAPTURE(values);
      CAPTURE(checksum);
      reference_executor cpu;
      gpu::stream_executor device;
      pipeline<thc<>, reference_executor> expected(codec, cpu, values);
      pipeline<thc<>, gpu::stream_executor> found(codec, device, values);
      give_values(expected, found, values);
      auto const run = [&](auto& one) {
        one.run(checksum);
        auto const stride = one.layout.block_bytes;
        one.executor.for_each_block(one.layout.blocks(),
                                    round_blocks<thc<>>{codec, one.a.data(), stride});
        one.executor.for_each_block(
            one.layout.blocks(),
            decode_blocks<thc<>>{codec, one.layout, 0, one.a.data(),
                                 reinterpret_cast<float*>(one.sum.data()), reduce_op::sum, false});
        one.executor.synchronize();
      };
      run(expected);
      run(found);
      CHECK(copy_of(expected.wide) == from_device(found.wide));
      CHECK(copy_of(expected.a) == from_device(found.a));
      CHECK(copy_of(expected.sum) == from_device(found.sum));
      if (!checksum) CHECK(copy_of(expected.wide) == copy_of(expected.a));
    }
}

TEST_CASE("gpu: conversions between halves and floats equal those on CPUs") {
  std::vector<float> x;
  // each half, and values next to the midpoints
  for (std::uint32_t half = 0; half < 65536; ++half) {
    float const value = float16::to_float(static_cast<std::uint16_t>(half));
    auto const bits = same_bits<std::uint32_t>(value);
    for (std::uint32_t const other : {bits, bits + 0x0fff, bits + 0x1000, bits + 0x1001})
      x.push_back(same_bits<float>(other));
  }
  std::vector<std::uint16_t> halves(x.size());
  gpu::device_buffer const device_values(x.size() * sizeof(float)),
      narrow(x.size() * sizeof(halves[0]));
  gpu::stream_executor executor;
  executor.wait(executor.write(device_values.data(), x.data(), device_values.size()));
  executor.for_each_block(
      (x.size() + convert_by_halves::run - 1) / convert_by_halves::run,
      convert_by_halves{reinterpret_cast<float*>(device_values.data()),
                        reinterpret_cast<std::uint16_t*>(narrow.data()), x.size()});
  std::vector<float> back(x.size());
  executor.wait(executor.read(back.data(), device_values.data(), device_values.size()));
  executor.wait(executor.read(halves.data(), narrow.data(), narrow.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    REQUIRE(halves[i] == float16::from_float(x[i]));
    REQUIRE(same_bits<std::uint32_t>(back[i]) ==
            same_bits<std::uint32_t>(float16::to_float(halves[i])));
  }
}

TEST_CASE("gpu: encode, merge and decode in a CUDA graph give the bytes of direct launches") {
  std::size_t const values = all_or_few(70001, 8001);
  cudaStream_t stream = nullptr;
  HCOMP_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  builtin_codecs<float>::for_each([&]<class C>() {
    CAPTURE(C::name);
    gpu::stream_executor device(stream);
    using on_device = pipeline<C, gpu::stream_executor>;
    on_device direct(fit(C{}, 3), device, values), replayed(fit(C{}, 3), device, values);
    for (auto const* const vector : {&direct.x, &direct.y})
      HCOMP_CUDA_TRY(cudaMemset(vector->data(), 0, vector->size()));
    HCOMP_CUDA_TRY(cudaDeviceSynchronize());
    direct.run(true);  // the first run loads the kernels, which must not happen during the capture
    captured const graph(stream, [&] { replayed.give(true); });
    std::vector<float> x(values);
    for (std::uint64_t round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < values; ++i)
        x[i] = static_cast<float>(mix(i * 4 + round) % 2001) / 1000 - 1;
      for (auto const* const one : {&direct, &replayed})
        for (auto const* const vector : {&one->x, &one->y})
          device.wait(device.write(vector->data(), x.data(), values * sizeof(float)));
      direct.run(true);
      graph.launch(stream);
      device.synchronize();
      CHECK(from_device(replayed.a) == from_device(direct.a));
      CHECK(from_device(replayed.sum) == from_device(direct.sum));
      if constexpr (Narrowable<C>) CHECK(from_device(replayed.wide) == from_device(direct.wide));
    }
  });
  HCOMP_CUDA_TRY(cudaStreamDestroy(stream));
}

TEST_CASE("gpu: a failed call reports its name, location and cause") {
  CHECK_THROWS_AS(HCOMP_CUDA_TRY(cudaMemcpy(nullptr, nullptr, 1, cudaMemcpyDeviceToHost)),
                  gpu::cuda_error);
}
