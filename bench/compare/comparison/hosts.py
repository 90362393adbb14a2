"""Where ranks run: this machine, or hosts that tests/support/hosts emulates on it."""
import json
import pathlib
import subprocess

TOOL = pathlib.Path(__file__).resolve().parents[3] / "tests/support/hosts"


class CannotEmulate(Exception):
    """This machine cannot emulate hosts; the text says why."""


class OneMachine:
    """Every rank here, over what the library takes for ranks of one machine."""
    count = 1
    interface = "lo"

    def place(self, rank, ranks, command):
        """The command that runs a rank's command where the rank belongs."""
        del rank, ranks
        return command

    def rendezvous(self, name):
        return f"unix://{name}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class EmulatedHosts:
    """Ranks in blocks over `count` hosts."""
    interface = "eth0"

    def __init__(self, count, rate=None):
        self.count = count
        self.command = [str(TOOL), f"--hosts={count}", *([f"--rate={rate}"] if rate else []), "serve"]
        self.jobs = iter(range(29500, 1 << 16))  # ports of namespaces in which nobody else listens

    def __enter__(self):
        self.tool = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.tool.stdout.readline()
        if not line:
            raise CannotEmulate(self.tool.communicate()[1].strip())
        self.hosts = json.loads(line)["hosts"]
        return self

    def __exit__(self, *_):
        self.tool.stdin.close()
        self.tool.wait()

    def place(self, rank, ranks, command):
        return [*self.hosts[rank * self.count // ranks]["enter"], *command]

    def rendezvous(self, name):
        del name
        return f"tcp://{self.hosts[0]['address']}:{next(self.jobs)}"
