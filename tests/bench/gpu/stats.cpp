#include "stats.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <support/work_table.hpp>

namespace gpu_bench {
namespace {

using json = nlohmann::ordered_json;

json json_of(metric const& one, double copy_rate) {
  json out{{"work", one.work},
           {"seconds", one.seconds},
           {"bytes", one.bytes},
           {"of_copy", one.bytes / one.seconds / copy_rate}};
  out["is_as_on_host"] = one.is_as_on_host ? json(*one.is_as_on_host) : json();
  return out;
}

/// Reads the measurements of a file.
std::vector<json> read(std::string const& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  try {
    json const one = json::parse(in);
    auto const all =
        one.contains("bench") ? one["bench"].get<std::vector<json>>() : std::vector{one};
    for (auto const& each : all) each.at("device").get<std::string>();
    return all;
  } catch (json::exception const& error) {
    throw std::runtime_error(path + ": has no measurements of bench_gpu: " + error.what());
  }
}

/// Reads all measurements of the files, which must be from one device.
std::vector<json> read(std::vector<std::string> const& paths) {
  std::vector<json> all;
  for (auto const& path : paths) {
    auto const of_file = read(path);
    all.insert(all.end(), of_file.begin(), of_file.end());
  }
  for (auto const& one : all)
    if (one.at("device") != all.front().at("device"))
      throw std::runtime_error(
          "measurements of different devices: " + all.front()["device"].get<std::string>() +
          " and " + one["device"].get<std::string>());
  return all;
}

hcomp::testing::device_rates rates_of(json const& device, double copy_rate) {
  return {copy_rate, 128e9 * device.at("multiprocessors").get<double>() *
                         device.at("clock_GHz").get<double>()};
}

/// Measurements of one size in one file.
struct column {
  std::string head;
  std::size_t values;
  double copy_rate;
  std::map<std::string, double> of_copy;
  std::vector<reduction_stats> sums;
};
struct row {
  double bytes_per_value = 0;
  bool was_compared = false, is_as_on_host = true;
};

std::string head_of(std::size_t values, std::string const& label) {
  std::size_t const million = std::size_t{1} << 20;
  auto text =
      values % million == 0 ? std::to_string(values / million) + " M" : std::to_string(values);
  return label.empty() ? text : text + ", " + label;
}

}  // namespace

void write_json(device_stats const& all, std::string const& path) {
  json out{{"device", all.device},
           {"label", all.label},
           {"is_gpu", all.is_gpu},
           {"driver", all.driver},
           {"runtime", all.runtime},
           {"turns", all.turns},
           {"multiprocessors", all.multiprocessors},
           {"clock_GHz", all.clock_GHz}};
  for (auto const& size : all.sizes) {
    json works = json::array();
    for (auto const& one : size.works) works.push_back(json_of(one, size.copy_rate));
    json sums = json::array();
    for (auto const& one : size.sums)
      sums.push_back({{"codec", one.codec},
                      {"seconds", one.seconds},
                      {"bus_seconds", one.bus_seconds},
                      {"host_seconds", one.host_seconds}});
    out["sizes"].push_back(
        {{"values", size.values}, {"copy_rate", size.copy_rate}, {"works", works}, {"sums", sums}});
  }
  std::ofstream file(path);
  file << out.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

namespace {

void print_reductions(std::vector<column> const& columns) {
  if (std::ranges::all_of(columns, [](auto const& one) { return one.sums.empty(); })) return;
  std::printf(
      "\n| values | all-reduce | ms | bus, ms | host, ms | of the larger |\n"
      "|---:|---|---:|---:|---:|---:|\n");
  for (auto const& one : columns)
    for (auto const& sum : one.sums)
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.1f |\n", one.head.c_str(), sum.codec.c_str(),
                  1e3 * sum.seconds, 1e3 * sum.bus_seconds, 1e3 * sum.host_seconds, sum.of_limit());
}

}  // namespace

void print_report(std::vector<std::string> const& paths, std::string const& page) {
  auto const all = read(paths);
  if (all.empty()) throw std::runtime_error(paths.front() + ": has no measurements");
  auto const counts = hcomp::testing::read_work_table(page);
  if (counts.empty())
    throw std::runtime_error(page + ": has no table that begins with " +
                             hcomp::testing::work_table_head);
  auto const& device = all.front();

  std::vector<std::string> order;
  std::map<std::string, row> rows;
  std::vector<column> columns;
  for (auto const& one : all)
    for (auto const& size : one.at("sizes")) {
      auto const values = size.at("values").get<std::size_t>();
      columns.push_back({head_of(values, one.at("label")), values, size.at("copy_rate"), {}, {}});
      for (auto const& sum : size.value("sums", json::array()))  // absent in older files
        columns.back().sums.push_back(
            {sum.at("codec"), sum.at("seconds"), sum.at("bus_seconds"), sum.at("host_seconds")});
      for (auto const& work : size.at("works")) {
        auto const name = work.at("work").get<std::string>();
        if (!rows.contains(name)) order.push_back(name);
        columns.back().of_copy[name] = work.at("of_copy");
        auto& found = rows[name];
        found.bytes_per_value = work.at("bytes").get<double>() / static_cast<double>(values);
        if (work.at("is_as_on_host").is_null()) continue;
        found.was_compared = true;
        found.is_as_on_host &= work["is_as_on_host"].get<bool>();
      }
    }
  if (columns.empty()) throw std::runtime_error(paths.front() + ": has no measurements");

  std::printf(
      "%s%s, driver %d, runtime %d.\n\n| share of the copy's rate | bytes per value | promised |",
      device.at("is_gpu").get<bool>() ? "" : "**No GPU: rates of this table say nothing.** ",
      device.at("device").get<std::string>().c_str(), device.at("driver").get<int>(),
      device.at("runtime").get<int>());
  for (auto const& one : columns) std::printf(" %s |", one.head.c_str());
  std::printf(" bytes of CPUs |\n|---|---:|---:|");
  for (std::size_t i = 0; i < columns.size(); ++i) std::printf("---:|");
  std::printf("---|\n| a copy, GB/s | | |");
  for (auto const& one : columns) std::printf(" %.0f |", 1e-9 * one.copy_rate);
  std::printf(" |\n");
  // Of the longest vectors, which exceed every cache.
  double const copy_rate = std::ranges::max_element(columns, {}, &column::values)->copy_rate;
  for (auto const& name : order) {
    if (name == "copy") continue;
    auto const& one = rows[name];
    std::printf("| %s | %.2f |", name.c_str(), one.bytes_per_value);
    auto const counted = counts.find(name);
    if (counted != counts.end() && device.at("clock_GHz") > 0.0)
      std::printf(" %.2f |", hcomp::testing::promised_share(counted->second, one.bytes_per_value,
                                                            rates_of(device, copy_rate)));
    else
      std::printf(" - |");
    for (auto const& in : columns) {
      auto const found = in.of_copy.find(name);
      if (found == in.of_copy.end())
        std::printf(" - |");
      else
        std::printf(" %.2f |", found->second);
    }
    std::printf(" %s |\n", !one.was_compared ? "-" : one.is_as_on_host ? "yes" : "**NO**");
  }
  print_reductions(columns);
}

}  // namespace gpu_bench
