"""Gradient averaging for trainers that keep their gradients in arrays; gimbal.torch has the form for PyTorch."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from . import _gradsync, arrays, dtypes
from ._library import call
from .communicator import Communicator

__all__ = ["GradientStats", "GradientSynchronizer", "power_sgd", "top_k"]


def power_sgd(rank: int) -> Any:
    """A codec: a matrix's gradient travels as two of `rank` columns (1 to 64). What is not sent in a step is added to the next."""
    codec = _gradsync.Codec()
    call("codec_power_sgd", rank, ctypes.addressof(codec))
    return codec


def top_k(ratio: float) -> Any:
    """A codec: the largest elements travel, `ratio` of each gradient (above 0, below 1). The others are added to the next step."""
    codec = _gradsync.Codec()
    call("codec_top_k", ratio, ctypes.addressof(codec))
    return codec


@dataclasses.dataclass(frozen=True)
class GradientStats:
    """What a synchronizer has done. See gimbal_gradsync_stats_t.

    Attributes:
        steps: that have ended.
        buckets: of a step.
        bytes: of a step's gradients.
        exposed_ns: nanoseconds of the last step that this rank waited.
        span_ns: of the last step, from the first bucket's start to the end of the wait.
        all_exposed_ns: exposed_ns, summed over the steps.
        overlap_ns: of span_ns, what was not exposed.
        sent_bytes: that this rank sent in the last step, at least.
        late_rank: that arrived last most often in the recent operations; None when nobody stands out.
        late_ns: how late it was there in nanoseconds, mean.
    """

    steps: int
    buckets: int
    bytes: int
    exposed_ns: int
    span_ns: int
    all_exposed_ns: int
    overlap_ns: int
    sent_bytes: int
    late_rank: Optional[int]
    late_ns: int

    @classmethod
    def of(cls, sync: _gradsync.Synchronizer) -> "GradientStats":
        """Those of a synchronizer."""
        raw = sync.stats()
        found = cls(*(getattr(raw, field.name) for field in dataclasses.fields(cls)))
        return found if raw.late_rank >= 0 else dataclasses.replace(found, late_rank=None)


