#!/usr/bin/env python3
"""Checks that pages and comments name only what exists.

A name with an underscore in a code span of a page, such as `sparse_union`, must occur in a source
file or in a path. A program bench_NAME, named in any file, must have tests/bench/NAME. Exempt are
names of other projects (FOREIGN), and CONTRIBUTING.md, which lists words not to use.
"""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

sys.dont_write_bytecode = True
import source_tree  # noqa: E402

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FOREIGN = re.compile(r"MPI_|OMPI_|UCX_|btl_|mpi_pmix_|pmix_|osu_|your_|_")
BENCHMARK = re.compile(r"\bbench_([a-z0-9_]+)")
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PREFIX = re.compile(r"lib|test_")  # of a library's file, and of a test program


def main() -> int:
    root = source_tree.argument_parser(__doc__).parse_args().root
    texts: dict[str, str] = {}
    for path in source_tree.files(root):
        try:
            texts[path] = (root / path).read_text()
        except UnicodeDecodeError:
            pass  # an archive
    known = {name for path, text in texts.items() if not path.endswith((".md", ".svg"))
             for name in NAME.findall(text)}
    known |= {name.removesuffix("_test") for path in texts for name in NAME.findall(path)}
    benchmarks = {PurePath(path).parts[2].partition(".")[0] for path in texts
                  if path.startswith("tests/bench/")}
    wrong = [f"{path} names bench_{name}, but there is no tests/bench/{name}"
             for path, text in texts.items()
             for name in sorted(set(BENCHMARK.findall(text)) - benchmarks)]
    pages = [path for path in texts if path.endswith(".md") and path != "CONTRIBUTING.md"]
    checked = 0
    for page in pages:
        names = {name for span in SPAN.findall(FENCE.sub("", texts[page]))
                 for name in NAME.findall(span) if "_" in name and not FOREIGN.match(name)}
        checked += len(names)
        wrong += [f"{page} names {name}, which no source file contains" for name in sorted(names)
                  if name not in known and PREFIX.sub("", name, count=1) not in known]
    for line in wrong:
        print(line)
    if not pages:
        print(f"there is no page below {root}")
        return 1
    print(f"{len(pages)} pages, {checked} names, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
