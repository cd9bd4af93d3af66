"""The Work objects of the back end."""

from __future__ import annotations

import functools
import threading
from datetime import timedelta
from typing import Any, Callable, Optional

from torch._C._distributed_c10d import Work
from torch.futures import Future

#: Returns the tensors of a collective, or another result for the caller
Operation = Callable[[], Any]

_no_limit = timedelta(0)
_asked = threading.local()  #: .found: list for Works whose get_future is called in this thread


class HcompWork(Work):
    """An operation with its result or exception.

    anywhere:  a waiting thread may run the operation if the queue's thread has not started it
    """

    def __init__(self, operation: Operation, anywhere: bool = False) -> None:
        super().__init__()
        self._operation = operation
        self._anywhere = anywhere
        self._begun = threading.Lock()  # held forever by the thread that runs it
        self._done = threading.Event()
        self._then: Optional[Callable[[], None]] = None
        self._error: Optional[BaseException] = None
        self._start: Future = Future()
        # If a callback raises, this future has failed for DistributedDataParallel's C++ code, too.
        self._future = self._start.then(lambda _: self._run())

    def start(self, then: Optional[Callable[[], None]] = None) -> bool:
        """Run the operation in this thread, unless another thread has started it.

        then:  called after the operation, before the callbacks of the future

        Returns True if it ran in this thread.
        """
        if not self._begun.acquire(blocking=False):
            return False
        self._then = then
        self._start.set_result(None)
        return True

    def wait(self, timeout: timedelta = _no_limit) -> bool:
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
        _answer(self)
        return self._future

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> Any:
        return self._future.value()

    def _run(self) -> Any:
        try:
            return self._operation()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._done.set()
            if self._then:
                self._then()


class DoneWork(Work):
    """Result of a finished collective."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    def wait(self, timeout: timedelta = _no_limit) -> bool:
        return True

    def get_future(self) -> Future:
        _answer(self)
        future: Future = Future()
        future.set_result(self._result)
        return future

    def is_completed(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result


class GlooWork(Work):
    """A Work of the inner Gloo group."""

    def __init__(self, inner: Work) -> None:
        super().__init__()
        self._inner = inner

    def wait(self, timeout: timedelta = _no_limit) -> bool:
        return self._inner.wait(timeout)

    def get_future(self) -> Future:
        _answer(self)
        return self._inner.get_future()

    def is_completed(self) -> bool:
        return self._inner.is_completed()

    def is_success(self) -> bool:
        return self._inner.is_success()

    def exception(self) -> Optional[BaseException]:
        return self._inner.exception()

    def result(self) -> Any:
        return self._inner.result()

    def source_rank(self) -> int:
        return self._inner.source_rank()

    def _source_rank(self) -> int:
        return self._inner._source_rank()


@functools.lru_cache(maxsize=None)
def forward_to_python() -> None:
    """Make all methods above work for the caller of a collective.

    PyTorch 2.15 wraps a Work in Python in an object that forwards only wait() and get_future(). The
    other methods of Work then find the Work in Python through get_future().
    """
    for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
        setattr(Work, name, _forwarded(name, getattr(Work, name)))


def _forwarded(name: str, native: Callable[[Work], Any]) -> Callable[[Work], Any]:
    @functools.wraps(native)
    def call(work: Work) -> Any:
        _asked.found = []
        try:
            work.get_future()
        except RuntimeError:  # native sends and receives have no future
            pass
        found, _asked.found = _asked.found, None
        for one in found:
            method = getattr(type(one), name)
            if method is not call:  # its class has the method
                return method(one)
        return native(work)

    return call


def _answer(work: Work) -> None:
    found = getattr(_asked, "found", None)
    if found is not None:
        found.append(work)
