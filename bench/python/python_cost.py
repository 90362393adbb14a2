"""What Python adds, in microseconds: to an 8-byte all_reduce on a numpy array over the same call of C's, and to a bucket of
gradients, of the synchronizer, of DistributedDataParallel over backend "gimbal", and of its hook.

    python3 -m gimbal.run -n 2 bench/python/python_cost.py

C's call is made by ctypes with arguments that have been prepared, so its own 0.5 us count as C's. A bucket's cost is that of the
thread that runs the backward pass, per bucket of 8 bytes of one parameter: the step's time with communication minus without,
over the number of buckets. Prints one line of JSON.
"""

import ctypes
import json
import os
import statistics
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gimbal
import gimbal.torch
from gimbal import _library

LAYERS = 64
CALLS, ROUNDS = 2000, 9
STEPS = 40


def per_call_us(call):
    begun = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begun) / CALLS * 1e6


def numpy_over_c(comm):
    """Median microseconds of C's call and of numpy's, in turns."""
    values = numpy.zeros(1)
    function, pointer = _library.library.gimbal_all_reduce, comm.open_handle().pointer
    arguments = [ctypes.c_void_p(values.ctypes.data)] * 2 + [ctypes.c_size_t(1), 9, 0, ctypes.c_void_p(pointer), None]
    rounds = [(per_call_us(lambda: function(*arguments)), per_call_us(lambda: comm.all_reduce(values, out=values)))
              for _ in range(ROUNDS)]
    return statistics.median(c for c, _ in rounds), statistics.median(ours - c for c, ours in rounds)


def network():
    return torch.nn.Sequential(*(torch.nn.Linear(2, 1, bias=False) if layer % 2 == 0 else torch.nn.Linear(1, 2, bias=False)
                                 for layer in range(LAYERS)))


def step_us(called, after_backward, batch):
    times = []
    for _ in range(STEPS):
        dist.barrier()
        begun = time.perf_counter()
        called(batch).sum().backward()
        after_backward()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def ddp(model, backend):
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1  # else the first bucket, of 1 MiB, holds everything
    return DistributedDataParallel(model, process_group=dist.new_group(backend=backend), bucket_cap_mb=1e-6)


def buckets():
    """Name -> median microseconds per bucket over a step without communication."""
    alone, own = network(), network()
    sync = gimbal.torch.GradientSynchronizer(own, bucket_bytes=8, first_bucket_bytes=8)
    hooked = ddp(network(), "gloo")
    hooked.register_comm_hook(gimbal.torch.HookState(), gimbal.torch.comm_hook)
    ways = {"synchronizer": (own, sync.synchronize), "ddp_gimbal": (ddp(network(), "gimbal"), lambda: None),
            "ddp_hook": (hooked, lambda: None), "ddp_gloo": (ddp(network(), "gloo"), lambda: None)}
    batch = torch.ones(1, 2)
    rounds = []
    for _ in range(ROUNDS):
        without = step_us(alone, lambda: None, batch)
        rounds.append({name: (step_us(*way, batch) - without) / LAYERS for name, way in ways.items()})
    return {name: round(statistics.median(turn[name] for turn in rounds), 1) for name in ways}, sync.stats().buckets


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with gimbal.Communicator() as comm:
        c_us, python_us = numpy_over_c(comm)
        per_bucket_us, count = buckets()
        if comm.rank == 0:
            print(json.dumps({"torch": torch.__version__, "ranks": comm.size, "load": round(os.getloadavg()[0], 1),
                              "c_us": round(c_us, 2), "numpy_over_c_us": round(python_us, 2), "buckets": count, "per_bucket_us": per_bucket_us}))
        comm.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
