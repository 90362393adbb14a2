"""Communicators, requests and groups."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import math
import threading
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _interrupt, _library, dtypes, errors
from ._library import call
from .operations import Issue, Operations
from .store import StoreCallbacks

__all__ = ["Communicator", "Future", "Stats", "group"]

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather", "scatter", "barrier",
               "send", "recv", "all_gather_v", "all_to_all_v")  # gimbal_collective_t in order
_PROGRESS = ("thread", "caller")  # gimbal_progress_t in order
_HOST_MEMORY = 0


@dataclasses.dataclass(frozen=True)
class Stats:
    """What this rank's communicator has done. See gimbal_stats_t.

    Attributes:
        operations: completed.
        bytes: of their payloads.
        wait_ns: nanoseconds that this rank waited for peers in blocking calls.
        last_arrived_rank: the rank that arrived last most often in the recent window; None when nobody stands out.
        last_arrived_ns: how late it was there in nanoseconds, mean over the window.
        host_bytes: host memory that the communicator holds.
        errors: operations that failed.
        window_waits: operations of the recent window that had to wait, when somebody stands out in it.
        last_arrived_waits: those of them in which last_arrived_rank was the last.
    """

    operations: int
    bytes: int
    wait_ns: int
    last_arrived_rank: Optional[int]
    last_arrived_ns: int
    host_bytes: int
    errors: int
    window_waits: int
    last_arrived_waits: int


class Handle:
    """Owns a gimbal_comm_t. Futures and arrays of Communicator.alloc() own it too: their memory goes with it.

    Attributes:
        pointer: the gimbal_comm_t.
        pending: requests under way, with their arrays.
        afterwards: functions to call when the communicator has been destroyed.
    """

    def __init__(self, pointer: int, log: Any) -> None:
        self.pointer = pointer
        self.rank: Optional[int] = None
        self.pending: set = set()
        self.afterwards: list = []
        self._calls = _interrupt.Calls(functools.partial(_library.library.gimbal_comm_abort, pointer))
        weakref.finalize(self, _destroy, pointer, self.pending, self.afterwards, log)

    def call(self, name: str, *arguments: Any) -> None:
        """gimbal_<name>(*arguments), which may wait for the peers: Ctrl-C ends it."""
        calls = self._calls
        calls.entered += 1
        try:
            call(name, *arguments, rank=self.rank)
        finally:
            calls.left = calls.entered


def _destroy(pointer: int, pending: set, afterwards: list, _log: Any) -> None:
    _library.library.gimbal_comm_destroy(pointer)
    pending.clear()  # only now may the arrays of operations under way go
    for function in afterwards:
        function()


class _Request:
    """A gimbal_request_t and what it needs alive, for a future and for the set of those under way."""

    def __init__(self, issue: Issue) -> None:
        self.issue = issue
        self.handle = ctypes.c_void_p()
        self.error: Optional[errors.GimbalError] = None

    def finish(self, caller: Callable[..., None], function: str, *arguments: Any) -> None:
        try:
            caller(function, ctypes.addressof(self.handle), *arguments)
        except errors.GimbalError as error:
            error.operation = self.issue.name
            self.error = error
            self.handle = ctypes.c_void_p()

    def test(self, owner: Handle) -> bool:
        if self.handle:
            self.finish(functools.partial(call, rank=owner.rank), "test", ctypes.addressof(ctypes.c_int()))
        return not self.handle


class Future:
    """A started operation. Its arrays must not be touched before it has completed; they are kept alive until then."""

    def __init__(self, request: _Request, owner: Handle) -> None:
        self._request = request
        self._owner = owner

    def done(self) -> bool:
        """Whether it has completed or failed; never waits."""
        if self._request.test(self._owner):
            self._owner.pending.discard(self._request)
            return True
        return False

    def wait(self) -> Any:
        """Blocks until it has completed; returns what the blocking call returns.

        Raises:
            GimbalError: it failed.
        """
        if self._request.handle:
            self._request.finish(self._owner.call, "wait")
        self._owner.pending.discard(self._request)
        if self._request.error is not None:
            raise self._request.error
        return self._request.issue.result


class _Started(Operations):
    """The operations of a communicator as futures."""

    def __init__(self, communicator: "Communicator") -> None:
        self._communicator = weakref.proxy(communicator)
        self.rank, self.size = communicator.rank, communicator.size

    def _issue(self, issue: Issue) -> Future:
        owner = self._communicator.open_handle()
        if not _groups.depth:
            # Lets go of the arrays of completed operations whose futures nobody has waited for.
            owner.pending.difference_update([request for request in owner.pending if request.test(owner)])
        request = _Request(issue)
        call(f"{issue.name}_start", *issue.arguments, owner.pointer, issue.stream, ctypes.addressof(request.handle), rank=self.rank)
        owner.pending.add(request)
        return Future(request, owner)


class Communicator(Operations):
    """A group of ranks. Its operations block; those of `start` return futures.

    Use it as a context manager, or close() it. One thread at a time; abort() and status() from any.

    Attributes:
        rank: this rank, 0 to size-1.
        size: number of ranks.
        start: the same operations as futures: `comm.start.all_reduce(a).wait()`.
    """

    def __init__(self, *, rank: Optional[int] = None, size: Optional[int] = None, rendezvous: Optional[str] = None,
                 store: Any = None, timeout: Optional[float] = None, connect_timeout: Optional[float] = None,
                 deterministic: Optional[bool] = None, progress: str = "thread", algorithm: Optional[str] = None,
                 transport: Optional[str] = None, name: Optional[str] = None,
                 log: Optional[Callable[[int, str], None]] = None) -> None:
        """Collective over all ranks. What is not given comes from the environment: gimbal-run's, torchrun's or mpirun's.

        Args:
            rank, size: this rank and the number of ranks.
            rendezvous: "tcp://host:port", "unix://name", "file:///path" or "memory://name".
            store: instead of rendezvous: torch.distributed's Store or an object of its shape (gimbal.store).
            timeout: deadline of one operation, in seconds.
            connect_timeout: deadline of this call, in seconds.
            deterministic: sums follow one fixed binary tree over ranks.
            progress: "thread", or "caller": started operations advance in calls only.
            algorithm, transport: forced, as in the environment.
            name: for messages.
            log: gets (level, line) instead of standard error, from any thread; level 0 error, 1 warning, 2 info, 3 debug.

        Raises:
            GimbalError: the message names what is wrong or who is missing.
        """
        config = _library.Config()
        config.rank, config.size = (-1 if rank is None else rank), (-1 if size is None else size)
        config.deterministic = -1 if deterministic is None else int(deterministic)
        config.timeout_ms, config.connect_timeout_ms = _milliseconds(timeout), _milliseconds(connect_timeout)
        if progress not in _PROGRESS:
            raise ValueError(f'progress "{progress}" is none of {", ".join(_PROGRESS)}')
        config.progress = _PROGRESS.index(progress)
        for field, text in (("rendezvous", rendezvous), ("algorithm", algorithm), ("transport", transport), ("name", name)):
            setattr(config, field, None if text is None else text.encode())
        callbacks = StoreCallbacks(store) if store is not None else None
        if callbacks:
            config.store = ctypes.pointer(callbacks.struct)
        line_callback = _library.LOG(lambda _context, level, line: log(level, line.decode(errors="replace"))) if log else None
        if line_callback:
            config.log = line_callback
        _interrupt.watch()
        try:
            pointer = _create(config, rank)
        except errors.GimbalError as error:
            raise error from (callbacks.error if callbacks else None)
        self._adopt(pointer, line_callback)

    def _adopt(self, pointer: int, log: Any) -> None:
        self._handle: Optional[Handle] = Handle(pointer, log)
        self._log = log
        number = ctypes.c_int32()
        call("comm_rank", pointer, ctypes.addressof(number))
        self.rank = self._handle.rank = number.value
        call("comm_size", pointer, ctypes.addressof(number))
        self.size = number.value
        self.start = _Started(self)

    @classmethod
    def _of(cls, pointer: int, log: Any) -> "Communicator":
        made = cls.__new__(cls)
        made._adopt(pointer, log)
        return made

    def open_handle(self) -> Handle:
        """The C handle and what its life hangs on; for this package.

        Raises:
            InvalidUsage: it has been closed.
        """
        if self._handle is None:
            raise errors.InvalidUsage("the communicator has been closed", rank=self.rank)
        return self._handle

    def _pointer(self) -> int:
        return self.open_handle().pointer

    def _issue(self, issue: Issue) -> Any:
        handle = self.open_handle()
        handle.call(issue.name, *issue.arguments, handle.pointer, issue.stream)
        if _groups.depth:
            _groups.recorded.append(issue)
        return issue.result

    def close(self) -> None:
        """Frees it; never waits for a peer. Futures that are still held and arrays of alloc() put that off until they are gone."""
        self._handle = None

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gimbal.Communicator rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"

    def abort(self) -> None:
        """From any thread: every call under way, here and on the peers, fails with Aborted at once."""
        call("comm_abort", self._pointer(), rank=self.rank)

    def status(self) -> errors.Status:
        """From any thread: OK, or the first error that made the communicator unusable."""
        return errors.Status(_library.library.gimbal_comm_status(self._pointer()))

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """Collective. Ranks of equal color (>= 0) form a new communicator, ordered by key, then by rank; None joins none."""
        pointer = ctypes.c_void_p()
        handle = self.open_handle()
        handle.call("comm_split", handle.pointer, -1 if color is None else color, key, ctypes.addressof(pointer))
        return Communicator._of(pointer.value, self._log) if pointer.value else None

    def shrink(self) -> "Communicator":
        """Called by the survivors after a failure: a new communicator of those that answer."""
        pointer = ctypes.c_void_p()
        handle = self.open_handle()
        handle.call("comm_shrink", handle.pointer, ctypes.addressof(pointer))
        return Communicator._of(pointer.value, self._log)

    def stats(self) -> Stats:
        """What it has done so far."""
        raw = _library.Stats()
        call("comm_stats", self._pointer(), ctypes.addressof(raw), rank=self.rank)
        late = raw.last_arrived_rank if raw.last_arrived_rank >= 0 else None
        return Stats(raw.operations, raw.bytes, raw.wait_ns, late, raw.last_arrived_ns, raw.host_bytes, raw.errors,
                     raw.window_waits, raw.last_arrived_waits)

    def dump(self, path: Any) -> None:
        """Writes the recent operations of this rank as JSON."""
        call("comm_dump", self._pointer(), str(path).encode(), rank=self.rank)

    def explain(self, collective: str, nbytes: int, dtype: Any = "float32") -> str:
        """Which algorithm an operation of so many bytes per rank takes, and why."""
        if collective not in COLLECTIVES:
            raise ValueError(f'collective "{collective}" is none of {", ".join(COLLECTIVES)}')
        text = ctypes.create_string_buffer(4096)
        call("explain", self._pointer(), COLLECTIVES.index(collective), nbytes, dtypes.dtype(dtype).code, ctypes.addressof(text),
             len(text), rank=self.rank)
        return text.value.decode()

    def alloc(self, shape: Any, dtype: Any = "float32") -> Any:
        """Collective, of equal bytes on all ranks: a numpy array in memory that the node's peers map, so that operations on it
        copy nothing. Its memory is freed when the communicator has been closed and the last such array is gone."""
        import numpy

        kind = dtypes.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        count = math.prod(shape)
        pointer = ctypes.c_void_p()
        handle = self.open_handle()
        handle.call("mem_alloc", handle.pointer, _HOST_MEMORY, count * kind.size, ctypes.addressof(pointer))
        if count == 0:
            return numpy.empty(shape, kind.typestr)
        memory = (ctypes.c_char * (count * kind.size)).from_address(pointer.value)
        memory.owner = handle
        return numpy.frombuffer(memory, kind.typestr, count).reshape(shape)


class _Groups(threading.local):
    """This thread's open groups, and what their recorded operations point to."""

    depth = 0

    def __init__(self) -> None:
        self.recorded: list = []


