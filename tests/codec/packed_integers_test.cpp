/// @file
/// Integers of any number of bits, one behind the other: bit by bit, by words and by vectors.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/detail/packed_integers.hpp>
#include <hcomp/core/random.hpp>
#include <vector>

using hcomp::detail::pack_integers;
using hcomp::detail::packed_bytes;
using hcomp::detail::unpack_integers;
using hcomp::detail::with_sign;

namespace {

using bytes = std::vector<std::byte>;
using integers = std::vector<std::int64_t>;

/// Of so many bits, the least and the greatest among them.
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

TEST_CASE("packed_integers: the bits of one are behind those of the other, of any width") {
  for (int width = 0; width <= 64; ++width)
    for (std::size_t const n : {0, 1, 2, 7, 8, 9, 31, 32, 33, 100}) {
      CAPTURE(width);
      CAPTURE(n);
      auto const q = of_width(width, n, static_cast<std::uint64_t>(width));
      auto const expected = bit_by_bit(q, width);
      bytes packed;
      packed.reserve(1);  // no null pointer
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

[[HCOMP_TARGET_VBMI]] void by_vectors(integers const& q, int width, std::byte* packed) {
  hcomp::detail::eight_integers_packer const packer(width);
  packer.pack(_mm512_loadu_si512(q.data()), packed);
}
[[HCOMP_TARGET_VBMI]] integers by_vectors(bytes const& packed, int width, std::size_t given) {
  hcomp::detail::eight_integers_packer const packer(width);
  integers q(8);
  __m512i eight;
  packer.unpack(packed.data(), given, eight);
  _mm512_storeu_si512(q.data(), eight);
  return q;
}

}  // namespace

TEST_CASE("packed_integers: eight at a time by vectors are the same") {
  if (!hcomp::detail::puts_bytes_in_order()) {
    MESSAGE("skipped: this processor has no AVX-512 with VBMI");
    return;
  }
  for (int width = 0; width <= hcomp::detail::eight_integers_packer::most_bits; ++width)
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(width);
      auto const q = of_width(width, 8, seed * 100 + static_cast<std::uint64_t>(width));
      auto const expected = bit_by_bit(q, width);
      auto wider = q;  // higher bits do not count
      for (auto& one : wider)
        one ^=
            width == 0 ? ~std::int64_t{0} : static_cast<std::int64_t>(~std::uint64_t{0} << width);
      bytes packed(64);
      by_vectors(seed % 2 == 0 ? q : wider, width, packed.data());
      packed.resize(expected.size());
      CHECK(packed == expected);
      CHECK(by_vectors(packed, width, packed.size()) == q);
      if (width % 8 != 0) continue;
      auto first = q;
      for (std::size_t i = 3; i < 8; ++i) first[i] = 0;
      bytes const three(packed.begin(), packed.begin() + 3 * width / 8);
      CHECK(by_vectors(three, width, three.size()) == first);
    }
}
#endif
