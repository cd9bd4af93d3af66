"""hcomp.ElasticGroup: processes that are killed, and processes that join."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from ranks import Ranks, wait_until

import hcomp

values = 3000


def train(number, directory, until):
    """Makes steps until `until` ranks, one of them new, have made twenty steps together."""
    is_new = number == 3
    if is_new:
        group = hcomp.ElasticGroup.join(directory)
    else:
        group = hcomp.ElasticGroup(directory, number, 3)
    parameters = np.zeros((values, 2))
    step, stop = np.zeros(1, np.int64), np.full(1, 100_000)
    seen, weights = [], []
    with group, hcomp.Plan(group, values, np.float32, "thc bits=4") as mean:
        with hcomp.Plan(group, 1, np.float64, "identity") as exact:
            if is_new:
                group.share(parameters, step, stop)
                assert group.lost == () and group.name > 1000 and group.members[-1] == group.name
            else:
                assert (group.rank, group.size, group.name) == (number, 3, number)
            while step < stop:
                gradient = np.random.default_rng([number, int(step)]).normal(size=values)
                gradient = gradient.astype(np.float32)
                report = mean.all_reduce(gradient, mean=True)
                parameters[:, 0] += gradient
                one = np.full(1, 10.0**number)
                weights.append(exact.all_reduce(one).weight)
                parameters[:, 1] += one
                seen.append((int(step), report.weight, one[0]))
                if report.weight == 2:
                    Path(directory, "two").touch()
                step += 1
                if step == 5:
                    Path(directory, "five").touch()
                time.sleep(0.001)
                if step % 5 == 0 and group.admit():
                    if group.size == until:
                        stop[:] = step + 20
                    group.share(parameters, step, stop)
            assert not group.admit(), "nobody else has come"
        assert group.size == until and group.generation >= 2
        lost = group.lost
        assert "of 3, called" in repr(group), group
    assert repr(group) == "hcomp.ElasticGroup(closed)"
    return parameters.tobytes(), int(step), seen, lost


def test_one_is_killed_and_a_newcomer_comes():
    with Ranks(train, 3) as ranks:
        results = ranks.results_where_one_is_replaced()
    bits, steps, seen, lost = results[0]
    assert lost == (1,) and results[2][3] == (1,) and results[3][3] == ()
    for number in (2, 3):
        assert results[number][0] == bits, f"process {number} has other parameters than process 0"
        assert results[number][1] == steps
    assert results[2][2] == seen and results[3][2] == seen[-len(results[3][2]) :]
    sums = [one for _, _, one in seen]
    assert sums[0] == 111 and 101 in sums and sums[-1] == 1101, (sums[0], sums[-1])
    assert sorted(sums, key=[111, 101, 1101].index) == sums, "nobody comes back"
    assert seen[-1][1] == 3 and 2 in [weight for _, weight, _ in seen]


def with_bytes(number, directory):
    with hcomp.ElasticGroup(directory, number, 3) as group:
        if number != 1:
            group.forget()
        state = group.share_bytes(b"of rank 1" if number == 1 else None)
        again = group.share_bytes(b"x" * (number + 1) if number == 0 else b"x")
        return state, again


def test_a_state_of_a_size_that_others_do_not_know():
    with Ranks(with_bytes) as ranks:
        ranks.start(0, 1, 2)
        for state, again in ranks.results(3).values():
            assert state == b"of rank 1" and again == b"x"


def wrong(number, directory):
    said = []
    x = np.ones(10, np.float32)
    with hcomp.ElasticGroup(directory, number, 3) as group:
        it = number == 1
        total = hcomp.Plan(group, 10, np.float32, "identity")
        for call in (
            lambda: group.share(x[: 5 if it else 10]),
            lambda: group.share(x[::2] if it else x),
            lambda: group.share(np.array([None]) if it else x),
            lambda: total.all_reduce(x[::2] if it else x),
            lambda: hcomp.Plan(group, 10, np.float32, "fp16" if it else "bf16").all_reduce(x),
            lambda: hcomp.Plan(group, 10, np.float32, "fp16 algorithm=hierarchical"),
            lambda: total.reduce_scatter(x),
            lambda: total.shard,
            lambda: total.set_draws(0, 0),
        ):
            try:
                call()
                said.append((0, "no error", None))
            except hcomp.HcompError as error:
                said.append((error.code, str(error), error.rank))
        total.all_reduce(x)
        assert (x == 3).all(), x
    return said


def test_what_is_wrong_on_one_rank_fails_on_all_and_loses_nothing():
    with Ranks(wrong) as ranks:
        ranks.start(0, 1, 2)
        for number, said in ranks.results(3).items():
            for (code, text, rank), (of_one, of_others) in zip(
                said,
                [
                    ("rank 0 has 40 bytes of state, rank 1 20",) * 2,
                    ("no C-contiguous", "rank 0 has 40 bytes of state, rank 1 0"),
                    ("has no bytes of its own", "rank 0 has 40 bytes of state, rank 1 0"),
                    ("not C-contiguous", "rank 1"),
                    ("rank 1",) * 2,
                    ("hierarchical is not for",) * 2,
                    ("has no shards",) * 2,
                    ("has no shards",) * 2,
                    ("number of the group's call",) * 2,
                ],
            ):
                assert (of_one if number == 1 else of_others) in text, (number, text)
                assert code in (1, 2) and rank is None, (code, text, rank)


def late(number, directory):
    """Process 1 is left out, and joins again."""
    group = hcomp.ElasticGroup(directory, number, 3, timeout=2.0)
    x = np.ones(10, np.float32)
    said = rank = None
    total = hcomp.Plan(group, 10, np.float32, "identity")
    total.all_reduce(x)
    if number == 1:
        time.sleep(8)
    try:
        total.all_reduce(x)
    except hcomp.HcompError as error:
        assert error.code == hcomp.HcompError.TRANSPORT, error.code
        rank, said = error.rank, str(error)
        total.close()
        group.close()
        group = hcomp.ElasticGroup.join(directory, timeout=30)
        total = hcomp.Plan(group, 10, np.float32, "identity")
    else:
        assert (group.lost, group.members) == ((1,), (0, 2)), group
        while not group.admit():
            time.sleep(0.05)
    group.share(x)
    assert (x == 6).all() and group.members[:2] == (0, 2), (x, group.members)
    assert total.all_reduce(x).weight == 3 and (x == 18).all(), x
    total.close()
    group.close()
    return rank, said


def test_one_that_is_away_for_too_long_is_told_its_name_and_may_join_again():
    with Ranks(late) as ranks:
        ranks.start(0, 1, 2)
        results = ranks.results(3)
    assert results[0] == results[2] == (None, None), results
    rank, said = results[1]
    assert rank == 1 and "the others have gone on without rank 1" in said, said


def test_a_directory_of_an_earlier_run_and_a_job_that_is_over():
    def alone(number, directory):
        with hcomp.ElasticGroup(directory, 0, 1) as group:
            assert group.size == 1 and group.members == (0,) and not group.admit()
        said = []
        for enter in (
            lambda: hcomp.ElasticGroup(directory, 0, 1),
            lambda: hcomp.ElasticGroup.join(directory, timeout=0.2),
            lambda: hcomp.ElasticGroup("/proc/nowhere", 0, 1),
            lambda: group.size,
        ):
            try:
                enter()
                said.append("no error")
            except hcomp.HcompError as error:
                said.append(str(error))
        return said

    with Ranks(alone) as ranks:
        ranks.start(0)
        said = ranks.results(1)[0]
    for one, words in zip(said, ("who comes back joins", "nobody has admitted", "/proc", "closed")):
        assert words in one, said


def test_ctrl_c_ends_the_waiting_for_others():
    program = "import sys, hcomp; hcomp.ElasticGroup(sys.argv[1], 0, 2)"
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "run")
        one = subprocess.Popen(
            [sys.executable, "-c", program, str(place)], stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: place.exists() and any(place.iterdir()), "it waits for another one")
        one.send_signal(signal.SIGINT)
        said = one.communicate(timeout=15)[1]  # its timeout is 30 s
    assert "KeyboardInterrupt" in said and one.returncode != 0, said


def interrupted(number, directory):
    """Rank 0 calls late; on rank 1 a signal comes meanwhile. Then both call once more."""
    seconds = []
    group = hcomp.ElasticGroup(directory, number, 2)
    with group, hcomp.Plan(group, 10, np.float32, "identity") as plan:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        x = np.ones(10, np.float32)
        for call in (lambda: plan.all_reduce(x), group.admit, lambda: group.share(x.copy())):
            if number == 0:
                time.sleep(1)
                call()
                continue
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            begin = time.monotonic()
            try:
                call()
            except KeyboardInterrupt:
                seconds.append(time.monotonic() - begin)
            assert group.size == 2  # after the interrupted call
        assert (x == 2).all(), x
        plan.all_reduce(x)
        assert (x == 4).all(), x
        try:
            group.share(np.ma.masked_equal(x, 4))
        except hcomp.HcompError as error:
            return seconds, str(error)


def test_a_signal_interrupts_a_blocking_call():
    with Ranks(interrupted) as ranks:
        ranks.start(0, 1)
        results = ranks.results(2)
    seconds, words = results[1]
    assert len(seconds) == 3 and max(seconds) < 0.7, seconds
    assert "masked array" in words, words


def test_the_example_of_the_docstring():
    begin = hcomp.ElasticGroup.__doc__.index("import sys")
    lines = hcomp.ElasticGroup.__doc__[begin:].split("\n\n    A sum")[0].splitlines()
    program = "\n".join([lines[0], *(line[8:] for line in lines[1:])])
    assert "step < 2000" in program
    program = program.replace("step < 2000", "step < 300")
    with tempfile.TemporaryDirectory() as directory:

        def start(number):
            return subprocess.Popen(
                [sys.executable, "-c", program, f"{directory}/run", str(number)],
                stdout=subprocess.PIPE,
                text=True,
            )

        ranks = [start(number) for number in (0, 1, 2, 3, -1)]
        wait_until(Path(directory, "run", "generation0.members").exists, "all ranks are there")
        time.sleep(0.5)  # also connected
        ranks[2].kill()
        said = [one.communicate(timeout=60)[0] for one in ranks]
    words = re.compile(r"hcomp.ElasticGroup\(rank (.) of 4, called \d+\) lost \((.*)\) (\S+)\n")
    ranks, lost, sums = zip(*(words.fullmatch(said[number]).groups() for number in (0, 1, 3, 4)))
    assert ranks == ("0", "1", "2", "3") and lost[:3] == ("2,",) * 3 and len(set(sums)) == 1, said


if __name__ == "__main__":
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} tests of elastic groups, hcomp {hcomp.__version__}")
