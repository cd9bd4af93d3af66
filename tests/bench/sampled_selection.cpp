// Sampled selection on 2 to 1024 ranks of equal weight, one thread. Measures three steps: draw the
// sampled ranks of all bits, by masks or lots; draw them and pack one rank's bits; draw them and
// put all ranks' bits in place. For comparison: the time of reading the same number of fp32 values.
// There is no target.
//
//   bench_sampled_selection --benchmark_repetitions=7 --benchmark_min_time=0.1

#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/collective/engine/detail/sampled_bits.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <memory>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

namespace kernels = hcomp::detail;

constexpr std::size_t values = bench::in_memory.values;
constexpr std::size_t block = hcomp::sign<>::block_values;
constexpr std::uint64_t key = 1;

/// Input of both functors for `ranks` ranks.
struct setup {
  std::size_t ranks;
  hcomp::encoded_layout layout = hcomp::layout_of(hcomp::sign<>{}, values);
  std::vector<std::uint32_t> weights = std::vector<std::uint32_t>(ranks, 1);
  std::vector<kernels::sampling::node> tree = kernels::sampling::tree_of(weights);
  std::vector<std::byte> encoded = std::vector<std::byte>(layout.bytes());
  std::vector<std::byte> messages =
      std::vector<std::byte>(layout.bytes() + layout.blocks() * ranks + 64);
  std::vector<std::uint32_t> counts = std::vector<std::uint32_t>(layout.blocks() * ranks);
  std::vector<std::size_t> starts = std::vector<std::size_t>(layout.blocks() * ranks);

  explicit setup(std::size_t how_many) : ranks(how_many) {
    for (std::size_t w = 0; w < messages.size() / 8; ++w)
      hcomp::store(messages.data(), w, hcomp::mix(w));
    for (std::size_t b = 0; b < layout.blocks(); ++b) packing()(hcomp::simd_group{}, b);
    std::size_t at = 0;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      starts[i] = at;
      at += (counts[i] + 7) / 8;
    }
  }
  kernels::owners owners() const {
    return {tree.data(), kernels::sampling::lots_of({}, ranks), ranks, key};
  }
  kernels::pack_owned_bits packing() {
    return {layout, owners(), 0, encoded.data(), counts.data()};
  }
  kernels::unpack_owned_bits unpacking() {
    return {layout,
            owners(),
            hcomp::make_header(hcomp::sign<>::codec_id, 0, false, {key, 0, 1, 0}),
            messages.data(),
            starts.data(),
            encoded.data()};
  }
};

template <class Group>
void add(char const* level, std::shared_ptr<setup> const& s, float const* x,
         bench::read_function read) {
  auto const name = [&](char const* what) {
    return std::string(what) + ", P = " + std::to_string(s->ranks);
  };
  bench::work const reference = [x, read](std::size_t first, std::size_t n, int) {
    read(x + first, nullptr, n);
  };
  auto const for_blocks = [](auto f) {
    return [f](std::size_t first, std::size_t n, int) {
      for (std::size_t b = first / block; b < (first + n) / block; ++b) f(b);
    };
  };
  if (s->owners().draws_lots())
    bench::add({name("draw"), level, 0, for_blocks([s](std::size_t b) {
                  s->owners().for_drawn_words(Group{}, b * (block / 64), static_cast<int>(block),
                                              [](int, int, std::uint16_t const* drawn) {
                                                benchmark::DoNotOptimize(drawn);
                                                benchmark::ClobberMemory();
                                              });
                }),
                reference});
  else
    bench::add({name("draw"), level, 0, for_blocks([s](std::size_t b) {
                  kernels::sampling::for_tiles(Group{}, s->tree, s->ranks,
                                               hcomp::sign<>::words_of(block), b * (block / 64),
                                               key, [](int, int, auto const& mask_of) {
                                                 benchmark::DoNotOptimize(mask_of(0));
                                                 benchmark::ClobberMemory();
                                               });
                }),
                reference});
  bench::add({name("pack"), level, 0, for_blocks([s](std::size_t b) { s->packing()(Group{}, b); }),
              reference});
  bench::add({name("unpack"), level, 0,
              for_blocks([s](std::size_t b) { s->unpacking()(Group{}, b); }), reference});
}

}  // namespace

int main(int argc, char** argv) {
  static std::vector<float> const x(values, 1.0f);
  auto const read = bench::fastest_read(x.data(), nullptr, values);
  for (std::size_t const ranks : {2, 4, 8, 16, 64, 256, 1024}) {
    auto const s = std::make_shared<setup>(ranks);
    add<hcomp::simd_group>("simd", s, x.data(), read);
    add<hcomp::serial_group>("scalar", s, x.data(), read);
  }
  return bench::run(argc, argv,
                    "Time of sampled selection / time of reading fp32 values; values per second");
}
