"""First contact by a store of the framework's: torch.distributed.Store, or any object of its shape."""

from __future__ import annotations

import ctypes
import datetime
from typing import Any, Optional

from . import _library

__all__ = ["StoreCallbacks"]


class StoreCallbacks:
    """gimbal_store_t over an object with set(key, bytes), get(key) -> bytes, wait([key], timedelta) and add(key, int) -> int.

    Keep it alive until the communicator has been created. `error` is the first exception that the object raised.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self.error: Optional[BaseException] = None
        self.struct = _library.Store(set=_library.SET(self._guarded(self._set)), get=_library.GET(self._guarded(self._get)),
                                     wait=_library.WAIT(self._guarded(self._wait)), add=_library.ADD(self._guarded(self._add)))

    def _guarded(self, function: Any) -> Any:
        def callback(_context, *arguments) -> int:
            try:
                function(*arguments)
                return 0
            except BaseException as error:  # noqa: B902 (no exception may pass through C)
                self.error = self.error or error
                return 1

        return callback

    def _set(self, key: bytes, value: int, size: int) -> None:
        self._store.set(key.decode(), ctypes.string_at(value, size))

    def _get(self, key: bytes, value: int, size: Any, timeout_ms: int) -> None:
        self._wait(key, timeout_ms)
        found = bytes(self._store.get(key.decode()))
        ctypes.memmove(value, found, min(len(found), size[0]))
        size[0] = len(found)

    def _wait(self, key: bytes, timeout_ms: int) -> None:
        self._store.wait([key.decode()], datetime.timedelta(milliseconds=max(1, timeout_ms)))

    def _add(self, key: bytes, amount: int, result: Any) -> None:
        result[0] = self._store.add(key.decode(), amount)
