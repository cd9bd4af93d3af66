"""Ranks of which some may be lost and others come, without MPI."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Optional, Union

import numpy
from numpy.typing import NDArray

from . import _library
from ._library import HcompError


class _State(ctypes.Structure):
    """hcomp_elastic_state."""

    _fields_ = [
        ("generation", ctypes.c_uint64),
        ("name", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("size", ctypes.c_int),
        ("lost", ctypes.c_int),
    ]


class ElasticGroup(_library.Handle):
    """Ranks that go on when some of them are lost, and let newcomers in. Without MPI, over UCX.

    They find each other by a directory that all see, on one host or on NFS 4; every run needs one
    of its own. This starts four ranks and a newcomer; kill any of them meanwhile::

        import sys, time, numpy, hcomp

        place, rank = sys.argv[1], int(sys.argv[2])      # DIRECTORY 0 to 3, or -1: a newcomer
        parameters, step = numpy.zeros(1000, numpy.float32), numpy.zeros(1, numpy.int64)
        if rank >= 0:
            group = hcomp.ElasticGroup(place, rank, 4)
        else:
            group = hcomp.ElasticGroup.join(place)
        with group, hcomp.Plan(group, 1000, numpy.float32, "thc:bits=4") as mean:
            if rank < 0:
                group.share(parameters, step)            # takes what the others have
            while step < 2000:
                gradient = numpy.random.rand(1000).astype(numpy.float32)
                report = mean.all_reduce(gradient, mean=True)      # of report.weight ranks
                parameters += gradient
                step += 1
                time.sleep(0.01)                         # a gradient takes its time
                if step % 10 == 0 and group.admit():     # somebody has come
                    group.share(parameters, step)
            print(group, "lost", group.lost, parameters.sum())

    A sum in which a rank is lost is made again by those who are left, or they get its result if
    some of them have it: all see the same bits. Collective calls, and those of Sums over the group,
    are made in the same order on all ranks. A rank is lost when it ends, or when the others have
    waited for ``timeout`` seconds. If it comes back its calls are an HcompError of code TRANSPORT,
    whose ``rank`` is its name; nobody else has an error. Used by one thread at a time.

    rank, size:  of a new job, whose ranks all come; its members are called 0 to size - 1
    timeout:    seconds; more than any computation between two calls. 0: for ever
    """

    def __init__(
        self, path: Union[str, os.PathLike[str]], rank: int, size: int, timeout: float = 30.0
    ) -> None:
        self._enter("hcomp_elastic_create", path, timeout, rank, size)

    @classmethod
    def join(
        cls, path: Union[str, os.PathLike[str]], timeout: float = 30.0
    ) -> ElasticGroup:
        """A newcomer to a job that goes on: waits until its members ``admit`` it.

        Then it calls ``share``, as they do. An HcompError if nobody admits it.
        """
        group = cls.__new__(cls)
        group._enter("hcomp_elastic_join", path, timeout)
        return group

    def _enter(
        self, function: str, path: Union[str, os.PathLike[str]], timeout: float, *which: int
    ) -> None:
        super().__init__(_library.of_ucx(), "hcomp_elastic_free")
        directory, milliseconds = os.fsencode(path), round(1000 * timeout)
        trouble: list[BaseException] = []

        def enter() -> None:
            try:
                self._library.call(
                    function, directory, *which, milliseconds, ctypes.byref(self._pointer)
                )
            except BaseException as error:
                trouble.append(error)

        # In a thread of its own: others may take long to come, and Ctrl-C shall end the waiting.
        waiting = threading.Thread(target=enter, daemon=True)
        waiting.start()
        while waiting.is_alive():  # a signal just before a wait does not end it
            waiting.join(0.2)
        if trouble:
            raise trouble[0]

    # ---- Who is there, of the calls so far -----------------------------------------------------

    @property
    def name(self) -> int:
        """Of this rank. It stays, and nobody else has it."""
        return self._now().name

    @property
    def rank(self) -> int:
        """0 to size - 1 among those who are there: changes when others are lost."""
        return self._now().rank

    @property
    def size(self) -> int:
        """How many are there."""
        return self._now().size

    @property
    def members(self) -> tuple[int, ...]:
        """Names of those who are there, by ranks."""
        return self._names("hcomp_elastic_members", self.size)

    @property
    def lost(self) -> tuple[int, ...]:
        """Names of those who were lost since this rank is there, the first one first."""
        return self._names("hcomp_elastic_lost", self._now().lost)

    @property
    def generation(self) -> int:
        """Grows whenever somebody is lost or comes."""
        return self._now().generation

    # ---- Newcomers -----------------------------------------------------------------------------

    def admit(self) -> bool:
        """Let those in who wait to join. Collective of the members, between two sums.

        True on all ranks where somebody has come who needs the state: then all call ``share``.
        """
        needed = ctypes.c_int()
        self._library.call("hcomp_elastic_admit", self.handle, ctypes.byref(needed))
        return bool(needed.value)

    def share(self, *arrays: NDArray[Any]) -> None:
        """Give newcomers, in their arrays, what a member that was there before has in its own.

        Collective; as many bytes on all ranks, otherwise an HcompError on all. Arrays of any type,
        in any number of dimensions, C-contiguous.
        """
        wrong = ""
        for x in arrays:
            if not isinstance(x, numpy.ndarray) or not x.flags.c_contiguous or not x.flags.writeable:
                wrong = f"share: {type(x).__name__} is no C-contiguous numpy.ndarray to write to"
            elif x.dtype.hasobject:
                wrong = f"share: an array of {x.dtype} has no bytes of its own"
        # with what is wrong here the others are told, by a size that none of them has
        parts = [] if wrong else [x.reshape(-1).view(numpy.uint8) for x in arrays]
        state = numpy.concatenate([numpy.empty(0, numpy.uint8), *parts])
        code = self._library.code_of(
            "hcomp_elastic_share", self.handle, state.ctypes.data, state.size
        )
        if wrong:
            raise HcompError(HcompError.INVALID_ARGUMENT, wrong)
        self._library.check(code)
        begin = 0
        for part in parts:
            part[:] = state[begin : begin + part.size]
            begin += part.size

    def share_bytes(self, state: Optional[bytes]) -> bytes:
        """The same for bytes whose number newcomers do not know: they pass None.

        Gives them what some other one passes, and all others what they pass themselves.
        """
        shared, count = ctypes.c_void_p(), ctypes.c_size_t()
        self._library.call(
            "hcomp_elastic_share_any",
            self.handle,
            state,
            len(state or b""),
            ctypes.byref(shared),
            ctypes.byref(count),
        )
        return ctypes.string_at(shared, count.value) if count.value else b""

    def forget(self) -> None:
        """This rank needs the state by the next ``share``, as a newcomer does.

        Such as all but one at the start. Not collective.
        """
        self._library.call("hcomp_elastic_forget", self.handle)

    # --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free it. Collective: nobody is gone while others need its results."""
        super().close()

    def __repr__(self) -> str:
        if not self._pointer:
            return "hcomp.ElasticGroup(closed)"
        now = self._now()
        return f"hcomp.ElasticGroup(rank {now.rank} of {now.size}, called {now.name})"

    def _now(self) -> _State:
        now = _State()
        self._library.call("hcomp_elastic_now", self.handle, ctypes.byref(now))
        return now

    def _names(self, function: str, count: int) -> tuple[int, ...]:
        names = (ctypes.c_int * max(count, 1))()
        self._library.call(function, self.handle, names)
        return tuple(names[:count])
