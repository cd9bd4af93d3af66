#include "charts.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "../support/gnuplot.hpp"
#include "text.hpp"

namespace perf {
namespace {

/// Colours that people with colour blindness can tell apart (Okabe and Ito, 2008). Grey is for the
/// MPI library's own, yellow is too pale for lines on white.
using named_color = std::pair<char const*, char const*>;
constexpr std::array fixed_colors{
    named_color{"identity", "#000000"},   named_color{"fp16", "#56B4E9"},
    named_color{"bf16", "#0072B2"},       named_color{"sign", "#009E73"},
    named_color{"sign_count", "#D55E00"}, named_color{"automatic", "#E69F00"}};
constexpr std::array free_colors{"#CC79A7", "#E69F00", "#0072B2", "#56B4E9",
                                 "#D55E00", "#009E73", "#000000"};
constexpr char const* own_color = "#8a8a8a";

/// From the least to the most of some figures.
struct range {
  double least = std::numeric_limits<double>::infinity(), most = 0;

  void include(double figure) {
    least = std::min(least, figure);
    most = std::max(most, figure);
  }
  /// Where a figure lies, on a logarithmic scale from 0 to 1.
  double place(double figure) const { return std::log(figure / least) / std::log(most / least); }
  range padded(double factor) const { return {least / factor, most * factor}; }
};

/// A name at the right border, where its line ends.
struct end_label {
  double place;  ///< of the chart's height
  std::string text, color;
};

std::string draw_labels(std::vector<end_label> labels) {
  constexpr double gap = 0.055;
  std::ranges::sort(labels, {}, &end_label::place);
  // Upwards where they are too near, and what is then too high down again.
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].place = std::max(labels[i].place, labels[i - 1].place + gap);
  double highest = 1;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label, highest -= gap)
    label->place = std::min(label->place, highest);
  std::string text;
  std::size_t longest = 0;
  for (auto const& label : labels) {
    longest = std::max(longest, label.text.size());
    text += fmt::format("set label {} at graph 1,graph {:.4f} left offset 1,0 tc rgb '{}'\n",
                        example::gnuplot_text(label.text), label.place, label.color);
  }
  return text + fmt::format("set rmargin {}\n", longest + 3);
}

std::string tics(char const* axis, std::vector<std::pair<double, std::string>> const& places) {
  std::string text;
  for (auto const& [place, name] : places)
    text +=
        fmt::format("{}{} {:.9g}", text.empty() ? "" : ", ", example::gnuplot_text(name), place);
  return fmt::format("set {}tics ({})\n", axis, text);
}

/// At 1, 10, 100, ...; over less than two and a half decades also at 2 and 5 of each.
template <class Name>
std::vector<std::pair<double, std::string>> decades(range const& shown, Name const& name) {
  bool const few = shown.most / shown.least < 300;
  std::vector<std::pair<double, std::string>> places;
  for (int power = -9; power < 12; ++power)
    for (int const digit : {1, 2, 5})
      if (double const at = digit * std::pow(10.0, power);
          (few || digit == 1) && at >= shown.least && at <= shown.most)
        places.emplace_back(at, name(at));
  return places;
}

