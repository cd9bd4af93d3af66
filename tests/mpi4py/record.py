"""Runs mpi4py's own tests and records the outcome of each test on each rank.

    mpirun -n RANKS python3 record.py SUITE RESULTS [argument of runtests.py]...

SUITE is the folder of runtests.py. Rank r writes RESULTS.r: a line "test outcome" per test, also
for a test during which the rank crashed. Exits 0 for any outcomes.
"""

import os
import sys
import unittest

suite, results, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.dont_write_bytecode = True
sys.path.insert(0, suite)
import runtests  # noqa: E402

# The file is opened before MPI starts. Until then only the launcher's variables contain the rank.
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
out = open(f"{results}.{rank}", "w", buffering=1)


class Recorder(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        out.write(f"{test.id()} ")
        self._problem = None

    def stopTest(self, test):
        super().stopTest(test)
        out.write(f"{self._problem or 'passed'}\n")

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, "error")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._note(test, "failed")

    def _note(self, test, problem):
        if isinstance(test, unittest.TestCase):
            self._problem = problem
        else:  # an outcome of a whole class or module
            out.write(f"{test.id()} {problem}\n")


unittest.TextTestRunner.resultclass = Recorder
sys.argv = [os.path.join(suite, "runtests.py")] + arguments
runtests.main(arguments)
