"""Processes that are ranks of a job; some are killed, some join later."""

import multiprocessing
import os
import queue
import signal
import tempfile
import time
from pathlib import Path

_processes = multiprocessing.get_context("fork")


def wait_until(happens, what, seconds=60):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.01)


class Ranks:
    """Each process runs function(number, directory, ...), in a directory that only they use."""

    def __init__(self, function, *arguments):
        self._made = tempfile.TemporaryDirectory()
        self._function, self._arguments = function, arguments
        self._answers = _processes.Queue()
        self._started = {}

    def __enter__(self):
        return self

    def start(self, *numbers):
        for number in numbers:
            self._started[number] = _processes.Process(target=self._run, args=(number,))
            self._started[number].start()

    def wait_for(self, name):
        """Waits until a process has made a file of that name in the directory."""
        wait_until((Path(self._made.name) / name).exists, f"a file {name}")

    def kill_when(self, name, number):
        """Kills a process when there is a file of that name in the directory."""
        self.wait_for(name)
        os.kill(self._started[number].pid, signal.SIGKILL)

    def _run(self, number):
        try:
            answer = self._function(number, self._made.name, *self._arguments)
            self._answers.put((number, True, answer))
        except BaseException as error:  # reported by the process that reads the answers
            self._answers.put((number, False, f"{type(error).__name__}: {error}"))

    def results(self, count):
        """Returns the answers by process number."""
        found = {}
        while len(found) < count:
            try:
                number, fine, answer = self._answers.get(timeout=60)
            except queue.Empty:
                raise AssertionError(f"no answer within 60 s, but from {sorted(found)}") from None
            assert fine, f"process {number}: {answer}"
            found[number] = answer
        return found

    def results_where_one_is_replaced(self):
        """Kills process 1 of three when a file `five` exists. Then starts process 3 when a file
        `two` exists: the remaining processes have made a call without process 1."""
        self.start(0, 1, 2)
        self.kill_when("five", 1)
        self.wait_for("two")
        self.start(3)
        return self.results(3)

    def __exit__(self, *_):
        for one in self._started.values():
            one.join(10)
            one.kill()
        self._made.cleanup()
