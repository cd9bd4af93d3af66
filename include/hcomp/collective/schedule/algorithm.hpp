#pragma once
/// @file
/// All-reduce algorithms as values that can be parsed from a command line. An algorithm consists of
/// a row of detail::algorithm_rows and a function that makes its schedule.

#include <array>
#include <charconv>
#include <cstdint>
#include <hcomp/collective/schedule/detail/schedules.hpp>
#include <hcomp/collective/schedule/schedule.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hcomp {

/// The numbers are part of the wire format.
enum class algorithm_kind { ring, torus, direct, sampled, recursive_doubling, aggregator };

/// An all-reduce algorithm.
///
/// - ring: neighbours only, bandwidth-optimal
/// - torus: rings in rows and columns, fewer hops
/// - direct: all-to-all, then all-gather; two steps of latency
/// - recursive_doubling: pairs of ranks, then pairs of pairs, exchange all data; fewest messages,
///   for short vectors
/// - sampled: only for codec `sign`; each element is taken from one sampled rank, half the bytes
/// - aggregator: rank 0 adds the vectors of all ranks and sends the result; a baseline
struct algorithm {
  algorithm_kind kind = algorithm_kind::ring;
  int rows = 0;     ///< torus only; 0: as square as the number of ranks allows
  int columns = 0;  ///< torus only
  /// Ranks of one node reduce exactly, and each exchanges a share with other nodes by this
  /// algorithm. For hcomp::node::make_plan.
  bool hierarchical = false;

  friend bool operator==(algorithm const&, algorithm const&) = default;

  /// Parses "ring", "torus", "torus:RxC", "direct", "sampled", "recursive_doubling" or
  /// "aggregator"; or "hierarchical" with one of these between nodes, such as
  /// "hierarchical:direct". "hierarchical" alone uses ring.
  /// @throws std::invalid_argument  anything else
  static algorithm from(std::string_view text);
  std::string name() const;

  /// The algorithm between nodes.
  algorithm between_nodes() const {
    auto how = *this;
    how.hierarchical = false;
    return how;
  }
  /// False: ranks send the elements that were drawn from them, and nothing is merged.
  bool merges() const;
  /// The number of ranks that share the blocks: all ranks, or 1 if nothing is merged and each rank
  /// works on all blocks.
  int sharers(int ranks) const { return merges() ? ranks : 1; }
  /// True if after a reduce-scatter every rank owns its own shard.
  bool splits_vector() const;

  /// This algorithm with both sides of a torus.
  /// @throws std::invalid_argument  rows * columns is not the number of ranks
  algorithm fitted(int ranks) const;
};

namespace detail {

/// Properties of an algorithm.
struct algorithm_row {
  algorithm_kind kind;
  std::string_view name;
  /// The schedule of one rank, for a shape that fits the ranks. Null: nothing is merged.
  schedule (*of_rank)(algorithm const& shape, int rank, int ranks);
  bool splits_vector = true;
  bool is_baseline = false;  ///< for comparison; never chosen for its speed
  /// Several ranks send to one at once, and switches drop packets; or more bytes are sent than by a
  /// ring. On links that become slow this costs many times the gain on fast ones.
  bool crowds_links = false;
  int most_ranks = std::numeric_limits<int>::max();
};
inline constexpr std::array algorithm_rows{
    algorithm_row{algorithm_kind::ring, "ring",
                  [](algorithm const&, int rank, int ranks) { return ring_schedule(rank, ranks); }},
    algorithm_row{algorithm_kind::torus, "torus",
                  [](algorithm const& shape, int rank, int) {
                    return torus_schedule(rank, shape.rows, shape.columns);
                  }},
    algorithm_row{.kind = algorithm_kind::direct,
                  .name = "direct",
                  .of_rank = [](algorithm const&, int rank,
                                int ranks) { return direct_schedule(rank, ranks); },
                  .crowds_links = true},
    algorithm_row{.kind = algorithm_kind::recursive_doubling,
                  .name = "recursive_doubling",
                  .of_rank = [](algorithm const&, int rank,
                                int ranks) { return recursive_doubling_schedule(rank, ranks); },
                  .crowds_links = true},
    algorithm_row{.kind = algorithm_kind::sampled,
                  .name = "sampled",
                  .of_rank = nullptr,
                  .splits_vector = false,
                  .crowds_links = true,
                  .most_ranks = 1024},
    algorithm_row{.kind = algorithm_kind::aggregator,
                  .name = "aggregator",
                  .of_rank = [](algorithm const&, int rank,
                                int ranks) { return aggregator_schedule(rank, ranks); },
                  .splits_vector = false,
                  .is_baseline = true}};

constexpr algorithm_row const& facts_of(algorithm_kind kind) {
  for (auto const& row : algorithm_rows)
    if (row.kind == kind) return row;
  return algorithm_rows.front();
}

}  // namespace detail

/// A set of algorithms.
class algorithm_set {
 public:
  constexpr algorithm_set(std::initializer_list<algorithm_kind> kinds) {
    for (auto const kind : kinds) add(kind);
  }
  /// The algorithms that merge.
  static constexpr algorithm_set merging() {
    algorithm_set some{};
    for (auto const& row : detail::algorithm_rows)
      if (row.of_rank) some.add(row.kind);
    return some;
  }

