/// @file
/// lossless_integers: that values come back, sums wrap around as MPI's, how long codes are, damage,
/// and the format.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <hcomp/codec/lossless_integers/lossless_integers.hpp>
#include <hcomp/core/bits.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/core/group.hpp>
#include <hcomp/core/hash.hpp>
#include <hcomp/core/random.hpp>
#include <stdexcept>
#include <support/codes.hpp>
#include <support/integers.hpp>
#include <vector>

using hcomp::lossless_integers;
using hcomp::testing::encoded;
using hcomp::testing::integers_of_kind;
using hcomp::testing::kinds_of_integers;
using hcomp::testing::merged;
using hcomp::testing::refused_when_damaged;
using hcomp::testing::wrapped_sum;

namespace {

using bytes = hcomp::testing::code_bytes;

template <class T> std::vector<T> decoded(bytes const& in, std::size_t n) {
  std::vector<T> y(n, T{77});
  lossless_integers<T>().decode(in, y);
  return y;
}
template <class T> double ratio_of(std::vector<T> const& x) {
  return static_cast<double>(x.size() * sizeof(T)) /
         static_cast<double>(encoded(lossless_integers<T>(), x).size());
}

}  // namespace

TEST_CASE_TEMPLATE("lossless_integers: values come back, whatever they are", T, std::int32_t,
                   std::int64_t, std::uint32_t, std::uint64_t) {
  lossless_integers<T> const codec;
  for (int kind = 0; kind < kinds_of_integers; ++kind)
    for (std::size_t const n : {0, 1, 2, 63, 64, 65, 128, 1000, 1023, 1024, 1025, 5000}) {
      CAPTURE(kind);
      CAPTURE(n);
      auto const x = integers_of_kind<T>(kind, n, static_cast<std::uint64_t>(kind) * 10 + n);
      auto const code = encoded(codec, x);
      CHECK(decoded<T>(code, n) == x);
      // 1 % more than the values, and what is in front
      CHECK(static_cast<double>(code.size()) <=
            1.01 * static_cast<double>(n * sizeof(T)) + 24 + 4 + 1);
    }
}

TEST_CASE_TEMPLATE("lossless_integers: sums wrap around", T, std::int32_t, std::int64_t,
                   std::uint32_t, std::uint64_t) {
  lossless_integers<T> const codec;
  for (int kind = 0; kind < kinds_of_integers; ++kind)
    for (std::size_t const n : {1, 64, 1000, 3000}) {
      CAPTURE(kind);
      CAPTURE(n);
      auto const x = integers_of_kind<T>(kind, n, 1), y = integers_of_kind<T>((kind + 6) % 9, n, 2);
      auto const sum = wrapped_sum(x, y);
      auto const a = encoded(codec, x), b = encoded(codec, y);
      CHECK(decoded<T>(merged(codec, a, b), n) == sum);
      CHECK(merged(codec, a, b) == encoded(codec, sum));
      CHECK(merged(codec, a, b) == merged(codec, b, a));
      bytes out(codec.capacity(n));
      out.resize(codec.decode_add_encode(a, y, out));
      CHECK(out == encoded(codec, sum));
      auto added = y;
      codec.decode_add(a, added);
      CHECK(added == sum);
    }
}

TEST_CASE("lossless_integers: 64 values take the bits in which they differ") {
  // of 64 values a byte, of 1024 four; the first or least value, where it is there, and the bits
  auto const per_block = [](double bytes) { return bytes + 1 + 4. / 16 + 24. / 256; };
  std::size_t const n = 1 << 14;
  auto const ratio = [&](int kind) { return ratio_of(integers_of_kind<std::int64_t>(kind, n, 3)); };
  CHECK(ratio(0) >= 512 / per_block(7 * 8));       // 0 to 99
  CHECK(ratio(2) >= 512 / per_block(2 * 8));       // 0 to 2
  CHECK(ratio(4) >= 512 / per_block(8 + 7 * 8));   // differences up to 49, and a sign
  CHECK(ratio(5) >= 512 / per_block(8 + 11 * 8));  // -1000 to 1000
  CHECK(ratio(6) >= 512 / per_block(4 * 8));       // 10
  CHECK(ratio(8) >= 512 / per_block(8 + 10 * 8));  // the largest less up to 999
  CHECK(ratio_of(std::vector<std::int64_t>(n)) >= 512 / per_block(0));
  CHECK(ratio_of(std::vector<std::int64_t>(n, -5)) >= 512 / per_block(8));
  CHECK(ratio(0) < 9.2);  // it could not be
  // large unsigned values are not taken for negative ones
  std::vector<std::uint32_t> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = 0x7fffff00u + static_cast<std::uint32_t>(hcomp::mix(i) % 512);
  CHECK(ratio_of(x) >= 256 / per_block(4 + 9 * 8));
}

TEST_CASE("lossless_integers: codes of unsigned integers are read as those of signed ones") {
  auto const x = integers_of_kind<std::uint32_t>(3, 3000, 4);
  std::vector<std::int32_t> const y(x.begin(), x.end());
  CHECK(decoded<std::int32_t>(encoded(lossless_integers<std::uint32_t>(), x), x.size()) == y);
}

TEST_CASE_TEMPLATE("lossless_integers: damaged codes are refused or read within their bytes", T,
                   std::int32_t, std::int64_t) {
  lossless_integers<T> const codec;
  for (int const kind : {0, 3, 4}) {
    CAPTURE(kind);
    auto const right = encoded(codec, integers_of_kind<T>(kind, 1500, 3));
    // of draws that may leave a code as it was
    CHECK(refused_when_damaged(codec, right, 1500, 24 + 8 + 16) > 1500);
  }
  CHECK_THROWS_WITH_AS(codec.check(encoded(codec, std::vector<T>(5)), 6),
                       "lossless_integers: 5 values, 6 were expected", hcomp::wire_error);
  bytes small(10);
  CHECK_THROWS_AS(codec.encode(std::vector<T>(5), small), std::invalid_argument);
  auto code = encoded(codec, integers_of_kind<T>(0, 64, 3));
  auto const refuses = [&](unsigned form) {
    code[28] = static_cast<std::byte>(form);  // behind 24 and 4 bytes
    try {
      codec.check(code, 64);
    } catch (hcomp::wire_error const&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(refuses(7));     // as it is
  CHECK(refuses(8));           // more bits than there are
  CHECK(refuses(3 << 6));      // plain
  CHECK(refuses(3 << 6 | 7));  // plain, in so many bits
}

TEST_CASE_TEMPLATE("lossless_integers: the format is this", T, std::int32_t, std::int64_t) {
  lossless_integers<T> const codec;
  auto const fingerprint = [](bytes const& of) {
    return hcomp::fingerprint(hcomp::serial_group{}, of.data(), of.size());
  };
  std::uint64_t all = 0;
  for (int kind = 0; kind < kinds_of_integers; ++kind)
    all = hcomp::mix(all + fingerprint(encoded(codec, integers_of_kind<T>(kind, 1500, 9))));
  CHECK(all == (sizeof(T) == 4 ? 15680789677756403040u : 1523713503313474485u));
}
