#!/usr/bin/python3
"""Draws the results of hcomp's programs: reads JSON files, writes a plot (SVG) or a report (HTML).

    plot.py results/train.json -o train.svg      train --json: accuracy and loss over bytes and time
    plot.py results/torch/*.json -o compare.svg  examples/torch: validation loss over bytes, time
    plot.py results/scale/*.json -o scale.svg    tests/scale: simulated and modelled time over ranks
    plot.py results/lab/*.json -o lab.html       hcomp_perf --json: report with charts and tables
    plot.py one.json -o time.svg                 hcomp_perf --json, one network: time over size
    plot.py 100mbit.json 1gbit.json -o rates.svg the same, several link rates: speed-up over rate

Requires matplotlib (Debian: apt install python3-matplotlib).
"""

from __future__ import annotations

import argparse
import html
import io
import itertools
import json
import math
import os
import re
import statistics
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
except ImportError as error:
    sys.exit(f"plot.py: {sys.executable}: {error}; on Debian: apt install python3-matplotlib")

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "hcomp", "text.parse_math": False, "font.size": 13,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#666666",
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e4e4", "xtick.color": "#333333",
    "ytick.color": "#333333", "figure.constrained_layout.w_pad": 0.15, "legend.frameon": False,
})

# Colours for readers with colour blindness (Okabe and Ito, 2008; Tol's muted set).
FREE_COLORS = "#CC79A7 #E69F00 #0072B2 #56B4E9 #D55E00 #009E73 #000000 #8A5A2B #F0C419".split()
GREY = "#6a6a6a"
DASHES = ("-", (0, (5, 3)), (0, (1.5, 2)), "-.")
Json = dict[str, Any]


class Failure(Exception):
    """An error for the user."""


# ---- Shared parts --------------------------------------------------------------------------------


def new_figure(width: int, height: int, rows: int = 1, columns: int = 1, **more: Any) -> tuple[Figure, Any]:
    """A figure of `width` by `height` points and its panels, row by row."""
    figure = Figure((width / 72, height / 72), **more)
    return figure, figure.subplots(rows, columns, squeeze=False).flat


def svg_of(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "hcomp, plot.py"})
    return text.getvalue()


def write(file: Path, text: str) -> None:
    """Replaces the file atomically: readers see the old or the new content."""
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, file)


def number(value: Optional[float]) -> float:
    return math.nan if value is None else value  # NaN and infinity are null in JSON


def log_ticks(axis: Any, low: float, high: float, name: Callable[[float], str] = "{:g}".format,
              digits: Sequence[int] = ()) -> None:
    """Ticks at 1, 10, 100, ...; over less than 2.5 decades also at 2, 5, 20, 50, ..."""
    digits = digits or ((1, 2, 5) if high / low < 300 else (1,))
    at = [d * 10.0**power for power in range(-9, 12) for d in digits]
    at = [value for value in at if low <= value <= high]
    named_ticks(axis, at, [name(value) for value in at])


def named_ticks(axis: Any, at: Sequence[float], names: Sequence[str]) -> None:
    axis.set_major_locator(FixedLocator(at))
    axis.set_major_formatter(FixedFormatter(names))
    axis.set_minor_locator(NullLocator())


def with_colors(names: Iterable[str], fixed: dict[str, str]) -> dict[str, str]:
    """Names without a fixed colour get the unused colours; if none is left, names share colours."""
    colors = {name: fixed.get(name, "") for name in names}
    free = [color for color in FREE_COLORS if color not in colors.values()]
    free = itertools.chain(free, itertools.cycle(FREE_COLORS))
    return {name: color or next(free) for name, color in colors.items()}


def end_labels(panel: Any, labels: Iterable[tuple[float, str, str]], gap: float = 0.055) -> None:
    """Labels at the right border, beside the ends of their lines: (y value, text, colour)."""
    low, high = panel.get_ylim()
    labels = sorted(labels)
    places = [math.log(y / low) / math.log(high / low) for y, _, _ in labels]
    for _ in range(200):  # moves overlapping labels apart
        for i in range(1, len(places)):
            overlap = max(0.0, gap - places[i] + places[i - 1])
            places[i - 1] -= overlap / 2
            places[i] += overlap / 2
    for place, (_, text, color) in zip(places, labels):
        panel.annotate(text, (1, place), xycoords="axes fraction", xytext=(10, 0), color=color,
                       textcoords="offset points", va="center", annotation_clip=False)


def heading(figure: Figure, title: str, subtitle: str) -> None:
    width, height = figure.get_size_inches() * 72
    figure.text(0.5, 1 - 22 / height, title, ha="center", va="center", size=17)
    figure.text(0.5, 1 - 46 / height, subtitle, ha="center", va="center", color=GREY)


# ---- train and gpt.py: accuracy and loss over bytes sent and over time ---------------------------

TRAIN_COLORS = {
    "fp32": "#444444", "fp16": "#999999", "bf16": "#56B4E9", "majority_vote": "#D55E00",
    "signum": "#E69F00", "ef_sign": "#CC79A7", "thc": "#882255", "uniform_thc": "#AA4499",
    "sparse": "#332288", "sparse_fixed": "#44AA99", "fixed": "#DDAA33", "top_k": "#661100",
    "marsit": "#009E73", "marsit_inf": "#0072B2", "inceptionn": "#117733", "error_bounded": "#999933",
    "identity": "#000000", "gloo": "#999999", "sign": "#D55E00", "powersgd": "#0072B2",
}


