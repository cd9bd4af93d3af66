"""Checks the counts of sass.py for machine code written by hand."""

from __future__ import annotations

import unittest

from sass import Stats, functor, loaded_bytes, measure, mistakes, named, parse, ptx_of, read_table, registers, table

LANE = "S2R R0, SR_TID.X"
ADDRESS = "IMAD.WIDE R2, R0, 0x4, R2"


def sass(*lines: str) -> list[str]:
    """Returns a kernel called k; lines that begin with a dot are labels."""
    return [".text.k:"] + [line if line.startswith(".") else f"        /*0000*/    {line} ;" for line in lines]


def stats(*lines: str) -> Stats:
    return measure(sass(LANE, ADDRESS, *lines))["k"]


def loads(*lines: str) -> tuple[int, int]:
    found = stats(*lines)
    return found.loads, found.bytes


FOUR = [f"LDG.E R{4 + i}, desc[UR4][R2.64+{4 * i:#x}]" for i in range(4)]
NEEDS_FIRST = "IADD3 R8, R4, 0x1, RZ"


class Loads(unittest.TestCase):
    def test_four_before_the_first_is_needed(self) -> None:
        self.assertEqual(loads(*FOUR, NEEDS_FIRST), (4, 16))

    def test_a_late_load_does_not_count(self) -> None:
        self.assertEqual(loads(*FOUR[:3], NEEDS_FIRST, FOUR[3], "FADD R9, R7, R8"), (3, 12))

    def test_each_load_that_waits_for_the_one_before_is_alone(self) -> None:
        chain = [line for i in range(4) for line in ("LDG.E.64 R2, desc[UR4][R2.64]", NEEDS_FIRST)]
        self.assertEqual(loads(*chain), (1, 8))

    def test_a_register_that_is_written_anew_is_waited_for(self) -> None:
        self.assertEqual(loads(FOUR[0], "MOV R4, RZ", FOUR[1], "EXIT"), (1, 4))

    def test_all_registers_of_a_wide_load_are_waited_for(self) -> None:
        wide = "LDG.E.128 R4, desc[UR4][R2.64]"
        self.assertEqual(loads(wide, "FADD R9, R7, R8", FOUR[0], "EXIT"), (1, 16))
        self.assertEqual(loads(wide, "DADD R10, R6, R12", "LDG.E R14, desc[UR4][R2.64]", "EXIT"), (1, 16))

    def test_a_wide_operand_needs_its_second_register(self) -> None:
        self.assertEqual(loads(FOUR[1], "IMAD.WIDE R10, R0, 0x4, R4", FOUR[2], "EXIT"), (1, 4))
        self.assertEqual(loads(FOUR[1], "STG.E.64 desc[UR4][R2.64], R4", FOUR[2], "EXIT"), (1, 4))
        self.assertEqual(loads(FOUR[1], "LDS R10, [R4.64]", FOUR[2], "EXIT"), (1, 4))

    def test_a_predicate_does_not_hide_a_load_or_a_need(self) -> None:
        self.assertEqual(loads("@!P0 " + FOUR[0], "@P1 " + FOUR[1], "@P0 FADD R9, R4, R9", FOUR[2]), (2, 8))
        self.assertEqual(loads(FOUR[0], "ISETP.GT.AND P0, PT, R4, RZ, PT", FOUR[1], "EXIT"), (1, 4))

    def test_a_load_of_one_address_for_all_lanes_does_not_count(self) -> None:
        header = [f"LDG.E R{20 + i}, desc[UR4][R30.64+{4 * i:#x}]" for i in range(8)]
        self.assertEqual(loads("LDC.64 R30, c[0x0][0x210]", *header, "FADD R9, R20, R21"), (0, 0))

    def test_an_address_that_no_longer_depends_on_the_lane(self) -> None:
        self.assertEqual(loads("LDC.64 R2, c[0x0][0x210]", *FOUR, NEEDS_FIRST), (0, 0))
        self.assertEqual(loads("@P0 LDC.64 R2, c[0x0][0x210]", *FOUR, NEEDS_FIRST), (4, 16))

    def test_an_address_that_was_chosen_by_the_lane(self) -> None:
        chosen = ["ISETP.GT.AND P0, PT, R0, RZ, PT", "SEL R30, R40, R41, P0", "LDG.E R20, desc[UR4][R30.64]", "EXIT"]
        self.assertEqual(loads(*chosen), (1, 4))

    def test_both_sides_of_a_branch_are_not_added(self) -> None:
        self.assertEqual(loads(*FOUR[:2], "BRA `(.L_x_2)", *FOUR[2:], "EXIT"), (2, 8))
        self.assertEqual(loads(*FOUR[:1], ".L_x_1:", *FOUR[1:], "EXIT"), (3, 12))
        self.assertEqual(loads(*FOUR[:2], "@P0 BRA `(.L_x_2)", *FOUR[2:], "EXIT"), (4, 16))

    def test_the_piece_with_most_bytes_is_taken(self) -> None:
        wide = [f"LDG.E.128 R{20 + 4 * i}, desc[UR4][R2.64]" for i in range(2)]
        self.assertEqual(loads(*FOUR, NEEDS_FIRST, *wide, "EXIT"), (2, 32))

    def test_sizes(self) -> None:
        sizes = {"LDG.E": 4, "LDG.E.U8": 1, "LDG.E.S16": 2, "LDG.E.64.CONSTANT": 8, "LDG.E.128": 16}
        self.assertEqual({name: loaded_bytes(name) for name in sizes}, sizes)


