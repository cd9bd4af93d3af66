#pragma once
/// @file
/// Random numbers as a pure function of key and position, independent of threads, SIMD width and
/// device.

#include <array>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <hcomp/core/simd.hpp>

namespace hcomp {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// A Philox counter, then the random words made from it. Word is std::uint32_t, or a vector of
/// 64-bit lanes whose lower halves hold the values and whose upper halves hold garbage.
template <class Word> struct philox_words { Word c0, c1, c2, c3; };

/// Philox4x32-10 on every lane of N x 4 words. Interleaves the N counters to hide the latency of
/// the multiplications.
/// Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011.
template <class Word, int N>
[[gnu::always_inline]] HCOMP_HD inline void philox4x32(philox_words<Word> (&counters)[N],
                                                       std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  HCOMP_UNROLL
  for (int round = 0; round < 10; ++round) {
    HCOMP_UNROLL
    for (int i = 0; i < N; ++i) {
      auto& [c0, c1, c2, c3] = counters[i];
      Word high0, low0, high2, low2;
      multiply_low_halves(high0, low0, c0, 0xd2511f53u);
      multiply_low_halves(high2, low2, c2, 0xcd9e8d57u);
      c0 = high2 ^ c1 ^ k0;
      c1 = low2;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
    }
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
}

#pragma GCC diagnostic pop

/// Philox4x32-10 of one counter.
HCOMP_HD inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                        std::uint64_t key) {
  philox_words<std::uint32_t> words[1] = {{counter[0], counter[1], counter[2], counter[3]}};
  philox4x32(words, key);
  auto const& [c0, c1, c2, c3] = words[0];
  return {c0, c1, c2, c3};
}

/// A bijective 64-bit finaliser: spreads every input bit over the whole word.
/// Source: the finaliser of SplitMix64; Steele, Lea and Flood, OOPSLA 2014.
HCOMP_HD constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// The inputs of all random draws of one call; equal on all ranks.
struct draw_key {
  std::uint64_t seed = 0;    ///< chosen by the user
  std::uint64_t step = 0;    ///< training step or call number: fresh draws every step
  std::uint64_t tensor = 0;  ///< identifies the vector, if one step reduces several
  std::uint64_t group = 0;   ///< identifies the set of ranks; 0: all ranks of the job, or the only
                             ///< set

  friend bool operator==(draw_key const&, draw_key const&) = default;
};

/// The Philox key of a call: 64 bits derived by Philox from all of `key`. The group is mixed in
/// last.
HCOMP_HD inline std::uint64_t philox_key(draw_key const& key) {
  auto const draw = [](std::uint64_t a, std::uint64_t b, std::uint64_t from) {
    auto const words =
        philox4x32({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
                    static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32)},
                   from);
    return std::uint64_t{words[1]} << 32 | words[0];
  };
  std::uint64_t const call = draw(key.step, key.tensor, key.seed);
  return key.group == 0 ? call : draw(key.group, 0, call);
}

}  // namespace hcomp
