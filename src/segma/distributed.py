"""Several processes as one: joining them, gathering codes with their gradients, averaging what is reported.

Started by torchrun, each process takes its part of every batch. Reconstruction and cross-entropy are means over rows,
so they average over processes; the distance is not, and is computed over the codes of all of them.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from segma.errors import RunFailed


def rank() -> int:
    """This process's number; 0 writes the files and speaks to the user."""
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


@contextmanager
def group(device: str) -> Generator[None]:
    """Join the processes that torchrun started, if it did; leave them at the end, and with gloo the program too."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    yield
    dist.barrier()  # the first one may have more to do: who leaves early takes the connections along
    if device == "cuda":
        dist.destroy_process_group()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # on its ordinary way out gloo beside DDP now and then aborts the process (torch 2.13)


@contextmanager
def together() -> Generator[None]:
    """Work that all processes do; when one of them dies, the others fail with a message instead of a traceback."""
    try:
        yield
    except RuntimeError as problem:
        signs = ("gloo", "NCCL", "peer", "onnection", "roken pipe")
        if isinstance(problem, RunFailed) or not any(sign in str(problem) for sign in signs):
            raise
        raise RunFailed(f"process {rank()} of {size()} lost another one") from problem


def gather(z: Tensor) -> Tensor:
    """The codes of all processes, in the order of their ranks; the gradient of every process comes back to its own."""
    return _Gather.apply(z) if size() > 1 else z


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        (z,) = inputs
        parts = [torch.empty_like(z) for _ in range(size())]
        dist.all_gather(parts, z.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        # Every process has the same distance and so the same gradient of all codes. Their sum is `size` times it, which
        # the mean over processes that follows takes back.
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(size())[rank()]


def mean(values: Tensor) -> Tensor:
    """The mean over processes."""
    if size() > 1:
        dist.all_reduce(values)
        values /= size()
    return values


def anywhere(flag: bool) -> bool:
    """Whether it is true in any process."""
    if size() == 1:
        return flag
    votes = torch.tensor(float(flag), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(votes)
    return votes.item() > 0