class Series:
    """All runs of one method. Points: mean, minimum and maximum over runs, per observation."""

    def __init__(self, name: str, color: str, order: int, curves: list[list[Json]], is_simulated: bool) -> None:
        self.name, self.color, self.is_simulated = name, color, is_simulated
        self.dashes, self.is_first = DASHES[order % len(DASHES)], order == 0  # of its method
        self.curves = curves
        self.is_one_run = len(curves) == 1

    def over_runs(self, key: str, of: Callable[[list[float]], float] = statistics.fmean) -> list[float]:
        return [of([number(point[key]) for point in points]) for points in zip(*self.curves)]

    def covers(self, other: Series, *keys: str) -> bool:
        """Whether its line covers the line of `other`: compares the middle and the end."""
        mine, others = self.curves[0], other.curves[0]
        return len(mine) == len(others) and all(
            math.isclose(number(mine[i][key]), number(others[i][key]), rel_tol=0.005)
            for key in keys
            for i in (len(mine) // 2, -1)
        )


def parameters_text(count: int) -> str:
    return f"{count / 1e6:.3g} million parameters" if count >= 1e5 else f"{count} parameters"


def seeds_text(curves: dict[str, list[list[Json]]]) -> str:
    seeds = max(map(len, curves.values()), default=1)
    return "one seed" if seeds == 1 else f"mean and range of {seeds} seeds"


def series_of(curves: dict[str, list[list[Json]]], simulated: Iterable[str] = ()) -> list[Series]:
    methods = [re.split("[,:]", name)[0] for name in curves]
    colors = with_colors(methods, TRAIN_COLORS)
    return [
        Series(name, colors[method], methods[:i].count(method), of, name in simulated)
        for i, (method, (name, of)) in enumerate(zip(methods, curves.items()))
    ]


def learning_panel(panel: Any, shown: list[Series], x: str, y: str) -> None:
    if x == "seconds" and not all(one.is_simulated for one in shown):
        # simulated aggregators have simulated time
        shown = [one for one in shown if not one.is_simulated]
    most = max(max(one.over_runs(x)) for one in shown)
    unit, scale = "s", 1.0
    if x != "seconds":
        unit, scale = ("GB", 1e-9) if most >= 1e8 else ("MB", 1e-6) if most >= 1e5 else ("kB", 1e-3)
    for i, one in enumerate(shown):
        places, means = [value * scale for value in one.over_runs(x)], one.over_runs(y)
        if not one.is_one_run:
            panel.fill_between(places, one.over_runs(y, min), one.over_runs(y, max),
                               color=one.color, alpha=0.18, linewidth=0)
        # A line that later lines cover is wider, so that it is visible on both sides of them.
        width = 2 + 4 * sum(later.covers(one, x, y) for later in shown[i + 1 :])
        panel.plot(places, means, color=one.color, linewidth=width, linestyle=one.dashes)
        panel.plot(places[-1:], means[-1:], **end_mark(one))
    if x == "seconds":
        panel.set_xlabel(f"training time, {unit}")
        panel.set_xlim(left=0)
    else:
        panel.set_xlabel(f"bytes sent per rank, {unit} (log scale)")
        if all(value > 0 for one in shown for value in one.over_runs(x)):  # one rank sends nothing
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def end_mark(one: Series) -> Json:
    return dict(marker="o", markersize=7, linestyle="none", color=one.color,
                markerfacecolor=one.color if one.is_first else "white")


def value_axis(panel: Any, shown: list[Series], key: str, label: str, is_log: bool = False) -> None:
    """Limits the axis to the values of the last 90 % of the steps so far."""
    values = [
        point[key]
        for one in shown
        for curve in one.curves
        for point in curve
        if point["step"] * 10 >= curve[-1]["step"] and math.isfinite(number(point[key]))
    ]
    panel.set_ylabel(label + (" (log scale)" if is_log else ""))
    if not values:
        return
    low, high = min(values), max(values)
    if key == "test_accuracy":
        low, high = math.floor(low - 2), min(100, math.ceil(high + 0.5))
    elif is_log and low > 0:
        low, high = low / 1.1, high * 1.3
        panel.set_yscale("log")
        ticks = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 2, 3, 5)
        named_ticks(panel.yaxis, ticks, [f"{value:g}" for value in ticks])
    else:
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1
        low, high = low - margin, high + margin
    panel.set_ylim(low, high)


def learning_figure(shown: list[Series], rows: list[tuple[str, str, bool]], bytes_key: str,
                    title: str, subtitle: str) -> Figure:
    """@param rows  rows of panels: key, label, and whether the axis is logarithmic"""
    if not shown:
        raise Failure("no results to draw yet")
    legend_rows = math.ceil(sum(len(one.name) + 7 for one in shown) / 125)
    columns = math.ceil(len(shown) / legend_rows)
    height = 110 + 22 * legend_rows + 350 * len(rows)
    figure, panels = new_figure(1100, height, len(rows), 2)
    figure.subplots_adjust(0.07, 55 / height, 0.985, 1 - (80 + 22 * legend_rows) / height, 0.17, 0.25)
    heading(figure, title, subtitle)
    panels = iter(panels)
    for key, label, is_log in rows:
        for x in (bytes_key, "seconds"):
            panel = next(panels)
            learning_panel(panel, shown, x, key)
            value_axis(panel, shown, key, label, is_log)
    handles = [Line2D([], [], **(end_mark(one) | {"linestyle": one.dashes, "linewidth": 2})) for one in shown]
    figure.legend(handles, [one.name for one in shown], loc="upper center", ncol=columns,
                  bbox_to_anchor=(0.5, 1 - 56 / height), handletextpad=0.5, columnspacing=1.8)
    return figure


