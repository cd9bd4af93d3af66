#!/usr/bin/python3
"""Tests of plot.py.

plot_test.py                                     runs the test cases on results written here
plot_test.py OUTPUT FILE.json... --has TEXT...   draws a program's results, checks the texts in it
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import plot

Json = dict[str, Any]


def texts_of(picture: str) -> str:
    """All texts of an SVG file. Checks that it is well-formed and has a line."""
    root = ElementTree.fromstring(picture)
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == svg + "svg", root.tag
    assert any(len(path.get("d", "")) > 20 for path in root.iter(svg + "path")), "nothing is drawn"
    return "\n".join("".join(text.itertext()).strip() for text in root.iter(svg + "text"))


class Page(HTMLParser):
    """Parser of a report: collects missing end tags and identifiers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags.append(tag)
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


# ---- train and gpt.py ----------------------------------------------------------------------------


def train_run(codec: str, seed: int = 1, steps: int = 80, made: int = 80, **more: Any) -> Json:
    curve = [
        {"step": step, "bytes_sent": 1e7 * step, "seconds": 0.1 * step, "train_loss": 2 - 0.01 * step,
         "test_loss": 2 - 0.01 * step, "test_accuracy": 50 + step / 4 + seed}
        for step in range(0, made + 1, 5)
    ]
    name = codec if made == steps else f"{codec}, {made} of {steps} steps"
    return {"codec": name, "algorithm": "ring", "seed": seed, "steps": steps, "curve": curve} | more


def train_results(*runs: Json, **more: Any) -> Json:
    return {
        "ranks": 4, "complete": True, "link_gbit_per_s": 0, "model": "mlp", "data_name": "Fashion-MNIST",
        "examples": "images", "epochs": 5, "batch_per_rank": 25, "parameters": 1149010, "runs": list(runs),
    } | more


class Train(unittest.TestCase):
    def test_every_method_panel_and_setting_is_named(self) -> None:
        codecs = ("fp32", "ef_sign", "thc", "thc, 10 % late")
        runs = [train_run(codec, seed) for codec in codecs for seed in (1, 2)]
        texts = texts_of(plot.drawn([train_results(*runs, link_gbit_per_s=0.5)], ".svg")).split("\n")
        for text in codecs:
            self.assertEqual(texts.count(text), 1, text)  # in the legend
        for text in ("test accuracy, %", "training loss, nats (log scale)", "bytes sent per rank, GB (log scale)",
                     "training time, s"):
            self.assertEqual(texts.count(text), 2, text)
        self.assertIn("4 ranks train 1.15 million parameters on Fashion-MNIST", texts)
        settings = "5 epochs, 25 images per rank and step, mean and range of 2 seeds, links of 0.5 Gbit/s"
        self.assertIn(settings, texts)

    def test_series_are_means_and_ranges_over_seeds(self) -> None:
        curves = {"fp32": [train_run("fp32", seed)["curve"] for seed in (1, 2, 6)]}
        [series] = plot.series_of(curves)
        self.assertEqual(series.over_runs("test_accuracy")[0], 53)
        self.assertEqual(series.over_runs("test_accuracy", min)[0], 51)
        self.assertEqual(series.over_runs("test_accuracy", max)[0], 56)

    def test_unfinished_results_are_drawn_and_marked(self) -> None:
        results = train_results(train_run("fp32"), train_run("thc", steps=3000, made=10), complete=False)
        texts = texts_of(plot.drawn([results], ".svg"))
        self.assertIn("thc, 10 of 3000 steps", texts)
        self.assertIn("one seed; unfinished", texts)
        self.assertNotIn("unfinished", texts_of(plot.drawn([train_results(train_run("fp32"))], ".svg")))

    def test_without_an_observation_there_is_no_picture(self) -> None:
        for runs in ([], [train_run("fp32", made=0)]):
            with self.assertRaisesRegex(plot.Failure, "no results to draw yet"):
                plot.drawn([train_results(*runs, complete=False)], ".svg")

    def test_word_vectors_have_a_held_out_loss(self) -> None:
        texts = texts_of(plot.drawn([train_results(train_run("fp32"), model="embedding")], ".svg"))
        self.assertIn("held-out loss, nats", texts)
        self.assertNotIn("accuracy", texts)

    def test_losses_that_are_not_finite_are_left_out(self) -> None:
        run = train_run("fp32")
        for point in run["curve"][6:]:
            point["train_loss"] = None
        self.assertIn("fp32", texts_of(plot.drawn([train_results(run)], ".svg")))

    def test_simulated_time_is_not_compared_with_real_time(self) -> None:
        figure = plot.train_figure(train_results(train_run("fp32"), train_run("thc", algorithm="aggregators")))
        lines = [len(panel.lines) for panel in figure.axes]
        self.assertEqual(lines, [4, 2, 4, 2])  # a line and its end, by bytes and by time

    def test_methods_have_colours_of_their_own_and_series_of_one_method_have_styles(self) -> None:
        names = ("ef_sign", "dist_ef_sign", "thc", "thc, 10 % late", "steps")
        series = plot.series_of({name: [train_run(name)["curve"]] for name in names})
        self.assertEqual(len({one.color for one in series}), 4)
        self.assertEqual(series[2].color, series[3].color)
        self.assertNotEqual(series[2].dashes, series[3].dashes)

    def test_a_line_that_another_covers_is_wider(self) -> None:
        figure = plot.train_figure(train_results(train_run("fixed"), train_run("sparse_fixed")))
        widths = [line.get_linewidth() for line in figure.axes[0].lines[::2]]
        self.assertGreater(widths[0], widths[1])

    def test_gpt(self) -> None:
        history = [{"step": step, "bytes": 1e6 * step, "seconds": step, "validation_loss": 3 - step / 99}
                   for step in (20, 40, 60)]
        runs = [{"settings": {"method": method, "steps": "60", "ranks": "4"}, "parameters": 3.2e6,
                 "history": history} for method in ("identity", "thc:bits=4", "thc:bits=2")]
        texts = texts_of(plot.drawn(runs, ".svg"))
        for text in ("identity", "thc:bits=4", "thc:bits=2", "validation loss, nats per byte", "MB (log scale)"):
            self.assertIn(text, texts)


