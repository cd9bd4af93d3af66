"""The files of a source tree and its git history, for the checks check_*.py."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # exit status of a check that cannot run here


def argument_parser(description: str) -> argparse.ArgumentParser:
    """A parser with --root, the source tree: by default that of the script."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="source tree")
    return parser


def skip(why: str) -> None:
    """Ends the program as a skipped test."""
    print(f"Skipped: {why}")
    sys.exit(SKIPPED)


def git(root: Path, *arguments: str) -> str:
    """The output of a git command. Raises RuntimeError with git's own message.

    Only a repository whose top folder is `root` counts. An unpacked archive inside another
    repository has no history.
    """
    if not (root / ".git").exists():
        raise RuntimeError(f"{root} is not the top folder of a git repository")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], env=environment, text=True,
                              errors="replace", capture_output=True, check=False)
    except FileNotFoundError:
        raise RuntimeError("git was not found") from None
    if done.returncode != 0:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def files(root: Path) -> list[str]:
    """Sorted paths below `root` that git does not ignore; without git all outside build folders."""
    try:
        listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        found = {path for path in listed.split("\0") if path and (root / path).is_file()}
    except RuntimeError:
        found = set()
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders
                          if not re.match(r"(\.git|results|__pycache__|build.*)$", f)]
            found.update(os.path.relpath(os.path.join(folder, name), root) for name in names)
    return sorted(found)
