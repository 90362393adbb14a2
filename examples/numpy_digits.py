"""A network of two layers on handwritten digits, in numpy: every layer's gradient is averaged while the one before it is computed.

    python3 -m gimbal.run -n 2 examples/numpy_digits.py
    python3 -m gimbal.scaling examples/numpy_digits.py      # with 1, 2, 4, ... ranks: a table and a picture
"""

import argparse
import pathlib
import time

import numpy

import gimbal
import gimbal.scaling

DATA = pathlib.Path(__file__).parent / "data" / "digits.csv"
HIDDEN = 256
BATCH = 64
RATE = 0.05


def parameters():
    generator = numpy.random.default_rng(1)
    return {"hidden": generator.normal(0, 0.1, (65, HIDDEN)), "output": generator.normal(0, 0.1, (HIDDEN + 1, 10))}


def with_ones(values):
    """A column of ones beside the values, for the biases."""
    return numpy.hstack([values, numpy.ones((len(values), 1))])


def forward(weights, images):
    hidden = numpy.maximum(with_ones(images) @ weights["hidden"], 0)
    logits = with_ones(hidden) @ weights["output"]
    shares = numpy.exp(logits - logits.max(1, keepdims=True))
    return hidden, shares / shares.sum(1, keepdims=True)


def backward(weights, sync, images, digits):
    """Writes the gradients of the mean loss, last layer first."""
    hidden, shares = forward(weights, images)
    error = shares
    error[numpy.arange(len(digits)), digits] -= 1
    error /= len(digits)
    numpy.matmul(with_ones(hidden).T, error, out=sync.gradients["output"])
    sync.ready("output")
    error = (error @ weights["output"][:-1].T) * (hidden > 0)
    numpy.matmul(with_ones(images).T, error, out=sync.gradients["hidden"])
    sync.ready("hidden")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    rows = numpy.loadtxt(DATA, delimiter=",", dtype=int)
    images, digits = rows[:, :64] / 16, rows[:, 64]
    with gimbal.Communicator() as comm:
        weights = parameters()
        sync = gimbal.GradientSynchronizer(comm, weights, reduction="weighted_mean")
        mine = gimbal.scaling.batch_of_rank(BATCH, comm.rank, comm.size)
        total = int(comm.all_reduce(numpy.array([len(mine)])).item())
        order = numpy.random.default_rng(2)
        steps, begun = 0, time.perf_counter()
        for _ in range(arguments.epochs):
            shuffled = order.permutation(len(digits))
            for start in range(0, len(digits) - total + 1, total):
                part = shuffled[start:start + total][mine]
                sync.announce_weight(len(part))
                backward(weights, sync, images[part], digits[part])
                sync.synchronize(len(part))
                for name, value in weights.items():
                    value -= RATE * sync.gradients[name]
                steps += 1
        seconds = time.perf_counter() - begun
        sync.check(weights)
        shares = forward(weights, images)[1]
        if comm.rank == 0:
            stats = sync.stats()
            loss = -numpy.log(shares[numpy.arange(len(digits)), digits]).mean()
            print(f"{comm.size} ranks: loss {loss:.6f}, accuracy {(shares.argmax(1) == digits).mean():.4f}")
            gimbal.scaling.report(model=f"digits, 64-{HIDDEN}-10", batch=total, examples=steps * total, seconds=seconds, steps=steps,
                                  exposed_seconds=stats.all_exposed_ns * 1e-9, loss=float(loss), gradient_bytes=stats.bytes)


if __name__ == "__main__":
    main()
