"""One rank of torch_ddp_test.py: every combination of DistributedDataParallel's options, over gloo and over gimbal.

A combination trains a network over each backend from the same start. Either both refuse it with the same kind of exception, or the
parameters that come out are within 1e-12 of each other, and of the same bits on all ranks of gimbal. Prints one line of JSON a rank:
combinations, those that were trained, and what differed. With --plant another learning rate makes all of them differ.
"""

import contextlib
import itertools
import json
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gimbal.torch  # registers the backend

STEPS = 3
OPTIONS = ("static_graph", "find_unused_parameters", "gradient_as_bucket_view")
HABITS = ("no_sync", "uneven", "branches")


class Network(torch.nn.Module):
    """Two branches, of which a step may take one only."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(4, 6)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(6, 2) for _ in range(2))
        self.double()

    def forward(self, batch, taken):
        hidden = torch.tanh(self.first(batch))
        return sum(self.branches[branch](hidden) for branch in taken)


def batches(rank, uneven):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(STEPS + (rank if uneven else 0), 2, 5, 4, generator=generator, dtype=torch.float64)


def train(backend, options, habits):
    rank = dist.get_rank()
    model = DistributedDataParallel(Network(), process_group=GROUPS[backend], bucket_cap_mb=1e-4, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.2 if PLANTED and backend == "gimbal" else 0.1, momentum=0.9)
    taken = [0] if habits["branches"] else [0, 1]
    with model.join() if habits["uneven"] else contextlib.nullcontext():
        for step, micro_batches in enumerate(batches(rank, habits["uneven"])):
            optimizer.zero_grad(set_to_none=False)
            for index, batch in enumerate(micro_batches):
                last = index == len(micro_batches) - 1
                # In the first step a static graph is learnt, which no_sync would prevent.
                with model.no_sync() if habits["no_sync"] and step and not last else contextlib.nullcontext():
                    model(batch, taken).square().mean().backward()
            optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def outcome(backend, options, habits):
    """The parameters, or what was raised."""
    try:
        return train(backend, options, habits)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__, str(error).splitlines()[0]


def difference(gloo, ours):
    if isinstance(gloo, tuple) or isinstance(ours, tuple):
        return None if isinstance(gloo, tuple) and gloo == ours else f"gloo {gloo}, gimbal {ours}"
    gathered = [torch.empty_like(ours) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, ours)
    if not all(torch.equal(other, ours) for other in gathered):
        return "ranks have different bits"
    error = (gloo - ours).abs().max().item()
    return None if error < 1e-12 else f"parameters differ by {error}"


def breaks_the_process(options, habits):
    """A rank that has joined does not know of the map of used parameters that a static graph reduces in its first step, and
    answers it with something else: gloo ends the process for that."""
    return options["static_graph"] and options["find_unused_parameters"] and habits["uneven"]


def main():
    dist.init_process_group("gloo")
    for backend in ("gloo", "gimbal"):
        GROUPS[backend] = dist.new_group(backend=backend)
    count, trained, differences = 0, 0, {}
    for values in itertools.product((False, True), repeat=len(OPTIONS) + len(HABITS)):
        options, habits = dict(zip(OPTIONS, values)), dict(zip(HABITS, values[len(OPTIONS):]))
        if breaks_the_process(options, habits):
            continue
        gloo = outcome("gloo", options, habits)
        found = difference(gloo, outcome("gimbal", options, habits))
        count += 1
        trained += not isinstance(gloo, tuple)
        if found:
            differences[" ".join(name for name, on in {**options, **habits}.items() if on)] = found
    print(json.dumps({"combinations": count, "trained": trained, "differences": differences}), flush=True)
    dist.destroy_process_group()


GROUPS = {}
PLANTED = "--plant" in sys.argv
main()
