#include "network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "text.hpp"

namespace perf {
namespace {

bool are_near(double a, double b, double factor) {
  return a == b || (a > 0 && b > 0 && std::abs(std::log(a / b)) <= std::log(factor));
}

void keep_faster(curve& one, row const& r) {
  auto const [place, is_new] = one.rows.try_emplace(r.bytes, &r);
  if (!is_new && r.seconds.median < place->second->seconds.median) place->second = &r;
}

}  // namespace

std::string curve::name() const {
  if (is_own()) return algorithm.starts_with("MPI:") ? "MPI " + algorithm.substr(4) : "MPI";
  return codec + ", " + (algorithm == "MPI" ? "MPI op" : algorithm);
}

bool network::has(result const& run) const {
  auto const& mine = first();
  bool const measured = mine.rate_was_measured || run.rate_was_measured;
  return mine.ranks == run.ranks && mine.nodes == run.nodes && mine.label == run.label &&
         mine.device == run.device && mine.input == run.input && mine.mean == run.mean &&
         type() == type_of(run) && are_near(mine.rate, run.rate, measured ? 1.1 : 1) &&
         (!mine.label.empty() || are_near(mine.latency, run.latency, 1.5));
}

std::string network::name() const {
  auto const& run = first();
  auto text = run.rate > 0 ? rate_text(run.rate) : "rate not known";
  if (!run.label.empty()) text = run.label + ": " + text;
  if (run.latency > 0) text += ", " + seconds_text(run.latency);
  return text +
         fmt::format(", {} ranks on {} node{}", run.ranks, run.nodes, run.nodes == 1 ? "" : "s") +
         (run.device.empty() ? "" : ", vectors on " + run.device);
}

std::vector<std::string> network::libraries() const {
  std::set<std::string> names;
  for (auto const* const run : runs_) names.insert(run->mpi);
  return {names.begin(), names.end()};
}

std::vector<std::uint64_t> network::sizes() const {
  std::set<std::uint64_t> bytes;
  for (auto const* const run : runs_)
    for (auto const& r : run->rows) bytes.insert(r.bytes);
  return {bytes.begin(), bytes.end()};
}

row const* network::reference(std::uint64_t bytes) const {
  row const* best = nullptr;
  for (auto const* const run : runs_)
    for (auto const& r : run->rows)
      if (r.bytes == bytes && r.name.is_reference() &&
          (best == nullptr || r.seconds.median < best->seconds.median))
        best = &r;
  return best;
}

std::optional<double> network::speed_up(row const& one) const {
  auto const* const best = reference(one.bytes);
  if (best == nullptr) return std::nullopt;
  return perf::speed_up(*best, one);
}

curve network::own(std::string const& library) const {
  curve one{"raw", "MPI", {}};
  for (auto const* const run : runs_)
    for (auto const& r : run->rows)
      if (run->mpi == library && r.name.is_reference()) keep_faster(one, r);
  return one;
}

std::vector<curve> network::curves() const {
  std::vector<curve> all;
  for (auto const* const run : runs_)
    for (auto const& r : run->rows) {
      if (r.name.is_reference()) continue;
      auto place = std::ranges::find_if(all, [&](curve const& c) {
        return c.codec == r.name.codec && c.algorithm == r.name.algorithm;
      });
      if (place == all.end())
        place = all.insert(all.end(), curve{r.name.codec, r.name.algorithm, {}});
      keep_faster(*place, r);
    }
  return all;
}

std::optional<std::uint64_t> network::pays_from(curve const& one) const {
  std::optional<std::uint64_t> from;
  for (auto place = one.rows.rbegin(); place != one.rows.rend(); ++place) {
    if (auto const ratio = speed_up(*place->second); !ratio || *ratio < clear_speed_up) break;
    from = place->first;
  }
  return from;
}

std::vector<network> networks_of(std::vector<result> const& all) {
  std::vector<network> networks;
  for (auto const& run : all) {
    if (run.rows.empty()) continue;
    auto const place = std::ranges::find_if(networks, [&](network const& n) { return n.has(run); });
    if (place == networks.end())
      networks.emplace_back(run);
    else
      place->add(run);
  }
  std::ranges::stable_sort(networks, {}, [](network const& n) {
    return std::pair(n.first().rate <= 0, n.first().rate);
  });
  return networks;
}

namespace {

std::uint64_t largest_common_size(std::vector<network const*> const& networks) {
  auto const sizes = networks.front()->sizes();
  auto const found = std::find_if(sizes.rbegin(), sizes.rend(), [&](std::uint64_t bytes) {
    return std::ranges::all_of(networks,
                               [&](auto const* n) { return n->reference(bytes) != nullptr; });
  });
  return found == sizes.rend() ? 0 : *found;
}

}  // namespace

std::vector<rate_series> rate_series_of(std::vector<network> const& networks) {
  using likeness = std::tuple<int, int, std::string, std::string, bool, std::string, std::string>;
  std::map<likeness, std::vector<network const*>> alike;
  auto const like = [](network const& n, std::string const& label) {
    auto const& run = n.first();
    return likeness{run.ranks, run.nodes, run.device, run.input, run.mean, n.type(), label};
  };
  for (auto const& n : networks)
    if (n.first().rate > 0) alike[like(n, "")].push_back(&n);
  // Two of one rate differ in something else, which only their labels tell.
  for (auto const& [key, members] : std::map(alike)) {
    bool const is_a_series = std::ranges::adjacent_find(members, {}, [](auto const* n) {
                               return n->first().rate;
                             }) == members.end();
    if (is_a_series) continue;
    alike.erase(key);
    for (auto const* n : members) alike[like(*n, n->first().label)].push_back(n);
  }
  std::vector<rate_series> all;
  for (auto const& [key, members] : alike)
    if (members.size() > 1)
      if (auto const bytes = largest_common_size(members); bytes > 0)
        all.push_back({members, bytes});
  return all;
}

}  // namespace perf
