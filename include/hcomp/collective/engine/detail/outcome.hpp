#pragma once
/// @file
/// The outcome of a collective on one rank, as a record with which all ranks throw the same error.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <hcomp/collective/agreement/agreement.hpp>
#include <hcomp/core/detail/error_text.hpp>
#include <hcomp/core/error.hpp>
#include <hcomp/transport/transport.hpp>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace hcomp::detail {

enum class error_kind : std::uint32_t {
  none,
  argument,
  memory,
  disagreement,
  nonfinite,
  wire,
  transport,
  other
};

struct outcome {
  std::uint64_t call = 0;
  error_kind kind = error_kind::none;
  char text[244] = {};

  outcome() = default;
  outcome(error_kind what, std::string_view words) : kind(what) {
    words.copy(text, sizeof text - 1);
  }
  bool has_failed() const { return kind != error_kind::none; }
  /// @throws the recorded error; returns if there is none
  void raise() const {
    switch (kind) {
      case error_kind::none: return;
      case error_kind::argument: throw std::invalid_argument(text);
      case error_kind::memory: throw memory_error(text);
      case error_kind::disagreement: throw disagreement_error(text);
      case error_kind::nonfinite: throw nonfinite_error(text);
      case error_kind::wire: throw wire_error(text);
      case error_kind::transport: throw transport_error(-1, text);
      case error_kind::other: throw std::runtime_error(text);
    }
  }
};

/// Does not catch transport_error: other ranks learn of the failed rank themselves.
template <class F> outcome outcome_of(F const& f) {
  try {
    f();
    return {};
  } catch (memory_error const& error) {
    return {error_kind::memory, error.what()};
  } catch (std::invalid_argument const& error) {
    return {error_kind::argument, error.what()};
  } catch (disagreement_error const& error) {
    return {error_kind::disagreement, error.what()};
  } catch (nonfinite_error const& error) {
    return {error_kind::nonfinite, error.what()};
  } catch (wire_error const& error) {
    return {error_kind::wire, error.what()};
  } catch (transport_error const&) {
    throw;
  } catch (std::exception const& error) {
    return {error_kind::other, error.what()};
  }
}

/// Catches transport_error, too: for links that the ranks' common transport does not use.
template <class F> outcome outcome_with_links(F const& f) {
  try {
    return outcome_of(f);
  } catch (transport_error const& error) {
    return {error_kind::transport, error.what()};
  }
}

/// If a rank has failed, all ranks throw the error of the first such rank. Collective.
///
/// Cost: ceil(log2 P) small messages without an error.
template <Transport T> void raise_on_all(T& transport, tag_t tag, outcome const& mine) {
  std::uint64_t has_failed = mine.has_failed();
  unite_records(transport, tag, has_failed, [](auto& a, auto b) { a |= b; });
  if (!has_failed) return;
  std::vector<outcome> all;
  all_gather_records(transport, tag, mine, all);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].has_failed())
      outcome(all[rank].kind, error_text({"rank ", rank, ": ", all[rank].text})).raise();
}

}  // namespace hcomp::detail
