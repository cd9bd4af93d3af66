#include "trial.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace train {
namespace {

/// The names of the methods that `wanted` is true for.
template <class Wanted> std::string names_of(Wanted const& wanted) {
  std::vector<std::string_view> names;
  for (auto const& m : methods)
    if (wanted(m)) names.push_back(m.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

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

trial trial_from(std::string const& text) {
  auto end = text.find(':');
  auto const name = text.substr(0, end);
  trial made{.how = find_method(name)};
  if (!made.how)
    throw std::invalid_argument(fmt::format("no codec is called '{}'; train has: {}", name,
                                            names_of([](method const&) { return true; })));
  while (end != std::string::npos) {
    auto const first = end + 1;
    end = text.find(':', first);
    auto const part = text.substr(first, end == std::string::npos ? end : end - first);
    auto const what = part.substr(0, part.find('='));
    if ((what != "late" && what != "lost" && what != "share") || what == part)
      throw std::invalid_argument(
          fmt::format("{}: '{}' is none of late=SHARE, lost=SHARE and share=SHARE", text, part));
    double const share = share_from(part.substr(what.size() + 1));
    if (what == "share") {
      if (!made.how->sparsified)
        throw std::invalid_argument(
            fmt::format("{}: {} sends all values; shares are for: {}", text, name,
                        names_of([](method const& m) { return m.sparsified; })));
      made.share = share;
      continue;
    }
    if (!made.how->aggregated)
      throw std::invalid_argument(fmt::format("{}: {} has no aggregator; these have: {}", text,
                                              name, names_of_aggregated()));
    auto& how = made.by_aggregators ? *made.by_aggregators : made.by_aggregators.emplace();
    (what == "late" ? how.late : how.lost) = share;
  }
  return made;
}

std::string trial::name() const {
  std::string text(how->name);
  if (how->sparsified) text += fmt::format(", {:g} %", 100 * share);
  if (!by_aggregators) return text;
  if (by_aggregators->late > 0) text += fmt::format(", {:g} % late", 100 * by_aggregators->late);
  if (by_aggregators->lost > 0) text += fmt::format(", {:g} % lost", 100 * by_aggregators->lost);
  return text == how->name ? text + ", aggregated" : text;
}

}  // namespace train
