"""One line that says on which machine a figure was measured."""
import os
import pathlib
import platform


def first_value(path, key):
    for line in pathlib.Path(path).read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def machine_line():
    cpus = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    memory_gib = int(first_value("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)
    return f"{cpus} CPUs of {first_value('/proc/cpuinfo', 'model name')}, {memory_gib:.0f} GiB, kernel {kernel}"
