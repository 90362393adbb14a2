"""What averaging the gradients adds to a training step, by several ways that take turns in one run; for torch_*_like.py.

A model here has the parameters of a real one, and a backward pass that only writes them: its gradients come layer by layer, last
layer first, as fast as memory takes them. So what a step takes longer than without communication is the communication that a
trainer waits for, where nothing hides it. Every gradient is checked: it must be the mean over the ranks.

    none            no communication
    copies          DistributedDataParallel with a hook that sends nothing: what it copies into its buckets and back, whoever sends
    gloo            DistributedDataParallel over gloo
    gimbal          DistributedDataParallel over backend "gimbal"
    synchronizer    gimbal.torch.GradientSynchronizer
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gimbal.torch

WARM_UP = 2  # DistributedDataParallel makes its buckets anew after the first step


class Written(torch.autograd.Function):
    """A layer whose backward pass writes its parameters' gradients."""

    @staticmethod
    def forward(ctx, value, batch, *parameters):
        ctx.save_for_backward(batch, *parameters)
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        batch, *parameters = ctx.saved_tensors
        return (gradient, None, *(torch.full_like(parameter, batch.item()) for parameter in parameters))


class Model(torch.nn.Module):
    """layers: the shapes of each layer's parameters. of: a model whose memory it shares."""

    def __init__(self, layers, of=None):
        super().__init__()
        memory = iter(parameter.data for parameter in of.parameters()) if of else None
        self.layers = torch.nn.ModuleList(
            torch.nn.ParameterList(torch.nn.Parameter(next(memory) if of else torch.zeros(shape)) for shape in shapes)
            for shapes in layers)

    def forward(self, batch):
        value = torch.zeros((), requires_grad=True)
        for layer in self.layers:
            value = Written.apply(value, batch, *layer)
        return value


def ways(model, layers):
    """Name -> what is called, the model in it, and what comes after backward()."""
    def ddp(backend):
        own = Model(layers, model)
        return DistributedDataParallel(own, process_group=dist.new_group(backend=backend)), own, lambda: None

    copies = ddp("gloo")
    copies[0].register_comm_hook(None, send_nothing)
    own = Model(layers, model)
    sync = gimbal.torch.GradientSynchronizer(own)
    return {"none": (model, model, lambda: None), "copies": copies, "gloo": ddp("gloo"), "gimbal": ddp("gimbal"),
            "synchronizer": (own, own, sync.synchronize)}


def send_nothing(_state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def step_seconds(called, model, after_backward, batch, expected):
    dist.barrier()
    begun = time.perf_counter()
    called(batch).backward()
    after_backward()
    seconds = time.perf_counter() - begun
    for parameter in model.parameters():
        low, high = parameter.grad.aminmax()
        if not low.item() == high.item() == expected:
            raise SystemExit(f"a gradient is {low.item()} to {high.item()}, not {expected}")
        parameter.grad = None
    return seconds


def measure(layers, rounds):
    rank, size = dist.get_rank(), dist.get_world_size()
    entries = ways(Model(layers), layers)
    batch, mean = torch.tensor(float(rank + 1)), (size + 1) / 2
    seconds = {name: [] for name in entries}
    for turn in range(WARM_UP + rounds):
        for name, entry in entries.items():
            taken = step_seconds(*entry, batch, batch.item() if name in ("none", "copies") else mean)
            if turn >= WARM_UP:
                seconds[name].append(taken)
    return seconds


def median_ms(seconds):
    return round(statistics.median(seconds) * 1e3, 2)


def report(name, layers, seconds):
    """One line of JSON. Differences and ratios are taken within each round; of those, the medians."""
    without = seconds.pop("none")
    added = {way: [taken - bare for taken, bare in zip(values, without)] for way, values in seconds.items()}
    sent = {way: [ours - copies for ours, copies in zip(added[way], added["copies"])] for way in ("gloo", "gimbal")}
    print(json.dumps({
        "model": name, "parameters": sum(math.prod(shape) for shapes in layers for shape in shapes), "ranks": dist.get_world_size(),
        "torch": torch.__version__, "rounds": len(without), "load": round(os.getloadavg()[0], 1),
        "step_without_ms": median_ms(without),
        "added_ms": {way: median_ms(values) for way, values in added.items()},
        "added_without_copies_ms": {way: median_ms(values) for way, values in sent.items()},
        "gloo_over_gimbal": ratio(added["gloo"], added["gimbal"]),
        "gloo_over_gimbal_without_copies": ratio(sent["gloo"], sent["gimbal"]),
        "gloo_over_synchronizer": ratio(added["gloo"], added["synchronizer"])}), flush=True)


def ratio(theirs, ours):
    return round(statistics.median(above / max(below, 1e-6) for above, below in zip(theirs, ours)), 2)


def keep_freed_memory():
    """Else every large gradient is memory that the kernel must clear first: of VGG-16's step 100 ms, more than what is measured."""
    trim_threshold, mmap_max = -1, -4  # of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(trim_threshold, -1)
    libc.mallopt(mmap_max, 0)


def main(models, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default=",".join(models), help="one or several of %(default)s")
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    dist.init_process_group("gloo")
    for name in arguments.model.split(","):
        seconds = measure(models[name], arguments.rounds)
        if dist.get_rank() == 0:
            report(name, models[name], seconds)
    dist.barrier()
    dist.destroy_process_group()
