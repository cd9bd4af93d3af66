"""Arrays that plans reduce: of NumPy in host memory, and of any library in CUDA device memory."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Optional

import numpy


@dataclass
class Described:
    """An array as the C API needs it; one that it cannot take has only ``wrong``."""

    wrong: str = ""  #: why the array is invalid; "" if it is valid
    address: Optional[int] = None
    values: int = 2**64 - 1  #: other ranks get an error for an impossible size
    stream: Optional[int] = None  #: of an array in device memory


def describe(x: Any, dtype: numpy.dtype[Any]) -> Described:
    """Describe ``x``, which must have values of ``dtype``."""
    if isinstance(x, numpy.ndarray):
        return _of_numpy(x, dtype)
    try:
        interface = getattr(x, "__cuda_array_interface__", None)
    except Exception as error:  # PyTorch refuses tensors that require gradients, for example
        return Described(f"x is a {type(x).__name__}: {error}")
    if interface is None:
        return Described(
            f"x is a {type(x).__name__}, not a numpy.ndarray, and in no memory of CUDA"
            " (it has no __cuda_array_interface__)"
        )
    return _of_device(x, interface, dtype)


def _of_numpy(x: numpy.ndarray[Any, Any], dtype: numpy.dtype[Any]) -> Described:
    wrong = ""
    if x.dtype != dtype:
        wrong = f"x has values of {x.dtype}, the plan is for {dtype}"
    elif isinstance(x, numpy.ma.MaskedArray):
        wrong = "x is a masked array; pass x.filled(0), or x.data"
    elif not x.flags.c_contiguous:
        wrong = f"x of shape {x.shape} is not C-contiguous; pass a copy"
    elif not x.flags.writeable:
        wrong = f"x of shape {x.shape} cannot be written to"
    return Described(wrong) if wrong else Described("", x.ctypes.data, x.size)


def _of_device(x: Any, interface: dict[str, Any], dtype: numpy.dtype[Any]) -> Described:
    """The interface: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""
    shape = tuple(interface["shape"])
    address, is_read_only = interface["data"]
    its_dtype = numpy.dtype(interface["typestr"])
    strides = interface.get("strides")
    if its_dtype != dtype:
        return Described(f"x has values of {its_dtype}, the plan is for {dtype}")
    if interface.get("mask") is not None:
        return Described("x is a masked array; pass its data")
    if strides is not None and not _is_contiguous(shape, tuple(strides), dtype.itemsize):
        return Described(f"x of shape {shape} is not C-contiguous; pass a copy")
    if is_read_only:
        return Described(f"x of shape {shape} cannot be written to")
    return Described("", address, math.prod(shape), _stream(x, interface))


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True


def _stream(x: Any, interface: dict[str, Any]) -> int:
    """The stream that orders work on x: the array's, PyTorch's current one, or the default one."""
    named = interface.get("stream")
    if named is not None:
        return int(named)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return int(torch.cuda.current_stream(x.device).cuda_stream)
    return 0
