#include "result.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text.hpp"

namespace perf {
namespace {

/// A missing value is null.
template <class T> nlohmann::ordered_json json_of(std::optional<T> const& metric) {
  return metric ? nlohmann::ordered_json(*metric) : nlohmann::ordered_json();
}

template <class Format>
std::string or_dash(std::optional<double> const& value, Format const& format) {
  return value ? format(*value) : "-";
}

/// A row has at most 120 characters. JSON and CSV have all values.
constexpr char const* columns =
    "{:>8} {:<32} {:<3} {:>9} {:>9} {:>7} {:>8} {:>8} {:>7} {:>5} {:>5} {:>7}\n";

}  // namespace

spread spread::of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  std::size_t const half = values.size() / 2;
  double const median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::string table_head(result const& all, std::string const& type) {
  auto const link = all.rate > 0 ? fmt::format("{} ({})", rate_text(all.rate),
                                               all.rate_was_measured ? "measured" : "given")
                                 : "of unknown rate";
  auto text =
      fmt::format("# {}, {} rank{} on {} node{}{}, link {}, {}, {} of {}{}\n", all.mpi, all.ranks,
                  all.ranks == 1 ? "" : "s", all.nodes, all.nodes == 1 ? "" : "s",
                  all.device.empty() ? "" : ", vectors on " + all.device, link, all.input,
                  all.mean ? "mean" : "sum", type, all.label.empty() ? "" : ", " + all.label);
  text += fmt::format(columns, "size", "codec by algorithm", "", "time", "most", "busbw", "sent",
                      "wire", "vs MPI", "bound", "model", "error");
  text += fmt::format(columns, "", "", "", "", "ranks", "GB/s", "", "", "", "%", "%", "");
  return text;
}

std::string line(result const& all, row const& one) {
  auto const percent = [&](double s) { return fmt::format("{:.0f}", 100 * s / one.seconds.most); };
  return fmt::format(
      columns, size_text(one.bytes),
      one.name.codec == "raw" ? one.name.algorithm : one.name.codec + " by " + one.name.algorithm,
      one.name.transport, seconds_text(one.seconds.median), seconds_text(one.seconds.most),
      fmt::format("{:.3g}", one.bus_bandwidth(all.ranks) / 1e9),
      or_dash(one.bytes_sent, bytes_text), or_dash(one.bytes_on_wire, bytes_text),
      fmt::format("{:.{}f}", one.vs_mpi, one.vs_mpi < 99.5 ? 2 : 0), or_dash(one.bound, percent),
      or_dash(one.predicted, percent), one.same_bits ? fmt::format("{:.1e}", one.error) : "DIFFER");
}

double speed_up(row const& reference, row const& one) {
  return reference.seconds.median / one.seconds.median;
}

nlohmann::ordered_json to_json(result const& all) {
  nlohmann::ordered_json json{{"tool", "hcomp_perf"},
                              {"mpi", all.mpi},
                              {"machine", all.machine},
                              {"ranks", all.ranks},
                              {"nodes", all.nodes},
                              {"rate_bit_per_s", all.rate},
                              {"rate_was_measured", all.rate_was_measured},
                              {"latency_s", all.latency},
                              {"label", all.label},
                              {"input", all.input},
                              {"mean", all.mean},
                              {"complete", all.is_complete}};
  json["device"] = all.device;
  json["rows"] = nlohmann::ordered_json::array();
  for (auto const& r : all.rows)
    json["rows"].push_back({{"bytes", r.bytes},
                            {"count", r.count},
                            {"type", r.type},
                            {"codec", r.name.codec},
                            {"algorithm", r.name.algorithm},
                            {"transport", r.name.transport},
                            {"memory", r.memory},
                            {"seconds", r.seconds.median},
                            {"seconds_min", r.seconds.least},
                            {"seconds_max", r.seconds.most},
                            {"calls", r.calls},
                            {"seconds_encode", r.seconds_encode},
                            {"seconds_communicate", r.seconds_communicate},
                            {"seconds_merge", r.seconds_merge},
                            {"seconds_decode", r.seconds_decode},
                            {"bytes_sent", json_of(r.bytes_sent)},
                            {"bytes_on_wire", json_of(r.bytes_on_wire)},
                            {"vs_mpi", r.vs_mpi},
                            {"bound_s", json_of(r.bound)},
                            {"predicted_s", json_of(r.predicted)},
                            {"error", std::isfinite(r.error) ? nlohmann::ordered_json(r.error)
                                                             : nlohmann::ordered_json()},
                            {"same_bits", r.same_bits},
                            {"as_promised", r.as_promised}});
  return json;
}

std::string to_csv(result const& all) {
  std::string text =
      "mpi,ranks,nodes,rate_bit_per_s,label,bytes,count,type,codec,algorithm,transport,seconds,"
      "seconds_min,seconds_max,bytes_sent,bytes_on_wire,vs_mpi,bound_s,predicted_s,error,"
      "same_bits\n";
  auto const number = [](double v) { return fmt::format("{:.9g}", v); };
  auto const quoted = [](std::string const& field) {
    std::string out = "\"";
    for (char const c : field) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + '"';
  };
  for (auto const& r : all.rows)
    text += fmt::format(
        "{},{},{},{:.9g},{},{},{},{},{},{},{},{:.9g},{:.9g},{:.9g},{},{},"
        "{:.6g},{},{},{:.6g},{}\n",
        quoted(all.mpi), all.ranks, all.nodes, all.rate, quoted(all.label), r.bytes, r.count,
        r.type, r.name.codec, r.name.algorithm, r.name.transport, r.seconds.median, r.seconds.least,
        r.seconds.most, r.bytes_sent ? number(*r.bytes_sent) : "",
        r.bytes_on_wire ? number(*r.bytes_on_wire) : "", r.vs_mpi, r.bound ? number(*r.bound) : "",
        r.predicted ? number(*r.predicted) : "", r.error, r.same_bits);
  return text;
}

std::string complaints(result const& all) {
  std::string text;
  for (auto const& r : all.rows) {
    auto const who = fmt::format("check: {} of {} values by {} over {}", r.name.codec, r.count,
                                 r.name.algorithm, r.name.transport);
    if (!r.same_bits) text += who + ": the ranks' results differ\n";
    if (!r.as_promised)
      text += fmt::format("{}: error {:.2e} is more than the codec allows\n", who, r.error);
  }
  return text;
}

}  // namespace perf
