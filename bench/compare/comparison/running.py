"""Runs the processes of one Launch and reads the figures that they print.

A run has a time limit: a library that hangs (MPICH with more ranks than CPUs can) has "did not finish" as its result, and what it
had measured until then counts. A wrong sum is never a figure: it raises.
"""
import json
import os
import signal
import subprocess
import tempfile
import time

POLL_SECONDS = 0.05
GRACE_SECONDS = 5.0


class WrongResult(Exception):
    """A library returned a wrong sum; the text names it."""


class DidNotRun(Exception):
    """A library's processes failed; the text names it and has their last words."""


def run_library(library, ranks, arguments, timeout_seconds):
    """One round of one library: ({bytes: figures}, finished). Of several launches (variants, settings) the fastest counts
    at each size."""
    best = {}
    finished = True
    for launch in library.launches(ranks, arguments):
        rows, done = run_launch(library.name, launch, timeout_seconds)
        finished = finished and done
        for row in rows:
            known = best.get(row["bytes"])
            if known is None or row["median_us"] < known["median_us"]:
                best[row["bytes"]] = row
    return best, finished


def run_launch(name, launch, timeout_seconds):
    """(figures, finished). Raises WrongResult or DidNotRun."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        processes = [
            subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                             start_new_session=True)
            for command, environment in zip(launch.commands, launch.environments)
        ]
        try:
            status = wait(processes, time.monotonic() + timeout_seconds)
        finally:
            stop(processes)
        output.seek(0)
        errors.seek(0)
        words = errors.read().strip()
        if status is not None and status != 0:
            wrong = [line for line in words.splitlines() if "wrong result" in line]
            if wrong:
                raise WrongResult(f"{name}: {wrong[0]}")
            raise DidNotRun(f"{name}: exit status {status}: {words.splitlines()[-1] if words else 'no message'}")
        return parse(output), status == 0


def wait(processes, deadline):
    """0 when all have ended well, the first other exit status, or None at the deadline."""
    while time.monotonic() < deadline:
        statuses = [process.poll() for process in processes]
        failed = [status for status in statuses if status not in (None, 0)]
        if failed:
            return failed[0]
        if None not in statuses:
            return 0
        time.sleep(POLL_SECONDS)
    return None


def stop(processes):
    """Ends what is left: asks, then kills. Ranks below an MPI launcher die with it (method.h)."""
    left = [process for process in processes if process.poll() is None]
    for process in left:
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    for process in left:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def parse(output):
    """The JSON lines of rank 0. A launcher may print lines of its own, and a stopped run may end within one."""
    rows = []
    for line in output:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "median_us" in row:
            rows.append(row)
    return rows
