#include "plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace train {
namespace {

/// Colours that people with colour blindness can tell apart (Okabe and Ito, 2008); grey for full
/// precision, which all others are measured by.
struct look {
  char const *codec, *color;
};
constexpr std::array looks{look{"fp32", "#444444"},   look{"fp16", "#999999"},
                           look{"bf16", "#56B4E9"},   look{"majority_vote", "#D55E00"},
                           look{"signum", "#E69F00"}, look{"ef_sign", "#CC79A7"},
                           look{"marsit", "#009E73"}, look{"marsit_inf", "#0072B2"}};

char const* color_of(std::string const& codec) {
  auto const* const found =
      std::ranges::find_if(looks, [&](look const& l) { return codec == l.codec; });
  return found == looks.end() ? "#000000" : found->color;
}

/// One line per observation: GB sent, seconds, then mean, least and most of accuracy and of loss.
std::string data_block(comparison_row const& row) {
  std::string text;
  auto const& curve = row.runs.front().curve;
  for (std::size_t i = 1; i < curve.size(); ++i) {  // the first has sent nothing
    auto const figures = [&](auto figure) {
      std::vector<double> values;
      for (auto const& run : row.runs) values.push_back(run.curve[i].*figure);
      auto const [least, most] = std::ranges::minmax(values);
      return std::array{comparison_row::spread_of(values).mean, least, most};
    };
    auto const accuracy = figures(&observation::accuracy);
    auto const loss = figures(&observation::train_loss);
    text += fmt::format("{} {} {} {} {} {} {} {}\n", figures(&observation::bytes)[0] / 1e9,
                        figures(&observation::seconds)[0], accuracy[0], accuracy[1], accuracy[2],
                        loss[0], loss[1], loss[2]);
  }
  return text;
}

/// @param x, y  columns of the data blocks
std::string panel(comparison const& all, int x, int y, bool with_key) {
  std::string bands, lines;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    auto const& row = all.rows[i];
    auto const* const color = color_of(row.codec);
    if (row.runs.size() > 1)
      bands += fmt::format(
          "$data{} using {}:{}:{} with filledcurves fc rgb '{}' fs transparent "
          "solid 0.18 notitle, ",
          i, x, y + 1, y + 2, color);
    std::string title = row.codec;
    std::ranges::replace(title, '_', ' ');
    lines += fmt::format("$data{} using {}:{} with lines lw {} lc rgb '{}' {}, ", i, x, y,
                         row.codec == "marsit" ? 3 : 2, color,
                         with_key ? fmt::format("title '{}'", title) : "notitle");
  }
  return "plot " + bands + lines.substr(0, lines.size() - 2) + "\n";
}

std::string script(comparison const& all, std::string const& file) {
  std::string text;
  double least_accuracy = 100, most_accuracy = 0;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    text += fmt::format("$data{} << EOD\n{}EOD\n", i, data_block(all.rows[i]));
    for (auto const& run : all.rows[i].runs) {
      least_accuracy = std::min(least_accuracy, run.end().accuracy);
      most_accuracy = std::max(most_accuracy, run.end().accuracy);
    }
  }
  auto const& o = all.settings;
  auto const& run = all.rows.front().runs.front();
  text += fmt::format(
      "set terminal svg size 1100,820 font 'Helvetica,15' background rgb 'white' rounded\n"
      "set output '{}'\n"
      "set multiplot layout 2,2 margins 0.075,0.985,0.08,0.86 spacing 0.075,0.085 "
      "title \"{} ranks train {:.2f} million parameters on {}\" font ',19' offset 0,-0.2\n"
      "set grid back lc rgb '#dddddd' lw 1 lt 1\n"
      "set border 3 lc rgb '#666666' lw 1\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
      "set ylabel offset 1,0\n"
      "set format x '%g'\n",
      file, all.ranks, static_cast<double>(run.parameters) / 1e6,
      o.data == "synthetic" ? "synthetic data" : "Fashion-MNIST");
  std::string const accuracy_axis = fmt::format(
      "unset logscale y\nset format y '%g'\nset ylabel 'test accuracy, %'\nset yrange [{}:{}]\n",
      std::max(0.0, std::floor(least_accuracy - 15)),
      std::min(100.0, std::ceil(most_accuracy + 1)));
  std::string const loss_axis =
      "set logscale y\nset format y '%g'\nset ylabel 'training loss, nats'\nset yrange [*:*]\n";
  std::string const bytes_axis =
      "set logscale x\nset xlabel 'sent by one rank, GB (log scale)'\nset xrange [*:*]\n";
  std::string const time_axis =
      "unset logscale x\nset xlabel 'training time, s'\nset xrange [0:*]\n";
  std::string const key =
      "set key at screen 0.5,0.925 center horizontal samplen 2.2 width 1.5 height 0.3 nobox\n";
  text += accuracy_axis + bytes_axis + key + panel(all, 1, 3, true) + "unset key\n";
  text += time_axis + panel(all, 2, 3, false);
  text += loss_axis + bytes_axis + panel(all, 1, 6, false);
  text += time_axis + panel(all, 2, 6, false);
  return text + "unset multiplot\n";
}

}  // namespace

void require_gnuplot() {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    throw std::runtime_error(
        "--plot needs the program gnuplot, which was not found; on Debian: apt install "
        "gnuplot-nox");
}

void plot(comparison const& all, std::string const& file) {
  auto const text = script(all, file);
  FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) throw std::runtime_error("gnuplot cannot be started");
  bool const written = std::fwrite(text.data(), 1, text.size(), gnuplot) == text.size();
  if (int const status = pclose(gnuplot); !written || status != 0)
    throw std::runtime_error(fmt::format("gnuplot failed with status {} on {}", status, file));
}

}  // namespace train
