"""Results of prediction.sh: a row as JSON, and the table of all rows."""

import json
import sys
from pathlib import Path
from statistics import median


def stats_of_report(report):
    """Reads the shadow mode's report: seconds of a call by MPI and by the rule."""
    sites = json.loads(report.read_text())["sites"]
    calls, own, plain = (sum(one["later"][key] for one in sites) for key in ("calls", "own", "plain"))
    if calls == 0:
        why = ", ".join(f"{one['calls']} {one['type']}: {one['why']}" for one in sites)
        sys.exit(f"prediction: no call but the first was tried by the rule ({why})")
    return plain / calls, own / calls


def row(network, mpi, rule, folder):
    """Returns the medians over all runs."""
    folder = Path(folder)
    said = [stats_of_report(one) for one in folder.glob("report*.json")]
    seconds = [[float(word) for word in (folder / name).read_text().split()] for name in ("off", "on")]
    print(json.dumps([network, mpi, rule, *map(median, zip(*said)), *map(median, seconds)]))


def table():
    said_and_then = f"{'said':>9}{'then':>9}"
    print(f"{'':<58}{'ms, as it is':>18}{'ms, by the rule':>18}{'times faster':>18}")
    print(f"{'network':<18}{'MPI':<10}{'rule':<30}{3 * said_and_then}{'off by':>9}")
    worst = None
    for line in sys.stdin:
        network, mpi, rule, plain_said, said, plain, then = json.loads(line)
        off = (plain_said / said) / (plain / then) - 1
        worst = max(worst or 0, abs(off))
        milliseconds = "".join(f"{1e3 * one:9.2f}" for one in (plain_said, plain, said, then))
        print(
            f"{network:<18}{mpi:<10}{rule:<30}{milliseconds}"
            f"{plain_said / said:9.2f}{plain / then:9.2f}{100 * off:8.0f} %",
            flush=True,
        )
    if worst is None:
        sys.exit("prediction: no gain was predicted")
    print(f"gains are predicted within {100 * worst:.0f} %")
    return worst > 0.2


if __name__ == "__main__":
    sys.exit(table() if sys.argv[1] == "table" else row(*sys.argv[2:]))