# ---- tests/scale ---------------------------------------------------------------------------------


class Scale(unittest.TestCase):
    def test_every_curve_and_link_rate_is_named(self) -> None:
        points = [
            {"ranks": ranks, "values": 1 << 20, "latency_us": 10, "rendezvous": True, "bandwidth_gbit_s": rate,
             "algorithm": algorithm, "codec": codec, "hop_bits": 8 * (codec == "thc"),
             "seconds": ranks / 1e3 / rate, "predicted": ranks / 1e3}
            for rate in (1, 10) for ranks in (1024, 64, 256) for algorithm, codec in
            (("ring", "identity"), ("torus", "thc"), ("direct", "sign")) if (ranks, algorithm) != (1024, "ring")
        ]
        texts = texts_of(plot.drawn([points[:7], points[7:]], ".svg"))
        for text in ("All-reduce of 1.05 million values on 64 to 1024 simulated nodes", "links of 1 Gbit/s",
                     "links of 10 Gbit/s", "ring, fp32", "torus, thc, 8 bits", "direct, 1 bit", "ranks (log scale)",
                     "time, ms (log scale)", "messages wait for their receives"):
            self.assertIn(text, texts)


# ---- hcomp_perf ----------------------------------------------------------------------------------

RAW = ("raw", "MPI", "mpi")
FP16 = ("fp16", "ring", "mpi")


def perf_row(size: int, strategy: tuple[str, str, str], seconds: float, **more: Any) -> Json:
    codec, algorithm, transport = strategy
    return {
        "bytes": size, "type": "float", "codec": codec, "algorithm": algorithm, "transport": transport,
        "seconds": seconds, "seconds_min": 0.9 * seconds, "seconds_max": 1.25 * seconds,
        "calls": [0.8 * seconds, 1.5 * seconds], "bytes_sent": 1.5 * size, "bytes_on_wire": 1.6 * size,
        "bound_s": 0.5 * seconds, "predicted_s": 0.6 * seconds, "error": 3e-4,
        "same_bits": True, "as_promised": True,
    } | more


