"""python -m hcomp: shows which libraries are available and which are missing."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import entry_points, version
from typing import Callable

from . import _library


def _library_text(load: Callable[[], _library.Library]) -> str:
    try:
        library = load()
    except ImportError as error:
        return f"missing: {error}"
    return f"{library.file}, for {library.built_for()}"


def _mpi_text() -> str:
    if importlib.util.find_spec("mpi4py") is None:
        return "missing: mpi4py is not installed"
    return _library_text(_library.of_mpi)


def _torch_text() -> str:
    if importlib.util.find_spec("torch") is None:
        return "missing: PyTorch is not installed"
    found = version("torch")
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < (2, 15):
        return f"PyTorch {found} has hooks, but no cpu:hcomp, which needs PyTorch 2.15"
    names = [one.name for one in entry_points(group="torch.distributed.backends")]
    known = "by itself" if "hcomp" in names else "after import hcomp.torch"
    return f"PyTorch {found} knows cpu:hcomp {known}"


def _cuda_text() -> str:
    try:
        _library.any_library().call("hcomp_cuda_check")
    except ImportError:
        return "missing: no library"
    except _library.HcompError as error:
        return f"missing: {str(error).removeprefix('hcomp_cuda_check: ')}"
    return "arrays in CUDA memory stay there"


for _what, _text in (
    ("without MPI", _library_text(_library.of_ucx)),
    ("over MPI", _mpi_text()),
    ("process groups", _library_text(_library.any_library)),
    ("on GPUs", _cuda_text()),
    ("in PyTorch", _torch_text()),
):
    print(f"{_what:<14}  {_text}")
