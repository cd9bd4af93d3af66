#include "journal.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <hcomp/collective/agreement/report.hpp>
#include <hcomp/core/version.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace hcomp::drop_in {

namespace {

using nlohmann::ordered_json;
using site_entry = std::pair<call_site, site_stats>;

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- Numbers as text

std::string number_text(double value) {
  return value == std::floor(value) && value < 1e15 ? fmt::format("{:.0f}", value)
                                                    : fmt::format("{:.1f}", value);
}
std::string bytes_text(double bytes) {
  for (auto const& [unit, size] : {std::pair{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}})
    if (bytes >= size) return fmt::format("{:.2f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}
std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}
std::string ratio_text(double before, double after) {
  return after > 0 ? fmt::format("{:.2f}x", before / after) : "-";
}
std::string error_text(double error) {
  return std::isfinite(error) ? fmt::format("{:.1e}", error) : "not finite";
}
std::string values_text(site_stats const& f) {
  return f.smallest == f.largest ? fmt::format("{}", f.largest)
                                 : fmt::format("{}-{}", f.smallest, f.largest);
}
std::string plural(double count, std::string_view word) {
  return fmt::format("{} {}{}", number_text(count), word, count == 1 ? "" : "s");
}
std::string version_text() {
  return fmt::format("{}.{}.{}", HCOMP_VERSION_MAJOR, HCOMP_VERSION_MINOR, HCOMP_VERSION_PATCH);
}

/// "thc:bits=4, by rule '...'", or only the reason if it names the strategy.
std::string strategy_text(call_site const& site) {
  if (site.why.empty()) return site.strategy;
  if (site.why.find(site.strategy) != std::string::npos) return site.why;
  return site.strategy + ", " + site.why;
}

/// Indents all lines of a text but the first.
std::string indented(std::string text, std::size_t spaces) {
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    text.insert(at + 1, spaces, ' ');
  return text;
}

// ---- JSON

/// JSON has neither infinity nor NaN; both become null.
ordered_json json_of(double metric) {
  return std::isfinite(metric) ? ordered_json(metric) : ordered_json();
}
double figure_of(ordered_json const& json) {
  return json.is_null() ? infinity : json.get<double>();
}

/// An error that the codec does not state.
constexpr char const* unknown = "unknown";

ordered_json json_of(compared_seconds const& of) {
  return {{"calls", of.calls},
          {"own", json_of(of.own)},
          {"codec", json_of(of.codec)},
          {"plain", json_of(of.plain)}};
}
compared_seconds compared_of(ordered_json const& json) {
  return {json.at("calls").get<std::uint64_t>(), figure_of(json.at("own")),
          figure_of(json.at("codec")), figure_of(json.at("plain"))};
}

ordered_json json_of(site_entry const& entry) {
  auto const& [site, f] = entry;
  return {{"function", site.function},
          {"caller", site.caller},
          {"type", site.type},
          {"ranks", site.ranks},
          {"strategy", site.strategy},
          {"why", site.why},
          {"calls", f.calls},
          {"smallest", f.smallest},
          {"largest", f.largest},
          {"bytes_plain", f.bytes_plain},
          {"bytes_sent", f.bytes_sent},
          {"seconds", json_of(f.seconds)},
          {"seconds_codec", json_of(f.seconds_codec)},
          {"compared", f.compared},
          {"first", json_of(f.first)},
          {"later", json_of(f.later)},
          {"worst_error", json_of(f.worst_error)},
          {"worst_relative", json_of(f.worst_relative)},
          {"told_error", std::isnan(f.told_error) ? ordered_json(unknown) : json_of(f.told_error)},
          {"residual", json_of(f.residual)},
          {"beyond_bound", f.beyond_bound}};
}
site_entry entry_of(ordered_json const& json) {
  site_entry entry;
  auto& [site, f] = entry;
  json.at("function").get_to(site.function);
  json.at("caller").get_to(site.caller);
  json.at("type").get_to(site.type);
  json.at("ranks").get_to(site.ranks);
  json.at("strategy").get_to(site.strategy);
  json.at("why").get_to(site.why);
  json.at("calls").get_to(f.calls);
  json.at("smallest").get_to(f.smallest);
  json.at("largest").get_to(f.largest);
  json.at("bytes_plain").get_to(f.bytes_plain);
  json.at("bytes_sent").get_to(f.bytes_sent);
  f.seconds = figure_of(json.at("seconds"));
  f.seconds_codec = figure_of(json.at("seconds_codec"));
  json.at("compared").get_to(f.compared);
  f.first = compared_of(json.at("first"));
  f.later = compared_of(json.at("later"));
  f.worst_error = figure_of(json.at("worst_error"));
  f.worst_relative = figure_of(json.at("worst_relative"));
  auto const& told = json.at("told_error");
  f.told_error = told == unknown ? unknown_error : figure_of(told);
  f.residual = figure_of(json.at("residual"));
  json.at("beyond_bound").get_to(f.beyond_bound);
  return entry;
}

ordered_json json_of(std::map<call_site, site_stats> const& sites) {
  auto json = ordered_json::array();
  for (auto const& one : sites) json.push_back(json_of(one));
  return json;
}

/// A path need not be UTF-8; invalid bytes become U+FFFD.
std::string text_of(ordered_json const& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// ---- Rows of the report

/// The sites that hcomp took over, or the sites left to the `plain` library; most bytes first.
std::vector<site_entry> chosen(std::map<call_site, site_stats> const& sites, std::string_view plain,
                               bool passed) {
  std::vector<site_entry> all;
  for (auto const& one : sites)
    if ((one.first.strategy == plain) == passed) all.push_back(one);
  std::ranges::stable_sort(all, std::greater{},
                           [](site_entry const& one) { return one.second.bytes_plain; });
  return all;
}

/// "worst error 1.2e-04 (relative 3.0e-05) in 10 calls compared".
std::string compared_text(site_stats const& f, double ranks) {
  return fmt::format("worst error {} (relative {}) in {} compared", error_text(f.worst_error),
                     error_text(f.worst_relative),
                     plural(static_cast<double>(f.compared) / ranks, "call"));
}

/// "a call took 15.30 ms, MPI's own 30.00 ms (1.96x)".
std::string times_text(compared_seconds const& of) {
  return fmt::format("a call took {}, MPI's own {} ({})", seconds_text(of.own),
                     seconds_text(of.plain), ratio_text(of.plain, of.own));
}

/// "values off by up to 1.2e-04, in 3 calls by more than the bound".
std::string told_text(site_stats const& f, double ranks) {
  if (std::isnan(f.told_error)) return "error unknown: the codec states none";
  auto text = "values off by up to " + error_text(f.told_error);
  if (f.beyond_bound > 0)
    text += fmt::format(", in {} by more than the bound",
                        plural(static_cast<double>(f.beyond_bound) / ranks, "call"));
  return text;
}

constexpr char const* columns = "{:>9} {:<24} {:<6} {:>5} {:>14} {:>9} {:>9} {:>7} {:>9}\n";

}  // namespace

std::string place_of(void const* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || !info.dli_fname) return "?";
  std::string_view const path(info.dli_fname);
  auto const offset = static_cast<char const*>(address) - static_cast<char const*>(info.dli_fbase);
  return fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), offset);
}

