#!/usr/bin/env python3
"""Checks that clang-format 14 would change no C++, C or CUDA file.

Skipped where clang-format 14 is not installed: other versions break lines elsewhere. To format:
    clang-format-14 -i <file>...
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
import source_tree  # noqa: E402

VERSION = 14
PROGRAMS = (f"clang-format-{VERSION}", "clang-format")
FORMATTED = re.compile(r"(?:include|plugins|kernels|tests|examples)/.*\.(?:hpp|cpp|h|c|cuh|cu)$")
PROCESSES = 2
FILES_AT_A_TIME = 50


def program() -> str | None:
    """The path of clang-format of the right version."""
    for name in PROGRAMS:
        path = shutil.which(name)
        if path:
            said = subprocess.run([path, "--version"], capture_output=True, text=True,
                                  check=False).stdout
            if re.search(rf"version {VERSION}\.", said):
                return path
    return None


def main() -> int:
    parser = source_tree.argument_parser(__doc__)
    root = parser.parse_args().root
    clang_format = program()
    if clang_format is None:
        source_tree.skip(f"clang-format {VERSION} was not found")
    if not (root / ".clang-format").exists():
        print(f"there is no .clang-format below {root}")
        return 1
    paths = [path for path in source_tree.files(root) if FORMATTED.match(path)]

    def check(some: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([clang_format, "--dry-run", "--Werror", "--style=file", *some],
                              cwd=root, capture_output=True, text=True, check=False)

    parts = [paths[i:i + FILES_AT_A_TIME] for i in range(0, len(paths), FILES_AT_A_TIME)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = list(pool.map(check, parts))
    wrong: set[str] = set()
    failed = False
    for result in results:
        failed = failed or result.returncode != 0
        sys.stdout.write(result.stderr)
        wrong.update(re.findall(r"^([^:\n]+):\d+:\d+: error:", result.stderr, re.MULTILINE))
    if wrong:
        print("format them: clang-format-14 -i " + " ".join(sorted(wrong)))
    print(f"{len(paths)} files, {len(wrong)} to format")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
