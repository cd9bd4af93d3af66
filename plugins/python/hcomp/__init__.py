"""Compressed all-reduce of NumPy arrays, on top of hcomp's C API.

Over MPI, with libhcomp.so of the MPI that mpi4py uses:

    from mpi4py import MPI
    import hcomp

    with hcomp.Plan(MPI.COMM_WORLD, gradient.size, gradient.dtype, "thc:bits=4") as mean:
        mean.all_reduce(gradient, mean=True)

Without MPI, with libhcomp_ucx.so:

    with hcomp.Group.from_directory("/shared/run-17", rank, size) as group:
        with hcomp.Plan(group, gradient.size, gradient.dtype, "thc:bits=4") as mean:
            mean.all_reduce(gradient, mean=True)

ElasticGroup is fault-tolerant: ranks may fail, and new ranks may join.

PyTorch uses hcomp through ``torch.distributed.init_process_group("cpu:hcomp")``, see hcomp.torch.
MPI programs that call ``comm.Allreduce`` need no changes: preload libhcomp_pmpi.so and set
HCOMP_CONFIG.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from . import _library
from ._elastic import ElasticGroup
from ._group import DirectoryStore, Group, Store
from ._library import HcompError, Report
from ._request import Request
from ._plan import Plan, comm_set

__all__ = [
    "DirectoryStore",
    "ElasticGroup",
    "Group",
    "HcompError",
    "Report",
    "Request",
    "Store",
    "Plan",
    "Version",
    "comm_set",
    "library_path",
    "version",
]


class Version(NamedTuple):
    major: int
    minor: int
    patch: int


def version() -> Version:
    """Version of the loaded library."""
    numbers = [ctypes.c_int() for _ in Version._fields]
    _library.any_library().call("hcomp_version", *(ctypes.byref(one) for one in numbers))
    return Version(*(one.value for one in numbers))


def __getattr__(name: str) -> str:
    if name == "__version__":
        return ".".join(map(str, version()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def library_path(over: str = "mpi") -> str:
    """Path of the library over "mpi" or "ucx". Loads the library if necessary."""
    return {"mpi": _library.of_mpi, "ucx": _library.of_ucx}[over]().file


for _public in (DirectoryStore, ElasticGroup, Group, HcompError, Report, Request, Store, Plan):
    _public.__module__ = __name__
