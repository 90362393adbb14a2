"""How a training script scales: `python -m gimbal.scaling train.py ...` runs it with 1, 2, 4, ... ranks, once for weak scaling (each
rank keeps its batch) and once for strong scaling (all ranks share one), and writes a table and a picture.

The script's side, on every rank:

    import gimbal.scaling
    batch = gimbal.scaling.batch_of_rank(64, comm.rank, comm.size)    # this rank's examples of a step; 64 are one rank's
    ...
    gimbal.scaling.report(model="digits, 2 layers", batch=..., examples=..., seconds=..., steps=..., exposed_seconds=..., loss=...,
                          gradient_bytes=...)                         # rank 0 says it

report() prints one line, `scaling: ` and a JSON object, so that a script of another language can do so too. Fields:

    model               a name
    batch               examples of one step, of all ranks together
    examples, seconds   of all ranks together in the timed part, and how long that took
    steps               in the timed part
    exposed_seconds     of it, what rank 0 waited for gradients (sync.stats().all_exposed_ns)
    loss                after training
    gradient_bytes      of a step

The environment variable SCALING says which kind is wanted: "weak" or "strong".
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any, Dict, List, Optional

from . import run, scaling_plot

__all__ = ["batch_of_rank", "report", "main"]

KINDS = ("weak", "strong")
_PREFIX = "scaling: "
_FIELDS = ("model", "batch", "examples", "seconds", "steps", "exposed_seconds", "loss", "gradient_bytes")


def batch_of_rank(one_ranks: int, rank: int, size: int) -> range:
    """The examples of a step that are this rank's, counted over all ranks, where one rank alone takes `one_ranks`."""
    total = one_ranks * size if os.environ.get("SCALING") == "weak" else one_ranks
    return range(rank * total // size, (rank + 1) * total // size)


def report(**fields: Any) -> None:
    """On rank 0: what the run came to, for `python -m gimbal.scaling`. See the module for the fields; all are needed."""
    _require_fields(fields)
    print(_PREFIX + json.dumps(fields), flush=True)


def _require_fields(fields: Dict[str, Any]) -> None:
    if set(fields) != set(_FIELDS):
        raise ValueError(f"a report has the fields {', '.join(_FIELDS)}; here {', '.join(sorted(set(fields) ^ set(_FIELDS)))} "
                         "is missing or too much")


def measure(script: List[str], kind: str, ranks: int) -> Dict[str, Any]:
    """One run of the script: its report, and what follows from that."""
    command = [sys.executable, "-m", "gimbal.run", "-n", str(ranks), "--no-prefix", *script]
    ended = subprocess.run(command, env={**os.environ, "SCALING": kind}, capture_output=True, text=True)
    lines = [line for line in ended.stdout.splitlines() if line.startswith(_PREFIX)]
    if ended.returncode or len(lines) != 1:
        sys.exit(f"{ended.stdout}{ended.stderr}gimbal.scaling: {' '.join(command)} ended with status {ended.returncode} and "
                 f"{len(lines)} reports; it must be 0 and 1")
    row = json.loads(lines[0][len(_PREFIX):])
    _require_fields(row)
    return {"kind": kind, "ranks": ranks, **row, "examples_per_second": row["examples"] / row["seconds"],
            "exposed_ms": row["exposed_seconds"] / row["steps"] * 1e3, "exposed_share": row["exposed_seconds"] / row["seconds"]}


def reduce_seconds(nbytes: int, nodes: int, per_node: int, rail: Optional[str]) -> float:
    """What the simulator says that an all-reduce takes on so many nodes like this one, by the best schedule."""
    command = [run.tool("gimbal-plan"), "simulate", "--nodes", str(nodes), "--ranks-per-node", str(per_node), "--bytes", str(nbytes),
               "--no-scaling", "--json", *(["--rail", rail] if rail else [])]
    figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["figures"]
    return min(figure["time_us"] for figure in figures) * 1e-6


def predict(rows: List[Dict[str, Any]], nodes: List[int], rail: Optional[str]) -> List[Dict[str, Any]]:
    """Rows for more nodes like this one, each with as many ranks as the last measured row that had a CPU for every rank: a step
    is that row's computation, and an all-reduce of all gradients that nothing hides."""
    found = []
    for kind in KINDS:
        last = [row for row in rows if row["kind"] == kind and row["ranks"] <= max(1, len(os.sched_getaffinity(0)))][-1]
        for count in nodes:
            grown = count if kind == "weak" else 1
            computed = (last["seconds"] - last["exposed_seconds"]) / last["steps"] * grown / count
            exposed = reduce_seconds(last["gradient_bytes"], count, last["ranks"], rail)
            batch = last["batch"] * grown
            found.append({"kind": kind, "ranks": last["ranks"] * count, "batch": batch, "predicted": True,
                          "examples_per_second": batch / (computed + exposed), "exposed_ms": exposed * 1e3,
                          "exposed_share": exposed / (computed + exposed)})
    return found


def add_comparisons(rows: List[Dict[str, Any]]) -> None:
    """Efficiency, and the loss's drift, both against one rank."""
    alone = next(row for row in rows if row["ranks"] == 1)
    for row in rows:
        row["efficiency"] = row["examples_per_second"] / (row["ranks"] * alone["examples_per_second"])
        if "loss" in row:
            row["drift"] = row["loss"] - alone["loss"]


def table(rows: List[Dict[str, Any]], title: str) -> str:
    """The rows as text."""
    lines = [title, "", f"{'':7}{'ranks':>6}{'batch':>8}{'examples/s':>12}{'efficiency':>11}{'exposed ms':>11}{'share':>7}{'loss':>12}"
                        f"{'drift':>11}"]
    for row in rows:
        loss = f"{row['loss']:12.6f}{row['drift']:11.1e}" if "loss" in row else "   predicted"
        lines.append(f"{row['kind']:7}{row['ranks']:6}{row['batch']:8}{row['examples_per_second']:12.1f}{row['efficiency']:11.1%}"
                     f"{row['exposed_ms']:11.3f}{row['exposed_share']:7.1%}{loss}")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """CPUs and their model, as text."""
    models = [line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} CPUs, {models[0] if models else platform.machine()}"


def _numbers(text: str) -> List[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m gimbal.scaling", description="How a training script scales.")
    parser.add_argument("--ranks", type=_numbers, help="of the runs (1, 2, 4, ... up to the CPUs); the first is 1")
    parser.add_argument("--predict", type=_numbers, default=[2, 4, 8, 16], metavar="NODES",
                        help="predict for so many nodes like this one (2,4,8,16); '' for none")
    parser.add_argument("--rail", help='between nodes, for the prediction: "12.5GB/s,5us" (as gimbal-plan simulate)')
    parser.add_argument("--output", default="scaling", help="writes OUTPUT.txt, OUTPUT.svg and OUTPUT.json (scaling)")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="and its arguments")
    arguments = parser.parse_args()
    if not arguments.script:
        parser.error("which script?")
    cpus = len(os.sched_getaffinity(0))
    counts = arguments.ranks or [2**power for power in range(cpus.bit_length())]
    if counts[0] != 1:
        parser.error("the first number of ranks is 1: the others are compared with it")
    alone = measure(arguments.script, KINDS[0], 1)
    rows = []
    for kind in KINDS:
        rows += [{**alone, "kind": kind}, *(measure(arguments.script, kind, count) for count in counts[1:])]
    rows += predict(rows, arguments.predict, arguments.rail)
    add_comparisons(rows)
    title = f"{alone['model']}; {alone['batch']} examples a step with one rank; {machine()}"
    text = table(rows, title)
    pathlib.Path(f"{arguments.output}.txt").write_text(text)
    pathlib.Path(f"{arguments.output}.svg").write_text(scaling_plot.draw(rows, title))
    pathlib.Path(f"{arguments.output}.json").write_text(json.dumps({"title": title, "rows": rows}, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
