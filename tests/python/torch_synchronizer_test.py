"""gimbal.torch.GradientSynchronizer on the torch of this Python: ranks as threads, compared with one process on the joined batch."""

import sys
import threading
import unittest

try:
    import torch
except ImportError as error:
    print(f"skipped: no torch here ({error}); tools/install_dependencies installs Debian's")
    sys.exit(77)

import gimbal
from gimbal.torch import GradientSynchronizer
from ranks import run_ranks

SIZE = 3
ROWS = 4  # of a rank's batch
SEEDED = threading.Lock()  # the generator is the process's, and ranks are threads


class Network(torch.nn.Module):
    """A channels-last convolution, a layer that is used twice, a transposed parameter, an empty one and a buffer."""

    def __init__(self, seed=1):
        super().__init__()
        with SEEDED:
            torch.manual_seed(seed)
            self.convolution = torch.nn.Conv2d(1, 3, 3).to(memory_format=torch.channels_last)
            self.inner = torch.nn.Linear(12, 12)
            self.turned = torch.nn.Parameter(torch.randn(12, 5).t())
            self.empty = torch.nn.Parameter(torch.empty(0))
            self.register_buffer("scale", torch.rand(1))
        self.double()

    def forward(self, batch):
        hidden = torch.tanh(self.convolution(batch)).flatten(1)
        return torch.tanh(self.inner(self.inner(hidden))) @ self.turned.t() * self.scale + self.empty.sum()


def batches(steps=4):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(steps, SIZE * ROWS, 1, 4, 4, generator=generator, dtype=torch.float64)


def mine(batch, rank):
    return batch[rank * ROWS:(rank + 1) * ROWS]


def loss_of(model, batch):
    return model(batch).square().mean()


def flat(model):
    return torch.cat([value.detach().reshape(-1) for value in model.state_dict().values()])


def trained(model, backward, steps=4, **zero_grad):
    """Four steps of SGD, whose gradients backward(batch) makes."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for batch in batches(steps):
        optimizer.zero_grad(**zero_grad)
        backward(batch)
        optimizer.step()
    return flat(model)


def trained_alone(seed=1):
    model = Network(seed)
    return trained(model, lambda batch: loss_of(model, batch).backward())


def close(have, want):
    torch.testing.assert_close(have, want, rtol=0, atol=1e-12)


class Training(unittest.TestCase):
    def all_equal(self, body):
        """What every rank returns has the same bits; it is rank 0's."""
        results = run_ranks(SIZE, body)
        for result in results[1:]:
            self.assertTrue(torch.equal(result, results[0]))
        return results[0]

    def test_is_that_of_one_process_on_the_joined_batch(self):
        for set_to_none in (True, False):
            for limits in ({}, {"bucket_bytes": 256, "first_bucket_bytes": 64}):
                with self.subTest(set_to_none=set_to_none, **limits):
                    def body(comm):
                        model = Network()
                        sync = GradientSynchronizer(model, comm, **limits)

                        def backward(batch):
                            loss_of(model, mine(batch, comm.rank)).backward()
                            sync.synchronize()

                        return trained(model, backward, set_to_none=set_to_none)

                    close(self.all_equal(body), trained_alone())

    def test_begins_with_rank_0s_parameters_and_buffers(self):
        def body(comm):
            model = Network(seed=comm.rank)
            GradientSynchronizer(model, comm)
            return flat(model)

        self.assertTrue(torch.equal(self.all_equal(body), flat(Network(seed=0))))

    def test_of_micro_batches_reduces_once(self):
        def body(comm):
            model = Network()
            sync = GradientSynchronizer(model, comm)

            def backward(batch):
                with sync.no_sync():
                    (loss_of(model, mine(batch, comm.rank)[:2]) / 2).backward()
                (loss_of(model, mine(batch, comm.rank)[2:]) / 2).backward()
                sync.synchronize()

            result = trained(model, backward)
            self.assertEqual(sync.stats().steps, 4)
            return result

        close(self.all_equal(body), trained_alone())

    def test_weighs_unequal_batches(self):
        for announced in (False, True):
            def body(comm):
                model = Network()
                sync = GradientSynchronizer(model, comm, reduction="weighted_mean")
                bounds = [0, 1, 5, SIZE * ROWS]

                def backward(batch):
                    part = batch[bounds[comm.rank]:bounds[comm.rank + 1]]
                    if announced:
                        sync.announce_weight(len(part))
                    loss_of(model, part).backward()
                    sync.synchronize(len(part))

                return trained(model, backward)

            with self.subTest(announced=announced):
                close(self.all_equal(body), trained_alone())

    def test_goes_on_where_some_ranks_have_fewer_batches(self):
        def body(comm):
            model = Network()
            sync = GradientSynchronizer(model, comm, uneven=True)

            def backward(batch):
                loss_of(model, mine(batch, comm.rank)).backward()
                sync.synchronize()

            trained(model, backward, steps=2 + comm.rank)
            sync.join()
            return flat(model)

        self.assertFalse(torch.equal(self.all_equal(body), flat(Network())))

    def test_goes_on_after_a_failure(self):
        def body(comm):
            model = Network()
            sync = GradientSynchronizer(model, comm)

            def backward(batch):
                loss_of(model, mine(batch, comm.rank)).backward()
                sync.synchronize()

            comm.barrier()
            if comm.rank == 1:
                sync.abort()
            with self.assertRaises(gimbal.Aborted):
                backward(batches()[0])
            sync.shrink()
            return trained(model, backward)

        close(self.all_equal(body), trained_alone())


