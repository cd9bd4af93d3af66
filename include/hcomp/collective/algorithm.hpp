#pragma once
/// @file
/// Which way an all-reduce goes: a value that can be read from a command line.

#include <array>
#include <charconv>
#include <hcomp/core/detail/error_text.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hcomp {

enum class algorithm_kind { ring, torus, direct, owner, doubling, aggregator };

namespace detail {

struct algorithm_name {
  algorithm_kind kind;
  std::string_view name;
};
inline constexpr std::array algorithm_names{
    algorithm_name{algorithm_kind::ring, "ring"},
    algorithm_name{algorithm_kind::torus, "torus"},
    algorithm_name{algorithm_kind::direct, "direct"},
    algorithm_name{algorithm_kind::doubling, "doubling"},
    algorithm_name{algorithm_kind::owner, "owner"},
    algorithm_name{algorithm_kind::aggregator, "aggregator"}};

}  // namespace detail

/// ring: neighbours only, bandwidth-optimal. torus: rings in rows and columns, fewer hops.
/// direct: all-to-all and all-gather, two steps of latency. doubling: pairs of ranks, then pairs of
/// pairs, exchange all they have: fewest messages, for short vectors. owner: only for codec `sign`,
/// every rank ships only the bits that were drawn from it, half the bytes. aggregator: rank 0 adds
/// up what all others send, and answers: what the others are compared with.
struct algorithm {
  algorithm_kind kind = algorithm_kind::ring;
  int rows = 0;     ///< torus only; 0: as square as the number of ranks allows
  int columns = 0;  ///< torus only

  friend bool operator==(algorithm const&, algorithm const&) = default;

  /// "ring", "torus", "torus:RxC", "direct", "doubling", "owner" or "aggregator".
  /// @throws std::invalid_argument  anything else
  [[gnu::cold]] static algorithm from(std::string_view text) {
    for (auto const& one : detail::algorithm_names)
      if (text == one.name) return {one.kind, 0, 0};
    if (text.starts_with("torus:")) {
      algorithm torus{algorithm_kind::torus, 0, 0};
      char const* const end = text.data() + text.size();
      auto const rows = std::from_chars(text.data() + 6, end, torus.rows);
      if (rows.ec == std::errc{} && rows.ptr != end && *rows.ptr == 'x') {
        auto const columns = std::from_chars(rows.ptr + 1, end, torus.columns);
        if (columns.ec == std::errc{} && columns.ptr == end && torus.rows > 0 && torus.columns > 0)
          return torus;
      }
    }
    throw std::invalid_argument(
        detail::error_text({"no algorithm is called '", text,
                            "'; hcomp has: ring, torus, torus:RxC (such as torus:2x4), "
                            "direct, doubling, owner, aggregator"}));
  }

  [[gnu::cold]] std::string name() const {
    std::string text;
    for (auto const& one : detail::algorithm_names)
      if (one.kind == kind) text = one.name;
    if (rows != 0) text += ":" + std::to_string(rows) + "x" + std::to_string(columns);
    return text;
  }

  /// Ranks that share the blocks out among them: all, but with `owner` each works on all of them.
  int sharers(int ranks) const { return kind == algorithm_kind::owner ? 1 : ranks; }

  /// A torus with both sides known.
  /// @throws std::invalid_argument  rows * columns is not the number of ranks
  [[gnu::cold]] algorithm fitted(int ranks) const {
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
};

}  // namespace hcomp
