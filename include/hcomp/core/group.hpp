#pragma once
/// @file
/// Who works on one block together: one worker on a CPU, a warp or a thread block on a GPU.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <hcomp/core/config.hpp>
#include <utility>

namespace hcomp {

/// What the workers below this one brought, and all together.
struct running_sums {
  std::uint64_t before, all;
};

/// One worker does a whole block alone: plain code, the reference in every test.
struct serial_group {
  static constexpr int workers = 1;

  HCOMP_HD int worker() const { return 0; }
  HCOMP_HD void sync() const {}
  HCOMP_HD bool any(bool value) const { return value; }
  HCOMP_HD std::uint64_t sum(std::uint64_t value) const { return value; }
  HCOMP_HD running_sums running_sum(std::uint64_t value) const { return {0, value}; }
};

/// One CPU worker that may use SIMD instructions where a codec has a fast path for them. Same
/// bytes.
struct simd_group : serial_group {};

/// A group whose workers are in warps of 32, which see each other's values without memory.
///
/// `vote` gives a bit of every lane of the warp, that of its first lane lowest; `xor_shuffle` the
/// value of the lane whose number in the warp differs from one's own by the bits of `distance`,
/// `lane_value` that of the lane of this number. All lanes of a warp must call, none of another has
/// to.
template <class G>
concept HasWarps = G::workers % 32 == 0 && requires(G const group) {
  { group.vote(true) } -> std::same_as<std::uint32_t>;
  { group.xor_shuffle(1.0f, 16) } -> std::same_as<float>;
  { group.xor_shuffle(1.0, 16) } -> std::same_as<double>;
  { group.lane_value(1u, 16) } -> std::same_as<unsigned>;
};

/// A group whose warps can work apart.
///
/// `own_warp(bytes)` is a worker's warp, a group of 32 with so many bytes of the memory that all
/// share, a multiple of 16; `warp()` its number, below `warps`. All warps must meet where workers of
/// the group do. `running_sum_of_warps(value)` is of one number of each warp, the same to its lanes.
template <class G>
concept WorksByWarps = HasWarps<G> && HasWarps<decltype(std::declval<G const&>().own_warp(16))> &&
    requires(G const group) {
  requires G::warps == G::workers / 32;
  { group.warp() } -> std::same_as<int>;
  { group.running_sum_of_warps(std::uint64_t{}) } -> std::same_as<running_sums>;
};

/// Of a thread block of several teams.
inline constexpr int workers_of_team = 128;

/// A group that consists of teams, which can work apart.
///
/// `own_team()` is a worker's team, a group with warps; `team()` its number, below `teams`. All teams must
/// meet where workers of the group do.
template <class G>
concept HasTeams = HasWarps<G> && HasWarps<decltype(std::declval<G const&>().own_team())> &&
    requires(G const group) {
  requires G::workers / G::teams == decltype(group.own_team())::workers;
  { group.team() } -> std::same_as<int>;
};

/// Work whose blocks can be done in pieces, by several groups of `piece_workers` at the same time.
///
/// Instead of work(group, i), an executor may call work.piece(group, i, k) for all k < work.pieces(), for groups
/// with piece_scratch_bytes() of scratch. Where `piece` returns a bool, the same in every worker, work.close(group,
/// i, any) has to follow, by a group that was the last to do a piece of block i: `any` says whether one of them
/// returned true. `close` must not read what pieces wrote.
template <class Work>
concept WorksByPieces = requires(Work const& work) {
  { Work::piece_workers } -> std::convertible_to<int>;
  { work.pieces() } -> std::same_as<int>;
  { work.piece_scratch_bytes() } -> std::same_as<std::size_t>;
};

namespace detail {

/// How many workers each block should have, by what work or a codec says; 0: it says nothing.
template <class T> constexpr int workers_of() {
  if constexpr (requires { T::workers; })
    return T::workers;
  else
    return 0;
}

/// How many workers each piece of a block has, by what work or a codec says; 0: blocks have no pieces.
template <class T> constexpr int piece_workers_of() {
  if constexpr (requires { T::piece_workers; })
    return T::piece_workers;
  else
    return 0;
}

/// On how many blocks a multiprocessor should work at once, by what work says; 0: it says nothing.
template <class Work> constexpr int blocks_at_once_of() {
  if constexpr (requires { Work::blocks_at_once; })
    return Work::blocks_at_once;
  else
    return 0;
}

}  // namespace detail
}  // namespace hcomp