def perf_results(*rows: Json, **more: Any) -> Json:
    return {
        "tool": "hcomp_perf", "mpi": "Open MPI 4.1.4", "machine": "a processor, 2 cores", "ranks": 4, "nodes": 2,
        "rate_bit_per_s": 1e8, "rate_was_measured": False, "latency_s": 5e-5, "label": 'a "lab" & <more>',
        "input": "normal values", "mean": False, "complete": True, "device": "", "rows": list(rows),
    } | more


class Networks(unittest.TestCase):
    def test_vectors_on_a_device_are_not_compared_with_those_in_host_memory(self) -> None:
        runs = [perf_results(perf_row(1024, RAW, 1), device=device) for device in ("", "a device")]
        names = [network.name for network in plot.networks_of(runs)]
        self.assertEqual([", vectors on a device" in name for name in names], [False, True])

    def test_the_fastest_library_is_the_reference(self) -> None:
        row = perf_row
        first = perf_results(row(1024, RAW, 1), row(4096, RAW, 9), row(1024, FP16, 2), row(4096, FP16, 2))
        second = perf_results(row(1024, RAW, 3), row(4096, RAW, 8), row(4096, FP16, 4), mpi="MPICH 4.0.2")
        fast = perf_results(row(1024, RAW, 1), row(1024, FP16, 0.25), rate_bit_per_s=1e9)
        networks = plot.networks_of([fast, first, second])
        slow = networks[0]
        self.assertEqual(slow.libraries, ["MPICH 4.0.2", "Open MPI 4.1.4"])
        self.assertIs(slow.reference(1024), first["rows"][0])
        self.assertIs(slow.reference(4096), second["rows"][1])
        self.assertIsNone(slow.reference(99))
        self.assertEqual(slow.speed_up(second["rows"][2]), 2)
        [curve] = slow.curves()
        self.assertIs(curve.rows[4096], first["rows"][3])
        self.assertEqual(slow.pays_from(curve), 4096)
        self.assertEqual(networks[1].pays_from(networks[1].curves()[0]), 1024)
        self.assertEqual(plot.rate_series_of(networks), [(networks, 1024)])

    def test_networks_of_one_rate_are_no_series_unless_labels_tell_them_apart(self) -> None:
        def run(rate: float, label: str, latency: float) -> Json:
            return perf_results(perf_row(1024, RAW, 1), rate_bit_per_s=rate, label=label, latency_s=latency)

        same = plot.networks_of([run(1e9, "", 1e-6), run(1e9, "", 1e-3)])
        self.assertEqual((len(same), plot.rate_series_of(same)), (2, []))
        labels = [run(rate, label, 1e-6) for rate in (1e8, 1e9) for label in ("", "1 ms")]
        series = plot.rate_series_of(plot.networks_of(labels))
        self.assertEqual([[n.first["label"] for n in of] for of, _ in series], [["", ""], ["1 ms", "1 ms"]])

    def test_a_codec_pays_from_where_on_it_is_never_slower_again(self) -> None:
        run = perf_results()
        for power, ratio in enumerate((2.0, 0.5, 1.04, 1.06, 3.0)):
            run["rows"] += [perf_row(1024 << power, RAW, 1), perf_row(1024 << power, FP16, 1 / ratio)]
        [network] = plot.networks_of([run])
        self.assertEqual(network.pays_from(network.curves()[0]), 8192)  # 1.04 is noise
        run["rows"][-1]["seconds"] = 1.5
        self.assertIsNone(network.pays_from(network.curves()[0]))

    def test_measured_rates_may_differ_a_little_and_given_ones_not_at_all(self) -> None:
        network = plot.Network(perf_results(perf_row(1024, RAW, 1)))

        def has(**more: Any) -> bool:
            return network.has(perf_results(perf_row(1024, RAW, 1)) | more)

        self.assertTrue(has())
        self.assertTrue(has(latency_s=15e-5))  # the label is the same
        self.assertFalse(has(rate_bit_per_s=1.05e8))
        self.assertTrue(has(rate_bit_per_s=1.05e8, rate_was_measured=True))
        self.assertFalse(has(rate_bit_per_s=1.2e8, rate_was_measured=True))
        for more in ({"ranks": 8}, {"nodes": 4}, {"label": "x"}, {"mean": True}):
            self.assertFalse(has(**more), more)
        self.assertFalse(has(rows=[perf_row(1024, RAW, 1, type="double")]))
        network.first["label"] = ""
        self.assertFalse(has(label="", latency_s=15e-5))

    def test_codecs_share_a_colour_only_when_there_are_more_than_colours(self) -> None:
        codecs = ("identity", "zfp:8", "sign", "thc", "automatic", "uniform_thc", "fp16")
        rows = [perf_row(4096, RAW, 1e-3), *(perf_row(4096, (codec, "ring", "mpi"), 1e-3) for codec in codecs)]
        colors = plot.colors_of(plot.networks_of([perf_results(*rows)]))
        self.assertEqual(len(set(colors.values())), 8)  # with the grey of MPI

    def test_every_algorithm_has_a_mark_of_its_own(self) -> None:
        names = ("ring", "torus:2x2", "direct", "recursive_doubling", "sampled", "hierarchical", "MPI", "another")
        self.assertEqual(len({plot.mark_of(name) for name in names}), len(names))


