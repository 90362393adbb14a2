"""What the tests of all launchers share: the program they start, what it must print, and skipping with a reason."""
import os
import pathlib
import subprocess
import sys
import unittest

RANK = os.environ["LAUNCHED_RANK"]
BUILD = pathlib.Path(os.environ["LAUNCHER_TEST_BUILD"])
CANNOT_RUN_HERE = 77

# Of whatever started the tests.
LAUNCHERS = ("GIMBAL_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "PRTE_", "SLURM_", "TORCHELASTIC_")


def clean_environment(**added):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**kept, "GIMBAL_CONNECT_TIMEOUT": "60s", **added}


def run(command, timeout=120, **environment):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout,
                          env=clean_environment(**environment), check=False)


class JobTest(unittest.TestCase):
    def assert_job_ran(self, done, ranks, times=2):
        """Every rank of the job has said the sum of 1 to ranks, in as many communicators as launched_rank makes."""
        self.assertEqual(done.returncode, 0, done.stderr)
        said = sorted(line[line.index("rank "):] for line in done.stdout.splitlines() if "sum" in line)
        total = ranks * (ranks + 1) // 2
        self.assertEqual(said, sorted(f"rank {rank} of {ranks}: sum {total}" for rank in range(ranks) for _ in range(times)),
                         done.stdout + done.stderr)


def main():
    """As unittest.main(), but a test file whose tests were all skipped is skipped as a whole."""
    program = unittest.main(exit=False)
    result = program.result
    if result.wasSuccessful() and result.skipped and len(result.skipped) == result.testsRun:
        print(f"skipped: {result.skipped[0][1]}", file=sys.stderr)
        sys.exit(CANNOT_RUN_HERE)
    sys.exit(not result.wasSuccessful())
