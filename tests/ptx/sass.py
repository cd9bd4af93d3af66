"""Compares the machine code that ptxas generates for kernels with kernels/README.md.

    sass.py check <program> <page> <ptxas> <nvdisasm>   prints the table; fails if a kernel is worse
    sass.py write <program> <page> <ptxas> <nvdisasm>   writes the table to the page

Exit status 77: skipped, because the page is for another version of ptxas.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator

HEAD = "| kernel | registers | loads | bytes | local accesses | |"
RULE = "|---|---:|---:|---:|---:|---|"
ASKED_LOADS, ASKED_BYTES = 4, 16
ARCHITECTURE = "sm_90"


@dataclass
class Stats:
    """Counts of one kernel."""

    registers: int = 0
    # from global memory, at addresses that differ per lane, before the first use of one
    loads: int = 0
    bytes: int = 0  # total bytes of these loads per lane
    local: int = 0  # instructions that access the lane's local memory

    def reaches_what_is_asked(self) -> bool:
        """Returns true with 4 loads in flight, or with the bytes of 4 loads of a word."""
        return self.loads == 0 or self.loads >= ASKED_LOADS or self.bytes >= ASKED_BYTES


@dataclass
class Instruction:
    guard: str  # a predicate, or empty
    operation: str
    written: list[str]
    needed: list[str]


INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+\{?\s*(?:@!?(U?P\w+)\s+)?([A-Z]\w*(?:\.\w+)*)\s*(.*?)\s*;")
REGISTER = re.compile(r"(?<![\w.])(R|P)(\d+)(\.64)?")
WRITES_NOTHING = re.compile(r"(ST|STG|STS|STL|RED|REDG|BAR|BRA|RET|EXIT|CALL|R2P)\b")
LOCAL = re.compile(r"(LDL|STL)\b")
LOAD = re.compile(r"LDG\b")
LEAVES = re.compile(r"(BRA|BRX|JMP|JMX|RET|EXIT|BREAK|CALL)\b")


def width(operation: str, number: int) -> int:
    """Returns the minimum number of registers of operand `number`."""
    if ".128" in operation:
        return 4
    if ".WIDE" in operation:
        return 2 if number in (0, 3) else 1
    return 2 if ".64" in operation or operation.startswith(("DADD", "DMUL", "DFMA", "DSETP", "CS2R")) else 1


def parse(line: str) -> Instruction | None:
    """Returns None if the line has no instruction."""
    match = INSTRUCTION.match(line)
    if not match:
        return None
    guard, operation, rest = match[1] or "", match[2], match[3]
    written: list[str] = []
    needed: list[str] = [guard] if guard else []
    is_result = not WRITES_NOTHING.match(operation)
    number = 0  # index of the operand, without leading predicates
    for operand in re.split(r",\s*", rest):
        is_predicate = re.fullmatch(r"!?U?P[T\d]", operand) is not None
        names: list[str] = []
        for kind, first, is_pair in REGISTER.findall(operand):
            registers = 1 if kind == "P" else 2 if is_pair else 1 if "[" in operand else width(operation, number)
            names += [f"{kind}{int(first) + i}" for i in range(registers)]
        if is_result and is_predicate:
            written += names
        elif is_result and "SETP" not in operation and not operation.startswith(("FCHK", "PLOP3")):
            written += names
            is_result = False
        else:
            needed += names
            is_result = False
        number += not is_predicate
    if operation == "S2R" and re.search(r"SR_TID|SR_LANEID", rest):
        needed.append("lane")
    return Instruction(guard, operation, written, needed)


@dataclass
class Walk:
    """Counts over the instructions of one kernel, in program order.

    A load counts if its address depends on the lane: headers, which all lanes read at one address,
    do not count. A group of loads ends at the first use of one of them, and where control flow
    leaves or joins. Loads that never happen in one pass are therefore not added.
    """

    found: Stats = field(default_factory=Stats)
    of_lane: set[str] = field(default_factory=lambda: {"lane"})
    pending: set[str] = field(default_factory=set)
    loads: int = 0
    bytes: int = 0

    def interrupt(self) -> None:
        if (self.bytes, self.loads) > (self.found.bytes, self.found.loads):
            self.found.loads, self.found.bytes = self.loads, self.bytes
        self.pending, self.loads, self.bytes = set(), 0, 0

    def step(self, it: Instruction) -> None:
        if not self.pending.isdisjoint(it.needed) or not self.pending.isdisjoint(it.written):
            self.interrupt()
        depends = not self.of_lane.isdisjoint(it.needed)
        if LOAD.match(it.operation) and depends:
            self.pending.update(it.written)
            self.loads += 1
            self.bytes += loaded_bytes(it.operation)
        self.found.local += LOCAL.match(it.operation) is not None
        if depends:
            self.of_lane.update(it.written)
        elif not it.guard:
            self.of_lane.difference_update(it.written)
        if LEAVES.match(it.operation) and (not it.guard or it.operation.startswith("CALL")):
            self.interrupt()


def loaded_bytes(operation: str) -> int:
    parts = operation.split(".")
    sizes = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
    return next((sizes[part] for part in parts[1:] if part in sizes), 4)


def measure(sass: Iterable[str]) -> dict[str, Stats]:
    """Returns counts by the linker's names, without registers."""
    found: dict[str, Stats] = {}
    walk: Walk | None = None
    for line in sass:
        if line.startswith(".text."):
            walk = Walk()
            found[line.strip()[len(".text.") : -1]] = walk.found
        elif walk is None:
            continue
        elif line.startswith(".L_"):
            walk.interrupt()
        elif it := parse(line):
            walk.step(it)
    return found