class Local(unittest.TestCase):
    def test_a_spill_is_found(self) -> None:
        self.assertEqual(stats("STL.64 [R1+0x8], R4", "@P0 LDL.LU R4, [R1+0x8]", "STS [R9], R4").local, 2)

    def test_no_spill_no_accesses(self) -> None:
        self.assertEqual(stats(*FOUR, NEEDS_FIRST).local, 0)


class Page(unittest.TestCase):
    good = Stats(40, 4, 16, 0)

    def wrong(self, now: Stats) -> list[str]:
        return list(mistakes({"sign encode": now}, {"sign encode": self.good}))

    def test_as_it_stands(self) -> None:
        self.assertEqual(self.wrong(Stats(40, 4, 16, 0)), [])
        self.assertEqual(self.wrong(Stats(37, 4, 16, 0)), [])

    def test_each_figure_that_is_worse(self) -> None:
        for now in (Stats(41, 4, 16, 0), Stats(40, 3, 16, 0), Stats(40, 4, 8, 0), Stats(40, 4, 16, 1)):
            self.assertEqual(len(self.wrong(now)), 1, now)
            self.assertNotIn("out of date", self.wrong(now)[0])

    def test_what_is_better_is_out_of_date(self) -> None:
        self.assertIn("out of date", self.wrong(Stats(32, 4, 16, 0))[0])
        self.assertIn("out of date", self.wrong(Stats(40, 4, 32, 0))[0])

    def test_other_rows(self) -> None:
        spills, other = Stats(40, 1, 4, 2), Stats(40, 1, 4, 0)
        self.assertEqual(list(mistakes({"a_functor": other}, {})), [])
        self.assertEqual(list(mistakes({"a_functor": spills}, {})), ["a_functor: not on the page, 2 local accesses"])
        self.assertEqual(len(list(mistakes({}, {"sign encode": self.good}))), 1)

    def test_a_table_is_read_as_it_was_written(self) -> None:
        found = {"sign encode": self.good, "sign decode": Stats(32, 1, 4, 0), "a_functor<int>": Stats(8, 0, 0, 3)}
        page = "\n".join(["Text", "", *table(found), "", "| other | table |"])
        self.assertEqual(read_table(page), found)
        self.assertIn("| sign decode | 32 | 1 | 4 | 0 | fewer than 4 loads and 16 bytes |", page)
        with self.assertRaises(ValueError):
            read_table("no table")


class Names(unittest.TestCase):
    def test_work_has_the_page_s_name_and_others_their_functor(self) -> None:
        merge = "void hcomp::gpu::run_blocks<hcomp::merge_blocks<hcomp::sign<float> > >(unsigned long, hcomp::x)"
        other = "void hcomp::gpu::run_blocks<hcomp::detail::mark_runs>(unsigned long, hcomp::detail::mark_runs)"
        self.assertEqual(functor(other), "mark_runs")
        found = named({"a": Stats(), "b": Stats()}, {"a": merge, "b": other})
        self.assertEqual(list(found), ["sign merge", "mark_runs"])

    def test_registers_of_each_kernel(self) -> None:
        said = "Compiling entry function 'a' for 'sm_90'\n x\nUsed 40 registers, used 1 barriers\n"
        self.assertEqual(registers(said + said.replace("'a'", "'b'").replace("40", "8")), {"a": 40, "b": 8})

    def test_ptx_in_a_program(self) -> None:
        self.assertEqual(ptx_of(b"\x7fELF\0.version 9.0\n.target sm_90\0rest"), b".version 9.0\n.target sm_90")
        with self.assertRaises(ValueError):
            ptx_of(b"\x7fELF")

    def test_lines_without_instructions(self) -> None:
        self.assertIsNone(parse("        .align 4"))
        self.assertIsNone(parse("        /* 0x00000a00ff017b82 */"))


if __name__ == "__main__":
    unittest.main()
