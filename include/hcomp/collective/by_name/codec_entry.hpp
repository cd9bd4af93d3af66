#pragma once
/// @file
/// The codecs that can be chosen by name at run time, an entry per codec. make_codec_entry.hpp
/// makes entries.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <hcomp/collective/agreement/options.hpp>
#include <hcomp/collective/by_name/codec_info.hpp>
#include <hcomp/collective/cost/costs.hpp>
#include <hcomp/collective/plan/any_parts.hpp>
#include <hcomp/collective/plan/any_plan.hpp>
#include <hcomp/core/detail/printable.hpp>
#include <hcomp/exec/executor.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <hcomp/transport/any_transport.hpp>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hcomp {
namespace detail {

struct codec_probe;

}  // namespace detail

/// Arguments of codec_entry::make.
template <Executor E = host_executor> struct plan_request {
  codec_settings const& settings;
  std::size_t values;
  any_transport& transport;
  E& executor;
  plan_options options;
  std::uint32_t total_weight;  ///< largest weight of a sum; the number of ranks if all weights are
                               ///< 1
};

/// Arguments of codec_entry::make_parts.
template <Executor E = host_executor> struct parts_request {
  codec_settings const& settings;
  std::span<std::size_t const> values;  ///< of each vector
  int ranks, rank;
  E& executor;
  nonfinite_policy nonfinite;
};

/// Arguments of codec_entry::measure.
template <Executor E = host_executor> struct cost_request {
  codec_settings const& settings;
  E& executor;
  std::uint32_t total_weight;  ///< as in plan_request
  detail::codec_probe const& probe;
};

/// A codec for values of type V, with the function that makes its plans.
/// @tparam E  the executor of the plans
template <class V, Executor E = host_executor> struct codec_entry : codec_info {
  /// @throws std::invalid_argument  settings contradict each other, or have forbidden values inside
  ///                                their ranges
  void (*check)(codec_settings const&);
  std::unique_ptr<detail::plan_body<V, E>> (*make)(plan_request<E> const&);
  /// See measure_codec. Null: the cost is unknown, and automatic_plan does not choose the codec.
  codec_cost (*measure)(cost_request<E> const&) = nullptr;
  /// See make_parts. Null: the codec has no blocks of fixed rate, or the values are not float.
  std::unique_ptr<any_parts<V, E>> (*make_parts)(parts_request<E> const&) = nullptr;
};

/// Codecs for values of one type.
template <class V, Executor E = host_executor> class codec_registry {
 public:
  /// @param more  appended to the error text for unknown codecs: where to find more codecs
  explicit codec_registry(std::vector<codec_entry<V, E>> entries, std::string more = {})
      : more_(std::move(more)) {
    for (auto& entry : entries) add(std::move(entry));
  }

  /// @throws std::invalid_argument  one of its names is taken
  void add(codec_entry<V, E> entry) {
    auto names = entry.also;
    names.push_back(entry.name);
    for (auto const& name : names)
      if (find(name))
        throw std::invalid_argument("codec_registry: there is a codec '" + name + "' already");
    entries_.push_back(std::make_unique<codec_entry<V, E>>(std::move(entry)));
  }
  /// Null if no codec has this name.
  codec_entry<V, E> const* find(std::string_view name) const {
    for (auto const& entry : entries_)
      if (entry->is_called(name)) return entry.get();
    return nullptr;
  }
  /// @throws std::invalid_argument  no codec has this name; the text lists the codecs
  codec_entry<V, E> const& at(std::string_view name) const {
    if (auto const* const entry = find(name)) return *entry;
    throw std::invalid_argument("no codec is called '" + detail::printable(name) +
                                "'; hcomp has: " + names() + more_);
  }
  std::string names() const {
    std::string all;
    for (auto const& entry : entries_) all += (all.empty() ? "" : ", ") + entry->name;
    return all;
  }
  /// Calls f(entry) for every entry.
  template <class F> void for_each(F const& f) const {
    for (auto const& entry : entries_) f(*entry);
  }

 private:
  std::vector<std::unique_ptr<codec_entry<V, E>>> entries_;  // entries keep their addresses
  std::string more_;
};

/// A codec with its settings, parsed from text.
template <class V, Executor E = host_executor> struct named_codec {
  codec_entry<V, E> const* entry;
  codec_settings settings;

  /// "thc:bits=4". Parsing it with codec_from gives an equal codec.
  std::string text() const {
    auto const values = settings.text();
    return values.empty() ? entry->name : entry->name + ":" + values;
  }
};

/// Parses `name`, `name:value` or `name:key=value,key=value`, such as "fp16", "error_bounded:1e-4"
/// or "thc:bits=4,transform=64". A value without a key belongs to the codec's first key. Spaces may
/// replace colon and commas: "thc bits=4".
/// @throws std::invalid_argument  unknown codec, key or value, or a missing required key; the text
///                                lists what exists
template <class V, Executor E>
named_codec<V, E> codec_from(codec_registry<V, E> const& table, std::string_view text) {
  auto const colon = table.find(text) ? text.npos : text.find_first_of(": ");
  auto const& entry = table.at(text.substr(0, colon));
  named_codec<V, E> found{&entry, codec_settings(entry)};
  try {
    std::vector<std::string_view> seen;
    auto const set = [&](std::string_view key, std::string_view value) {
      if (std::ranges::find(seen, key) != seen.end())
        throw std::invalid_argument("'" + std::string(key) + "' is given twice");
      seen.push_back(key);
      found.settings.set(key, value);
    };
    for (auto at = colon; at != text.npos;) {  // position before a word
      auto const end = text.find_first_of(", ", at + 1);
      auto const word = text.substr(at + 1, end - at - 1);
      if (auto const equals = word.find('='); equals != word.npos)
        set(word.substr(0, equals), word.substr(equals + 1));
      else if (at == colon && !word.empty() && !entry.keys.empty())
        set(entry.keys.front().name, word);
      else
        throw std::invalid_argument("'" + std::string(word) + "' is no key=value");
      at = end;
    }
    found.settings.require_all();
    entry.check(found.settings);
  } catch (std::invalid_argument const& why) {
    throw std::invalid_argument(
        detail::printable("codec '" + std::string(text) + "': " + why.what()));
  }
  return found;
}

}  // namespace hcomp
