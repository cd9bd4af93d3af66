"""hcomp.Group without MPI: ranks are plain processes that meet through a directory or a store."""

import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import hcomp

ranks = 3
values = 5000
processes = multiprocessing.get_context("fork")


def on_ranks(function, *arguments, size=ranks, survivors=None):
    """Returns a list of the results of function(rank, size, directory, ...) per rank, None for
    killed ranks."""
    answers = processes.Queue()

    def run(rank, directory):
        try:
            answers.put((rank, True, function(rank, size, directory, *arguments)))
        except BaseException as error:  # reported by the process that reads the answers
            answers.put((rank, False, f"{type(error).__name__}: {error}"))

    with tempfile.TemporaryDirectory() as directory:
        started = [processes.Process(target=run, args=(r, directory)) for r in range(size)]
        for one in started:
            one.start()
        results = [None] * size
        for _ in range(survivors or size):
            try:
                rank, fine, answer = answers.get(timeout=30)
            except queue.Empty:
                raise AssertionError(f"no answer within 30 s; there are {results}") from None
            assert fine, f"rank {rank}: {answer}"
            results[rank] = answer
        for one in started:
            one.join(30)
    return results


def drawn(rank, dtype=np.float32):
    return np.random.default_rng([7, rank]).uniform(-1, 1, values).astype(dtype)


def sums(rank, size, directory):
    made = {}
    with hcomp.Group.from_directory(directory, rank, size, timeout=10) as group:
        for dtype in (np.float32, np.float64):
            for codec in ("identity", "fp16", "thc bits=4", "error_bounded 1e-3"):
                with hcomp.Plan(group, values, dtype, codec) as total:
                    x = drawn(rank, dtype)
                    report = total.all_reduce(x)
                    assert report.weight == size and report.bytes_sent > 0
                    made[codec, np.dtype(dtype).name] = x
        with hcomp.Plan(group, values, np.float32, "identity") as total:
            x = np.arange(values, dtype=np.float32) * (rank + 1)
            total.reduce_scatter(x, mean=True)
            made["part"] = (total.shard.start, x[total.shard].copy())
    return made


def test_sums():
    results = on_ranks(sums)
    exact = sum(drawn(r).astype(float) for r in range(ranks))
    # Half a unit in the last place of values below 4, for each summand and for the sum. thc has no
    # bound for one value.
    bounds = {"identity": 4 * 2.4e-7, "fp16": 4 * 2**-10, "error_bounded 1e-3": 1e-3 + 2.4e-7}
    for key, found in results[0].items():
        if key == "part":
            continue
        for other in results[1:]:
            assert np.array_equal(found, other[key]), f"{key}: ranks have different bits"
        worst = np.abs(found - exact).max()
        assert worst <= bounds.get(key[0], np.inf), (key, worst)
        assert np.corrcoef(found, exact)[0, 1] > 0.9, key
    whole = np.concatenate([part for _, part in sorted((r["part"] for r in results), key=lambda p: p[0])])
    assert np.array_equal(whole, (np.arange(values) * ((ranks + 1) / 2)).astype(np.float32))


def integers(rank, size, directory):
    """Returns overflowing results, and the bytes sent, uncompressed and by a rule."""
    made = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=10) as group:
        for rules in (None, "int32: lossless_integers min=0; int64: lossless_integers min=0"):
            group.configure(rules)
            for dtype in (np.int32, np.int64):
                x = (np.arange(3 * values) % 100).astype(dtype)
                x[7] = np.iinfo(dtype).max - rank
                part = np.zeros(values, dtype)
                group.reduce_scatter_at(x.ctypes.data, part.ctypes.data, values, np.dtype(dtype).name)
                sent = group.all_reduce_at(x.ctypes.data, x.size, np.dtype(dtype).name).bytes_sent
                made.append((x, part, sent))
        try:
            group.all_reduce_at(x.ctypes.data, x.size, "int64", mean=True)
        except hcomp.HcompError as error:
            made.append(str(error))
    return made