def train_figure(all_runs: Json) -> Figure:
    """Plot of results of `train --json`."""
    curves: dict[str, list[list[Json]]] = {}
    simulated = set()
    for run in all_runs.get("runs", ()):
        points = run["curve"][1:]  # before the first step, nothing is sent
        if points:
            curves.setdefault(run["codec"], []).append(points)
        if run["algorithm"] == "aggregators":
            simulated.add(run["codec"])
    epochs, link = all_runs["epochs"], all_runs["link_gbit_per_s"]
    subtitle = f"{epochs:.3g} epoch{'s' * (epochs != 1)}, "
    subtitle += f"{all_runs['batch_per_rank']} {all_runs['examples']} per rank and step, {seeds_text(curves)}"
    subtitle += f", links of {link:g} Gbit/s" if link > 0 else ""
    subtitle += "" if all_runs["complete"] else "; unfinished"
    has_accuracy = all_runs["model"] != "embedding"
    above = ("test_accuracy", "test accuracy, %") if has_accuracy else ("test_loss", "held-out loss, nats")
    rows = [(*above, False), ("train_loss", "training loss, nats", has_accuracy)]
    title = f"{all_runs['ranks']} ranks train {parameters_text(all_runs.get('parameters', 0))}"
    title += f" on {all_runs['data_name']}"
    return learning_figure(series_of(curves, simulated), rows, "bytes_sent", title, subtitle)


def gpt_figure(runs: list[Json]) -> Figure:
    """Plot of results of `gpt.py --json`, one file per run."""
    curves: dict[str, list[list[Json]]] = {}
    for run in runs:
        if run["history"]:
            curves.setdefault(run["settings"]["method"], []).append(run["history"])
    settings = runs[0]["settings"]
    title = f"{settings['ranks']} ranks train a GPT of {parameters_text(runs[0]['parameters'])}"
    subtitle = f"{settings['steps']} steps, {seeds_text(curves)}"
    rows = [("validation_loss", "validation loss, nats per byte", False)]
    return learning_figure(series_of(curves), rows, "bytes", title, subtitle)


# ---- tests/scale: time over ranks ----------------------------------------------------------------

ALGORITHM_COLORS = {"ring": "#0072B2", "torus": "#009E73", "direct": "#D55E00", "recursive_doubling": "#E69F00"}


def scale_figure(points: list[Json]) -> Figure:
    """Plot of `scale --json`: simulated times as points, times of the cost model as lines."""
    rates: dict[float, dict[tuple[str, str, int], list[Json]]] = {}
    for point in sorted(points, key=lambda p: (p["bandwidth_gbit_s"], p["ranks"])):
        key = (point["algorithm"], point["codec"], point["hop_bits"])
        rates.setdefault(point["bandwidth_gbit_s"], {}).setdefault(key, []).append(point)
    ranks = sorted({point["ranks"] for point in points})
    times = [1e3 * point[key] for point in points for key in ("seconds", "predicted")]
    one = points[0]
    figure, panels = new_figure(1100, 560, 1, len(rates), layout="constrained")
    waits = ", messages wait for their receives" if one["rendezvous"] else ""
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 64 / 560))
    heading(
        figure,
        f"All-reduce of {one['values'] / 1e6:.3g} million values on {ranks[0]} to {ranks[-1]} simulated nodes",
        f"points: simulated{waits}; lines: cost model; latency {one['latency_us']:g} µs, codec costs measured",
    )
    for panel, (rate, curves) in zip(panels, rates.items()):
        panel.set(xscale="log", yscale="log", xlim=(ranks[0] * 0.95, ranks[-1] * 1.05),
                  ylim=(min(times) / 1.3, max(times) * 1.3), title=f"links of {rate:g} Gbit/s",
                  xlabel="ranks (log scale)", ylabel="time, ms (log scale)")
        named_ticks(panel.xaxis, ranks, [str(count) for count in ranks])
        log_ticks(panel.yaxis, *panel.get_ylim(), digits=(1, 2, 5))
        labels = []
        for (algorithm, codec, hop_bits), of in curves.items():
            color = ALGORITHM_COLORS.get(algorithm.split(":")[0], "#CC79A7")
            name = f"{algorithm}, {({'identity': 'fp32', 'sign': '1 bit'}).get(codec, codec)}"
            name += f", {hop_bits} bits" * (hop_bits > 0)
            styles = {"identity": (DASHES[1], "o", "none"), "thc": (DASHES[2], "D", color)}
            dashes, mark, fill = styles.get(codec, ("-", "o", color))
            at = [point["ranks"] for point in of]
            simulated = [1e3 * point["seconds"] for point in of]
            predicted = [1e3 * point["predicted"] for point in of]
            panel.plot(at, predicted, color=color, linestyle=dashes, linewidth=2)
            panel.plot(at, simulated, color=color, linestyle="none", marker=mark, markerfacecolor=fill)
            if at[-1] == ranks[-1]:
                labels.append((simulated[-1], name, color))
            else:  # above its end, where no other line passes
                panel.annotate(name, (at[-1], simulated[-1]), xytext=(-8, 10), textcoords="offset points",
                               color=color, ha="right")
        end_labels(panel, labels)
    return figure


# ---- hcomp_perf: networks and their rows ---------------------------------------------------------

CLEAR_SPEED_UP = 1.05  # less is noise
CODEC_COLORS = {"identity": "#000000", "fp16": "#56B4E9", "bf16": "#0072B2", "sign": "#009E73",
                "sign_count": "#D55E00", "automatic": "#E69F00", "raw": "#8a8a8a"}
SERIES_KEYS = ("ranks", "nodes", "device", "input", "mean")  # and the type; equal within a network
MARKS = {"ring": ("o", "●"), "torus": ("s", "■"), "direct": ("^", "▲"), "recursive_doubling": ("v", "▼"),
         "sampled": ("D", "◆"), "hierarchical": ("p", "⬟"), "aggregator": ("P", "✚"), "MPI": ("x", "×")}


