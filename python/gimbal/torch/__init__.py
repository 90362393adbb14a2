"""Gimbal under PyTorch: a gradient synchronizer that needs no torch.distributed, a backend "gimbal" for it, and a communication
hook for stock DistributedDataParallel.

    import gimbal.torch
    sync = gimbal.torch.GradientSynchronizer(model)       # sync.synchronize() before optimizer.step()

    torch.distributed.init_process_group("gimbal")        # DDP and FSDP scripts run as they are

    ddp.register_comm_hook(gimbal.torch.HookState(gimbal.Communicator()), gimbal.torch.comm_hook)

The same files work with torch 1.13 and with current torch: nothing is compiled against it.
"""

from .backend import ProcessGroup, register
from .hook import HookState, comm_hook
from .synchronizer import GradientSynchronizer

__all__ = ["GradientSynchronizer", "HookState", "ProcessGroup", "comm_hook", "register"]

register()
