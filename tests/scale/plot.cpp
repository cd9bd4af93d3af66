// scale_plot: draws what `scale --json` wrote.
//
//   scale_plot <picture.svg> <figures.json>...

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "../../examples/support/gnuplot.hpp"

namespace {

struct point {
  int ranks;
  double simulated, predicted;  ///< milliseconds
};

struct curve {
  std::string name, algorithm, codec;
  std::vector<point> points;  ///< by ranks
};

std::string name_of(std::string const& codec, int hop_bits) {
  if (codec == "identity") return "fp32";
  if (codec == "sign") return "1 bit";
  return hop_bits == 0 ? codec : fmt::format("{}, {} bits", codec, hop_bits);
}

/// All curves of one bandwidth.
using panel = std::vector<curve>;

struct picture {
  std::map<double, panel> panels;  ///< by Gbit/s
  double values = 0, latency_us = 0;
  bool rendezvous = false;
  int least_ranks = 1 << 30, most_ranks = 0;

  void add(nlohmann::json const& one) {
    values = one.at("values");
    latency_us = one.at("latency_us");
    rendezvous = one.at("rendezvous");
    int const ranks = one.at("ranks");
    least_ranks = std::min(least_ranks, ranks);
    most_ranks = std::max(most_ranks, ranks);
    std::string const algorithm = one.at("algorithm"), codec = one.at("codec");
    auto const name = algorithm + ", " + name_of(codec, one.at("hop_bits"));
    auto& curves = panels[one.at("bandwidth_gbit_s")];
    auto found = std::ranges::find(curves, name, &curve::name);
    if (found == curves.end())
      found = curves.insert(curves.end(), curve{name, algorithm, codec, {}});
    found->points.push_back(
        {ranks, 1e3 * one.at("seconds").get<double>(), 1e3 * one.at("predicted").get<double>()});
    std::ranges::sort(found->points, {}, &point::ranks);
  }
};

/// Colours that people with colour blindness can tell apart (Okabe and Ito, 2008).
char const* color_of(std::string_view algorithm) {
  if (algorithm == "ring") return "#0072B2";
  if (algorithm == "torus") return "#009E73";
  if (algorithm == "direct") return "#D55E00";
  if (algorithm == "recursive_doubling") return "#E69F00";
  return "#CC79A7";
}

/// Where the names of curves stand: at their ends, but none nearer to the next one below than
/// `distance` decades.
std::vector<double> label_places(panel const& curves, double distance) {
  auto const& end_of = [&](std::size_t i) -> point const& { return curves[i].points.back(); };
  std::vector<std::size_t> order(curves.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return end_of(i).simulated; });
  std::vector<double> places(curves.size());
  std::map<int, double> lowest_free;  // of the curves that end at so many ranks
  for (auto const i : order) {
    auto& free = lowest_free.try_emplace(end_of(i).ranks, -1e9).first->second;
    double const place = std::max(std::log10(end_of(i).simulated), free);
    free = place + distance;
    places[i] = std::pow(10, place);
  }
  return places;
}

std::string script(picture const& all, std::string const& file) {
  double least = 1e9, most = 0;
  for (auto const& [bandwidth, curves] : all.panels)
    for (auto const& one : curves)
      for (auto const& p : one.points) {
        least = std::min({least, p.simulated, p.predicted});
        most = std::max({most, p.simulated, p.predicted});
      }
  least /= 1.3;
  most *= 1.3;
  auto text = fmt::format(
      "set terminal svg size 1100,560 font 'Helvetica,15' background rgb 'white' rounded\n"
      "{}"
      "set multiplot layout 1,{} margins 0.075,0.868,0.12,0.79 spacing 0.165,0.1 "
      "title \"One all-reduce of {:g} million values on {} to {} simulated nodes\" "
      "font ',19' offset 0,-0.3\n"
      "set label 'points: simulated{}; lines: the formula; latency {:g} us, codecs as measured' "
      "at screen 0.5,0.9 center textcolor rgb '#666666'\n"
      "set grid back lc rgb '#e2e2e2' lw 1 lt 1\nset border 3 lc rgb '#666666' lw 1\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
      "set logscale xy\nunset mxtics\nset xtics (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)\n"
      "set ytics (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)\n"
      "set xrange [{}:{}]\nset yrange [{}:{}]\nset xlabel 'ranks, log scale' offset 0,0.3\n"
      "set ylabel 'milliseconds, log scale' offset 0.5,0\n",
      example::gnuplot_output(file), all.panels.size(), all.values / 1e6, all.least_ranks,
      all.most_ranks, all.rendezvous ? ", messages wait for their receives" : "", all.latency_us,
      all.least_ranks, all.most_ranks, least, most);
  int number = 0;
  for (auto const& [bandwidth, curves] : all.panels) {
    std::string plots;
    auto const places = label_places(curves, 0.047 * std::log10(most / least));
    for (std::size_t i = 0; i < curves.size(); ++i) {
      auto const& one = curves[i];
      auto const* const color = color_of(one.algorithm);
      bool const is_full = one.codec == "identity", is_thc = one.codec == "thc";
      text += fmt::format("$data{} << EOD\n", number);
      for (auto const& p : one.points)
        text += fmt::format("{} {} {}\n", p.ranks, p.simulated, p.predicted);
      // A curve that ends before others has its name above it, where theirs do not pass.
      bool const ends_inside = one.points.back().ranks < all.most_ranks;
      text += fmt::format("EOD\nset label {} at first {},{} {} textcolor rgb '{}'\n",
                          example::gnuplot_text(one.name), one.points.back().ranks, places[i],
                          ends_inside ? "right offset -0.8,0.6" : "left offset 0.8,0", color);
      plots += fmt::format(
          "{}$data{} using 1:3 with lines lw 2 dt {} lc rgb '{}' notitle, "
          "$data{} using 1:2 with points pt {} ps 0.8 lw 1.5 lc rgb '{}' notitle",
          i == 0 ? "" : ", ", number,
          is_full  ? "(6,4)"
          : is_thc ? "(2,3)"
                   : "1",
          color, number,
          is_full  ? 6
          : is_thc ? 13
                   : 7,
          color);
      ++number;
    }
    text += fmt::format(
        "set title 'links of {:g} Gbit/s' offset 0,-0.6\nplot {}\nunset label\nunset ylabel\n",
        bandwidth, plots);
  }
  return text + "unset multiplot\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    fmt::print(stderr, "usage: scale_plot <picture.svg> <figures.json>...\n");
    return 2;
  }
  picture all;
  for (int i = 2; i < argc; ++i) {
    std::ifstream in(argv[i]);
    auto const stats = nlohmann::json::parse(in);
    for (auto const& one : stats) all.add(one);
  }
  example::gnuplot(script(all, argv[1]));
  return 0;
} catch (std::exception const& e) {
  fmt::print(stderr, "scale_plot: {}\n", e.what());
  return 1;
}
