"""Plans: compressed collectives on arrays of one size and type."""

from __future__ import annotations

import ctypes
import operator
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy
from numpy.typing import DTypeLike, NDArray

from . import _library
from ._array import describe
from ._elastic import ElasticGroup
from ._group import Group
from ._library import CReport, HcompError, Report
from ._request import Request

if TYPE_CHECKING:
    from mpi4py import MPI

#: An array of NumPy, or of any library in CUDA memory
Array = Union[NDArray[Any], Any]


class Plan(_library.Handle):
    """All-reduce, reduce-scatter and all-gather of arrays of one size and type with one codec.

    Creation is collective, and so are all methods except ``shard``. Collectives work in place.
    Arrays have ``values`` values of ``dtype``, in any number of dimensions. They are C-contiguous
    and not masked. An invalid argument on one rank raises an HcompError on all ranks.

    Arrays in CUDA memory stay there: those of PyTorch, CuPy, Numba and every library with
    ``__cuda_array_interface__``. Calls follow the work of the array's stream (of PyTorch: the
    current one), and the result is complete when they return. They need libhcomp_cuda.so, which is
    built where CMake finds nvcc. On all ranks alike, arrays are in CUDA memory or none is.

    Over an ElasticGroup a Plan supports only all_reduce, creation is not collective, and
    ``report.weight`` is the number of ranks in the result.

    over:    an mpi4py communicator (no intercommunicator), a Group, or an ElasticGroup
    values:  number of values of every array, for example ``x.size``; an integer
    dtype:   float32 or float64
    codec:   codec and keys as in a rule of HCOMP_CONFIG: "thc:bits=4", "error_bounded:1e-4"
    """

    def __init__(
        self,
        over: Union[MPI.Comm, Group, ElasticGroup],
        values: int,
        dtype: DTypeLike = numpy.float32,
        codec: str = "fp16",
    ) -> None:
        if not isinstance(over, (Group, ElasticGroup)) and not hasattr(over, "py2f"):
            raise HcompError(
                HcompError.INVALID_ARGUMENT,
                f"over is {over!r}; it is an mpi4py communicator, a Group, or an ElasticGroup",
            )
        self._is_over_group = isinstance(over, Group)
        self._is_over_ucx = isinstance(over, (Group, ElasticGroup))
        super().__init__(
            _library.of_ucx() if self._is_over_ucx else _library.of_mpi(), "hcomp_plan_free"
        )
        self.dtype = numpy.dtype(dtype)
        self.codec = codec
        # The library refuses invalid types and sizes, on all ranks together.
        wrong = ""
        try:
            self.values = operator.index(values)
        except TypeError:
            self.values = -1
            wrong = f"values is {values!r}; it is a whole number, 0 or more"
        size = self.values if 0 <= self.values < 2**64 else 2**64 - 1
        end = (size, self._type(), _library.in_c(codec), ctypes.byref(self._pointer))
        try:
            if self._is_over_group:
                self._library.call_interruptibly("hcomp_plan_create_group", over.handle, *end)
            elif isinstance(over, ElasticGroup):
                self._library.call("hcomp_plan_create_elastic", over.handle, *end)
            else:
                self._library.call("hcomp_plan_create_f", over.py2f(), *end)
        except HcompError as error:
            raise _or_wrong(error, wrong) from None

    def all_reduce(self, x: Array, mean: bool = False) -> Report:
        """All-reduce ``x`` in place. The result has the same bits on all ranks.

        mean=True divides by the number of ranks. Codecs with error feedback add the residual of
        this call to the x of the next call.
        """
        return self._call("all_reduce", x, mean)

    def reduce_scatter(self, x: Array, mean: bool = False) -> Report:
        """Reduce-scatter in place: each rank keeps only its part of the result, see ``shard``."""
        return self._call("reduce_scatter", x, mean)

    def all_gather(self, x: Array) -> Report:
        """All-gather the parts of all ranks in place. Each part is encoded once."""
        return self._call("all_gather", x, False)

    def start_all_reduce(self, x: Array, mean: bool = False) -> Request:
        """Start a nonblocking ``all_reduce``. ``wait()`` of the Request returns its report. Group
        only.

            requests = [plan.start_all_reduce(x) for plan, x in zip(plans, arrays)]
            compute()
            reports = [one.wait() for one in requests]

        All ranks start the same calls in the same order, across all Plans of one Group. Calls of
        different Plans overlap, so on networks with high latency many short all-reduces take little
        longer than one. Calls of one Plan run one after the other. ``all_reduce`` starts a call and
        waits for it, so other ranks may call either.
        """
        return self._start("all_reduce", x, mean)

    def start_reduce_scatter(self, x: Array, mean: bool = False) -> Request:
        """Start a nonblocking ``reduce_scatter``, as with ``start_all_reduce``."""
        return self._start("reduce_scatter", x, mean)

    def start_all_gather(self, x: Array) -> Request:
        """Start a nonblocking ``all_gather``, as with ``start_all_reduce``."""
        return self._start("all_gather", x, False)

    @property
    def shard(self) -> slice:
        """This rank's part after reduce_scatter: ``x.ravel()[plan.shard]``."""
        first, count = ctypes.c_size_t(), ctypes.c_size_t()
        self._library.call("hcomp_plan_shard", self.handle, ctypes.byref(first), ctypes.byref(count))
        return slice(first.value, first.value + count.value)

    @property
    def shard_alignment(self) -> int:
        """Alignment of parts: all ranks have parts of equal length if ranks * this divides
        ``values``.

        0 if the parts are never equal. Plans of 0 values return the same number.
        """
        unit = ctypes.c_size_t()
        self._library.call("hcomp_plan_shard_alignment", self.handle, ctypes.byref(unit))
        return unit.value

    @property
    def residual(self) -> Array:
        """This rank's residual, which the next call adds, as a copy for a checkpoint.

        Differs between ranks. May be set. Raises an HcompError for codecs without error feedback.
        """
        lost = numpy.empty(self.values, self.dtype)
        self._library.call("hcomp_plan_get_residual", self.handle, lost.ctypes.data)
        return lost

    @residual.setter
    def residual(self, lost: Array) -> None:
        if isinstance(lost, numpy.ma.MaskedArray):
            raise HcompError(HcompError.INVALID_ARGUMENT, "a residual is a masked array")
        lost = numpy.ascontiguousarray(lost, self.dtype)
        if lost.size != self.values:
            raise HcompError(
                HcompError.INVALID_ARGUMENT,
                f"a residual of {lost.size} values for a plan of {self.values}",
            )
        self._library.call("hcomp_plan_set_residual", self.handle, lost.ctypes.data)

    def set_draws(self, vector: int, step: int) -> None:
        """Set the random draws: the next call uses those of ``step`` of ``vector``.

        Later calls use the following steps. A run that resumes from a checkpoint then draws the
        same numbers. Must be equal on all ranks. Not for an ElasticGroup, which numbers its calls
        itself.
        """
        self._library.call("hcomp_plan_set_draws", self.handle, vector, step)

    def close(self) -> None:
        """Free the plan. Collective over a communicator. Only a ``with`` block calls it by itself.
        """
        super().close()

    def __repr__(self) -> str:
        return f"hcomp.Plan({self.values} of {self.dtype} by {self.codec!r})"

    def _type(self) -> int:
        """Type number for the C API; an invalid number for an unsupported type."""
        known = [numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)]
        if self.dtype not in known:
            return -1
        return known.index(self.dtype) if self._is_over_ucx else self.dtype.itemsize

    def _call(self, name: str, x: Array, mean: bool) -> Report:
        if self._is_over_group:  # signals interrupt the wait
            return self._start(name, x, mean).wait()
        wrong, arguments = self._arguments(x, mean)
        report = CReport()
        arguments = [f"hcomp_{name}_sized", *arguments, ctypes.byref(report)]
        try:
            if self._is_over_ucx:
                self._library.call_interruptibly(*arguments, keep=x)
            else:  # MPI may allow calls of this thread only
                self._library.call(*arguments)
        except HcompError as error:
            raise _or_wrong(error, wrong) from None
        return Report.of(report)

    def _start(self, name: str, x: Array, mean: bool) -> Request:
        wrong, arguments = self._arguments(x, mean)
        started = Request(self._library, f"hcomp_{name}_start_sized", *arguments, keep=x)
        started._wrong = wrong
        return started

    def _arguments(self, x: Array, mean: bool) -> tuple[str, list[object]]:
        """Return a description of an invalid x, or "", and the arguments for the library."""
        # The library cannot see what is wrong. An invalid size reports it to the other ranks, which
        # already wait in this call.
        it = describe(x, self.dtype)
        self._library.call("hcomp_plan_set_mean", self.handle, 1 if mean else 0)
        if it.stream is not None:
            self._library.call("hcomp_plan_set_stream", self.handle, it.stream)
        return it.wrong, [self.handle, it.address, it.values, self.dtype.itemsize]


def _or_wrong(error: HcompError, wrong: str) -> HcompError:
    """The error with the description of an invalid argument, which the library cannot see."""
    if wrong and error.code != HcompError.NOT_RUNNING:
        return HcompError(HcompError.INVALID_ARGUMENT, wrong)
    return error


def comm_set(comm: MPI.Comm, settings: Optional[str]) -> None:
    """Replace the program's HCOMP_CONFIG on this communicator, for MPI's own reductions.

    Needs a preloaded libhcomp_pmpi.so; otherwise raises an HcompError with code NOT_RUNNING. None
    restores the program's settings. Collective.
    """
    _library.of_mpi().call("hcomp_comm_set_f", comm.py2f(), _library.in_c(settings))