def mark_of(algorithm: str) -> tuple[str, str]:
    """The mark for matplotlib, and the same mark as a character."""
    return MARKS.get(algorithm.split(":")[0], ("*", "★"))


def size_text(size: float) -> str:
    for unit, of in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << of and size % (1 << of) == 0:
            return f"{size / (1 << of):.0f} {unit}iB"
    return f"{size:.0f} B"


def rate_text(rate: float) -> str:
    return f"{rate / 1e6:.4g} Mbit/s" if rate < 1e9 else f"{rate / 1e9:.4g} Gbit/s"


def seconds_text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"


def time_tick(seconds: float) -> str:
    for unit, of in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 900 * of:
            return f"{seconds / of:.3g} {unit}"
    return f"{seconds:.3g} s"


def error_text(error: Optional[float]) -> str:
    if error is None:
        return "not finite"
    percent = 100 * error
    return f"{error:.0e}" if error < 1e-5 else f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def nodes_text(run: Json) -> str:
    return f"{run['ranks']} ranks on {run['nodes']} node{'s' * (run['nodes'] != 1)}"


def are_near(a: float, b: float, factor: float) -> bool:
    return a == b or (a > 0 and b > 0 and abs(math.log(a / b)) <= math.log(factor))


def is_default_mpi(row: Json) -> bool:
    """Whether a row is MPI_Allreduce of the raw vector with the MPI library's default algorithm."""
    return row["codec"] == "raw" and row["algorithm"] == "MPI"


class Curve:
    """One codec and algorithm on one network: per size the row with the smallest median time."""

    def __init__(self, codec: str, algorithm: str) -> None:
        self.codec, self.algorithm, self.rows = codec, algorithm, {}

    def add(self, row: Json) -> None:
        best = self.rows.get(row["bytes"])
        if best is None or row["seconds"] < best["seconds"]:
            self.rows[row["bytes"]] = row

    @property
    def name(self) -> str:
        if self.codec == "raw":
            return "MPI " + self.algorithm.removeprefix("MPI:")
        return f"{self.codec}, {'MPI op' if self.algorithm == 'MPI' else self.algorithm}"


class Network:
    """Results on one network: of one or more MPI libraries, one type of values and one input."""

    def __init__(self, run: Json) -> None:
        self.runs, self.first, self.type = [run], run, run["rows"][0]["type"]

    def has(self, run: Json) -> bool:
        """Measured rates may differ by 10 %; without a label, latencies may differ by 50 %."""
        mine = self.first
        factor = 1.1 if mine["rate_was_measured"] or run["rate_was_measured"] else 1
        return (
            all(mine[key] == run[key] for key in (*SERIES_KEYS, "label"))
            and self.type == run["rows"][0]["type"]
            and are_near(mine["rate_bit_per_s"], run["rate_bit_per_s"], factor)
            and (mine["label"] != "" or are_near(mine["latency_s"], run["latency_s"], 1.5))
        )

    @property
    def rows(self) -> list[Json]:
        return [row for run in self.runs for row in run["rows"]]

    @property
    def name(self) -> str:
        run = self.first
        text = f"{run['label']}: " * bool(run["label"])
        text += rate_text(run["rate_bit_per_s"]) if run["rate_bit_per_s"] > 0 else "rate unknown"
        text += f", {seconds_text(run['latency_s'])} latency" * (run["latency_s"] > 0)
        return f"{text}, {nodes_text(run)}" + f", vectors on {run['device']}" * bool(run["device"])

    @property
    def libraries(self) -> list[str]:
        return sorted({run["mpi"] for run in self.runs})

    @property
    def sizes(self) -> list[int]:
        return sorted({row["bytes"] for row in self.rows})

    def reference(self, size: int) -> Optional[Json]:
        """MPI_Allreduce of the raw vector by the fastest MPI library, setting and algorithm."""
        of = [row for row in self.rows if row["bytes"] == size and row["codec"] == "raw"]
        return min(of, key=lambda row: row["seconds"], default=None)

    def speed_up(self, row: Json) -> Optional[float]:
        best = self.reference(row["bytes"])
        return best["seconds"] / row["seconds"] if best else None

    def own(self, library: str) -> Curve:
        curve = Curve("raw", "MPI")
        for run in self.runs:
            for row in run["rows"] if run["mpi"] == library else ():
                if is_default_mpi(row):
                    curve.add(row)
        return curve

    def curves(self) -> list[Curve]:
        """Curves of all codecs and algorithms except the default of MPI."""
        curves: dict[tuple[str, str], Curve] = {}
        for row in self.rows:
            if not is_default_mpi(row):
                key = (row["codec"], row["algorithm"])
                curves.setdefault(key, Curve(*key)).add(row)
        return list(curves.values())

    def pays_from(self, curve: Curve) -> Optional[int]:
        """The smallest size for which this size and all larger ones have a clear speed-up."""
        smallest = None
        for size in sorted(curve.rows, reverse=True):
            if (self.speed_up(curve.rows[size]) or 0) < CLEAR_SPEED_UP:
                break
            smallest = size
        return smallest


def networks_of(runs: list[Json]) -> list[Network]:
    """Networks sorted by rate; unknown rates last."""
    networks: list[Network] = []
    for run in runs:
        if not run["rows"]:
            continue
        same = next((network for network in networks if network.has(run)), None)
        if same:
            same.runs.append(run)
        else:
            networks.append(Network(run))
    if not networks:
        raise Failure("no results to draw yet")
    return sorted(networks, key=lambda n: (n.first["rate_bit_per_s"] <= 0, n.first["rate_bit_per_s"]))


