// max_simd: avx2 baseline
/// @file
/// Pins wire format 1. When one of these tests fails, old and new blocks cannot be merged:
/// `hcomp::wire_version` changes in the same commit, or the change is wrong.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <hcomp/core/hash.hpp>
#include <hcomp/op/encode.hpp>
#include <iterator>
#include <span>
#include <string>
#include <support/laws.hpp>
#include <vector>

using laws::encoded_block;

namespace {

std::uint64_t fingerprint(encoded_block const& bytes) {
  return hcomp::fingerprint(hcomp::serial_group{}, bytes.data(), bytes.size());
}

/// Fingerprints of two blocks of one rank, and of the merged blocks of three ranks.
struct pinned {
  int tag;
  std::uint64_t encoded, merged;

  friend bool operator==(pinned const&, pinned const&) = default;
};

/// Values that every type holds exactly, except for rounding to a narrower wire type.
template <class T> std::vector<T> ramp(std::size_t n, int start) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = data::as<T>(static_cast<double>((static_cast<int>(i) * 37 + start) % 255 - 127) / 16);
  return x;
}

template <class C> pinned pin() {
  using T = typename C::value_type;
  auto const codec = laws::with_headroom<C>(6);
  std::size_t const n = static_cast<std::size_t>(C::block_values) + 70;
  hcomp::draw_key const key{.seed = 11, .step = 22, .tensor = 33};
  encoded_block sum, first;
  for (int rank = 0; rank < 3; ++rank) {
    auto const x = ramp<T>(n, 1 + 100 * rank);
    auto const statistics = hcomp::measure(codec, std::span<T const>(x));
    auto const mine = hcomp::encode(codec, std::span<T const>(x),
                                    {.key = key,
                                     .rank = rank,
                                     .weight = 1u + static_cast<unsigned>(rank),
                                     .checksum = true,
                                     .statistics = statistics});
    if (rank == 0) {
      first = sum = mine;
      continue;
    }
    hcomp::merge_blocks<C> const work{codec, sum.data(), mine.data()};
    for (std::size_t b = 0; b < 2; ++b) work(hcomp::simd_group{}, b);
  }
  return {C::codec_id, fingerprint(first), fingerprint(sum)};
}

}  // namespace

TEST_CASE("wire format 1: a block begins with these 32 bytes") {
  REQUIRE(hcomp::wire_version == 1);
  auto const block = laws::encode(
      hcomp::identity<float>{}, {1.0f, -2.5f},
      {.key = 0x1122334455667788, .rank = 0x01020304, .weight = 0x0a0b0c0d, .index = 0x05060708});
  unsigned char const expected[32] = {
      'h',  'C',                                       // magic
      1,                                               // version of the format
      1,                                               // codec
      2,    0,                                         // values
      0,    0,                                         // flags, fault
      0x0d, 0x0c, 0x0b, 0x0a,                          // weight
      4,    3,    2,    1,                             // lowest rank
      8,    7,    6,    5,                             // index
      0,    0,    0,    0,                             // checksum: none
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // key
  };
  for (std::size_t i = 0; i < 32; ++i) {
    CAPTURE(i);
    CHECK(std::to_integer<int>(block[i]) == expected[i]);
  }
}

TEST_CASE("wire format 1: flags, faults and codec tags have these numbers") {
  CHECK(hcomp::block_has_nonfinite == 1);
  CHECK(hcomp::block_is_damaged == 2);
  CHECK(hcomp::block_has_checksum == 4);
  CHECK(static_cast<int>(hcomp::block_fault::none) == 0);
  CHECK(static_cast<int>(hcomp::block_fault::format) == 1);
  CHECK(static_cast<int>(hcomp::block_fault::codec) == 2);
  CHECK(static_cast<int>(hcomp::block_fault::length) == 3);
  CHECK(static_cast<int>(hcomp::block_fault::place) == 4);
  CHECK(static_cast<int>(hcomp::block_fault::key) == 5);
  CHECK(static_cast<int>(hcomp::block_fault::ranks) == 6);
  CHECK(static_cast<int>(hcomp::block_fault::weight) == 7);
  CHECK(static_cast<int>(hcomp::block_fault::checksum) == 8);
  CHECK(static_cast<int>(hcomp::block_fault::scale) == 9);
  CHECK(hcomp::identity<float>::codec_id == 1);
  CHECK(hcomp::identity<double>::codec_id == 2);
  CHECK(hcomp::float_cast<hcomp::float16>::codec_id == 3);
  CHECK(hcomp::float_cast<hcomp::bfloat16>::codec_id == 4);
  CHECK(hcomp::sign<float>::codec_id == 16);
  CHECK(hcomp::sign_count<float>::codec_id == 17);
}

