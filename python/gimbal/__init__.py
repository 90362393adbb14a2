"""Gimbal: collective communication on host and device memory, over the shared library by ctypes.

    import gimbal, numpy

    with gimbal.Communicator() as comm:          # ranks from gimbal-run, torchrun or mpirun
        mean = comm.all_reduce(numpy.ones(4), op="avg")
        future = comm.start.all_reduce(mean)     # meanwhile, compute
        future.wait()
"""

from ._library import __version__
from .communicator import Communicator, Future, Stats, group
from .dtypes import DTYPES, DType
from .errors import (Aborted, DeadlinePassed, DeviceFailure, GimbalError, InternalFailure, InvalidArgument, InvalidUsage, Mismatch,
                     NoMemory, RemoteFailure, Status, SystemFailure, Unsupported)
from .gradsync import GradientStats, GradientSynchronizer, power_sgd, top_k
from .sparse import SparseReducer

__all__ = ["Aborted", "Communicator", "DTYPES", "DType", "DeadlinePassed", "DeviceFailure", "Future", "GimbalError",
           "GradientStats", "GradientSynchronizer", "InternalFailure", "InvalidArgument", "InvalidUsage", "Mismatch", "NoMemory",
           "RemoteFailure", "SparseReducer", "Stats", "Status", "SystemFailure", "Unsupported", "__version__", "group", "power_sgd",
           "top_k"]
