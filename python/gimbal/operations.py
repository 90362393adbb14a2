"""The collectives, for blocking calls and for started ones alike: what to check, what to allocate, what to pass to C."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional, Sequence, Tuple

from . import _library, arrays
from .arrays import View

__all__ = ["OPS", "Operations"]

OPS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor")  # gimbal_op_t in order
_UINT8 = 1


@dataclasses.dataclass
class Issue:
    """One call: gimbal_<name>(*arguments, communicator, stream), what it returns, and what must live until it has completed."""

    name: str
    arguments: Tuple[Any, ...]
    stream: Optional[int]
    result: Any
    alive: Tuple[Any, ...]

    def __post_init__(self) -> None:
        # Arrays may bring the stream that they are ordered by.
        if self.stream is None:
            self.stream = next((view.stream for view in self.alive if isinstance(view, View) and view.stream), None)


class Operations:
    """Every collective of the C API. n is the number of ranks; counts and shapes are in elements.

    Arrays are numpy's, or anything with `__array_interface__`, `__cuda_array_interface__`, `__dlpack__` or the buffer protocol;
    C-contiguous. `dtype` is a tag for types that the array's library lacks ("bfloat16" kept in uint16, "float8_e4m3" in uint8).
    `op` is one of sum, prod, min, max, avg, band, bor, bxor. `out` may be the sent array itself (in place) where shapes are
    equal; without it a new array of the same library is returned. `stream` is a cudaStream_t as integer, for device memory only;
    without it, the one that an array itself names.
    Arrays of a type that Gimbal lacks (bool, int16) can be moved, but not reduced.

    Every method raises ValueError or TypeError for arrays that do not fit, and GimbalError for what the library refuses.
    """

    rank: int
    size: int

    def _issue(self, issue: Issue) -> Any:
        raise NotImplementedError

    def all_reduce(self, send: Any, op: str = "sum", out: Any = None, *, dtype: Any = None, weight: Optional[float] = None,
                   normalize: bool = False, stream: Optional[int] = None) -> Any:
        """Reduces over all ranks; every rank gets the result, of send's shape.

        Args:
            weight: this rank's: the result is the sum of weight_r * send_r (op "sum", floating types).
            normalize: the weighted sum is divided by the sum of the weights.
        """
        source = _readable(send, dtype, reduced=True)
        out, target = self._target(out, send, source.shape, source)
        arguments = (source.pointer, target.pointer, source.count, source.dtype.code, _op(op))
        if weight is None and not normalize:
            return self._issue(Issue("all_reduce", arguments, stream, out, (source, target)))
        options = _library.ReduceOptions(1.0 if weight is None else weight, normalize)
        return self._issue(Issue("all_reduce_options", (*arguments, ctypes.addressof(options)), stream, out,
                                 (source, target, options)))

    def reduce_scatter(self, send: Any, op: str = "sum", out: Any = None, *, dtype: Any = None,
                       stream: Optional[int] = None) -> Any:
        """Reduces send[n * k, ...] over all ranks; rank r gets rows r*k... of it, of shape [k, ...]."""
        source = _readable(send, dtype, reduced=True)
        out, target = self._target(out, send, _divided(source.shape, self.size, "reduce_scatter"), source)
        return self._issue(Issue("reduce_scatter", (source.pointer, target.pointer, target.count, source.dtype.code, _op(op)),
                                 stream, out, (source, target)))

    def all_gather(self, send: Any, out: Any = None, *, stream: Optional[int] = None) -> Any:
        """Every rank's send, by rank: the result has shape [n, *send.shape]."""
        source = _readable(send)
        out, target = self._target(out, send, (self.size, *source.shape), source)
        return self._issue(Issue("all_gather", (source.pointer, target.pointer, *_moved(source)), stream, out, (source, target)))

    def broadcast(self, buffer: Any, root: int = 0, *, stream: Optional[int] = None) -> Any:
        """root's content goes to all, in place; returns buffer."""
        target = _readable(buffer) if self.rank == root else _writable(buffer)
        return self._issue(Issue("broadcast", (target.pointer, *_moved(target), root), stream, buffer, (target,)))

    def reduce(self, send: Any, op: str = "sum", root: int = 0, out: Any = None, *, dtype: Any = None,
               stream: Optional[int] = None) -> Any:
        """Reduces over all ranks; root gets the result, of send's shape, the others None."""
        source = _readable(send, dtype, reduced=True)
        out, target = self._target(out, send, source.shape, source) if self.rank == root else (None, None)
        return self._issue(Issue("reduce", (source.pointer, target.pointer if target else None, source.count, source.dtype.code,
                                            _op(op), root), stream, out, (source, target)))

    def all_to_all(self, send: Any, out: Any = None, *, stream: Optional[int] = None) -> Any:
        """Rows r*k... of send[n * k, ...] go to rank r; rows r*k... of the result come from rank r. Not in place."""
        source = _readable(send)
        block = _divided(source.shape, self.size, "all_to_all")
        out, target = self._target(out, send, source.shape, source)
        return self._issue(Issue("all_to_all", (source.pointer, target.pointer, *_moved(source, block)), stream, out,
                                 (source, target)))

    def gather(self, send: Any, root: int = 0, out: Any = None, *, stream: Optional[int] = None) -> Any:
        """Every rank's send, by rank, at root: shape [n, *send.shape]; None on the others."""
        source = _readable(send)
        out, target = self._target(out, send, (self.size, *source.shape), source) if self.rank == root else (None, None)
        return self._issue(Issue("gather", (source.pointer, target.pointer if target else None, *_moved(source), root), stream,
                                 out, (source, target)))

    def scatter(self, send: Any, out: Any, root: int = 0, *, stream: Optional[int] = None) -> Any:
        """Block r of root's send[n, *out.shape] goes to rank r's out; send is ignored elsewhere. Returns out."""
        target = _writable(out)
        source = _readable(send) if self.rank == root else None
        if source is not None and source.nbytes != self.size * target.nbytes:
            raise ValueError(f"scatter: send has {source.nbytes} bytes; {self.size} ranks with an out of {target.nbytes} bytes "
                             f"take {self.size * target.nbytes}")
        return self._issue(Issue("scatter", (source.pointer if source else None, target.pointer, *_moved(target), root), stream,
                                 out, (source, target)))

    def all_gather_v(self, send: Any, counts: Sequence[int], out: Any = None, *, stream: Optional[int] = None) -> Any:
        """counts[r] elements of every rank r, packed by rank: shape [sum(counts)]. counts is equal on all ranks."""
        source = _readable(send)
        _require_one_per_rank("counts", counts, self.size)
        out, target = self._target(out, send, (sum(counts),), source)
        unit, code = _unit(source)
        sizes = _sizes(counts, unit)
        return self._issue(Issue("all_gather_v", (source.pointer, source.count * unit, target.pointer, ctypes.addressof(sizes), None,
                                                  code), stream, out, (source, target, sizes)))

    def all_to_all_v(self, send: Any, send_counts: Sequence[int], recv_counts: Sequence[int], out: Any = None, *,
                     stream: Optional[int] = None) -> Any:
        """send_counts[r] elements of the packed send go to rank r; recv_counts[r] of rank r arrive, packed by rank."""
        source = _readable(send)
        _require_one_per_rank("send_counts", send_counts, self.size)
        _require_one_per_rank("recv_counts", recv_counts, self.size)
        if sum(send_counts) != source.count:
            raise ValueError(f"all_to_all_v: send has {source.count} elements, send_counts sum to {sum(send_counts)}")
        out, target = self._target(out, send, (sum(recv_counts),), source)
        unit, code = _unit(source)
        sent, received = _sizes(send_counts, unit), _sizes(recv_counts, unit)
        return self._issue(Issue("all_to_all_v", (source.pointer, ctypes.addressof(sent), None, target.pointer,
                                                  ctypes.addressof(received), None, code), stream, out,
                                 (source, target, sent, received)))

    def send(self, buffer: Any, peer: int, *, stream: Optional[int] = None) -> None:
        """buffer goes to peer; matched with its recv by order per pair of ranks."""
        source = _readable(buffer)
        return self._issue(Issue("send", (source.pointer, *_moved(source), peer), stream, None, (source,)))

    def recv(self, buffer: Any, peer: int, *, stream: Optional[int] = None) -> Any:
        """What peer sends arrives in buffer; returns buffer."""
        target = _writable(buffer)
        return self._issue(Issue("recv", (target.pointer, *_moved(target), peer), stream, buffer, (target,)))

    def barrier(self, *, stream: Optional[int] = None) -> None:
        """Returns when every rank has called it."""
        return self._issue(Issue("barrier", (), stream, None, ()))

    @staticmethod
    def _target(out: Any, send: Any, shape: Tuple[int, ...], source: View) -> Tuple[Any, View]:
        """out, or a new array for a result of that shape, and its memory."""
        if out is None:
            out = arrays.empty_like(send, shape)
        target = _writable(out)
        wanted = _bytes_of(shape, source.itemsize)
        if target.nbytes != wanted or target.itemsize != source.itemsize:
            raise ValueError(f"out has shape {target.shape} with elements of {target.itemsize} bytes; the result has shape "
                             f"{shape} with elements of {source.itemsize}")
        if target.device != source.device:
            raise ValueError("send and out are in different kinds of memory: one is host, the other device memory")
        return out, target