def test_integers_wrap_around_and_are_compressed_by_rules_for_them():
    for rank, (*sums, said) in enumerate(on_ranks(integers)):
        assert "integers have no mean" in said, said
        for (x, part, _), (by_rule, part_by_rule, sent) in zip(sums[:2], sums[2:]):
            expected = (np.arange(3 * values) % 100 * ranks).astype(x.dtype)
            largest = np.iinfo(x.dtype).max - np.arange(ranks, dtype=x.dtype)
            expected[7] = largest.sum(dtype=x.dtype)
            mine = expected[rank * values : (rank + 1) * values]
            assert np.array_equal(x, expected) and np.array_equal(by_rule, expected)
            assert np.array_equal(part, mine) and np.array_equal(part_by_rule, mine)
            # a ring sends 4/3 of the vector, at most 9 bits per value
            assert 0 < sent < 3 * values * 4 / 3 * 10 / 8, sent


def loaded(rank, size, directory):
    with hcomp.Group.from_directory(directory, rank, size, timeout=10) as group:
        with hcomp.Plan(group, 10, np.float32, "identity") as total:
            total.all_reduce(np.ones(10, np.float32))
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if ".so" in line})


def test_no_mpi_is_loaded():
    for files in on_ranks(loaded):
        assert any("libhcomp_ucx.so" in file for file in files), files
        assert not any("libmpi" in file or "libmpich" in file for file in files), files
    assert "mpi4py" not in sys.modules


def with_a_dead_rank(rank, size, directory, timeout, is_exact):
    """is_exact: ranks wait for each other in shared memory"""
    with hcomp.Group.from_directory(directory, rank, size, timeout=timeout) as group:
        with hcomp.Plan(group, values, np.float32, "identity") as total:
            begin = time.monotonic()
            x = np.ones(1_000_000, np.float32)

            def call():
                if is_exact:
                    group.all_reduce_at(x.ctypes.data, x.size, "float32", True)
                else:
                    total.all_reduce(drawn(rank))

            try:
                while True:  # rank 1 may die before the first call is done on all ranks
                    call()
                    if rank == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
            except hcomp.HcompError as error:
                assert error.code == hcomp.HcompError.TRANSPORT, error
                said, seconds = str(error), time.monotonic() - begin
            try:
                call()
                again = "no error"
            except hcomp.HcompError as error:
                again = str(error)
    return said, seconds, again


def test_a_dead_rank_is_named_in_time():
    # the second error comes long before the timeout
    for timeout, is_exact, words, later in (
        (5, False, "rank 1 failed", "can only be freed"),
        (20, True, "rank 1 failed", "rank 1 failed"),
    ):
        for answer in on_ranks(with_a_dead_rank, timeout, is_exact, survivors=2):
            if answer:
                said, seconds, again = answer
                assert words in said and later in again, answer
                assert seconds < 10, seconds


def that_calls_something_else(rank, size, directory):
    said = []
    x = np.ones(10, np.float32)
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        with hcomp.Plan(group, 10, np.float32, "identity") as total:
            begin = time.monotonic()
            try:
                if rank == 1:
                    total.all_reduce(x)
                else:
                    group.all_reduce_at(x.ctypes.data, x.size, "float32", False)
            except hcomp.HcompError as error:
                said = [error.code, str(error), time.monotonic() - begin]
    return said


def test_an_all_reduce_where_another_rank_calls_the_group_fails_on_all():
    for code, said, seconds in on_ranks(that_calls_something_else):
        assert code == hcomp.HcompError.DISAGREEMENT, said
        assert "rank 0: all_reduce of 10 values" in said and "rank 1: started hcomp_all_reduce" in said, said
        assert seconds < 5, seconds


def that_misses_a_rank(rank, size, directory):
    if rank == 0:
        return None
    try:
        hcomp.Group.from_directory(directory, rank, size, timeout=0.3)
    except TimeoutError as error:
        return str(error)
    return "no error"


def test_a_rank_that_does_not_come_is_an_error():
    for said in on_ranks(that_misses_a_rank)[1:]:
        assert "hcomp.0.0 has not come within 0.3 s" in said, said


class WaitingStore:
    """Same interface as a torch.distributed.Store: wait blocks, and get does not."""

    def __init__(self, directory):
        self._inner = hcomp.DirectoryStore(directory)
        self.waited = []

    def set(self, key, value):
        self._inner.set(key, value)

    def wait(self, keys, timeout):
        self.waited.append(timeout.total_seconds())
        for key in keys:
            self._inner.get(key)

    def get(self, key):
        return (self._inner.path / key).read_bytes()


