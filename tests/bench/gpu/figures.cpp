#include "figures.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <support/work_table.hpp>

namespace gpu_bench {
namespace {

using json = nlohmann::ordered_json;

json json_of(figure const& one, double copy_rate) {
  json out{{"work", one.work},
           {"seconds", one.seconds},
           {"bytes", one.bytes},
           {"of_copy", one.bytes / one.seconds / copy_rate}};
  out["is_as_on_host"] = one.is_as_on_host ? json(*one.is_as_on_host) : json();
  return out;
}

/// All measurements of the files, which are of one device.
std::vector<json> read(std::vector<std::string> const& paths) {
  std::vector<json> all;
  for (auto const& path : paths) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error(path + ": cannot be read");
    json const one = json::parse(in);
    if (one.contains("bench"))
      all.insert(all.end(), one["bench"].begin(), one["bench"].end());
    else
      all.push_back(one);
  }
  for (auto const& one : all)
    if (one.at("device") != all.front().at("device"))
      throw std::runtime_error(
          "measurements of different devices: " + all.front()["device"].get<std::string>() +
          " and " + one["device"].get<std::string>());
  return all;
}

/// The share of the copy's rate that the counts allow: a value takes as long as its sectors, or as
/// its instructions, 128 of them in every clock of a multiprocessor.
double promised(hcomp::testing::work_row const& counted, double bytes_per_value, double copy_rate,
                json const& device) {
  double const least = bytes_per_value / copy_rate;
  double const rate =
      128e9 * device.at("multiprocessors").get<double>() * device.at("clock_GHz").get<double>();
  return least / std::max(least * counted.sectors, counted.instructions / rate);
}

std::string millions(double values) {
  char text[32];
  std::snprintf(text, sizeof(text), values < 1e5 ? "%.4f M" : "%.0f M", values / (1 << 20));
  return text;
}

}  // namespace

void write_json(device_figures const& all, std::string const& path) {
  json out{{"device", all.device},      {"is_gpu", all.is_gpu},
           {"driver", all.driver},      {"runtime", all.runtime},
           {"turns", all.turns},        {"multiprocessors", all.multiprocessors},
           {"clock_GHz", all.clock_GHz}};
  for (auto const& size : all.sizes) {
    json works = json::array();
    for (auto const& one : size.works) works.push_back(json_of(one, size.copy_rate));
    out["sizes"].push_back(
        {{"values", size.values}, {"copy_rate", size.copy_rate}, {"works", works}});
  }
  std::ofstream file(path);
  file << out.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

void print_report(std::vector<std::string> const& paths, std::string const& page) {
  auto const all = read(paths);
  if (all.empty()) throw std::runtime_error(paths.front() + ": has no measurements");
  auto const counts = hcomp::testing::read_work_table(page);
  if (counts.empty())
    throw std::runtime_error(page + ": has no table that begins with " +
                             hcomp::testing::work_table_head);
  auto const& device = all.front();

  struct line {
    double bytes_per_value = 0;
    std::map<std::size_t, double> of_copy;
    bool was_compared = false, is_as_on_host = true;
  };
  std::vector<std::string> order;
  std::map<std::string, line> lines;
  std::map<std::size_t, double> copy_rates;
  for (auto const& one : all)
    for (auto const& size : one.at("sizes")) {
      auto const values = size.at("values").get<std::size_t>();
      copy_rates[values] = size.at("copy_rate");
      for (auto const& work : size.at("works")) {
        auto const name = work.at("work").get<std::string>();
        if (!lines.contains(name)) order.push_back(name);
        auto& found = lines[name];
        found.bytes_per_value = work.at("bytes").get<double>() / static_cast<double>(values);
        found.of_copy[values] = work.at("of_copy");
        if (work.at("is_as_on_host").is_null()) continue;
        found.was_compared = true;
        found.is_as_on_host &= work["is_as_on_host"].get<bool>();
      }
    }

  std::printf(
      "%s%s, driver %d. A copy moves",
      device.at("is_gpu").get<bool>() ? "" : "**No GPU: rates of this table say nothing.** ",
      device["device"].get<std::string>().c_str(), device.at("driver").get<int>());
  for (auto const& [values, rate] : copy_rates)
    std::printf("%s %.0f GB/s of %s", values == copy_rates.begin()->first ? "" : ",", 1e-9 * rate,
                millions(static_cast<double>(values)).c_str());
  std::printf(" values.\n\n| share of the copy's rate | bytes per value | promised |");
  for (auto const& [values, rate] : copy_rates)
    std::printf(" %s |", millions(static_cast<double>(values)).c_str());
  std::printf(" bytes of hosts |\n|---|---:|---:|");
  for (std::size_t i = 0; i < copy_rates.size(); ++i) std::printf("---:|");
  std::printf("---|\n");
  for (auto const& name : order) {
    auto const& one = lines[name];
    std::printf("| %s | %.2f |", name.c_str(), one.bytes_per_value);
    auto const counted = counts.find(name);
    if (counted != counts.end() && device.at("clock_GHz") > 0.0)
      std::printf(" %.2f |", promised(counted->second, one.bytes_per_value,
                                      copy_rates.rbegin()->second, device));
    else
      std::printf(" - |");
    for (auto const& [values, rate] : copy_rates) {
      auto const found = one.of_copy.find(values);
      if (found == one.of_copy.end())
        std::printf(" - |");
      else
        std::printf(" %.2f |", found->second);
    }
    std::printf(" %s |\n", !one.was_compared ? "-" : one.is_as_on_host ? "yes" : "**NO**");
  }
}

}  // namespace gpu_bench
