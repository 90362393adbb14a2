"""Backend "gimbal" of torch.distributed: a ProcessGroup in Python over a Communicator.

Every operation is queued to one thread and returns at once; its Work is done when the thread has run it. Point-to-point
operations run in the same order, as NCCL's do: use batch_isend_irecv where both sides send first.

torch renamed methods over the years (allreduce's relatives ..._base became ..._single): a class that serves 1.13 and current
torch defines both names.
"""

from __future__ import annotations

import collections
import datetime
from typing import Any, Callable, Iterator, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import group
from ..communicator import Communicator
from ..errors import Unsupported
from .tensors import Dense, Worker, view

__all__ = ["ProcessGroup", "register"]

_Work = getattr(dist, "_Work", None) or dist.Work
_OPS = (("SUM", "sum"), ("AVG", "avg"), ("PRODUCT", "prod"), ("MIN", "min"), ("MAX", "max"), ("BAND", "band"), ("BOR", "bor"),
        ("BXOR", "bxor"))
# Sums and products of truth values, as NCCL's backend has them.
_BOOL_OPS = {"sum": "max", "prod": "min", "min": "min", "max": "max", "band": "band", "bor": "bor", "bxor": "bxor"}
_KEPT_WORKS = 64
# Calls the communicator, yields when that has been done or recorded, and brings the results where they belong when resumed.
Operation = Callable[[], Iterator[None]]


