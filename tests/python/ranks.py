"""Processes that are ranks of a job, of which some are killed and others come."""

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
    """Each does function(number, directory, ...), in a directory of theirs alone."""

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

    def kill_when(self, name, number):
        """When a process has made a file of that name in the directory."""
        wait_until((Path(self._made.name) / name).exists, f"a file {name}")
        os.kill(self._started[number].pid, signal.SIGKILL)

    def _run(self, number):
        try:
            answer = self._function(number, self._made.name, *self._arguments)
            self._answers.put((number, True, answer))
        except BaseException as error:  # to be told by whoever looks at the answers
            self._answers.put((number, False, f"{type(error).__name__}: {error}"))

    def results(self, count):
        """By number."""
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
        """Of three processes number 1 is killed once there is a file `five`; then number 3 comes, once
        there is a file `two`: those who are left have summed without it."""
        self.start(0, 1, 2)
        self.kill_when("five", 1)
        wait_until((Path(self._made.name) / "two").exists, "a file two")
        self.start(3)
        return self.results(3)

    def __exit__(self, *_):
        for one in self._started.values():
            one.join(10)
            one.kill()
        self._made.cleanup()
