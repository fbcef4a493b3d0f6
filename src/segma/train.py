"""The training loop: a generator that yields every step, so that logging, saving and stopping stay with the caller."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from segma import critic, distributed, fast, neighbours, rivals
from segma.baselines import AnyModel, Rows
from segma.config import Config
from segma.data.batches import interleaved, read_ahead, shuffled, stream
from segma.errors import InputError, RunFailed
from segma.model import Model
from segma.objective import Terms
from segma.state import State
from segma.step import (
    NAMES,
    Batch,
    Scales,
    batch_terms,
    encoder_inputs,
    labels_say,
    noise_seed,
    rate,
    rows_per_step,
    scales,
    steps_in_all,
    update,
)

T = TypeVar("T")
CHECK_EVERY = 100  # steps on a GPU between two looks for NaN: each look waits for the GPU


class Step(NamedTuple):
    """One step done: its number from 1, the passes over the data so far, and the terms (still on the device)."""

    number: int
    epoch: float
    terms: Float[Tensor, " names"]
    names: tuple[str, ...] = NAMES

    def values(self) -> dict[str, float]:
        return dict(zip(self.names, self.terms.tolist(), strict=True))


def fit(state: State, x: Tensor | np.ndarray, y: Tensor, config: Config) -> Iterator[Step]:
    """Train from `state` to the end of `config.epochs`; x are raw rows, y their labels or -1, on the model's device.

    Rows in an array instead of a tensor stay where they are, on disk perhaps: a thread reads ahead what a step needs.
    Raises RunFailed, naming the term, when a step is NaN or infinite.
    """
    n, device, model = len(x), y.device, state.model
    k = len(model.class_weights)
    u, m = rows_per_step(config, n)
    part, last = u // distributed.size(), steps_in_all(config, n)
    say, weights = next(model.parameters()).detach().new_zeros(()), scales(config, n, k)
    weights = weights._replace(say=say) if config.train_weights else weights
    y = y.clamp(max=k - 1)  # a single Gaussian, as CWAE has, is the class of all
    generator = torch.Generator(device)
    rows = torch.zeros(len(my_rows(u, m)), dtype=torch.int64, device=device)
    here = isinstance(x, Tensor)
    raw = x if here else torch.from_numpy(np.zeros((len(rows), *x.shape[1:]), x.dtype)).to(device)

    if config.neighbours and config.views != "none" and state.said is None:
        state.said = torch.full_like(y, -1)
    prepare = fast.compiler(last if device.type == "cuda" else 0)(_prepared)

    def batch() -> Batch:
        prepared = prepare(model, raw, rows if here else None)
        inputs = encoder_inputs(prepared[None], part, config, [generator])[0]
        draws = critic.draw(part, model.means, model.inner, generator) if config.critic else None
        return Batch(inputs, y[rows[part:]], draws, None if state.said is None else state.said[rows[:part]])

    model.train()
    names = NAMES
    if not isinstance(model, Model):
        if distributed.size() > 1:
            raise InputError(f"{config.model} trains in one process, not in {distributed.size()}")
        step, names = (
            rivals.stepper(state, model, lambda: _rows(batch(), u), config, generator, last),
            rivals.names(model),
        )
    elif distributed.size() > 1:
        step = _plain_step(state, batch, part, weights, config)
    elif device.type == "cuda":
        step = fast.capture(state, batch, part, weights, config, generator, last)
    else:
        step, _ = fast.fast_step(state, batch, part, weights, config)
    pending: list[Step] = []
    speed = math.nan
    for numbers, read in _feed(x, row_numbers(y.cpu().numpy(), config, state.step), device):
        if state.step == last:
            break
        rows.copy_(numbers)
        if read is not None:
            raw.copy_(read, non_blocking=True)
        # The step's number is all the state there is; processes draw different views.
        generator.manual_seed(noise_seed(config.seed, state.step * distributed.size() + distributed.rank()))
        if (now := rate(state.step, last, config)) != speed:
            speed = now
            _set_rate(state.optimizer, speed)
        if config.train_weights:
            say.fill_(labels_say(state.step, last))
        if state.said is not None and neighbours.due(state.step, last):
            state.said.copy_(neighbours.ask(model, x, y, config.neighbours))
        terms = step().clone()
        state.step += 1
        pending.append(done := Step(state.step, state.step * u / n, terms, names))
        if device.type == "cpu" or len(pending) == CHECK_EVERY or state.step == last:
            _check(pending)
            pending.clear()
        yield done


def _rows(batch: Batch, u: int) -> Rows:
    return Rows(batch.inputs[:u], batch.inputs[u:], batch.y)


def _prepared(model: AnyModel, raw: Tensor, rows: Tensor | None) -> Tensor:
    return model.prepare(raw if rows is None else raw[rows])


def row_numbers(y: np.ndarray, config: Config, start: int = 0) -> Iterator[np.ndarray]:
    """The rows of each step from number `start` on, those that count as unlabelled first; this process's part.

    Those of CHECK_EVERY steps at a time: one by one they would take longer than a fast step.
    """
    u, m = rows_per_step(config, len(y))
    unlabelled = stream(shuffled(len(y)), CHECK_EVERY * u, (config.seed, 1), start * u)
    labelled = stream(interleaved(y), CHECK_EVERY * m, (config.seed, 2), start * m)
    for a, b in zip(unlabelled, labelled, strict=True):
        yield np.concatenate([a.reshape(-1, u), b.reshape(-1, m)], axis=1)[:, my_rows(u, m)]


def my_rows(u: int, m: int) -> np.ndarray:
    """Which of a batch's u unlabelled and m labelled rows are this process's: an equal part of either."""
    parts, rank = distributed.size(), distributed.rank()
    if u % parts or m % parts:
        raise InputError(f"a batch of {u} + {m} rows for {parts} processes: both numbers must be multiples of {parts}")
    return np.concatenate([np.split(np.arange(u), parts)[rank], u + np.split(np.arange(m), parts)[rank]])


def _feed(
    x: Tensor | np.ndarray, numbers: Iterator[np.ndarray], device: torch.device
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Row numbers on the device, many steps' at a time; with the rows themselves where x is not there."""
    if isinstance(x, Tensor):
        many = (torch.from_numpy(block).to(device) for block in numbers)
        yield from ((some, None) for some in one_by_one(many))
        return
    for some, rows in read_ahead(x, chain.from_iterable(numbers)):
        yield (
            torch.from_numpy(some),
            torch.from_numpy(rows).pin_memory() if device.type == "cuda" else torch.from_numpy(rows),
        )