class PerfPictures(unittest.TestCase):
    def test_several_rates_give_speed_up_over_rate_with_errors(self) -> None:
        thc = perf_row(65536, ("thc", "direct", "mpi"), 0.1, error=0.14)
        runs = [perf_results(perf_row(65536, RAW, 1), perf_row(65536, FP16, seconds), thc, rate_bit_per_s=rate)
                for rate, seconds in ((1e9, 4), (1e8, 0.5))]
        texts = texts_of(plot.drawn(runs, ".svg"))
        for text in ("Speed-up over uncompressed all-reduce: 64 KiB of float, 4 ranks on 2 nodes", "100 Mbit/s",
                     "1 Gbit/s", "link rate (log scale)", "speed-up over Open MPI (log scale)",
                     "Open MPI, uncompressed", "fp16, error 0.03 %", "thc, error 14 %", "slower than Open MPI"):
            self.assertIn(text, texts)
        [panel] = plot.perf_figure(plot.networks_of(runs)).axes
        lines = [list(line.get_ydata()) for line in panel.lines[1:]]  # the first is at 1
        self.assertEqual(lines, [[2, 0.25], [10, 10]])

    def test_one_network_gives_time_over_size(self) -> None:
        rows = [perf_row(size, strategy, size * 1e-8 * share) for size in (8192, 1 << 20)
                for strategy, share in ((RAW, 1), (FP16, 0.5), (("fp16", "direct", "ucx"), 0.6))]
        texts = texts_of(plot.drawn([perf_results(*rows)], ".svg"))
        for text in ("Open MPI 4.1.4", "fp16", "8 KiB", "1 MiB", "size of the uncompressed vector",
                     "time of an all-reduce"):
            self.assertIn(text, texts)


class Report(unittest.TestCase):
    def setUp(self) -> None:
        strategies = [RAW, ("raw", "MPI:rabenseifner", "mpi"), FP16, ("fp16", "torus:2x2", "ucx"),
                      ("sign", "sampled", "mpi"), ("zfp:8", "MPI", "op"),
                      ("it's <mine> & \"yours\"", "direct", "mpi")]
        self.runs = []
        for mpi, rate in (("Open MPI 4.1.4", 1e8), ("MPICH 4.0.2", 1e8), ("Open MPI 4.1.4", 1e9)):
            rows = [perf_row(size, strategy, 1e-3 * 0.9 ** (i + 1))
                    for i, (size, strategy) in enumerate((s, t) for s in (8192, 65536) for t in strategies)]
            self.runs.append(perf_results(*rows, mpi=mpi, rate_bit_per_s=rate))
        self.runs[2]["rows"].append(perf_row(8192, ("sign_count", "ring", "mpi"), 0.004, as_promised=False))

    def test_the_page_has_every_strategy_and_size_and_names_what_is_slower(self) -> None:
        page = plot.drawn(self.runs, ".html")
        for text in ("MPI:rabenseifner", "torus:2x2", "sampled", "zfp:8", "sign_count", "100 Mbit/s", "1 Gbit/s",
                     "8 KiB", "64 KiB", "it&#x27;s &lt;mine&gt; &amp; &quot;yours&quot;",
                     "a &quot;lab&quot; &amp; &lt;more&gt;", "Open MPI 4.1.4", "MPICH 4.0.2",
                     "a processor, 2 cores", "fastest MPI", "0.20×, slower", "3.0e-04, too much"):
            self.assertIn(text, page)
        rows = re.findall(r'<td class="text">(?:mpi|ucx|op)</td>', page)
        self.assertEqual(len(rows), 3 * 14 + 1)

    def test_the_page_is_well_formed_and_needs_no_other_file(self) -> None:
        text = plot.drawn(self.runs, ".html")
        page = Page(text)
        self.assertEqual((page.wrong, page.open), ([], []))
        self.assertEqual(page.tags.count("svg"), 3)  # two networks, one series of rates
        self.assertEqual(len(page.ids), len(set(page.ids)), "an identifier twice")
        for name in re.findall(r'(?:href="|url\()#([^")]*)', text):
            self.assertIn(name, page.ids)
        for tag in ("script", "link", "img"):
            self.assertNotIn(tag, page.tags)

    def test_the_model_is_compared_with_the_times(self) -> None:
        self.assertEqual(plot.model_error(self.runs), "the cost model is off by 40 % in the median of 31 rows\n")

    def test_without_rows_there_is_no_page(self) -> None:
        with self.assertRaisesRegex(plot.Failure, "no results to draw yet"):
            plot.drawn([perf_results()], ".html")


