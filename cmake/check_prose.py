#!/usr/bin/env python3
"""Counts habits of bad prose, per folder: the counts may only fall.

Prose is: Markdown pages outside code blocks; comments of C, C++, CUDA, Fortran, Python, CMake and
shell files; Python docstrings. Three things are counted: the habits of HABITS below, comment lines
over 100 columns, and paragraphs over 80 words. tests/architecture/prose_counts.txt has the allowed
counts. A higher count is an error. A lower one is an error, too, until --update stores it.

Rows are folders: two levels, and three in include/hcomp, kernels/hcomp and plugins/hcomp. README.md
has a row of its own. Public docstrings share a row: `///` in headers of include, kernels and
plugins/hcomp outside detail folders. Once a count of these two rows is 0, it stays 0.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, NamedTuple

sys.dont_write_bytecode = True
import source_tree  # noqa: E402

COUNTS = "tests/architecture/prose_counts.txt"
COMMAND = "python3 cmake/check_prose.py"
MAX_COLUMNS = 100
MAX_WORDS = 80
README = "README.md"
DOCSTRINGS = "public docstrings"
KINDS = ("habits", "long lines", "long paragraphs")
MAX_SHOWN = 20  # findings of one row in an error

# Words before "sums" that make it a noun. Without one of these, "sums" may be the verb.
BEFORE_NOUN = (
    r"the|of|all|these|those|such|many|several|few|fewer|more|most|both|two|three|four|\d+|some|"
    r"between|among|in|for|by|with|from|to|on|over|after|before|than|beside|behind|started|running|"
    r"sparse|dense|hierarchical|elastic|nonblocking|first|later|earlier|next|last|long|longer|"
    r"short|shorter|small|large|other|further|single|compressed|mpi's"
)
# Words after "sums" at the start of a sentence that make it a noun. "Sums `x`" has the verb.
AFTER_NOUN = (
    r"of|are|that|which|by|in|over|on|with|without|under|and|or|take|go|begin|start|run|may|can|"
    r"need|have|whose|from|between|do|will|wait|use"
)

# (name, regex). Letters of both cases match. Code spans are removed first: there it is a name.
HABITS = [(name, re.compile(regex, re.IGNORECASE)) for name, regex in (
    # The pronoun: name the caller, rank or user.
    ("whoever", r"\bwhoever\b"),
    # A pronoun whose noun is elsewhere: "other ranks", "other codecs".
    ("others", r"\bothers\b"),
    # Names the property by its owner. Only "has" or "have" in the clause of "such as" count.
    ("such as ... has", r"\bsuch as\b[^.;:,()]{1,60}?\b(?:has|have)\b"),
    # A relative clause on "of": start a new sentence.
    ("of which", r"\bof which\b"),
    # For n or "this number of".
    ("so many", r"\bso many\b"),
    # For "with" or "through".
    ("by way of", r"\bby way of\b"),
    # For "follows", "uses", "is chosen by".
    ("goes by", r"\b(?:go|goes|going|went) by\b"),
    # For "serves", "exists for".
    ("is there for", r"\b(?:is|are|was|were) there for\b"),
    # For "the same number of". Ratios, "twice as many", are plain English.
    ("as many", r"(?<!times )(?<!twice )(?<!half )\bas many\b"),
    # For fast. "quick start" is a heading's usual name.
    ("quick", r"\bquick(?:er|est)?\b(?! start)"),
    # For results, complete vectors.
    ("whole sums", r"\bwhole sums?\b"),
    # For strategies, methods. "both ways" is a direction.
    ("ways", r"(?<!both )(?<![-\w])ways\b"),
    # For "seems", "reads", "checks". "looks up" is a search.
    ("looks", r"\blooks\b(?! up)"),
    # A clause for a noun: name the page, the message, the value. Questions do not count.
    ("what ... says/has", r"\bwhat [^.;:,()?]{2,50}? (?:says?|said|has)\b(?![^.]*\?)"),
    # The noun for all-reduces. Sums of values or squares, partial and prefix sums are arithmetic.
    ("sums", rf"(?:(?:^|(?<=[.:;(!?] ))sums(?= (?:{AFTER_NOUN})\b)|"
             rf"(?<![-\w])(?:{BEFORE_NOUN}) sums)\b"
             r"(?! (?:of )?(?:squares|products|values|floats|doubles|integers|bits|words|digits))"),
)]


class Finding(NamedTuple):
    kind: int  # index into KINDS
    path: str
    line: int
    last_line: int
    text: str


@dataclass
class Paragraph:
    """Text of lines that belong together. `starts` maps offsets of `text` to lines."""

    line: int
    counts_words: bool = True
    is_docstring: bool = False
    text: str = ""
    starts: list[tuple[int, int]] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        if self.text:
            self.text += " "
        self.starts.append((len(self.text), line))
        self.text += text

    def line_of(self, offset: int) -> int:
        return [line for start, line in self.starts if start <= offset][-1]


# ---- Lines to paragraphs -------------------------------------------------------------------------
FENCE = re.compile(r"\s*(?:```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+|"
                  r"\s*[@\\](?:param|tparam|returns?|throws?|note|file|brief|pre|post)\b")
NO_PROSE = re.compile(r"\s*(?:[-=_*#~/ +|:]*|clang-format (?:on|off)|NOLINT.*|SPDX-.*)$")


def paragraphs(lines: list[tuple[int, str]], is_docstring: bool = False) -> Iterator[Paragraph]:
    """Paragraphs of numbered lines of Markdown, or of what is written like it in comments.

    Items of lists, headings and rows of tables are paragraphs. In comments, a line that is indented
    by three more blanks than the first one begins another.
    """
    fenced = False
    current: Paragraph | None = None
    indent = 0
    for number, line in lines:
        if FENCE.match(line):
            fenced = not fenced
            line = ""
        if fenced or NO_PROSE.match(line):
            if current:
                yield current
            current = None
            continue
        own = len(line) - len(line.lstrip())
        is_row = line.lstrip().startswith("|")
        is_heading = bool(re.match(r"#+ ", line))
        if current and (is_row or is_heading or not current.counts_words or ITEM.match(line)
                        or own >= indent + 3):
            yield current
            current = None
        if current is None:
            current = Paragraph(number, not is_row, is_docstring)
            item = ITEM.match(line)
            indent = len(item[0]) if item else own
        current.add(number, re.sub(r"^[-*+>•#]+\s+", "", line.strip()))
        if is_heading:
            yield current
            current = None
    if current:
        yield current


def markdown(text: str) -> Iterator[Paragraph]:
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    return paragraphs(list(enumerate(text.split("\n"), 1)))


# ---- Comments ------------------------------------------------------------------------------------
class Comment(NamedTuple):
    """One line of a comment."""

    line: int
    column: int
    marker: str
    text: str  # behind the marker
    is_alone: bool  # no code in front


C_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|"""
    r"""\b\d[\w.']*|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
PYTHON_TOKENS = re.compile(
    r'''#[^\n]*|""".*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*\'''', re.DOTALL)
CMAKE_TOKENS = re.compile(
    r'#\[(=*)\[.*?\]\1\]|#[^\n]*|\[(=*)\[.*?\]\2\]|"(?:\\.|[^"\\])*"|\\.', re.DOTALL)
FORTRAN_TOKENS = re.compile(r"""![^\n]*|"[^"\n]*"|'[^'\n]*'""")
END_OF_BLOCK = re.compile(r"(?:\*/|\]=*\]|\"\"\"|''')$")
SHELL_COMMENT = re.compile(r"(?:^|(?<=[ \t;]))#(?!!)[^\n]*", re.MULTILINE)


