/// @file
/// Block work of executors by several workers at once: it gives the bytes of one worker, without
/// races.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/op/block_work.hpp>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <support/worker_group.hpp>
#include <vector>

using laws::encoded_block;

namespace {

/// Encodes, merges and decodes with every step by `run(blocks, functor)`. Returns all the bytes.
template <class C, class Run>
encoded_block everything(C const& codec, std::size_t n, Run const& run) {
  using T = typename C::value_type;
  auto const x = data::uniform<T>(n, -8, 8, {.seed = 1}),
             y = data::uniform<T>(n, -8, 8, {.seed = 2});
  auto const layout = hcomp::layout_of(codec, n);
  encoded_block acc(hcomp::encoded_bytes(codec, n)), in(acc.size());
  run(layout.blocks(),
      hcomp::encode_blocks<C, T const*>{
          codec, layout, x.data(), acc.data(), {.key = 1, .rank = 0, .checksum = true}});
  run(layout.blocks(),
      hcomp::encode_blocks<C, T const*>{
          codec, layout, y.data(), in.data(), {.key = 1, .rank = 1, .checksum = true}});
  encoded_block all = acc;
  run(layout.blocks(), hcomp::merge_blocks<C>{codec, acc.data(), in.data()});
  all.insert(all.end(), acc.begin(), acc.end());
  std::vector<T> result(n);
  hcomp::decode_blocks<C> const decode{codec, layout, 0, acc.data(), result.data()};
  // The first block separately, as a collective does.
  run(layout.blocks() > 0 ? 1 : 0, decode);
  run(layout.blocks() > 0 ? layout.blocks() - 1 : 0, hcomp::shifted<decltype(decode)>{decode, 1});
  auto const* const values = reinterpret_cast<std::byte const*>(result.data());
  all.insert(all.end(), values, values + n * sizeof(T));
  // Again with a damaged block: workers also share the work of marking it.
  if (n > 0) acc[hcomp::block_header_bytes] ^= std::byte{1};
  if (n > 0) in[20] ^= std::byte{1};
  run(layout.blocks(), hcomp::merge_blocks<C>{codec, acc.data(), in.data()});
  all.insert(all.end(), acc.begin(), acc.end());
  return all;
}

}  // namespace

TEST_CASE("block work: workers, threads and SIMD all give the bytes of the reference") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    auto const codec = laws::with_headroom<C>();
    for (std::size_t const n :
         {std::size_t{0}, std::size_t{1}, std::size_t{65}, std::size_t{C::block_values} + 65,
          3 * std::size_t{C::block_values}}) {
      CAPTURE(n);
      hcomp::reference_executor reference;
      auto const expected = everything(codec, n, [&](std::size_t blocks, auto const& work) {
        reference.for_each_block(blocks, work);
      });
      for (int threads = 1; threads <= 3; ++threads) {
        hcomp::host_executor executor(threads);
        REQUIRE(expected == everything(codec, n, [&](std::size_t blocks, auto const& work) {
                  executor.for_each_block(blocks, work);
                }));
      }
      if (n > 4100) continue;  // threads per block: slow
      REQUIRE(expected == everything(codec, n, [&](std::size_t blocks, auto const& work) {
                for (std::size_t b = 0; b < blocks; ++b)
                  workers::run<3>([&](auto group) { work(group, b); });
              }));
    }
  });
}

TEST_CASE("merge_blocks: a block whose bytes changed is marked, and its successors stay readable") {
  hcomp::sign_count<float> const codec;
  std::size_t const n = 2 * 8192 + 10;
  auto const x = data::signs(n, {.seed = 3});
  std::span<float const> const values(x);
  auto acc = hcomp::encode(codec, values, {.rank = 0, .checksum = true});
  auto const in = hcomp::encode(codec, values, {.rank = 1, .checksum = true});
  acc[codec.block_bytes() + 1000] ^= std::byte{32};
  hcomp::merge_blocks<hcomp::sign_count<float>> const work{codec, acc.data(), in.data()};
  for (std::size_t b = 0; b < 3; ++b) work(hcomp::simd_group{}, b);
  for (std::size_t b = 0; b < 3; ++b) {
    CAPTURE(b);
    auto const header = hcomp::load<hcomp::block_header>(acc.data() + b * codec.block_bytes());
    CHECK(((header.flags & hcomp::block_is_damaged) != 0) == (b == 1));
    CHECK((header.fault == hcomp::block_fault::checksum) == (b == 1));
  }
  std::vector<float> result(n);
  CHECK_THROWS_WITH_AS(
      hcomp::decode(codec, std::span<std::byte const>(acc), std::span(result)),
      "decode: codec 'sign_count', block 1 (values 8192 to 16383): the checksum does not match the "
      "bytes",
      hcomp::wire_error);
}

TEST_CASE("merge_blocks: reads no byte behind a full block, for any header") {
  laws::for_each_codec([]<class C>() {
    INFO(laws::name_of<C>());
    using T = typename C::value_type;
    auto const codec = laws::with_headroom<C>();
    auto const x = data::signs<T>(C::block_values, {.seed = 4});
    for (bool const checksum : {false, true})
      for (bool const both : {false, true}) {
        auto const bad = [&](int rank, bool change) {
          auto block = hcomp::encode(codec, std::span<T const>(x),
                                     {.rank = rank,
                                      .checksum = checksum,
                                      .statistics = hcomp::measure(codec, std::span<T const>(x))});
          auto header = laws::header_of(block);
          if (change) header.values = 65535;
          hcomp::store(block.data(), 0, header);
          return block;
        };
        auto const sum = laws::merged_by_op(codec, bad(0, true), bad(1, both));
        REQUIRE((laws::header_of(sum).flags & hcomp::block_is_damaged) != 0);
      }
  });
}