def rate_series_of(networks: list[Network]) -> list[tuple[list[Network], int]]:
    """Networks that differ only in rate and label, with their largest common size."""

    def grouped(of: list[Network], *keys: str) -> list[list[Network]]:
        groups: dict[tuple[Any, ...], list[Network]] = {}
        for one in of:
            groups.setdefault((*(one.first[key] for key in keys), one.type), []).append(one)
        return list(groups.values())

    def is_series(of: list[Network]) -> bool:
        return len({n.first["rate_bit_per_s"] for n in of}) == len(of)

    series = []
    for group in grouped([n for n in networks if n.first["rate_bit_per_s"] > 0], *SERIES_KEYS):
        # Networks of equal rate differ in another property, which their labels name.
        for members in [group] if is_series(group) else grouped(group, *SERIES_KEYS, "label"):
            sizes = [s for s in members[0].sizes if all(n.reference(s) for n in members)]
            if len(members) > 1 and is_series(members) and sizes:
                series.append((members, sizes[-1]))
    return series


def series_text(members: list[Network], size: int) -> str:
    return f"{size_text(size)} of {members[0].type}, {nodes_text(members[0].first)}"


def colors_of(networks: list[Network]) -> dict[str, str]:
    return with_colors(["raw", *(c.codec for n in networks for c in n.curves())], CODEC_COLORS)


