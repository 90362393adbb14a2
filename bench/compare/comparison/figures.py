"""The arithmetic of a comparison: from the figures of all rounds to medians and ratios.

Only figures of one round are divided by each other: what else the machine does changes from round to round, and a ratio within one
does not see it. The median is then taken over the rounds' ratios.
"""
import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Ratio:
    median: float
    low: float
    high: float


class Figures:
    """Times by (round, series, bytes). A series is what one line of the plot shows: a library, or one way of using Gimbal."""

    def __init__(self):
        self.kinds = {}  # series -> "peer", "limit" or "gimbal", in order of first appearance
        self.times = {}  # (round, series, bytes) -> row of the driver
        self.unfinished = {}  # series -> rounds that did not finish

    def add(self, round_number, series, kind, rows, finished=True):
        self.kinds.setdefault(series, kind)
        for bytes_, row in rows.items():
            self.times[round_number, series, bytes_] = row
        if not finished:
            self.unfinished[series] = self.unfinished.get(series, 0) + 1

    def series(self, kind):
        return [name for name, its_kind in self.kinds.items() if its_kind == kind]

    def sizes(self):
        return sorted({bytes_ for _, _, bytes_ in self.times})

    def rounds(self):
        return sorted({round_number for round_number, _, _ in self.times})

    def time_us(self, round_number, series, bytes_, key="median_us"):
        row = self.times.get((round_number, series, bytes_))
        return None if row is None else row[key]

    def median_us(self, series, bytes_, key="median_us"):
        """Over the rounds; None without a figure."""
        known = [self.time_us(round_number, series, bytes_, key) for round_number in self.rounds()]
        known = [time for time in known if time is not None]
        return statistics.median(known) if known else None

    def ratio(self, fastest_of, series, bytes_):
        """How many times longer the fastest of some series takes than this one, round by round. None without a common round."""
        ratios = []
        for round_number in self.rounds():
            own = self.time_us(round_number, series, bytes_)
            others = [self.time_us(round_number, other, bytes_) for other in fastest_of]
            others = [time for time in others if time is not None]
            if own is not None and others:
                ratios.append(min(others) / own)
        return Ratio(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None

    def ratios(self, fastest_of, series):
        """{bytes: Ratio} of the sizes that have one."""
        found = {bytes_: self.ratio(fastest_of, series, bytes_) for bytes_ in self.sizes()}
        return {bytes_: ratio for bytes_, ratio in found.items() if ratio is not None}


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))
