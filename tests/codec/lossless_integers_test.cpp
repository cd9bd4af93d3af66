/// @file
/// lossless_integers: compression ratios and the format. variable_rate_laws_test.cpp tests what all
/// variable-rate codecs have in common.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/core/random.hpp>
#include <support/encoded_vectors.hpp>
#include <support/integers.hpp>
#include <support/lossless_encodings.hpp>
#include <vector>

using hcomp::lossless_integers;
using namespace hcomp::testing;

TEST_CASE("lossless_integers: 64 values take the bits in which they differ") {
  // of 64 values a byte, of 1024 four; the first or least value, where it is there, and the bits
  auto const per_block = [](double bytes) { return bytes + 1 + 4. / 16 + 24. / 256; };
  std::size_t const n = 1 << 14;
  auto const ratio = [&](int kind) {
    return ratio_of(lossless_integers<std::int64_t>(), integers_of_kind<std::int64_t>(kind, n, 3));
  };
  CHECK(ratio(0) >= 512 / per_block(7 * 8));       // 0 to 99
  CHECK(ratio(2) >= 512 / per_block(2 * 8));       // 0 to 2
  CHECK(ratio(4) >= 512 / per_block(8 + 7 * 8));   // differences up to 49, and a sign
  CHECK(ratio(5) >= 512 / per_block(8 + 11 * 8));  // -1000 to 1000
  CHECK(ratio(6) >= 512 / per_block(4 * 8));       // 10
  CHECK(ratio(8) >= 512 / per_block(8 + 10 * 8));  // the largest less up to 999
  CHECK(ratio_of(lossless_integers<std::int64_t>(), std::vector<std::int64_t>(n)) >=
        512 / per_block(0));
  CHECK(ratio_of(lossless_integers<std::int64_t>(), std::vector<std::int64_t>(n, -5)) >=
        512 / per_block(8));
  CHECK(ratio(0) < 9.2);  // it could not be
  // large unsigned values are not taken for negative ones
  std::vector<std::uint32_t> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = 0x7fffff00u + static_cast<std::uint32_t>(hcomp::mix(i) % 512);
  CHECK(ratio_of(lossless_integers<std::uint32_t>(), x) >= 256 / per_block(4 + 9 * 8));
}

TEST_CASE("lossless_integers: codes of unsigned integers are read as those of signed ones") {
  auto const x = integers_of_kind<std::uint32_t>(3, 3000, 4);
  std::vector<std::int32_t> const y(x.begin(), x.end());
  CHECK(decoded(lossless_integers<std::int32_t>(), encoded(lossless_integers<std::uint32_t>(), x),
                x.size()) == y);
}

TEST_CASE_TEMPLATE("lossless_integers: forms that no block has are refused", T, std::int32_t,
                   std::int64_t) {
  lossless_integers<T> const codec;
  auto const refuses = [&](unsigned form) {
    return refuses_form(codec, integers_of_kind<T>(0, 64, 3), static_cast<std::uint8_t>(form));
  };
  CHECK_FALSE(refuses(7));     // as it is
  CHECK(refuses(8));           // more bits than there are
  CHECK(refuses(3 << 6));      // plain
  CHECK(refuses(3 << 6 | 7));  // plain, in so many bits
}

TEST_CASE_TEMPLATE("lossless_integers: the format is this", T, std::int32_t, std::int64_t) {
  lossless_integers<T> const codec;
  auto const all = fingerprint_of_encodings(
      codec, kinds_of_integers, [](int kind) { return integers_of_kind<T>(kind, 1500, 9); });
  CHECK(all == (sizeof(T) == 4 ? 15680789677756403040u : 1523713503313474485u));
}
