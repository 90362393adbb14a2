"""Ctrl-C while a rank is inside of C: KeyboardInterrupt there, Aborted on its peers, at once."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

# Rank 0 gets the signal when it is inside of the call that rank 1 never makes.
PROGRAM = """
import os, signal, sys, threading, time
import gimbal

comm = gimbal.Communicator(timeout=100)
comm.barrier()
calls = comm.open_handle()._calls
if comm.rank == 1:
    try:
        comm.recv(bytearray(8), 0)
    except gimbal.Aborted as error:
        print("Aborted", flush=True)
    sys.exit()

def interrupt(number):
    while calls.entered == number:
        time.sleep(0.001)
    global begun
    begun = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, args=(calls.entered,)).start()
try:
    {call}
except KeyboardInterrupt:
    print("KeyboardInterrupt", time.monotonic() - begun < 1, comm.status().name, flush=True)
"""
BLOCKING = "comm.recv(bytearray(8), 1)"
FUTURE = "comm.start.recv(bytearray(8), 1).wait()"
GRADIENTS = "gimbal.GradientSynchronizer(comm, {'a': (1, 'float32')})"

ALONE = """
import os, signal, threading, time
import gimbal

def interrupt():
    while all(thread.name != "gimbal-create" for thread in threading.enumerate()):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

try:
    threading.Thread(target=interrupt).start()
    gimbal.Communicator(rank=0, size=2, connect_timeout=100)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
    os._exit(0)
"""

BETWEEN = """
import os, signal
import numpy, gimbal

with gimbal.Communicator(rank=0, size=1, rendezvous="memory://interrupt") as comm:
    for _ in range(3):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                comm.barrier()
        except KeyboardInterrupt:
            print(comm.all_reduce(numpy.ones(1)).item(), comm.status().name)
"""


def ranks_of(program, size):
    """What each rank of the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WORLD_SIZE": str(size), "GIMBAL_RENDEZVOUS": f"file://{folder}"}
        ranks = [subprocess.Popen([sys.executable, "-c", program], env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE,
                                  text=True) for rank in range(size)]
        return [rank.communicate(timeout=60)[0].strip() for rank in ranks]


class CtrlC(unittest.TestCase):
    def test_ends_whatever_call_a_rank_is_inside_of(self):
        for call in (BLOCKING, FUTURE, GRADIENTS):
            with self.subTest(call):
                self.assertEqual(ranks_of(PROGRAM.replace("{call}", call), 2), ["KeyboardInterrupt True ABORTED", "Aborted"])

    def test_ends_a_wait_for_ranks_that_do_not_come(self):
        self.assertEqual(ranks_of(ALONE, 1), ["KeyboardInterrupt"])

    def test_between_calls_leaves_the_communicator_as_it_is(self):
        self.assertEqual(ranks_of(BETWEEN, 1), ["\n".join(["1.0 OK"] * 3)])


class AChild(unittest.TestCase):
    def test_does_not_tell_its_parent_of_its_signals(self):
        program = """
import os, signal
import gimbal
with gimbal.Communicator(rank=0, size=1, rendezvous="memory://interrupt"):
    child = os.fork()
    if child == 0:
        os._exit(5 if signal.set_wakeup_fd(-1) == -1 else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), signal.set_wakeup_fd(-1) != -1)
"""
        self.assertEqual(ranks_of(program, 1), ["5 True"])


if __name__ == "__main__":
    unittest.main()