def made_by_ranks_that_then_rest(rank, size, directory):
    group, member = divmod(rank, ranks)
    begin = time.monotonic()
    with hcomp.Group.from_directory(f"{directory}/{group}", member, ranks):
        seconds = time.monotonic() - begin
        time.sleep(4)
    return seconds


def test_nobody_waits_for_ranks_that_rest():
    # Four groups: without the thread that serves peers, one of two ranks waits until its peer's
    # next call.
    seconds = on_ranks(made_by_ranks_that_then_rest, size=4 * ranks)
    assert max(seconds) < 3, seconds


methods = ("thc bits=4", "fp16", "sign", "identity", "error_bounded 1e-3", "thc bits=4")


def started(rank, size, directory, is_started):
    """Makes several steps of several plans and of the group's own calls, the last ones mixed with
    blocking calls."""
    made, reports = [], []
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        group.configure("float: fp16 min=8KiB")
        sums = [hcomp.Plan(group, values + 10 * i, np.float32, m) for i, m in enumerate(methods)]
        for step in range(5):
            handles = []
            for i, total in enumerate(sums):
                x = np.random.default_rng([step, i, rank]).uniform(-1, 1, total.values).astype(np.float32)
                y, part = x.copy(), np.empty(total.values // size, np.float32)
                whole = y[: part.size * size].copy()
                calls = [("all_reduce", total, (x, True))]
                if methods[i] == "identity":
                    z = np.arange(total.values, dtype=np.float32)
                    calls += [("reduce_scatter", total, (z,)), ("all_gather", total, (z,))]
                    made.append(z)
                group_calls = [
                    ("all_reduce_at", (y.ctypes.data, y.size, "float32", True)),
                    ("reduce_scatter_at", (whole.ctypes.data, part.ctypes.data, part.size, "float32")),
                ]
                made += [x, y, part]
                for name, where, arguments in calls:
                    if is_started and (step < 3 or i % 2):
                        handles.append(getattr(where, f"start_{name}")(*arguments))
                    else:
                        reports.append(getattr(where, name)(*arguments))
                for name, arguments in group_calls:
                    if is_started:
                        keep = (y, part, whole)
                        handles.append(getattr(group, f"start_{name}")(*arguments, keep=keep))
                    else:
                        getattr(group, name)(*arguments)
                del x, y, part, whole
            for one in handles[rank::2] + handles[::-1]:
                report = one.wait()
                assert one.test() and one.wait() is report
        for total in sums:
            total.close()
    return [one.tobytes() for one in made]


def test_started_all_reduces_have_the_bits_of_others():
    one_by_one, together = (on_ranks(started, is_started) for is_started in (False, True))
    for rank in range(ranks):
        for i, (found, expected) in enumerate(zip(together[rank], one_by_one[rank])):
            assert found == expected, (rank, i)


def started_and_wrong(rank, size, directory):
    said = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        with hcomp.Plan(group, 10, np.float32, "identity") as total:
            x = np.ones(10, np.float32)
            wrong = [1, 2] if rank == 1 else x.copy()
            handles = [total.start_all_reduce(one) for one in (x, wrong, np.ones(10, np.float32))]
            for one in handles:
                try:
                    one.wait()
                    said.append("")
                except hcomp.HcompError as error:
                    said.append(str(error))
            if rank == 0:
                time.sleep(0.5)  # the other ranks wait for it, and are interrupted
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            one = total.start_all_reduce(x)
            if rank > 0:
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                try:
                    one.wait()
                    said.append("not interrupted")
                except KeyboardInterrupt:
                    said.append("interrupted")
            assert one.wait().weight == size
            total.start_all_reduce(np.ones(10, np.float32))  # no wait follows
            last = total.start_all_reduce(x)
        assert last.test() and (x == size**3).all(), x
        assert last.wait().weight == size
    return said


def test_what_is_wrong_with_one_that_was_started():
    for rank, said in enumerate(on_ranks(started_and_wrong)):
        assert said[0] == "" and said[2] == "", said
        assert ("x is a list" if rank == 1 else "rank 1") in said[1], said
        assert said[3:] == ([] if rank == 0 else ["interrupted"]), said


def interrupted(rank, size, directory):
    """Rank 0 calls late; on the other ranks a signal comes meanwhile. Then all call once more."""
    seconds = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        with hcomp.Plan(group, 10, np.float32, "identity") as plan:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            for name in ("all_reduce", "reduce_scatter", "all_gather"):
                x = np.ones(10, np.float32)
                if rank == 0:
                    time.sleep(1)
                    getattr(plan, name)(x)
                    continue
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                begin = time.monotonic()
                try:
                    getattr(plan, name)(x)
                except KeyboardInterrupt:
                    seconds.append(time.monotonic() - begin)
            y = np.ones(10, np.float32)
            plan.all_reduce(y)
            assert (y == size).all(), y
    return seconds


def test_a_signal_interrupts_a_blocking_call():
    for seconds in on_ranks(interrupted)[1:]:
        assert len(seconds) == 3 and max(seconds) < 0.7, seconds


def started_with_a_dead_rank(rank, size, directory):
    said = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        sums = [hcomp.Plan(group, 100_000, np.float32, "fp16") for _ in range(5)]
        for step in range(3):
            begin = time.monotonic()
            dies = rank == 1 and step == 1
            started = sums[:2] if dies else sums
            handles = [one.start_all_reduce(np.ones(one.values, np.float32)) for one in started]
            if dies:
                handles[0].wait()  # all ranks are in this step
                os.kill(os.getpid(), signal.SIGKILL)
            for one in handles:
                try:
                    one.wait()
                except hcomp.HcompError as error:
                    said.append((error.code, error.rank))
            if said:
                break
    return said, time.monotonic() - begin


def test_a_dead_rank_fails_all_that_are_under_way():
    for answer in on_ranks(started_with_a_dead_rank, survivors=2):
        if answer:
            said, seconds = answer
            assert len(said) >= 3 and set(said) == {(hcomp.HcompError.TRANSPORT, 1)}, said
            assert seconds < 10, seconds


def by_a_store(rank, size, directory):
    store = WaitingStore(directory)
    with hcomp.Group.from_store(store, rank, size, timeout=7):
        assert store.waited == [7, 7]
    with hcomp.Group.from_store(store, rank, size, prefix="second") as group:
        x = np.full(10, rank, np.float32)
        report = group.all_reduce_at(x.ctypes.data, x.size, "float32", mean=True)
        assert report.weight == size
    return x


def test_two_groups_over_one_store():
    for x in on_ranks(by_a_store):
        assert (x == 1).all()


def wrong(rank, size, directory):
    said = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=10) as group:
        for make in (
            lambda: hcomp.Plan(group, 10, np.float32, "gzip"),
            lambda: hcomp.Plan(group, 10, np.int32, "fp16"),
            lambda: hcomp.Plan(group, 10, np.float32, "fp16" if rank else "bf16"),
            lambda: hcomp.Plan(group, 1.5),
            lambda: hcomp.Plan(group, 10.0 if rank == 1 else 10),
            lambda: group.configure("float: gzip"),
            lambda: group.configure("float: fp16" if rank else None),
            lambda: group.broadcast_at(0, 0, 5),
        ):
            try:
                make()
                said.append("no error")
            except hcomp.HcompError as error:
                said.append(str(error))
    try:
        hcomp.Group.from_directory(directory, rank, size)
    except FileExistsError as error:
        said.append(str(error))
    try:
        group.configure(None)
    except hcomp.HcompError as error:
        said.append(str(error))
    for exchange in (lambda mine: [mine], lambda mine: 1 / 0):
        try:
            hcomp.Group(0, 2, exchange)
        except (ValueError, ZeroDivisionError) as error:
            said.append(str(error))
    try:
        hcomp.Group(3, 2, lambda mine: [mine] * 2)
    except hcomp.HcompError as error:
        said.append(str(error))
    return said


