"""Ctrl-C while a call is inside C.

Python runs its signal handlers between bytecodes, and a blocking call is one bytecode: Ctrl-C would take effect when the peers
arrive, or at the deadline. So a thread is told of signals by signal.set_wakeup_fd, and aborts the communicators that some thread
is inside of. Their calls then return at once, and Python raises KeyboardInterrupt.

Where something else (asyncio) owns the wakeup descriptor, nothing is installed and Ctrl-C takes effect when the call returns.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from typing import Any, Optional

__all__ = ["Calls", "watch"]

# A call that ends by itself within this time is not aborted; Python's own handler is as quick as that between two calls.
_PATIENCE_S = 0.1

_watched: "weakref.WeakSet[Calls]" = weakref.WeakSet()
_descriptor: Optional[int] = None  # that the signals are written to


class Calls:
    """Counts the calls into C on one communicator; the one that entered last is under way until it has left."""

    def __init__(self, abort: Any) -> None:
        """abort: called from another thread, must not wait and not keep this alive."""
        self.entered = 0
        self.left = 0
        self.abort = abort
        _watched.add(self)


def watch() -> None:
    """From the main thread: from now on Ctrl-C aborts what is under way. A second call changes nothing."""
    global _descriptor
    if _descriptor is not None or threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    taken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if taken != -1:
        signal.set_wakeup_fd(taken)
        os.close(reader)
        os.close(writer)
        return
    os.set_blocking(reader, True)
    _descriptor = writer
    threading.Thread(target=_watch, args=(reader,), name="gimbal-interrupt", daemon=True).start()
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """A child's signals are its own, and the thread that would read of them is its parent's."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)


def _watch(reader: int) -> None:
    while True:
        if signal.SIGINT not in os.read(reader, 64):
            continue
        inside = {calls: calls.entered for calls in list(_watched) if calls.entered != calls.left}
        time.sleep(_PATIENCE_S)
        for calls, number in inside.items():
            if calls.entered == number != calls.left:
                calls.abort()
        del inside
