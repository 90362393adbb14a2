"""Tensors as views, in contiguous memory, and the thread that runs a communicator's operations on them."""

from __future__ import annotations

import queue
import threading
import weakref
from typing import Any, Callable

import torch

from .. import dtypes
from ..arrays import View
from ..communicator import Communicator
from ..errors import Unsupported

__all__ = ["DTYPES", "Dense", "Worker", "fills_its_memory", "view"]

DTYPES = {getattr(torch, name): entry for entry in dtypes.DTYPES for name in (entry.name, entry.name + "fn") if hasattr(torch, name)}


def view(tensor: torch.Tensor) -> View:
    """The memory of a contiguous tensor. bool tensors are bytes of 0 and 1."""
    if not tensor.is_contiguous():
        raise ValueError(f"the tensor is not contiguous (shape {tuple(tensor.shape)}, strides {tensor.stride()})")
    kind = DTYPES.get(torch.uint8 if tensor.dtype == torch.bool else tensor.dtype)
    return View(tensor.data_ptr(), tuple(tensor.shape), kind, tensor.element_size(), True, tensor.is_cuda, tensor)


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side in some order, as those of a transposed or channels-last tensor do."""
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


class Dense:
    """A tensor's content in contiguous memory: the tensor itself, or a copy that goes back at the end."""

    def __init__(self, tensor: torch.Tensor, read: bool = True, written: bool = True) -> None:
        self._tensor = tensor.detach()
        self._read = read
        self._written = written

    def __enter__(self) -> torch.Tensor:
        tensor = self._tensor
        if tensor.is_sparse:
            raise Unsupported("a sparse tensor: make it dense, or gather its indices and values")
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        self._source = tensor
        if tensor.is_contiguous():
            self._dense = tensor
        else:
            self._dense = tensor.contiguous() if self._read else torch.empty(tensor.shape, dtype=tensor.dtype)
        return self._dense

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._written and kind is None and self._dense is not self._source:
            self._source.copy_(self._dense)


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
