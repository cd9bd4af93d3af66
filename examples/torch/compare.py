#!/usr/bin/env python3
"""Trains the GPT of gpt.py with several methods and seeds, and compares the results.

    python examples/torch/compare.py --methods identity thc:bits=4 --seeds 3 -- --steps 500

Arguments after -- go to gpt.py. Prints a table. The folder of --results gets the history and the
standard error of every run, and a plot. With --go-on, complete runs of the folder are not repeated:
after a break, or to add a method.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable, Optional

FULL = ("identity", "gloo")  # full precision; the first one that was run is the reference
PLOT = Path(__file__).resolve().parents[1] / "support/plot.py"  # run with its own interpreter
Run = dict[str, Any]  # JSON of gpt.py


class Runner:
    """Runs one training after the other. Ctrl-C ends the current run and starts no further ones."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.interrupted = False
        self.histories: list[Path] = []  #: files of the runs that ended
        self._child: Optional[subprocess.Popen[bytes]] = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupt)

    def _interrupt(self, *_: Any) -> None:
        if not self.interrupted and self._child:
            self._child.send_signal(signal.SIGINT)
        self.interrupted = True

    def run(self, method: str, seed: int) -> Optional[Run]:
        """The results of a run; None if it failed or was interrupted."""
        name = f"{method.replace('/', '_')}-seed{seed}"
        history, log = (self.args.results / f"{name}.{end}" for end in ("json", "log"))
        print(f"\n{method}, seed {seed}", flush=True)
        arguments = [*self.args.arguments, "--method", method, "--seed", str(seed)]
        if self.args.go_on and (before := self._finished(history, arguments)):
            print(f"is in {history}")
            self.histories.append(history)
            return before
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(self.args.ranks)]
        command += [Path(__file__).with_name("gpt.py"), *arguments, "--json", history]
        with log.open("w") as file:  # in a new session, so that torchrun gets Ctrl-C only once
            self._child = subprocess.Popen(command, stderr=file, start_new_session=True)
            status, self._child = self._child.wait(), None
        if self.interrupted:
            return None
        if status != 0:
            said = log.read_text().splitlines()
            why = [line for line in said if line.startswith("gpt.py: ")][:1] or said[:20]
            why.append(f"compare.py: {method}, seed {seed}, failed; all that it said is in {log}")
            print("\n".join(why), file=sys.stderr)
            return None
        self.histories.append(history)
        return json.loads(history.read_text())

    def _finished(self, history: Path, arguments: list[str]) -> Optional[Run]:
        if not history.exists():
            return None
        run = json.loads(history.read_text())
        settings, steps = asked_of_gpt(arguments, self.args.ranks)
        is_same = run["settings"] == settings
        return run if is_same and run["history"][-1]["step"] == steps else None


def asked_of_gpt(arguments: list[str], ranks: int) -> tuple[dict[str, str], int]:
    """The settings and the steps of a run. Raises ValueError for wrong arguments."""
    import gpt  # imports PyTorch, which --help does not need

    asked = gpt.options(arguments)
    return gpt.settings_of(asked, ranks), asked.steps


def mean(entries: Iterable[dict[str, float]], kind: str) -> float:
    return statistics.mean(entry[kind] for entry in entries)


def table(rows: dict[str, list[Run]]) -> str:
    note: list[str] = []
    loss = "validation_loss"
    ends = {method: [run["history"][-1] for run in runs] for method, runs in rows.items()}
    spread = {m: statistics.stdev(e[loss] for e in of) if of[1:] else 0 for m, of in ends.items()}
    full = next((method for method in FULL if method in rows), None)
    lines = ["| method | bytes per value and step | validation loss | seconds |", "|---" * 4 + "|"]
    for method, of in ends.items():
        sent = mean(of, "bytes") / of[0]["step"] / rows[method][0]["parameters"]
        text = f"{mean(of, loss):.4f}" + f" ± {spread[method]:.4f}" * bool(of[1:])
        off = abs(mean(of, loss) - mean(ends[full], loss)) if full else 0.0
        if of[1:] and off > 2 * max(spread[method], spread.get(full, 0.0)):
            text += " *"
            note = ["", f"* off {full} by more than twice the larger standard deviation"]
        lines.append(f"| {method} | {sent:.3f} | {text} | {mean(of, 'seconds'):.1f} |")
    return "\n".join(lines + note)


def main() -> None:
    as_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_is)
    methods = ["identity", "bf16", "thc:bits=4", "sign", "powersgd:rank=4"]
    parser.add_argument("--methods", nargs="+", default=methods, help=" ".join(methods))
    parser.add_argument("--seeds", type=int, default=3, help="so many: 1, 2, ... (3)")
    parser.add_argument("--ranks", type=int, default=4, help="processes on this machine (4)")
    parser.add_argument("--results", type=Path, default="results/torch", help="results/torch")
    parser.add_argument("--go-on", action="store_true", help="take runs of --results as they are")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of gpt.py")
    args = parser.parse_args()
    if args.seeds < 1 or args.ranks < 2:
        parser.error(f"--seeds is {args.seeds}, at least 1; --ranks is {args.ranks}, at least 2")
    try:
        asked_of_gpt(args.arguments, args.ranks)
    except ValueError as error:
        parser.error(f"behind --: {error}")
    if subprocess.run([PLOT, "--help"], stdout=subprocess.DEVNULL).returncode != 0:
        parser.error(f"{PLOT}, which draws the picture, does not run")
    args.results.mkdir(parents=True, exist_ok=True)

    runner = Runner(args)
    rows: dict[str, list[Run]] = {}
    for method in dict.fromkeys(args.methods):
        for seed in range(1, args.seeds + 1):
            run = None if runner.interrupted else runner.run(method, seed)
            if run is None:
                break
            rows.setdefault(method, []).append(run)
    if rows:
        print(f"\n{table(rows)}\n", flush=True)
        subprocess.run([PLOT, *runner.histories, "-o", args.results / "compare.svg"], check=True)
    sys.exit(sum(map(len, rows.values())) < len(set(args.methods)) * args.seeds)


if __name__ == "__main__":
    main()
