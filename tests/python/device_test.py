"""Arrays in CUDA memory: ranks are processes on one GPU, or on the PTX machine."""

import ctypes
import subprocess
import sys

import numpy as np

import hcomp
from ranks import Ranks

ranks = 3
values = 5000
skipped = 77


class Runtime:
    """The functions of libcudart.so that the tests need."""

    def __init__(self):
        self._c = ctypes.CDLL(None)
        if not hasattr(self._c, "cudaMalloc"):
            self._c = ctypes.CDLL("libcudart.so")

    def __getattr__(self, name):
        def call(*arguments):
            code = getattr(self._c, name)(*arguments)
            assert code == 0, f"{name} returned {code}"

        return call


class DeviceArray:
    """An array in CUDA memory, as other libraries describe theirs."""

    def __init__(self, cuda, x, **changed):
        self.cuda, self.host, self.at = cuda, x.copy(), ctypes.c_void_p()
        cuda.cudaMalloc(ctypes.byref(self.at), ctypes.c_size_t(x.nbytes))
        self._copy(self.at, self.host.ctypes.data)
        self.changed = changed

    def _copy(self, to, source):
        pointer = ctypes.c_void_p
        nbytes = ctypes.c_size_t(self.host.nbytes)
        self.cuda.cudaMemcpy(pointer.from_param(to), pointer.from_param(source), nbytes, 4)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.host.shape,
            "typestr": self.host.dtype.str,
            "data": (self.at.value, False),
            "version": 3,
            **self.changed,
        }

    def get(self):
        self._copy(self.host.ctypes.data, self.at)
        return self.host


class Refused:
    """As a tensor of PyTorch that requires gradients."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("use detach()")


def drawn(rank, step, dtype=np.float32):
    return np.random.default_rng([7, rank, step]).uniform(-1, 1, values).astype(dtype)


def plans_on(rank, directory, function):
    with hcomp.Group.from_directory(directory, rank, ranks, timeout=20) as group:
        return function(rank, group)


def reduced(rank, group, codec, dtype, place):
    """Three steps; returns the results and the residual."""
    found = []
    with hcomp.Plan(group, values, dtype, codec) as plan:
        plan.set_draws(1, 0)
        for step in range(3):
            x = place(drawn(rank, step, dtype).reshape(50, -1))
            plan.all_reduce(x, mean=True)
            found.append(x.get() if hasattr(x, "get") else x)
        if "feedback" in codec:
            found.append(plan.residual)
    return found


def same_as_in_host_memory(rank, group):
    cuda = Runtime()
    for dtype in (np.float32, np.float64):
        for codec in ("sign feedback=yes", "thc:bits=4 feedback=yes", "error_bounded:1e-3"):
            if dtype == np.float64 and codec.startswith("thc"):
                continue
            wanted = reduced(rank, group, codec, dtype, lambda x: x)
            found = reduced(rank, group, codec, dtype, lambda x: DeviceArray(cuda, x))
            assert all(map(np.array_equal, found, wanted)), (codec, dtype)


def follows_the_stream(rank, group):
    cuda = Runtime()
    stream = ctypes.c_void_p()
    cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
    x = DeviceArray(cuda, drawn(rank, 0), stream=stream.value)
    y = drawn(rank, 0)
    with hcomp.Plan(group, values, np.float32, "reproducible") as plan:
        plan.start_all_reduce(x).wait()
        plan.all_reduce(y)
    assert np.array_equal(x.get(), y)


def refuses(rank, group):
    cuda = Runtime()
    good = drawn(rank, 0)
    wrong = {
        "x has values of float64, the plan is for float32": DeviceArray(cuda, good.astype(float)),
        "is not C-contiguous": DeviceArray(cuda, good, strides=(8,)),
        "cannot be written to": DeviceArray(cuda, good, data=(1, True)),
        "x is a masked array": DeviceArray(cuda, good, mask=good),
        "x is a Refused: use detach()": Refused(),
        "x is a list, not a numpy.ndarray": [1.0] * values,
        "4999 values": DeviceArray(cuda, good[1:]),
    }
    with hcomp.Plan(group, values, np.float32, "fp16") as plan:
        for words, x in wrong.items():
            try:
                plan.all_reduce(x if rank == 1 else DeviceArray(cuda, good))
                raise AssertionError(f"no error: {words}")
            except hcomp.HcompError as error:
                assert rank != 1 or words in str(error), str(error)
        x = DeviceArray(cuda, good)
        plan.all_reduce(x)
        assert not np.array_equal(x.get(), good)


def has_no_device():
    """Asks in another process: this one starts processes that use CUDA."""
    check = "from hcomp import _library as l; l.any_library().call('hcomp_cuda_check')"
    said = subprocess.run([sys.executable, "-c", check], stderr=subprocess.PIPE, text=True)
    if said.returncode == 0:
        return ""
    assert "HcompError: hcomp_cuda_check: libhcomp_cuda.so: no usable GPU" in said.stderr, said
    return said.stderr.strip().splitlines()[-1]


if __name__ == "__main__":
    why = has_no_device()
    if why:
        print(f"Skipped: {why}")
        sys.exit(skipped)
    for test in (same_as_in_host_memory, follows_the_stream, refuses):
        with Ranks(plans_on, test) as started:
            started.start(*range(ranks))
            started.results(ranks)
    said = subprocess.check_output([sys.executable, "-m", "hcomp"], text=True)
    assert "on GPUs         arrays in CUDA memory stay there" in said, said
    print(f"3 tests of arrays in CUDA memory on {ranks} ranks")
