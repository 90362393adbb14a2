"""Ranks as threads of this process, joined in memory: what most tests of the package run in."""

import contextlib
import itertools
import os
import threading

import gimbal

_jobs = itertools.count()


def run_ranks(size, body, **options):
    """body(comm) on `size` threads; the results by rank. The first exception of a rank is raised."""
    rendezvous = f"memory://python-test-{os.getpid()}-{next(_jobs)}"
    results, raised = [None] * size, [None] * size

    def work(rank):
        try:
            with gimbal.Communicator(rank=rank, size=size, rendezvous=rendezvous, timeout=60, connect_timeout=60, **options) as comm:
                results[rank] = body(comm)
        except BaseException as error:
            raised[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in raised:
        if error is not None:
            raise error
    return results


@contextlib.contextmanager
def alone():
    """A communicator of one rank."""
    with gimbal.Communicator(rank=0, size=1, rendezvous=f"memory://python-test-{os.getpid()}-{next(_jobs)}") as comm:
        yield comm
