"""The tables of a comparison as text."""
from . import goals as goals_module


def table(heading, columns, rows):
    """Right-aligned text; columns are headings, rows lists of equal length."""
    widths = [max(len(row[column]) for row in [columns, *rows]) for column in range(len(columns))]
    lines = [heading]
    lines += ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [columns, *rows]]
    return "\n".join(lines)


def time_text(time_us):
    if time_us is None:
        return "-"
    if time_us >= 1000:
        return f"{time_us:,.0f}"
    return f"{time_us:.1f}" if time_us >= 10 else f"{time_us:.2f}"


def times_table(figures, key="median_us", heading="Time of one all-reduce, us: median of the rounds' medians"):
    series = figures.series("limit") + figures.series("peer") + figures.series("gimbal")
    rows = [[goals_module.size_text(bytes_), *(time_text(figures.median_us(name, bytes_, key)) for name in series)]
            for bytes_ in figures.sizes()]
    return table(heading, ["size", *series], rows)


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def ratio_table(figures, kind, heading):
    """The fastest series of a kind over each of Gimbal's, or None when there is nothing to divide."""
    of, ours = figures.series(kind), figures.series("gimbal")
    if not of or not ours:
        return None
    rows = [[goals_module.size_text(bytes_), *(ratio_text(figures.ratio(of, name, bytes_)) for name in ours)]
            for bytes_ in figures.sizes()]
    return table(heading, ["size", *ours], rows)


def best_peer_table(figures):
    """Without Gimbal: how near the best peer is to the limit."""
    peers, limit = figures.series("peer"), figures.series("limit")
    if not peers or not limit or figures.series("gimbal"):
        return None
    rows = []
    for bytes_ in figures.sizes():
        known = {name: figures.median_us(name, bytes_) for name in peers}
        known = {name: time for name, time in known.items() if time is not None}
        if known:
            best = min(known, key=known.get)
            rows.append([goals_module.size_text(bytes_), best, ratio_text(figures.ratio(limit, best, bytes_))])
    return table("Limit / best peer: median ratio (lowest-highest round)", ["size", "best peer", "ratio"], rows)


def goals_table(goals):
    if not goals:
        return None
    rows = [[goal.mark(), f"{goal.value:.2f}", f"{goal.bound:.2f}", goal.text] for goal in goals]
    return table("Goals (a missed one is marked, not an error)", ["", "value", "goal", "what"], rows)


def notes(figures, left_out, round_count):
    lines = [f"{name} is left out: {reason}" for name, reason in left_out.items()]
    lines += [f"{name} did not finish in {count} of {round_count} rounds" for name, count in figures.unfinished.items()]
    return "\n".join(lines) or None


def text(heading, figures, goals, left_out, round_count):
    parts = [
        heading,
        times_table(figures),
        ratio_table(figures, "peer", "Best peer / Gimbal, above 1 Gimbal is faster: median ratio (lowest-highest round)"),
        ratio_table(figures, "limit", "Limit / Gimbal, 1 is the machine's limit: median ratio (lowest-highest round)"),
        best_peer_table(figures),
        goals_table(goals),
        notes(figures, left_out, round_count),
    ]
    return "\n\n".join(part for part in parts if part)
