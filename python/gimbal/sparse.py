"""Gradients of a few rows of a large table, as embeddings have them: the rows travel, or the whole table where that is fewer bytes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Optional, Tuple

from . import _gradsync, _library, arrays
from .communicator import Communicator

__all__ = ["SparseReducer"]


class SparseReducer:
    """Adds up, or averages, rows of a float32 table over the ranks.

        reducer = gimbal.SparseReducer(comm, rows=50_000, columns=64)
        indices, values = reducer.reduce(indices, values)      # equal on all ranks; a row that was there twice is added up

    The given communicator must not be used during reduce(). It is kept open until this object is gone.
    """

    def __init__(self, communicator: Communicator, rows: int, columns: int, reduction: str = "mean") -> None:
        """The table's size, equal on all ranks; reduction: "mean", "sum" or "weighted_mean", over ranks."""
        self.rows, self.columns = rows, columns
        self._owner = communicator.open_handle()
        pointer = ctypes.c_void_p()
        self._owner.call("sparse_create", self._owner.pointer, rows, columns,
                         _gradsync.index_of("reduction", reduction, _gradsync.REDUCTIONS), ctypes.addressof(pointer))
        self._pointer = pointer.value
        self._owner.afterwards.append(functools.partial(_library.library.gimbal_sparse_destroy, self._pointer))

    def reduce(self, indices: Any, values: Any, weight: float = 1.0, form: str = "cheaper") -> Tuple[Optional[Any], Any]:
        """Collective.

        Args:
            indices: int64, of shape [count], each 0 to rows - 1, in any order and as often as it likes.
            values: float32, of shape [count, columns].
            weight: this rank's, for "weighted_mean".
            form: of the result: "rows", "dense", or "cheaper": as it travelled, which is what is predicted to be fewer bytes.
                Equal on all ranks.

        Returns:
            New numpy arrays: indices, ascending, and their values; None and the whole table where it is dense.
        """
        import numpy

        which, rows = arrays.view(indices, "int64"), arrays.view(values, "float32")
        if rows.count != which.count * self.columns:
            raise ValueError(f"values have {rows.count} elements; {which.count} rows of {self.columns} have "
                             f"{which.count * self.columns}")
        result = _gradsync.SparseResult()
        self._owner.call("sparse_reduce", self._pointer, which.pointer, rows.pointer, which.count, weight,
                         _gradsync.index_of("form", form, _gradsync.FORMS), ctypes.addressof(result))
        count = self.rows if result.is_dense else result.count
        shape = (count, self.columns)
        content = numpy.empty(shape, "f4")
        ctypes.memmove(content.ctypes.data, result.values, content.nbytes)
        if result.is_dense:
            return None, content
        found = numpy.empty(count, "i8")
        ctypes.memmove(found.ctypes.data, result.indices, found.nbytes)
        return found, content
