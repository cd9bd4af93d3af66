#!/usr/bin/env python3
"""Checks the subjects of commits: `area: imperative ...`, at most 72 characters.

Checked are all commits since the one that added check_prose.py; older ones stay as they are. Merges
and reverts made by git are left alone. Without a git history the check is skipped.

As a hook that checks a message before it is committed:
    printf '#!/bin/sh\\npython3 cmake/check_commits.py --message "$1"\\n' > .git/hooks/commit-msg
    chmod +x .git/hooks/commit-msg
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import source_tree  # noqa: E402

MAX_CHARACTERS = 72
FIRST_FILE = "cmake/check_prose.py"  # the commit that added it is the first that is checked

# The area is one to three words.
SUBJECT = re.compile(r"[A-Za-z0-9_./+-]+(?: [A-Za-z0-9_./+-]+){0,2}: (\S+) \S.*")
WORD = re.compile(r"(?:re-|de-|un-|pre-)?[a-z]+")

# Verbs that end like another form of a verb.
VERBS = set("""
    bring cling fling ping ring sing sling spring sting string swing
    bed bleed breed embed exceed feed heed need proceed seed shed speed succeed weed
    alias bias canvas focus
""".split())

# First words that are no verbs. Nouns are those that subjects of this project have begun with.
NO_VERBS = set("""
    a an the this that these those such some any each every all both no none not never always only
    just what whatever where when whether which who whoever whose why how if while until unless
    because since in of by from on at to into onto over under with without within for as than
    through between behind beside beyond before after during along across among against about
    above below towards via upon and or but nor so then there here now today too also still again
    already soon i we you he she it they one two three four five six seven eight nine ten first
    second third half many much more most few fewer several less least other others another its
    their our your my his her is are was were be been being has had does did can could may might
    must will would shall should new old fast slow quick good bad better worse long short large
    small whole right wrong full real sparse dense exact simple hierarchical lossless recursive
    random golden silent virtual global nonblocking collective reproducible stable persistent
    device rank node codec vector value word byte bit header integer float double fingerprint
    status error example library data proof picture pipeline algorithm collection documentation
    doc typo bug sanitizer processor average tolerance owner membership reference table method
""".split())


def complaint(subject: str) -> str | None:
    """What is wrong with a subject, or None."""
    if subject.startswith('Revert "'):
        return None
    if len(subject) > MAX_CHARACTERS:
        return f"has {len(subject)} characters, at most {MAX_CHARACTERS} are allowed"
    form = SUBJECT.fullmatch(subject)
    if not form:
        return "has not the form 'area: imperative ...'"
    word = form[1].rstrip(",")
    if not WORD.fullmatch(word):
        return f"begins with '{word}' after the area, an imperative in small letters is expected"
    if word in VERBS:
        return None
    if word in NO_VERBS or re.search(r"(?:ing|ed|[^s]s)$", word):
        return f"begins with '{word}' after the area, an imperative such as 'add' is expected"
    return None


def commits(root: Path) -> list[tuple[str, str]]:
    """Short hashes and subjects. Skips the check where the history does not have them."""
    try:
        adding = source_tree.git(root, "log", "--diff-filter=A", "--format=%H", "--",
                                 FIRST_FILE).split()
        if not adding:
            source_tree.skip(f"no commit of the history adds {FIRST_FILE}")
        first = adding[-1]  # of several the oldest
        log = source_tree.git(root, "log", "--no-merges", "--format=%h %s", f"{first}..HEAD")
        boundary = Path(source_tree.git(root, "rev-parse", "--git-path", "shallow").strip())
        if not boundary.is_absolute():
            boundary = root / boundary
        # The oldest commit of a shallow clone seems to add all files.
        if not boundary.exists() or first not in boundary.read_text():
            log += source_tree.git(root, "log", "-1", "--format=%h %s", first)
        elif not log:
            source_tree.skip("this shallow clone has one commit; 'git fetch --unshallow' gets all")
    except RuntimeError as error:
        source_tree.skip(f"no git history: {error}")
    pairs = (line.partition(" ") for line in log.splitlines())
    return [(short, subject) for short, _, subject in pairs]


def main() -> int:
    parser = source_tree.argument_parser(__doc__)
    parser.add_argument("--message", type=Path, help="check the first line of this file alone")
    arguments = parser.parse_args()

    if arguments.message:
        lines = arguments.message.read_text(encoding="utf-8", errors="replace").splitlines()
        checked = [("the message", lines[0] if lines else "")]
    else:
        checked = commits(arguments.root)
    wrong = 0
    for commit, subject in checked:
        if why := complaint(subject):
            wrong += 1
            print(f"{commit}: '{subject}' {why}")
    print(f"{len(checked)} subjects, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
