"""Work that is done by one thread in the order in which it was given, or by who waits for it."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Optional

from torch._C._distributed_c10d import Work
from torch.futures import Future

#: Gives the tensors of a collective, or whatever the caller waits for
Operation = Callable[[], Any]


class HcompWork(Work):
    """An operation, with what it gives or raises.

    PyTorch 2.15 hides what it does not know of a Work in Python: is_completed() is always False for
    the caller of a collective, get_future().done() is right.

    anywhere:  whoever waits for it does it, where the thread of the queue has not begun to
    """

    def __init__(self, operation: Operation, anywhere: bool = False) -> None:
        super().__init__()
        self._operation = operation
        self._anywhere = anywhere
        self._begun = threading.Lock()  # taken for good by who does it
        self._done = threading.Event()
        self._error: Optional[BaseException] = None
        self._start: Future = Future()
        # A future that a callback fails has failed for DistributedDataParallel's C++, too.
        self._future = self._start.then(lambda _: self._run())

    def start(self) -> None:
        """Do it in this thread, unless another one has begun to."""
        if self._begun.acquire(blocking=False):
            self._start.set_result(None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if self._anywhere and not timeout:
            self.start()
        if not self._done.wait(timeout.total_seconds() or None):
            raise TimeoutError(f"hcomp: not done within {timeout.total_seconds()} s")
        try:
            self._future.wait()
        except Exception:
            raise self._error from None  # as it was raised, not wrapped
        return True

    def get_future(self) -> Future:
        return self._future

    def _run(self) -> Any:
        try:
            return self._operation()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._done.set()


class DoneWork(Work):
    """What a collective gave that is done already."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def get_future(self) -> Future:
        future: Future = Future()
        future.set_result(self._result)
        return future


class WorkQueue:
    """Runs operations one after the other, in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._works: queue.SimpleQueue[Optional[HcompWork]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, operation: Operation, anywhere: bool = False) -> HcompWork:
        work = HcompWork(operation, anywhere)
        self.put_work(work)
        return work

    def put_work(self, work: HcompWork) -> None:
        self._works.put(work)

    def call(self, operation: Operation) -> Any:
        """What it gives, after all that was given before."""
        work = self.put(operation)
        work.wait()
        return work.get_future().value()

    def close(self) -> None:
        """After all that was given."""
        self._works.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.start()