def comments(text: str, tokens: re.Pattern[str], marker: re.Pattern[str]) -> Iterator[Comment]:
    """Lines of comments: tokens that begin with `marker`. Other tokens are strings and numbers."""
    at, line = 0, 1
    for token in tokens.finditer(text):
        begins = marker.match(token[0])
        if not begins:
            continue
        line += text.count("\n", at, token.start())
        at = token.start()
        start = text.rfind("\n", 0, at) + 1
        before = text[start:at]
        if tokens is SHELL_COMMENT and (before.count('"') % 2 or before.count("'") % 2):
            continue
        is_alone = not before.strip()
        if begins[0] in ('"""', "'''") and not is_alone:
            continue  # a string, not a docstring
        if begins[0].startswith(("//", "!")) or token[0].count("\n") == 0:
            body = END_OF_BLOCK.sub("", token[0][begins.end():])
            yield Comment(line, at - start, begins[0], body, is_alone)
            continue
        # Blocks: /* */, #[[ ]] and docstrings, with or without a * at every line.
        body = END_OF_BLOCK.sub("", token[0][begins.end():])
        for i, part in enumerate(body.split("\n")):
            inner = re.sub(r"^\s*\*(?: |$)", "", part) if i and begins[0][0] == "/" else part
            if i and inner is part:
                inner = part[min(at - start, len(part) - len(part.lstrip())):]
            yield Comment(line + i, at - start, begins[0], inner, is_alone)