# ---- Command line --------------------------------------------------------------------------------


class CommandLine(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name: str, content: Any) -> Path:
        (self.folder / name).write_text(json.dumps(content))
        return self.folder / name

    def run_it(self, *words: object) -> tuple[int, str]:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            try:
                plot.main(list(map(str, words)))
            except SystemExit as end:
                return 1, f"{said.getvalue()}{end}"
        return 0, said.getvalue()

    def test_the_same_results_give_the_same_bytes(self) -> None:
        results = self.file("train.json", train_results(train_run("fp32")))
        pictures = [self.folder / "a $x_1$ 'b'.svg", self.folder / "b.svg"]
        for picture in pictures:
            self.assertEqual(self.run_it(results, "-o", picture), (0, f"picture in {picture}\n"))
        self.assertEqual(pictures[0].read_bytes(), pictures[1].read_bytes())

    def test_a_failure_names_the_file_and_leaves_the_picture(self) -> None:
        picture = self.folder / "x.svg"
        picture.write_text("before")
        train = self.file("train.json", train_results(train_run("fp32")))
        perf = self.file("perf.json", perf_results(perf_row(1024, RAW, 1)))
        other = self.file("other.json", {"tool": "nccl-tests"})
        broken = self.folder / "broken.json"
        broken.write_text("{")
        for words, text in (
            ([other, "-o", picture], f"{other}: not written by hcomp_perf, train, gpt.py or tests/scale"),
            ([broken, "-o", picture], f"{broken}: not JSON: Expecting property name"),
            ([self.folder / "none.json", "-o", picture], "none.json: No such file or directory"),
            ([train, perf, "-o", picture], "one picture cannot show results of hcomp_perf and train"),
            ([train, train, "-o", picture], "2 files of train; a picture shows one"),
            ([train, "-o", self.folder / "x.html"], "a report (.html) shows results of hcomp_perf"),
            ([train, "-o", self.folder / "x.png"], "the name ends in neither .svg nor .html"),
            ([train, "-o", self.folder / "none/x.svg"], "none/x.svg: No such file or directory"),
        ):
            status, said = self.run_it(*words)
            self.assertNotEqual(status, 0)
            self.assertIn(text, said)
        self.assertEqual(picture.read_text(), "before")


def check(words: list[str]) -> None:
    """Test of a program's results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--has", nargs="+", required=True)
    args = parser.parse_args(words)
    args.output.unlink(missing_ok=True)
    subprocess.run([sys.executable, plot.__file__, *args.files, "-o", args.output], check=True)
    text = args.output.read_text()
    if args.output.suffix == ".svg":
        text = texts_of(text)
    missing = [wanted for wanted in args.has if wanted not in text]
    if missing:
        sys.exit(f"{args.output} has no {missing}; it has:\n{text[:5000]}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        check(sys.argv[1:])
    else:
        unittest.main()
