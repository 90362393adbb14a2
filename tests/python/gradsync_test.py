"""gimbal.GradientSynchronizer on numpy arrays: ranks as threads, gradients of small whole numbers, so that sums are exact."""

import json
import pathlib
import tempfile
import unittest

import numpy

import gimbal
from ranks import alone, run_ranks

SHAPES = {"first": (3,), "second": (5, 7), "empty": (0,), "third": (1000,)}
BACKWARD = ("third", "empty", "second", "first")


def parameters():
    return {name: (shape, "float32") for name, shape in SHAPES.items()}


def values_of(name, rank, step=0):
    size = int(numpy.prod(SHAPES[name]))
    return (numpy.arange(size, dtype=numpy.float32) % 17 + rank * 3 + step).reshape(SHAPES[name])


def make_step(sync, step=0, names=BACKWARD, weight=1.0):
    for name in names:
        sync.gradients[name][...] = values_of(name, sync.rank, step)
        sync.ready(name)
    sync.synchronize(weight)


class ASynchronizer(unittest.TestCase):
    def test_has_the_mean_whatever_the_buckets(self):
        for limits in ({}, {"bucket_bytes": 1, "first_bucket_bytes": 1}, {"bucket_bytes": 1024}, {"bucket_bytes": 1 << 30}):
            with self.subTest(limits):
                def body(comm):
                    sync = gimbal.GradientSynchronizer(comm, parameters(), **limits)
                    for step in range(3):
                        make_step(sync, step)
                        for name in SHAPES:
                            # The mean of rank * 3 over three ranks is 3.
                            numpy.testing.assert_array_equal(sync.gradients[name], values_of(name, 1, step))

                run_ranks(3, body)

    def test_matches_gradients_by_name_whatever_the_order_they_come_in(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, {"a": (4, "float32"), "b": (4, "float32")}, bucket_bytes=16, first_bucket_bytes=16)
            order = ("a", "b") if comm.rank == 0 else ("b", "a")
            for name in order:
                sync.gradients[name][...] = {"a": 1, "b": 100}[name] * (comm.rank + 1)
                sync.ready(name)
            sync.synchronize()
            return sync.gradients["a"][0], sync.gradients["b"][0]

        self.assertEqual(run_ranks(2, body), [(1.5, 150)] * 2)

    def test_reduces_micro_batches_once(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters())
            for gradient in sync.gradients.values():
                gradient[...] = 0
            for micro in range(3):
                names = BACKWARD if micro == 0 else BACKWARD[:3]  # "first" is touched by the first micro-batch only
                with sync.no_sync():
                    for name in names:
                        sync.gradients[name] += values_of(name, comm.rank, micro)
                        sync.ready(name)
            sync.synchronize()
            numpy.testing.assert_array_equal(sync.gradients["third"], sum(values_of("third", 1, micro) for micro in range(3)))
            numpy.testing.assert_array_equal(sync.gradients["first"], values_of("first", 1))
            return sync.stats().steps

        self.assertEqual(run_ranks(3, body), [1] * 3)

    def test_weighs_ranks_by_their_examples(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, {"a": (1, "float64")}, reduction="weighted_mean")
            found = []
            for announced in (False, True):
                weight = comm.rank * 2 + 1
                if announced:
                    sync.announce_weight(weight)
                sync.gradients["a"][0] = comm.rank
                sync.ready("a")
                sync.synchronize(weight)
                found.append(sync.gradients["a"][0])
            return found

        self.assertEqual(run_ranks(2, body), [[0.75, 0.75]] * 2)

    def test_names_parameters_without_a_gradient(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters())
            with self.assertRaisesRegex(gimbal.InvalidUsage, '1 of 4 parameters got no gradient in this step: "second"'):
                make_step(sync, names=("third", "empty", "first"))

        run_ranks(2, body)

    def test_takes_zeros_for_them_if_told_so(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters(), missing="zero")
            make_step(sync, names=BACKWARD if comm.rank else BACKWARD[:1])
            numpy.testing.assert_array_equal(sync.gradients["second"], values_of("second", 1) / 2)

        run_ranks(2, body)

    def test_lets_ranks_make_different_numbers_of_steps(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, {"a": (2, "float32")}, uneven=True)
            means = []
            for _ in range(comm.rank + 1):
                sync.gradients["a"][...] = comm.rank
                sync.ready("a")
                sync.synchronize()
                means.append(float(sync.gradients["a"][0]))
            sync.join()
            return means

        self.assertEqual(run_ranks(3, body), [[1.0], [1.0, 1.5], [1.0, 1.5, 2.0]])

    def test_brings_the_roots_values_to_all_and_checks_them(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, {"a": (4, "float32"), "b": (4, "float32")})
            values = {name: numpy.full(4, comm.rank + 1, numpy.float32) for name in ("a", "b")}
            sync.broadcast(values, root=1)
            sync.check(values)
            values["b"][2] += comm.rank == 1
            with self.assertRaisesRegex(gimbal.Mismatch, '"b"\\) is the first that differs: on rank 1 from rank 0'):
                sync.check(values)
            sync.broadcast(values)
            sync.check(values)
            return values["a"].tolist()

        self.assertEqual(run_ranks(2, body), [[2.0] * 4] * 2)

    def test_leaves_the_programs_communicator_free_in_a_step(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters())
            sync.gradients["third"][...] = 1
            sync.ready("third")
            total = comm.all_reduce(numpy.ones(1)).item()
            for name in BACKWARD[1:]:
                sync.ready(name)
            sync.synchronize()
            return total

        self.assertEqual(run_ranks(3, body), [3.0] * 3)

    def test_says_what_it_has_done(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters())
            make_step(sync)
            return sync.stats()

        for stats in run_ranks(2, body):
            self.assertEqual((stats.steps, stats.bytes), (1, 4 * (3 + 35 + 1000)))
            self.assertGreaterEqual(stats.span_ns, stats.exposed_ns)

    def test_goes_on_after_an_abort(self):
        def body(comm):
            sync = gimbal.GradientSynchronizer(comm, parameters())
            make_step(sync)
            comm.barrier()  # nobody is still in the step
            if comm.rank == 0:
                sync.abort()
            with self.assertRaises(gimbal.Aborted):
                make_step(sync)
            sync.shrink()
            make_step(sync)
            numpy.testing.assert_array_equal(sync.gradients["second"], values_of("second", 1))
            return sync.size

        self.assertEqual(run_ranks(3, body), [3] * 3)

    def test_sends_fewer_bytes_in_another_form(self):
        def body(comm, **options):
            sync = gimbal.GradientSynchronizer(comm, {"matrix": ((64, 64), "float32")}, **options)
            means = []
            for _ in range(100):
                # Of rank one, so that PowerSGD is exact soon; whole numbers that bfloat16 has.
                sync.gradients["matrix"][...] = numpy.outer(numpy.arange(64) % 4 + comm.rank * 2, numpy.ones(64))
                sync.ready("matrix")
                sync.synchronize()
                means.append(sync.gradients["matrix"].copy())
            return sync.stats().sent_bytes, means

        exact = numpy.outer(numpy.arange(64) % 4 + 1, numpy.ones(64))
        plain, _ = run_ranks(2, body)[0]
        for options, bytes_share in (({"wire": "bfloat16"}, 0.55), ({"wire": "int8"}, 0.3), ({"codec": gimbal.power_sgd(2)}, 0.1),
                                     ({"codec": gimbal.top_k(0.1)}, 0.25)):
            with self.subTest(options):
                results = run_ranks(2, lambda comm: body(comm, **options))
                sent, means = results[0]
                self.assertLess(sent, bytes_share * plain)
                # What a step does not send comes with a later one: over the steps the mean is right.
                numpy.testing.assert_allclose(numpy.mean(means, 0), exact, atol=0.35)
                for mine, other in zip(means, results[1][1]):
                    numpy.testing.assert_array_equal(mine, other)

    def test_goes_on_from_a_checkpoint_with_the_same_bits(self):
        def body(comm):
            def new():
                return gimbal.GradientSynchronizer(comm, {"a": ((32, 8), "float32")}, wire="int8")

            def step(sync, number):
                sync.gradients["a"][...] = numpy.random.default_rng(comm.rank * 10 + number).normal(size=(32, 8))
                sync.ready("a")
                sync.synchronize()
                return sync.gradients["a"].copy()

            sync = new()
            step(sync, 0)
            state = sync.state_dict()
            expected, restored, fresh = step(sync, 1), new(), new()
            restored.load_state_dict(state)
            numpy.testing.assert_array_equal(step(restored, 1), expected)
            self.assertFalse(numpy.array_equal(step(fresh, 1), expected))
            with self.assertRaises(gimbal.InvalidArgument):
                restored.load_state_dict({"state": b"of another"})

        run_ranks(2, body)

    def test_writes_a_timeline_of_all_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "timeline.json")

            def body(comm):
                sync = gimbal.GradientSynchronizer(comm, parameters(), trace_steps=2)
                make_step(sync)
                sync.timeline(path)

            run_ranks(2, body)
            content = json.loads(path.read_text())
        events = content["traceEvents"] if isinstance(content, dict) else content
        self.assertEqual({event["pid"] for event in events}, {0, 1})

    def test_keeps_the_memory_of_its_arrays_alive(self):
        with alone() as comm:
            gradient = gimbal.GradientSynchronizer(comm, {"a": (1000, "float32")}).gradients["a"]
        gradient[...] = 7
        self.assertEqual(gradient.sum(), 7000)


