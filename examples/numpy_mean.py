"""The mean of an array over ranks, in numpy.

    python3 -m gimbal.run -n 3 examples/numpy_mean.py
"""

import numpy

import gimbal

with gimbal.Communicator() as comm:
    gradient = numpy.array([1.0, 2.0, 3.0]) * comm.rank
    mean = comm.start.all_reduce(gradient, op="avg")  # a future: compute meanwhile
    print(f"mean of {comm.size} ranks: {mean.wait()}")