class Gradients(unittest.TestCase):
    def test_stay_in_one_place(self):
        def body(comm):
            model = Network()
            sync = GradientSynchronizer(model, comm)
            places = []
            for forget in (False, True, False):
                for parameter in model.parameters():
                    if forget:
                        parameter.grad = None
                loss_of(model, batches()[0]).backward()
                sync.synchronize()
                places.append([parameter.grad.data_ptr() for parameter in model.parameters()])
            self.assertEqual(places[1:], places[:1] * 2)

        run_ranks(2, body)

    def test_are_laid_out_as_their_parameters(self):
        def body(comm):
            model = Network()
            sync = GradientSynchronizer(model, comm)
            loss_of(model, batches()[0]).backward()
            sync.synchronize()
            for parameter in model.parameters():
                self.assertEqual(parameter.grad.stride(), parameter.stride())

        run_ranks(2, body)

    def test_that_are_missing_are_named_or_zero(self):
        def body(comm):
            model = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 2), "unused": torch.nn.Linear(2, 2)})
            sync = GradientSynchronizer(model, comm)
            model["used"](torch.ones(1, 2)).sum().backward()
            with self.assertRaisesRegex(gimbal.InvalidUsage, '2 of 4 parameters got no gradient.*"unused.weight", "unused.bias"'):
                sync.synchronize()
            sync.close()
            model.zero_grad()
            sync = GradientSynchronizer(model, comm, missing="zero")
            model["used" if comm.rank else "unused"](torch.ones(1, 2)).sum().backward()
            sync.synchronize()
            return [parameter.grad.sum().item() for parameter in model.parameters()]

        self.assertEqual(run_ranks(2, body), [[2.0, 1.0, 2.0, 1.0]] * 2)

    def test_of_sparse_embeddings_become_dense(self):
        def body(comm):
            model = torch.nn.Embedding(5, 2, sparse=True)
            sync = GradientSynchronizer(model, comm)
            for _ in range(2):
                model.weight.grad = None
                model(torch.tensor([comm.rank, 3, 3])).sum().backward()
                sync.synchronize()
            return model.weight.grad[:, 0].tolist()

        self.assertEqual(run_ranks(2, body), [[0.5, 0.5, 0.0, 2.0, 0.0]] * 2)

    def test_of_bfloat16_are_reduced_too(self):
        def body(comm):
            model = torch.nn.Linear(2, 1, bias=False, dtype=torch.bfloat16)
            sync = GradientSynchronizer(model, comm)
            model(torch.full((1, 2), float(comm.rank), dtype=torch.bfloat16)).sum().backward()
            sync.synchronize()
            return model.weight.grad.dtype, model.weight.grad.tolist()

        self.assertEqual(run_ranks(2, body), [(torch.bfloat16, [[0.5, 0.5]])] * 2)

    def test_are_the_models_own_again_after_close(self):
        def body(comm):
            model = torch.nn.Linear(2, 1)
            sync = GradientSynchronizer(model, comm)
            model(torch.ones(1, 2)).sum().backward()
            sync.synchronize()
            sync.close()
            del sync
            model(torch.full((1, 2), float(comm.rank))).sum().backward()
            return model.weight.grad.tolist()

        self.assertEqual(run_ranks(2, body), [[[1.0, 1.0]], [[2.0, 2.0]]])


class Disagreement(unittest.TestCase):
    def test_over_models_is_told(self):
        def body(comm):
            with self.assertRaisesRegex(gimbal.Mismatch, 'parameter 0: "weight", 4 of type 8.*"weight", 6 of type 8|rank 1'):
                GradientSynchronizer(torch.nn.Linear(2, 2 + (comm.rank == 0)), comm)

        run_ranks(2, body)

    def test_over_layouts_is_told(self):
        def body(comm):
            model = torch.nn.Conv2d(2, 3, 3)
            with self.assertRaisesRegex(gimbal.Mismatch, r"strides \(18, 1, 6, 2\)|rank 1"):
                GradientSynchronizer(model.to(memory_format=torch.channels_last) if comm.rank else model, comm)

        run_ranks(2, body)

    def test_over_values_is_found_after_so_many_steps(self):
        def body(comm):
            model = torch.nn.Linear(2, 2)
            sync = GradientSynchronizer(model, comm, check_every=2)
            with torch.no_grad():
                model.bias[1] += comm.rank
            model(torch.ones(1, 2)).sum().backward()
            sync.synchronize()
            model(torch.ones(1, 2)).sum().backward()
            with self.assertRaisesRegex(gimbal.Mismatch, r'"bias"\) is the first that differs: on rank 1 from rank 0'):
                sync.synchronize()

        run_ranks(2, body)


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    unittest.main()
