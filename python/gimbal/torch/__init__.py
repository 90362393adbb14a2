"""Gimbal under PyTorch: backend "gimbal" of torch.distributed, and a communication hook for stock DistributedDataParallel.

    import gimbal.torch
    torch.distributed.init_process_group("gimbal")        # DDP and FSDP scripts run as they are

    ddp.register_comm_hook(gimbal.torch.HookState(gimbal.Communicator()), gimbal.torch.comm_hook)

The same files work with torch 1.13 and with current torch: nothing is compiled against it.
"""

from .backend import ProcessGroup, register
from .hook import HookState, comm_hook

__all__ = ["HookState", "ProcessGroup", "comm_hook", "register"]

register()
