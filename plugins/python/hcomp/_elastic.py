"""Fault-tolerant groups of ranks, without MPI."""

from __future__ import annotations

import ctypes
import os
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
    """A fault-tolerant group: continues when ranks fail, and admits new ranks. Uses UCX, not MPI.

    Ranks find each other through a shared directory, on one node or on NFS 4. Every run needs a
    directory of its own. Ranks that fail while the group forms are in ``lost``. A rank that never
    arrives is an HcompError with code TRANSPORT on all ranks; a new attempt needs a new directory.

    If a rank fails during an all-reduce, the remaining ranks repeat the all-reduce. If some of them
    already have its result, the remaining ranks receive that result instead. All see the same bits.
    All ranks make collective calls in the same order, including those of Plans over the group.

    A rank has failed when it ends, or when the other ranks have waited ``timeout`` seconds for it.
    If it returns, its calls raise an HcompError with code TRANSPORT and its own name as ``rank``.
    The remaining ranks get no error. Only one thread at a time may use the group.

    rank, size:  of a new job, in which all ranks take part; their names are 0 to size - 1
    timeout:     seconds; longer than any computation between two calls. 0: no limit

    This example starts four ranks and a newcomer. Any of them may be killed::

        import sys, time, numpy, hcomp

        place, rank = sys.argv[1], int(sys.argv[2])      # DIRECTORY 0 to 3, or -1: a newcomer
        parameters, step = numpy.zeros(1000, numpy.float32), numpy.zeros(1, numpy.int64)
        if rank >= 0:
            group = hcomp.ElasticGroup(place, rank, 4)
        else:
            group = hcomp.ElasticGroup.join(place)
        with group, hcomp.Plan(group, 1000, numpy.float32, "thc:bits=4") as mean:
            if rank < 0:
                group.share(parameters, step)            # receives the members' state
            while step < 2000:
                gradient = numpy.random.rand(1000).astype(numpy.float32)
                report = mean.all_reduce(gradient, mean=True)      # over report.weight ranks
                parameters += gradient
                step += 1
                time.sleep(0.01)                         # time to compute a gradient
                if step % 10 == 0 and group.admit():     # a newcomer has joined
                    group.share(parameters, step)
            print(group, "lost", group.lost, parameters.sum())
    """

    def __init__(
        self, path: Union[str, os.PathLike[str]], rank: int, size: int, timeout: float = 30.0
    ) -> None:
        self._enter("hcomp_elastic_create", path, timeout, rank, size)

    @classmethod
    def join(
        cls, path: Union[str, os.PathLike[str]], timeout: float = 30.0
    ) -> ElasticGroup:
        """Join a running job: waits until its members call ``admit``.

        Then the newcomer calls ``share``, like the members, and continues with their next call
        after it. Raises an HcompError if nobody admits it.
        """
        group = cls.__new__(cls)
        group._enter("hcomp_elastic_join", path, timeout)
        return group

    def _enter(
        self, function: str, path: Union[str, os.PathLike[str]], timeout: float, *which: int
    ) -> None:
        super().__init__(_library.of_ucx(), "hcomp_elastic_free")
        directory, milliseconds = os.fsencode(path), round(1000 * timeout)
        if b"\0" in directory:
            raise ValueError(f"the path {path!r} has a NUL character")
        self._library.call_interruptibly(
            function, directory, *which, milliseconds, ctypes.byref(self._pointer)
        )

    # ---- Members, as of the last call ------------------------------------------------------------

    @property
    def name(self) -> int:
        """Name of this rank. Unique, and constant for the lifetime of the rank."""
        return self._now().name

    @property
    def rank(self) -> int:
        """Index among the current members, 0 to size - 1. Changes when other ranks fail."""
        return self._now().rank

    @property
    def size(self) -> int:
        """Number of current members."""
        return self._now().size

    @property
    def members(self) -> tuple[int, ...]:
        """Names of the current members, ordered by rank."""
        return self._names("hcomp_elastic_members", self.size)

    @property
    def lost(self) -> tuple[int, ...]:
        """Names of the ranks that failed since this rank joined, in order of their failure."""
        return self._names("hcomp_elastic_lost", self._now().lost)

    @property
    def generation(self) -> int:
        """Counter that grows whenever a rank fails or joins."""
        return self._now().generation

    # ---- Newcomers -------------------------------------------------------------------------------

    def admit(self) -> bool:
        """Admit the ranks that wait to join. Collective over the members, between two all-reduces.

        Returns True on all ranks if a newcomer needs the state. All ranks then call ``share``.
        """
        needed = ctypes.c_int()
        self._library.call_interruptibly("hcomp_elastic_admit", self.handle, ctypes.byref(needed))
        return bool(needed.value)

    def share(self, *arrays: NDArray[Any]) -> None:
        """Copy the arrays of a member into the arrays of the newcomers.

        Collective. The total size in bytes must be equal on all ranks; otherwise all ranks raise an
        HcompError. Arrays may have any type and any number of dimensions. They must be
        C-contiguous.
        """
        wrong = ""
        for x in arrays:
            if not isinstance(x, numpy.ndarray) or not x.flags.c_contiguous or not x.flags.writeable:
                wrong = f"share: {type(x).__name__} is no C-contiguous numpy.ndarray to write to"
            elif isinstance(x, numpy.ma.MaskedArray):
                wrong = "share: a masked array; pass its data and its mask"
            elif x.dtype.hasobject:
                wrong = f"share: an array of {x.dtype} has no bytes of its own"
        # Invalid arguments: a size that no other rank has reports the error to the other ranks.
        parts = [] if wrong else [x.reshape(-1).view(numpy.uint8) for x in arrays]
        state = numpy.concatenate([numpy.empty(0, numpy.uint8), *parts])
        try:
            self._library.call_interruptibly(
                "hcomp_elastic_share", self.handle, state.ctypes.data, state.size, keep=state
            )
        finally:
            if wrong:
                raise HcompError(HcompError.INVALID_ARGUMENT, wrong) from None
        begin = 0
        for part in parts:
            part[:] = state[begin : begin + part.size]
            begin += part.size

    def share_bytes(self, state: Optional[bytes]) -> bytes:
        """Like ``share``, for bytes of a length that newcomers do not know. Newcomers pass None.

        Returns a member's bytes to newcomers. Every other rank gets its own bytes back.
        """
        shared, count = ctypes.c_void_p(), ctypes.c_size_t()
        self._library.call_interruptibly(
            "hcomp_elastic_share_any",
            self.handle,
            state,
            len(state or b""),
            ctypes.byref(shared),
            ctypes.byref(count),
        )
        return ctypes.string_at(shared, count.value) if count.value else b""

    def forget(self) -> None:
        """Mark this rank as one that needs the state from the next ``share``, like a newcomer.

        For example, all ranks but one do so at the start. Not collective.
        """
        self._library.call("hcomp_elastic_forget", self.handle)


    def close(self) -> None:
        """Free the group. Collective: a rank stays until the other ranks have its results."""
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
