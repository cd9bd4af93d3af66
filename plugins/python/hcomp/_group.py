"""Groups of ranks without MPI, and how their ranks find each other."""

from __future__ import annotations

import ctypes
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Optional, Protocol, Union

from . import _library
from ._library import CExchange, CReport
from ._request import Request

if TYPE_CHECKING:
    from mpi4py import MPI

#: All-gathers bytes in rank order. All ranks pass the same length.
Exchange = Callable[[bytes], "list[bytes]"]


class Store(Protocol):
    """A key-value store that all ranks share, for example a torch.distributed.Store."""

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Wait until another rank has set the key, and return its value."""
        ...


class DirectoryStore:
    """A Store in a shared directory, with one file per value.

    path:     a directory for this run only; created if it does not exist
    timeout:  limit of ``get`` in seconds
    """

    def __init__(self, path: Union[str, os.PathLike[str]], timeout: float = 30.0) -> None:
        self.path = Path(path)
        self.timeout = timeout
        self.path.mkdir(parents=True, exist_ok=True)

    def set(self, key: str, value: bytes) -> None:
        draft = self.path / f".{key}.{os.getpid()}"
        draft.write_bytes(value)
        try:
            os.link(draft, self.path / key)  # complete, and never over an existing file
        except FileExistsError:
            raise FileExistsError(
                f"{self.path / key} is there already, of an earlier run or of a second rank of this "
                "number; every run needs a directory of its own"
            ) from None
        finally:
            draft.unlink()

    def get(self, key: str) -> bytes:
        left, looked = self.timeout, time.monotonic()
        while not (self.path / key).exists():
            now = time.monotonic()
            # Time in which the process is stopped does not count, see deadline.hpp.
            left, looked = left - min(now - looked, self.timeout / 4), now
            if left <= 0:
                raise TimeoutError(
                    f"{self.path / key} has not come within {self.timeout} s; has every rank started?"
                )
            time.sleep(0.005)
        return (self.path / key).read_bytes()


class Group(_library.Handle):
    """Ranks 0 to size - 1, connected by UCX, without MPI. Creation is collective.

    If a rank fails or is silent for ``timeout`` seconds, all other ranks raise an HcompError with
    code TRANSPORT and its number in the text. The group can then only be closed. Only one thread at
    a time may use the group and its Plans.

    exchange:  an all-gather over any channel; called twice, during creation only
    timeout:   limit in seconds for connecting, for one message, and for closing; 0: no limit
    id:        a number for this set of ranks, equal on its ranks. Groups with different numbers use
               different random draws. 0: all ranks of a job
    """

    def __init__(
        self, rank: int, size: int, exchange: Exchange, timeout: float = 30.0, id: int = 0
    ) -> None:
        super().__init__(_library.of_ucx(), "hcomp_group_free")
        self.rank = rank
        self.size = size
        raised: list[BaseException] = []

        def exchanged(context: object, mine: int, count: int, together: int) -> int:
            try:
                parts = exchange(ctypes.string_at(mine, count))
                if [len(part) for part in parts] != [count] * size:
                    raise ValueError(
                        f"the exchange gave values of {[len(part) for part in parts]} bytes, "
                        f"expected are {size} of {count}"
                    )
                ctypes.memmove(together, b"".join(parts), count * size)
            except BaseException as error:  # it must not propagate into C code
                raised.append(error)
                return 1
            return 0

        code = self._library.status_of(
            "hcomp_group_create",
            rank,
            size,
            CExchange(exchanged),
            None,
            round(1000 * timeout),
            id,
            ctypes.byref(self._pointer),
        )
        if raised:
            raise raised[0]
        self._library.check(code)

    @classmethod
    def from_store(
        cls,
        store: Store,
        rank: int,
        size: int,
        timeout: float = 30.0,
        prefix: str = "hcomp",
        id: int = 0,
    ) -> Group:
        """Create a group whose ranks meet in a store, for example a torch.distributed.Store.

        prefix:  of the keys; unique for every group that uses the same store
        """
        rounds = iter(range(2**31))

        def exchange(mine: bytes) -> list[bytes]:
            name = f"{prefix}.{next(rounds)}"
            store.set(f"{name}.{rank}", mine)
            keys = [f"{name}.{other}" for other in range(size)]
            if hasattr(store, "wait") and timeout > 0:
                store.wait(keys, timedelta(seconds=timeout))
            return [bytes(store.get(key)) for key in keys]

        return cls(rank, size, exchange, timeout, id)

    @classmethod
    def from_directory(
        cls, path: Union[str, os.PathLike[str]], rank: int, size: int, timeout: float = 30.0
    ) -> Group:
        """Create a group whose ranks meet in a directory, which must belong to this run only."""
        return cls.from_store(DirectoryStore(path, timeout or float("inf")), rank, size, timeout)

    @classmethod
    def from_mpi(cls, comm: MPI.Comm, timeout: float = 30.0) -> Group:
        """Create a group of an mpi4py communicator's ranks. Any MPI; it only exchanges addresses.
        """
        return cls(comm.rank, comm.size, comm.allgather, timeout)

    def configure(self, settings: Optional[str]) -> None:
        """Set rules, as in HCOMP_CONFIG, for reductions without a Plan. None: full precision.

        Collective, equal on all ranks.
        """
        self._library.call("hcomp_group_set", self.handle, _library.in_c(settings))

    def close(self) -> None:
        """Free the group. Connections end after its last Plan is closed, too. Collective."""
        super().close()

    def __repr__(self) -> str:
        return f"hcomp.Group(rank {self.rank} of {self.size})"

    # ---- Collectives on memory addresses, for packages like hcomp.torch --------------------------

    #: Value types by name: number in the C API, and bytes per value
    types = {
        "float32": (0, 4),
        "float64": (1, 8),
        "float16": (2, 2),
        "bfloat16": (3, 2),
        "int32": (4, 4),
        "int64": (5, 8),
    }

    def all_reduce_at(self, x: int, values: int, type: str, mean: bool = False) -> CReport:
        """All-reduce the ``values`` values at address ``x``, in place."""
        report = CReport()
        self._library.call(
            "hcomp_group_all_reduce",
            self.handle,
            x,
            values,
            self.types[type][0],
            int(mean),
            ctypes.byref(report),
        )
        return report

    def reduce_scatter_at(
        self, x: int, part: int, values: int, type: str, mean: bool = False
    ) -> CReport:
        """Reduce ``size * values`` values at ``x``, and write the r-th part to ``part`` on rank r.
        """
        report = CReport()
        self._library.call(
            "hcomp_group_reduce_scatter",
            self.handle,
            x,
            values,
            self.types[type][0],
            int(mean),
            part,
            ctypes.byref(report),
        )
        return report

    def all_gather_at(self, mine: int, count: int, together: int) -> None:
        """All-gather ``count`` bytes of every rank to ``together``, in rank order."""
        self._library.call("hcomp_group_all_gather", self.handle, mine, count, together)

    def broadcast_at(self, x: int, count: int, root: int) -> None:
        """Broadcast the ``count`` bytes at ``x`` of rank ``root``, in place."""
        self._library.call("hcomp_group_broadcast", self.handle, x, count, root)

    # Nonblocking versions, see Plan.start_all_reduce. The buffers and `keep` must stay in memory
    # until the call is done.

    def start_all_reduce_at(
        self, x: int, values: int, type: str, mean: bool = False, keep: object = None
    ) -> Request:
        """Start ``all_reduce_at``."""
        number = self.types[type][0]
        return self._request("all_reduce", x, values, number, int(mean), keep=keep)

    def start_reduce_scatter_at(
        self, x: int, part: int, values: int, type: str, mean: bool = False, keep: object = None
    ) -> Request:
        """Start ``reduce_scatter_at``."""
        number = self.types[type][0]
        return self._request("reduce_scatter", x, values, number, int(mean), part, keep=keep)

    def start_all_gather_at(
        self, mine: int, count: int, together: int, keep: object = None
    ) -> Request:
        """Start ``all_gather_at``."""
        return self._request("all_gather", mine, count, together, keep=keep)

    def start_broadcast_at(self, x: int, count: int, root: int, keep: object = None) -> Request:
        """Start ``broadcast_at``."""
        return self._request("broadcast", x, count, root, keep=keep)

    def _request(self, name: str, *arguments: object, keep: object) -> Request:
        function = f"hcomp_group_{name}_start"
        return Request(self._library, function, self.handle, *arguments, keep=keep)
