"""Table of run.sh's runs: times, bytes, and deviations from the run with MPI's all-reduce."""

import re
import sys
from pathlib import Path


def log_of(folder):
    """Seconds of all steps; temperature, energies and pressure of every tenth step."""
    text = (folder / "log.lammps").read_text()
    seconds = float(re.search(r"Loop time of (\S+)", text)[1])
    rows = re.search(r"^Step .*?\n(.*?)^Loop time", text, re.M | re.S)[1].splitlines()
    return seconds, [[float(word) for word in row.split()] for row in rows if row.strip()]


def rdf_of(folder):
    """Radial distribution function: ions at every distance, relative to a uniform distribution."""
    rows = [line.split() for line in (folder / "rdf.txt").read_text().splitlines()]
    return [float(row[2]) for row in rows if len(row) > 3 and row[0] != "#"]


def megabytes_of(folder):
    """Megabytes that all nodes sent."""
    rows = re.findall(r"^\s*host\d+\s+(\d+)", (folder / "bytes.txt").read_text(), re.M)
    return sum(map(int, rows)) / 1e6


def largest(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def main(results):
    head = "link     sums                    seconds  MB sent   energy off   T off, K   pairs off"
    print(head)
    for rate in sorted({one.parent.parent.name for one in results.glob("*/*/log.lammps")}):
        plain = results / rate / "off"
        _, steps = log_of(plain)
        for one in sorted((results / rate).iterdir(), key=lambda one: one.stat().st_ctime):
            seconds, mine = log_of(one)
            energy = largest([row[3] for row in mine], [row[3] for row in steps]) / abs(steps[0][3])
            heat = largest([row[1] for row in mine], [row[1] for row in steps])
            print(
                f"{rate:<9}{one.name.replace('_', ' '):<22}{seconds:>9.2f}{megabytes_of(one):>9.1f}"
                f"{energy:>13.1e}{heat:>11.1e}{largest(rdf_of(one), rdf_of(plain)):>12.1e}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
