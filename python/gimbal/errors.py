"""What fails, as exceptions that carry the status, this rank, the peer that is named, and the operation."""

from __future__ import annotations

import enum
import re
from typing import Optional

__all__ = ["Status", "GimbalError", "InvalidArgument", "InvalidUsage", "Unsupported", "NoMemory", "SystemFailure",
           "DeviceFailure", "RemoteFailure", "DeadlinePassed", "Mismatch", "Aborted", "InternalFailure"]


class Status(enum.IntEnum):
    """gimbal_status_t."""

    OK = 0
    INVALID_ARGUMENT = 1
    INVALID_USAGE = 2
    UNSUPPORTED = 3
    NO_MEMORY = 10
    SYSTEM = 11
    DEVICE = 12
    REMOTE = 20
    TIMEOUT = 21
    MISMATCH = 22
    ABORTED = 23
    INTERNAL = 24


class GimbalError(RuntimeError):
    """An error of the library. Its text is the library's sentence.

    Attributes:
        status: what is lost and why (see gimbal_status_t in gimbal.h).
        operation: the call that failed, as "all_reduce".
        rank: this process's rank; None before it is known.
        peer: the first other rank that the sentence names; None when it names none.
    """

    status = Status.INTERNAL

    def __init__(self, sentence: str, *, operation: Optional[str] = None, rank: Optional[int] = None) -> None:
        super().__init__(sentence)
        self.operation = operation
        self.rank = rank
        self.peer = _named_peer(sentence, rank)

    @property
    def loses_communicator(self) -> bool:
        """Whether the communicator can only be closed now (or shrunk)."""
        return self.status >= Status.NO_MEMORY


class InvalidArgument(GimbalError, ValueError):
    """A value that is wrong by itself; nothing was started."""

    status = Status.INVALID_ARGUMENT


class InvalidUsage(GimbalError):
    """A right value at a wrong moment; nothing was started."""

    status = Status.INVALID_USAGE


class Unsupported(GimbalError, NotImplementedError):
    """A sensible request that this build, machine or mode does not serve; nothing was started."""

    status = Status.UNSUPPORTED


class NoMemory(GimbalError, MemoryError):
    """The operation is lost: memory ran out."""

    status = Status.NO_MEMORY


class SystemFailure(GimbalError):
    """The operation is lost: the operating system refused."""

    status = Status.SYSTEM


class DeviceFailure(GimbalError):
    """The operation is lost: the CUDA driver or device refused."""

    status = Status.DEVICE


class RemoteFailure(GimbalError):
    """The communicator is lost: a peer died, left or reported an error."""

    status = Status.REMOTE


class DeadlinePassed(GimbalError):
    """The communicator is lost: a deadline passed; the text names who was missing."""

    status = Status.TIMEOUT


class Mismatch(GimbalError):
    """The communicator is lost: ranks called different things; the text has both sides' values."""

    status = Status.MISMATCH


class Aborted(GimbalError):
    """The communicator is lost: somebody aborted it."""

    status = Status.ABORTED


class InternalFailure(GimbalError):
    """The communicator is lost: a bug in Gimbal."""

    status = Status.INTERNAL


_CLASS_OF = {kind.status: kind for kind in (InvalidArgument, InvalidUsage, Unsupported, NoMemory, SystemFailure, DeviceFailure,
                                            RemoteFailure, DeadlinePassed, Mismatch, Aborted, InternalFailure)}


def _named_peer(sentence: str, rank: Optional[int]) -> Optional[int]:
    # "all_reduce #2 (...) on communicator "world", rank 0: rank 1 (pid 77 on host a) is gone": who reports comes before the colon.
    sentence = re.sub(r'^.*? on communicator ".*?", rank \d+: ', "", sentence)
    for match in re.finditer(r"\branks? (\d+)", sentence):
        if int(match.group(1)) != rank:
            return int(match.group(1))
    return None


def error_of(status: int, sentence: str, operation: Optional[str], rank: Optional[int]) -> GimbalError:
    """The exception for a status that is not OK."""
    return _CLASS_OF.get(status, InternalFailure)(sentence, operation=operation, rank=rank)
