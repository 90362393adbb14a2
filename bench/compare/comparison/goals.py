"""The goals of the all-reduce on one machine and between two hosts, and whether a comparison meets them.

A goal that is missed is marked, never an error: a benchmark is not a timed test. A goal whose sizes or peers were not measured is
left out.
"""
import dataclasses

from . import figures as arithmetic

KIB = 1 << 10
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Goal:
    text: str
    value: float
    bound: float

    def met(self):
        return self.value >= self.bound

    def mark(self):
        return "ok" if self.met() else "below"


def worst(ratios):
    """(bytes, median ratio) of the size that does worst."""
    bytes_ = min(ratios, key=lambda size: ratios[size].median)
    return bytes_, ratios[bytes_].median


def against_peers(figures, series):
    ratios = figures.ratios(figures.series("peer"), series)
    if not ratios:
        return []
    bytes_, value = worst(ratios)
    mean = arithmetic.geometric_mean([ratio.median for ratio in ratios.values()])
    goals = [
        Goal(f"best peer / {series}, worst size ({size_text(bytes_)})", value, 0.95),
        Goal(f"best peer / {series}, geometric mean over sizes", mean, 2.0),
    ]
    goals += [Goal(f"best peer / {series}, {size_text(large)}", ratios[large].median, 2.5)
              for large in (16 * MIB, 64 * MIB) if large in ratios]
    return goals


def against_limit(figures, series, from_bytes, bound):
    ratios = figures.ratios(figures.series("limit"), series)
    ratios = {bytes_: ratio for bytes_, ratio in ratios.items() if bytes_ >= from_bytes}
    if not ratios:
        return []
    bytes_, value = worst(ratios)
    return [Goal(f"limit / {series} from {size_text(from_bytes)}, worst size ({size_text(bytes_)})", value, bound)]


def oversubscribed(figures, series):
    ratios = figures.ratios(figures.series("peer"), series)
    bounds = {8: 1.0, MIB: 1.5}
    return [Goal(f"best peer / {series}, {size_text(bytes_)}, more ranks than CPUs", ratios[bytes_].median, bound)
            for bytes_, bound in bounds.items() if bytes_ in ratios]


def across_hosts(figures, series):
    """Two hosts of one rank each, against what else goes over TCP there."""
    ratios = figures.ratios(figures.series("peer"), series)
    goals = []
    for text, bound, sizes in (("up to 64 KiB", 3.0, [size for size in ratios if size <= 64 * KIB]),
                               ("at all sizes", 1.0, list(ratios)),
                               ("from 16 MiB", 1.4, [size for size in ratios if size >= 16 * MIB])):
        if sizes:
            bytes_, value = worst({size: ratios[size] for size in sizes})
            goals.append(Goal(f"best peer / {series} {text}, worst size ({size_text(bytes_)})", value, bound))
    return goals


def of(figures, ranks, hosts=1):
    """Goals of this comparison. Two ranks are held to the machine's limit; eight, on fewer CPUs, to the peers."""
    if hosts > 1:
        return across_hosts(figures, "gimbal") if hosts == ranks == 2 and "gimbal" in figures.kinds else []
    goals = []
    if ranks == 2 and "gimbal" in figures.kinds:
        goals += against_peers(figures, "gimbal") + against_limit(figures, "gimbal", 256 * KIB, 0.4)
    if ranks == 2 and "gimbal registered" in figures.kinds:
        goals += against_limit(figures, "gimbal registered", 64 * KIB, 0.8)
    if ranks == 8 and "gimbal" in figures.kinds:
        goals += oversubscribed(figures, "gimbal")
    return goals


def beside_busy(kept_share, quiet_mean_us, busy_mean_us):
    """A rank beside a busy process has half a CPU, and each meeting may find its peer off the CPU for a time slice, of which two
    CPUs give some milliseconds: up to four times the quiet time and 10 ms more is sharing, not collapse."""
    sharing_us = 4 * quiet_mean_us + 10_000
    return [Goal("share of its CPU that the busy process keeps", kept_share, 0.45),
            Goal("time when only shared / mean time beside the busy processes", sharing_us / busy_mean_us, 1.0)]


def size_text(bytes_):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"
