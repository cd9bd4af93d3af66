"""Operations that run in submission order in one thread, or in the thread that waits for them."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Optional

from torch._C._distributed_c10d import Work
from torch.futures import Future

#: Returns the tensors of a collective, or another result for the caller
Operation = Callable[[], Any]


class HcompWork(Work):
    """An operation with its result or exception.

    PyTorch 2.15 hides subclass methods of Work: for the caller of a collective is_completed() is
    always False. get_future().done() is correct.

    anywhere:  a waiting thread may run the operation if the queue's thread has not started it
    """

    def __init__(self, operation: Operation, anywhere: bool = False) -> None:
        super().__init__()
        self._operation = operation
        self._anywhere = anywhere
        self._begun = threading.Lock()  # held forever by the thread that runs it
        self._done = threading.Event()
        self._error: Optional[BaseException] = None
        self._start: Future = Future()
        # If a callback raises, this future has failed for DistributedDataParallel's C++ code, too.
        self._future = self._start.then(lambda _: self._run())

    def start(self) -> None:
        """Run the operation in this thread, unless another thread has started it."""
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
            raise self._error from None  # the original exception, not wrapped
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
    """Result of a finished collective."""

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
        """Run an operation after all earlier ones, and return its result."""
        work = self.put(operation)
        work.wait()
        return work.get_future().value()

    def close(self) -> None:
        """Finish all operations and end the thread."""
        self._works.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.start()
