#include "plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "../support/gnuplot.hpp"

namespace train {
namespace {

/// Colours that people with colour blindness can tell apart (Okabe and Ito, 2008); grey for full
/// precision, which all others are measured by.
struct look {
  char const *codec, *color;
};
constexpr std::array looks{
    look{"fp32", "#444444"},          look{"fp16", "#999999"},        look{"bf16", "#56B4E9"},
    look{"majority_vote", "#D55E00"}, look{"signum", "#E69F00"},      look{"ef_sign", "#CC79A7"},
    look{"thc", "#882255"},           look{"uniform_thc", "#AA4499"}, look{"sparse", "#332288"},
    look{"sparse_fixed", "#44AA99"},  look{"fixed", "#DDAA33"},       look{"top_k", "#661100"},
    look{"marsit", "#009E73"},        look{"marsit_inf", "#0072B2"},  look{"inceptionn", "#117733"},
    look{"error_bounded", "#999933"}};

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

/// One line per observation: GB sent, seconds, then mean, least and most of the figure of the test
/// set and of the training loss.
std::string data_block(comparison_row const& row, double observation::*of_tests) {
  std::string text;
  auto const& curve = row.runs.front().curve;
  for (std::size_t i = 1; i < curve.size(); ++i) {  // the first has sent nothing
    auto const stats = [&](auto figure) {
      std::vector<double> values;
      for (auto const& run : row.runs) values.push_back(run.curve[i].*figure);
      auto const [least, most] = std::ranges::minmax(values);
      return std::array{comparison_row::spread_of(values).mean, least, most};
    };
    auto const test = stats(of_tests);
    auto const loss = stats(&observation::train_loss);
    text += fmt::format("{} {} {} {} {} {} {} {}\n", stats(&observation::bytes)[0] / 1e9,
                        stats(&observation::seconds)[0], test[0], test[1], test[2], loss[0],
                        loss[1], loss[2]);
  }
  return text;
}

/// Its packets travel in a time of their own, so the time it took says nothing about others.
bool is_simulated(comparison_row const& row) { return row.runs.front().algorithm == "aggregators"; }

/// Whether a line of `later` hides that of `one`, which is drawn before it.
/// @param close  whether two places on the horizontal axis are one to the eye
template <class Close>
bool hides(comparison_row const& later, comparison_row const& one, Close const& close) {
  return std::ranges::equal(
      later.runs.front().curve, one.runs.front().curve,
      [&](observation const& a, observation const& b) {
        return std::abs(a.train_loss - b.train_loss) <= 0.005 * b.train_loss && close(a, b);
      });
}

/// @param x, y  columns of the data blocks
std::string panel(comparison const& all, int x, int y) {
  constexpr int seconds = 2;
  bool const leaves_out = x == seconds && !std::ranges::all_of(all.rows, is_simulated);
  double longest = 0;
  for (auto const& row : all.rows)
    longest = std::max(longest, row.runs.front().curve.back().seconds);
  auto const is_close = [&](observation const& a, observation const& b) {
    return x == seconds ? std::abs(a.seconds - b.seconds) <= 0.01 * longest
                        : std::abs(a.bytes - b.bytes) <= 0.02 * b.bytes;  // the axis is logarithmic
  };
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
    double width = row.codec == "marsit" ? 3 : 2;
    for (std::size_t later = i + 1; later < all.rows.size(); ++later)
      if (hides(all.rows[later], row, is_close)) width += 4;  // and is seen on both sides of it
    lines += fmt::format("$data{} using {}:{} with lines lw {} dt {} lc rgb '{}' notitle, ", i, x,
                         y, width, line_of(all, i), color);
    ends +=
        fmt::format("$data{} using {}:{} every ::{} with points pt {} ps 0.7 lc rgb '{}' notitle, ",
                    i, x, y, row.runs.front().curve.size() - 2, point_of(all, i), color);
  }
  auto const all_curves = bands + lines + ends;
  return "plot " + all_curves.substr(0, all_curves.size() - 2) + "\n";
}

/// The names in their colours, in rows above the panels.
std::string key(comparison const& all) {
  constexpr double letter = 0.0085, gap = 4 * letter;  // of the picture's width
  auto const width_of = [&](std::size_t i) {
    return letter * static_cast<double>(all.rows[i].codec.size()) + gap;
  };
  struct line {
    std::size_t first;
    double width;
  };
  std::vector<line> lines{{0, 0}};
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    if (lines.back().width + width_of(i) > 0.98 + gap) lines.push_back({i, 0});
    lines.back().width += width_of(i);
  }
  std::string text;
  double place = 0, height = 0.898 + 0.016 * static_cast<double>(lines.size() + 1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    if (next < lines.size() && lines[next].first == i) {
      place = 0.5 - 0.5 * (lines[next++].width - gap);
      height -= 0.032;
    }
    std::string title = all.rows[i].codec;
    std::ranges::replace(title, '_', ' ');
    text += fmt::format(
        "set label {} at screen {},{} point pt {} ps 1 lc rgb '{}' offset 0.8,-0.3\n",
        example::gnuplot_text(title), place, height, point_of(all, i), color_of(all.rows[i]));
    place += width_of(i);
  }
  return text;
}

