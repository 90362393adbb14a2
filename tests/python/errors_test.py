"""What is refused here, what the library refuses, and what exceptions carry."""

import threading
import unittest

import numpy

import gimbal
from gimbal import errors
from ranks import alone, run_ranks


class RaisedByTheStore(Exception):
    pass


class BrokenStore:
    def set(self, key, content):
        raise RaisedByTheStore(key)

    def get(self, key):
        raise RaisedByTheStore(key)

    def wait(self, keys, timeout):
        raise RaisedByTheStore(keys)

    def add(self, key, amount):
        raise RaisedByTheStore(key)


class DictionaryStore:
    """The shape of torch.distributed.Store."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, content):
        with self.changed:
            self.values[key] = bytes(content)
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            self.changed.wait_for(lambda: key in self.values)
            return self.values[key]

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: all(key in self.values for key in keys), timeout.total_seconds()):
                raise RuntimeError("timed out")

    def add(self, key, amount):
        with self.changed:
            total = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(total).encode()
            self.changed.notify_all()
            return total


class WrongArguments(unittest.TestCase):
    def test_are_told_with_what_is_allowed(self):
        cases = (
            (lambda comm: comm.all_reduce(numpy.ones(4), "mean"), 'op "mean" is none of sum, prod'),
            (lambda comm: comm.all_reduce(numpy.ones(4), out=numpy.ones(5)), r"out has shape \(5,\).*the result has shape \(4,\)"),
            (lambda comm: comm.all_reduce(numpy.ones(4), out=numpy.ones(4, numpy.float32)), "elements of 4 bytes"),
            (lambda comm: comm.all_reduce(b"abcd", out=b"abcd"), "the bytes for the result is read-only"),
            (lambda comm: comm.all_gather_v(numpy.ones(4), [1, 2]), "counts has 2 entries; there are 1 ranks"),
            (lambda comm: comm.all_to_all_v(numpy.ones(4), [3], [3]), "send has 4 elements, send_counts sum to 3"),
            (lambda comm: comm.scatter(numpy.ones(4), numpy.ones(3)), "send has 32 bytes; 1 ranks with an out of 24 bytes"),
            (lambda comm: comm.reduce_scatter(numpy.float64(1.0)), r"first dimension of shape \(\) does not divide by 1 ranks"),
            (lambda comm: comm.explain("allreduce", 8), 'collective "allreduce" is none of all_reduce'),
        )
        with alone() as comm:
            for body, sentence in cases:
                with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                    body(comm)
            self.assertEqual(comm.all_reduce(numpy.ones(1)).item(), 1.0)

    def test_of_create_are_told(self):
        with self.assertRaisesRegex(ValueError, 'progress "nobody" is none of thread, caller'):
            gimbal.Communicator(rank=0, size=1, progress="nobody")
        with self.assertRaisesRegex(ValueError, "a deadline of -1 s is not positive"):
            gimbal.Communicator(rank=0, size=1, timeout=-1)


class TheLibrarysErrors(unittest.TestCase):
    def test_carry_status_operation_and_rank(self):
        with alone() as comm:
            with self.assertRaises(gimbal.InvalidArgument) as raised:
                comm.broadcast(numpy.ones(4), root=7)
        error = raised.exception
        self.assertEqual((error.status, error.operation, error.rank), (gimbal.Status.INVALID_ARGUMENT, "broadcast", 0))
        self.assertFalse(error.loses_communicator)
        self.assertIn("7", str(error))

    def test_name_the_peer(self):
        raised = {}

        def body(comm):
            try:
                comm.all_reduce(numpy.ones(4 if comm.rank else 5))
            except gimbal.Mismatch as error:
                raised[comm.rank] = error

        run_ranks(2, body)
        self.assertEqual({rank: error.peer for rank, error in raised.items()}, {0: 1, 1: 0})
        self.assertTrue(all(error.loses_communicator for error in raised.values()))

    def test_of_a_future_come_at_wait_with_its_operation(self):
        raised = []

        def body(comm):
            try:
                comm.start.all_reduce(numpy.ones(4 if comm.rank else 5)).wait()
            except gimbal.Mismatch as error:
                raised.append(error.operation)

        run_ranks(2, body)
        self.assertEqual(raised, ["all_reduce"] * 2)

    def test_have_a_class_for_every_status(self):
        for status in gimbal.Status:
            if status != gimbal.Status.OK:
                self.assertEqual(errors.error_of(status, "", None, None).status, status)

    def test_of_a_closed_communicator_are_invalid_usage(self):
        with alone() as comm:
            pass
        with self.assertRaisesRegex(gimbal.InvalidUsage, "has been closed"):
            comm.barrier()

    def test_abort_ends_a_call_of_another_thread(self):
        raised = []

        def body(comm):
            if comm.rank == 1:
                comm.abort()
                return
            try:
                comm.barrier()
            except gimbal.Aborted as error:
                raised.append(error.status)

        run_ranks(2, body)
        self.assertEqual(raised, [gimbal.Status.ABORTED])


class AStore(unittest.TestCase):
    def test_of_the_framework_joins_the_ranks(self):
        store, totals = DictionaryStore(), []

        def work(rank):
            with gimbal.Communicator(rank=rank, size=2, store=store, connect_timeout=60) as comm:
                totals.append(comm.all_reduce(numpy.array([rank + 1])).item())

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(totals, [3, 3])

    def test_that_raises_is_the_cause_of_the_error(self):
        with self.assertRaises(gimbal.GimbalError) as raised:
            gimbal.Communicator(rank=0, size=2, store=BrokenStore(), connect_timeout=5)
        self.assertIsInstance(raised.exception.__cause__, RaisedByTheStore)


if __name__ == "__main__":
    unittest.main()