std::string time_tic(double seconds) {
  if (seconds < 0.9e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  if (seconds < 0.9) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

/// At most eight of the sizes, the largest among them.
std::vector<std::pair<double, std::string>> size_tics(std::vector<std::uint64_t> const& sizes) {
  std::size_t const every = (sizes.size() + 7) / 8;
  std::vector<std::pair<double, std::string>> places;
  for (std::size_t i = (sizes.size() - 1) % every; i < sizes.size(); i += every)
    places.emplace_back(static_cast<double>(sizes[i]), size_text(sizes[i]));
  return places;
}

constexpr char const* head =
    "set encoding utf8\n"
    "set terminal svg size 640,470 dynamic noenhanced font 'sans-serif,15' background '#ffffff' "
    "rounded\n"
    "set border 3 lc rgb '#666666' lw 1\n"
    "set grid back lc rgb '#e4e4e4' lw 1 lt 1\n"
    "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
    "set logscale xy\nunset mxtics\nunset mytics\nunset key\n"
    "set tmargin 1\n";

std::string block(std::string const& name, std::string const& lines) {
  return fmt::format("${} << EOD\n{}EOD\n", name, lines);
}

/// What lies behind comes first.
std::string plot_command(std::vector<std::string> const& what) {
  return fmt::format("plot {}\n", fmt::join(what, ", "));
}

double last_time(curve const& one) { return one.rows.rbegin()->second->seconds.median; }

/// The curves of every codec, that with the smallest time at the largest size first.
std::vector<std::vector<curve>> by_codec(std::vector<curve> curves) {
  std::ranges::stable_sort(curves, [](curve const& a, curve const& b) {
    auto const key = [](curve const& c) {
      return std::pair(~c.rows.rbegin()->first, last_time(c));  // of the largest size
    };
    return key(a) < key(b);
  });
  std::vector<std::vector<curve>> groups;
  for (auto& c : curves) {
    auto place =
        std::ranges::find_if(groups, [&](auto const& g) { return g.front().codec == c.codec; });
    if (place == groups.end()) place = groups.insert(groups.end(), std::vector<curve>());
    place->push_back(std::move(c));
  }
  return groups;
}

}  // namespace

looks::looks(std::vector<network> const& all) {
  for (auto const& n : all)
    for (auto const& c : n.curves()) {
      auto const is_known = [&](auto const& known) { return known.first == c.codec; };
      if (std::ranges::any_of(colors_, is_known)) continue;
      auto const* const fixed = std::ranges::find_if(fixed_colors, is_known);
      colors_.emplace_back(c.codec, c.is_own()                    ? own_color
                                    : fixed != fixed_colors.end() ? fixed->second
                                                                  : "");
    }
  // The others take what is left; if nothing is, they share.
  std::size_t shared = 0;
  for (auto& [codec, color] : colors_) {
    if (!color.empty()) continue;
    auto const* const unused = std::ranges::find_if(free_colors, [&](std::string_view one) {
      return std::ranges::none_of(colors_, [&](auto const& known) { return known.second == one; });
    });
    color = unused != free_colors.end() ? *unused : free_colors[shared++ % free_colors.size()];
  }
}

std::string looks::color(std::string_view codec) const {
  for (auto const& [name, color] : colors_)
    if (name == codec) return color;
  return own_color;
}

looks::mark looks::mark_of(std::string_view algorithm) {
  if (algorithm == "ring") return {7, "●"};
  if (algorithm.starts_with("torus")) return {5, "■"};
  if (algorithm == "direct") return {9, "▲"};
  if (algorithm == "recursive_doubling") return {11, "▼"};
  if (algorithm == "sampled") return {13, "◆"};
  if (algorithm.starts_with("hierarchical")) return {15, "⬟"};
  if (algorithm == "MPI") return {2, "×"};
  return {6, "○"};
}

std::string time_chart(network const& all, looks const& look, std::string const& id) {
  std::string text = head;
  std::vector<std::string> bands, lines;
  range sizes, times;
  for (auto const bytes : all.sizes()) sizes.include(static_cast<double>(bytes));

  std::vector<std::pair<double, std::pair<std::string, std::string>>> ends;
  int blocks = 0;
  auto const add_block = [&](curve const& c) {
    std::string stats;
    for (auto const& [bytes, r] : c.rows) {
      auto calls = spread::of(r->calls.empty() ? std::vector{r->seconds.median} : r->calls);
      calls.least = std::min(calls.least, r->seconds.median);
      calls.most = std::max(calls.most, r->seconds.median);
      stats += fmt::format("{} {:.9g} {:.9g} {:.9g} {:.9g}\n", bytes, r->seconds.median,
                           calls.least, calls.most, r->bound.value_or(0));
      times.include(r->seconds.median);
    }
    auto const name = fmt::format("d{}", blocks++);
    text += block(name, stats);
    return "$" + name;
  };
  auto const add_bound = [&](std::string const& data, std::string const& color) {
    lines.push_back(fmt::format(
        "{} using 1:($5 > 0 ? $5 : NaN) with lines dt (6,5) lw 1.2 lc rgb '{}'", data, color));
  };

  auto const libraries = all.libraries();
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    auto const own = all.own(libraries[i]);
    if (own.rows.empty()) continue;
    auto const* const color = i == 0 ? own_color : i == 1 ? "#b4b4b4" : "#cccccc";
    auto const data = add_block(own);
    bands.push_back(fmt::format(
        "{} using 1:3:4 with filledcurves fc rgb '{}' fs transparent solid 0.3", data, color));
    lines.push_back(
        fmt::format("{} using 1:2 with linespoints pt 2 ps 0.6 lw 3 lc rgb '{}'", data, color));
    if (i == 0) add_bound(data, color);
    ends.emplace_back(last_time(own), std::pair(libraries.size() == 1 ? "MPI’s own" : libraries[i],
                                                i == 0 ? "#6a6a6a" : "#8a8a8a"));
  }
  for (auto const& group : by_codec(all.curves())) {
    auto const color = look.color(group.front().codec);
    for (auto const& c : group) {
      bool const is_fastest = &c == &group.front();
      auto const data = add_block(c);
      auto const mark = looks::mark_of(c.algorithm);
      lines.push_back(fmt::format("{} using 1:2 with linespoints pt {} ps {} lw {} lc rgb '#{}{}'",
                                  data, mark.point, is_fastest ? 0.8 : 0.55, is_fastest ? 2.5 : 1,
                                  is_fastest ? "" : "60", color.substr(1)));
      if (!is_fastest) continue;
      add_bound(data, color);
      ends.emplace_back(last_time(c), std::pair(c.is_own() ? c.name() : c.codec, color));
    }
  }
  if (blocks == 0) return {};
  auto const shown = times.padded(1.4);
  std::vector<end_label> labels;
  for (auto const& [time, label] : ends)
    labels.push_back({shown.place(time), label.first, label.second});
  auto const across = sizes.padded(sizes.most > sizes.least ? 1.15 : 2);
  text += fmt::format(
      "set xlabel 'size of the vector as it is' textcolor rgb '#333333'\n"
      "set ylabel 'time of an all-reduce' textcolor rgb '#333333' offset -0.5,0\n"
      "set xrange [{:.9g}:{:.9g}]\nset yrange [{:.9g}:{:.9g}]\n",
      across.least, across.most, shown.least, shown.most);
  text += tics("x", size_tics(all.sizes())) + tics("y", decades(shown, time_tic));
  text += draw_labels(std::move(labels));
  bands.insert(bands.end(), lines.begin(), lines.end());
  return example::gnuplot_svg(id, text + plot_command(bands));
}

