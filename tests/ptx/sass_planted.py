"""Checks the counts of sass.py for the machine code of planted_sass.cu.

    sass_planted.py <program> <ptxas> <nvdisasm>
"""

from __future__ import annotations

import sys
from pathlib import Path

from sass import Stats, compiled, mistakes

program, ptxas, nvdisasm = (Path(argument) for argument in sys.argv[1:])
found = {name.split("::")[-1]: stats for name, stats in compiled(program, ptxas, nvdisasm).items()}
for name, stats in found.items():
    print(f"{name}: {stats}")
good, chain, array = (found[name] for name in ("loads_together", "loads_in_a_chain", "array_at_run_time"))
assert (good.loads, good.bytes, good.local) == (8, 32, 0)
assert (chain.loads, chain.bytes) == (1, 4) and not chain.reaches_what_is_asked()
assert array.local > 0

page = {"chain": good, "array": Stats(array.registers, array.loads, array.bytes, 0)}
wrong = " ".join(mistakes({"chain": chain, "array": array}, page))
assert "chain: loads 1, the page says 8" in wrong and "array: local accesses" in wrong, wrong