def comment_paragraphs(found: list[Comment], docstring: str | None) -> Iterator[Paragraph]:
    """Comments that follow each other with the same marker in the same column are one text."""
    i = 0
    while i < len(found):
        first = found[i]
        end = i + 1
        while (end < len(found) and found[end].is_alone
               and found[end].line == found[end - 1].line + 1
               and (found[end].marker, found[end].column) == (first.marker, first.column)):
            end += 1
        lines = [(c.line, c.text) for c in found[i:end]]
        yield from paragraphs(lines, docstring is not None and first.marker.startswith(docstring))
        i = end


LANGUAGES = (
    # (names of files, tokens, what a comment begins with)
    (re.compile(r"\.(?:hpp|cpp|cu|cuh|c|h)$"), C_TOKENS, re.compile(r"//[/!]?<?|/\*[*!]?<?")),
    (re.compile(r"\.py$"), PYTHON_TOKENS, re.compile(r"#|\"\"\"|'''")),
    (re.compile(r"(?:\.cmake|CMakeLists\.txt)$"), CMAKE_TOKENS, re.compile(r"#(?:\[=*\[)?")),
    (re.compile(r"\.(?:f90|inc)$"), FORTRAN_TOKENS, re.compile(r"![><]?")),
    (re.compile(r"(?:\.sh|^\.ci/run)$"), SHELL_COMMENT, re.compile(r"#")),
)
HEADER_WITH_DOCSTRINGS = re.compile(
    r"(?:include|kernels|plugins/hcomp)/(?!.*\bdetail/).*\.(?:hpp|h|cuh)$")


def row_of(path: str, is_docstring: bool) -> str:
    if is_docstring:
        return DOCSTRINGS
    if path == README:
        return README
    folders = path.split("/")[:-1]
    levels = 3 if folders[1:2] == ["hcomp"] else 2
    return "/".join(folders[:levels]) or "."


# ---- Findings ------------------------------------------------------------------------------------
CODE = re.compile(r"(`+).+?\1")
LINK = re.compile(r"\]\([^)\s]*\)")


def sentence(text: str, start: int, end: int) -> str:
    first = max(text.rfind(before, 0, start) for before in (". ", ": ", "| "))
    last = re.compile(r"\.(?: |$)|\|").search(text, end)
    found = text[first + 2 if first >= 0 else 0:last.end() if last else len(text)].strip(" |")
    return found if len(found) < 240 else found[:240] + " ..."


def findings_of(paragraph: Paragraph, path: str) -> Iterator[Finding]:
    # Code spans and addresses keep their length, so that offsets still say which line.
    text = CODE.sub(lambda m: "`" + "_" * (len(m[0]) - 2) + "`", paragraph.text)
    text = LINK.sub(lambda m: "]" + " " * (len(m[0]) - 1), text)
    for name, regex in HABITS:
        for match in regex.finditer(text):
            first, end = match.span()
            yield Finding(0, path, paragraph.line_of(first), paragraph.line_of(end - 1),
                          f"'{name}' in: {sentence(paragraph.text, first, end)}")
    if paragraph.counts_words:
        words = sum(1 for word in text.split() if re.search(r"\w", word))
        if words > MAX_WORDS:
            yield Finding(2, path, paragraph.line, paragraph.starts[-1][1],
                          f"a paragraph of {words} words, at most {MAX_WORDS} are allowed: "
                          f"{sentence(paragraph.text, 0, 0)}")


