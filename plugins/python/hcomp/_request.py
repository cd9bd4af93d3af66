"""Calls that were started: the library makes them while the program goes on."""

from __future__ import annotations

import ctypes
import threading
from typing import Optional

from ._library import CReport, HcompError, Library, Report


class _Call:
    """A request of the library, and what must stay in memory until it is done."""

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
        """The code of the call, when it is done."""
        to = None if report is None else ctypes.byref(report)
        return self.library.code_of("hcomp_wait", ctypes.byref(self.request), to)

    def __del__(self) -> None:
        if self.request:  # it is done, see _dropped
            self.free(None)


#: Calls whose handles the program has dropped, and that were not done then
_dropped: set[_Call] = set()


class Request:
    """A call that was started. Arrays that it works on are not to be touched until ``wait`` returns.

    Where the handle is dropped, the call is made all the same, and its errors are lost.
    """

    def __init__(self, library: Library, function: str, *arguments: object, keep: object) -> None:
        """
        function:  of the library, which takes the arguments and where to write the request
        keep:      what must stay in memory until the call is done
        """
        for one in list(_dropped):  # a copy: other threads change it
            if one.is_done(0):
                _dropped.discard(one)
        self._call = _Call(library, keep)
        self._lock = threading.Lock()  # of what follows
        self._report: Optional[Report] = None
        self._error: Optional[HcompError] = None
        #: in place of the words of an HcompError that says what is wrong with an argument
        self._wrong = ""
        library.call(function, *arguments, ctypes.byref(self._call.request))

    def __del__(self) -> None:
        if self._call.request:
            _dropped.add(self._call)

    def test(self) -> bool:
        """Whether it is done: ``wait`` returns at once then."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            return self._call.is_done(0)
        finally:
            self._lock.release()

    def wait(self) -> Report:
        """What the call that is not started returns, or raises, when it is done.

        Any number of times. Where it is interrupted, as by Ctrl-C, the call goes on.
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
        while not call.is_done(100):  # Python hears of signals in between
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
