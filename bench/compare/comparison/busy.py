"""Busy processes, one on each allowed CPU, and the share of its CPU that each kept."""
import os
import subprocess
import sys
import time


class BusyProcesses:
    """Context manager. kept_shares() may be asked while they run."""

    def __enter__(self):
        self.processes = []
        for cpu in sorted(os.sched_getaffinity(0)):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(process.pid, {cpu})
            self.processes.append(process)
        self.begin()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def begin(self):
        self.started = time.monotonic()
        self.used = [cpu_seconds(process.pid) for process in self.processes]

    def kept_shares(self):
        """Of each CPU since begin()."""
        wall = time.monotonic() - self.started
        return [(cpu_seconds(process.pid) - used) / wall for process, used in zip(self.processes, self.used)]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        # The name in parentheses may hold blanks; utime and stime are fields 14 and 15 of proc(5), 11 and 12 after it.
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
