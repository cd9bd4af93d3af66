"""Ranks that are connected without MPI, and the ways in which they find each other."""

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

#: Gives every rank the bytes of all ranks, in the order of the ranks. All have as many.
Exchange = Callable[[bytes], "list[bytes]"]


class Store(Protocol):
    """Values by name that all ranks see, such as a torch.distributed.Store."""

    def set(self, key: str, value: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Waits until another rank has set it."""
        ...


class DirectoryStore:
    """A Store in a directory that all ranks see: a file for each value.

    path:     a directory of this run alone; it is made if it is not there
    timeout:  seconds that ``get`` waits
    """

    def __init__(self, path: Union[str, os.PathLike[str]], timeout: float = 30.0) -> None:
        self.path = Path(path)
        self.timeout = timeout
        self.path.mkdir(parents=True, exist_ok=True)

    def set(self, key: str, value: bytes) -> None:
        draft = self.path / f".{key}.{os.getpid()}"
        draft.write_bytes(value)
        try:
            os.link(draft, self.path / key)  # whole, and never over another one
        except FileExistsError:
            raise FileExistsError(
                f"{self.path / key} is there already, of an earlier run or of a second rank of this "
                "number; every run needs a directory of its own"
            ) from None
        finally:
            draft.unlink()

    def get(self, key: str) -> bytes:
        end = time.monotonic() + self.timeout
        while not (self.path / key).exists():
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{self.path / key} has not come within {self.timeout} s; has every rank started?"
                )
            time.sleep(0.005)
        return (self.path / key).read_bytes()


class Group(_library.Handle):
    """Ranks 0 to size - 1, connected by UCX, without MPI. Creation is collective.

    A rank that dies or says nothing for ``timeout`` seconds is an HcompError of code TRANSPORT on
    all others, with its number in the text; the group can only be closed then. Used by one thread
    at a time, with its sums.

    exchange:  an all-gather by any means; called twice, and not afterwards
    timeout:   seconds that connecting, one message, and the end may take; 0: for ever
    id:        which ranks of a job these are, by any number that all of them have: groups with
               different ones draw different random numbers; 0 for all ranks of a job
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
            except BaseException as error:  # it must not leave a function that C calls
                raised.append(error)
                return 1
            return 0

        code = self._library.code_of(
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
        """Ranks that find each other by a store, such as a torch.distributed.Store.

        prefix:  of the keys; another one for every group that uses the same store
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
        """Ranks that find each other by files in a directory, which is of this run alone."""
        return cls.from_store(DirectoryStore(path, timeout or float("inf")), rank, size, timeout)

    @classmethod
    def from_mpi(cls, comm: MPI.Comm, timeout: float = 30.0) -> Group:
        """The ranks of a communicator of mpi4py, of whatever MPI, which only introduces them."""
        return cls(comm.rank, comm.size, comm.allgather, timeout)

    def configure(self, settings: Optional[str]) -> None:
        """Rules, as in HCOMP_CONFIG, for sums that are not made by a Plan. None: full precision.

        Collective, equal on all ranks.
        """
        text = None if settings is None else settings.encode()
        self._library.call("hcomp_group_set", self.handle, text)

    def close(self) -> None:
        """Free it, and end its connections when its last Plan is closed, too. Collective."""
        super().close()

    def __repr__(self) -> str:
        return f"hcomp.Group(rank {self.rank} of {self.size})"

    # ---- On memory, for other packages such as hcomp.torch -------------------------------------

    #: Types of values, by name; bytes each
    types = {
        "float32": (0, 4),
        "float64": (1, 8),
        "float16": (2, 2),
        "bfloat16": (3, 2),
        "int32": (4, 4),
        "int64": (5, 8),
    }

    def all_reduce_at(self, x: int, values: int, type: str, mean: bool = False) -> CReport:
        """Plan the values at address ``x`` over all ranks, in place."""
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
        """Plan ``size * values`` values at ``x``; rank r gets the r-th part of them at ``part``."""
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
        """Put ``count`` bytes of every rank one after the other to ``together``."""
        self._library.call("hcomp_group_all_gather", self.handle, mine, count, together)

    def broadcast_at(self, x: int, count: int, root: int) -> None:
        """Put the ``count`` bytes at ``x`` of rank ``root`` there on all ranks."""
        self._library.call("hcomp_group_broadcast", self.handle, x, count, root)

    # The same, started, see Plan.start_all_reduce; `keep` must stay in memory until it is done, as what
    # the addresses are of.

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
