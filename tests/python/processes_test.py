"""Ranks as processes: under gimbal-run by `python -m gimbal.run`, and when one of them dies."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from gimbal import run

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "numpy_mean.py"

DEATH = """
import os, signal, sys, time, numpy, gimbal
comm = gimbal.Communicator(timeout=60)
comm.barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
try:
    comm.all_reduce(numpy.ones(4))
except gimbal.RemoteFailure as error:
    print(error.peer, error.operation, time.monotonic() - begun < 1)
"""


def launch(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "gimbal.run", *arguments], capture_output=True, text=True, timeout=120, **options)


class ThePythonLauncher(unittest.TestCase):
    def test_starts_a_script_with_this_python(self):
        self.assertEqual(run.command(["-n", "2", "a.py", "b.py"]), ["-n", "2", sys.executable, "a.py", "b.py"])

    def test_leaves_programs_alone(self):
        for arguments in (["-n", "2", "--", "./a", "b.py"], ["-n", "2", "sh", "b.py"], ["-n", "2", sys.executable, "b.py"]):
            self.assertEqual(run.command(arguments), arguments)

    def test_runs_the_example(self):
        ended = launch("-n", "3", str(EXAMPLE))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(sorted(ended.stdout.splitlines()), [f"[{rank}] mean of 3 ranks: [1. 2. 3.]" for rank in range(3)])


class AKilledRank(unittest.TestCase):
    def test_is_named_by_its_peers_within_a_second(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(DEATH)
            script.flush()
            # By hand, since a launcher would end the others.
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "WORLD_SIZE": "3", "GIMBAL_RENDEZVOUS": f"file://{folder}"}
                ranks = [subprocess.Popen([sys.executable, script.name], env={**environment, "RANK": str(rank)},
                                          stdout=subprocess.PIPE, text=True) for rank in range(3)]
                outputs = [rank.communicate(timeout=60)[0].strip() for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, -signal.SIGKILL, 0])
        self.assertEqual(outputs, ["1 all_reduce True", "", "1 all_reduce True"])


if __name__ == "__main__":
    unittest.main()