def registers(said_by_ptxas: str) -> dict[str, int]:
    found = re.findall(r"Compiling entry function '(\S+)'.*?Used (\d+) registers", said_by_ptxas, re.DOTALL)
    return {name: int(count) for name, count in found}


CODERS = {
    "inceptionn::chunk_coder": "inceptionn",
    "error_bounded::chunk_coder": "error_bounded",
    "error_bounded::fallback_coder<float>": "error_bounded_fallback",
    "lossless::chunk_coder<float>": "lossless",
}
CODECS = {
    "float_cast<float, float>": "identity",
    "float_cast<float16, float>": "float_cast:fp16",
    "float_cast<bfloat16, float>": "float_cast:bf16",
    "sign<float>": "sign",
    "sign_count<float>": "sign_count",
    "thc<float>": "thc",
    "uniform_thc<float>": "uniform_thc",
    "reproducible<float>": "reproducible",
}
BLOCK_WORK = {
    "measure_blocks<{}, float const*>": "measure",
    "encode_with_feedback<{}, no_feedback<float>::kernel_view>": "encode",
    "encode_with_feedback<{}, error_feedback<float, gpu::device_array>::kernel_view>": "encode, error feedback",
    "inspect_blocks<may_overflow<{}>>": "inspect",
    "merge_blocks<{}>": "merge",
    "decode_with_feedback<{}, no_feedback<float>::kernel_view>": "decode",
    "decode_with_feedback<{}, global_compensation<float, gpu::device_array>::kernel_view>": "decode, global compensation",
    "narrow_alike<{}>": "narrow",
    "widen_alike<{}>": "widen",
}
CODE_WORK = {
    "encode_in_order<{}, false, false>": "encode",
    "encode_in_order<{}, true, true>": "merge",
    "encode_in_order<{}, false, true>": "decode, add, encode",
    "decode_chunks<{}>": "decode",
}
WORK = {
    work.format(of): f"{name} {what}"
    for names, works in ((CODECS, BLOCK_WORK), (CODERS, CODE_WORK))
    for of, name in names.items()
    for work, what in works.items()
}


def functor(demangled: str) -> str:
    """Returns the short type of the functor of `run_blocks`."""
    short = re.sub(r"\bhcomp::|\bdetail::", "", demangled).replace(" >", ">").replace(" >", ">")
    match = re.match(r"void gpu::run_blocks<(.*)>\(unsigned long, ", short)
    inside = match[1] if match else short
    match = re.fullmatch(r"shifted<(.*)>", inside)
    return match[1] if match else inside


def named(found: dict[str, Stats], demangled: dict[str, str]) -> dict[str, Stats]:
    """Returns counts by the names of kernels/README.md; other kernels by their functors."""
    short = {name: functor(demangled[name]) for name in found}
    return {WORK.get(short[name], short[name]): stats for name, stats in found.items()}


def is_on_page(name: str, stats: Stats) -> bool:
    return name in WORK.values() or stats.local > 0


def row(name: str, it: Stats) -> str:
    remark = "" if it.reaches_what_is_asked() else f" fewer than {ASKED_LOADS} loads and {ASKED_BYTES} bytes"
    text = name if name in WORK.values() else f"`{name}`"
    return f"| {text} | {it.registers} | {it.loads} | {it.bytes} | {it.local} |{remark} |"


