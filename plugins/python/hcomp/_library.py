"""The C libraries: search, loading, and argument types of their functions.

Each MPI has its own libhcomp.so. libhcomp_ucx.so needs no MPI.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import queue
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Iterable, Optional, Type, TypeVar


Self = TypeVar("Self", bound="Handle")


class HcompError(RuntimeError):
    """An error of the library. The message is its text, ``code`` is its kind, as in hcomp/plan.h.

    ``rank`` is the rank that caused an error with code TRANSPORT, or None.
    """

    INVALID_ARGUMENT = 1
    DISAGREEMENT = 2
    NONFINITE = 3
    DAMAGED = 4
    TRANSPORT = 5
    OTHER = 6
    NOT_RUNNING = 7

    def __init__(self, code: int, text: str, rank: Optional[int] = None) -> None:
        super().__init__(text)
        self.code = code
        self.rank = rank


class CReport(ctypes.Structure):
    """hcomp_report."""

    _fields_ = [
        ("bytes_sent", ctypes.c_uint64),
        ("weight", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("seconds_codec", ctypes.c_double),
        ("error", ctypes.c_double),
        ("dominance", ctypes.c_double),
        ("residual", ctypes.c_double),
        ("shared_memory", ctypes.c_int),
    ]


class CBucketVector(ctypes.Structure):
    """hcomp_bucket_vector."""

    _fields_ = [
        ("x", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("pending", ctypes.c_void_p),
        ("withheld", ctypes.c_void_p),
        ("number", ctypes.c_uint64),
    ]


class CBucketSizes(ctypes.Structure):
    """hcomp_bucket_sizes."""

    _fields_ = [
        ("part_bytes", ctypes.c_size_t),
        ("reduced_bytes", ctypes.c_size_t),
        ("statistics_words", ctypes.c_size_t),
        ("gathers", ctypes.c_int),
        ("feedback", ctypes.c_int),
    ]


def largest_error(errors: Iterable[float]) -> float:
    """The largest error; NaN if one is unknown."""
    known = list(errors)
    return math.nan if any(map(math.isnan, known)) else max(known, default=0.0)


@dataclass(frozen=True)
class Report:
    """Statistics of one call on this rank."""

    bytes_sent: int  #: headers included
    weight: int  #: number of ranks in the result
    seconds: float  #: of the call
    seconds_codec: float  #: of that: encoding, merging and decoding
    #: upper bound on the error of any value. 0: that of an uncompressed all-reduce. NaN: unknown,
    #: the codec states none
    error: float
    #: 1/16 to 1. Near 1, one large value in a block turns the values beside it into noise. 0 with
    #: codecs whose quantization step does not depend on the values
    dominance: float
    #: energy of the residual of error feedback, relative to x; grows from call to call if error
    #: feedback diverges. 0 without error feedback, and for arrays in CUDA memory
    residual: float = 0.0
    #: the values were added in memory that the ranks of a node share; False: sent in messages
    shared_memory: bool = False

    @classmethod
    def of(cls, report: CReport) -> Report:
        *rest, shared_memory = (getattr(report, field[0]) for field in CReport._fields_)
        return cls(*rest, bool(shared_memory))


#: hcomp_exchange
CExchange = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)


class _Caller:
    """A thread that makes calls for the main thread, which signals can interrupt while it waits."""

    def __init__(self) -> None:
        self.process = os.getpid()  #: a forked process needs a thread of its own
        self.last = threading.Event()  #: set when the last call is done
        self.last.set()
        self._calls: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="hcomp calls", daemon=True).start()

    def call(self, function: Callable[[], None], keep: object) -> None:
        errors: list[BaseException] = []
        done = threading.Event()
        self._calls.put((function, keep, errors, done))
        self.last = done
        while not done.wait(0.2):  # a signal just before wait() does not end it
            pass
        if errors:
            raise errors.pop()

    def _run(self) -> None:
        while True:
            function, keep, errors, done = self._calls.get()
            try:
                function()
            except BaseException as error:
                errors.append(error)
            del function, keep, errors
            done.set()


_caller: Optional[_Caller] = None


class Library:
    """One of the C libraries. Its functions raise HcompError instead of returning a code."""

    def __init__(self, file: str, mode: int = ctypes.DEFAULT_MODE) -> None:
        self._c = ctypes.CDLL(file, mode=mode)
        self.file = self._c._name
        self._c.hcomp_built_for.restype = ctypes.c_char_p
        self._c.hcomp_last_error.restype = ctypes.c_char_p

    def built_for(self) -> str:
        """Communication library in use: "Open MPI 4.1.4", "MPICH 4.0.2", "UCX 1.13, no MPI"."""
        return self._c.hcomp_built_for().decode()

    def status_of(self, function: str, *arguments: object) -> int:
        """Call the function and return its error code."""
        if _caller is not None and threading.current_thread() is threading.main_thread():
            if _caller.process == os.getpid():
                _caller.last.wait()  # an interrupted call
        called = getattr(self._c, function)
        called.argtypes = _argument_types[function]
        return called(*arguments)

    def check(self, code: int) -> None:
        if code != 0:
            rank = self._c.hcomp_last_error_rank()
            words = self._c.hcomp_last_error().decode(errors="replace")
            raise HcompError(code, words, rank if rank >= 0 else None)

    def call(self, function: str, *arguments: object) -> None:
        self.check(self.status_of(function, *arguments))

    def call_interruptibly(self, function: str, *arguments: object, keep: object = None) -> None:
        """Like ``call``, but signals, for example Ctrl-C, interrupt the wait. The call continues.

        Later calls of the main thread begin after it is done.

        keep:  objects that must stay in memory until then
        """
        global _caller
        if threading.current_thread() is not threading.main_thread():
            self.call(function, *arguments)
            return
        if _caller is None or _caller.process != os.getpid():
            _caller = _Caller()
        _caller.call(lambda: self.call(function, *arguments), keep)


class Handle:
    """An object that a library creates and frees. Only a ``with`` block or close() frees it."""

    def __init__(self, library: Library, free: str) -> None:
        self._library = library
        self._free = free
        self._pointer = ctypes.c_void_p()

    @property
    def handle(self) -> ctypes.c_void_p:
        """Pointer for the C API."""
        if not self._pointer:
            raise HcompError(HcompError.INVALID_ARGUMENT, f"{self!r} is closed")
        return self._pointer

    def close(self) -> None:
        self._library.call(self._free, ctypes.byref(self._pointer))

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # After an error on this rank, the other ranks may never reach a collective close.
        if kind is None or issubclass(kind, HcompError):
            self.close()


def in_c(text: Optional[str]) -> Optional[bytes]:
    """The text for C, which ends at the first NUL: a NUL becomes two characters that C refuses."""
    return None if text is None else text.replace("\0", "\\0").encode()


def _types() -> dict[str, list[object]]:
    c_int, size, text, pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p
    handle, report = ctypes.POINTER(pointer), ctypes.POINTER(CReport)
    types: dict[str, list[object]] = {
        "hcomp_plan_create_f": [c_int, size, c_int, text, handle],
        "hcomp_plan_create_group": [pointer, size, c_int, text, handle],
        "hcomp_plan_free": [handle],
        "hcomp_plan_shard": [pointer, ctypes.POINTER(size), ctypes.POINTER(size)],
        "hcomp_plan_shard_alignment": [pointer, ctypes.POINTER(size)],
        "hcomp_plan_set_mean": [pointer, c_int],
        "hcomp_plan_set_stream": [pointer, pointer],
        "hcomp_plan_get_residual": [pointer, pointer],
        "hcomp_plan_set_residual": [pointer, pointer],
        "hcomp_plan_set_draws": [pointer, ctypes.c_uint64, ctypes.c_uint64],
        "hcomp_comm_set_f": [c_int, text],
        "hcomp_cuda_check": [],
        "hcomp_version": [ctypes.POINTER(c_int)] * 3,
        "hcomp_group_create": [c_int, c_int, CExchange, pointer, c_int, ctypes.c_uint64, handle],
        "hcomp_group_free": [handle],
        "hcomp_group_set": [pointer, text],
        "hcomp_group_all_reduce": [pointer, pointer, size, c_int, c_int, report],
        "hcomp_group_reduce_scatter": [pointer, pointer, size, c_int, c_int, pointer, report],
        "hcomp_group_all_gather": [pointer, pointer, size, pointer],
        "hcomp_group_broadcast": [pointer, pointer, size, c_int],
        "hcomp_test": [pointer, c_int, ctypes.POINTER(c_int)],
        "hcomp_wait": [handle, report],
        "hcomp_plan_create_elastic": [pointer, size, c_int, text, handle],
        "hcomp_elastic_create": [text, c_int, c_int, c_int, handle],
        "hcomp_elastic_join": [text, c_int, handle],
        "hcomp_elastic_free": [handle],
        "hcomp_elastic_now": [pointer, pointer],
        "hcomp_elastic_members": [pointer, pointer],
        "hcomp_elastic_lost": [pointer, pointer],
        "hcomp_elastic_admit": [pointer, ctypes.POINTER(c_int)],
        "hcomp_elastic_share": [pointer, pointer, size],
        "hcomp_elastic_share_any": [pointer, text, size, handle, ctypes.POINTER(size)],
        "hcomp_elastic_forget": [pointer],
    }
    vectors, draws = ctypes.POINTER(CBucketVector), ctypes.c_uint64
    types.update({
        "hcomp_bucket_create": [
            text, c_int, c_int, ctypes.POINTER(size), size, c_int, pointer, handle,
            ctypes.POINTER(CBucketSizes),
        ],
        "hcomp_bucket_measure": [pointer, vectors, pointer],
        "hcomp_bucket_encode": [pointer, vectors, draws, pointer, pointer],
        "hcomp_bucket_merge": [pointer, pointer, pointer],
        "hcomp_bucket_decode": [pointer, pointer, vectors, draws, c_int],
        "hcomp_bucket_decode_part": [pointer, pointer, vectors, draws, c_int],
        "hcomp_bucket_check": [pointer, c_int],
        "hcomp_bucket_free": [handle],
    })
    for name in ("all_reduce", "reduce_scatter", "all_gather"):
        types[f"hcomp_{name}_sized"] = [pointer, pointer, size, c_int, report]
        types[f"hcomp_{name}_start_sized"] = [pointer, pointer, size, c_int, handle]
    for name in ("all_reduce", "reduce_scatter"):
        called = types[f"hcomp_group_{name}"]
        types[f"hcomp_group_{name}_start"] = [*called[:-1], handle]
    for name in ("all_gather", "broadcast"):
        types[f"hcomp_group_{name}_start"] = [*types[f"hcomp_group_{name}"], handle]
    return types


_argument_types = _types()


@functools.lru_cache(maxsize=None)
def of_mpi() -> Library:
    """libhcomp.so of the MPI that mpi4py uses.

    HCOMP_LIBRARY, else the library that a preloaded libhcomp_pmpi.so loaded, else the first found.
    """
    mpi = _mpi_of_mpi4py()
    named = os.environ.get("HCOMP_LIBRARY")
    if named:
        return _fitting(_loaded(named), mpi)
    try:
        return _fitting(Library("libhcomp.so", os.RTLD_NOLOAD | os.RTLD_NOW), mpi)
    except OSError:
        pass
    file = _found(
        candidates(mpi, "libhcomp.so"),
        f"there is no libhcomp.so for {mpi}. Set HCOMP_LIBRARY to the file, or use "
        "hcomp.Group.from_mpi(comm), which needs none of MPI",
    )
    return _fitting(_loaded(file), mpi)


@functools.lru_cache(maxsize=None)
def of_ucx() -> Library:
    """libhcomp_ucx.so: HCOMP_GROUP_LIBRARY, else the first found."""
    file = os.environ.get("HCOMP_GROUP_LIBRARY") or _found(
        candidates("ucx", "libhcomp_ucx.so"),
        "there is no libhcomp_ucx.so. It is built where CMake finds UCX (Debian: libucx-dev). Set "
        "HCOMP_GROUP_LIBRARY to the file",
    )
    return _loaded(file)


def _loaded(file: str) -> Library:
    try:
        return Library(file)
    except (OSError, AttributeError) as error:
        hint = " UCX is missing (Debian: libucx0)." if "libuc" in str(error).split(":")[0] else ""
        raise ImportError(f"hcomp: {file} cannot be loaded: {error}.{hint}") from error


@functools.lru_cache(maxsize=None)
def local() -> Library:
    """libhcomp_local.so, which needs neither UCX nor MPI."""
    return _loaded(_found(candidates("local", "libhcomp_local.so"), "there is no libhcomp_local.so"))


def any_library() -> Library:
    """Any library, for functions that all libraries share.

    Prefers a loaded one, then the one that HCOMP_GROUP_LIBRARY names.
    """
    if of_mpi.cache_info().currsize > 0:
        return of_mpi()
    if os.environ.get("HCOMP_GROUP_LIBRARY") or of_ucx.cache_info().currsize > 0:
        return of_ucx()
    errors = []
    for load in (local, of_ucx, of_mpi):
        try:
            return load()
        except ImportError as error:
            errors.append(str(error))
    raise ImportError("\n".join(errors))


def candidates(folder: str, name: str) -> list[Path]:
    """Paths where a library can be.

    folder:  "openmpi", "mpich", "ucx" or "local", as in plugins/ of a build
    """
    here = Path(__file__).resolve().parent
    places = [here, here / folder]
    # In a checkout this is plugins/python/hcomp/, and the builds are beside plugins/.
    if len(here.parents) > 2 and here.parents[1].name == "plugins":
        root = here.parents[2]
        # Python cannot load libraries built with sanitizers.
        builds = [root / "build", *sorted(root.glob("build-*"))]
        builds = [build for build in builds if build.name not in ("build-asan", "build-tsan")]
        places += [build / "plugins" / folder for build in builds]
    prefixes = [sys.prefix, "/usr/local", "/usr"]
    if len(here.parents) > 3 and here.parents[2].name == "share":  # installed by CMake
        prefixes.insert(0, str(here.parents[3]))
    for prefix in dict.fromkeys(prefixes):
        multiarch = getattr(sys.implementation, "_multiarch", "")
        for lib in dict.fromkeys(["lib", "lib64", f"lib/{multiarch}" if multiarch else "lib"]):
            places.append(Path(prefix) / lib / "hcomp" / folder)
    return [place / name for place in places]


def _found(files: list[Path], otherwise: str) -> str:
    for file in files:
        if file.exists():
            return str(file)
    looked = "".join(f"\n  {file}" for file in files)
    raise ImportError(f"hcomp: {otherwise}. Looked for it in{looked}")


def _mpi_of_mpi4py() -> str:
    """Name of mpi4py's MPI, as in the folders of plugins: "openmpi", "mpich"."""
    from mpi4py import MPI

    text = MPI.Get_library_version()
    if "Open MPI" in text:
        return "openmpi"
    if "MPICH" in text:
        return "mpich"
    raise ImportError(f"hcomp: mpi4py uses an MPI that hcomp has no library for: {text.strip()}")


def _fitting(library: Library, mpi: str) -> Library:
    built_for = library.built_for()
    if {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi] not in built_for:
        raise ImportError(f"hcomp: {library.file} is for {built_for}, mpi4py uses {mpi}")
    return library
