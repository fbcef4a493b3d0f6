"""All trained weights of one or several models as one matrix, a row each: clipping and Adam become a few kernels."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from segma.config import Config
from segma.objective import Terms
from segma.state import State
from segma.step import Scales, blend

PIECE = 2**19  # numbers that a CPU updates at once
ALIGNED = 64  # numbers between the starts of two weights: matrix products are twice as fast at 16 bytes


class Vectors(NamedTuple):
    """Weights end to end, one row per model; gradients, Adam's moments and averaged weights in the same order."""

    weights: Float[Tensor, "models size"]
    gradients: Float[Tensor, "models size"]
    moment: Float[Tensor, "models size"]
    square: Float[Tensor, "models size"]
    steps: Float[Tensor, ""]
    average: Float[Tensor, "models size"] | None
    low: Tensor | None  # the weights in the networks' precision, where that is lower


def lay_out(states: Sequence[State], precision: torch.dtype = torch.float32) -> Vectors:
    """Move the numbers of states into a matrix; models and optimisers keep views, so whoever reads them sees no change.

    The states are of one shape and equally far.
    """
    first = _trained(states[0])
    size = sum(map(_room, first))
    weights, gradients, moment, square = (first[0].new_zeros(len(states), size).detach() for _ in range(4))
    slots = states[0].optimizer.state
    steps = slots[first[0]]["step"].clone() if slots else weights.new_zeros((), dtype=torch.float32)
    average = torch.zeros_like(weights) if states[0].average else None
    for row, state in enumerate(states):
        trained, slots = _trained(state), state.optimizer.state
        rows = (views(matrix[row], trained) for matrix in (weights, gradients, moment, square))
        for p, weight, gradient, m, s in zip(trained, *rows, strict=True):
            weight.copy_(p.detach())
            if slots[p]:
                m.copy_(slots[p]["exp_avg"])
                s.copy_(slots[p]["exp_avg_sq"])
            p.data, p.grad = weight, gradient
            slots[p] = {"step": steps, "exp_avg": m, "exp_avg_sq": s}
        if state.average and average is not None:
            means = dict(state.average.named_parameters())
            names = [name for name, p in state.model.named_parameters() if p.requires_grad]
            for name, view in zip(names, views(average[row], trained), strict=True):
                means[name].data = view.copy_(means[name].detach())
    low = weights.to(precision) if precision.itemsize < 4 else None
    return Vectors(weights, gradients, moment, square, steps, average, low)


def views(row: Float[Tensor, " size"], parameters: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parts of a row that stand for each parameter, in its shape."""
    start = row.storage_offset()
    for p in parameters:
        yield row.as_strided(p.shape, p.stride(), start)
        start += _room(p)


def stacked(matrix: Float[Tensor, "models size"], parameters: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parts of a matrix that stand for each parameter of all models, (models, *shape)."""
    for view in views(matrix[0], parameters):
        yield matrix.as_strided((len(matrix), *view.shape), (matrix.stride(0), *view.stride()), view.storage_offset())


def _trained(state: State) -> list[nn.Parameter]:
    return state.optimizer.param_groups[0]["params"]


def _room(p: Tensor) -> int:
    return -(-p.numel() // ALIGNED) * ALIGNED


@torch.no_grad()
def adam(
    vectors: Vectors,
    terms: Terms,
    scales: Scales,
    rate: float | Float[Tensor, ""] | Float[Tensor, "models 1"],
    beta1: float,
    beta2: float,
    eps: float,
    config: Config,
) -> Float[Tensor, "*models names"]:
    """Clip by norm, then by value; Adam; averaged weights. Returns what step.NAMES lists, for each model."""
    weights, gradient, moment, square, steps, average, low = vectors
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    steps += 1
    if not weights.is_cuda:
        _rows_at_once(vectors, norm, rate, beta1, beta2, eps, config)
    else:
        if config.clip_norm:
            gradient = gradient * (config.clip_norm / (norm + 1e-6)).clamp(max=1)
        if config.clip_value:
            gradient = gradient.clamp(-config.clip_value, config.clip_value)
        moment.lerp_(gradient, 1 - beta1)
        square.lerp_(gradient * gradient, 1 - beta2)
        grown = [-(steps * math.log(beta)).expm1() for beta in (beta1, beta2)]  # 1 - beta^steps, with all its digits
        weights -= rate / grown[0] * moment / ((square / grown[1]).sqrt() + eps)
    if average is not None:
        blend([(average, weights)], steps, config.average)
    if low is not None:
        low.copy_(weights)
    loss = terms.total(*scales.weights[1:-1])
    return torch.stack([*terms, loss, norm.reshape(loss.shape)], dim=-1)


def _rows_at_once(
    vectors: Vectors,
    norm: Float[Tensor, "models 1"],
    rate: float | Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    config: Config,
) -> None:
    """The same on a CPU, model by model, a piece at a time: what was clipped is still in the cache when PyTorch's own
    Adam, which passes over the memory once, reads it."""
    rates = rate.flatten().tolist() if isinstance(rate, Tensor) else [rate]
    for row, (speed, size) in enumerate(zip(rates, norm.flatten().tolist(), strict=True)):
        shrink = config.clip_norm / (size + 1e-6) if config.clip_norm and size > config.clip_norm else None
        pieces = (matrix[row].split(PIECE) for matrix in vectors[:4])
        for weights, gradient, moment, square in zip(*pieces, strict=True):
            if shrink is not None:
                gradient *= shrink
            if config.clip_value:
                gradient.clamp_(-config.clip_value, config.clip_value)
            torch._fused_adam_(
                *([weights], [gradient], [moment], [square], [], [vectors.steps]),
                lr=speed,
                beta1=beta1,
                beta2=beta2,
                eps=eps,
                weight_decay=0,
                amsgrad=False,
                maximize=False,
            )
