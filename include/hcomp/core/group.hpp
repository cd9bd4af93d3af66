#pragma once
/// @file
/// Groups: the workers that process one block together. One worker on a CPU; a warp or a thread
/// block on a GPU.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <utility>

namespace hcomp {

/// An exclusive prefix sum (over the workers below this one) and the total.
struct running_sums {
  std::uint64_t before, all;
};

/// One worker per block: plain code, the reference in every test.
struct serial_group {
  static constexpr int workers = 1;

  HCOMP_HD int worker() const { return 0; }
  HCOMP_HD void sync() const {}
  HCOMP_HD bool any(bool value) const { return value; }
  HCOMP_HD std::uint64_t sum(std::uint64_t value) const { return value; }
  HCOMP_HD running_sums running_sum(std::uint64_t value) const { return {0, value}; }
};

/// One CPU worker that may use SIMD instructions if the codec has a SIMD path. Same bytes.
struct simd_group : serial_group {};

/// A group whose workers are in warps of 32 with warp-level primitives.
///
/// `vote` returns one bit per lane of the warp, the first lane in the lowest bit. `xor_shuffle`
/// returns the value of the lane whose number is one's own XOR `distance`. `lane_value` returns the
/// value of the given lane. All lanes of a warp must call together; other warps need not.
template <class G>
concept HasWarps = G::workers % 32 == 0 && requires(G const group) {
  { group.vote(true) } -> std::same_as<std::uint32_t>;
  { group.xor_shuffle(1.0f, 16) } -> std::same_as<float>;
  { group.xor_shuffle(1.0, 16) } -> std::same_as<double>;
  { group.lane_value(1u, 16) } -> std::same_as<unsigned>;
};

/// A group whose warps can work independently.
///
/// `own_warp(bytes)` returns this worker's warp as a group of 32, with `bytes` bytes of the group's
/// shared memory, a multiple of 16; `warp()` is its index, below `warps`. At a barrier of the group
/// all warps must arrive. `running_sum_of_warps(value)` is a prefix sum of one value per warp; it
/// returns the same to all lanes of a warp.
template <class G>
concept WorksByWarps = HasWarps<G> && HasWarps<decltype(std::declval<G const&>().own_warp(16))> &&
    requires(G const group) {
  requires G::warps == G::workers / 32;
  { group.warp() } -> std::same_as<int>;
  { group.running_sum_of_warps(std::uint64_t{}) } -> std::same_as<running_sums>;
};

/// Workers per team, for thread blocks of several teams.
inline constexpr int workers_of_team = 128;

/// A group of teams that can work independently.
///
/// `own_team()` returns this worker's team, a group with warps; `team()` is its index, below
/// `teams`. At a barrier of the group all teams must arrive.
template <class G>
concept HasTeams = HasWarps<G> && HasWarps<decltype(std::declval<G const&>().own_team())> &&
    requires(G const group) {
  requires G::workers / G::teams == decltype(group.own_team())::workers;
  { group.team() } -> std::same_as<int>;
};

/// Work whose blocks can be split into pieces, for several groups of `piece_workers` at the same
/// time.
///
/// Instead of work(group, i), an executor may call work.piece(group, i, k) for all k <
/// work.pieces(), with groups that have piece_scratch_bytes() of scratch. `piece` may return a
/// bool, the same in every worker. Then the group that finishes the last piece of block i calls
/// work.close(group, i, any), where `any` is the logical OR over the pieces. `close` must not read
/// data that pieces wrote.
template <class Work>
concept WorksByPieces = requires(Work const& work) {
  { Work::piece_workers } -> std::convertible_to<int>;
  { work.pieces() } -> std::same_as<int>;
  { work.piece_scratch_bytes() } -> std::same_as<std::size_t>;
};

namespace detail {

/// The preferred number of workers per block, as declared by work or a codec; 0: no preference.
template <class T> constexpr int workers_of() {
  if constexpr (requires { T::workers; })
    return T::workers;
  else
    return 0;
}

/// The number of workers per piece of a block, as declared by work or a codec; 0: blocks have no
/// pieces.
template <class T> constexpr int piece_workers_of() {
  if constexpr (requires { T::piece_workers; })
    return T::piece_workers;
  else
    return 0;
}

/// The preferred number of concurrent blocks per multiprocessor, as declared by work; 0: no
/// preference.
template <class Work> constexpr int blocks_at_once_of() {
  if constexpr (requires { Work::blocks_at_once; })
    return Work::blocks_at_once;
  else
    return 0;
}

}  // namespace detail
}  // namespace hcomp