void compared_seconds::add(compared_seconds const& other) {
  calls += other.calls;
  own += other.own;
  codec += other.codec;
  plain += other.plain;
}

compared_seconds compared_seconds::mean() const {
  if (calls == 0) return {};
  double const all = static_cast<double>(calls);
  return {1, own / all, codec / all, plain / all};
}

void site_stats::add(site_stats const& other) {
  if (other.calls == 0) return;  // its extremes are undefined
  smallest = calls == 0 ? other.smallest : std::min(smallest, other.smallest);
  largest = std::max(largest, other.largest);
  calls += other.calls;
  bytes_plain += other.bytes_plain;
  bytes_sent += other.bytes_sent;
  seconds += other.seconds;
  seconds_codec += other.seconds_codec;
  compared += other.compared;
  first.add(other.first);
  later.add(other.later);
  // NaN is the worst error of all.
  auto const worse = [](double a, double b) { return std::isnan(a) || b < a ? a : b; };
  worst_error = worse(worst_error, other.worst_error);
  worst_relative = worse(worst_relative, other.worst_relative);
  told_error = worse(told_error, other.told_error);
  residual = worse(residual, other.residual);
  beyond_bound += other.beyond_bound;
}

void journal::add(call_site const& site, site_stats const& one) {
  if (one.calls == 0) return;
  std::lock_guard const lock(mutex_);
  sites_[site].add(one);
}

bool journal::empty() const {
  std::lock_guard const lock(mutex_);
  return sites_.empty();
}

std::string journal::to_json() const {
  std::lock_guard const lock(mutex_);
  return text_of(json_of(sites_), -1);
}

void journal::merge_json(std::string_view json) {
  std::vector<site_entry> read;
  try {
    auto const sites = ordered_json::parse(json);
    for (auto const& one : sites.get_ref<ordered_json::array_t const&>())
      read.push_back(entry_of(one));
  } catch (ordered_json::exception const& error) {
    throw std::invalid_argument(
        fmt::format("a journal of {} bytes cannot be read: {}", json.size(), error.what()));
  }
  for (auto const& [site, stats] : read) add(site, stats);
}

