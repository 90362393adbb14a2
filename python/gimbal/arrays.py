"""Arrays of any library as pointer, shape and type: numpy, the buffer protocol, DLPack, CUDA's array interface.

Nothing is copied, and no library is imported: an array is asked for what it offers. It must be C-contiguous.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any, Optional, Tuple

from . import dtypes
from .dtypes import DType

__all__ = ["View", "view", "empty_like"]


@dataclasses.dataclass(frozen=True)
class View:
    """Memory of an array, alive as long as the view is.

    Attributes:
        pointer: its address.
        shape: in elements.
        dtype: its type; None for one that Gimbal has not (bool, int16): such arrays can be moved, but not reduced.
        itemsize: bytes of one element.
        writable: whether results may go there.
        device: whether the memory is a CUDA device's.
        owner: what keeps the memory alive.
        stream: the CUDA stream that the array says it is ordered by (version 3 of CUDA's array interface).
    """

    pointer: int
    shape: Tuple[int, ...]
    dtype: Optional[DType]
    itemsize: int
    writable: bool
    device: bool
    owner: Any
    stream: Optional[int] = None

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.count * self.itemsize


def view(array: Any, dtype: Any = None) -> View:
    """The memory of an array.

    Args:
        array: anything with `__array_interface__`, `__cuda_array_interface__`, `__dlpack__` or the buffer protocol, or a View.
        dtype: a tag for elements whose type the array cannot say (bfloat16 kept in uint16); of the same size.

    Raises:
        TypeError: none of the four is offered.
        ValueError: not C-contiguous, or the tag's size is not the elements'.
    """
    if isinstance(array, View):
        found = array
    elif hasattr(array, "__cuda_array_interface__") and _is_on_device(array):
        found = _of_array_interface(array, array.__cuda_array_interface__, device=True)
    elif hasattr(array, "__array_interface__"):
        found = _of_array_interface(array, array.__array_interface__, device=False)
    elif hasattr(array, "__dlpack__"):
        found = _of_dlpack(array)
    else:
        found = _of_buffer(array)
    if dtype is None:
        return found
    tag = dtypes.dtype(dtype)
    if tag.size != found.itemsize:
        raise ValueError(f"dtype {tag} has {tag.size} bytes, but an element of the array has {found.itemsize}")
    return dataclasses.replace(found, dtype=tag)


def empty_like(array: Any, shape: Tuple[int, ...]) -> Any:
    """A new array of the library and type of `array`: torch's tensors make tensors, all others numpy arrays."""
    if hasattr(array, "new_empty"):
        return array.new_empty(shape)
    try:
        import numpy
    except ImportError:
        raise TypeError("numpy is not installed, so there is nothing to return the result in: pass out=") from None
    if hasattr(array, "__array_interface__"):
        return numpy.empty(shape, getattr(array, "dtype", None) or array.__array_interface__["typestr"])
    found = view(array)
    if found.device:
        raise TypeError(f"the result of a {type(array).__name__} in device memory needs out=")
    return numpy.empty(shape, found.dtype.typestr if found.dtype else f"V{found.itemsize}")


def _require_contiguous(contiguous: bool, shape: Tuple[int, ...], strides: Any) -> None:
    if not contiguous:
        raise ValueError(f"the array is not C-contiguous (shape {tuple(shape)}, strides {tuple(strides)}): copy it first")


def _c_strides(shape: Tuple[int, ...], step: int) -> Tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _is_contiguous(shape: Tuple[int, ...], strides: Any, step: int) -> bool:
    if math.prod(shape) <= 1:
        return True
    return all(extent == 1 or have == want for extent, have, want in zip(shape, strides, _c_strides(shape, step)))


def _is_on_device(array: Any) -> bool:
    # torch's CPU tensors have the attribute, and refuse to answer.
    try:
        return array.__cuda_array_interface__ is not None
    except (AttributeError, RuntimeError, TypeError):
        return False


def _of_array_interface(array: Any, interface: dict, device: bool) -> View:
    shape, typestr, data = tuple(interface["shape"]), interface["typestr"], interface["data"]
    itemsize = int(typestr[2:])
    strides = interface.get("strides")
    if strides is not None:
        _require_contiguous(_is_contiguous(shape, strides, itemsize), shape, strides)
    pointer, read_only = data
    # ml_dtypes' arrays say "V2"; their dtype has the name.
    name = getattr(getattr(array, "dtype", None), "name", "")
    try:
        kind = dtypes.of_typestr(typestr) or (dtypes.dtype(name) if typestr[1] == "V" else None)
    except ValueError:
        kind = None
    return View(pointer, shape, kind, itemsize, not read_only, device, array, interface.get("stream"))


class _Py_buffer(ctypes.Structure):  # noqa: N801 (CPython's name)
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
                ("internal", ctypes.c_void_p)]


def _of_buffer(array: Any) -> View:
    try:
        memory = memoryview(array)
    except TypeError:
        raise TypeError(f"{type(array).__name__} is no array: it offers neither the buffer protocol nor __array_interface__, "
                        "__cuda_array_interface__ or __dlpack__") from None
    _require_contiguous(memory.c_contiguous, memory.shape or (), memory.strides or ())
    # Only the C call gives the address of memory that may not be written to.
    raw = _Py_buffer()
    simple = 0  # PyBUF_SIMPLE
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(raw), ctypes.c_int(simple))
    pointer = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    # memoryview keeps the exporter's buffer, so the address stays valid as long as it lives.
    return View(pointer, tuple(memory.shape or ()), dtypes.of_format(memory.format), memory.itemsize, not memory.readonly, False,
                memory)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED = 1, 2, 3, 13
_DLPACK_READ_ONLY = 1  # bit of flags

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _dlpack_capsule(array: Any) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library from before DLPack 1.0
        return array.__dlpack__()


def _of_dlpack(array: Any) -> View:
    capsule = _dlpack_capsule(array)
    # Never renamed, so that the capsule frees the tensor when the view lets go of it.
    writable = True
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _get_pointer(capsule, b"dltensor_versioned")
        managed = _DLManagedTensorVersioned.from_address(address)
        if managed.major != 1:
            raise TypeError(f"{type(array).__name__} speaks DLPack {managed.major}.{managed.minor}; this package knows 0.x and 1.x")
        writable = not managed.flags & _DLPACK_READ_ONLY
        tensor = managed.tensor
    else:
        tensor = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    if tensor.device_type not in (_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED):
        raise TypeError(f"DLPack device type {tensor.device_type} is neither host nor CUDA memory")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
        _require_contiguous(_is_contiguous(shape, strides, 1), shape, strides)
    kind = dtypes.of_dlpack(tensor.code, tensor.bits) if tensor.lanes == 1 else None
    itemsize = tensor.bits * tensor.lanes // 8
    on_device = tensor.device_type in (_DLPACK_CUDA, _DLPACK_CUDA_MANAGED)
    return View((tensor.data or 0) + tensor.byte_offset, shape, kind, itemsize, writable, on_device, (array, capsule))
