"""Figures as the drivers print them, recorded from a run of two ranks and shortened; what the tests calculate on."""
from comparison.figures import Figures

MIB = 1 << 20
SIZES = (8, 64 << 10, MIB, 16 * MIB, 64 * MIB)

# Median us per size, in three rounds of which the last was disturbed: everything took three times as long.
LIMIT = (0.19, 1.9, 20.0, 1100.0, 4800.0)
INTEL = (0.40, 8.0, 76.0, 6900.0, 48000.0)
OPEN = (0.19, 10.2, 105.0, 4450.0, 32600.0)
DISTURBANCE = (1.0, 1.1, 3.0)


def rows(times):
    return {bytes_: {"bytes": bytes_, "median_us": time, "mean_us": 1.1 * time} for bytes_, time in zip(SIZES, times)}


def figures(gimbal, registered=None):
    """A comparison in which Gimbal takes these times in a quiet round."""
    result = Figures()
    series = [("limit", "limit", LIMIT), ("intelmpi", "peer", INTEL), ("openmpi", "peer", OPEN), ("gimbal", "gimbal", gimbal)]
    if registered is not None:
        series.append(("gimbal registered", "gimbal", registered))
    for round_number, factor in enumerate(DISTURBANCE):
        for name, kind, times in series:
            result.add(round_number, name, kind, rows([factor * time for time in times]))
    return result