def _bytes_of(shape: Tuple[int, ...], itemsize: int) -> int:
    total = itemsize
    for extent in shape:
        total *= extent
    return total


def _readable(array: Any, tag: Any = None, reduced: bool = False) -> View:
    found = arrays.view(array, tag)
    if reduced and found.dtype is None:
        raise ValueError(f"elements of {type(array).__name__} {getattr(array, 'dtype', '')} cannot be reduced: Gimbal's types are "
                         f"{', '.join(entry.name for entry in arrays.dtypes.DTYPES)}")
    return found


def _writable(array: Any) -> View:
    found = arrays.view(array)
    if not found.writable:
        raise ValueError(f"the {type(array).__name__} for the result is read-only")
    return found


def _op(name: str) -> int:
    try:
        return OPS.index(name)
    except ValueError:
        raise ValueError(f'op "{name}" is none of {", ".join(OPS)}') from None


def _unit(source: View) -> Tuple[int, int]:
    """How many elements of which type one element travels as: types that Gimbal lacks are bytes."""
    return (1, source.dtype.code) if source.dtype else (source.itemsize, _UINT8)


def _moved(source: View, shape: Optional[Tuple[int, ...]] = None) -> Tuple[int, int]:
    unit, code = _unit(source)
    count = source.count if shape is None else _bytes_of(shape, 1)
    return count * unit, code


def _divided(shape: Tuple[int, ...], parts: int, what: str) -> Tuple[int, ...]:
    if not shape or shape[0] % parts:
        raise ValueError(f"{what}: the first dimension of shape {shape} does not divide by {parts} ranks")
    return (shape[0] // parts, *shape[1:])


def _require_one_per_rank(what: str, counts: Sequence[int], size: int) -> None:
    if len(counts) != size:
        raise ValueError(f"{what} has {len(counts)} entries; there are {size} ranks")


def _sizes(counts: Sequence[int], unit: int) -> ctypes.Array:
    return (ctypes.c_size_t * len(counts))(*(count * unit for count in counts))
