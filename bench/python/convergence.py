"""Whether fewer bytes cost accuracy: examples/torch_digits.py's network, trained from several seeds with each form of gradients.

    python3 -m gimbal.run -n 2 --no-prefix bench/python/convergence.py --output bench/results/2core-epyc/convergence

Prints one line of JSON for each form: final losses on the test part, their mean and standard deviation, accuracy, bytes that a rank
sends in a step, and whether the mean is within one standard deviation of that of float32. OUTPUT.jsonl has the same, OUTPUT.svg a
picture.
"""

import argparse
import html
import json
import pathlib
import statistics
import sys

import torch

import gimbal
import gimbal.torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import torch_digits  # noqa: E402 (found by the line above)

FORMS = {"float32": {}, "bfloat16": {"wire": "bfloat16"}, "int8": {"wire": "int8"}, "float8": {"wire": "float8"},
         "PowerSGD 4": {"codec": gimbal.power_sgd(4)}, "top-k 20 %": {"codec": gimbal.top_k(0.2)},
         "top-k 5 %": {"codec": gimbal.top_k(0.05)}}


def trained(comm, seed, epochs, options, sets):
    """Test loss, accuracy, and bytes sent in a step."""
    used = []

    def average(model):
        used.append(gimbal.torch.GradientSynchronizer(model, comm, **options))
        return model, used[0].synchronize

    batch = torch_digits.BATCH
    part = slice(comm.rank * batch // comm.size, (comm.rank + 1) * batch // comm.size)
    _, model = torch_digits.train(torch_digits.make_network(torch.float32, seed), average, sets[0], epochs, part)
    used[0].check()
    return (*torch_digits.evaluate(model, sets[1]), used[0].stats().sent_bytes)


def draw(rows, title):
    """Dots for the seeds, a bar for mean and standard deviation; the band is float32's."""
    left, step, top, bottom = 70, 120, 50, 300
    width = left + step * len(rows) + 20
    high = 1.1 * max(max(row["losses"]) for row in rows)

    def y_of(loss):
        return bottom - loss / high * (bottom - top)

    def text(x, y, content, anchor="middle"):
        return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(content)}</text>'

    plain = rows[0]
    band = y_of(plain["mean"] + plain["deviation"]), y_of(plain["mean"] - plain["deviation"])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 350" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="350" fill="white"/>', text(left, 24, title, "start"),
             f'<rect x="{left}" y="{band[0]:.1f}" width="{step * len(rows)}" height="{band[1] - band[0]:.1f}" fill="#1f6fb2" '
             'opacity="0.15"/>']
    for tick in range(6):
        loss = high * tick / 5
        parts += [f'<line x1="{left}" y1="{y_of(loss):.1f}" x2="{width - 20}" y2="{y_of(loss):.1f}" stroke="#ddd"/>',
                  text(left - 6, y_of(loss) + 4, f"{loss:.3f}", "end")]
    for index, row in enumerate(rows):
        x = left + step * (index + 0.5)
        ends = y_of(row["mean"] - row["deviation"]), y_of(row["mean"] + row["deviation"])
        parts += [f'<circle cx="{x - 8}" cy="{y_of(loss):.1f}" r="3" fill="#1f6fb2"/>' for loss in row["losses"]]
        parts += [f'<line x1="{x + 8}" y1="{ends[0]:.1f}" x2="{x + 8}" y2="{ends[1]:.1f}" stroke="#c4552d" stroke-width="2"/>',
                  f'<circle cx="{x + 8}" cy="{y_of(row["mean"]):.1f}" r="4" fill="#c4552d"/>', text(x, bottom + 20, row["form"]),
                  text(x, bottom + 36, f"{row['sent_bytes'] / plain['sent_bytes']:.0%} of the bytes")]
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sets = torch_digits.load(torch.float32)
    rows = []
    with gimbal.Communicator() as comm:
        for form, options in FORMS.items():
            found = [trained(comm, seed, arguments.epochs, options, sets) for seed in range(arguments.seeds)]
            losses = [loss for loss, _, _ in found]
            row = {"form": form, "ranks": comm.size, "losses": losses, "mean": statistics.mean(losses),
                   "deviation": statistics.stdev(losses), "accuracy": statistics.mean(accuracy for _, accuracy, _ in found),
                   "sent_bytes": found[0][2]}
            rows.append(row)
            row["within"] = abs(row["mean"] - rows[0]["mean"]) <= rows[0]["deviation"]
            if comm.rank == 0:
                print(json.dumps(row), flush=True)
        if comm.rank == 0:
            title = f"Loss on the test part after {arguments.epochs} epochs of digits, {arguments.seeds} seeds, {comm.size} ranks"
            pathlib.Path(f"{arguments.output}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            pathlib.Path(f"{arguments.output}.svg").write_text(draw(rows, title))
        comm.barrier()


if __name__ == "__main__":
    main()
