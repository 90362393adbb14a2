"""Element types: Gimbal's twelve, and their names in numpy, DLPack and the buffer protocol."""

from __future__ import annotations

import dataclasses
from typing import Optional

__all__ = ["DType", "DTYPES", "dtype"]


@dataclasses.dataclass(frozen=True)
class DType:
    """One of Gimbal's element types.

    Attributes:
        name: as numpy, ml_dtypes and torch call it ("float32", "bfloat16").
        code: gimbal_dtype_t.
        size: bytes of one element.
        typestr: numpy's array-interface string of the memory, without byte order; types that numpy lacks are kept in unsigned
            integers of their size.
        dlpack: DLPack's (type code, bits).
        format: struct's character, or "" for a type that has none.
    """

    name: str
    code: int
    size: int
    typestr: str
    dlpack: tuple
    format: str

    def __str__(self) -> str:
        return self.name


_SIGNED, _UNSIGNED, _FLOAT, _BFLOAT, _E4M3FN, _E5M2 = 0, 1, 2, 4, 10, 12  # DLDataTypeCode

DTYPES = (
    DType("int8", 0, 1, "i1", (_SIGNED, 8), "b"),
    DType("uint8", 1, 1, "u1", (_UNSIGNED, 8), "B"),
    DType("int32", 2, 4, "i4", (_SIGNED, 32), "i"),
    DType("uint32", 3, 4, "u4", (_UNSIGNED, 32), "I"),
    DType("int64", 4, 8, "i8", (_SIGNED, 64), "q"),
    DType("uint64", 5, 8, "u8", (_UNSIGNED, 64), "Q"),
    DType("float16", 6, 2, "f2", (_FLOAT, 16), "e"),
    DType("bfloat16", 7, 2, "u2", (_BFLOAT, 16), ""),
    DType("float32", 8, 4, "f4", (_FLOAT, 32), "f"),
    DType("float64", 9, 8, "f8", (_FLOAT, 64), "d"),
    DType("float8_e4m3", 10, 1, "u1", (_E4M3FN, 8), ""),
    DType("float8_e5m2", 11, 1, "u1", (_E5M2, 8), ""),
)

_ALIASES = {"float8_e4m3fn": "float8_e4m3", "half": "float16", "float": "float32", "double": "float64"}
_BY_NAME = {entry.name: entry for entry in DTYPES}
# The memory's own type first: "u1" is uint8, and the float8 types only by tag.
_BY_TYPESTR = {entry.typestr: entry for entry in reversed(DTYPES) if entry.format}
_BY_DLPACK = {entry.dlpack: entry for entry in DTYPES}
# "l" and "L" are 8 bytes on every platform that Gimbal runs on.
_BY_FORMAT = {entry.format: entry for entry in DTYPES if entry.format}
_BY_FORMAT.update({"l": _BY_NAME["int64"], "L": _BY_NAME["uint64"], "c": _BY_NAME["uint8"]})


def dtype(name) -> DType:
    """The type of that name: a DType, a string, or anything with a name (numpy, ml_dtypes) or whose text ends in one
    (torch.bfloat16).

    Raises:
        ValueError: there is none; the message lists those that there are.
    """
    if isinstance(name, DType):
        return name
    text = name if isinstance(name, str) else getattr(name, "name", None) or getattr(name, "__name__", None) or str(name)
    text = text.rsplit(".", 1)[-1]
    found = _BY_NAME.get(_ALIASES.get(text, text))
    if found is None:
        raise ValueError(f'dtype "{text}" is none of Gimbal\'s: {", ".join(_BY_NAME)}')
    return found


def of_typestr(typestr: str) -> Optional[DType]:
    """The type of an array-interface string such as "<f4"; None for one that Gimbal lacks or another byte order."""
    if typestr[0] == ">" and typestr[2:] != "1":
        return None
    return _BY_TYPESTR.get(typestr[1:])


def of_dlpack(code: int, bits: int) -> Optional[DType]:
    """The type of a DLDataType of one lane."""
    return _BY_DLPACK.get((code, bits))


def of_format(text: str) -> Optional[DType]:
    """The type of a buffer-protocol format."""
    return _BY_FORMAT.get(text.lstrip("@=<"))
