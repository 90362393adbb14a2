"""The closing table of tools/demo: reads the trainer's reports, checks what Gimbal promises, draws a picture.

    demo_report.py DIRECTORY BENCH_STATUS

Reads float_<ranks>_round<k>.json and double_<ranks>.json; writes demo.json and demo.svg beside them. Status 1 when a promise is
broken or a report is missing.
"""

import json
import math
import os
import re
import statistics
import sys
from pathlib import Path

MINIMUM_ACCURACY = 0.95
MAXIMUM_DOUBLE_DIFFERENCE = 1e-9
MAXIMUM_GRADIENT_DIFFERENCE = 1e-6


def read_reports(directory):
    """({ranks: [float reports]}, {ranks: double report})"""
    floats, doubles = {}, {}
    for path in sorted(Path(directory).glob("*.json")):
        if match := re.fullmatch(r"float_(\d+)_round\d+", path.stem):
            floats.setdefault(int(match[1]), []).append(json.loads(path.read_text()))
        elif match := re.fullmatch(r"double_(\d+)", path.stem):
            doubles[int(match[1])] = json.loads(path.read_text())
    if 1 not in floats or floats.keys() != doubles.keys():
        raise SystemExit(f"demo_report: {directory} has float reports of {sorted(floats)} and double reports of "
                         f"{sorted(doubles)} ranks; both need 1 rank and the same others")
    return dict(sorted(floats.items())), dict(sorted(doubles.items()))


def relative_difference(value, reference):
    return abs(value - reference) / abs(reference)


def make_rows(floats, doubles, cpus):
    """One row per rank count. Throughput and share are medians over rounds; what must hold is the worst of all runs."""
    def median_of(reports, key):
        return statistics.median(report[key] for report in reports)

    alone = median_of(floats[1], "examples_per_second")
    rows = []
    for ranks, reports in floats.items():
        speed = median_of(reports, "examples_per_second")
        every = reports + [doubles[ranks]]
        rows.append({
            "ranks": ranks,
            "examples_per_second": speed,
            "efficiency": speed / alone / min(ranks, cpus),
            "communication_share": median_of(reports, "communication_share"),
            "step_ms": median_of(reports, "step_ms"),
            "communication_ms": median_of(reports, "communication_ms"),
            "accuracy": min(report["accuracy"] for report in every),
            "parameters_equal": all(report["parameters_equal"] for report in every),
            "double_loss_difference": relative_difference(doubles[ranks]["final_loss"], doubles[1]["final_loss"]),
            "float_gradient_difference": max(report["gradient_difference"] for report in reports),
            "float_loss_drift": relative_difference(reports[0]["final_loss"], floats[1][0]["final_loss"]),
        })
    return rows


def check_promises(rows, bench_status):
    """[(promise, kept)]"""
    return [
        (f"accuracy is at least {MINIMUM_ACCURACY} in every run", all(row["accuracy"] >= MINIMUM_ACCURACY for row in rows)),
        ("parameters are bitwise equal on all ranks", all(row["parameters_equal"] for row in rows)),
        (f"float64: final losses agree with one rank's to {MAXIMUM_DOUBLE_DIFFERENCE:.0e}",
         all(row["double_loss_difference"] <= MAXIMUM_DOUBLE_DIFFERENCE for row in rows)),
        (f"float32: gradients of one step from equal parameters agree to {MAXIMUM_GRADIENT_DIFFERENCE:.0e} of their norm",
         all(row["float_gradient_difference"] <= MAXIMUM_GRADIENT_DIFFERENCE for row in rows)),
        ("gimbal-bench found no wrong element", bench_status == 0),
    ]


def describe_machine():
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"model name\s*:\s*(.+)", cpuinfo)
    return (match[1] if match else "unknown CPU"), len(os.sched_getaffinity(0))


COLUMNS = [  # two lines of heading, width, text of a row
    ("", "ranks", 5, lambda row: str(row["ranks"])),
    ("examples", "per second", 10, lambda row: f"{row['examples_per_second']:,.0f}"),
    ("scaling", "efficiency", 10, lambda row: f"{row['efficiency']:.2f}"),
    ("step", "ms", 6, lambda row: f"{row['step_ms']:.2f}"),
    ("of it commu-", "nication", 12, lambda row: f"{100 * row['communication_share']:.1f} %"),
    ("", "accuracy", 8, lambda row: f"{row['accuracy']:.4f}"),
    ("parameters", "equal", 10, lambda row: "yes" if row["parameters_equal"] else "NO"),
    ("float64 loss", "off by", 12, lambda row: f"{row['double_loss_difference']:.1e}"),
    ("float32 gradient", "off by", 16, lambda row: f"{row['float_gradient_difference']:.1e}"),
    ("float32 loss", "drifted by", 12, lambda row: f"{row['float_loss_drift']:.1e}"),
]


