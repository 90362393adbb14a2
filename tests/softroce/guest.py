"""What the steps inside the emulated machine share: processes with deadlines, pairs of a server and a client, gimbal-bench."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

STEP_LIMIT_S = 90


class Failed(Exception):
    """A step that did not do what it should; the text says what it did."""


class Programs:
    """Of one build, for the transport under test."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.bench = self.build / "bin/gimbal-bench"
        self.run = self.build / "bin/gimbal-run"
        self.endpoints = self.build / "tests/verbs/verbs_endpoints"


def environment(**added):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIMBAL_", "HOSTILE_", "VERBS_"))}
    # A lost packet is sent again after 17 ms, where hardware's default would be a second.
    return {**kept, "GIMBAL_IB_TIMEOUT": "12", "GIMBAL_TIMEOUT": "30s", "GIMBAL_CONNECT_TIMEOUT": "30s", **added}


def run(*command, limit_s=STEP_LIMIT_S, **added):
    """Status and all output of a command; it and its children are gone afterwards. A Failed follows when it runs past the limit."""
    process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=environment(**added), start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output
    except subprocess.TimeoutExpired as late:
        end_session(process)
        raise Failed(f"{command[0]} still ran after {limit_s:.0f} s:\n{(late.output or b'').decode(errors='replace')[-2000:]}") from late
    finally:
        end_session(process)


def end_session(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def must(*command, **options):
    """Output of a command that has to succeed."""
    status, output = run(*command, **options)
    if status != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with status {status}:\n{output[-2000:]}")
    return output


def must_say(words, *command, **options):
    """A command that has to fail, in one sentence that has all of the words."""
    status, output = run(*command, **options)
    lines = [line for line in output.splitlines() if all(word in line for word in words)]
    if status == 0 or not lines:
        raise Failed(f"{' '.join(map(str, command))} ended with status {status} and no line with {words}:\n{output[-2000:]}")
    return lines[0]


def wait_until(holds, what, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {limit_s} s")
        time.sleep(0.01)


def listens(port):
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


def pair(program, *arguments, port):
    """Output of the client, on rxe1, of a program whose server is on rxe0."""
    server = subprocess.Popen([program, "-d", "rxe0", "-p", str(port), *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), f"{program} listens")
        output = must(program, "-d", "rxe1", "-p", str(port), *arguments, "10.77.0.1")
        server.wait(STEP_LIMIT_S)
        return output
    finally:
        server.kill()
        server.wait()


class Row:
    """A row of gimbal-bench's table (docs/bench.md)."""

    def __init__(self, line):
        fields = line.split()
        self.bytes = int(fields[0])
        self.time_us = float(fields[5])
        self.wrong = fields[8] + fields[12]
        self.p50_us = float(fields[13])


def rows(output):
    return [Row(line) for line in output.splitlines() if line.split()[:1] and line.split()[0].isdigit()]


def bench(programs, ranks, *arguments, **added):
    """Rows of gimbal-bench over verbs, of which none may be wrong."""
    output = must(programs.bench, "-g", ranks, "--transport", "verbs", *arguments, **added)
    table = rows(output)
    if not table or any(row.wrong != "00" for row in table):
        raise Failed(f"gimbal-bench checked nothing, or found wrong elements:\n{output[-2000:]}")
    return table


class Job:
    """Two ranks of gimbal-bench over verbs, started one by one, so that nobody ends one because the other has ended."""

    def __init__(self, programs, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            rendezvous = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.ranks = [
            subprocess.Popen([programs.bench, "--transport", "verbs", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True,
                             env=environment(RANK=str(rank), WORLD_SIZE="2", GIMBAL_RENDEZVOUS=rendezvous, GIMBAL_JOB_KEY="softroce",
                                             GIMBAL_IB_TIMEOUT="10"))
            for rank in range(2)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.kill()
            rank.communicate()

    def wait_for_row(self):
        """Rank 0 has printed a row of the table: the ranks are at work."""
        said = []
        for line in self.ranks[0].stdout:
            said.append(line)
            if line.split()[:1] and line.split()[0].isdigit():
                return
        raise Failed("the job never got under way:\n" + "".join(said[-20:]))

    def end_of(self, rank):
        """Output of a rank that has to fail by itself."""
        try:
            output, _ = self.ranks[rank].communicate(timeout=STEP_LIMIT_S)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"rank {rank} still ran after {STEP_LIMIT_S} s") from late
        if self.ranks[rank].returncode == 0:
            raise Failed(f"rank {rank} ended as if nothing had happened:\n{output[-1500:]}")
        return output


def resources():
    """What the kernel holds of RDMA for processes: lines of `rdma res` that name one."""
    held = []
    for kind in ("qp", "cq", "mr", "pd", "cm_id", "ctx"):
        status, output = run("rdma", "resource", "show", kind)
        if status == 0:
            held += [line for line in output.splitlines() if "pid" in line]
    return held