def findings(root: Path) -> dict[str, list[Finding]]:
    """All findings by row. Every folder with prose has a row."""
    rows: dict[str, list[Finding]] = {}
    for path in source_tree.files(root):
        found: list[Paragraph]
        if path.endswith(".md"):
            found = list(markdown((root / path).read_text(encoding="utf-8", errors="replace")))
        else:
            language = next((la for la in LANGUAGES if la[0].search(path)), None)
            if language is None:
                continue
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            docstring = "///" if HEADER_WITH_DOCSTRINGS.match(path) else None
            lines = text.split("\n")
            of_file = list(comments(text, *language[1:]))
            for comment in of_file:
                columns = len(lines[comment.line - 1])
                # A line that is one word, an address, cannot be broken.
                if columns > MAX_COLUMNS and " " in comment.text.strip():
                    is_docstring = docstring is not None and comment.marker.startswith(docstring)
                    rows.setdefault(row_of(path, is_docstring), []).append(Finding(
                        1, path, comment.line, comment.line,
                        f"a comment ends in column {columns}, at most {MAX_COLUMNS} are allowed"))
            found = list(comment_paragraphs(of_file, docstring))
        for paragraph in found:
            row = row_of(path, paragraph.is_docstring)
            rows.setdefault(row, []).extend(findings_of(paragraph, path))
    return rows


# ---- The stored counts ---------------------------------------------------------------------------
Counts = dict[str, tuple[int, int, int]]


def counts_of(found: dict[str, list[Finding]]) -> Counts:
    counts: Counts = {}
    for row, of_row in sorted(found.items()):
        habits, lines, long_ones = (sum(f.kind == kind for f in of_row) for kind in range(3))
        counts[row] = (habits, lines, long_ones)
    return counts


def read_counts(root: Path) -> Counts | None:
    if not (root / COUNTS).exists():
        return None
    counts: Counts = {}
    for number, line in enumerate((root / COUNTS).read_text().splitlines(), 1):
        if line.startswith("#") or not line:
            continue
        match = re.fullmatch(r"(.+?) +(\d+) +(\d+) +(\d+)", line)
        if not match:
            sys.exit(f"{COUNTS}:{number}: a row is a folder and three counts, not: {line}")
        counts[match[1]] = (int(match[2]), int(match[3]), int(match[4]))
    return counts


def write_counts(root: Path, counts: Counts) -> None:
    width = max(map(len, counts), default=0)
    lines = [f"# Allowed counts of check_prose. After an improvement: {COMMAND} --update",
             f"# {'folder':{width - 2}} {'habits':>6} {'lines':>6} {'paragraphs':>10}"]
    lines += [f"{row:{width}} {c[0]:6} {c[1]:6} {c[2]:10}" for row, c in sorted(counts.items())]
    (root / COUNTS).parent.mkdir(parents=True, exist_ok=True)
    (root / COUNTS).write_text("\n".join(lines) + "\n")


# ---- What is new ---------------------------------------------------------------------------------
def changed_lines(root: Path) -> dict[str, list[tuple[int, int]]] | None:
    """Ranges of lines changed since the counts were stored, by path. None without a history."""
    try:
        base = source_tree.git(root, "log", "-1", "--format=%H", "--", COUNTS).strip()
        if not base:
            return None
        diff = source_tree.git(root, "diff", "-U0", "--no-color", "--no-ext-diff", base)
        new = source_tree.git(root, "ls-files", "-z", "--others", "--exclude-standard")
    except RuntimeError:
        return None
    changed = {path: [(1, 1 << 30)] for path in new.split("\0")}
    path = ""
    for line in diff.split("\n"):
        if line.startswith("+++ b/"):
            path = line[6:].strip()
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            changed.setdefault(path, []).append((first, first + int(hunk[2] or 1) - 1))
    return changed


