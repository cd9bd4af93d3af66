"""Sums of NumPy arrays over MPI ranks in few bytes, by hcomp's C API.

    from mpi4py import MPI
    import hcomp

    with hcomp.Sum(MPI.COMM_WORLD, gradient.size, gradient.dtype, "thc bits=4") as mean:
        mean.all_reduce(gradient, mean=True)

Needs mpi4py, NumPy, and libhcomp.so of the MPI that mpi4py uses. Programs that call
``comm.Allreduce`` themselves need none of this: see libhcomp_pmpi.so and HCOMP_CONFIG.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Optional, Type

import numpy
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

__all__ = ["HcompError", "Report", "Sum", "Version", "comm_set", "library_path", "version"]


class HcompError(RuntimeError):
    """What went wrong, in the library's words; ``code`` is its kind, as in hcomp.h."""

    INVALID_ARGUMENT = 1
    DISAGREEMENT = 2
    NONFINITE = 3
    DAMAGED = 4
    TRANSPORT = 5
    OTHER = 6
    NOT_RUNNING = 7

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Report:
    """What one call did on this rank."""

    bytes_sent: int  #: headers included
    weight: int  #: summands of the result: the number of ranks
    seconds: float  #: all of the call
    seconds_codec: float  #: of them encoding, merging and decoding
    error: float  #: no value of the sum is off by more, where the codec knows


class Version(NamedTuple):
    major: int
    minor: int
    patch: int