def test_what_is_wrong_is_said():
    words = [
        "no codec is called 'gzip'",
        "neither float",
        "rank 0: 10 of float by 'bf16'",
        "values is 1.5; it is a whole number",
        "",
        "no codec is called 'gzip'",
        "ranks have different settings; rank 0: no rules; rank 1: 'float: fp16",
        "root is 5, the group has 3 ranks (0 to 2)",
        "every run needs a directory of its own",
        "is closed",
        "expected are 2 of 8",
        "division by zero",
        "rank 3 of 2 ranks",
    ]
    for said in on_ranks(wrong):
        assert len(said) == len(words), said
        for one, expected in zip(said, words):
            assert expected in one, (one, expected)


def masked_on_one_rank(rank, size, directory):
    said = []
    x = np.ones(10, np.float32)
    masked = np.ma.masked_greater(np.arange(10, dtype=np.float32), 5)
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        with hcomp.Plan(group, 10, np.float32, "thc bits=4") as plan:
            for call in (
                lambda: plan.all_reduce(masked if rank == 1 else x),
                lambda: plan.reduce_scatter(masked if rank == 1 else x),
                lambda: plan.start_all_reduce(masked if rank == 1 else x).wait(),
                lambda: setattr(plan, "residual", masked),
            ):
                try:
                    call()
                    said.append("no error")
                except hcomp.HcompError as error:
                    said.append(str(error))
            plan.all_reduce(x)
    return said