def time_panel(panel: Any, network: Network, colors: dict[str, str]) -> None:
    """Time over size. Thick: the fastest algorithm of a codec; dashed: its bound by the link."""
    labels = []

    def draw(curve: Curve, color: str, name: Optional[str], alpha: float = 1, **style: Any) -> None:
        rows = [curve.rows[size] for size in sorted(curve.rows)]
        sizes, times = [row["bytes"] for row in rows], [row["seconds"] for row in rows]
        panel.plot(sizes, times, color=color, marker=mark_of(curve.algorithm)[0], alpha=alpha, **style)
        if name is None:
            return
        bounds = [number(row["bound_s"]) for row in rows]
        panel.plot(sizes, bounds, color=color, linestyle=DASHES[1], linewidth=1.2)
        labels.append((times[-1], name, color))

    seconds = [row["seconds"] for row in network.rows]
    sizes = network.sizes
    margin = 1.15 if len(sizes) > 1 else 2
    panel.set(xscale="log", yscale="log", xlim=(sizes[0] / margin, sizes[-1] * margin),
              ylim=(min(seconds) / 1.4, max(seconds) * 1.4), xlabel="size of the uncompressed vector",
              ylabel="time of an all-reduce")
    shown = sizes[::-1][:: (len(sizes) + 7) // 8]
    named_ticks(panel.xaxis, shown, [size_text(size) for size in shown])
    log_ticks(panel.yaxis, *panel.get_ylim(), name=time_tick)
    for library, color in zip(network.libraries, itertools.chain([GREY], itertools.repeat("#a0a0a0"))):
        own = network.own(library)
        if own.rows:
            at = sorted(own.rows)
            calls = [[*own.rows[size]["calls"], own.rows[size]["seconds"]] for size in at]
            band = list(map(min, calls)), list(map(max, calls))
            panel.fill_between(at, *band, color=color, alpha=0.25, linewidth=0)
            draw(own, color, library.split(",")[0], linewidth=3, markersize=5)
    by_speed = sorted(network.curves(), key=lambda c: (-max(c.rows), c.rows[max(c.rows)]["seconds"]))
    seen = set()
    for curve in by_speed:
        is_fastest = curve.codec not in seen
        seen.add(curve.codec)
        name = (curve.name if curve.codec == "raw" else curve.codec) if is_fastest else None
        style = dict(linewidth=2.5, markersize=7) if is_fastest else dict(linewidth=1, markersize=4, alpha=0.6)
        draw(curve, colors[curve.codec], name, **style)
    end_labels(panel, labels)


def library_text(networks: list[Network]) -> str:
    """Reference of speed-ups: "Open MPI", or the fastest of several libraries."""
    names = {re.split(r"[ ,]v?\d", library)[0] for n in networks for library in n.libraries}
    return names.pop() if len(names) == 1 else "fastest MPI"


def speed_up_panel(panel: Any, networks: list[Network], size: int, colors: dict[str, str]) -> None:
    """Speed-up over link rate: the fastest algorithm of every codec."""
    codecs: dict[str, list[tuple[float, float, Json]]] = {}
    for network in networks:
        for codec in dict.fromkeys(c.codec for c in network.curves() if c.codec != "raw"):
            rows = [c.rows[size] for c in network.curves() if c.codec == codec and size in c.rows]
            if rows:
                best = min(rows, key=lambda row: row["seconds"])
                point = (network.first["rate_bit_per_s"], network.speed_up(best), best)
                codecs.setdefault(codec, []).append(point)
    ratios = [1.0, *(ratio for of in codecs.values() for _, ratio, _ in of)]
    rates = [network.first["rate_bit_per_s"] for network in networks]
    low, high = min(ratios) / 1.5, max(ratios) * 1.5
    name = library_text(networks)
    panel.set(xscale="log", yscale="log", xlim=(rates[0] / 1.3, rates[-1] * 1.3), ylim=(low, high),
              xlabel="link rate (log scale)", ylabel=f"speed-up over {name} (log scale)")
    shown = rates[::-1][:: (len(rates) + 7) // 8]
    named_ticks(panel.xaxis, shown, [rate_text(rate) for rate in shown])
    log_ticks(panel.yaxis, low, high)
    panel.axhspan(low, 1, color="#f3f1ee", linewidth=0, zorder=0)
    panel.axhline(1, color="#8a8a8a", linewidth=3, zorder=1)
    panel.text(0.02, 0.03, f"slower than {name}", transform=panel.transAxes, color=GREY)
    labels = [(1.0, f"{name}, uncompressed", GREY)]
    for codec, points in codecs.items():
        at, of_codec, rows = zip(*points)
        panel.plot(at, of_codec, color=colors[codec], marker="o", markersize=7, linewidth=2.5)
        labels.append((of_codec[-1], f"{codec}, error {error_text(rows[-1]['error'])}", colors[codec]))
    end_labels(panel, labels)


def perf_figure(networks: list[Network]) -> Figure:
    """With several link rates: speed-up over rate. Otherwise: time over size."""
    colors, series = colors_of(networks), rate_series_of(networks)
    draws: list[tuple[str, Callable[[Any], None]]]
    if series:
        title = "Speed-up over uncompressed all-reduce"
        subtitle = "codecs and MPI by their fastest algorithms; error: |result − exact sum| / |exact sum|"
        draws = [(series_text(*s), lambda panel, s=s: speed_up_panel(panel, *s, colors)) for s in series]
    else:
        title = "Time of an all-reduce"
        subtitle = "thick: fastest algorithm of a codec; thin: the others; dashed: bound by the link rate"
        draws = [(n.name, lambda panel, n=n: time_panel(panel, n, colors)) for n in networks]
    columns, rows = min(len(draws), 2), math.ceil(len(draws) / 2)
    height = 66 + 430 * rows
    figure, panels = new_figure(860 if columns == 1 else 1300, height, rows, columns, layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 66 / height), hspace=0.06)
    heading(figure, title + f": {draws[0][0]}" * (columns == 1), subtitle)
    for panel, drawn in itertools.zip_longest(panels, draws):
        if drawn is None:
            panel.remove()
            continue
        drawn[1](panel)
        panel.set_title(drawn[0] if columns > 1 else "", size=13)
    return figure


# ---- hcomp_perf: the report ----------------------------------------------------------------------

STYLE = """<style>
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem 2rem; background: #fff; color: #222;
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .5rem; }
p, dl { margin: .5rem 0; }
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
</style>
"""

MEANINGS = {
    "transport": "hcomp over <em>mpi</em>, <em>ucx</em> or <em>udp</em> (hcomp-aggregator), or <em>op</em>: "
    "MPI_Allreduce with hcomp’s MPI_Op",
    "time": "median over calls, then over ranks; min and max: of the ranks’ medians",
    "algbw": "algorithm bandwidth: size / time of the slowest rank",
    "busbw": "bus bandwidth: algbw × 2 (P−1)/P, as in nccl-tests",
    "sent": "bytes sent per call by the rank that sends most, counted by its transport",
    "wire": "the same, counted by its network interface, with all headers",
    "speed-up": "time of the fastest MPI_Allreduce of the uncompressed vector / time",
    "link utilisation": "time that the bytes need at the link rate / time; above 100 % the link passed a burst "
    "faster than its rate",
    "model": "time predicted by hcomp’s cost model / time",
    "error": "|result − exact sum| / |exact sum|, Euclidean norms over the whole vector",
}


OPTIONAL_COLUMNS = {
    "bytes_sent": "sent<small>bytes</small>",
    "bytes_on_wire": "wire<small>bytes</small>",
    "bound_s": "link<small>utilisation, %</small>",
    "predicted_s": "model<small>% of time</small>",
}


def escape(text: object) -> str:
    return html.escape(str(text))


def cells(tag: str, *texts: str, style: str = "") -> str:
    """Table cells of HTML texts."""
    style = style and f' class="{style}"'
    return "".join(f"<{tag}{style}>{text}</{tag}>" for text in texts)


def ratio_html(ratio: Optional[float]) -> str:
    """"3.20×". A slowdown is marked by a text, also for readers without colour vision."""
    if ratio is None:
        return "–"
    text = f"{ratio:.1g}" if ratio < 0.095 else f"{ratio:.2f}" if ratio < 9.95 else f"{ratio:.0f}"
    if ratio >= CLEAR_SPEED_UP:
        return f'<span class="faster">{text}×</span>'
    return f"{text}×" if ratio >= 0.995 else f'<span class="slower">{text}×, slower</span>'


def patch(color: str) -> str:
    return f'<span class="color" style="background:{color}"></span>'


class Report:
    """Report on results of hcomp_perf: one HTML file without external resources."""

    def __init__(self, networks: list[Network]) -> None:
        self.networks, self.colors, self.charts = networks, colors_of(networks), 0

    def page(self) -> str:
        title = "All-reduces measured by hcomp_perf"
        parts = (self.introduction, self.where_it_pays, self.times, self.speed_ups, self.tables)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n{STYLE}</head>\n<body>\n<h1>{title}</h1>\n"
            f"{''.join(part() for part in parts)}</body>\n</html>\n"
        )

    def introduction(self) -> str:
        lines = []
        for network in self.networks:
            for run in network.runs:
                calls = sorted({len(row["calls"]) for row in run["rows"]})
                rate, latency = run["rate_bit_per_s"], run["latency_s"]
                origin = "measured" if run["rate_was_measured"] else "given"
                link = f"{rate_text(rate)} ({origin})" if rate > 0 else "unknown"
                link += f", {seconds_text(latency)} latency" * (latency > 0)
                place = f"{run['label']}: " * bool(run["label"]) + nodes_text(run)
                place += ", interrupted" * (not run["complete"])
                machine = run["machine"] + f", {run['device']}" * bool(run["device"])
                vectors = f"{network.type}, {run['input']}, {'mean' if run['mean'] else 'sum'}"
                texts = (escape(text) for text in (link, run["mpi"], vectors))
                lines.append(
                    f"<tr><th>{escape(place)}</th>{cells('td', *texts, style='text')}"
                    f"{cells('td', ' to '.join(map(str, dict.fromkeys((calls[0], calls[-1])))))}"
                    f"{cells('td', escape(machine), style='text')}</tr>\n"
                )
        return (
            "<p>Time of an all-reduce: hcomp’s codecs against <code>MPI_Allreduce</code> of the uncompressed "
            "vector, called in turns. A time is the median over the calls, from a barrier to the return, and of "
            "these the median over the ranks. Speed-ups refer to the fastest MPI_Allreduce measured at that "
            "size.</p>\n"
            '<div class="wide"><table>\n<thead><tr>'
            + cells("th", "network", "link of a rank", "MPI", "vectors", style="text")
            + cells("th", "calls") + cells("th", "processor", style="text")
            + f"</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>\n</table></div>\n"
            "<p>Read speed-ups together with the column <em>error</em>. Codecs of few bits per value are meant "
            "for training, where error feedback corrects in later steps the error of one.</p>\n"
        )

    def where_it_pays(self) -> str:
        strategies = dict.fromkeys((c.codec, c.algorithm) for n in self.networks for c in n.curves())
        if not strategies:
            return ""
        head = "".join(f'<th colspan="2" class="gap">{escape(n.name)}</th>' for n in self.networks)
        below = "".join(
            cells("th", "faster", style="gap text") + cells("th", f"at {size_text(n.sizes[-1])}", style="text")
            for n in self.networks
        )
        text = (
            "<h2>From which size on compression is faster</h2>\n<p>The smallest measured size from which on the "
            f"speed-up is at least {CLEAR_SPEED_UP}, and the speed-up at the largest size.</p>\n"
            f'<div class="wide"><table>\n<thead><tr><th></th>{head}</tr>\n'
            f'<tr><th class="text">codec, algorithm</th>{below}</tr></thead>\n'
        )
        for codec in dict.fromkeys(codec for codec, _ in strategies):
            text += "<tbody>\n"
            for key in (key for key in strategies if key[0] == codec):
                text += f'<tr><th class="text">{patch(self.colors[codec])}{escape(Curve(*key).name)}</th>'
                text += "".join(self.pays_cells(network, key) for network in self.networks) + "</tr>\n"
            text += "</tbody>\n"
        return text + "</table></div>\n"

    def pays_cells(self, network: Network, key: tuple[str, str]) -> str:
        curve = next((c for c in network.curves() if (c.codec, c.algorithm) == key), None)
        start, ratio = "–", None
        if curve:
            size, last = network.pays_from(curve), curve.rows.get(network.sizes[-1])
            start = "never" if size is None else f"from {size_text(size)}"
            start = "at every size" if size == min(curve.rows) else start
            ratio = network.speed_up(last) if last else None
        return cells("td", start, style="gap text") + cells("td", ratio_html(ratio), style="text")

    def figure(self, kind: str, name: str, draw: Callable[[Any], None]) -> str:
        """An inline SVG. Charts of one page have different identifiers."""
        figure, panels = new_figure(640, 440, layout="constrained")
        draw(next(panels))
        svg = svg_of(figure)
        self.charts += 1
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>chart{self.charts}-", svg[svg.index("<svg") :])
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
        name = escape(name)
        caption = f"<figcaption>{name}</figcaption>"
        return f'<figure role="img" aria-label="{kind}, {name}">{caption}\n{svg}</figure>\n'

    def times(self) -> str:
        curves = [c for n in self.networks for c in n.curves()]
        colors = {c.codec: "MPI, other algorithms" if c.codec == "raw" else c.codec for c in curves}
        marks = dict.fromkeys((mark_of(c.algorithm)[1], "MPI op" if c.algorithm == "MPI" else c.algorithm)
                              for c in curves if c.codec != "raw")
        return (
            "<h2>Time over size</h2>\n<p>Both axes are logarithmic. Grey: MPI_Allreduce of the uncompressed "
            "vector, with a band from its fastest to its slowest call. Thick: the fastest algorithm of a codec at "
            "the largest size; thin: the other algorithms, each over its fastest transport. Dashed: time that the "
            'bytes of a thick line need at the link rate.</p>\n<p class="legend"><strong>Colours</strong>'
            + "".join(f"<span>{patch(self.colors[c])}{escape(name)}</span>" for c, name in colors.items())
            + '</p>\n<p class="legend"><strong>Marks</strong>'
            + "".join(f"<span>{mark} {escape(name)}</span>" for mark, name in marks)
            + '</p>\n<div class="charts">\n'
            + "".join(
                self.figure("Time over size", n.name, lambda panel, n=n: time_panel(panel, n, self.colors))
                for n in self.networks
            )
            + "</div>\n"
        )

    def speed_ups(self) -> str:
        series = rate_series_of(self.networks)
        if not series:
            return ""
        text = (
            "<h2>Speed-up over link rate</h2>\n<p>Each codec by its fastest algorithm, against the fastest "
            "MPI_Allreduce of the uncompressed vector; both axes are logarithmic. In the shaded part "
            "compression is slower.</p>\n"
            '<div class="charts">\n'
        )
        for one in series:
            text += self.figure(
                "Speed-up over link rate", series_text(*one),
                lambda panel, one=one: speed_up_panel(panel, *one, self.colors))
        return text + "</div>\n"

    def tables(self) -> str:
        meanings = "".join(f"<dt>{name}</dt><dd>{text}</dd>\n" for name, text in MEANINGS.items())
        return f"<h2>All results</h2>\n<dl>\n{meanings}</dl>\n" + "".join(map(self.table, self.networks))

    def table(self, network: Network) -> str:
        entries = [(row, run) for run in network.runs for row in run["rows"]]
        entries.sort(key=lambda entry: (entry[0]["bytes"], entry[0]["seconds"]))
        several = len(network.libraries) > 1
        optional = [key for key in OPTIONAL_COLUMNS if any(row[key] is not None for row, _ in entries)]
        head = cells("th", "size")
        head += cells("th", "codec", "algorithm", "transport", *["MPI"] * several, style="text")
        head += cells("th", "time", "min<small>over ranks</small>", "max<small>over ranks</small>")
        head += cells("th", "speed-up", style="text")
        head += cells("th", "error", "algbw<small>GB/s</small>", "busbw<small>GB/s</small>")
        head += cells("th", *(OPTIONAL_COLUMNS[key] for key in optional))
        text = f'<div class="wide"><table>\n<caption>{escape(network.name)}; fastest first</caption>\n'
        text += f"<thead><tr>{head}</tr></thead>\n"
        for _, of in itertools.groupby(entries, lambda entry: entry[0]["bytes"]):
            rows = (self.row(network, row, run, several, optional) for row, run in of)
            text += f"<tbody>\n{''.join(rows)}</tbody>\n"
        return text + "</table></div>\n"

    def row(self, network: Network, row: Json, run: Json, several: bool, optional: list[str]) -> str:
        most, ranks = row["seconds_max"], run["ranks"]
        bandwidth = row["bytes"] / most / 1e9
        is_fastest_mpi = row is network.reference(row["bytes"])
        error = "not finite" if row["error"] is None else f"{row['error']:.1e}"
        if not row["same_bits"]:
            error = '<span class="bad">ranks differ</span>'
        elif not row["as_promised"]:
            error = f'<span class="bad">{error}, too much</span>'
        values = [error, f"{bandwidth:.3g}", f"{bandwidth * 2 * (ranks - 1) / ranks:.3g}"]
        for key in optional:
            scale = 100 / most if key.endswith("_s") else 1
            values.append("–" if row[key] is None else f"{row[key] * scale:.0f}")
        names = [patch(self.colors[row["codec"]]) + escape(row["codec"]), escape(row["algorithm"])]
        names += [escape(row["transport"]), *[escape(run["mpi"])] * several]
        text = cells("td", size_text(row["bytes"])) + cells("td", *names, style="text")
        text += cells("td", *(seconds_text(row[key]) for key in ("seconds", "seconds_min", "seconds_max")))
        ratio = "fastest MPI" if is_fastest_mpi else ratio_html(network.speed_up(row))
        text += cells("td", ratio, style="text")
        mark = ' class="own"' if is_default_mpi(row) else ""
        return f"<tr{mark}>{text}{cells('td', *values)}</tr>\n"


