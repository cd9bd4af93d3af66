#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <hcomp/codec/sign/detail/packed_bits.hpp>
#include <support/data.hpp>
#include <support/laws.hpp>
#include <vector>

namespace detail = hcomp::detail;

namespace {

/// Masks of all kinds: empty, full, one bit, dense and sparse.
std::vector<std::uint64_t> masks(std::size_t count, std::uint64_t seed) {
  auto const a = data::words(count, {.seed = seed}), b = data::words(count, {.seed = seed + 1});
  std::vector<std::uint64_t> some(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t const kinds[] = {a[i], a[i] & b[i], a[i] | b[i], 0, ~0ull, 1ull << b[i] % 64};
    some[i] = kinds[a[i] % 6];
  }
  return some;
}
std::byte const* bytes_of(std::vector<std::uint64_t> const& words) {
  return reinterpret_cast<std::byte const*>(words.data());
}
std::byte* bytes_of(std::vector<std::uint64_t>& words) {
  return reinterpret_cast<std::byte*>(words.data());
}

using gather_function = void (*)(std::byte const*, std::byte const*, int,
                                 detail::sign::bit_writer&);
using scatter_function = std::size_t (*)(std::byte const*, std::size_t, std::byte const*, int,
                                         std::byte*);
struct version {
  char const* name;
  gather_function gather;
  scatter_function scatter;
};
std::vector<version> versions() {
  std::vector<version> some{
      {"plain", detail::sign::gather_bits_plain, detail::sign::scatter_bits_plain},
      {"chosen", detail::sign::gather_bits, detail::sign::scatter_bits}};
#if defined(__x86_64__)
  if (hcomp::best_simd_level() >= hcomp::simd_level::avx2)
    some.push_back({"bmi2", detail::sign::gather_bits_bmi2, detail::sign::scatter_bits_bmi2});
#endif
  return some;
}

}  // namespace

TEST_CASE("extract_bits and deposit_bits: move the bits under a mask, in their order") {
  auto const words = data::words(1000, {.seed = 1}), some = masks(1000, 2);
  for (std::size_t i = 0; i < 1000; ++i) {
    std::uint64_t expected = 0;
    int at = 0;
    for (int bit = 0; bit < 64; ++bit)
      if (some[i] >> bit & 1) expected |= (words[i] >> bit & 1) << at++;
    REQUIRE(detail::sign::extract_bits(words[i], some[i]) == expected);
    REQUIRE(detail::sign::deposit_bits(expected, some[i]) == (words[i] & some[i]));
    REQUIRE(detail::sign::deposit_bits(words[i], some[i]) ==
            detail::sign::deposit_bits(
                detail::sign::extract_bits(detail::sign::deposit_bits(words[i], some[i]), some[i]),
                some[i]));
  }
}

TEST_CASE("gather_bits: packs the chosen bits without a gap, whole bytes, and no byte more") {
  for (version const& one : versions())
    for (int const count : {0, 1, 2, 3, 8, 9, 64, 100})
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        CAPTURE(one.name);
        CAPTURE(count);
        CAPTURE(seed);
        auto const n = static_cast<std::size_t>(count);
        auto const words = data::words(n, {.seed = seed});
        auto const some = masks(n, 10 * seed);
        std::vector<bool> bits;
        for (std::size_t w = 0; w < n; ++w)
          for (int bit = 0; bit < 64; ++bit)
            if (some[w] >> bit & 1) bits.push_back(words[w] >> bit & 1);
        laws::guarded out((bits.size() + 7) / 8, 1);
        detail::sign::bit_writer writer{out.data()};
        // In two parts: pending bits pass from the first to the second.
        int const part = count / 3;
        one.gather(bytes_of(words), bytes_of(some), part, writer);
        one.gather(bytes_of(words) + part * 8, bytes_of(some) + part * 8, count - part, writer);
        writer.flush();
        REQUIRE(out.untouched_outside());
        auto const found = out.bytes();
        bool right = true;
        for (std::size_t i = 0; i < found.size() * 8; ++i)
          right &= (std::to_integer<int>(found[i / 8] >> i % 8 & std::byte{1}) != 0) ==
                   (i < bits.size() && bits[i]);
        REQUIRE(right);
      }
}

TEST_CASE("gather_bits: may write over the words it has read") {
  for (version const& one : versions()) {
    CAPTURE(one.name);
    constexpr int count = 100;
    for (auto const& some : {masks(count, 3), std::vector<std::uint64_t>(count, ~0ull)}) {
      auto words = data::words(count, {.seed = 4});
      std::vector<std::uint64_t> apart(count);
      detail::sign::bit_writer writer{bytes_of(apart)};
      one.gather(bytes_of(words), bytes_of(some), count, writer);
      writer.flush();
      detail::sign::bit_writer in_place{bytes_of(words)};
      one.gather(bytes_of(words), bytes_of(some), count, in_place);
      in_place.flush();
      std::size_t bits = 0;
      for (auto const mask : some) bits += static_cast<std::size_t>(std::popcount(mask));
      REQUIRE(std::memcmp(words.data(), apart.data(), (bits + 7) / 8) == 0);
    }
  }
}

TEST_CASE("scatter_bits: restores the output of gather_bits, from any bit on") {
  for (version const& one : versions())
    for (int const count : {0, 1, 2, 9, 100})
      for (std::size_t at = 0; at < 70; ++at) {
        CAPTURE(one.name);
        CAPTURE(count);
        CAPTURE(at);
        auto const n = static_cast<std::size_t>(count);
        auto const words = data::words(n, {.seed = 5}), some = masks(n, 6);
        // Packed bits that begin at bit `at`, with 8 readable bytes behind them.
        std::vector<std::byte> packed((at + 64 * n) / 8 + 1 + 8);
        detail::sign::bit_writer writer{packed.data()};
        std::size_t bits = at;
        for (std::size_t i = 0; i < at; ++i) writer.put(i % 3 == 0, 1);
        one.gather(bytes_of(words), bytes_of(some), count, writer);
        writer.flush();
        for (auto const mask : some) bits += static_cast<std::size_t>(std::popcount(mask));
        std::vector<std::uint64_t> back(n);
        int const part = count / 2;
        std::size_t const middle =
            one.scatter(packed.data(), at, bytes_of(some), part, bytes_of(back));
        REQUIRE(one.scatter(packed.data(), middle, bytes_of(some) + part * 8, count - part,
                            bytes_of(back) + part * 8) == bits);
        for (std::size_t w = 0; w < n; ++w) REQUIRE(back[w] == (words[w] & some[w]));
      }
}

TEST_CASE("scatter_bits: leaves the bits outside the masks as they were") {
  for (version const& one : versions()) {
    CAPTURE(one.name);
    auto const some = masks(50, 7);
    std::vector<std::uint64_t> words = data::words(50, {.seed = 8}), expected = words;
    std::vector<std::byte> const zeros(50 * 8 + 8);
    one.scatter(zeros.data(), 3, bytes_of(some), 50, bytes_of(words));
    CHECK(words == expected);
  }
}
