"""include/gimbal/gradsync.h by ctypes, and the synchronizer by parameter index: what the numpy and the torch form share.

tests/python/header_test.py holds the tables here against the header.
"""

from __future__ import annotations

import ctypes
import functools
import math
from ctypes import c_char, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint64, c_void_p
from typing import Any, Optional, Sequence

from . import _library, dtypes, errors
from .communicator import Communicator

PROTOTYPES = {
    "gradsync_create": "pozoo",
    "gradsync_destroy": "p",
    "gradsync_gradient": "pzo",
    "gradsync_weight": "pd",
    "gradsync_accumulate": "pi",
    "gradsync_ready": "pzp",
    "gradsync_step_end": "pd",
    "gradsync_wait": "pz",
    "gradsync_join": "p",
    "gradsync_broadcast": "poi",
    "gradsync_check": "po",
    "gradsync_stats": "po",
    "gradsync_timeline": "ps",
    "gradsync_state_bytes": "po",
    "gradsync_state_save": "ppz",
    "gradsync_state_load": "ppz",
    "codec_power_sgd": "io",
    "codec_top_k": "do",
    "sparse_create": "pzzio",
    "sparse_destroy": "p",
    "sparse_reduce": "poozdio",
}
_library.declare(PROTOTYPES)

REDUCTIONS = ("mean", "sum", "weighted_mean")  # gimbal_gradsync_reduction_t in order
MISSING = ("error", "zero")  # gimbal_gradsync_missing_t in order
WIRES = ("as_is", "bfloat16", "float16", "int8", "float8")  # gimbal_gradsync_wire_t in order
FORMS = ("cheaper", "rows", "dense")  # gimbal_sparse_form_t in order
ALL = ctypes.c_size_t(-1).value  # GIMBAL_GRADSYNC_ALL


class Parameter(ctypes.Structure):
    """gimbal_gradsync_parameter_t."""

    _fields_ = [("name", c_char_p), ("count", c_size_t), ("dtype", c_int)]


class Codec(ctypes.Structure):
    """gimbal_codec_t, as the library fills it; its functions are the library's."""

    _fields_ = [("struct_bytes", c_size_t), ("name", c_char * 64), ("setting", c_double), ("context", c_void_p), ("rounds", c_int32),
                ("exchange", c_int), ("open", c_void_p), ("close", c_void_p), ("message_bytes", c_void_p), ("encode", c_void_p),
                ("decode", c_void_p), ("memory", c_void_p)]


class Options(ctypes.Structure):
    """gimbal_gradsync_options_t; its defaults are GIMBAL_GRADSYNC_OPTIONS_INIT's."""

    _fields_ = [("struct_bytes", c_size_t), ("reduction", c_int), ("missing", c_int), ("bucket_bytes", c_size_t),
                ("first_bucket_bytes", c_size_t), ("reorder", c_int32), ("uneven", c_int32),
                ("wire", c_int), ("wire_between_nodes", c_int32), ("codec", c_void_p), ("rows", c_void_p),
                ("trace_steps", c_size_t)]

    def __init__(self) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(Options), reorder=1)


class Stats(ctypes.Structure):
    """gimbal_gradsync_stats_t."""

    _fields_ = [("struct_bytes", c_size_t), ("steps", c_uint64), ("buckets", c_uint64), ("bytes", c_uint64),
                ("exposed_ns", c_uint64), ("span_ns", c_uint64), ("all_exposed_ns", c_uint64),
                ("overlap_ns", c_uint64), ("sent_bytes", c_uint64), ("late_rank", c_int32), ("late_ns", c_uint64)]

    def __init__(self) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(Stats))


class SparseResult(ctypes.Structure):
    """gimbal_sparse_result_t."""

    _fields_ = [("struct_bytes", c_size_t), ("is_dense", c_int32), ("travelled_dense", c_int32), ("count", c_size_t),
                ("indices", c_void_p), ("values", c_void_p), ("rows_bytes", c_uint64), ("dense_bytes", c_uint64)]

    def __init__(self) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(SparseResult))


