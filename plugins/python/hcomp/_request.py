"""Nonblocking calls: the library runs them while the program continues."""

from __future__ import annotations

import ctypes
import threading
from typing import Optional

from ._library import CReport, HcompError, Library, Report


class _Call:
    """A request of the library, and the objects that must stay in memory until it is done."""

    def __init__(self, library: Library, keep: object) -> None:
        self.library = library
        self.request = ctypes.c_void_p()
        self.keep = keep

    def is_done(self, milliseconds: int) -> bool:
        if not self.request:
            return True
        done = ctypes.c_int()
        self.library.call("hcomp_test", self.request, milliseconds, ctypes.byref(done))
        return done.value != 0

    def free(self, report: Optional[CReport]) -> int:
        """Free a finished request and return its error code."""
        to = None if report is None else ctypes.byref(report)
        return self.library.status_of("hcomp_wait", ctypes.byref(self.request), to)

    def __del__(self) -> None:
        if self.request:  # it is done, see _dropped
            self.free(None)


#: Unfinished calls whose Request the program has dropped
_dropped: set[_Call] = set()


class Request:
    """A started nonblocking call. Do not use its arrays until ``wait`` returns.

    If the program drops the Request, the call still runs, but its errors are not reported.
    """

    def __init__(self, library: Library, function: str, *arguments: object, keep: object) -> None:
        """Start a call.

        function:  of the library; takes the arguments and the address of a request
        keep:      objects that must stay in memory until the call is done
        """
        for one in list(_dropped):  # a copy: other threads change the set
            if one.is_done(0):
                _dropped.discard(one)
        self._call = _Call(library, keep)
        self._lock = threading.Lock()  # protects the members below
        self._report: Optional[Report] = None
        self._error: Optional[HcompError] = None
        #: replaces the text of an HcompError if an argument was invalid
        self._wrong = ""
        library.call(function, *arguments, ctypes.byref(self._call.request))

    def __del__(self) -> None:
        if self._call.request:
            _dropped.add(self._call)

    def test(self) -> bool:
        """True if the call is done. ``wait`` then returns at once."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            return self._call.is_done(0)
        finally:
            self._lock.release()

    def wait(self) -> Report:
        """Wait for the call, and return the report or raise the error of the blocking call.

        May be called repeatedly. After an interrupt, for example Ctrl-C, the call continues.
        """
        with self._lock:
            if self._report is None and self._error is None:
                self._finish()
            if self._error is not None:
                raise self._error
            assert self._report is not None
            return self._report

    def _finish(self) -> None:
        call = self._call
        while not call.is_done(100):  # short waits let Python handle signals
            pass
        report = CReport()
        code = call.free(report)
        call.keep = None
        try:
            if self._wrong and code != HcompError.NOT_RUNNING:
                raise HcompError(HcompError.INVALID_ARGUMENT, self._wrong)
            call.library.check(code)
        except HcompError as error:
            self._error = error
        else:
            self._report = Report.of(report)
