#!/usr/bin/env python3
"""Searches learning rates and sign steps of codecs, and prints a table with the best ones.

    search.py --codec fp32,signum,marsit --results results/ranks8 -- --ranks 8 --batch 12 --epochs 1

Arguments after `--` go to `train`. Searched values are 1, 2, 3 and 6 times powers of ten. From the
codec's defaults, the search moves to the neighbour with the lowest test loss, until none is lower.
Neighbours are the next rates; for majority votes the next sign steps; for Marsit both, also both
together. The search uses one seed, and the table uses seeds 1, 2, 3. The test loss differs less
between seeds than the accuracy.

Every run is one file in the folder of the results. A second call continues.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

GRID = (1, 2, 3, 6)
VOTES = ("majority_vote", "signum")  # the rate does not change a sign
Point = tuple[int, int]              # places of the rate and of the sign step on the grid
Json = dict[str, Any]


def value(place: int) -> float:
    return float(f"{GRID[place % 4]}e{place // 4}")


def nearest_place(wanted: float) -> int:
    return min(range(-40, 40), key=lambda place: max(value(place) / wanted, wanted / value(place)))


def neighbours(point: Point, codec: str, has_signs: bool) -> list[Point]:
    rate, step = point
    if codec in VOTES:
        return [(rate, step + by) for by in (-1, 1)]
    if not has_signs:
        return [(rate + by, step) for by in (-1, 1)]
    return [(rate + up, step + right) for up, right in ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1))]


class Runs:
    """Trainings of one codec. Runs that are done are not repeated."""

    def __init__(self, program: str, arguments: list[str], folder: Path, codec: str) -> None:
        self.program, self.arguments, self.folder, self.codec = program, arguments, folder, codec
        self.count = 0

    def run(self, options: Json) -> Json | None:
        """The result with these options of train; None if the training diverged."""
        words = [word for name, given in options.items() for word in (f"--{name}", f"{given:g}")]
        file = self.folder / ("_".join([self.codec, *words]).replace("--", "") + ".json")
        if not file.exists():
            fresh = file.with_suffix(".new")
            command = [self.program, *self.arguments, "--codec", self.codec, *words, "--json", str(fresh)]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode and "diverged" not in done.stderr:
                sys.exit(f"search.py: {' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
            if done.returncode:
                fresh.write_text(json.dumps({"runs": []}))
            fresh.rename(file)
        runs = json.loads(file.read_text())["runs"]
        self.count += 1
        return runs[0] if runs else None

    def at(self, point: Point, has_signs: bool, seed: int) -> Json | None:
        options: Json = {} if self.codec in VOTES else {"lr": value(point[0])}
        if has_signs:
            options["sign-step"] = value(point[1])
        return self.run({**options, "seed": seed})


def climb(start: Point, score: Callable[[Point], float], around: Callable[[Point], list[Point]]) -> Point:
    """The point whose score is lowest among its neighbours."""
    best, scores = start, {start: score(start)}
    while True:
        for point in around(best):
            if point not in scores:
                scores[point] = score(point)
        lowest = min([best, *around(best)], key=lambda point: scores[point])
        if lowest == best:
            return best
        best = lowest


def kilobytes(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"


def row(runs: Runs, searched: int, seeds: int, baseline: float | None) -> tuple[str, float]:
    """The line of a codec, and its mean accuracy."""
    usual = runs.run({"epochs": 1e-9})  # one step
    if usual is None:
        sys.exit(f"search.py: {runs.codec}: training diverged in the first step")
    has_signs = usual["sign_step"] > 0
    start = nearest_place(usual["learning_rate"]), nearest_place(usual["sign_step"] or 1)

    def score(point: Point) -> float:
        result = runs.at(point, has_signs, searched)
        return result["test_loss"] if result else math.inf

    best = climb(start, score, lambda point: neighbours(point, runs.codec, has_signs))
    searches = runs.count - 1
    results = [runs.at(best, has_signs, seed) for seed in range(1, seeds + 1)]
    found = [result for result in results if result]
    if len(found) < seeds:
        sys.exit(f"search.py: {runs.codec}: training diverged with the best settings and another seed")
    accuracy = [result["test_accuracy"] for result in found]
    mean = statistics.mean(accuracy)
    spread = f" ± {statistics.stdev(accuracy):.2f}" if seeds > 1 else ""
    cells = (runs.codec, "" if runs.codec in VOTES else f"{value(best[0]):g}",
             f"{value(best[1]):g}" if has_signs else "", f"{mean:.2f}{spread} %",
             "" if baseline is None else f"{mean - baseline:+.2f}".replace("-", "−"),
             f"{statistics.mean(result['train_loss'] for result in found):.3f}",
             kilobytes(statistics.mean(result["bytes_sent_per_step"] for result in found)), str(searches))
    return "| " + " | ".join(cells) + " |", mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="build-main/examples/train/train", help="program (default: %(default)s)")
    parser.add_argument("--codec", action="append", required=True, help="codecs, each with a search of its own; "
                        "separated by commas, or several times")
    parser.add_argument("--results", type=Path, required=True, help="folder of the runs, one for each set of arguments")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the table, from 1 on (default: %(default)s)")
    parser.add_argument("--search-seed", type=int, default=100, help="seed of the search (default: %(default)s)")
    parser.add_argument("arguments", nargs="*", help="for train, after --")
    given = parser.parse_args()
    codecs = ",".join(given.codec).split(",")
    if "" in codecs:
        parser.error(f"--codec {','.join(given.codec)!r}: a name is empty")
    if given.seeds < 1:
        parser.error(f"--seeds {given.seeds}: at least 1 is needed")
    if shutil.which(given.train) is None:
        parser.error(f"--train {given.train}: no such program; build it with: examples/run.sh")
    given.results.mkdir(parents=True, exist_ok=True)
    # Files of runs have no name for these arguments.
    remembered = given.results / "arguments.json"
    if not remembered.exists():
        remembered.write_text(json.dumps(given.arguments))
    if (before := json.loads(remembered.read_text())) != given.arguments:
        parser.error(f"--results {given.results}: has runs with the arguments {before}, not {given.arguments}; "
                     "name another folder")
    print("| method | learning rate | sign step | test accuracy | difference to the first row, points "
          "| training loss | bytes sent | runs searched |\n|---|---|---|---|---|---|---|---|", flush=True)
    baseline = None
    for codec in codecs:
        runs = Runs(given.train, given.arguments, given.results, codec)
        line, mean = row(runs, given.search_seed, given.seeds, baseline)
        baseline = mean if baseline is None else baseline
        print(line, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # finished runs are kept
