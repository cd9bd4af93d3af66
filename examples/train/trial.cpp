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

int exponent_from(std::string const& text) {
  int exponent = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc() || end != text.data() + text.size() || exponent < 1 || exponent > 14)
    throw std::invalid_argument(fmt::format("'{}' is no exponent of a bound, 1 to 14", text));
  return exponent;
}

double bound_from(std::string const& text) {
  double bound = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), bound);
  if (error != std::errc() || end != text.data() + text.size() || !(bound >= 1e-25 && bound < 1e25))
    throw std::invalid_argument(fmt::format("'{}' is no bound from 1e-25 to 1e25", text));
  return bound;
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
    if ((what != "late" && what != "lost" && what != "share" && what != "bound") || what == part)
      throw std::invalid_argument(fmt::format(
          "{}: '{}' is none of late=SHARE, lost=SHARE, share=SHARE and bound=BOUND", text, part));
    if (what == "bound") {
      auto const value = part.substr(what.size() + 1);
      if (made.how->bounded == bound_kind::none)
        throw std::invalid_argument(
            fmt::format("{}: {} has no bound; these have: {}", text, name,
                        names_of([](method const& m) { return m.bounded != bound_kind::none; })));
      if (made.how->bounded == bound_kind::exponent)
        made.bound_exponent = exponent_from(value);
      else
        made.bound = bound_from(value);
      continue;
    }
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
  if (how->bounded == bound_kind::exponent) text += fmt::format(", E={}", bound_exponent);
  if (how->bounded == bound_kind::absolute) text += fmt::format(", B={:g}", bound);
  if (!by_aggregators) return text;
  if (by_aggregators->late > 0) text += fmt::format(", {:g} % late", 100 * by_aggregators->late);
  if (by_aggregators->lost > 0) text += fmt::format(", {:g} % lost", 100 * by_aggregators->lost);
  return text == how->name ? text + ", aggregated" : text;
}

}  // namespace train