/// The axes show what the last nine tenths of the runs look like, as far as they have come, not how they
/// all start.
struct window {
  double least = 1e9, most = 0;

  window(comparison const& all, double observation::*figure) {
    for (auto const& row : all.rows)
      for (auto const& run : row.runs)
        for (auto const& now : run.curve) {
          if (now.step * 10 < run.curve.back().step) continue;
          least = std::min(least, now.*figure);
          most = std::max(most, now.*figure);
        }
  }
};

std::string accuracy_axis(comparison const& all) {
  window const shown(all, &observation::accuracy);
  return fmt::format(
      "unset logscale y\nset ytics autofreq\nset ylabel 'test "
      "accuracy, %'\nset yrange [{}:{}]\n",
      std::floor(shown.least - 2), std::min(100.0, std::ceil(shown.most + 0.5)));
}

/// Of a loss that may fall by orders of magnitude.
std::string log_loss_axis(comparison const& all) {
  window const shown(all, &observation::train_loss);
  return fmt::format(
      "set logscale y\nset ytics (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, "
      "0.5, 0.7, 1, 2, 3, "
      "5)\n"
      "set ylabel 'training loss, nats (log scale)'\nset yrange [{}:{}]\n",
      shown.least / 1.1, shown.most * 1.3);
}

/// Of one that does not.
std::string loss_axis(comparison const& all, char const* name, double observation::*loss) {
  window const shown(all, loss);
  double const margin = 0.05 * (shown.most - shown.least);
  return fmt::format(
      "unset logscale y\nset ytics autofreq\nset ylabel '{}, "
      "nats'\nset yrange [{}:{}]\n",
      name, shown.least - margin, shown.most + margin);
}

/// The data may lie elsewhere, such as where examples/run.sh unpacks them.
std::string file_name(std::string_view path) {
  return std::filesystem::path(path).filename().string();
}

std::string script(comparison const& all, std::string const& file) {
  auto const& o = all.settings;
  auto const& model = *o.model;
  std::string text;
  for (std::size_t i = 0; i < all.rows.size(); ++i)
    text += fmt::format("$data{} << EOD\n{}EOD\n", i,
                        data_block(all.rows[i], model.has_accuracy ? &observation::accuracy
                                                                   : &observation::test_loss));
  auto const& run = all.rows.front().runs.front();
  auto const seeds = all.rows.front().runs.size();
  text += fmt::format(
      "set terminal svg size 1100,840 font 'Helvetica,15' background rgb 'white' rounded\n"
      "{}"
      "set multiplot layout 2,2 margins 0.07,0.98,0.085,0.855 spacing 0.085,0.13 "
      "title \"{} ranks learn {:.3g} million parameters from {}\" font ',19' offset 0,-0.3\n"
      "set label '{:.3g} epochs, {} {} per rank and step, {}{}' at screen 0.5,0.94 center "
      "textcolor rgb '#666666'\n"
      "set grid back lc rgb '#e2e2e2' lw 1 lt 1\n"
      "set border 3 lc rgb '#666666' lw 1\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
      "set mxtics default\n"
      "set xlabel offset 0,0.3\nset ylabel offset 0.8,0\n"
      "set format '%g'\n",
      example::gnuplot_output(file), all.ranks, static_cast<double>(run.parameters) / 1e6,
      o.data == "synthetic"                        ? fmt::format("synthetic {}", model.examples)
      : file_name(o.data) == file_name(model.data) ? std::string(model.data_name)
                                                   : "other data",
      o.epochs, o.batch, model.examples,
      seeds == 1 ? "one seed" : fmt::format("mean and range of {} seeds", seeds),
      o.link > 0 ? fmt::format(", ranks send at {:g} Gbit/s", o.link) : "");
  text += key(all);
  auto const above = model.has_accuracy ? accuracy_axis(all)
                                        : loss_axis(all, "held-out loss", &observation::test_loss);
  auto const beneath = model.has_accuracy
                           ? log_loss_axis(all)
                           : loss_axis(all, "training loss", &observation::train_loss);
  std::string const bytes_axis =
      "set logscale x\nset xlabel 'sent by one rank, GB (log scale)'\n"
      "set xrange [*:*]\nset autoscale xfix\n";
  std::string const time_axis =
      "unset logscale x\nset xlabel 'training time, s'\nset xrange [0:*]\n";
  text += above + bytes_axis + panel(all, 1, 3) + "unset label\n";
  text += time_axis + panel(all, 2, 3);
  text += beneath + bytes_axis + panel(all, 1, 6);
  text += time_axis + panel(all, 2, 6);
  return text + "unset multiplot\n";
}

}  // namespace

void plot(comparison const& all, std::string const& file) { example::gnuplot(script(all, file)); }

}  // namespace train