def model_error(runs: list[Json]) -> str:
    errors = [abs(row["predicted_s"] / row["seconds"] - 1) for run in runs for row in run["rows"]
              if row["predicted_s"] is not None and row["codec"] != "raw"]
    if not errors:
        return ""
    percent = 100 * statistics.median(errors)
    return f"the cost model is off by {percent:.0f} % in the median of {len(errors)} rows\n"


# ---- Command line --------------------------------------------------------------------------------


def kind_of(content: Any) -> str:
    if isinstance(content, list) and content and "bandwidth_gbit_s" in content[0]:
        return "scale"
    if isinstance(content, dict):
        if content.get("tool") == "hcomp_perf":
            return "hcomp_perf"
        if "batch_per_rank" in content:
            return "train"
        if "history" in content and "method" in content.get("settings", ()):
            return "gpt.py"
    raise Failure("not written by hcomp_perf, train, gpt.py or tests/scale with --json")


def read(file: Path) -> Any:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        kind_of(content)
        return content
    except json.JSONDecodeError as error:
        raise Failure(f"{file}: not JSON: {error}") from None
    except (OSError, ValueError, Failure) as error:
        raise Failure(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def drawn(contents: list[Any], ending: str) -> str:
    kinds = sorted({kind_of(content) for content in contents})
    if len(kinds) > 1:
        raise Failure(f"one picture cannot show results of {' and '.join(kinds)}")
    kind = kinds[0]
    if ending == ".html":
        if kind != "hcomp_perf":
            raise Failure(f"a report (.html) shows results of hcomp_perf; those of {kind} are drawn as .svg")
        return Report(networks_of(contents)).page()
    if kind == "hcomp_perf":
        return svg_of(perf_figure(networks_of(contents)))
    if kind == "scale":
        return svg_of(scale_figure([point for content in contents for point in content]))
    if kind == "gpt.py":
        return svg_of(gpt_figure(contents))
    if len(contents) > 1:
        raise Failure(f"{len(contents)} files of train; a picture shows one")
    return svg_of(train_figure(contents[0]))


def main(words: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="*.svg or *.html")
    args = parser.parse_args(words)
    if args.output.suffix not in (".svg", ".html"):
        parser.error(f"--output {args.output}: the name ends in neither .svg nor .html")
    try:
        contents = [read(file) for file in args.files]
        try:
            write(args.output, drawn(contents, args.output.suffix))
        except KeyError as error:
            raise Failure(f"{args.files[0]}: no key {error}; written by another version?") from None
        except OSError as error:
            raise Failure(f"{args.output}: {error.strerror}") from None
        if args.output.suffix == ".html":
            print(model_error(contents), end="")
    except Failure as error:
        sys.exit(f"plot.py: {error}")
    print(f"{'report' if args.output.suffix == '.html' else 'picture'} in {args.output}")


if __name__ == "__main__":
    main()