TEST_CASE("wire format 1: payloads of signs lie as documented") {
  std::vector<float> x(70, -1.0f);
  x[0] = x[63] = x[65] = 1;
  auto const word = [](encoded_block const& block, std::size_t w) {
    return hcomp::load<std::uint64_t>(block.data() + hcomp::block_header_bytes, w);
  };
  auto const signs = laws::encode(hcomp::sign<float>{}, x, {});
  CHECK(word(signs, 0) == (1 | std::uint64_t{1} << 63));
  CHECK(word(signs, 1) == 2);
  // Planes follow each other: the ones of all words, then the twos.
  auto const counts = laws::encode(hcomp::sign_count<float>{1, 3}, x, {.weight = 2});
  CHECK(counts.size() == 32 + 4 * 8);
  CHECK(word(counts, 0) == 0);
  CHECK(word(counts, 1) == 0);
  CHECK(word(counts, 2) == (1 | std::uint64_t{1} << 63));
  CHECK(word(counts, 3) == 2);
}

TEST_CASE("wire format 1: narrow messages of sign counts are the lower planes of the block") {
  std::vector<float> x(70, -1.0f);
  x[0] = x[63] = x[65] = 1;
  auto const codec = hcomp::sign_count<float>{1, 7};
  auto const block = laws::encode(codec, x, {.weight = 2});
  auto const header = laws::header_of(block);
  REQUIRE(block.size() == 32 + 3 * 16);
  REQUIRE(codec.narrow_bytes(header) == 32 + 2 * 16);
  encoded_block narrow(codec.narrow_bytes(header));
  codec.narrow_block(hcomp::serial_group{}, block.data(), narrow.data());
  CHECK(std::equal(narrow.begin(), narrow.end(), block.begin()));
  CHECK(fingerprint(narrow) == 0x5bf0bbc55f67433b);
}

TEST_CASE("wire format 1: every codec has this fingerprint, for all value types") {
  // clang-format off
  pinned const expected[] = {
      {1,  0xaebc1e61c3e8d703, 0x6e6edba251d9e5fb},  // identity<float>
      {2,  0x703d8f11f5e24211, 0x294d7e2436b8d299},  // identity<double>
      {3,  0xa79146e8c42e21c0, 0x5096da2a8cd3a387},  // float_cast:fp16
      {4,  0xa01ad9560d998bde, 0x5800d2024fe7b040},  // float_cast:bf16
      {16, 0xce29bdeacab38ce3, 0xbf5a4a4159e6fd16},  // sign
      {17, 0xcebe80d3e9367f16, 0x4d8d1356141d5ccc},  // sign_count
      {19, 0x63ac3513b089686e, 0x2435643782051619},  // thc
      {20, 0x9a400a08e31d5c1f, 0x039cbf477ef68a50},  // uniform_thc
      {32, 0x01ffbeb50b216619, 0x9801f9fcb4485c32},  // reproducible, but for double
      {33, 0x9b83ccbf20e7be5c, 0xfdebd3159ce7bf7a},  // reproducible<double>
  };
  // clang-format on
  laws::for_each_codec([&]<class C>() {
    auto const found = pin<C>();
    char line[100];
    std::snprintf(line, sizeof(line), "{%d, 0x%016llx, 0x%016llx},  // ", found.tag,
                  static_cast<unsigned long long>(found.encoded),
                  static_cast<unsigned long long>(found.merged));
    INFO(line << laws::name_of<C>());
    CHECK(std::count(std::begin(expected), std::end(expected), found) == 1);
  });
}
