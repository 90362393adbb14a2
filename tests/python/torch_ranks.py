"""One rank of torch_test.py, under gimbal-run: torch_ranks.py BACKEND CASE... Every case asserts, and says so when it has passed."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gimbal
import gimbal.torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def mine(rank=RANK, dtype=torch.float32, shape=(2, 3)):
    return (torch.arange(6) + 10 * (rank + 1)).to(dtype).view(shape)


def equal(have, want):
    assert torch.equal(have, want), f"{have} is not {want}"


def stacked(**options):
    return torch.stack([mine(rank, **options) for rank in range(SIZE)])


def reductions():
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.float16):
        values = mine(dtype=dtype)
        dist.all_reduce(values)
        equal(values, stacked(dtype=dtype).sum(0).to(dtype))
    for op, function in ((dist.ReduceOp.MIN, torch.amin), (dist.ReduceOp.MAX, torch.amax), (dist.ReduceOp.AVG, torch.mean)):
        values = mine()
        dist.all_reduce(values, op)
        equal(values, function(stacked(), 0))
    truth = torch.tensor([RANK == 0, False])
    dist.all_reduce(truth)
    equal(truth, torch.tensor([True, False]))
    values = mine()
    dist.reduce(values, dst=SIZE - 1)
    equal(values, stacked().sum(0) if RANK == SIZE - 1 else mine())
    out = torch.empty(3)
    dist.reduce_scatter(out, [mine()[0] + rank for rank in range(SIZE)])
    equal(out, stacked()[:, 0].sum(0) + SIZE * RANK)
    several = [mine(), mine(shape=(6,)) + 1]
    dist.all_reduce_coalesced(several)
    equal(several[0], stacked().sum(0))
    equal(several[1], stacked(shape=(6,)).sum(0) + SIZE)


def movements():
    values = mine()
    dist.broadcast(values, src=1)
    equal(values, mine(1))
    gathered = [torch.empty(2, 3) for _ in range(SIZE)]
    dist.all_gather(gathered, mine())
    equal(torch.stack(gathered), stacked())
    parts = [torch.empty(2, 3) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(mine(), parts, dst=0)
    if RANK == 0:
        equal(torch.stack(parts), stacked())
    out = torch.empty(2, 3)
    dist.scatter(out, [mine(rank) for rank in range(SIZE)] if RANK == 1 else None, src=1)
    equal(out, mine())
    rows = torch.arange(SIZE) + 100 * RANK
    swapped = torch.empty_like(rows)
    dist.all_to_all_single(swapped, rows)
    equal(swapped, torch.arange(SIZE) * 100 + RANK)
    uneven = [torch.full((RANK + peer,), RANK) for peer in range(SIZE)]
    arrived = [torch.empty(RANK + peer, dtype=torch.int64) for peer in range(SIZE)]
    dist.all_to_all(arrived, uneven)
    for peer, tensor in enumerate(arrived):
        equal(tensor, torch.full((RANK + peer,), peer))
    short = torch.tensor([RANK], dtype=torch.int16)
    dist.broadcast(short, src=0)
    equal(short, torch.tensor([0], dtype=torch.int16))
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": rank} for rank in range(SIZE)], objects


def messages():
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = torch.empty(2, 3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine(), to), dist.P2POp(dist.irecv, got, source)]):
        work.wait()
    equal(got, mine(source))
    if RANK == 0:
        dist.send(mine(), 1)
    if RANK == 1:
        dist.recv(got, 0)
        equal(got, mine(0))


def views():
    """Tensors that are not contiguous come back as they were laid out."""
    whole = torch.zeros(4, 4)
    column = whole[:, 1]
    column += RANK + 1
    dist.all_reduce(column)
    want = torch.zeros(4, 4)
    want[:, 1] = sum(range(1, SIZE + 1))
    equal(whole, want)


def groups():
    members = list(range(SIZE - 1))
    part = dist.new_group(members)
    values = mine()
    if RANK in members:
        dist.all_reduce(values, group=part)
        equal(values, stacked()[:-1].sum(0))
    dist.barrier()


def failures():
    values = mine(shape=(6,)) if RANK == 0 else mine(shape=(6,))[:5].clone()
    try:
        dist.all_reduce(values)
    except Exception as error:
        assert isinstance(error, gimbal.Mismatch) or "count" in str(error), error
    else:
        raise AssertionError("ranks of different counts added their tensors")


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).double()


def trained_parameters(model, batch):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def trained(model, batch):
    return torch.cat([parameter.reshape(-1) for parameter in trained_parameters(model, batch)])


def whole_batch():
    torch.manual_seed(2)
    return torch.randn(4 * SIZE, 8, dtype=torch.float64)


def check_trained(have):
    single = trained(network(), whole_batch())
    assert torch.allclose(have, single, rtol=0, atol=1e-12), (have - single).abs().max()
    rows = [torch.empty_like(have) for _ in range(SIZE)]
    dist.all_gather(rows, have)
    for row in rows:
        equal(row, have)


def ddp():
    check_trained(trained(DistributedDataParallel(network(), bucket_cap_mb=0.0002), whole_batch()[4 * RANK:4 * RANK + 4]))


def hook():
    """DDP over gloo, with Gimbal's hook for the gradients."""
    model = DistributedDataParallel(network(), bucket_cap_mb=0.0002)
    model.register_comm_hook(gimbal.torch.HookState(), gimbal.torch.comm_hook)
    check_trained(trained(model, whole_batch()[4 * RANK:4 * RANK + 4]))


def fsdp():
    """The wrapper: parameters are gathered and gradients scattered; the shards together are what one process trains."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    trained(model, whole_batch()[4 * RANK:4 * RANK + 4])
    with FullyShardedDataParallel.summon_full_params(model):
        check_trained(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))


def fully_shard():
    """FSDP's second form, over a device mesh."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    model = shard(network(), mesh=init_device_mesh("cpu", (SIZE,)))
    trained_shards = trained_parameters(model, whole_batch()[4 * RANK:4 * RANK + 4])
    check_trained(torch.cat([parameter.full_tensor().reshape(-1) for parameter in trained_shards]))


def main():
    backend, *cases = sys.argv[1:]
    dist.init_process_group(backend)
    for case in cases:
        globals()[case]()
        print(f"passed {case}", flush=True)
    dist.destroy_process_group()


main()
