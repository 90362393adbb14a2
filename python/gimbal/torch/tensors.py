"""Tensors as views, and the thread that runs a communicator's operations on them."""

from __future__ import annotations

import queue
import threading
import weakref
from typing import Any, Callable

import torch

from .. import dtypes
from ..arrays import View
from ..communicator import Communicator

__all__ = ["Worker", "view"]

_DTYPES = {getattr(torch, name): entry for entry in dtypes.DTYPES for name in (entry.name, entry.name + "fn") if hasattr(torch, name)}


def view(tensor: torch.Tensor) -> View:
    """The memory of a contiguous tensor. bool tensors are bytes of 0 and 1."""
    if not tensor.is_contiguous():
        raise ValueError(f"the tensor is not contiguous (shape {tuple(tensor.shape)}, strides {tensor.stride()})")
    kind = _DTYPES.get(torch.uint8 if tensor.dtype == torch.bool else tensor.dtype)
    return View(tensor.data_ptr(), tuple(tensor.shape), kind, tensor.element_size(), True, tensor.is_cuda, tensor)


class Worker:
    """A thread that runs operations one after the other, in the order in which they were queued, so that the thread that queues
    them (often autograd's) goes on. A communicator is used by one thread: this one."""

    def __init__(self, name: str, communicator: Communicator) -> None:
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        thread.start()
        # At exit too: a thread that Python's end finds inside torch would take the process down with it.
        weakref.finalize(self, _stop, self._jobs, thread, communicator)

    def run(self, operation: Callable[[], Any], result: Any) -> torch.futures.Future:
        """Queues operation(); the future gets `result` when it has returned, or its exception."""
        future = torch.futures.Future()
        self._jobs.put((operation, future, result))
        return future


_GRACE_S = 1.0  # for what was queued last, when nobody waits for it any more


def _stop(jobs: queue.SimpleQueue, thread: threading.Thread, communicator: Communicator) -> None:
    jobs.put(None)
    if thread is threading.current_thread():
        return
    thread.join(_GRACE_S)
    if thread.is_alive():
        communicator.abort()
        thread.join()


def _work(jobs: queue.SimpleQueue) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        operation, future, result = job
        try:
            operation()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        del job, operation, future, result  # nothing of a finished job stays alive while waiting for the next one
