"""Training in JAX: gradients are computed under jit, and averaged outside of it by DLPack, without a copy.

    python3 -m gimbal.run -n 2 examples/jax_regression.py

Exits with status 77 and the reason where JAX is not installed.
"""

import sys

import numpy

import gimbal

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    print(f"skipped: {error}; pip install jax")
    sys.exit(77)

TRUTH = numpy.array([2.0, -1.0, 0.5], numpy.float32)
STEPS = 200


def loss(weights, inputs, targets):
    return jnp.mean((inputs @ weights - targets) ** 2)


def main():
    gradient_of = jax.jit(jax.grad(loss))
    with gimbal.Communicator() as comm:
        inputs = numpy.random.default_rng(comm.rank).normal(size=(64, 3)).astype(numpy.float32)  # every rank has data of its own
        targets = inputs @ TRUTH
        weights = jnp.zeros(3)
        for _ in range(STEPS):
            gradient = gradient_of(weights, inputs, targets).block_until_ready()  # complete before another library reads it
            mean = numpy.empty(gradient.shape, gradient.dtype)  # JAX's own arrays are read-only
            comm.all_reduce(gradient, "avg", out=mean)
            weights = weights - 0.1 * mean
        print(f"weights {numpy.round(numpy.asarray(weights), 3)} of {comm.size} ranks")


if __name__ == "__main__":
    main()
