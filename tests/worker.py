"""Run by torchrun from test_distributed.py: a few steps in float64, then the gradients and weights to a file."""

import dataclasses
import sys

from safetensors.torch import save_file

from segma import distributed, launch
from segma.data.arrays import Data
from segma.state import State
from segma.train import fit
from test_train import SMALL, toy

CONFIG = dataclasses.replace(SMALL, train_weights=True)

with distributed.group("cpu"):
    x, y, _ = toy()
    data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
    state = State.start(launch.new_model(data, CONFIG).double(), CONFIG)
    out = {}
    for step in fit(state, x, y, CONFIG):
        if step.number == 1:
            out |= {f"grad.{name}": p.grad.clone() for name, p in state.model.named_parameters() if p.requires_grad}
            out["terms"] = step.terms
        if step.number == 5:
            break
    out |= {name: value.clone() for name, value in state.model.state_dict().items()}
    if distributed.rank() == 0:
        save_file({name: value.contiguous() for name, value in out.items()}, sys.argv[1])