class Sum:
    """Sums of arrays of one size and type by one method over one communicator.

    Creation is collective over ``comm``, an intracommunicator, which is duplicated; so are all
    methods but ``owned``. Arrays are summed in place. They have ``values`` values of ``dtype``, in
    any number of dimensions, C-contiguous. What is wrong on one rank is an HcompError on all.

    comm:    a communicator of mpi4py
    values:  of every array, such as ``x.size``
    dtype:   float32 or float64
    method:  codec and keys as in a rule of HCOMP_CONFIG: "thc bits=4", "error_bounded 1e-4"
    """

    def __init__(
        self, comm: MPI.Comm, values: int, dtype: DTypeLike = numpy.float32, method: str = "fp16"
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._comm = comm
        self.dtype = numpy.dtype(dtype)
        self.values = int(values)
        self.method = method
        # Types and sizes that cannot be are the library's to refuse, on all ranks together.
        known = self.dtype in (numpy.float32, numpy.float64)
        size = self.values if 0 <= self.values < 2**64 else 2**64 - 1
        _check(
            _library().hcomp_create_f(
                comm.py2f(),
                size,
                self.dtype.itemsize if known else 0,
                method.encode(),
                ctypes.byref(self._handle),
            )
        )

    def all_reduce(self, x: Array, mean: bool = False) -> Report:
        """Sum ``x`` over all ranks, in place: the same bits on all of them.

        With mean=True divide by the number of ranks. Methods with feedback add what this lost to
        the x of the next call.
        """
        return self._call("hcomp_all_reduce_sized", x, mean)

    def reduce_scatter(self, x: Array, mean: bool = False) -> Report:
        """The same, but leave each rank only its part of the sum in ``x``, see ``owned``."""
        return self._call("hcomp_reduce_scatter_sized", x, mean)

    def all_gather(self, x: Array) -> Report:
        """Give every rank all ranks' parts of ``x``, encoded once."""
        return self._call("hcomp_all_gather_sized", x, False)

    @property
    def owned(self) -> slice:
        """Where this rank's part is after reduce_scatter: ``x.ravel()[sum.owned]``."""
        first, count = ctypes.c_size_t(), ctypes.c_size_t()
        _check(_library().hcomp_owned(self._open(), ctypes.byref(first), ctypes.byref(count)))
        return slice(first.value, first.value + count.value)

    def close(self) -> None:
        """Free it. Collective. The end of a ``with`` block does it; nothing else does."""
        _check(_library().hcomp_free(ctypes.byref(self._handle)))

    def __enter__(self) -> Sum:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # Where one rank has failed, the others may never come here.
        if kind is None or issubclass(kind, HcompError):
            self.close()

    def __repr__(self) -> str:
        return f"hcomp.Sum({self.values} of {self.dtype} by {self.method!r})"

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise HcompError(HcompError.INVALID_ARGUMENT, f"{self!r} is closed")
        return self._handle

    def _call(self, function: str, x: Array, mean: bool) -> Report:
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
        report = _Report()
        library = _library()
        _check(library.hcomp_set_mean(self._open(), 1 if mean else 0))
        code = getattr(library, function)(
            self._handle,
            None if wrong else x.ctypes.data,
            2**64 - 1 if wrong else x.size,
            self.dtype.itemsize,
            ctypes.byref(report),
        )
        if wrong and code != HcompError.NOT_RUNNING:
            raise HcompError(HcompError.INVALID_ARGUMENT, wrong)
        _check(code)
        return Report(
            report.bytes_sent, report.weight, report.seconds, report.seconds_codec, report.error
        )


def comm_set(comm: MPI.Comm, settings: Optional[str]) -> None:
    """Settings for MPI's own sums on this communicator, in place of the program's HCOMP_CONFIG.

    Where libhcomp_pmpi.so is preloaded, otherwise an HcompError of code NOT_RUNNING. None: the
    program's again. Collective.
    """
    text = None if settings is None else settings.encode()
    _check(_library().hcomp_comm_set_f(comm.py2f(), text))


def version() -> Version:
    """Of the library."""
    numbers = [ctypes.c_int() for _ in Version._fields]
    _check(_library().hcomp_version(*(ctypes.byref(one) for one in numbers)))
    return Version(*(one.value for one in numbers))


def __getattr__(name: str) -> str:
    if name == "__version__":
        return ".".join(map(str, version()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def library_path() -> str:
    """The file of the library, which is loaded if it was not."""
    return _library()._name


# ---- The library ---------------------------------------------------------------------------------


class _Report(ctypes.Structure):
    _fields_ = [
        ("bytes_sent", ctypes.c_uint64),
        ("weight", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("seconds_codec", ctypes.c_double),
        ("error", ctypes.c_double),
    ]


_loaded: Optional[ctypes.CDLL] = None


def _check(code: int) -> None:
    if code != 0:
        raise HcompError(code, _library().hcomp_last_error().decode(errors="replace"))


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = _declare(_load())
    return _loaded


def _mpi_of_mpi4py() -> str:
    """Its name as in the folders of plugins: "openmpi", "mpich"."""
    text = MPI.Get_library_version()
    if "Open MPI" in text:
        return "openmpi"
    if "MPICH" in text:
        return "mpich"
    raise ImportError(f"hcomp: mpi4py uses an MPI that hcomp has no library for: {text.strip()}")


def _candidates(mpi: str) -> list[Path]:
    here = Path(__file__).resolve().parent
    places = [here, here / mpi]
    # In a checkout this is plugins/python/hcomp/ and the builds are beside plugins/.
    if len(here.parents) > 2 and here.parents[1].name == "plugins":
        root = here.parents[2]
        builds = [root / "build", *sorted(root.glob("build-*"))]
        places += [build / "plugins" / mpi for build in builds]
    prefixes = [sys.prefix, "/usr/local", "/usr"]
    if len(here.parents) > 3 and here.parents[2].name == "share":  # installed by CMake
        prefixes.insert(0, str(here.parents[3]))
    for prefix in dict.fromkeys(prefixes):
        multiarch = getattr(sys.implementation, "_multiarch", "")
        for folder in dict.fromkeys(["lib", "lib64", f"lib/{multiarch}" if multiarch else "lib"]):
            places.append(Path(prefix) / folder / "hcomp" / mpi)
    return [place / "libhcomp.so" for place in places]


def _load() -> ctypes.CDLL:
    mpi = _mpi_of_mpi4py()
    named = os.environ.get("HCOMP_LIBRARY")
    if named:
        return _fitting(ctypes.CDLL(named), mpi)
    try:  # a preloaded libhcomp_pmpi.so has brought it
        return _fitting(ctypes.CDLL("libhcomp.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW), mpi)
    except OSError:
        pass
    candidates = _candidates(mpi)
    for file in candidates:
        if file.exists():
            return _fitting(ctypes.CDLL(str(file)), mpi)
    looked = "".join(f"\n  {file}" for file in candidates)
    raise ImportError(
        f"hcomp: there is no libhcomp.so for {mpi}. Set HCOMP_LIBRARY to the file. Looked for it "
        f"in{looked}"
    )


def _fitting(library: ctypes.CDLL, mpi: str) -> ctypes.CDLL:
    library.hcomp_built_for.restype = ctypes.c_char_p
    built_for = library.hcomp_built_for().decode()
    if {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi] not in built_for:
        raise ImportError(f"hcomp: {library._name} is for {built_for}, mpi4py uses {mpi}")
    return library


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    c_int, size, text, pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    arguments = {
        "hcomp_create_f": [c_int, size, c_int, text, ctypes.POINTER(pointer)],
        "hcomp_free": [ctypes.POINTER(pointer)],
        "hcomp_owned": [pointer, ctypes.POINTER(size), ctypes.POINTER(size)],
        "hcomp_set_mean": [pointer, c_int],
        "hcomp_comm_set_f": [c_int, text],
        "hcomp_version": [ctypes.POINTER(c_int)] * 3,
    }
    for name in ("all_reduce", "reduce_scatter", "all_gather"):
        arguments[f"hcomp_{name}_sized"] = [pointer, pointer, size, c_int, ctypes.POINTER(_Report)]
    for name, types in arguments.items():
        function = getattr(library, name)
        function.argtypes = types
        function.restype = c_int
    library.hcomp_last_error.argtypes = []
    library.hcomp_last_error.restype = text
    return library