std::string journal::summary(int ranks, std::string_view heading) const {
  std::unique_lock lock(mutex_);
  auto const taken = chosen(sites_, plain_, false), passed = chosen(sites_, plain_, true);
  lock.unlock();

  auto const of_all = fmt::format(
      "reductions of {}; calls and seconds per rank, bytes of all ranks", plural(ranks, "rank"));
  auto text = fmt::format("hcomp {}: {}\n", version_text(), heading.empty() ? of_all : heading);
  double const all = ranks;
  if (taken.empty()) {
    text += "\n  no reduction was taken over\n";
  } else {
    text += '\n' + fmt::format(columns, "calls", "function", "type", "ranks", "values", "plain",
                               "sent", "ratio", "time");
  }
  site_stats total;
  for (auto const& [site, f] : taken) {
    total.add(f);
    text += fmt::format(
        columns, number_text(static_cast<double>(f.calls) / all), site.function, site.type,
        site.ranks, values_text(f), bytes_text(static_cast<double>(f.bytes_plain)),
        bytes_text(static_cast<double>(f.bytes_sent)),
        ratio_text(static_cast<double>(f.bytes_plain), static_cast<double>(f.bytes_sent)),
        seconds_text(f.seconds / all));
    auto const line = [&](std::string const& words) {
      text += fmt::format("{:>9} {}\n", "", indented(words, 10));
    };
    line("by " + strategy_text(site));
    line(
        "from " + site.caller +
        (f.seconds > 0 && f.seconds_codec > 0  // it is not known of every call
             ? fmt::format("; {:.0f} % of the time in the codec", 100 * f.seconds_codec / f.seconds)
             : ""));
    if (f.told_error != 0) line(told_text(f, all));
    if (f.residual > 0)
      line(fmt::format("error feedback: residuals of up to {} of the energy of the values",
                       error_text(f.residual)));
    if (f.compared == 0) continue;
    line(compared_text(f, all));
    line(times_text(f.of_a_call()));
  }
  if (taken.size() > 1)
    text += fmt::format(
        columns, number_text(static_cast<double>(total.calls) / all), "all", "", "", "",
        bytes_text(static_cast<double>(total.bytes_plain)),
        bytes_text(static_cast<double>(total.bytes_sent)),
        ratio_text(static_cast<double>(total.bytes_plain), static_cast<double>(total.bytes_sent)),
        seconds_text(total.seconds / all));
  if (passed.empty()) return text;

  // Merges rows that differ only in the caller. The JSON report lists the callers.
  std::map<std::tuple<std::string, std::string, std::string>, site_stats> alike;
  for (auto const& [site, f] : passed) alike[{site.function, site.type, site.why}].add(f);
  text += fmt::format("\n{:>9} {:<24} {:<6} {:>20} {}\n", "calls", "left to " + plain_, "type",
                      "values", "because");
  for (auto const& [key, f] : alike)
    text += fmt::format("{:>9} {:<24} {:<6} {:>20} {}\n",
                        number_text(static_cast<double>(f.calls) / all), std::get<0>(key),
                        std::get<1>(key), values_text(f), indented(std::get<2>(key), 10));
  return text;
}

std::string journal::report_json(int ranks, std::string_view settings) const {
  std::lock_guard const lock(mutex_);
  ordered_json const json{{"tool", "hcomp"},
                          {"version", version_text()},
                          {"settings", settings},
                          {"ranks", ranks},
                          {"sites", json_of(sites_)}};
  return text_of(json, 2);
}

std::string journal::prediction(int ranks) const {
  std::unique_lock lock(mutex_);
  auto taken = chosen(sites_, plain_, false);
  lock.unlock();
  std::erase_if(taken, [](site_entry const& one) { return one.second.compared == 0; });
  if (taken.empty())
    return "hcomp: no reduction was compared with MPI's own, so nothing is known about gains\n";

  auto text = fmt::format(
      "hcomp {}: what compression would gain on {}; seconds of a call\n"
      "  links send and receive at their rate at once, and wait for nothing; codecs as fast as "
      "here\n",
      version_text(), plural(ranks, "rank"));
  for (auto const& [site, f] : taken) {
    double const calls = static_cast<double>(f.calls);
    double const plain = static_cast<double>(f.bytes_plain) / calls;
    double const sent = static_cast<double>(f.bytes_sent) / calls;
    auto const here = f.of_a_call();
    text += fmt::format("\n  {} of {} {} values on {}, from {}\n  by {}\n", site.function,
                        values_text(f), site.type, plural(site.ranks, "rank"), site.caller,
                        indented(strategy_text(site), 2));
    text += fmt::format("  {} instead of {} sent per rank ({})\n  {}\n", bytes_text(sent),
                        bytes_text(plain), ratio_text(plain, sent), compared_text(f, ranks));
    text += "  here " + times_text(here) + "\n";
    text += fmt::format("  {:>10} {:>11} {:>11} {:>8}\n", "Gbit/s", "plain", "compressed", "gain");
    for (int const gbit : {1, 10, 25, 100, 400}) {
      double const rate = gbit * 1e9;
      double const before = 8 * plain / rate, after = here.codec + 8 * sent / rate;
      text += fmt::format("  {:>10} {:>11} {:>11} {:>8}\n", gbit, seconds_text(before),
                          seconds_text(after), ratio_text(before, after));
    }
  }
  return text;
}

}  // namespace hcomp::drop_in