class RowsOfATable(unittest.TestCase):
    def test_are_added_up_and_averaged_over_ranks(self):
        def body(comm, form):
            reducer = gimbal.SparseReducer(comm, rows=100, columns=2)
            indices = numpy.array([7, comm.rank, 7])  # row 7 twice on every rank
            values = numpy.array([[1, 2], [10, 20], [3, 4]], numpy.float32)
            return reducer.reduce(indices, values, form=form)

        for indices, values in run_ranks(2, lambda comm: body(comm, "rows")):
            self.assertEqual(indices.tolist(), [0, 1, 7])
            self.assertEqual(values.tolist(), [[5, 10], [5, 10], [4, 6]])
        for indices, table in run_ranks(2, lambda comm: body(comm, "dense")):
            self.assertIsNone(indices)
            self.assertEqual((table.shape, table[[0, 1, 7]].tolist()), ((100, 2), [[5, 10], [5, 10], [4, 6]]))
            self.assertEqual(numpy.count_nonzero(table), 6)

    def test_may_be_none_on_some_ranks(self):
        def body(comm):
            reducer = gimbal.SparseReducer(comm, rows=1000, columns=1, reduction="sum")
            count = comm.rank
            return reducer.reduce(numpy.full(count, 5), numpy.ones((count, 1), numpy.float32))[0].tolist()

        self.assertEqual(run_ranks(2, body), [[5], [5]])

    def test_that_do_not_fit_are_told(self):
        with alone() as comm:
            reducer = gimbal.SparseReducer(comm, rows=10, columns=3)
            with self.assertRaisesRegex(ValueError, "values have 4 elements; 2 rows of 3 have 6"):
                reducer.reduce(numpy.zeros(2, int), numpy.zeros((2, 2), numpy.float32))
            with self.assertRaisesRegex(ValueError, "10"):
                reducer.reduce(numpy.array([10]), numpy.zeros((1, 3), numpy.float32))