def options_of(*, reduction: str = "mean", missing: str = "error", bucket_bytes: int = 0, first_bucket_bytes: int = 0,
               reorder: bool = True, uneven: bool = False, wire: str = "as_is", wire_between_nodes: bool = False,
               codec: Optional[Codec] = None, trace_steps: int = 0) -> Options:
    """The struct for the keyword arguments of a synchronizer."""
    options = Options()
    options.reduction = index_of("reduction", reduction, REDUCTIONS)
    options.missing = index_of("missing", missing, MISSING)
    options.bucket_bytes, options.first_bucket_bytes = bucket_bytes, first_bucket_bytes
    options.reorder, options.uneven = int(reorder), int(uneven)
    options.wire, options.wire_between_nodes = index_of("wire", wire, WIRES), int(wire_between_nodes)
    options.codec = None if codec is None else ctypes.addressof(codec)  # which the caller keeps alive until it is copied
    options.trace_steps = trace_steps
    return options


def index_of(what: str, name: str, names: Sequence[str]) -> int:
    """The value of an enumeration."""
    if name not in names:
        raise ValueError(f'{what} "{name}" is none of {", ".join(names)}')
    return names.index(name)


class Synchronizer:
    """A gimbal_gradsync_t on a communicator of its own, so that the program's communicator stays free during a step.

    Freed with its communicator, when both this object and the last memory of gradient() are gone: never in the middle of a peer's
    use, and without a word to the peers.
    """

    def __init__(self, own: Communicator, parameters: Sequence[tuple], options: Options) -> None:
        """parameters: (name, shape, dtype) in the order of the forward pass."""
        self.comm = own
        shapes = [tuple(shape) for _, shape, _ in parameters]
        self.counts = [math.prod(shape) for shape in shapes]
        self.dtypes = [dtypes.dtype(kind) for _, _, kind in parameters]
        table = (Parameter * len(parameters))(*((name.encode(), count, kind.code)
                                                for (name, _, _), count, kind in zip(parameters, self.counts, self.dtypes)))
        rows = (c_size_t * len(parameters))(*(shape[0] if len(shape) > 1 else 0 for shape in shapes))
        options.rows = ctypes.addressof(rows)
        pointer = ctypes.c_void_p()
        self._owner = own.open_handle()
        self._owner.call("gradsync_create", self._owner.pointer, ctypes.addressof(table), len(table), ctypes.addressof(options),
                         ctypes.addressof(pointer))
        self._pointer = pointer.value
        # After the communicator, whose end lets go of what is under way, so that this waits for no peer.
        self._owner.afterwards.append(functools.partial(_library.library.gimbal_gradsync_destroy, self._pointer))
        self._ready = _library.library.gimbal_gradsync_ready  # the one call that is made once per parameter and step

    def gradient(self, index: int) -> Any:
        """The bytes of a parameter's gradient; None where it has no elements."""
        size = self.counts[index] * self.dtypes[index].size
        if size == 0:
            return None
        pointer = ctypes.c_void_p()
        self.call("gradient", index, ctypes.addressof(pointer))
        memory = (ctypes.c_char * size).from_address(pointer.value)
        memory.owner = self._owner
        return memory

    def ready(self, index: int) -> None:
        """See gimbal_gradsync_ready."""
        status = self._ready(self._pointer, index, None)
        if status:
            raise errors.error_of(status, _library.last_error(), "gradsync_ready", self.comm.rank)

    def call(self, name: str, *arguments: Any) -> None:
        """gimbal_gradsync_<name>(this, *arguments)."""
        self._owner.call(f"gradsync_{name}", self._pointer, *arguments)

    def end_step(self, weight: float) -> None:
        """Ends the step and waits for all its gradients."""
        self.call("step_end", weight)
        self.call("wait", ALL)

    def on_all(self, name: str, values: Optional[Sequence[int]], *arguments: Any) -> None:
        """A function that takes one pointer per parameter: broadcast, check."""
        table = (ctypes.c_void_p * len(values))(*values) if values is not None else None
        self.call(name, ctypes.addressof(table) if table is not None else None, *arguments)

    def state(self) -> bytes:
        """What is carried from step to step, for a checkpoint of this rank."""
        size = c_size_t()
        self.call("state_bytes", ctypes.addressof(size))
        content = (c_char * size.value)()
        self.call("state_save", ctypes.addressof(content), size.value)
        return content.raw

    def load_state(self, content: bytes) -> None:
        """Goes on where state() was taken."""
        copy = (c_char * len(content)).from_buffer_copy(content)
        self.call("state_load", ctypes.addressof(copy), len(content))

    def stats(self) -> Stats:
        """Numbers of the last step, and sums."""
        raw = Stats()
        self.call("stats", ctypes.addressof(raw))
        return raw
