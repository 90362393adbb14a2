"""Gradient averaging for PyTorch without torch.distributed: hooks on the parameters, buckets in the library.

Autograd tells when a gradient has been accumulated. It is then in the synchronizer's memory already (when the trainer keeps the
gradients, or in a later micro-batch), or is copied there once and replaced by the view, which is what makes `grad = None` harmless.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, Optional

import torch

from .. import _gradsync, group
from ..communicator import Communicator
from ..errors import Unsupported
from ..gradsync import GradientStats
from .tensors import DTYPES, Dense, fills_its_memory, view

__all__ = ["GradientSynchronizer"]


class GradientSynchronizer:
    """Averages a model's gradients over the ranks while the backward pass goes on.

        sync = gimbal.torch.GradientSynchronizer(model)   # parameters and buffers of rank 0 go to all
        ...
        loss.backward()
        sync.synchronize()                                # before optimizer.step()

    The model is used as it is, not wrapped. After synchronize() every parameter's `grad` is a view into memory that the node's
    peers map; `grad = None` and zero_grad() of either kind are fine. Parameters that need no gradient when it is made are left
    alone. Sparse gradients are made dense.
    """

    def __init__(self, model: torch.nn.Module, communicator: Optional[Communicator] = None, *, broadcast: bool = True,
                 check_every: int = 0, **options: Any) -> None:
        """Collective.

        Args:
            model: on the host; the same on all ranks but for its values.
            communicator: of the ranks to average over; a communicator of its own is split from it. None: of all ranks that the
                launcher started.
            broadcast: parameters and buffers of rank 0 go to all.
            check_every: after so many steps check() is called; 0: never.
            options: reduction, missing, bucket_bytes, first_bucket_bytes, reorder, uneven, wire, wire_between_nodes, codec,
                trace_steps, as gimbal.GradientSynchronizer's.

        Raises:
            Mismatch: the ranks' models or options differ; the text has the first difference.
            Unsupported: a parameter is on a device.
        """
        self._model = model
        self._options = options
        self._check_every = check_every
        self._steps = 0
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._parameters = [parameter for _, parameter in named]
        self._described = [(_described(name, parameter), parameter.shape, _type_of(name, parameter)) for name, parameter in named]
        self._make(Communicator() if communicator is None else communicator.split(0, communicator.rank))
        self._hooks = [_hook(parameter, self._hook_of(index)) for index, parameter in enumerate(self._parameters)]
        if broadcast:
            self.broadcast()

    def _make(self, own: Communicator) -> None:
        self._sync = _gradsync.Synchronizer(own, self._described, _gradsync.options_of(**self._options))
        self._views = [_view(self._sync.gradient(index), parameter) for index, parameter in enumerate(self._parameters)]

    def _hook_of(self, index: int) -> Callable[..., None]:
        parameter = self._parameters[index]

        def accumulated(*_: Any) -> None:
            # The lists and not their entries: shrink() makes new ones.
            ours = self._views[index]
            if parameter.grad is not ours:
                _adopt(parameter, ours)
            self._sync.ready(index)

        return accumulated

    @property
    def rank(self) -> int:
        """This rank."""
        return self._sync.comm.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._sync.comm.size

    def announce_weight(self, weight: float) -> None:
        """For reduction="weighted_mean", before backward(): this rank's weight (examples, tokens). Without it buckets are started
        by synchronize() only, which then must be given the weight."""
        self._sync.call("weight", weight)

    def synchronize(self, weight: float = 1.0) -> None:
        """After backward(), before the gradients are used: every `grad` is the mean, the same bits on every rank.

        Args:
            weight: this rank's, for "weighted_mean"; what announce_weight() said, if it did.

        Raises:
            InvalidUsage: a parameter got no gradient (without missing="zero"); the text names those.
            RemoteFailure, DeadlinePassed, Aborted: the communicator is lost; see shrink().
            Mismatch: check() found a difference.
        """
        self._sync.end_step(weight)
        for parameter, ours in zip(self._parameters, self._views):
            if parameter.grad is not ours:
                parameter.grad = ours
        self._steps += 1
        if self._check_every and self._steps % self._check_every == 0:
            self.check()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """backward() inside adds up micro-batches; the first synchronize() after it reduces what any of them touched, once."""
        self._sync.call("accumulate", 1)
        try:
            yield
        finally:
            self._sync.call("accumulate", 0)

    def join(self) -> None:
        """With uneven=True, for a rank that has made all its steps: takes part in the others' with weight 0. Returns when all have
        joined; parameters and buffers of a rank that made the most steps are everybody's then."""
        self._sync.call("join")
        steps = self._sync.comm.all_gather(torch.tensor([self._steps])).reshape(-1)
        self.broadcast(int(steps.argmax()))
        self._steps = int(steps.max())

    def broadcast(self, root: int = 0) -> None:
        """Collective, between steps: root's parameters and buffers go to all."""
        with contextlib.ExitStack() as stack:
            tensors = [stack.enter_context(Dense(tensor)) for tensor in (*self._model.parameters(), *self._model.buffers())]
            with group():
                for tensor in tensors:
                    self._sync.comm.broadcast(view(tensor), root)

    def check(self) -> None:
        """Collective, between steps: the parameters are the same bits on every rank.

        Raises:
            Mismatch: on every rank, with the first parameter that differs and the ranks where it does. Training can go on,
                after broadcast() for example.
        """
        with contextlib.ExitStack() as stack:
            tensors = [stack.enter_context(Dense(parameter, written=False)) for parameter in self._parameters]
            self._sync.on_all("check", [tensor.data_ptr() or _NOWHERE for tensor in tensors])

    def stats(self) -> GradientStats:
        """What it has done so far."""
        return GradientStats.of(self._sync)

    def timeline(self, path: Any) -> None:
        """Collective, between steps, with trace_steps: rank 0 writes what became of each bucket on every rank, for Perfetto."""
        self._sync.call("timeline", str(path).encode())

    def state_dict(self) -> Dict[str, Any]:
        """What is carried from step to step (error feedback, a codec's memory) and the count of steps, for a checkpoint of this
        rank beside the model's and the optimizer's."""
        return {"rank": self.rank, "steps": self._steps, "state": self._sync.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on, in every bit, where state_dict() was taken on this rank.

        Raises:
            InvalidArgument: it is another rank's or of another model; nothing is changed.
        """
        self._sync.load_state(state["state"])
        self._steps = state["steps"]

    def shrink(self) -> None:
        """For the survivors, after a failure: goes on over the ranks that answer. Gradients of the step that failed are lost;
        parameters and buffers are those of the lowest rank that is left, since a failure may lie between two ranks' steps."""
        self._make(self._sync.comm.shrink())
        for parameter in self._parameters:
            parameter.grad = None
        self.broadcast()

    def abort(self) -> None:
        """From any thread: every call under way, here and on the peers, fails with Aborted at once."""
        self._sync.comm.abort()

    def close(self) -> None:
        """The model trains alone from now on. Waits for no peer."""
        for remove in self._hooks:
            remove()
        self._hooks = []
        for parameter, ours in zip(self._parameters, self._views):
            if parameter.grad is ours:
                parameter.grad = ours.clone()
        self._views = []
        self._sync.comm.close()


_NOWHERE = 1  # for a tensor without elements, which has no address


def _type_of(name: str, parameter: torch.Tensor) -> Any:
    if parameter.device.type != "cpu":
        raise Unsupported(f'parameter "{name}" is on {parameter.device}: the synchronizer\'s gradients are on the host')
    kind = DTYPES.get(parameter.dtype)
    if kind is None:
        raise Unsupported(f'parameter "{name}" is {parameter.dtype}, which Gimbal has no type for')
    return kind


def _described(name: str, parameter: torch.Tensor) -> str:
    """The parameter's name, with its strides where they are no matter of course: ranks add memory, so theirs must be equal."""
    return name if parameter.is_contiguous() else f"{name}, strides {tuple(parameter.stride())}"


def _view(memory: Any, parameter: torch.Tensor) -> torch.Tensor:
    """The memory, laid out as the parameter is."""
    if memory is None:
        return torch.empty_like(parameter, requires_grad=False)
    flat = torch.frombuffer(memory, dtype=parameter.dtype)
    if fills_its_memory(parameter):
        return flat.as_strided(parameter.shape, parameter.stride())
    return flat.view(parameter.shape)


def _adopt(parameter: torch.Tensor, ours: torch.Tensor) -> None:
    """Brings the gradient into the synchronizer's memory."""
    gradient = parameter.grad
    with torch.no_grad():
        if gradient.is_sparse:
            ours.zero_().add_(gradient)
        else:
            ours.copy_(gradient)
    parameter.grad = ours


def _hook(parameter: torch.Tensor, function: Callable[..., None]) -> Callable[[], None]:
    """Calls function after each accumulation into parameter.grad. Returns what undoes that."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(function).remove
    # torch 1.13: the node of the graph that accumulates, which lives as long as somebody holds it.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    handle = node.register_hook(function)

    def remove(_node: Any = node) -> None:
        handle.remove()

    return remove
