"""Ranks as processes: under gimbal-run by `python -m gimbal.run`, and when one of them dies."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from gimbal import run

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

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

# A rank dies in the middle of a step; the others make the next one without it.
DEATH_IN_A_STEP = """
import os, signal, time, numpy, gimbal
comm = gimbal.Communicator(timeout=60)
sync = gimbal.GradientSynchronizer(comm, {"first": (1000, "float32"), "last": (1000, "float32")}, bucket_bytes=4000)

def make_step(dies):
    for name in ("last", "first"):
        sync.gradients[name][...] = comm.rank
        sync.ready(name)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
    sync.synchronize()
    return sync.gradients["first"][0]

make_step(False)
begun = time.monotonic()
try:
    make_step(comm.rank == 1)
except gimbal.RemoteFailure as error:
    print(error.peer, time.monotonic() - begun < 1)
sync.shrink()
print(make_step(False))
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
        ended = launch("-n", "3", str(EXAMPLES / "numpy_mean.py"))
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(sorted(ended.stdout.splitlines()), [f"[{rank}] mean of 3 ranks: [1. 2. 3.]" for rank in range(3)])


class TheExamples(unittest.TestCase):
    def test_of_mpi4pys_collectives_have_their_results(self):
        ended = launch("-n", "3", "--no-prefix", str(EXAMPLES / "numpy_like_mpi4py.py"))
        self.assertEqual(ended.stdout, "total [6. 9.], everyone's [0. 1. 2. 3. 4. 5.], squares [ 0.  1.  4.  9. 16. 25.], "
                                       "from all [0. 1. 2.], arrived [0. 2. 4. 6.], largest [4. 5.]\n", ended.stderr)

    def test_of_jax_find_the_weights_of_all_ranks_data(self):
        ended = launch("-n", "2", "--no-prefix", str(EXAMPLES / "jax_regression.py"))
        if ended.returncode == 77:
            self.skipTest(ended.stdout.splitlines()[0])
        self.assertEqual(ended.stdout.splitlines(), ["weights [ 2.  -1.   0.5] of 2 ranks"] * 2, ended.stderr)


def outputs_of(program, size):
    """What every rank printed and its status. Started by hand, since a launcher would end the others with the first that dies."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WORLD_SIZE": str(size), "GIMBAL_RENDEZVOUS": f"file://{folder}"}
        ranks = [subprocess.Popen([sys.executable, "-c", program], env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE,
                                  text=True) for rank in range(size)]
        return [(rank.communicate(timeout=60)[0].split(), rank.wait()) for rank in ranks]


class AKilledRank(unittest.TestCase):
    def test_is_named_by_its_peers_within_a_second(self):
        told = (["1", "all_reduce", "True"], 0)
        self.assertEqual(outputs_of(DEATH, 3), [told, ([], -signal.SIGKILL), told])

    def test_in_a_step_is_named_and_the_others_make_the_next_one(self):
        told = (["1", "True", "1.0"], 0)  # the mean of ranks 0 and 2
        self.assertEqual(outputs_of(DEATH_IN_A_STEP, 3), [told, ([], -signal.SIGKILL), told])


if __name__ == "__main__":
    unittest.main()
