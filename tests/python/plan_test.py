"""The Python package on several ranks. Started as `python3 -m mpi4py`: an error ends all ranks."""

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
from mpi4py import MPI

import hcomp

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
values = 5000


def raises(code, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except hcomp.HcompError as error:
        assert error.code == code, (error.code, str(error))
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"rank {rank}: no error, '{words}' was expected")


def drawn(of_rank, dtype=np.float32):
    return np.random.default_rng([7, of_rank]).uniform(-1, 1, values).astype(dtype)


def test_sums_of_whole_numbers_are_exact():
    for dtype in (np.float32, np.float64):
        with hcomp.Plan(comm, values, dtype, "identity") as total:
            x = np.arange(values, dtype=dtype) * (rank + 1)
            report = total.all_reduce(x)
            assert np.array_equal(x, np.arange(values) * (ranks * (ranks + 1) // 2))
            assert report.weight == ranks and report.error == 0
            assert report.seconds >= report.seconds_codec > 0
            assert report.shared_memory == (ranks > 1) and report.bytes_sent == 0


def test_error_is_unknown_where_the_codec_states_none():
    for codec, known in ("thc", False), ("fp16", False), ("error_bounded:1e-3", True):
        with hcomp.Plan(comm, values, np.float32, codec) as total:
            assert math.isnan(total.all_reduce(drawn(rank)).error) != known, codec


def test_means_and_any_shape():
    x = np.full((50, values // 50), float(ranks * rank))
    with hcomp.Plan(comm, x.size, x.dtype, "identity") as mean:
        mean.all_reduce(x, mean=True)
        assert (x == ranks * (ranks - 1) / 2).all()
        mean.all_reduce(x)  # the option does not persist
        assert (x == ranks * ranks * (ranks - 1) / 2).all()


def test_a_value_that_makes_others_noise_is_told():
    x = drawn(rank)
    with hcomp.Plan(comm, values, x.dtype, "thc bits=4 feedback=no") as mean:
        assert mean.all_reduce(x).dominance < 0.2
        x = drawn(rank)
        x[7] = 1e6
        assert mean.all_reduce(x).dominance > 0.99


def test_the_residual_is_reported():
    with hcomp.Plan(comm, values, "float32", "thc:bits=1") as total:
        assert all(0.2 < total.all_reduce(drawn(rank)).residual < 4 for _ in range(20))
    with hcomp.Plan(comm, values, "float32", "thc:bits=1 feedback=no") as total:
        assert total.all_reduce(drawn(rank)).residual == 0


def test_a_run_goes_on_from_residual_and_draws_as_if_never_stopped():
    def steps(total, first, last):
        together = []
        for step in range(first, last):
            x = drawn(rank + 10 * step)
            total.all_reduce(x)
            together.append(x)
        return together

    for codec in ("thc bits=4 feedback=yes", "sign feedback=yes"):
        with hcomp.Plan(comm, values, np.float32, codec) as total:
            total.set_draws(5, 0)
            whole = steps(total, 0, 4)
        with hcomp.Plan(comm, values, np.float32, codec) as total:
            total.set_draws(5, 0)
            steps(total, 0, 2)
            lost = total.residual
        assert lost.any()
        for kept, is_same in ((lost, True), (0 * lost, False)):
            with hcomp.Plan(comm, values, np.float32, codec) as total:
                total.set_draws(5, 2)
                total.residual = kept
                assert np.array_equal(total.residual, kept)
                again = steps(total, 2, 4)
            assert all(map(np.array_equal, again, whole[2:])) == is_same, codec
        with hcomp.Plan(comm, values, np.float32, codec) as total:
            total.set_draws(5, 3)
            total.residual = lost
            # different draws; signs are drawn at merges
            is_drawn = ranks > 1 or codec.startswith("thc")
            assert np.array_equal(steps(total, 2, 3)[0], whole[2]) != is_drawn


def test_parts_of_whole_units_are_equal():
    for codec in ("thc bits=4", "sign", "bf16"):
        with hcomp.Plan(comm, 0, np.float32, codec) as nothing:
            unit = nothing.shard_alignment
        assert unit > 0
        with hcomp.Plan(comm, 2 * unit * ranks, np.float32, codec) as total:
            assert total.shard_alignment == unit
            shard = comm.allgather(total.shard)
        assert sorted(part.start for part in shard) == [2 * unit * r for r in range(ranks)]
        assert all(part.stop - part.start == 2 * unit for part in shard)
    with hcomp.Plan(comm, 10, np.float32, "sign algorithm=sampled") as total:
        assert total.shard_alignment == 0


def test_a_residual_that_cannot_be_is_refused():
    with hcomp.Plan(comm, values, np.float32, "identity") as total:
        for use in (lambda: total.residual, lambda: setattr(total, "residual", drawn(0))):
            try:
                use()
            except hcomp.HcompError as error:
                assert "has no error feedback" in str(error), error
            else:
                raise AssertionError("no error")
    with hcomp.Plan(comm, values, np.float32, "sign feedback=yes") as total:
        try:
            total.residual = drawn(0)[1:]
        except hcomp.HcompError as error:
            assert f"a residual of {values - 1} values for a plan of {values}" in str(error), error
        else:
            raise AssertionError("no error")


def test_a_bound_is_kept():
    exact = sum(drawn(r).astype(float) for r in range(ranks))
    x = drawn(rank)
    with hcomp.Plan(comm, values, x.dtype, "error_bounded 1e-3") as total:
        report = total.all_reduce(x)
    worst = np.abs(x - exact).max()
    # half a unit in the last place of a float below 4, because the result is rounded
    assert worst <= 1e-3 + 2.4e-7 and report.error <= 1e-3, (worst, report)
    assert ranks == 1 or worst > 0
    assert len(set(comm.allgather(x.tobytes()))) == 1


def test_training_methods_feed_back():
    # Errors of T calls average to 1/sqrt(T) of one error, a residual to 1/T of it.
    exact = sum(drawn(r).astype(float) for r in range(ranks))

    def error_of_mean(codec, calls=32):
        mean = np.zeros(values)
        with hcomp.Plan(comm, values, np.float32, codec) as total:
            for _ in range(calls):
                x = drawn(rank)
                total.all_reduce(x)
                mean += x / calls
        return np.linalg.norm(mean - exact)

    assert error_of_mean("thc bits=2") < 0.5 * error_of_mean("thc bits=2 feedback=no")


def test_parts_make_the_whole():
    with hcomp.Plan(comm, values, np.float32, "identity") as total:
        mine = total.shard
        parts = sorted(comm.allgather((mine.start, mine.stop)))
        assert [0, *(stop for _, stop in parts)] == [*(start for start, _ in parts), values]
        x = np.arange(values, dtype=np.float32)
        total.reduce_scatter(x)
        assert np.array_equal(x[mine], np.arange(values)[mine] * ranks)
        x[mine] += 1
        total.all_gather(x)
        assert np.array_equal(x, np.arange(values) * ranks + 1)


def test_errors_have_the_librarys_words():
    refused = hcomp.HcompError.INVALID_ARGUMENT
    raises(refused, "no codec is called 'gzip'", hcomp.Plan, comm, values, np.float32, "gzip")
    raises(refused, r"'fp16\0thc'", hcomp.Plan, comm, values, np.float32, "fp16\0thc")
    raises(refused, "codec is a null pointer", hcomp.Plan, comm, values, np.float32, None)
    raises(refused, "neither float", hcomp.Plan, comm, values, np.int32, "fp16")
    raises(refused, "neither float", hcomp.Plan, comm, values, ">f4", "fp16")
    raises(refused, "there can be", hcomp.Plan, comm, -1, np.float32, "fp16")
    raises(refused, "over is None; it is an mpi4py", hcomp.Plan, None, 1, np.float32, "fp16")
    raises(refused, "COMM_NULL", hcomp.Plan, MPI.COMM_NULL, 1, np.float32, "fp16")
    with hcomp.Plan(comm, values, np.float32, "fp16") as total:
        call = total.all_reduce
        raises(refused, "x has values of float64", call, np.zeros(values))
        raises(refused, "not C-contiguous", call, np.zeros(2 * values, np.float32)[::2])
        raises(refused, "x is a list", call, [0.0] * values)
        frozen = np.zeros(values, np.float32)
        frozen.flags.writeable = False
        raises(refused, "cannot be written to", call, frozen)
        raises(refused, "with 7 values of 4 bytes", call, np.zeros(7, np.float32))
    raises(refused, "is closed", total.all_reduce, np.zeros(values, np.float32))
    total.close()  # again
    raises(hcomp.HcompError.NOT_RUNNING, "preload", hcomp.comm_set, comm, "float: fp16")
    assert hcomp.version() >= (0, 1, 0)
    assert hcomp.__version__ == "%d.%d.%d" % hcomp.version()
    assert not hasattr(hcomp, "__versions__")


def test_what_is_wrong_on_one_rank_is_an_error_on_all():
    if ranks == 1:
        return
    odd = rank == ranks - 1
    differ = hcomp.HcompError.DISAGREEMENT
    raises(differ, "'bf16'", hcomp.Plan, comm, values, np.float32, "fp16" if odd else "bf16")
    with hcomp.Plan(comm, values, np.float32, "fp16") as total:
        x = np.ones(values, np.float32)
        if odd:
            raises(hcomp.HcompError.INVALID_ARGUMENT, "not C-contig", total.all_reduce, x[::2])
        else:
            raises(differ, "number of values", total.all_reduce, x)
        raises(differ, f"rank {ranks - 1} has 7", total.all_reduce, x[:7] if odd else x)
        x[0] = np.nan if odd else 0
        raises(hcomp.HcompError.NONFINITE, "", total.all_reduce, x)
        x[:] = 1  # the plan works as before
        total.all_reduce(x)
        assert (x == ranks).all()


def test_a_signal_over_mpi_takes_effect_when_the_call_returns():
    """Rank 0 calls late; on the other ranks a signal comes meanwhile. Nothing is lost."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    with hcomp.Plan(comm, values, np.float32, "identity") as total:
        for name in ("all_reduce", "reduce_scatter", "all_gather"):
            x = np.ones(values, np.float32)
            comm.Barrier()
            if rank == 0:
                time.sleep(0.5)
                getattr(total, name)(x)
            else:
                begin = time.monotonic()
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                try:
                    getattr(total, name)(x)
                    time.sleep(1)
                    raise AssertionError(f"{name} was not interrupted")
                except KeyboardInterrupt:
                    assert time.monotonic() - begin > 0.3, name
            assert name != "all_reduce" or (x == ranks).all(), x
        x = np.ones(values, np.float32)
        total.all_reduce(x)
        assert (x == ranks).all(), x
    signal.signal(signal.SIGALRM, before)


def test_a_group_of_mpis_ranks():
    if not os.environ.get("HCOMP_GROUP_LIBRARY"):
        return
    with hcomp.Group.from_mpi(comm) as group, hcomp.Plan(group, values, np.float64) as total:
        x = np.full(values, rank + 1.0)
        total.all_reduce(x)
    assert (x == ranks * (ranks + 1) // 2).all()


def error_without_mpi(script, library):
    """Returns the output of a separate process, which does not call MPI_Init."""
    ours = ("OMPI_", "PMIX_", "PMI_", "HCOMP_")
    environment = {n: text for n, text in os.environ.items() if not n.startswith(ours)}
    if library:
        environment["HCOMP_LIBRARY"] = library
    begin = "import mpi4py; mpi4py.rc.initialize = False\nimport hcomp\n"
    ran = subprocess.run(
        [sys.executable, "-c", begin + script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    return ran.stderr


def test_a_library_that_is_not_there_is_named():
    if rank > 0:
        return
    said = error_without_mpi(
        "hcomp._library.candidates = lambda *_: [hcomp._library.Path('/nowhere/libhcomp.so')]\n"
        "hcomp.library_path()",
        "",
    )
    assert "ImportError: hcomp: there is no libhcomp.so" in said, said
    assert "/nowhere/libhcomp.so" in said and "HCOMP_LIBRARY" in said, said
    said = error_without_mpi("hcomp.library_path()", "/nowhere/libhcomp.so")
    assert "/nowhere/libhcomp.so: cannot open shared object file" in said, said


def test_the_library_of_another_mpi_is_refused():
    other = os.environ.get("HCOMP_OTHER_LIBRARY")
    if rank > 0 or not other:
        return
    said = error_without_mpi("hcomp.library_path()", other)
    assert "ImportError: hcomp: " + other + " is for " in said, said


tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
for test in tests:
    test()
comm.Barrier()
if rank == 0:
    print(f"{len(tests)} tests of the Python package on {ranks} ranks")