def table(found: dict[str, Stats]) -> list[str]:
    others = sorted(name for name in found if name not in WORK.values())
    names = [name for name in (*WORK.values(), *others) if name in found and is_on_page(name, found[name])]
    return [HEAD, RULE] + [row(name, found[name]) for name in names]


def rows_of(page: str) -> list[str]:
    """Returns the lines of the table, with its head."""
    lines = page.splitlines()
    if HEAD not in lines:
        raise ValueError(f"the page has no table '{HEAD}'")
    first = end = lines.index(HEAD)
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return lines[first:end]


def read_table(page: str) -> dict[str, Stats]:
    found: dict[str, Stats] = {}
    for line in rows_of(page)[2:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        found[cells[0].strip("`")] = Stats(*(int(cell) for cell in cells[1:5]))
    return found


def mistakes(found: dict[str, Stats], said: dict[str, Stats]) -> Iterator[str]:
    """Returns errors: counts worse than the page's, and counts so much better that the page is out
    of date."""

    def eights(count: int) -> int:
        return (count + 7) // 8  # the unit in which registers are allocated

    for name, it in found.items():
        if name not in said:
            if is_on_page(name, it):
                yield f"{name}: not on the page, {it.local} local accesses"
            continue
        page = said[name]
        for what, is_now, was, is_worse, is_other in (
            ("registers", it.registers, page.registers, eights(it.registers) > eights(page.registers),
             eights(it.registers) < eights(page.registers)),
            ("loads", it.loads, page.loads, it.loads < page.loads and it.bytes <= page.bytes,
             it.loads != page.loads),
            ("bytes of loads", it.bytes, page.bytes, it.bytes < page.bytes, it.bytes != page.bytes),
            ("local accesses", it.local, page.local, it.local > page.local, it.local != page.local),
        ):  # fmt: skip
            if is_worse or is_other:
                yield f"{name}: {what} {is_now}, the page says {was}" + ("" if is_worse else ": it is out of date")
    for name in said.keys() - found.keys():
        yield f"{name}: on the page, and not compiled"


def ptx_of(program: bytes) -> bytes:
    """Returns the PTX that nvcc embedded, uncompressed."""
    begin = program.find(b".version ")
    if begin < 0:
        raise ValueError("the program has no PTX that is not compressed")
    return program[begin : program.index(b"\0", begin)]


def said_by(*command: str | Path, given: str | None = None) -> str:
    ran = subprocess.run([str(c) for c in command], input=given, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, universal_newlines=True)  # fmt: skip
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {ran.returncode}: {ran.stdout[-2000:]}")
    return ran.stdout


def compiled(program: Path, ptxas: Path, nvdisasm: Path) -> dict[str, Stats]:
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        ptx.write_bytes(ptx_of(program.read_bytes()))
        counts = registers(said_by(ptxas, "-v", f"-arch={ARCHITECTURE}", ptx, "-o", cubin))
        found = measure(said_by(nvdisasm, "-c", cubin).splitlines())
    for name, stats in found.items():
        stats.registers = counts[name]
    plain = said_by("c++filt", given="\n".join(found)).splitlines()
    return named(found, dict(zip(found, plain)))


def main(what: str, program: Path, page: Path, ptxas: Path, nvdisasm: Path) -> int:
    text = page.read_text(encoding="utf-8")
    match = re.search(r"ptxas (\d+\.\d+\.\d+)", text)
    version = re.search(r"V(\d+\.\d+\.\d+)", said_by(ptxas, "--version"))
    if not match or not version:
        raise ValueError("the page, or ptxas, does not say the version of ptxas")
    if match[1] != version[1] and what == "check":
        print(f"Skipped: the page is about ptxas {match[1]}, this is {version[1]}")
        return 77
    found = compiled(program, ptxas, nvdisasm)
    print("\n".join(table(found)))
    if what == "write":
        text = text.replace("\n".join(rows_of(text)), "\n".join(table(found)))
        page.write_text(text.replace(match[0], f"ptxas {version[1]}"), encoding="utf-8")
        return 0
    wrong = list(mistakes(found, read_table(text)))
    for mistake in wrong:
        print(f"WRONG: {mistake}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 6 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], *(Path(argument) for argument in sys.argv[2:])))
