"""Trains a small convolutional network on handwritten digits, and shows that each way to average gradients is right.

    python3 -m gimbal.run -n 2 examples/torch_digits.py
    torchrun --nproc-per-node 2 examples/torch_digits.py --averaging synchronizer --dtype float32

Every rank takes its part of each batch; the gradients are averaged by

    gloo            stock DistributedDataParallel over gloo
    gimbal          stock DistributedDataParallel over backend "gimbal"
    hook            stock DistributedDataParallel over gloo with Gimbal's communication hook
    synchronizer    gimbal.torch.GradientSynchronizer, without DistributedDataParallel

and each is compared with one process that trains on the whole batches. Rank 0 prints one line of JSON for each way:

    loss, accuracy      on the test part, after training
    loss_error          of loss, from that of one process
    gradient_error      of the first step's gradients, from those of one process: the largest difference
    equal               whether all ranks have the same bits in every parameter
"""

import argparse
import copy
import json
import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gimbal.torch

DATA = pathlib.Path(__file__).parent / "data" / "digits.csv"
BATCH = 64  # of all ranks together
TEST_EVERY = 5  # of the examples, one is for the test


def load(dtype):
    rows = torch.tensor([[int(cell) for cell in line.split(",")] for line in DATA.read_text().split()])
    images, digits = rows[:, :64].to(dtype).view(-1, 1, 8, 8) / 16, rows[:, 64]
    tests = torch.arange(len(rows)) % TEST_EVERY == 0
    return (images[~tests], digits[~tests]), (images[tests], digits[tests])


def make_network(dtype, seed=7):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, 10)).to(dtype)


def alone(model):
    return model, lambda: None


def gloo(model):
    return DistributedDataParallel(model), lambda: None


def over_gimbal(model):
    return DistributedDataParallel(model, process_group=dist.new_group(backend="gimbal")), lambda: None


def hook(model):
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(gimbal.torch.HookState(), gimbal.torch.comm_hook)
    return wrapped, lambda: None


def synchronizer(model):
    return model, gimbal.torch.GradientSynchronizer(model).synchronize


AVERAGING = {"gloo": gloo, "gimbal": over_gimbal, "hook": hook, "synchronizer": synchronizer}


def train(network, average, train_set, epochs, part):
    """Trains a copy of the network; part: of each batch, which this process takes. The first gradients, and the trained copy."""
    images, digits = train_set
    model = copy.deepcopy(network)
    called, after_backward = average(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.2, momentum=0.9)
    steps = epochs * (len(digits) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    order = torch.Generator().manual_seed(11)
    first = None
    for _ in range(epochs):
        for batch in torch.randperm(len(digits), generator=order).split(BATCH):
            if len(batch) < BATCH:
                continue
            optimizer.zero_grad()
            mine = batch[part]
            torch.nn.functional.cross_entropy(called(images[mine]), digits[mine]).backward()
            after_backward()
            if first is None:
                first = flat(parameter.grad for parameter in model.parameters())
            optimizer.step()
            schedule.step()
    return first, model


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def evaluate(model, test_set):
    with torch.no_grad():
        logits = model(test_set[0])
    return (torch.nn.functional.cross_entropy(logits, test_set[1]).item(),
            (logits.argmax(1) == test_set[1]).double().mean().item())


def on_all_ranks(tensor):
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor)
    return gathered


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--averaging", default=",".join(AVERAGING), help="one or several of %(default)s")
    parser.add_argument("--dtype", default="float64", choices=("float32", "float64"))
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size:
        parser.error(f"a batch of {BATCH} does not divide by {size} ranks")
    train_set, test_set = load(getattr(torch, arguments.dtype))
    network = make_network(getattr(torch, arguments.dtype))
    gradient, model = train(network, alone, train_set, arguments.epochs, slice(None))
    loss_alone, _ = evaluate(model, test_set)
    part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    for name in arguments.averaging.split(","):
        found, model = train(network, AVERAGING[name], train_set, arguments.epochs, part)
        loss, accuracy = evaluate(model, test_set)
        mine = flat(model.parameters())
        equal = all(torch.equal(other, mine) for other in on_all_ranks(mine))
        if rank == 0:
            print(json.dumps({"averaging": name, "ranks": size, "dtype": arguments.dtype, "loss": loss, "accuracy": accuracy,
                              "loss_error": abs(loss - loss_alone), "gradient_error": (found - gradient).abs().max().item(),
                              "equal": equal}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
