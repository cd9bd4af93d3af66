"""Common parts of the gradient hooks: Plans and residuals by name, and statistics."""

from __future__ import annotations

import threading
import time
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

import numpy
import torch
import torch.distributed as dist

from .. import Group, HcompError, Request, Plan
from .._library import largest_error
from ._queue import WorkQueue

Tensor = torch.Tensor


@dataclass(frozen=True)
class HookReport:
    """Statistics of a state on this rank so far."""

    steps: int  #: completed steps
    values: int  #: of the last step's gradients
    bytes_sent: int  #: headers included
    ratio: float  #: bytes of float32 gradients in a ring, divided by bytes_sent
    seconds: float  #: spent in reductions; NaN on devices
    hidden: float  #: share of that time that overlaps with backward; NaN on devices
    error: float  #: bound on any value's error in the last step; NaN: a codec states none
    dominance: float  #: of the last step, see Report; NaN over a process group
    #: parameters that became NaN on all ranks because of NaN or infinity; -1 over a process group
    nonfinite: int
    #: energy of the residual relative to the gradients: the largest of the last step's reductions.
    #: Grows from step to step if error feedback diverges; 0 in full-precision steps, NaN over a
    #: process group
    residual: float


@dataclass
class _Stats:
    """Data of a report; values, busy, error, dominance and residual are of one step."""

    steps: int = 0
    values: int = 0
    bytes_sent: int = 0
    float_bytes: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0  #: seconds
    exposed: float = 0.0  #: seconds without other work
    error: float = 0.0
    dominance: float = 0.0
    nonfinite: int = 0
    residual: float = 0.0


def connect(group: Optional[dist.ProcessGroup], timeout: float) -> Group:
    """Create a Group with the ranks of a torch.distributed group, which exchanges the addresses."""
    size = dist.get_world_size(group)

    def exchange(mine: bytes) -> list[bytes]:
        together: list[Any] = [None] * size
        dist.all_gather_object(together, mine, group)
        return together

    ranks = [] if group is None else dist.get_process_group_ranks(group)
    id = zlib.crc32(repr(ranks).encode()) if ranks else 0
    return Group(dist.get_rank(group), size, exchange, timeout, id)


def residual_of(total: Plan) -> Optional[Tensor]:
    """Residual of a plan; None without error feedback."""
    try:
        return torch.from_numpy(total.residual)
    except HcompError:
        return None


def restored(
    state: Union[dict[str, Any], Sequence[dict[str, Any]]], size: int, rank: int, names: set[str]
) -> tuple[int, dict[str, Tensor]]:
    """The step and the residuals of a state_dict, or of those of all ranks of a previous run.

    size, rank:  of this run
    names:       of its parameters
    """
    states = [state] if isinstance(state, dict) else list(state)
    if not states or any({"step", "ranks", "residuals"} - set(one) for one in states):
        raise ValueError(
            f"hcomp.torch: {len(states)} states, of {[sorted(one) for one in states]}; every state "
            "is what state_dict() gave, of step, ranks and residuals"
        )
    before = states[0]["ranks"]
    if isinstance(state, dict):
        if before != size:
            raise ValueError(
                f"hcomp.torch: the state is of one of {before} ranks, these are {size}; give "
                f"a list of the states of all {before}"
            )
    elif len(states) != before:
        raise ValueError(f"hcomp.torch: {len(states)} states of a run with {before} ranks")
    elif before == size:
        states = [states[rank]]
    lost = {
        name: torch.stack([one["residuals"][name] for one in states]).mean(0)
        for name in states[0]["residuals"]
    }
    if unknown := sorted(set(lost) - names):
        warnings.warn(
            f"hcomp.torch: the model has no parameter {', '.join(unknown)}; its residual "
            "is dropped",
            stacklevel=3,
        )
    return states[0]["step"], {name: one for name, one in lost.items() if name in names}


class Steps:
    """Which steps run in full precision. Arguments as in HookState."""

    warm_up: int
    full_every: int

    def is_full(self, step: int) -> bool:
        """True if the step runs in full precision."""
        return step < self.warm_up or (self.full_every > 0 and (step + 1) % self.full_every == 0)


def wrong_steps(warm_up: int, full_every: int) -> str:
    """Why the arguments are invalid; "" if they are valid."""
    if min(warm_up, full_every) >= 0:
        return ""
    return f"warm_up is {warm_up}, full_every {full_every}; they are 0 or more"


