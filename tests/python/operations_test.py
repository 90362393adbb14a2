"""Every collective against its definition in numpy, blocking and as a future; out, in place, tags, groups, registered memory."""

import gc
import unittest
import weakref

import numpy

import gimbal
from gimbal.operations import OPS
from ranks import alone, run_ranks

SIZE = 3


def value(rank, count=6, dtype=numpy.int64):
    return (numpy.arange(count) + 10 * (rank + 1)).astype(dtype)


def both_ways(name, *arguments, **options):
    """The operation's results on every rank, blocking, after checking that the future has the same."""

    def body(comm):
        mine = [argument(comm.rank) if callable(argument) else argument for argument in arguments]
        blocking = getattr(comm, name)(*mine, **options)
        started = getattr(comm.start, name)(*mine, **options).wait()
        numpy.testing.assert_array_equal(blocking, started)
        return blocking

    return run_ranks(SIZE, body)


class Operations(unittest.TestCase):
    def check(self, results, wanted):
        for rank, result in enumerate(results):
            numpy.testing.assert_array_equal(result, wanted(rank) if callable(wanted) else wanted)

    def test_all_reduce_has_every_op(self):
        stacked = numpy.stack([value(rank) for rank in range(SIZE)])
        functions = (numpy.sum, numpy.prod, numpy.min, numpy.max, lambda a, axis: a.sum(axis) // SIZE, numpy.bitwise_and.reduce,
                     numpy.bitwise_or.reduce, numpy.bitwise_xor.reduce)
        for op, function in zip(OPS, functions):
            with self.subTest(op):
                self.check(both_ways("all_reduce", value, op), function(stacked, axis=0))

    def test_reduce_scatter_leaves_each_rank_its_rows(self):
        total = sum(value(rank) for rank in range(SIZE)).reshape(SIZE, 2)
        self.check(both_ways("reduce_scatter", lambda rank: value(rank).reshape(SIZE, 2)), lambda rank: total[rank:rank + 1])

    def test_all_gather_stacks_by_rank(self):
        self.check(both_ways("all_gather", value), numpy.stack([value(rank) for rank in range(SIZE)]))

    def test_reduce_and_gather_give_the_root_alone_a_result(self):
        reduced = run_ranks(SIZE, lambda comm: comm.reduce(value(comm.rank), root=1))
        gathered = run_ranks(SIZE, lambda comm: comm.gather(value(comm.rank), root=2))
        self.assertEqual([result is None for result in reduced], [True, False, True])
        self.assertEqual([result is None for result in gathered], [True, True, False])
        numpy.testing.assert_array_equal(reduced[1], sum(value(rank) for rank in range(SIZE)))
        numpy.testing.assert_array_equal(gathered[2], numpy.stack([value(rank) for rank in range(SIZE)]))

    def test_broadcast_and_scatter_fill_the_given_array(self):
        self.check(both_ways("broadcast", value, root=1), value(1))
        rows = numpy.arange(SIZE * 2).reshape(SIZE, 2)
        self.check(both_ways("scatter", lambda rank: rows if rank == 0 else None, lambda rank: numpy.zeros(2, rows.dtype)),
                   lambda rank: rows[rank])

    def test_all_to_all_transposes_blocks(self):
        self.check(both_ways("all_to_all", value), lambda rank: numpy.concatenate([value(peer)[2 * rank:2 * rank + 2]
                                                                                   for peer in range(SIZE)]))

    def test_v_forms_move_uneven_blocks(self):
        counts = [1, 0, 4]
        self.check(both_ways("all_gather_v", lambda rank: value(rank, counts[rank]), counts),
                   numpy.concatenate([value(rank, counts[rank]) for rank in range(SIZE)]))

        def body(comm):  # rank r sends r + peer elements to every peer
            sent = [comm.rank + peer for peer in range(SIZE)]
            return comm.all_to_all_v(value(comm.rank, sum(sent), numpy.int16), sent, sent)

        self.check(run_ranks(SIZE, body), lambda rank: numpy.concatenate([
            value(peer, 99, numpy.int16)[sum(peer + k for k in range(rank)):][:peer + rank] for peer in range(SIZE)]))

    def test_send_and_recv_meet(self):
        def body(comm):
            if comm.rank == 0:
                comm.send(value(0), 2)
            return comm.recv(numpy.zeros(6, numpy.int64), 0) if comm.rank == 2 else None

        numpy.testing.assert_array_equal(run_ranks(SIZE, body)[2], value(0))

    def test_weights_give_the_mean_of_unequal_batches(self):
        results = run_ranks(2, lambda comm: comm.all_reduce(numpy.array([1.0, 3.0][comm.rank]), weight=[3, 1][comm.rank],
                                                           normalize=True))
        self.assertEqual([result.item() for result in results], [1.5, 1.5])

    def test_bfloat16_is_added_as_such_under_its_tag(self):
        one, two = 0x3F80, 0x4000
        results = run_ranks(2, lambda comm: comm.all_reduce(numpy.array([one], numpy.uint16), dtype="bfloat16"))
        self.assertEqual([result.tolist() for result in results], [[two], [two]])

    def test_results_go_to_out_and_may_go_in_place(self):
        def body(comm):
            values, out = value(comm.rank), numpy.zeros(6, numpy.int64)
            self.assertIs(comm.all_reduce(values, out=out), out)
            comm.all_reduce(values, out=values)
            return out, values

        for out, in_place in run_ranks(2, body):
            numpy.testing.assert_array_equal(out, value(0) + value(1))
            numpy.testing.assert_array_equal(in_place, out)

    def test_a_group_completes_at_its_end(self):
        def body(comm):
            outs = [numpy.zeros(6, numpy.int64) for _ in range(4)]
            with gimbal.group():
                for index, out in enumerate(outs):
                    comm.all_reduce(value(comm.rank) + index, out=out)
            return numpy.stack(outs)

        for result in run_ranks(2, body):
            numpy.testing.assert_array_equal(result, numpy.stack([value(0) + value(1) + 2 * i for i in range(4)]))

    def test_registered_memory_is_a_numpy_array_that_outlives_its_communicator(self):
        def body(comm):
            values = comm.alloc((2, 3), "float64")
            values[:] = comm.rank + 1
            comm.all_reduce(values, out=values)
            return values

        results = run_ranks(2, body)  # closed by now
        self.assertEqual([result.tolist() for result in results], [[[3.0] * 3] * 2] * 2)

    def test_an_array_whose_future_was_dropped_lives_until_the_operation_has_ended(self):
        with alone() as comm:
            values = numpy.ones(1 << 16)
            kept = weakref.ref(values)
            comm.start.all_reduce(values, out=values)
            del values
            comm.start.barrier().wait()
            comm.start.barrier().wait()  # lets go of those that have completed
            gc.collect()
            self.assertIsNone(kept())

    def test_split_makes_communicators_by_color(self):
        def body(comm):
            part = comm.split(comm.rank % 2 if comm.rank < 3 else None)
            if part is None:
                return None
            with part:
                return part.rank, part.size, part.all_reduce(numpy.array([comm.rank])).item()

        self.assertEqual(run_ranks(4, body), [(0, 2, 2), (0, 1, 1), (1, 2, 2), None])

    def test_insight_is_there(self):
        def body(comm):
            comm.all_reduce(numpy.ones(4))
            self.assertIn("all_reduce", comm.explain("all_reduce", 1 << 20))
            self.assertEqual(comm.status(), gimbal.Status.OK)
            return comm.stats()

        for stats in run_ranks(2, body):
            self.assertEqual((stats.operations, stats.bytes), (1, 32))


if __name__ == "__main__":
    unittest.main()