def one_by_one(blocks: Iterator[Iterable[T]]) -> Iterator[T]:
    """What is in endless blocks. Each is made before the last of the one before is used, so that a GPU, for which that
    last one is waited, has work meanwhile."""
    block = next(blocks)
    while True:
        *first, last = block
        yield from first
        block = next(blocks)
        yield last


def _plain_step(
    state: State, batch: Callable[[], Batch], u: int, weights: Scales, config: Config
) -> Callable[[], Float[Tensor, " names"]]:
    """The step of one process of several: DistributedDataParallel averages the gradients."""
    terms_of = DistributedDataParallel(BatchTerms(state.model))

    def step() -> Float[Tensor, " names"]:
        inputs, y, draws, said = batch()
        return update(state, Terms(*terms_of(inputs, y, u, weights, config, None, draws, said)), config)

    return step


class BatchTerms(nn.Module):
    """batch_terms as a module: what DistributedDataParallel can wrap."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Any) -> Terms:
        return batch_terms(self.model, *batch)


def _set_rate(optimizer: torch.optim.Adam, value: float) -> None:
    group = optimizer.param_groups[0]
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(value)
    else:
        group["lr"] = value


def _check(steps: list[Step]) -> None:
    """Stop at the first step that is not finite, naming the term it started with."""
    if not steps or bool(torch.isfinite(torch.stack([step.terms for step in steps])).all()):
        return
    for step in steps:
        for name, value in step.values().items():
            if not math.isfinite(value):
                raise RunFailed(
                    f"step {step.number}: the {name.replace('_', ' ')} is {value}, so training stopped; start again "
                    "with a smaller learning_rate or alpha, or with clip_norm=5",
                    resumable=False,
                )
