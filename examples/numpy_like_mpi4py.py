"""mpi4py's collectives on numpy arrays, and what they are called here.

    python3 -m gimbal.run -n 3 examples/numpy_like_mpi4py.py
"""

import numpy

import gimbal


def main():
    with gimbal.Communicator() as comm:  # MPI.COMM_WORLD
        rank, size = comm.rank, comm.size  # Get_rank(), Get_size()

        table = numpy.arange(4.0) if rank == 0 else numpy.empty(4)
        comm.broadcast(table, root=0)  # Bcast(table, root=0)

        part = numpy.empty(2)
        comm.scatter(numpy.arange(2.0 * size) if rank == 0 else None, part, root=0)  # Scatter(sendbuf, recvbuf, root=0)

        total = comm.all_reduce(part)  # Allreduce(part, total, op=MPI.SUM)
        everyones = comm.all_gather(part)  # Allgather(part, everyones)
        at_root = comm.gather(part * part, root=0)  # Gather(sendbuf, recvbuf, root=0)
        from_all = comm.all_to_all(numpy.full(size, float(rank)))  # Alltoall(sendbuf, recvbuf)

        arrived = numpy.empty(4)
        with gimbal.group():  # Sendrecv(sendbuf, dest, recvbuf=arrived, source)
            comm.send(table * rank, (rank + 1) % size)
            comm.recv(arrived, (rank - 1) % size)

        request = comm.start.all_reduce(part, "max")  # Iallreduce(...), request.wait()
        largest = request.wait()
        comm.barrier()  # Barrier()

        if rank == 0:
            print(f"total {total}, everyone's {everyones.ravel()}, squares {at_root.ravel()}, from all {from_all}, "
                  f"arrived {arrived}, largest {largest}")


if __name__ == "__main__":
    main()