std::string speed_up_chart(rate_series const& all, looks const& look, std::string const& id) {
  struct best {
    std::string codec;
    std::vector<std::pair<double, double>> places;  ///< rate and speed-up
  };
  std::vector<best> codecs;
  range rates, ratios;
  ratios.include(1);
  for (auto const* const n : all.networks) {
    double const rate = n->first().rate;
    rates.include(rate);
    for (auto const& c : n->curves()) {
      auto const at = c.rows.find(all.bytes);
      if (c.is_own() || at == c.rows.end()) continue;
      double const ratio = n->speed_up(*at->second).value_or(1);
      auto place = std::ranges::find(codecs, c.codec, &best::codec);
      if (place == codecs.end()) place = codecs.insert(codecs.end(), best{c.codec, {}});
      if (place->places.empty() || place->places.back().first != rate)
        place->places.emplace_back(rate, ratio);
      else
        place->places.back().second = std::max(place->places.back().second, ratio);
      ratios.include(ratio);
    }
  }
  std::string text = head;
  std::vector<std::string> lines;
  auto const shown = ratios.padded(1.5), across = rates.padded(1.3);
  std::vector<end_label> labels{{shown.place(1), "MPI’s own", "#6a6a6a"}};
  for (std::size_t i = 0; i < codecs.size(); ++i) {
    std::string stats;
    for (auto const& [rate, ratio] : codecs[i].places)
      stats += fmt::format("{:.9g} {:.9g}\n", rate, ratio);
    auto const name = fmt::format("d{}", i);
    auto const color = look.color(codecs[i].codec);
    text += block(name, stats);
    lines.push_back(
        fmt::format("${} using 1:2 with linespoints pt 7 ps 0.8 lw 2.5 lc rgb '{}'", name, color));
    labels.push_back({shown.place(codecs[i].places.back().second), codecs[i].codec, color});
  }
  if (codecs.empty()) return {};
  std::vector<std::pair<double, std::string>> rate_tics;
  for (auto const* const n : all.networks)
    rate_tics.emplace_back(n->first().rate, rate_text(n->first().rate));
  text += fmt::format(
      "set xlabel 'rate of a rank’s link' textcolor rgb '#333333'\n"
      "set ylabel 'times as fast as MPI’s own' textcolor rgb '#333333' offset -0.5,0\n"
      "set xrange [{:.9g}:{:.9g}]\nset yrange [{:.9g}:{:.9g}]\n"
      "set object 1 rectangle from graph 0,first {:.9g} to graph 1,first 1 behind "
      "fc rgb '#f3f1ee' fs solid noborder\n"
      "set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead lw 3 lc rgb '{}' back\n"
      "set label 'slower than MPI’s own' at graph 0.02,graph 0.04 tc rgb '#6a6a6a'\n"
      "set label 'faster' at graph 0.98,graph 0.96 right tc rgb '#6a6a6a'\n",
      across.least, across.most, shown.least, shown.most, shown.least, own_color);
  text += tics("x", rate_tics) +
          tics("y", decades(shown, [](double ratio) { return fmt::format("{:.3g}", ratio); }));
  return example::gnuplot_svg(id, text + draw_labels(std::move(labels)) + plot_command(lines));
}

}  // namespace perf
