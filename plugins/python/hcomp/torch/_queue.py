"""Operations that run in submission order in one thread, or in the thread that waits for them."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from typing import Any, Optional

from .._library import HcompError
from ._work import HcompWork, Operation


class WorkQueue:
    """Runs operations one after the other, in threads of its own.

    Callbacks of a future may wait for later operations: while they run, another thread continues.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = os.getpid()
        self._works: queue.SimpleQueue[Optional[HcompWork]] = queue.SimpleQueue()
        self._turn = threading.Lock()  #: of the thread that takes an operation and runs it
        self._lock = threading.Lock()  #: protects the members below
        self._is_closed = False
        self._spare = 0  #: threads that wait for their turn
        self._threads: list[threading.Thread] = []
        self._add_thread()
        # Python ends the process with SIGABRT if it exits while a thread runs a callback.
        atexit.register(self.close, 1.0)

    def put(self, operation: Operation, anywhere: bool = False) -> HcompWork:
        work = HcompWork(operation, anywhere)
        self.put_work(work)
        return work

    def put_work(self, work: HcompWork) -> None:
        self.require_own_process()
        with self._lock:
            if self._is_closed:
                raise HcompError(HcompError.INVALID_ARGUMENT, f"{self._name}: is closed")
            self._works.put(work)

    def is_forked(self) -> bool:
        """Whether this is a copy in a forked process, which has none of the threads."""
        return self._process != os.getpid()

    def require_own_process(self) -> None:
        if self.is_forked():
            raise HcompError(
                HcompError.INVALID_ARGUMENT,
                f"{self._name}: process {os.getpid()} is a fork of process {self._process}, whose "
                "connections it must not use",
            )

    def call(self, operation: Operation) -> Any:
        """Run an operation after all earlier ones, and return its result."""
        work = self.put(operation)
        work.wait()
        return work.get_future().value()

    def close(self, timeout: Optional[float] = None) -> None:
        """Finish all operations and end the threads, within ``timeout`` seconds. None: no limit."""
        atexit.unregister(self.close)
        if self.is_forked():
            return
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._is_closed = True
            self._works.put(None)
        while True:
            with self._lock:  # _hand_over adds threads, which can be joined once they have started
                if not self._threads:
                    return
                thread = self._threads.pop()
            if thread is not threading.current_thread():  # a callback may close the queue
                thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def _add_thread(self) -> None:
        self._spare += 1
        self._threads.append(threading.Thread(target=self._run, name=self._name, daemon=True))
        self._threads[-1].start()

    def _run(self) -> None:
        while True:
            self._turn.acquire()
            with self._lock:
                self._spare -= 1
            work = self._works.get()
            if work is None:
                self._works.put(None)  # for the next thread
                self._turn.release()
                return
            if not work.start(self._hand_over):
                self._hand_over()
            with self._lock:
                self._spare += 1

    def _hand_over(self) -> None:
        """Let another thread continue. Called by the thread whose turn it is."""
        with self._lock:
            if self._spare == 0:
                self._add_thread()
        self._turn.release()
