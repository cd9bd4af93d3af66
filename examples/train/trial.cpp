#include "trial.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <hcomp/collective/by_name/registered_codecs.hpp>
#include <hcomp/core/random.hpp>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace train {
namespace {

std::string names_in(auto const& list) {
  std::vector<std::string_view> names;
  for (auto const& m : list) names.push_back(m.name);
  return fmt::format("{}", fmt::join(names, ", "));
}
/// Names of the methods for which `wanted` is true.
template <class Wanted> std::string names_of(Wanted const& wanted) {
  std::vector<method> some;
  std::ranges::copy_if(methods, std::back_inserter(some), wanted);
  return names_in(some);
}

/// Means with codecs of hcomp that are no methods. Sign codecs are excluded: a method must choose
/// their magnitude.
std::vector<method> const& means_by_codecs() {
  static auto const all = [] {
    std::vector<method> means;
    hcomp::registered_codecs<float>().for_each([&](hcomp::codec_info const& codec) {
      bool const is_method = std::ranges::find(methods, codec.name, &method::name) != methods.end();
      if (!is_method && !codec.has_magnitude())
        means.push_back({codec.name, codec.about, codec.name, 0.02, 0.9, 0});
    });
    return means;
  }();
  return all;
}

/// A method's codec with its default settings.
hcomp::named_codec<float> usual_codec(method const& how) {
  return hcomp::codec_from(hcomp::registered_codecs<float>(), how.codec);
}

/// Replaces the settings that `words` names, e.g. "bits=2".
void set(hcomp::codec_entry<float> const& row, hcomp::codec_settings& settings,
         std::string_view words) {
  for (std::size_t end; !words.empty(); words.remove_prefix(end)) {
    auto const word = words.substr(0, words.find(','));
    end = std::min(word.size() + 1, words.size());
    auto const equals = word.find('=');
    if (equals != word.npos)
      settings.replace(word.substr(0, equals), word.substr(equals + 1));
    else if (!row.keys.empty())
      settings.replace(row.keys.front().name, word);
    else
      throw std::invalid_argument("it has no settings");
  }
  row.check(settings);
}

}  // namespace

bool is_late(mishaps const& shares, std::uint64_t step, int rank, std::uint64_t seed) {
  // the last counter word is 1, because lossy_packets draws with 0
  auto const draw =
      hcomp::philox4x32({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                         static_cast<std::uint32_t>(rank), 1},
                        seed)[0];
  return draw < shares.late * 0x1p32;
}

std::string names_of_aggregated() {
  return names_of([](method const& m) { return m.aggregated; });
}

double share_from(std::string const& text) {
  double share = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share >= 0 && share < 1))
    throw std::invalid_argument(fmt::format("'{}' is no share from 0 to below 1", text));
  return share;
}

method const* find_method(std::string_view name) {
  for (auto const& m : methods)
    if (m.name == name) return &m;
  for (auto const& m : means_by_codecs())
    if (m.name == name) return &m;
  return nullptr;
}

trial trial_from(std::string const& text) {
  auto end = text.find(':');
  auto const name = text.substr(0, end);
  trial made{.how = find_method(name)};
  if (!made.how)
    throw std::invalid_argument(fmt::format("no codec is called '{}'; train has: {}, {}", name,
                                            names_of([](method const&) { return true; }),
                                            names_in(means_by_codecs())));
  std::string settings;
  while (end != std::string::npos) {
    auto const first = end + 1;
    end = text.find(':', first);
    auto const part = text.substr(first, end == std::string::npos ? end : end - first);
    auto const what = part.substr(0, part.find('='));
    if (what != "late" && what != "lost") {
      if (made.how->codec.empty())
        throw std::invalid_argument(
            fmt::format("{}: '{}' is no setting of {}, which has none", text, part, name));
      settings += (settings.empty() ? "" : ",") + part;
      continue;
    }
    double const share = share_from(part.substr(std::min(what.size() + 1, part.size())));
    if (!made.how->aggregated)
      throw std::invalid_argument(fmt::format("{}: {} has no aggregator; these have: {}", text,
                                              name, names_of_aggregated()));
    auto& how = made.by_aggregators ? *made.by_aggregators : made.by_aggregators.emplace();
    (what == "late" ? how.late : how.lost) = share;
  }
  if (made.how->codec.empty()) return made;
  try {
    auto codec = usual_codec(*made.how);
    set(*codec.entry, codec.settings, settings);
    made.settings = codec.settings;
    if (auto const refusal = codec.entry->feedback_refusal)  // train uses it where a codec wants it
      if (auto const why = refusal(codec.settings); !why.empty()) throw std::invalid_argument(why);
  } catch (std::invalid_argument const& why) {
    throw std::invalid_argument(fmt::format("{}: {}", text, why.what()));
  }
  return made;
}

std::string trial::name() const {
  std::string text(how->name);
  if (settings) {
    auto const usual = usual_codec(*how);
    auto const& keys = usual.entry->keys;
    for (auto const& key : keys)
      if (auto const value = settings->get(key.name);
          value &&
          (value != usual.settings.get(key.name) ||
           (usual.entry->promise == hcomp::accuracy_class::error_bounded && &key == &keys.front())))
        text += fmt::format(", {}={}", key.name, key.text(*value));
  }
  if (!by_aggregators) return text;
  if (by_aggregators->late > 0) text += fmt::format(", {:g} % late", 100 * by_aggregators->late);
  if (by_aggregators->lost > 0) text += fmt::format(", {:g} % lost", 100 * by_aggregators->lost);
  return text == how->name ? text + ", aggregated" : text;
}

}  // namespace train
