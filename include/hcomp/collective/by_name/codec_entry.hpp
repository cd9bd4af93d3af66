#pragma once
/// @file
/// The codecs that can be chosen by name at run time, a row each. make_codec_entry.hpp makes rows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp {
namespace detail {

struct codec_probe;

}  // namespace detail

/// What a plan by name is made for.
struct plan_request {
  codec_settings const& settings;
  std::size_t values;
  any_transport& transport;
  host_executor& executor;
  plan_options options;
  std::uint32_t total_weight;  ///< largest of a sum; the ranks if all weights are 1
};

/// What a codec's costs are measured for.
struct cost_request {
  codec_settings const& settings;
  host_executor& executor;
  std::uint32_t total_weight;  ///< as in plan_request
  detail::codec_probe const& probe;
};

/// A codec for values of type V, and how a plan of it is made.
template <class V> struct codec_entry : codec_info {
  /// Throws std::invalid_argument if settings do not go together, or are between those in range.
  void (*check)(codec_settings const&);
  std::unique_ptr<detail::plan_body<V>> (*make)(plan_request const&);
  /// See measure_codec. None: nobody knows, and automatic_plan does not choose it.
  codec_cost (*measure)(cost_request const&) = nullptr;
};

/// Rows of codecs for values of one type.
template <class V> class codec_registry {
 public:
  /// @param more  said of a codec that it has not: where others are
  explicit codec_registry(std::vector<codec_entry<V>> rows, std::string more = {})
      : more_(std::move(more)) {
    for (auto& row : rows) add(std::move(row));
  }

  /// @throws std::invalid_argument  a name of it is taken
  void add(codec_entry<V> row) {
    auto names = row.also;
    names.push_back(row.name);
    for (auto const& name : names)
      if (find(name))
        throw std::invalid_argument("codec_registry: there is a codec '" + name + "' already");
    rows_.push_back(std::make_unique<codec_entry<V>>(std::move(row)));
  }
  /// None if no codec is called so.
  codec_entry<V> const* find(std::string_view name) const {
    for (auto const& row : rows_)
      if (row->is_called(name)) return row.get();
    return nullptr;
  }
  /// @throws std::invalid_argument  no codec is called so; the text lists those that exist
  codec_entry<V> const& at(std::string_view name) const {
    if (auto const* const row = find(name)) return *row;
    throw std::invalid_argument("no codec is called '" + detail::printable(name) +
                                "'; hcomp has: " + names() + more_);
  }
  std::string names() const {
    std::string all;
    for (auto const& row : rows_) all += (all.empty() ? "" : ", ") + row->name;
    return all;
  }
  /// f(row) for every row.
  template <class F> void for_each(F const& f) const {
    for (auto const& row : rows_) f(*row);
  }

 private:
  std::vector<std::unique_ptr<codec_entry<V>>> rows_;  // rows stay where they are
  std::string more_;
};

/// A codec with its settings, read from text.
template <class V> struct named_codec {
  codec_entry<V> const* row;
  codec_settings settings;

  /// "thc:bits=4"; codec_from(table, text()) is the same again.
  std::string text() const {
    auto const values = settings.text();
    return values.empty() ? row->name : row->name + ":" + values;
  }
};

/// Reads `name`, `name:value` or `name:key=value,key=value`, such as "fp16", "error_bounded:1e-4" or
/// "thc:bits=4,transform=64"; the key of a lone value is the codec's first. Spaces separate as well: "thc bits=4".
/// @throws std::invalid_argument  no such codec, key or value, or a key that must be given is not;
///                                the text says what there is
template <class V>
named_codec<V> codec_from(codec_registry<V> const& table, std::string_view text) {
  auto const colon = table.find(text) ? text.npos : text.find_first_of(": ");
  auto const& row = table.at(text.substr(0, colon));
  named_codec<V> found{&row, codec_settings(row)};
  try {
    std::vector<std::string_view> seen;
    auto const set = [&](std::string_view key, std::string_view value) {
      if (std::ranges::find(seen, key) != seen.end())
        throw std::invalid_argument("'" + std::string(key) + "' stands there twice");
      seen.push_back(key);
      found.settings.set(key, value);
    };
    for (auto at = colon; at != text.npos;) {  // before a word
      auto const end = text.find_first_of(", ", at + 1);
      auto const word = text.substr(at + 1, end - at - 1);
      if (auto const equals = word.find('='); equals != word.npos)
        set(word.substr(0, equals), word.substr(equals + 1));
      else if (at == colon && !word.empty() && !row.keys.empty())
        set(row.keys.front().name, word);
      else
        throw std::invalid_argument("'" + std::string(word) + "' is no key=value");
      at = end;
    }
    found.settings.require_all();
    row.check(found.settings);
  } catch (std::invalid_argument const& why) {
    throw std::invalid_argument(
        detail::printable("codec '" + std::string(text) + "': " + why.what()));
  }
  return found;
}

}  // namespace hcomp
