/// @file
/// Packed integers of any width: bit by bit, by words and by vectors agree.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/codec/detail/packed_lanes.hpp>
#include <hcomp/codec/detail/packed_lanes_256.hpp>
#include <hcomp/core/random.hpp>
#include <hcomp/core/simd.hpp>
#include <type_traits>
#include <vector>

using hcomp::detail::pack_integers;
using hcomp::detail::packed_bytes;
using hcomp::detail::unpack_integers;
using hcomp::detail::with_sign;

namespace {

using bytes = std::vector<std::byte>;
using integers = std::vector<std::int64_t>;

/// Integers of `width` bits, with the least and the greatest among them.
integers of_width(int width, std::size_t n, std::uint64_t seed) {
  integers q(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const random = hcomp::mix(seed * 1000 + i);
    q[i] = with_sign(random % 7 == 0   ? 0
                     : random % 7 == 1 ? ~std::uint64_t{0}
                     : random % 7 == 2 ? std::uint64_t{1} << 63 >> (64 - width) % 64
                                       : hcomp::mix(random),
                     width);
  }
  return q;
}
bytes bit_by_bit(integers const& q, int width) {
  bytes out(packed_bytes(width, q.size()));
  std::size_t at = 0;
  for (std::int64_t const one : q)
    for (int bit = 0; bit < width; ++bit, ++at)
      if (static_cast<std::uint64_t>(one) >> bit & 1) out[at / 8] |= std::byte{1} << at % 8;
  return out;
}

}  // namespace

TEST_CASE("packed_integers: integers of any width follow each other without a gap") {
  for (int width = 0; width <= 64; ++width)
    for (std::size_t const n : {0, 1, 2, 7, 8, 9, 31, 32, 33, 100}) {
      CAPTURE(width);
      CAPTURE(n);
      auto const q = of_width(width, n, static_cast<std::uint64_t>(width));
      auto const expected = bit_by_bit(q, width);
      bytes packed;
      packed.reserve(1);  // not a null pointer
      packed.resize(expected.size(), std::byte{0x55});
      pack_integers(q.data(), width, n, packed.data());
      CHECK(packed == expected);
      integers came(n, 7);
      unpack_integers(packed.data(), width, n, came.data());
      CHECK(came == q);
    }
}

