#!/usr/bin/env python3
"""Tests of search.py with a program in the place of train: its loss is known for all settings."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SEARCH = Path(__file__).with_name("search.py")
FAKE = """#!{python}
import json, math, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
open("{calls}", "a").write("run\\n")
codec, rate, step = given["--codec"], float(given.get("--lr", 0.02)), float(given.get("--sign-step", 1e-3))
if codec == "broken":
    sys.exit("train: no such codec")
if rate > 0.5:
    sys.exit("train: fp32 with seed 1 diverged in step 3")
signs = codec in ("signum", "marsit")
loss = abs(math.log(rate / 0.3)) * (codec != "signum") + abs(math.log(step / 6e-4)) * signs
json.dump({{"runs": [{{"learning_rate": rate, "sign_step": step * signs, "test_loss": loss, "train_loss": loss,
                      "test_accuracy": 80 + float(given.get("--seed", 0)) - loss, "bytes_sent_per_step": 1500}}]}},
          open(given["--json"], "w"))
"""


def check(is_true: bool, what: str) -> None:
    if not is_true:
        sys.exit(f"FAILED: {what}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, calls = folder / "train", folder / "calls"
        program.write_text(FAKE.format(python=sys.executable, calls=calls))
        os.chmod(program, 0o755)

        def search(codecs: str, train: Path = program, ranks: str = "2") -> "subprocess.CompletedProcess[str]":
            return subprocess.run([sys.executable, str(SEARCH), "--train", str(train), "--results", str(folder / "r"),
                                   "--codec", codecs, "--", "--ranks", ranks],
                                  capture_output=True, text=True, check=False)

        done = search("fp32,signum,marsit")
        check(done.returncode == 0, done.stderr)
        lines = done.stdout.splitlines()[2:]
        check(lines[0] == "| fp32 | 0.3 |  | 82.00 ± 1.00 % |  | 0.000 | 1.5 kB | 8 |", lines[0])
        check(lines[1].startswith("| signum |  | 0.0006 | 82.00 ± 1.00 % | +0.00 | "), lines[1])
        check(lines[2].startswith("| marsit | 0.3 | 0.0006 | "), lines[2])
        runs = calls.read_text()
        check(search("fp32,signum,marsit").stdout == done.stdout, "the second call prints another table")
        check(calls.read_text() == runs, "the second call trains again")
        broken = search("broken")
        check(broken.returncode == 1 and "--codec broken" in broken.stderr, broken.stderr)
        check(broken.stderr.endswith("exit status 1: train: no such codec\n"), broken.stderr)
        for wrong, text in ((search("fp32,"), "--codec 'fp32,': a name is empty"),
                            (search("fp32", folder / "none"), "none: no such program"),
                            (search("fp32", ranks="3"), "has runs with the arguments ['--ranks', '2']")):
            check(wrong.returncode == 2 and text in wrong.stderr and not wrong.stdout, wrong.stderr)
    print("passed")


if __name__ == "__main__":
    main()