def show(found: list[Finding], changed: dict[str, list[tuple[int, int]]] | None) -> str:
    """Findings on changed lines; all of them where that leaves none."""
    def is_new(f: Finding) -> bool:
        ranges = (changed or {}).get(f.path, [])
        return any(f.line <= last and first <= f.last_line for first, last in ranges)

    new = [f for f in found if is_new(f)]
    shown = new or found
    text = "" if new else "  the history does not show which are new; all of them:\n"
    text += "".join(f"  {f.path}:{f.line}: {f.text}\n" for f in shown[:MAX_SHOWN])
    if len(shown) > MAX_SHOWN:
        text += f"  and {len(shown) - MAX_SHOWN} more\n"
    return text


def check(root: Path, found: dict[str, list[Finding]], stored: Counts) -> int:
    failed = False
    changed = None
    now = counts_of(found)
    for row in sorted(now.keys() | stored.keys()):
        if row not in stored:
            print(f"{row}: not in {COUNTS}; store the new folder's counts: {COMMAND} --update")
            failed = True
            continue
        for kind, name in enumerate(KINDS):
            is_now, allowed = now.get(row, (0, 0, 0))[kind], stored[row][kind]
            if is_now > allowed:
                failed = True
                changed = changed or changed_lines(root)
                print(f"{row}: {is_now} {name}, {allowed} are allowed")
                print(show([f for f in found[row] if f.kind == kind], changed), end="")
            elif is_now < allowed:
                failed = True
                print(f"{row}: {is_now} {name}, {allowed} are stored; "
                      f"lower the stored count: {COMMAND} --update")
        if row not in now:
            failed = True
            print(f"{row}: no prose there; remove the stored row: {COMMAND} --update")
    total = [sum(c[kind] for c in now.values()) for kind in range(3)]
    print(f"{len(now)} rows: " + ", ".join(f"{n} {name}" for n, name in zip(total, KINDS)))
    return 1 if failed else 0


def update(root: Path, now: Counts, stored: Counts | None, accepts_moves: bool) -> int:
    refused = False
    for row, counts in now.items():
        for kind, name in enumerate(KINDS):
            before = (stored or {}).get(row, counts)[kind]
            stays_zero = row in (README, DOCSTRINGS) and before == 0
            if counts[kind] > before and (stays_zero or not accepts_moves):
                refused = True
                print(f"{row}: {counts[kind]} {name}, {before} are stored; counts only fall")
    if refused:
        print(f"nothing was stored; {COMMAND} shows the places; "
              "--accept-moves is for text that has moved between folders")
        return 1
    write_counts(root, now)
    print(f"{len(now)} rows stored in {COUNTS}")
    return 0


def main() -> int:
    parser = source_tree.argument_parser(__doc__)
    parser.add_argument("--update", action="store_true",
                        help="store counts that have fallen, and new folders")
    parser.add_argument("--accept-moves", action="store_true",
                        help="with --update: store higher counts, too, after text has moved")
    parser.add_argument("--list", metavar="PATH",
                        help="print all findings of a file, folder or row")
    arguments = parser.parse_args()
    root = arguments.root
    if arguments.accept_moves and not arguments.update:
        parser.error("--accept-moves is an option of --update")

    found = findings(root)
    if arguments.list:
        path = arguments.list.rstrip("/")
        for row, of_row in sorted(found.items()):
            for f in sorted(of_row, key=lambda f: (f.path, f.line)):
                if path in (row, f.path, ".") or f.path.startswith(path + "/"):
                    print(f"{f.path}:{f.line}: {f.text}")
        return 0
    stored = read_counts(root)
    if arguments.update:
        return update(root, counts_of(found), stored, arguments.accept_moves)
    if stored is None:
        print(f"there is no {COUNTS} below {root}; make it: {COMMAND} --update")
        return 1
    return check(root, found, stored)


if __name__ == "__main__":
    sys.exit(main())
