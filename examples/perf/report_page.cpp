#include "report_page.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>
#include <utility>

#include "charts.hpp"
#include "network.hpp"
#include "text.hpp"

namespace perf {
namespace {

constexpr char const* style = R"(<style>
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem 2rem; background: #fff; color: #222;
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .5rem; }
p, ul, dl { margin: .5rem 0; }
ul { padding-left: 1.2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dt { font-weight: 600; }
dd { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  gap: 1rem 2rem; }
figure { margin: 0; }
figure:only-child { width: 100%; max-width: 60rem; margin: 0 auto; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2rem; max-width: none; margin: .25rem 0; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem;
  margin: .5rem 0; }
caption { text-align: left; font-weight: 600; font-size: 1rem; padding: .5rem 0; }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; }
thead th { vertical-align: bottom; }
thead tr:last-child th { border-bottom: 1px solid #999; }
th[colspan] { text-align: left; }
th small { display: block; font-weight: 400; color: #555; }
.text, tbody th { text-align: left; }
tbody + tbody tr:first-child > * { border-top: 1px solid #bbb; }
.own > * { background: #f0f0f0; }
th.gap, td.gap { padding-left: 1.8rem; }
.slower { color: #a33f00; }
.faster { color: #005f8f; font-weight: 600; }
.bad { color: #a33f00; font-weight: 600; }
.color { display: inline-block; width: 1.1em; height: .35em; border-radius: .2em; margin-right: .4em;
  vertical-align: middle; }
small { color: #555; }
</style>
)";

/// A text as HTML.
std::string html(std::string_view text) {
  std::string out;
  for (char const c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

/// "3.20×" and whether that is a loss, also for those who see no colours.
std::string ratio_html(double ratio) {
  auto const text = ratio < 0.095 ? fmt::format("{:.1g}", ratio)
                                  : fmt::format("{:.{}f}", ratio, ratio < 9.95 ? 2 : 0);
  if (ratio >= network::clear_speed_up)
    return fmt::format("<span class=\"faster\">{}×</span>", text);
  if (ratio >= 0.995) return text + "×";  // what would read "1.00×, slower"
  return fmt::format("<span class=\"slower\">{}×, slower</span>", text);
}

std::string patch(std::string const& color) {
  return fmt::format("<span class=\"color\" style=\"background:{}\"></span>", color);
}

/// The page, piece by piece.
class writer {
 public:
  explicit writer(std::vector<result> const& results)
      : results_(&results), networks_(networks_of(results)), look_(networks_) {}

  std::string page() {
    if (networks_.empty()) throw std::runtime_error("--plot: there are no figures to draw");
    text_ =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>All-reduces, measured by hcomp_perf</title>\n";
    text_ += style;
    text_ += "</head>\n<body>\n<h1>All-reduces, measured by hcomp_perf</h1>\n";
    introduction();
    where_it_pays();
    times();
    speed_ups();
    meanings();
    tables();
    text_ += "</body>\n</html>\n";
    return std::move(text_);
  }

 private:
  template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  void introduction() {
    add("<p>How long it takes to sum a vector over all ranks: with hcomp’s codecs, which send "
        "it in compressed form, and with the MPI library’s own <code>MPI_Allreduce</code> of "
        "the vector as it is, in turns.</p>\n");
    add("<div class=\"wide\"><table>\n<thead><tr><th class=\"text\">network</th><th class=\"text\">"
        "link of a rank</th><th class=\"text\">MPI</th><th class=\"text\">vectors</th>"
        "<th>calls</th><th class=\"text\">machine</th></tr></thead>\n<tbody>\n");
    for (auto const& n : networks_)
      for (auto const* const run : n.runs()) {
        std::size_t least = ~std::size_t{0}, most = 0;
        for (auto const& r : run->rows) {
          least = std::min(least, r.calls.size());
          most = std::max(most, r.calls.size());
        }
        add("<tr><th>{}</th><td class=\"text\">{}</td><td class=\"text\">{}</td>"
            "<td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
            html(place_of(*run)), html(link_of(*run)), html(run->mpi),
            html(fmt::format("{}, {}, {}", n.type(), run->input, run->mean ? "mean" : "sum")),
            least < most ? fmt::format("{} to {}", least, most) : fmt::format("{}", most),
            html(run->machine + (run->device.empty() ? "" : ", " + run->device)));
      }
    add("</tbody>\n</table></div>\n");
    add("<p>A time is that from a barrier to the return of the call: the median over the calls, "
        "and of that the median over the ranks. <strong>MPI’s own</strong> is the all-reduce that "
        "the MPI library chooses itself. Everything is compared with the best there is: {}.</p>\n",
        reference_text());
    if (std::ranges::any_of(*results_, [](result const& run) {
          return std::ranges::any_of(run.rows, [](row const& r) { return r.error > 0.1; });
        }))
      add("<p>Speed is half of the story: a codec of one bit per value gives a sum that is right "
          "on average and far off in each call (the column <em>error</em> below). That is made "
          "for training, which takes up in later steps what was lost in one.</p>\n");
  }

  std::string reference_text() const {
    bool const several =
        std::ranges::any_of(networks_, [](network const& n) { return n.libraries().size() > 1; });
    if (!several) return "the smaller of its times where it was measured more than once";
    return "at every size the library whose own all-reduce has the smaller median time";
  }

  static std::string place_of(result const& run) {
    return (run.label.empty() ? "" : run.label + ": ") +
           fmt::format("{} ranks on {} node{}{}", run.ranks, run.nodes, run.nodes == 1 ? "" : "s",
                       run.is_complete ? "" : ", interrupted");
  }
  static std::string link_of(result const& run) {
    auto text = run.rate > 0
                    ? rate_text(run.rate) + (run.rate_was_measured ? " (measured)" : " (given)")
                    : "not given";
    if (run.latency > 0) text += ", " + seconds_text(run.latency);
    return text;
  }

  void where_it_pays() {
    std::vector<std::pair<std::string, std::string>> strategies;
    for (auto const& n : networks_)
      for (auto const& c : n.curves()) {
        std::pair const strategy(c.codec, c.algorithm);
        if (std::ranges::find(strategies, strategy) == strategies.end())
          strategies.push_back(strategy);
      }
    if (strategies.empty()) return;
    add("<h2>From which size on it pays</h2>\n<p>The smallest measured size from which on a way is "
        "at least {:.0f} % faster than MPI’s own, also at all larger ones; and how many times as "
        "fast it is at the largest.</p>\n<div class=\"wide\"><table>\n<thead><tr><th></th>",
        100 * (network::clear_speed_up - 1));
    for (auto const& n : networks_) add("<th colspan=\"2\" class=\"gap\">{}</th>", html(n.name()));
    add("</tr>\n<tr><th class=\"text\">codec, algorithm</th>");
    for (auto const& n : networks_)
      add("<th class=\"gap text\">pays</th><th class=\"text\">at {}</th>",
          size_text(n.sizes().back()));
    add("</tr></thead>\n");
    std::string codec;
    for (auto const& strategy : strategies) {
      if (strategy.first != codec) add("{}<tbody>\n", codec.empty() ? "" : "</tbody>\n");
      codec = strategy.first;
      curve const named{strategy.first, strategy.second, {}};
      add("<tr><th class=\"text\">{}{}</th>", patch(look_.color(codec)), html(named.name()));
      for (auto const& n : networks_) {
        auto const [from, ratio] = pays_html(n, strategy);
        add("<td class=\"gap text\">{}</td><td class=\"text\">{}</td>", from, ratio);
      }
      add("</tr>\n");
    }
    add("</tbody>\n</table></div>\n");
  }

  /// From where on a way pays, and its speed-up at the network's largest size.
  static std::pair<std::string, std::string> pays_html(
      network const& n, std::pair<std::string, std::string> const& strategy) {
    auto const curves = n.curves();
    auto const c = std::ranges::find_if(curves, [&](curve const& one) {
      return one.codec == strategy.first && one.algorithm == strategy.second;
    });
    if (c == curves.end()) return {"–", "–"};
    auto const from = n.pays_from(*c);
    auto const last = c->rows.find(n.sizes().back());
    auto const ratio = last == c->rows.end() ? std::nullopt : n.speed_up(*last->second);
    return {!from                            ? "never"
            : from == c->rows.begin()->first ? "at every size"
                                             : "from " + size_text(*from),
            ratio ? ratio_html(*ratio) : "–"};
  }

  void legend() {
    add("<p class=\"legend\"><strong>Colours</strong>");
    std::vector<std::string> codecs, symbols;
    for (auto const& n : networks_)
      for (auto const& c : n.curves()) {
        if (std::ranges::find(codecs, c.codec) == codecs.end()) {
          codecs.push_back(c.codec);
          add("<span>{}{}</span>", patch(look_.color(c.codec)),
              c.is_own() ? "MPI, other algorithms" : html(c.codec));
        }
      }
    add("</p>\n<p class=\"legend\"><strong>Marks</strong>");
    for (auto const& n : networks_)
      for (auto const& c : n.curves()) {
        if (c.is_own()) continue;
        auto const text = fmt::format("{} {}", looks::mark_of(c.algorithm).symbol,
                                      c.algorithm == "MPI" ? "MPI op" : html(c.algorithm));
        if (std::ranges::find(symbols, text) != symbols.end()) continue;
        symbols.push_back(text);
        add("<span>{}</span>", text);
      }
    add("</p>\n");
  }

  void times() {
    add("<h2>Time over size</h2>\n<p>Lower is faster; both axes are logarithmic. Grey: MPI’s own, "
        "with a band from its fastest to its slowest call. Thick: the fastest algorithm of a codec "
        "at the largest size; thin: its others, each by the fastest transport that was measured. "
        "Dashed: what the bytes of a thick line need at the rate of the link, if nothing else took "
        "time.</p>\n");
    legend();
    add("<div class=\"charts\">\n");
    for (auto const& n : networks_) {
      auto const name = html(n.name());
      add("<figure role=\"img\" aria-label=\"Time over size, {}\"><figcaption>{}</figcaption>\n{}\n"
          "</figure>\n",
          name, name, time_chart(n, look_, next_id()));
    }
    add("</div>\n");
  }

  void speed_ups() {
    auto const all = rate_series_of(networks_);
    if (all.empty()) return;
    add("<h2>Speed-up over the rate of the link</h2>\n<p>How many times as fast as MPI’s own every "
        "codec is, by its fastest algorithm; both axes are logarithmic. Below 1, in the shaded "
        "part, compression costs more time than it saves.</p>\n<div class=\"charts\">\n");
    for (auto const& series : all) {
      auto const& run = series.networks.front()->first();
      auto const name = html(fmt::format("{} of {}, {} ranks on {} node{}", size_text(series.bytes),
                                         series.networks.front()->type(), run.ranks, run.nodes,
                                         run.nodes == 1 ? "" : "s"));
      add("<figure role=\"img\" aria-label=\"Speed-up over rate, {}\"><figcaption>{}</figcaption>\n"
          "{}\n</figure>\n",
          name, name, speed_up_chart(series, look_, next_id()));
    }
    add("</div>\n");
  }

  void meanings() {
    add("<h2>All figures</h2>\n<dl>\n"
        "<dt>by</dt><dd>what moves the bytes: hcomp over <em>mpi</em> or <em>ucx</em>, or "
        "<em>op</em>: MPI_Allreduce with hcomp’s MPI_Op</dd>\n"
        "<dt>time</dt><dd>median over calls, then over ranks; of the ranks’ medians also the least "
        "and the most</dd>\n"
        "<dt>algbw</dt><dd>size / time of the slowest rank</dd>\n"
        "<dt>busbw</dt><dd>algbw × 2 (P−1)/P: what a perfect ring of P ranks would move over each "
        "link</dd>\n"
        "<dt>sent</dt><dd>bytes per call that the busiest rank sent, as its transport counts</dd>\n"
        "<dt>wire</dt><dd>the same by its network interface, with all headers</dd>\n"
        "<dt>vs MPI</dt><dd>time of MPI’s own, the best of the libraries, / time; below 1 it is "
        "slower</dd>\n"
        "<dt>bound</dt><dd>time that the bytes which must leave a rank need at the link’s rate, as "
        "a "
        "share of the time; above 100 % the link let a burst pass faster than its rate</dd>\n"
        "<dt>model</dt><dd>time that hcomp’s cost model expects, as a share of the time</dd>\n"
        "<dt>error</dt><dd>|result − exact sum| / |exact sum|, Euclidean norms over the whole "
        "vector</dd>\n</dl>\n");
  }

  void tables() {
    for (auto const& n : networks_) table(n);
  }

  void table(network const& n) {
    struct entry {
      row const* stats;
      result const* run;
    };
    std::vector<entry> entries;
    for (auto const* const run : n.runs())
      for (auto const& r : run->rows) entries.push_back({&r, run});
    std::ranges::stable_sort(entries, {}, [](entry const& e) {
      return std::pair(e.stats->bytes, e.stats->seconds.median);
    });
    auto const any = [&](auto const& has) { return std::ranges::any_of(entries, has); };
    bool const several = n.libraries().size() > 1;
    bool const wire = any([](entry const& e) { return e.stats->bytes_on_wire.has_value(); });
    bool const bound = any([](entry const& e) { return e.stats->bound.has_value(); });
    bool const model = any([](entry const& e) { return e.stats->predicted.has_value(); });

    add("<div class=\"wide\"><table>\n<caption>{}; fastest first</caption>\n<thead><tr>"
        "<th>size</th><th class=\"text\">codec</th><th class=\"text\">algorithm</th>"
        "<th class=\"text\">by</th>{}<th>time</th><th>least<small>of the ranks</small></th>"
        "<th>most<small>of the ranks</small></th><th class=\"text\">vs MPI</th>"
        "<th>algbw<small>GB/s</small></th>"
        "<th>busbw<small>GB/s</small></th><th>sent<small>bytes</small></th>{}{}{}<th>error</th>"
        "</tr></thead>\n",
        html(n.name()), several ? "<th class=\"text\">MPI</th>" : "",
        wire ? "<th>wire<small>bytes</small></th>" : "",
        bound ? "<th>bound<small>% of time</small></th>" : "",
        model ? "<th>model<small>% of time</small></th>" : "");
    std::uint64_t size = 0;
    for (auto const& [r, run] : entries) {
      if (r->bytes != size) add("{}<tbody>\n", size == 0 ? "" : "</tbody>\n");
      size = r->bytes;
      auto const cell = [](bool wanted, std::optional<double> const& value, auto const& format) {
        if (!wanted) return std::string();
        return "<td>" + (value ? format(*value) : "–") + "</td>";
      };
      auto const bytes = [](double b) { return fmt::format("{:.0f}", b); };
      auto const percent = [&, most = r->seconds.most](double s) {
        return fmt::format("{:.0f}", 100 * s / most);
      };
      bool const is_own = r->name.is_reference();
      auto const ratio = n.speed_up(*r);
      add("<tr{}><td>{}</td><td class=\"text\">{}{}</td><td class=\"text\">{}</td><td "
          "class=\"text\">{}</td>{}<td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td>",
          is_own ? " class=\"own\"" : "", size_text(r->bytes), patch(look_.color(r->name.codec)),
          html(r->name.codec), html(r->name.algorithm), html(r->name.transport),
          several ? "<td class=\"text\">" + html(run->mpi) + "</td>" : "",
          seconds_text(r->seconds.median), seconds_text(r->seconds.least),
          seconds_text(r->seconds.most),
          r == n.reference(r->bytes) ? "best MPI"
          : ratio                    ? ratio_html(*ratio)
                                     : "–");
      add("<td>{:.3g}</td><td>{:.3g}</td>{}{}{}{}<td>{}</td></tr>\n",
          r->algorithm_bandwidth() / 1e9, r->bus_bandwidth(run->ranks) / 1e9,
          cell(true, r->bytes_sent, bytes), cell(wire, r->bytes_on_wire, bytes),
          cell(bound, r->bound, percent), cell(model, r->predicted, percent), error_html(*r));
    }
    add("</tbody>\n</table></div>\n");
  }

  static std::string error_html(row const& r) {
    if (!r.same_bits) return "<span class=\"bad\">ranks differ</span>";
    auto const text = std::isfinite(r.error) ? fmt::format("{:.1e}", r.error) : "not finite";
    if (r.as_promised) return text;
    return fmt::format("<span class=\"bad\">{}, too much</span>", text);
  }

  std::string next_id() { return fmt::format("chart{}", ++charts_); }

  std::vector<result> const* results_;
  std::vector<network> networks_;
  looks look_;
  std::string text_;
  int charts_ = 0;
};

}  // namespace

std::string report_page(std::vector<result> const& results) { return writer(results).page(); }

void write_report(std::vector<result> const& results, std::string const& file) {
  auto const page = report_page(results);
  std::ofstream out(file);
  out << page;
  if (!out.flush()) throw std::runtime_error(file + " could not be written to its end");
}

}  // namespace perf