class Disagreement(unittest.TestCase):
    def test_over_the_parameters_is_told_with_both_sides(self):
        def body(comm):
            with self.assertRaisesRegex(gimbal.Mismatch, 'parameter 0: "a", 4 of type 8.*parameter 0: "a", 5 of type 8|rank 1'):
                gimbal.GradientSynchronizer(comm, {"a": (4 + (comm.rank == 0), "float32")})

        run_ranks(2, body)

    def test_with_the_package_is_told_before_anything_is_sent(self):
        cases = (
            (lambda comm: gimbal.GradientSynchronizer(comm, {"a": (1, "float32")}, reduction="average"), 'reduction "average" is none of mean'),
            (lambda comm: gimbal.GradientSynchronizer(comm, {"a": (1, "float32")}, missing="x"), 'missing "x" is none of error, zero'),
            (lambda comm: gimbal.GradientSynchronizer(comm, {"a": numpy.zeros(2, bool)}), 'parameter "a" has a type that Gimbal lacks'),
            (lambda comm: gimbal.GradientSynchronizer(comm, {"a": (1, "float32")}).check({"b": numpy.ones(1)}), "a, b on one side only"),
            (lambda comm: gimbal.GradientSynchronizer(comm, {"a": (1, "float32")}).check({"a": numpy.ones(1)}), 'of "a" has 8 bytes'),
        )
        with alone() as comm:
            for body, sentence in cases:
                with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                    body(comm)


if __name__ == "__main__":
    unittest.main()