class GradientSynchronizer:
    """Averages gradients over the ranks while the backward pass goes on.

        sync = gimbal.GradientSynchronizer(comm, {"weight": numpy.zeros((64, 10)), "bias": numpy.zeros(10)})
        for batch in batches:                       # a step
            for name in ("bias", "weight"):         # the backward pass, last layer first
                sync.gradients[name][...] = ...
                sync.ready(name)                    # reduced from here on, in buckets, while the pass goes on
            sync.synchronize()                      # all gradients are means now

    It works on a communicator of its own, split from the given one. Its memory is freed when the object and the last of its
    arrays are gone.

    Attributes:
        gradients: by name, arrays of the parameters' shapes in memory that the node's peers map. bfloat16 and float8 are kept
            in unsigned integers of their size.
    """

    def __init__(self, communicator: Communicator, parameters: Mapping[str, Any], *, reduction: str = "mean",
                 missing: str = "error", bucket_bytes: int = 0, first_bucket_bytes: int = 0, reorder: bool = True,
                 uneven: bool = False, wire: str = "as_is", wire_between_nodes: bool = False, codec: Any = None,
                 trace_steps: int = 0) -> None:
        """Collective.

        Args:
            parameters: in the order of the forward pass, equal on all ranks: arrays, or (shape, dtype). Their content is not
                looked at.
            reduction: "mean", "sum", or "weighted_mean": sum of weight * gradient / sum of weights.
            missing: of parameters that were not ready in a step: "error" names them in synchronize(), "zero" takes zeros.
            bucket_bytes, first_bucket_bytes: of a bucket, and of the one that is started first, at most; 0: measured, and 1 MiB.
            reorder: after the first step buckets are started in the order in which rank 0 completed them.
            uneven: ranks may make different numbers of steps, see join().
            wire: as what float32 gradients travel: "as_is", "bfloat16", "float16", "int8" or "float8", see docs/gradsync.md.
            wire_between_nodes: they do so between nodes only.
            codec: gimbal.power_sgd(4) or gimbal.top_k(0.01): float32 gradients in another form; with two dimensions or more, the
                first is a matrix's rows.
            trace_steps: the last so many steps are recorded for timeline().

        Raises:
            Mismatch: the ranks' parameters or options differ; the text has the first difference.
            ValueError: a parameter or an option that is wrong by itself.
        """
        self._options = dict(reduction=reduction, missing=missing, bucket_bytes=bucket_bytes, first_bucket_bytes=first_bucket_bytes,
                             reorder=reorder, uneven=uneven, wire=wire, wire_between_nodes=wire_between_nodes, codec=codec,
                             trace_steps=trace_steps)
        self._parameters = {name: _shape_and_type(name, parameter) for name, parameter in parameters.items()}
        self._index = {name: index for index, name in enumerate(parameters)}
        self._make(communicator.split(0, communicator.rank))

    def _make(self, own: Communicator) -> None:
        described = [(name, shape, kind) for name, (shape, kind) in self._parameters.items()]
        self._sync = _gradsync.Synchronizer(own, described, _gradsync.options_of(**self._options))
        self.gradients: Dict[str, Any] = {}
        for name, (shape, kind) in self._parameters.items():
            self.gradients[name] = _array(self._sync.gradient(self._index[name]), shape, kind)

    @property
    def rank(self) -> int:
        """This rank."""
        return self._sync.comm.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._sync.comm.size

    def ready(self, name: str) -> None:
        """The gradient of that parameter is complete; its array is not to be touched until synchronize() or wait(). Once a step."""
        self._sync.ready(self._index[name])

    def announce_weight(self, weight: float) -> None:
        """For "weighted_mean", before the first ready() of a step: this rank's weight, so that buckets can be started at once."""
        self._sync.call("weight", weight)

    def step_end(self, weight: float = 1.0) -> None:
        """The backward pass has ended: starts what is left.

        Args:
            weight: this rank's, for "weighted_mean".
        """
        self._sync.call("step_end", weight)

    def wait(self, name: Optional[str] = None) -> None:
        """After step_end(): blocks until the gradient of that parameter is reduced; without a name of all, which ends the step."""
        self._sync.call("wait", _gradsync.ALL if name is None else self._index[name])

    def synchronize(self, weight: float = 1.0) -> None:
        """step_end() and wait(): every array of `gradients` holds the result, the same bits on every rank."""
        self._sync.end_step(weight)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """ready() inside only records that the parameter has a gradient: micro-batches are added up in the arrays, and the first
        step after it reduces what any of them touched, once."""
        self._sync.call("accumulate", 1)
        try:
            yield
        finally:
            self._sync.call("accumulate", 0)

    def join(self) -> None:
        """With `uneven`, for a rank that has made all its steps: takes part in the others' with weight 0, and returns when all
        have joined."""
        self._sync.call("join")

    def broadcast(self, values: Mapping[str, Any], root: int = 0) -> None:
        """Collective, between steps: root's values of the parameters go to all, in place."""
        self._sync.on_all("broadcast", [view.pointer for view in self._views(values)], root)

    def check(self, values: Optional[Mapping[str, Any]] = None) -> None:
        """Collective, between steps: the values (or, without any, the gradients) are the same bits on every rank.

        Raises:
            Mismatch: on every rank, with the first parameter that differs and the ranks where it does. The communicator
                stays usable.
        """
        self._sync.on_all("check", None if values is None else [view.pointer for view in self._views(values)])

    def stats(self) -> GradientStats:
        """What it has done so far."""
        return GradientStats.of(self._sync)

    def timeline(self, path: Any) -> None:
        """Collective, between steps, with `trace_steps`: rank 0 writes what became of each bucket on every rank, for Perfetto."""
        self._sync.call("timeline", str(path).encode())

    def state_dict(self) -> Dict[str, Any]:
        """What is carried from step to step (error feedback, a codec's memory), for a checkpoint of this rank."""
        return {"rank": self.rank, "state": self._sync.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on, in every bit, where state_dict() was taken on this rank.

        Raises:
            InvalidArgument: it is another rank's or of other parameters; nothing is changed.
        """
        self._sync.load_state(state["state"])

    def shrink(self) -> None:
        """For the survivors, after a failure: the same parameters over the ranks that answer. `gradients` are new arrays."""
        self._make(self._sync.comm.shrink())

    def abort(self) -> None:
        """From any thread: every call under way, here and on the peers, fails with Aborted at once."""
        self._sync.comm.abort()

    def _views(self, values: Mapping[str, Any]) -> list:
        if set(values) != set(self._index):
            odd = sorted(set(values) ^ set(self._index))
            raise ValueError(f"values are not those of the parameters: {', '.join(odd[:5])} on one side only")
        found = [arrays.view(values[name]) for name in self._index]
        for name, view in zip(self._index, found):
            shape, kind = self._parameters[name]
            if view.nbytes != math.prod(shape) * kind.size:
                raise ValueError(f'the value of "{name}" has {view.nbytes} bytes; the parameter has {math.prod(shape) * kind.size}')
        return found


def _shape_and_type(name: str, parameter: Any) -> Tuple[tuple, dtypes.DType]:
    if isinstance(parameter, tuple) and len(parameter) == 2:
        shape, kind = parameter
        return ((shape,) if isinstance(shape, int) else tuple(shape)), dtypes.dtype(kind)
    view = arrays.view(parameter)
    if view.dtype is None:
        raise ValueError(f'parameter "{name}" has a type that Gimbal lacks ({getattr(parameter, "dtype", type(parameter).__name__)})')
    return view.shape, view.dtype


def _array(memory: Any, shape: tuple, kind: dtypes.DType) -> Any:
    import numpy

    if memory is None:
        return numpy.empty(shape, kind.typestr)
    return numpy.frombuffer(memory, kind.typestr).reshape(shape)
