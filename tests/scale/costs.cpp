#include "costs.hpp"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <hcomp/codec/registry.hpp>
#include <hcomp/collective/automatic/measure_cost.hpp>
#include <hcomp/exec/host_executor.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace scale {
namespace {

using hcomp::codec_cost;

struct metric {
  char const* name;
  double codec_cost::*seconds;
};
constexpr std::array stats{
    metric{"encode", &codec_cost::encode},   metric{"merge", &codec_cost::merge},
    metric{"decode", &codec_cost::decode},   metric{"call", &codec_cost::call},
    metric{"pack", &codec_cost::pack},       metric{"unpack", &codec_cost::unpack},
    metric{"measure", &codec_cost::measure}, metric{"narrow_one", &codec_cost::narrow_one},
    metric{"narrow", &codec_cost::narrow},   metric{"widen_one", &codec_cost::widen_one},
    metric{"widen", &codec_cost::widen}};

}  // namespace

hcomp::cost_table measured_costs(int ranks) {
  hcomp::host_executor executor;
  hcomp::cost_table costs;
  costs.codecs.push_back({"identity", measure_codec(hcomp::identity<>{}, executor, ranks)});
  costs.codecs.push_back({"sign", measure_codec(hcomp::sign<>{}, executor, ranks)});
  auto const thc = hcomp::fit(hcomp::thc<>{}, static_cast<std::uint32_t>(ranks));
  costs.codecs.push_back({"thc", measure_codec(thc, executor, ranks)});
  return costs;
}

void write_costs(std::string const& file, hcomp::cost_table const& costs) {
  nlohmann::json table;
  for (auto const& [codec, cost] : costs.codecs)
    for (auto const& [name, seconds] : stats) table[codec][name] = cost.*seconds;
  std::ofstream out(file);
  out << table.dump(1) << "\n";
  if (!out) throw std::runtime_error(fmt::format("{} cannot be written", file));
}

hcomp::cost_table read_costs(std::string const& file) try {
  std::ifstream in(file);
  auto const table = nlohmann::json::parse(in);
  hcomp::cost_table costs;
  for (auto const& [codec, seconds] : table.items()) {
    codec_cost cost;
    hcomp::builtin_codecs<float>::with(codec, [&]<class C>() { cost = hcomp::size_of(C{}); });
    for (auto const& [name, metric] : stats) cost.*metric = seconds.at(name).get<double>();
    costs.codecs.push_back({codec, cost});
  }
  return costs;
} catch (nlohmann::json::exception const& e) {
  throw std::runtime_error(fmt::format("{} is no table of costs: {}", file, e.what()));
}

}  // namespace scale
