"""Sums of arrays of one size and type."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy
from numpy.typing import DTypeLike, NDArray

from . import _library
from ._elastic import ElasticGroup
from ._group import Group
from ._library import CReport, HcompError, Report
from ._request import Request

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[Any]


class Plan(_library.Handle):
    """Sums of arrays of one size and type by one codec.

    Creation is collective; so are all methods but ``shard``. Arrays are summed in place. They have
    ``values`` values of ``dtype``, in any number of dimensions, C-contiguous. What is wrong on one
    rank is an HcompError on all.

    over:    a communicator of mpi4py, not an intercommunicator; or a Group; or an ElasticGroup, where
             only all_reduce is to be had, creation is not collective, and ``report.weight`` says of
             how many ranks a sum is
    values:  of every array, such as ``x.size``
    dtype:   float32 or float64
    codec:  codec and keys as in a rule of HCOMP_CONFIG: "thc:bits=4", "error_bounded:1e-4"
    """

    def __init__(
        self,
        over: Union[MPI.Comm, Group, ElasticGroup],
        values: int,
        dtype: DTypeLike = numpy.float32,
        codec: str = "fp16",
    ) -> None:
        self._is_over_ucx = isinstance(over, (Group, ElasticGroup))
        super().__init__(
            _library.of_ucx() if self._is_over_ucx else _library.of_mpi(), "hcomp_plan_free"
        )
        self.dtype = numpy.dtype(dtype)
        self.values = int(values)
        self.codec = codec
        # Types and sizes that cannot be are the library's to refuse, on all ranks together.
        size = self.values if 0 <= self.values < 2**64 else 2**64 - 1
        end = (size, self._type(), codec.encode(), ctypes.byref(self._pointer))
        if isinstance(over, Group):
            self._library.call("hcomp_plan_create_group", over.handle, *end)
        elif isinstance(over, ElasticGroup):
            self._library.call("hcomp_plan_create_elastic", over.handle, *end)
        else:
            self._library.call("hcomp_plan_create_f", over.py2f(), *end)

    def all_reduce(self, x: Array, mean: bool = False) -> Report:
        """Plan ``x`` over all ranks, in place: the same bits on all of them.

        With mean=True divide by the number of ranks. Methods with feedback add what this lost to
        the x of the next call.
        """
        return self._call("hcomp_all_reduce_sized", x, mean)

    def reduce_scatter(self, x: Array, mean: bool = False) -> Report:
        """The same, but leave each rank only its part of the sum in ``x``, see ``shard``."""
        return self._call("hcomp_reduce_scatter_sized", x, mean)

    def all_gather(self, x: Array) -> Report:
        """Give every rank all ranks' parts of ``x``, encoded once."""
        return self._call("hcomp_all_gather_sized", x, False)

    def start_all_reduce(self, x: Array, mean: bool = False) -> Request:
        """Start ``all_reduce``, whose report ``wait()`` of the handle gives. Over a Group only.

            started = [total.start_all_reduce(x) for total, x in zip(sums, arrays)]
            compute()
            reports = [one.wait() for one in started]

        All ranks start the same calls in the same order, over one Group among all of its sums. Several
        are under way at a time: where a network has much latency, many short sums take little longer than
        one. Those of one Plan follow each other. A call that is not started begins when all that was
        started is done.
        """
        return self._start("hcomp_all_reduce_start_sized", x, mean)

    def start_reduce_scatter(self, x: Array, mean: bool = False) -> Request:
        """Start ``reduce_scatter``, as ``start_all_reduce`` does."""
        return self._start("hcomp_reduce_scatter_start_sized", x, mean)

    def start_all_gather(self, x: Array) -> Request:
        """Start ``all_gather``, as ``start_all_reduce`` does."""
        return self._start("hcomp_all_gather_start_sized", x, False)

    @property
    def shard(self) -> slice:
        """Where this rank's part is after reduce_scatter: ``x.ravel()[sum.shard]``."""
        first, count = ctypes.c_size_t(), ctypes.c_size_t()
        self._library.call("hcomp_plan_shard", self.handle, ctypes.byref(first), ctypes.byref(count))
        return slice(first.value, first.value + count.value)

    @property
    def shard_alignment(self) -> int:
        """All ranks own as many values where this times the ranks divides ``values``.

        0 where they never do. The same for a sum of 0 values.
        """
        unit = ctypes.c_size_t()
        self._library.call("hcomp_plan_shard_alignment", self.handle, ctypes.byref(unit))
        return unit.value

    @property
    def residual(self) -> Array:
        """What this rank's encoding has lost and the next call adds, for a checkpoint: a copy.

        An HcompError where the codec has no feedback. May be set. Each rank has its own.
        """
        lost = numpy.empty(self.values, self.dtype)
        self._library.call("hcomp_plan_get_residual", self.handle, lost.ctypes.data)
        return lost

    @residual.setter
    def residual(self, lost: Array) -> None:
        lost = numpy.ascontiguousarray(lost, self.dtype)
        if lost.size != self.values:
            raise HcompError(
                HcompError.INVALID_ARGUMENT,
                f"a residual of {lost.size} values for a sum of {self.values}",
            )
        self._library.call("hcomp_plan_set_residual", self.handle, lost.ctypes.data)

    def set_draws(self, vector: int, step: int) -> None:
        """Let the next call draw the random numbers of ``step`` of ``vector``, and so on.

        A run that goes on from a checkpoint draws what it would have drawn. Equal on all ranks. Not
        over an ElasticGroup, which draws by the number of its call.
        """
        self._library.call("hcomp_plan_set_draws", self.handle, vector, step)

    def close(self) -> None:
        """Free it. Collective over a communicator. The end of a ``with`` block does it; nothing else."""
        super().close()

    def __repr__(self) -> str:
        return f"hcomp.Plan({self.values} of {self.dtype} by {self.codec!r})"

    def _type(self) -> int:
        """As the create of the library takes it; one that cannot be where there is none."""
        known = [numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)]
        if self.dtype not in known:
            return -1
        return known.index(self.dtype) if self._is_over_ucx else self.dtype.itemsize

    def _call(self, function: str, x: Array, mean: bool) -> Report:
        wrong, arguments = self._arguments(x, mean)
        report = CReport()
        code = self._library.code_of(function, *arguments, ctypes.byref(report))
        if wrong and code != HcompError.NOT_RUNNING:
            raise HcompError(HcompError.INVALID_ARGUMENT, wrong)
        self._library.check(code)
        return Report.of(report)

    def _start(self, function: str, x: Array, mean: bool) -> Request:
        wrong, arguments = self._arguments(x, mean)
        started = Request(self._library, function, *arguments, keep=x)
        started._wrong = wrong
        return started

    def _arguments(self, x: Array, mean: bool) -> tuple[str, list[object]]:
        """What is wrong with x, or nothing; and what the library gets."""
        # What the library cannot see is told as an array of a size that cannot be, so that the
        # other ranks, which are in this call already, come back from it.
        wrong = ""
        if not isinstance(x, numpy.ndarray):
            wrong = f"x is a {type(x).__name__}, not a numpy.ndarray"
        elif x.dtype != self.dtype:
            wrong = f"x has values of {x.dtype}, the sum is of {self.dtype}"
        elif not x.flags.c_contiguous:
            wrong = f"x of shape {x.shape} is not C-contiguous; sum a copy"
        elif not x.flags.writeable:
            wrong = f"x of shape {x.shape} cannot be written to"
        self._library.call("hcomp_plan_set_mean", self.handle, 1 if mean else 0)
        address = None if wrong else x.ctypes.data
        values = 2**64 - 1 if wrong else x.size
        return wrong, [self.handle, address, values, self.dtype.itemsize]


def comm_set(comm: MPI.Comm, settings: Optional[str]) -> None:
    """Settings for MPI's own sums on this communicator, in place of the program's HCOMP_CONFIG.

    Where libhcomp_pmpi.so is preloaded, otherwise an HcompError of code NOT_RUNNING. None: the
    program's again. Collective.
    """
    text = None if settings is None else settings.encode()
    _library.of_mpi().call("hcomp_comm_set_f", comm.py2f(), text)