def test_masked_arrays_are_refused():
    for rank, said in enumerate(on_ranks(masked_on_one_rank)):
        assert len(said) == 4 and "masked array" in said[3], said
        for one in said[:3]:
            assert ("x is a masked array" if rank == 1 else "rank 1") in one, said


def wrong_on_one_rank(rank, size, directory):
    x, part = np.ones(999), np.zeros(333)
    told = []
    with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
        it = rank == 1
        for call in (
            lambda: group.broadcast_at(x.ctypes.data, x.nbytes, 7 if it else 0),
            lambda: group.all_gather_at(0 if it else part.ctypes.data, part.nbytes, x.ctypes.data),
            lambda: group.all_reduce_at(0 if it else x.ctypes.data, x.size, "float64"),
            lambda: group.reduce_scatter_at(
                x.ctypes.data, 0 if it else part.ctypes.data, part.size, "float64"
            ),
            lambda: group.all_reduce_at(x.ctypes.data, x.size - it, "float64"),
            lambda: group.all_reduce_at(x.ctypes.data, x.size, "float64", mean=it),
            lambda: group.all_reduce_at(x.ctypes.data, x.size, "int64", mean=True),
        ):
            try:
                call()
                told.append((0, ""))
            except hcomp.HcompError as error:
                told.append((error.code, str(error)))
        before = x.tobytes() == np.ones(999).tobytes()
        group.all_reduce_at(x.ctypes.data, x.size, "float64")
    return told, before, x[0], time.monotonic()


def test_what_is_wrong_on_one_rank_fails_on_all_and_loses_nothing():
    begin = time.monotonic()
    wrong, unlike = hcomp.HcompError.INVALID_ARGUMENT, hcomp.HcompError.DISAGREEMENT
    expected = [
        (unlike, "root is 7, the group has 3 ranks"),
        (unlike, "mine is a null pointer"),
        (unlike, "x is a null pointer"),
        (unlike, "part is a null pointer"),
        (unlike, "rank 1: all_reduce of 998 values of type 1"),
        (unlike, "rank 0: all_reduce of 999 values of type 1, the sum; rank 1: all_reduce of 999 values of "
         "type 1, the mean"),
        (wrong, "integers have no mean"),
    ]
    for rank, (told, is_unchanged, sum_after, end) in enumerate(on_ranks(wrong_on_one_rank)):
        assert [code for code, _ in told] == [code for code, _ in expected], told
        for (_, words), (_, part) in zip(told, expected):
            assert (part if rank == 1 else "") in words, words
            assert "ank 1" in words or rank == 1 or part == "integers have no mean", words
        assert is_unchanged and sum_after == ranks
        assert end - begin < 15


def of_a_wrong_type(rank, size, directory):
    x = np.ones(999)
    try:  # a rank that is still connecting gets the error there
        with hcomp.Group.from_directory(directory, rank, size, timeout=20) as group:
            group.types = {**group.types, "none": (9, 8)}
            group.all_reduce_at(x.ctypes.data, x.size, "none" if rank == 1 else "float64")
    except hcomp.HcompError as error:
        return error.code, str(error), time.monotonic()


