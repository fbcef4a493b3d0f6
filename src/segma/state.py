"""All that a resume needs of a training: weights, averaged weights, optimiser, and the number of steps done."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from segma.baselines import AnyModel
from segma.config import Config


def channels_last(model: AnyModel) -> None:
    """Lay the filters out so, also those of a single channel: PyTorch sees no difference there, but goes by it."""
    for p in model.parameters():
        if p.ndim == 4:
            _, c, h, w = p.shape
            p.data = p.data.contiguous(memory_format=torch.channels_last).as_strided(p.shape, (c * h * w, 1, c * w, c))


@dataclass
class State:
    model: Any  # what baselines.build gives
    average: Any  # the same, or None
    optimizer: torch.optim.Adam
    step: int = 0
    said: Tensor | None = None  # what neighbours said of each training row, once they are asked (neighbours.py)

    @classmethod
    def start(cls, model: AnyModel, config: Config) -> "State":
        cuda = next(model.parameters()).is_cuda  # a captured step reads the rate from the GPU
        if cuda:
            channels_last(model)  # twice as fast there
        rate = torch.tensor(config.learning_rate, device="cuda") if cuda else config.learning_rate
        trained = [p for p in model.parameters() if p.requires_grad]
        betas = getattr(model, "BETAS", (0.9, 0.999))
        optimizer = torch.optim.Adam(
            trained, lr=rate, betas=betas, weight_decay=config.weight_decay, fused=True, capturable=cuda
        )
        average = copy.deepcopy(model).requires_grad_(False).eval() if config.average else None
        return cls(model, average, optimizer)

    @property
    def result(self) -> Any:
        """The model to use: the averaged weights where there are any."""
        return self.average or self.model

    def tensors(self) -> dict[str, Tensor]:
        out = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.average:
            out |= {f"average.{name}": value for name, value in self.average.state_dict().items()}
        for i, slots in self.optimizer.state_dict()["state"].items():
            out |= {f"adam.{i}.{name}": value for name, value in slots.items()}
        if self.said is not None:
            out["said.classes"] = self.said
        return out

    def load(self, tensors: dict[str, Tensor], step: int) -> None:
        parts: dict[str, dict] = {"model": {}, "average": {}, "adam": {}, "said": {}}
        for name, value in tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = value
        self.model.load_state_dict(parts["model"])
        if self.average:
            self.average.load_state_dict(parts["average"])
        slots: dict[int, dict] = {}
        for name, value in parts["adam"].items():
            i, slot = name.split(".")
            slots.setdefault(int(i), {})[slot] = value
        for i, p in enumerate(self.optimizer.param_groups[0]["params"]):
            for name in slots.get(i, {}).keys() - {"step"}:  # a fused step wants them laid out as the weights are
                slots[i][name] = torch.empty_like(p, requires_grad=False).copy_(slots[i][name])
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
        self.said = parts["said"].get("classes")
        self.step = step
