"""A communication hook: stock DistributedDataParallel keeps its buckets and its overlap, Gimbal averages the gradients."""

# No `from __future__ import annotations`: torch compares the hook's annotations with the classes themselves.
from typing import Optional

import torch

from ..communicator import Communicator
from .tensors import Worker, view

__all__ = ["HookState", "comm_hook"]


class HookState:
    """What comm_hook needs: a communicator, which only the hook may use from now on, and a thread to use it on."""

    def __init__(self, communicator: Optional[Communicator] = None) -> None:
        self.communicator = Communicator() if communicator is None else communicator
        self.worker = Worker("gimbal-hook", self.communicator)


def comm_hook(state: HookState, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """`ddp.register_comm_hook(HookState(comm), comm_hook)`: the mean of every bucket over the ranks, in place."""
    gradients = bucket.buffer()

    def average() -> None:
        memory = view(gradients)
        state.communicator.all_reduce(memory, "avg", out=memory)

    return state.worker.run(average, gradients)