  constexpr void add(algorithm_kind kind) { bits_ |= bit(kind); }
  constexpr void remove(algorithm_kind kind) { bits_ &= ~bit(kind); }
  constexpr bool contains(algorithm_kind kind) const { return (bits_ & bit(kind)) != 0; }
  /// One bit per algorithm, to compare between ranks.
  constexpr std::uint32_t bits() const { return bits_; }

  /// Calls f(kind) for each, in the order of the rows.
  template <class F> constexpr void for_each(F const& f) const {
    for (auto const& row : detail::algorithm_rows)
      if (contains(row.kind)) f(row.kind);
  }
  /// "ring, torus, direct"
  [[gnu::cold]] std::string names() const {
    std::string text;
    for_each([&](algorithm_kind kind) {
      text += (text.empty() ? "" : ", ") + std::string(detail::facts_of(kind).name);
    });
    return text;
  }

 private:
  static constexpr std::uint32_t bit(algorithm_kind kind) { return 1u << static_cast<int>(kind); }

  std::uint32_t bits_ = 0;
};

namespace detail {

inline constexpr std::string_view hierarchical_name = "hierarchical";

}  // namespace detail

[[gnu::cold]] inline algorithm algorithm::from(std::string_view text) {
  if (text == detail::hierarchical_name) return {.hierarchical = true};
  if (std::string_view rest = text; rest.starts_with(detail::hierarchical_name)) {
    rest.remove_prefix(detail::hierarchical_name.size());
    if (rest.starts_with(":") && !rest.substr(1).starts_with(detail::hierarchical_name)) {
      auto how = from(rest.substr(1));
      how.hierarchical = true;
      return how;
    }
  }
  for (auto const& row : detail::algorithm_rows)
    if (text == row.name) return {.kind = row.kind};
  if (text.starts_with("torus:")) {
    algorithm torus{.kind = algorithm_kind::torus};
    char const* const end = text.data() + text.size();
    auto const rows = std::from_chars(text.data() + 6, end, torus.rows);
    if (rows.ec == std::errc{} && rows.ptr != end && *rows.ptr == 'x') {
      auto const columns = std::from_chars(rows.ptr + 1, end, torus.columns);
      if (columns.ec == std::errc{} && columns.ptr == end && torus.rows > 0 && torus.columns > 0)
        return torus;
    }
  }
  std::string names;
  for (auto const& row : detail::algorithm_rows) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (row.kind == algorithm_kind::torus) names += ", torus:RxC (such as torus:2x4)";
  }
  names += ", hierarchical, hierarchical:NAME (another one between nodes)";
  throw std::invalid_argument(detail::error_text(
      {"no algorithm is called '", detail::printable(text), "'; hcomp has: ", names}));
}

[[gnu::cold]] inline std::string algorithm::name() const {
  std::string text(detail::facts_of(kind).name);
  if (rows != 0) text += ":" + std::to_string(rows) + "x" + std::to_string(columns);
  if (!hierarchical) return text;
  std::string const all(detail::hierarchical_name);
  return kind == algorithm_kind::ring ? all : all + ":" + text;
}

inline bool algorithm::merges() const { return detail::facts_of(kind).of_rank != nullptr; }
inline bool algorithm::splits_vector() const { return detail::facts_of(kind).splits_vector; }

[[gnu::cold]] inline algorithm algorithm::fitted(int ranks) const {
  algorithm fit = *this;
  if (kind == algorithm_kind::torus && rows == 0) {
    for (int r = 1; r * r <= ranks; ++r)
      if (ranks % r == 0) fit.rows = r;
    fit.columns = ranks / fit.rows;
  } else if (kind == algorithm_kind::torus && (rows < 0 || long{rows} * columns != ranks)) {
    throw std::invalid_argument(
        detail::error_text({"torus: ", rows, " rows of ", columns, " are ", long{rows} * columns,
                            " places, the transport has ", ranks, " ranks"}));
  }
  return fit;
}

/// The schedule of one rank.
/// @throws std::invalid_argument  a torus that does not have `ranks` places, or an algorithm that
///                                merges nothing
[[gnu::cold]] inline schedule make_schedule(algorithm const& how, int rank, int ranks) {
  if (how.hierarchical)
    throw std::invalid_argument("make_schedule: algorithm '" + how.name() +
                                "' has a schedule for nodes, not for ranks");
  auto const shape = how.fitted(ranks);
  auto const& row = detail::facts_of(how.kind);
  if (row.of_rank) return row.of_rank(shape, rank, ranks);
  throw std::invalid_argument("make_schedule: algorithm '" + how.name() +
                              "' merges nothing and has no schedule");
}

namespace detail {

/// The longest schedule of any rank: that of rank 0 or 1 in every algorithm.
[[gnu::cold]] inline schedule longest_schedule(algorithm const& how, int ranks) {
  auto first = make_schedule(how, 0, ranks);
  if (ranks == 1) return first;
  auto second = make_schedule(how, 1, ranks);
  bool const longer =
      second.reduce.size() + second.gather.size() > first.reduce.size() + first.gather.size();
  return longer ? second : first;
}

}  // namespace detail
}  // namespace hcomp
