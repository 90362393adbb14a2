"""What the steps inside the emulated machine share: processes with deadlines, and pairs of a server and a client."""

import os
import pathlib
import subprocess
import time

STEP_LIMIT_S = 90


class Failed(Exception):
    """A step that did not do what it should; the text says what it did."""


class Programs:
    """Of one build, for the transport under test."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.endpoints = self.build / "tests/verbs/verbs_endpoints"


def environment(**added):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIMBAL_", "HOSTILE_", "VERBS_"))}
    # A lost packet is sent again after 17 ms, where hardware's default would be a second.
    return {**kept, "GIMBAL_IB_TIMEOUT": "12", "GIMBAL_TIMEOUT": "30s", "GIMBAL_CONNECT_TIMEOUT": "30s", **added}


def run(*command, limit_s=STEP_LIMIT_S, **added):
    """Status and all output of a command, which a Failed follows when it runs past the limit."""
    try:
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=limit_s, env=environment(**added), check=False)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{command[0]} still ran after {limit_s} s:\n{(late.output or b'').decode(errors='replace')[-2000:]}") from late
    return done.returncode, done.stdout


def must(*command, **options):
    """Output of a command that has to succeed."""
    status, output = run(*command, **options)
    if status != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with status {status}:\n{output[-2000:]}")
    return output


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