_groups = _Groups()


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Operations inside are launched together at the end, which waits for them: small all-reduces are fused, and the order of
    calls on several communicators cannot deadlock. Results are complete after the outermost `with`."""
    call("group_start")
    _groups.depth += 1
    try:
        yield
    finally:
        _groups.depth -= 1
        try:
            call("group_end")
        finally:
            if not _groups.depth:
                _groups.recorded.clear()


def _create(config: _library.Config, rank: Optional[int]) -> int:
    """gimbal_comm_create. In a thread, since there is no communicator yet that Ctrl-C could abort: the main thread leaves, and
    the other one gives up at the connect deadline."""
    made: list = []
    abandoned = threading.Event()

    def create() -> None:
        pointer = ctypes.c_void_p()
        try:
            call("comm_create", ctypes.addressof(config), ctypes.addressof(pointer), rank=rank)
        except errors.GimbalError as error:
            made.append(error)
        else:
            made.append(pointer.value)
            if abandoned.is_set():
                _library.library.gimbal_comm_destroy(pointer)

    if threading.current_thread() is not threading.main_thread():
        create()
    else:
        thread = threading.Thread(target=create, name="gimbal-create", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            abandoned.set()
            for pointer in made:
                if isinstance(pointer, int):
                    _library.library.gimbal_comm_destroy(pointer)
            raise
    if isinstance(made[0], errors.GimbalError):
        raise made[0]
    return made[0]


def _milliseconds(seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if not seconds > 0:
        raise ValueError(f"a deadline of {seconds} s is not positive")
    return max(1, round(seconds * 1000))