def format_table(rows, promises, report, machine):
    name, cpus = machine
    lines = [
        f"model 64-{report['hidden']}-{report['hidden']}-10 ({report['parameters']:,} parameters), total batch {report['batch']}, "
        f"{report['epochs']} epochs of {report['train_examples']:,} digits",
        f"machine {name}, {cpus} CPUs",
        "",
    ]
    for heading in (0, 1):
        lines.append("  ".join(f"{column[heading]:>{column[2]}}" for column in COLUMNS))
    for row in rows:
        lines.append("  ".join(f"{text(row):>{width}}" for _, _, width, text in COLUMNS))
    lines += [
        "",
        f"efficiency: speed-up over 1 rank by min(ranks, {cpus} CPUs); communication: time in calls to Gimbal, waits for slower",
        "ranks included; off by and drifted by: from 1 rank's, relative",
        "",
    ]
    lines += [f"{'kept  ' if kept else 'BROKEN'}  {promise}" for promise, kept in promises]
    return "\n".join(lines)


def count_ranks(ranks):
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


COLORS = ["#1b6ca8", "#d1495b", "#3a7d44", "#8e5572"]


def draw_losses(floats):
    """Loss over epochs, logarithmic, one curve per rank count, in a 460 x 300 box."""
    curves = {ranks: reports[0]["epoch_losses"] for ranks, reports in floats.items()}
    logs = [math.log10(loss) for losses in curves.values() for loss in losses]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    parts = ['<text x="230" y="-12" class="title">training loss (float32)</text>', '<rect width="460" height="300" class="box"/>']
    for decade in range(low, high + 1):
        y = 300 * (high - decade) / (high - low)
        parts.append(f'<path d="M0 {y:.1f}H460" class="grid"/><text x="-6" y="{y + 4:.1f}" class="end">1e{decade}</text>')
    for index, (ranks, losses) in enumerate(curves.items()):
        points = " ".join(f"{460 * i / max(1, len(losses) - 1):.1f},{300 * (high - math.log10(loss)) / (high - low):.1f}"
                          for i, loss in enumerate(losses))
        color, width = COLORS[index % len(COLORS)], 7 - 2.5 * index
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{max(1, width)}"/>')
        parts.append(f'<text x="450" y="{24 + 18 * index}" class="end" fill="{color}">{count_ranks(ranks)}</text>')
    parts.append('<text x="230" y="322" class="title">epoch</text>')
    return "".join(parts)


def draw_throughput(rows):
    """A bar per rank count, the part spent in communication dark, in a 300 x 300 box."""
    highest = max(row["examples_per_second"] for row in rows)
    slot = 300 / len(rows)
    parts = ['<text x="150" y="-12" class="title">examples per second (dark: share of communication)</text>',
             '<rect width="300" height="300" class="box"/>']
    for index, row in enumerate(rows):
        height = 270 * row["examples_per_second"] / highest
        share = height * row["communication_share"]
        x, width = slot * (index + 0.2), slot * 0.6
        color = COLORS[index % len(COLORS)]
        parts.append(f'<rect x="{x:.1f}" y="{300 - height:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'
                     f'<rect x="{x:.1f}" y="{300 - share:.1f}" width="{width:.1f}" height="{share:.1f}" class="share"/>'
                     f'<text x="{x + width / 2:.1f}" y="{294 - height:.1f}" class="title">{row["examples_per_second"]:,.0f}</text>'
                     f'<text x="{x + width / 2:.1f}" y="322" class="title">{count_ranks(row["ranks"])}</text>')
    return "".join(parts)


def draw(floats, rows):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 380" font-family="sans-serif" font-size="13">'
            "<style>.title{text-anchor:middle}.end{text-anchor:end}.box{fill:none;stroke:#888}.grid{stroke:#ddd}"
            '.share{fill:#000;fill-opacity:.45}</style><rect width="900" height="380" fill="#fff"/>'
            f'<g transform="translate(60 40)">{draw_losses(floats)}</g>'
            f'<g transform="translate(570 40)">{draw_throughput(rows)}</g></svg>\n')


def main(directory, bench_status):
    floats, doubles = read_reports(directory)
    machine = describe_machine()
    rows = make_rows(floats, doubles, machine[1])
    promises = check_promises(rows, bench_status)
    table = format_table(rows, promises, floats[1][0], machine)
    output = Path(directory)
    (output / "demo.json").write_text(json.dumps({
        "machine": {"cpu": machine[0], "cpus": machine[1]},
        "model": {key: floats[1][0][key] for key in ("hidden", "parameters", "batch", "epochs", "train_examples")},
        "rows": rows,
        "promises": [{"promise": promise, "kept": kept} for promise, kept in promises],
    }, indent=2) + "\n")
    (output / "demo.svg").write_text(draw(floats, rows))
    print(f"\n{table}\n\npicture: {output / 'demo.svg'}")
    return 0 if all(kept for _, kept in promises) else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
