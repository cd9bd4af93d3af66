// The kernels of codec `sign` on one thread, at every SIMD level, compared with the speed of
// memory:
//
//   packing     time of reading the values (x, or x and c)             target: at most 1.3 times
//   merging     time of reading one value per merged bit               target: at most 1.0 times
//   unpacking   c = (x + c) - g, x = g: time of reading and writing x and c   at most 1.5 times
//
//   bench_sign --benchmark_repetitions=7 --benchmark_min_time=0.1
//   --benchmark_report_aggregates_only

#include <array>
#include <hcomp/codec/sign/sign.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/feedback/feedback.hpp>
#include <hcomp/feedback/global_compensation.hpp>
#include <utility>

#include "memory_speed.hpp"
#include "paired.hpp"

namespace {

using hcomp::simd_level;
namespace kernels = hcomp::detail::sign;

constexpr std::size_t values = bench::in_memory.values;
constexpr std::size_t block = hcomp::sign<>::block_values;
constexpr int block_words = hcomp::sign<>::words_of(block);

/// Two vectors of floats, three of signs (about half of them differ), and the blocks of x.
struct arrays {
  hcomp::host_buffer x_bytes{values * 4}, c_bytes{values * 4};
  hcomp::host_buffer mine_bytes{values / 8}, fresh_bytes{values / 8}, other_bytes{values / 8};
  hcomp::host_buffer encoded_bytes{hcomp::layout_of(hcomp::sign<>{}, values).bytes()};
  float* x = reinterpret_cast<float*>(x_bytes.data());
  float* c = reinterpret_cast<float*>(c_bytes.data());
  std::byte* mine = mine_bytes.data();
  std::byte* fresh = fresh_bytes.data();
  std::byte* other = other_bytes.data();
  std::byte* encoded = encoded_bytes.data();

  arrays() {
    for (std::size_t i = 0; i < values; ++i) {
      std::uint64_t const bits = hcomp::mix(i);
      x[i] = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f;
      c[i] = static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f;
    }
    for (std::size_t w = 0; w < values / 64; ++w) {
      hcomp::store(fresh, w, hcomp::mix(2 * values + w));
      hcomp::store(other, w, hcomp::mix(3 * values + w));
    }
    auto const layout = hcomp::layout_of(hcomp::sign<>{}, values);
    for (std::size_t b = 0; b < layout.blocks(); ++b)
      hcomp::sign<>{}.encode_block(hcomp::simd_group{}, x + b * block, layout.values_in(b),
                                   encoded + layout.offset(b),
                                   {0, 0, 1, static_cast<std::uint32_t>(b)});
  }
};

/// Calls f(first) for every block.
template <class F> void for_blocks(std::size_t first, std::size_t n, F const& f) {
  for (std::size_t at = first; at < first + n; at += block) f(at);
}

/// A SIMD level, or the scalar code that every level is compared with.
struct strategy {
  char const* name;
  bool scalar;
  simd_level level;
};

void add_packing(arrays const& a, strategy how, bool compensated) {
  float const* const c = compensated ? a.c : nullptr;
  auto const read = bench::fastest_read(a.x, c, values);
  bench::add({compensated ? "pack x + c" : "pack x", how.name, 1.3,
              [&a, how, c](std::size_t first, std::size_t n, int) {
                for_blocks(first, n, [&](std::size_t at) {
                  auto* const out = a.mine + at / 8;
                  float const* const own = c ? c + at : nullptr;
                  bool const nonfinite =
                      how.scalar ? kernels::pack_floats_plain(a.x + at, own, block_words, out)
                                 : kernels::pack_floats(a.x + at, own, block, out, how.level);
                  benchmark::DoNotOptimize(nonfinite);
                });
              },
              [&a, read, c](std::size_t first, std::size_t n, int) {
                read(a.x + first, c ? c + first : nullptr, n);
              }});
}

void add_merging(arrays const& a, strategy how, std::uint32_t lower, std::uint32_t upper) {
  auto const read = bench::fastest_read(a.x, nullptr, values);
  auto const key = kernels::merge_key(1, 0, 1, lower, lower + upper);
  bench::add({"merge " + std::to_string(lower) + ":" + std::to_string(upper), how.name, 1.0,
              [&a, how, key](std::size_t first, std::size_t n, int repeat) {
                first += static_cast<std::size_t>(repeat) * n;  // merges no signs twice
                for_blocks(first, n, [&](std::size_t at) {
                  std::byte* const acc = a.mine + at / 8;
                  std::byte const* const in = a.other + at / 8;
                  if (how.scalar)
                    kernels::merge_signs(hcomp::serial_group{}, acc, in, block_words, at / 64, true,
                                         key);
                  else
                    kernels::merge_signs(acc, in, block_words, at / 64, true, key, how.level);
                });
              },
              [&a, read](std::size_t first, std::size_t n, int) { read(a.x + first, nullptr, n); },
              [&a](std::size_t n) { std::memcpy(a.mine, a.fresh, std::max(n, values / 64) / 8); }});
}

/// Codec `sign` that decodes with a given SIMD level.
struct sign_at_level : hcomp::sign<> {
  strategy how;

  template <class Group>
  void decode_part(Group, std::byte const* block, int first, int n, float* x,
                   hcomp::reduce_op) const {
    std::byte const* const in = block + hcomp::block_header_bytes + first / 8;
    if (how.scalar)
      kernels::unpack_signs(hcomp::serial_group{}, in, n, magnitude, x);
    else
      kernels::unpack_signs(in, n, magnitude, x, how.level);
  }
};

void add_unpacking(arrays const& a, strategy how) {
  auto const move = bench::fastest_move(a.x, a.c, values);
  sign_at_level const codec{{1e-3f}, how};
  using view = hcomp::global_compensation<>::kernel_view;
  hcomp::decode_with_feedback<sign_at_level, view> const decode{
      {codec, hcomp::layout_of(codec, values), 0, a.encoded, a.x, hcomp::reduce_op::mean},
      {a.x, a.c}};
  bench::add(
      {"unpack, update c", how.name, 1.5,
       [decode](std::size_t first, std::size_t n, int) {
         for_blocks(first, n, [&](std::size_t at) { decode(hcomp::simd_group{}, at / block); });
       },
       [&a, move](std::size_t first, std::size_t n, int) { move(a.x + first, a.c + first, n); }});
}

}  // namespace

int main(int argc, char** argv) {
  static arrays const a;
  std::vector<strategy> strategies;
  for (auto const level : {simd_level::baseline, simd_level::avx2, simd_level::avx512})
    if (level <= hcomp::best_simd_level()) strategies.push_back({name_of(level), false, level});
  strategies.push_back({"scalar", true, simd_level::baseline});
  std::array<std::pair<std::uint32_t, std::uint32_t>, 6> const weights{
      {{1, 1}, {1, 2}, {1, 3}, {3, 5}, {1, 100}, {7, 9}}};
  for (auto const how : strategies) {
    add_packing(a, how, false);
    add_packing(a, how, true);
    for (auto const& [lower, upper] : weights) add_merging(a, how, lower, upper);
    add_unpacking(a, how);
  }
  return bench::run(argc, argv,
                    "Time of the sign kernels / time of their memory accesses; values per second");
}
