#include "plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "../support/gnuplot.hpp"

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
                           look{"thc", "#882255"},    look{"uniform_thc", "#AA4499"},
                           look{"marsit", "#009E73"}, look{"marsit_inf", "#0072B2"}};

std::string_view method_of(comparison_row const& row) {
  return std::string_view(row.codec).substr(0, row.codec.find(','));
}

char const* color_of(comparison_row const& row) {
  auto const* const found =
      std::ranges::find_if(looks, [&](look const& l) { return method_of(row) == l.codec; });
  return found == looks.end() ? "#000000" : found->color;
}

/// Rows of one method have one colour; its second row has broken lines and open points, and so on.
int order_of(comparison const& all, std::size_t row) {
  int order = 0;
  for (std::size_t i = 0; i < row; ++i) order += method_of(all.rows[i]) == method_of(all.rows[row]);
  return order;
}
int line_of(comparison const& all, std::size_t row) { return 1 + order_of(all, row); }
int point_of(comparison const& all, std::size_t row) { return std::max(1, 7 - order_of(all, row)); }

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

/// Its packets travel in a time of their own, so the time it took says nothing about others.
bool is_simulated(comparison_row const& row) { return row.runs.front().algorithm == "aggregators"; }

/// @param x, y  columns of the data blocks
std::string panel(comparison const& all, int x, int y) {
  constexpr int seconds = 2;
  bool const leaves_out = x == seconds && !std::ranges::all_of(all.rows, is_simulated);
  std::string bands, lines, ends;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    auto const& row = all.rows[i];
    if (leaves_out && is_simulated(row)) continue;
    auto const* const color = color_of(row);
    if (row.runs.size() > 1)
      bands += fmt::format(
          "$data{} using {}:{}:{} with filledcurves fc rgb '{}' fs transparent solid 0.18 "
          "notitle, ",
          i, x, y + 1, y + 2, color);
    lines += fmt::format("$data{} using {}:{} with lines lw {} dt {} lc rgb '{}' notitle, ", i, x,
                         y, row.codec == "marsit" ? 3 : 2, line_of(all, i), color);
    ends +=
        fmt::format("$data{} using {}:{} every ::{} with points pt {} ps 0.7 lc rgb '{}' notitle, ",
                    i, x, y, row.runs.front().curve.size() - 2, point_of(all, i), color);
  }
  auto const all_curves = bands + lines + ends;
  return "plot " + all_curves.substr(0, all_curves.size() - 2) + "\n";
}

/// The names in their colours, in a row above the panels.
std::string key(comparison const& all) {
  constexpr double letter = 0.0085, gap = 4 * letter;  // of the picture's width
  double width = 0;
  for (auto const& row : all.rows) width += letter * static_cast<double>(row.codec.size()) + gap;
  double place = 0.5 - 0.5 * (width - gap);
  std::string text;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    std::string title = all.rows[i].codec;
    std::ranges::replace(title, '_', ' ');
    text += fmt::format(
        "set label '{}' at screen {},0.898 point pt {} ps 1 lc rgb '{}' offset 0.8,-0.3\n", title,
        place, point_of(all, i), color_of(all.rows[i]));
    place += letter * static_cast<double>(title.size()) + gap;
  }
  return text;
}

/// The axes show what the last nine tenths of the runs look like, not how they all start.
struct window {
  double least_accuracy = 100, most_accuracy = 0, least_loss = 1e9, most_loss = 0;

  explicit window(comparison const& all) {
    for (auto const& row : all.rows)
      for (auto const& run : row.runs)
        for (auto const& now : run.curve) {
          if (now.step * 10 < run.steps) continue;
          least_accuracy = std::min(least_accuracy, now.accuracy);
          most_accuracy = std::max(most_accuracy, now.accuracy);
          least_loss = std::min(least_loss, now.train_loss);
          most_loss = std::max(most_loss, now.train_loss);
        }
  }
};

std::string script(comparison const& all, std::string const& file) {
  std::string text;
  for (std::size_t i = 0; i < all.rows.size(); ++i)
    text += fmt::format("$data{} << EOD\n{}EOD\n", i, data_block(all.rows[i]));
  auto const& o = all.settings;
  auto const& run = all.rows.front().runs.front();
  auto const seeds = all.rows.front().runs.size();
  text += fmt::format(
      "set terminal svg size 1100,840 font 'Helvetica,15' background rgb 'white' rounded\n"
      "set output '{}'\n"
      "set multiplot layout 2,2 margins 0.07,0.98,0.085,0.855 spacing 0.085,0.13 "
      "title \"{} ranks learn {:.3g} million parameters from {}\" font ',19' offset 0,-0.3\n"
      "set label '{:.3g} epochs, {} images per rank and step, {}{}' at screen 0.5,0.94 center "
      "textcolor rgb '#666666'\n"
      "set grid back lc rgb '#e2e2e2' lw 1 lt 1\n"
      "set border 3 lc rgb '#666666' lw 1\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
      "set mxtics default\n"
      "set xlabel offset 0,0.3\nset ylabel offset 0.8,0\n"
      "set format '%g'\n",
      file, all.ranks, static_cast<double>(run.parameters) / 1e6,
      o.data == "synthetic" ? "synthetic images" : "Fashion-MNIST", o.epochs, o.batch,
      seeds == 1 ? "one seed" : fmt::format("mean and range of {} seeds", seeds),
      o.link > 0 ? fmt::format(", ranks send at {:g} Gbit/s", o.link) : "");
  text += key(all);
  window const shown(all);
  auto const accuracy_axis = fmt::format(
      "unset logscale y\nset ytics autofreq\nset ylabel 'test accuracy, %'\nset yrange [{}:{}]\n",
      std::floor(shown.least_accuracy - 2), std::min(100.0, std::ceil(shown.most_accuracy + 0.5)));
  auto const loss_axis = fmt::format(
      "set logscale y\nset ytics (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 2, 3, "
      "5)\n"
      "set ylabel 'training loss, nats (log scale)'\nset yrange [{}:{}]\n",
      shown.least_loss / 1.1, shown.most_loss * 1.3);
  std::string const bytes_axis =
      "set logscale x\nset xlabel 'sent by one rank, GB (log scale)'\n"
      "set xrange [*:*]\nset autoscale xfix\n";
  std::string const time_axis =
      "unset logscale x\nset xlabel 'training time, s'\nset xrange [0:*]\n";
  text += accuracy_axis + bytes_axis + panel(all, 1, 3) + "unset label\n";
  text += time_axis + panel(all, 2, 3);
  text += loss_axis + bytes_axis + panel(all, 1, 6);
  text += time_axis + panel(all, 2, 6);
  return text + "unset multiplot\n";
}

}  // namespace

void plot(comparison const& all, std::string const& file) { example::gnuplot(script(all, file)); }

}  // namespace train