def test_a_type_that_cannot_be_is_told_to_all():
    begin = time.monotonic()
    for rank, (code, words, end) in enumerate(on_ranks(of_a_wrong_type)):
        error = hcomp.HcompError
        assert code == (error.INVALID_ARGUMENT if rank == 1 else error.DAMAGED), (code, words)
        assert ("" if rank == 1 else "rank 1: ") + "type is 9, it can be 0 to 5" in words, words
        assert end - begin < 15


def drawn_by(rank, size, directory, id):
    store = hcomp.DirectoryStore(directory)
    with hcomp.Group.from_store(store, rank, size, id=id) as group:
        with hcomp.Plan(group, values, np.float32, "thc bits=4") as total:
            x = drawn(rank)
            total.all_reduce(x)
            return x.tobytes()


def test_groups_with_different_numbers_draw_different_ones():
    first, again, other = (on_ranks(drawn_by, id)[0] for id in (0, 0, 5))
    assert first == again
    assert first != other


def with_a_fork(rank, size, directory, closes):
    """The child closes what it inherits, or calls it. Then the parent goes on."""
    x = np.ones(100_000, np.float32)
    with hcomp.Group.from_directory(directory, rank, size, timeout=10) as group:
        with hcomp.Plan(group, x.size, x.dtype, "fp16") as total:
            total.all_reduce(x)
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                said = ""
                try:
                    if closes:
                        total.close()
                        group.close()
                    else:
                        total.all_reduce(x)
                except hcomp.HcompError as error:
                    said = str(error)
                os.write(theirs, said.encode())
                os._exit(7)
            os.close(theirs)
            status = os.waitpid(child, 0)[1]
            with os.fdopen(ours) as pipe:
                said = pipe.read()
            x[:] = 1
            total.all_reduce(x)
            return os.waitstatus_to_exitcode(status), said, x[0]


def test_a_forked_child_may_only_close_what_it_inherits():
    for closes in (False, True):
        for status, said, value in on_ranks(with_a_fork, closes):
            assert status == 7 and value == ranks, (status, value)
            assert said == "" if closes else "is a fork" in said, said


def test_python_m_hcomp_says_whether_pytorch_knows_the_back_end():
    for version, words in (
        ("1.13.0", "PyTorch 1.13.0 has hooks, but no cpu:hcomp, which needs PyTorch 2.15"),
        ("2.9.1+cpu", "PyTorch 2.9.1+cpu has hooks, but no cpu:hcomp"),
        ("2.15.0a0", "PyTorch 2.15.0a0 knows cpu:hcomp"),
        ("3.0", "PyTorch 3.0 knows cpu:hcomp"),
    ):
        with tempfile.TemporaryDirectory() as directory:
            metadata = Path(directory, "torch-0.dist-info", "METADATA")
            metadata.parent.mkdir()
            metadata.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
            Path(directory, "torch.py").touch()
            path = os.pathsep.join([directory, *filter(None, sys.path)])
            command = [sys.executable, "-m", "hcomp"]
            environment = {**os.environ, "PYTHONPATH": path}
            said = subprocess.check_output(command, env=environment, text=True)
            assert words in said, said


def test_a_library_that_is_not_there_is_named():
    def without_a_library(rank, size, directory):
        os.environ["HCOMP_GROUP_LIBRARY"] = "/nowhere/libhcomp_ucx.so"
        try:
            hcomp.library_path("ucx")
        except ImportError as error:
            first = str(error)
        del os.environ["HCOMP_GROUP_LIBRARY"]
        hcomp._library.candidates = lambda *_: []
        try:
            hcomp.library_path("ucx")
        except ImportError as error:
            return first, str(error)

    ((first, second),) = on_ranks(without_a_library, size=1)
    assert "/nowhere/libhcomp_ucx.so: cannot open shared object file" in first, first
    assert "libucx-dev" in second and "HCOMP_GROUP_LIBRARY" in second, second


if __name__ == "__main__":
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} tests of groups on {ranks} ranks, hcomp {hcomp.__version__}")