class Work(_Work):
    """An operation under way."""

    def __init__(self, future: torch.futures.Future) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        """Blocks until it is done; raises what it raised. The deadline is the group's."""
        self._future.wait()
        return True

    def get_future(self) -> torch.futures.Future:
        """Resolves to the tensors with the results."""
        return self._future

    def is_completed(self) -> bool:
        """Whether it is done; never waits."""
        return self._future.done()

    def is_success(self) -> bool:
        """Whether it is done and has not failed."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[BaseException]:
        """What it raised."""
        try:
            self._future.wait()
        except Exception as error:
            return error
        return None

    def result(self) -> Any:
        """The tensors with the results."""
        return self._future.wait()


class ProcessGroup(dist.ProcessGroup):
    """A group of ranks. Tensors are on the host; count and type are Gimbal's to check, over the ranks too."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        seconds = timeout.total_seconds()
        self._comm = Communicator(rank=rank, size=size, store=store, timeout=seconds, connect_timeout=seconds, name="torch")
        self._worker = Worker("gimbal-torch", self._comm)
        # A Work that Python has forgotten while C++ waits for it would fall back to C++'s own wait, which never returns (1.13).
        self._works: collections.deque = collections.deque(maxlen=_KEPT_WORKS)
        self._coalesced: Optional[_Coalesced] = None
        self._name = ""

    # -- names that torch asks for --------------------------------------------------------------------------------------------

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "gimbal"

    _get_backend_name = getBackendName

    def name(self) -> str:
        return "gimbal"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def setGroupName(self, name: str) -> None:  # noqa: N802 (torch's name)
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802 (torch's name)
        return self._name

    def _get_backend(self, device: torch.device) -> "ProcessGroup":
        return self

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def pg_name(self) -> str:
        return self._name

    # -- reductions -----------------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors = _listed(tensors)
        op = _op(opts)
        return self._start([lambda tensor=tensor: self._all_reduce(tensor, op) for tensor in tensors], tensors)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors = _listed(tensors)
        op, root = _op(opts), opts.rootRank

        def operation(tensor: torch.Tensor) -> Iterator[None]:
            with Dense(tensor, written=self.rank() == root) as dense:
                memory = view(dense)
                self._comm.reduce(memory, _op_for(dense, op), root, memory)
                yield

        return self._start([lambda tensor=tensor: operation(tensor) for tensor in tensors], tensors)

    def _reduce_scatter_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_tensor_coalesced([output], [source], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        op = _op(opts)
        return self._start([lambda output=output, source=source: self._reduce_scatter(output, source, op)
                            for output, source in zip(outputs, inputs)], list(outputs))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        op = _op(opts)
        return self._start([lambda output=output, parts=parts: self._reduce_scatter(output, _joined(parts), op)
                            for output, parts in zip(outputs, inputs)], list(outputs))

    # -- movements ------------------------------------------------------------------------------------------------------------

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        tensors = _listed(tensors)
        root = opts.rootRank

        def operation(tensor: torch.Tensor) -> Iterator[None]:
            with Dense(tensor) as dense:
                self._comm.broadcast(view(dense), root)
                yield

        return self._start([lambda tensor=tensor: operation(tensor) for tensor in tensors], tensors)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        def operation(parts: List[torch.Tensor], source: torch.Tensor) -> Iterator[None]:
            with Dense(source, written=False) as dense:
                whole = dense.new_empty((self.size(), dense.numel()))
                self._comm.all_gather(view(dense), view(whole))
                yield
            _dealt_out(whole, parts)

        return self._start([lambda parts=parts, source=source: operation(parts, source) for parts, source in zip(outputs, inputs)],
                           [part for parts in outputs for part in parts])

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        # torch has lists by rank here, of one tensor per input.
        return self.allgather([[by_rank[i] for by_rank in outputs] for i in range(len(inputs))], inputs, opts)

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Work:
        return self.allgather_into_tensor_coalesced([output], [source], opts)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        def operation(output: torch.Tensor, source: torch.Tensor) -> Iterator[None]:
            with Dense(output, read=False) as target, Dense(source, written=False) as dense:
                self._comm.all_gather(view(dense), view(target))
                yield

        return self._start([lambda output=output, source=source: operation(output, source)
                            for output, source in zip(outputs, inputs)], list(outputs))

    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        root = opts.rootRank

        def operation() -> Iterator[None]:
            source, = inputs
            mine = self.rank() == root
            with Dense(source, written=False) as dense:
                whole = dense.new_empty((self.size(), dense.numel())) if mine else None
                self._comm.gather(view(dense), root, view(whole) if mine else None)
                yield
            if mine:
                _dealt_out(whole, outputs[0])

        return self._start([operation], [part for parts in outputs for part in parts])

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        root = opts.rootRank

        def operation() -> Iterator[None]:
            with Dense(outputs[0], read=False) as target:
                self._comm.scatter(view(_joined(inputs[0])) if self.rank() == root else None, view(target), root)
                yield

        return self._start([operation], list(outputs))

    def alltoall_base(self, output: torch.Tensor, source: torch.Tensor, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any = None) -> Work:
        def operation() -> Iterator[None]:
            with Dense(output, read=False) as target, Dense(source, written=False) as dense:
                sent, received = self._split_counts(dense, input_splits), self._split_counts(target, output_splits)
                self._comm.all_to_all_v(view(dense.view(-1)), sent, received, view(target.view(-1)))
                yield

        return self._start([operation], [output])

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        def operation() -> Iterator[None]:
            whole = outputs[0].new_empty(sum(output.numel() for output in outputs))
            self._comm.all_to_all_v(view(_joined(inputs)), [source.numel() for source in inputs],
                                    [output.numel() for output in outputs], view(whole))
            yield
            begin = 0
            for output in outputs:
                output.copy_(whole[begin:begin + output.numel()].view(output.shape))
                begin += output.numel()

        return self._start([operation], list(outputs))

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        """Tags are not carried: messages of a pair of ranks match by order."""
        tensor, = tensors

        def operation() -> Iterator[None]:
            with Dense(tensor, written=False) as dense:
                self._comm.send(view(dense), peer)
                yield

        return self._start([operation], [tensor])

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        """Tags are not carried: messages of a pair of ranks match by order."""
        tensor, = tensors

        def operation() -> Iterator[None]:
            with Dense(tensor, read=False) as dense:
                self._comm.recv(view(dense), peer)
                yield

        return self._start([operation], [tensor])

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        raise Unsupported("recv from any source: Gimbal matches messages by pair of ranks; name the source", operation="recv")

    def barrier(self, opts: Any = None) -> Work:
        def operation() -> Iterator[None]:
            self._comm.barrier()
            yield

        return self._start([operation], [])

    # -- several operations as one --------------------------------------------------------------------------------------------

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalesced = _Coalesced()

    def _end_coalescing(self, device_or_works: Any = None) -> Work:
        coalesced, self._coalesced = self._coalesced, None
        work = self._start(coalesced.operations, coalesced.results)
        for member in coalesced.works:  # 1.13 waits for these
            member._future = work._future
        return work

    # -- life -----------------------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Ends every operation under way, here and on the peers."""
        self._comm.abort()

    def shutdown(self) -> None:
        """Frees the communicator after what has been queued."""
        self._worker.run(self._comm.close, None).wait()

    def _start(self, operations: Sequence[Operation], results: List[torch.Tensor]) -> Work:
        if self._coalesced is not None:
            return self._coalesced.add(operations, results)
        work = Work(self._worker.run(lambda: _launch(operations), results))
        self._works.append(work)
        return work

    def _all_reduce(self, tensor: torch.Tensor, op: str) -> Iterator[None]:
        with Dense(tensor) as dense:
            memory = view(dense)
            self._comm.all_reduce(memory, _op_for(dense, op), memory)
            yield

    def _reduce_scatter(self, output: torch.Tensor, whole: torch.Tensor, op: str) -> Iterator[None]:
        with Dense(output, read=False) as target, Dense(whole, written=False) as dense:
            self._comm.reduce_scatter(view(dense.view(-1)), _op_for(dense, op), view(target.view(-1)))
            yield

    def _split_counts(self, tensor: torch.Tensor, splits: Sequence[int]) -> List[int]:
        """Elements per rank of a tensor whose rows are split."""
        if not splits:
            return [tensor.numel() // self.size()] * self.size()
        row = tensor[0].numel() if tensor.shape[0] else 1
        return [rows * row for rows in splits]


class _Coalesced:
    """Operations between _start_coalescing and _end_coalescing."""

    def __init__(self) -> None:
        self.operations: List[Operation] = []
        self.results: List[torch.Tensor] = []
        self.works: List[Work] = []

    def add(self, operations: Sequence[Operation], results: List[torch.Tensor]) -> Work:
        self.operations.extend(operations)
        self.results.extend(results)
        self.works.append(Work(torch.futures.Future()))
        return self.works[-1]


def _launch(operations: Sequence[Operation]) -> None:
    begun = [operation() for operation in operations]
    if len(begun) == 1:
        next(begun[0])
    else:
        with group():  # small reductions are fused, and sends that cross each other do not wait for each other
            for operation in begun:
                next(operation)
    for operation in begun:
        next(operation, None)


def _listed(tensors: Any) -> List[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _dealt_out(rows: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    for tensor, row in zip(tensors, rows):
        tensor.detach().copy_(row.view(tensor.shape))


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _op(opts: Any) -> str:
    wanted = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for theirs, ours in _OPS:
        if wanted == getattr(dist.ReduceOp, theirs):
            return ours
    raise Unsupported(f"{wanted} is none of {', '.join(theirs for theirs, _ in _OPS)}")


def _op_for(tensor: torch.Tensor, op: str) -> str:
    if tensor.dtype != torch.bool:
        return op
    if op not in _BOOL_OPS:
        raise Unsupported(f"{op} of bool tensors")
    return _BOOL_OPS[op]


def register() -> None:
    """Makes "gimbal" known to init_process_group; a second call changes nothing."""
    if hasattr(dist.Backend, "GIMBAL"):
        return
    try:
        dist.Backend.register_backend("gimbal", ProcessGroup, devices=["cpu", "cuda"])
    except TypeError:  # torch 1.13
        dist.Backend.register_backend("gimbal", ProcessGroup)
