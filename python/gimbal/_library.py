"""libgimbal.so: where it is found, and the prototypes of include/gimbal/gimbal.h.

tests/python/header_test.py holds the tables here against the header.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Optional

from . import errors

__version__ = "0.1.0"

SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, POINTER(c_size_t), c_int64)
WAIT = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64)
ADD = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, POINTER(c_int64))
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Store(ctypes.Structure):
    """gimbal_store_t."""

    _fields_ = [("set", SET), ("get", GET), ("wait", WAIT), ("add", ADD), ("context", c_void_p)]


class Config(ctypes.Structure):
    """gimbal_config_t; its defaults are GIMBAL_CONFIG_INIT's."""

    _fields_ = [("struct_bytes", c_size_t), ("abi_version", c_uint32), ("rank", c_int32), ("size", c_int32),
                ("deterministic", c_int32), ("rendezvous", c_char_p), ("store", POINTER(Store)), ("timeout_ms", c_int64),
                ("connect_timeout_ms", c_int64), ("progress", c_int), ("algorithm", c_char_p), ("transport", c_char_p),
                ("name", c_char_p), ("log", LOG), ("log_context", c_void_p)]

    def __init__(self) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(Config), abi_version=1, rank=-1, size=-1, deterministic=-1)


class Stats(ctypes.Structure):
    """gimbal_stats_t."""

    _fields_ = [("struct_bytes", c_size_t), ("operations", c_uint64), ("bytes", c_uint64), ("wait_ns", c_uint64),
                ("last_arrived_rank", c_int32), ("last_arrived_ns", c_uint64), ("host_bytes", c_size_t), ("errors", c_uint64),
                ("window_waits", c_uint64), ("last_arrived_waits", c_uint64),
                ("clock_offset_ns", c_int64), ("clock_error_ns", c_int64)]

    def __init__(self) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(Stats), last_arrived_rank=-1)


class ReduceOptions(ctypes.Structure):
    """gimbal_reduce_options_t."""

    _fields_ = [("struct_bytes", c_size_t), ("weight", c_double), ("normalize", c_int32), ("wire", c_int32)]

    def __init__(self, weight: float, normalize: bool) -> None:
        super().__init__(struct_bytes=ctypes.sizeof(ReduceOptions), weight=weight, normalize=int(normalize))


# Arguments by letter: p pointer or handle, z size_t, i int/int32_t/enum, d double, s text, o out-parameter.
_OPERATIONS = {
    "all_reduce": "ppziipp",
    "reduce_scatter": "ppziipp",
    "all_gather": "ppzipp",
    "broadcast": "pziipp",
    "reduce": "ppziiipp",
    "all_to_all": "ppzipp",
    "gather": "ppziipp",
    "scatter": "ppziipp",
    "all_gather_v": "pzpppipp",
    "all_to_all_v": "ppppppipp",
    "send": "pziipp",
    "recv": "pziipp",
    "barrier": "pp",
    "all_reduce_options": "ppziiopp",
}
_OTHERS = {
    "version": "ooo",
    "comm_create": "oo",
    "comm_destroy": "p",
    "comm_abort": "p",
    "comm_status": "p",
    "comm_rank": "po",
    "comm_size": "po",
    "comm_split": "piio",
    "comm_shrink": "po",
    "comm_stats": "po",
    "comm_dump": "ps",
    "mem_alloc": "pizo",
    "mem_free": "pp",
    "register": "ppz",
    "deregister": "pp",
    "wait": "o",
    "test": "oo",
    "group_start": "",
    "group_end": "",
    "explain": "pizipz",
}

_LETTERS = {"p": c_void_p, "z": c_size_t, "i": c_int, "d": c_double, "s": c_char_p, "o": c_void_p}


def prototypes() -> dict:
    """Letters of the arguments of every function that returns a status, by its name without gimbal_."""
    started = {f"{name}_start": letters + "o" for name, letters in _OPERATIONS.items()}
    return {**_OPERATIONS, **started, **_OTHERS}


def _path() -> str:
    chosen = os.environ.get("GIMBAL_LIBRARY")
    if chosen:
        return chosen
    inside = pathlib.Path(__file__).parent / "lib" / "libgimbal.so.0"
    return str(inside) if inside.exists() else "libgimbal.so.0"  # the loader's search


def _load() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"libgimbal was not found ({error}): install the wheel, or set GIMBAL_LIBRARY to libgimbal.so") from None
    library.gimbal_version_string.restype = c_char_p
    version = library.gimbal_version_string().decode()
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ImportError(f"{path} is Gimbal {version}, but this package is for {__version__}")
    library.gimbal_last_error.restype = c_char_p
    library.gimbal_status_name.restype, library.gimbal_status_name.argtypes = c_char_p, [c_int]
    library.gimbal_dtype_size.restype, library.gimbal_dtype_size.argtypes = c_size_t, [c_int]
    return library


def declare(functions: dict) -> None:
    """Tells ctypes the arguments of functions that return a status: name without gimbal_ -> letters."""
    for name, letters in functions.items():
        function = getattr(library, f"gimbal_{name}")
        function.restype, function.argtypes = c_int, [_LETTERS[letter] for letter in letters]


library = _load()
declare(prototypes())


def last_error() -> str:
    """This thread's last error."""
    return library.gimbal_last_error().decode(errors="replace")


def call(name: str, *arguments, rank: Optional[int] = None) -> None:
    """Calls gimbal_<name>.

    Raises:
        GimbalError: the status is not OK.
    """
    status = getattr(library, f"gimbal_{name}")(*arguments)
    if status:
        raise errors.error_of(status, last_error(), name, rank)