#if defined(__x86_64__)
namespace {

/// Lanes of two vectors of 64 bytes, or of four of 32.
template <class Lane> constexpr std::size_t lanes = 2 * 64 / sizeof(Lane);

/// Pack and unpack functions of one vector size. They pack the bits from bit `left_out` on.
struct by_vectors {
  void (*pack)(integers const& q, int width, int left_out, bytes& packed);
  integers (*unpack)(bytes const& packed, int width, int left_out);
  std::size_t behind;  ///< bytes behind the end that they may read and write
};

/// Converts unpacked lanes with signs, and checks the lanes without signs against them.
template <class Lane>
integers without_garbage(std::vector<Lane> const& with, std::vector<Lane> const& without,
                         int width) {
  integers q(with.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = static_cast<std::make_signed_t<Lane>>(with[i]);
    CHECK(without[i] == hcomp::detail::without_sign(q[i], width));
  }
  return q;
}

template <class Lane>
[[HCOMP_TARGET_VBMI]] void pack_512(integers const& q, int width, int left_out, bytes& packed) {
  std::vector<Lane> const of_lanes(q.begin(), q.end());
  hcomp::detail::lanes_512<Lane> vectors[2];
  std::memcpy(vectors, of_lanes.data(), sizeof(vectors));
  hcomp::detail::lanes_packer<Lane> const packer(width, left_out);
  packer.pack(vectors, packed.data());
}
template <class Lane>
[[HCOMP_TARGET_VBMI]] integers unpack_512(bytes const& packed, int width, int left_out) {
  hcomp::detail::lanes_packer<Lane> const packer(width, left_out);
  hcomp::detail::lanes_512<Lane> vectors[2], without[2];
  packer.unpack(packed.data(), vectors);
  std::memcpy(without, vectors, sizeof(vectors));
  for (int i = 0; i < 2; ++i) {
    packer.with_sign(vectors[i]);
    packer.without_sign(without[i]);
  }
  std::vector<Lane> q(lanes<Lane>), magnitudes(lanes<Lane>);
  std::memcpy(q.data(), vectors, sizeof(vectors));
  std::memcpy(magnitudes.data(), without, sizeof(without));
  return without_garbage(q, magnitudes, width + left_out);
}
template <class Lane>
[[gnu::target("avx2")]] void pack_256(integers const& q, int width, int left_out, bytes& packed) {
  std::vector<Lane> const of_lanes(q.begin(), q.end());
  hcomp::detail::lanes_256<Lane> vectors[4];
  std::memcpy(vectors, of_lanes.data(), sizeof(vectors));
  hcomp::detail::lanes_packer_256<Lane> const packer(width, left_out);
  packer.pack(vectors, packed.data());
}
template <class Lane>
[[gnu::target("avx2")]] integers unpack_256(bytes const& packed, int width, int left_out) {
  hcomp::detail::lanes_packer_256<Lane> const packer(width, left_out);
  hcomp::detail::lanes_256<Lane> vectors[4], with[4], without[4];
  packer.unpack(packed.data(), vectors);
  for (int i = 0; i < 4; ++i) {
    with[i] = packer.with_sign(vectors[i]);
    without[i] = packer.without_sign(vectors[i]);
  }
  std::vector<Lane> q(lanes<Lane>), magnitudes(lanes<Lane>);
  std::memcpy(q.data(), with, sizeof(with));
  std::memcpy(magnitudes.data(), without, sizeof(without));
  return without_garbage(q, magnitudes, width + left_out);
}

/// Packs and unpacks integers of every width, and with every number of bits left out.
template <class Lane> void check_vectors(by_vectors const& of) {
  constexpr int lane_bits = static_cast<int>(8 * sizeof(Lane));
  for (int width = 0; width <= lane_bits; ++width)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      int const left_out = seed < 10 ? 0 : static_cast<int>(seed) % (lane_bits - width + 1);
      CAPTURE(width);
      CAPTURE(left_out);
      auto const q = of_width(width, lanes<Lane>, seed * 100 + static_cast<std::uint64_t>(width));
      auto const expected = bit_by_bit(q, width);
      auto moved = q, wider = q;  // higher bits and omitted bits are ignored
      for (std::size_t i = 0; i < q.size(); ++i) {
        auto const bits = static_cast<std::uint64_t>(q[i]);
        moved[i] = left_out == 64 ? 0 : static_cast<std::int64_t>(bits << left_out);
        std::uint64_t const below = left_out == 0 ? 0 : hcomp::mix(seed + i) >> (64 - left_out),
                            above =
                                width + left_out == 64 ? 0 : hcomp::mix(i) << (width + left_out);
        wider[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(moved[i]) ^ below ^ above);
      }
      bytes packed(expected.size() + of.behind);
      of.pack(seed % 2 == 0 ? moved : wider, width, left_out, packed);
      packed.resize(expected.size());
      CHECK(packed == expected);
      packed.resize(expected.size() + of.behind, std::byte{0x55});  // other data may follow
      CHECK(of.unpack(packed, width, left_out) == moved);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("packed_integers: vectors of 64 bytes are the same", Lane, std::uint16_t,
                   std::uint32_t, std::uint64_t) {
  if (!hcomp::detail::puts_bytes_in_order()) {
    MESSAGE("skipped: this processor has no AVX-512 with VBMI2");
    return;
  }
  check_vectors<Lane>({pack_512<Lane>, unpack_512<Lane>, 64});
}
TEST_CASE_TEMPLATE("packed_integers: vectors of 32 bytes are the same", Lane, std::uint32_t,
                   std::uint64_t) {
  if (hcomp::best_simd_level() == hcomp::simd_level::baseline) {
    MESSAGE("skipped: this processor has no AVX2");
    return;
  }
  check_vectors<Lane>({pack_256<Lane>, unpack_256<Lane>, 17});
}
#endif