class SumState(Steps):
    """Plans by name, over one set of connections. Arguments as in HookState.

    One thread runs the reductions in submission order. If ``at_a_time`` is more than 1, it starts
    that number before the first is done, and a second thread waits for them in order.
    """

    def __init__(
        self,
        names: Iterable[str],
        codec: str,
        group: Optional[dist.ProcessGroup],
        warm_up: int,
        full_every: int,
        timeout: float,
        callback: Optional[Callable[[HookReport], None]],
        at_a_time: int = 1,
    ) -> None:
        self._set_up(
            names, codec, group, warm_up, full_every, timeout, callback, at_a_time
        )

    def _set_up(
        self,
        names: Iterable[str],
        codec: str,
        group: Optional[dist.ProcessGroup],
        warm_up: int,
        full_every: int,
        timeout: float,
        callback: Optional[Callable[[HookReport], None]],
        at_a_time: int,
    ) -> None:
        """Connect the ranks. Collective. GroupState replaces this."""
        if wrong := wrong_steps(warm_up, full_every):
            raise ValueError(wrong)
        if not isinstance(at_a_time, int):
            raise TypeError(f"at_a_time is {at_a_time!r}; it is a whole number, 1 or more")
        self.codec = codec
        self.warm_up = warm_up
        self.full_every = full_every
        self.steps = 0  #: submitted
        self._words = codec
        self._names = set(names)
        self._callback = callback
        self._lost: dict[str, Tensor] = {}  #: from a checkpoint, until the first use of the name
        self._now = _Stats()
        self._working = 0  #: reductions in progress
        self._lock = threading.Lock()  #: protects both
        self._done = HookReport(0, 0, 0, 1.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
        self._plans: dict[tuple[str, str], Plan] = {}  #: by name and codec
        self._group = connect(group, timeout)
        _require_at_a_time(self._group, at_a_time)
        # The order of additions is the same for every value, wherever it is in the vector.
        self._group.configure("all: identity algorithm=recursive_doubling min=0")
        self._at_a_time = at_a_time
        self._free = threading.Semaphore(at_a_time)  #: free places for reductions
        self._queue = WorkQueue("hcomp.torch")
        self._finishing = WorkQueue("hcomp.torch, waiting")
        self.size = self._group.size
        # Refuses invalid codecs now, on all ranks.
        with Plan(self._group, 0, numpy.float32, self._words) as nothing:
            self._shard_alignment = nothing.shard_alignment

    # ---- State and report ------------------------------------------------------------------------

    def report(self) -> HookReport:
        return self._done

    def state_dict(self) -> dict[str, Any]:
        """State of this rank: the step, and the residuals by name. Waits for submitted reductions.
        """

        lost: dict[str, Tensor] = {}

        def operation() -> None:
            for (name, words), total in self._plans.items():
                if words == self._words and (found := residual_of(total)) is not None:
                    lost[name] = found

        self._after_all(operation)
        return {"step": self.steps, "ranks": self.size, "residuals": {**self._lost, **lost}}

    def load_state_dict(self, state: Union[dict[str, Any], Sequence[dict[str, Any]]]) -> None:
        """Restore this rank's state, or the states of all ranks of a previous run from a list.

        The list allows another number of ranks. Each rank then starts with the mean of all
        residuals, which preserves their mean over the ranks. Residuals of unknown names are dropped
        with a warning.
        """
        step, lost = restored(state, self.size, self._group.rank, self._names)
        self._after_all(self._close_plans)
        self._lost = lost
        self.steps = step

    def close(self) -> None:
        """Close the connections after all submitted reductions. Collective."""
        self._queue.close()
        self._finishing.close()
        self._close_plans()
        self._group.close()

    def _after_all(self, operation: Callable[[], None]) -> None:
        self._queue.call(lambda: self._finishing.call(operation))

    def _close_plans(self) -> None:
        for total in self._plans.values():
            total.close()
        self._plans.clear()

    # ---- For the threads -------------------------------------------------------------------------

    def _sum(self, name: str, values: int, words: str) -> Plan:
        if (name, words) not in self._plans:
            total = Plan(self._group, values, numpy.float32, words)
            if name in self._lost and residual_of(total) is not None:
                lost = self._lost.pop(name)
                if lost.numel() == values:
                    total.residual = lost.numpy()
                else:
                    warnings.warn(
                        f"hcomp.torch: {name} has {values} values, the saved residual has "
                        f"{lost.numel()}; the residual is dropped"
                    )
            self._plans[name, words] = total
        return self._plans[name, words]

    def _prepared(self, name: str, flat: Tensor, step: int) -> tuple[Plan, Optional[Plan]]:
        """The plan for `flat`: with the state's codec, or with `identity` in a full-precision step.

        In a full-precision step it adds the residual to `flat`, and the second result is the plan
        that the residual belongs to.
        """
        total = self._sum(name, flat.numel(), self._words)
        lost = residual_of(total) if self.is_full(step) else None
        if lost is not None:
            flat += lost
        used = self._sum(name, flat.numel(), "identity") if self.is_full(step) else total
        used.set_draws(zlib.crc32(name.encode()), step)
        return used, None if lost is None else total

    def _finished(self, report: Callable[[], Any], flat: Tensor, given: Optional[Plan] = None) -> None:
        """Complete a reduction.

        report:  returns the report, or raises
        given:   plan whose residual was added to `flat`
        """
        try:
            self._add(report())
        except HcompError as error:
            if error.code != HcompError.NONFINITE:
                raise
            flat.fill_(float("nan"))
            with self._lock:
                self._now.nonfinite += 1
        if given is not None and flat.isfinite().all():
            given.residual = numpy.zeros(flat.numel(), numpy.float32)

    def _start(
        self,
        over: Union[Plan, Group],
        call: str,
        arguments: tuple[Any, ...],
        finish: Callable[[Callable[[], Any]], None],
        errors: list[BaseException],
    ) -> None:
        """Start a reduction as soon as a place is free. With at_a_time=1 it runs at once.

        call:    method that runs it, for example "all_reduce"; start_all_reduce starts it
        finish:  (a function that returns the report or raises) is called when the reduction is done
        errors:  receives exceptions
        """
        if self._at_a_time == 1:
            try:
                with self._busy():
                    finish(lambda: getattr(over, call)(*arguments))
            except BaseException as error:
                errors.append(error)
            return
        self._free.acquire()
        self._begin()
        try:
            started: Request = getattr(over, f"start_{call}")(*arguments)
        except BaseException as error:
            errors.append(error)
            self._end()
            self._free.release()
            return

        def operation() -> None:
            try:
                finish(started.wait)
            except BaseException as error:
                errors.append(error)
            finally:
                self._end()
                self._free.release()

        self._finishing.put(operation)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._begin()
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        with self._lock:
            self._working += 1
            if self._working == 1:
                self._began = time.monotonic()

    def _end(self) -> None:
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self._now.busy += time.monotonic() - self._began

    def _add(self, made: Any) -> None:
        with self._lock:
            now = self._now
            now.bytes_sent += made.bytes_sent
            now.error = largest_error((now.error, made.error))
            now.dominance = max(now.dominance, made.dominance)
            now.residual = max(now.residual, made.residual)

    def _finish(self, exposed: float, ring: float) -> None:
        """Complete a step after all its reductions.

        exposed:  seconds since the last of them was submitted
        ring:     how often float32 values travel, per rank
        """
        now = self._now
        now.steps += 1
        now.float_bytes += 4 * now.values * ring
        now.seconds += now.busy
        now.exposed += min(exposed, now.busy)
        self._done = HookReport(
            now.steps,
            now.values,
            now.bytes_sent,
            now.float_bytes / now.bytes_sent if now.bytes_sent else 1.0,
            now.seconds,
            max(0.0, 1 - now.exposed / now.seconds) if now.seconds else 0.0,
            now.error,
            now.dominance,
            now.nonfinite,
            now.residual,
        )
        now.values, now.busy, now.error, now.dominance, now.residual = 0, 0.0, 0.0, 0.0, 0.0
        if self._callback:
            self._callback(self._done)


def _require_at_a_time(group: Group, at_a_time: int) -> None:
    """Raise on all ranks alike if `at_a_time` is invalid or differs, and close the group."""
    mine = numpy.array([at_a_time], numpy.int64)
    all = numpy.empty(group.size, numpy.int64)
    group.all_gather_at(mine.ctypes.data, mine.nbytes, all.ctypes.data)
    if (all == max(all[0], 1)).all():
        return
    group.close()
    raise ValueError(
        f"at_a_time is {all.tolist()} on ranks 0 to {group.size - 1}; it is the same on all, 1 or more"
    )


def require_host(x: Tensor) -> None:
    if x.device.type != "cpu":
        raise TypeError(
            f"hcomp.torch: gradients are on {x.device}, the state was made for host memory"
        )
