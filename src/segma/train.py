"""The training loop: a generator that yields every step, so that logging, saving and stopping stay with the caller."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm

from segma import distributed
from segma.config import Config
from segma.cramer_wold import silverman
from segma.data.batches import interleaved, shuffled, stream
from segma.data.views import VIEWS, change
from segma.errors import InputError, RunFailed
from segma.model import Model
from segma.objective import Terms, consistency, cross_entropy, log_distance, reconstruction
from segma.state import State

NAMES = (*Terms._fields, "loss", "gradient")  # what Step.terms holds; gradient is its norm before clipping
CHECK_EVERY = 100  # steps on a GPU between two looks for NaN: each look waits for the GPU


class Step(NamedTuple):
    """One step done: its number from 1, the passes over the data so far, and the terms (still on the device)."""

    number: int
    epoch: float
    terms: Float[Tensor, " terms"]

    def values(self) -> dict[str, float]:
        return dict(zip(NAMES, self.terms.tolist(), strict=True))


def fit(state: State, x: Tensor, y: Tensor, config: Config) -> Iterator[Step]:
    """Train from `state` to the end of `config.epochs`; x are raw rows, y their labels or -1, on the model's device.

    Raises RunFailed, naming the term, when a step is NaN or infinite.
    """
    n, k = len(x), state.model.means.shape[0]
    u, m = rows_per_step(config, n)
    mine = my_rows(u, m)
    last = steps_in_all(config, n)
    gamma = config.gamma_scale * silverman((u + m if config.all_rows else u) / k)
    known = y.cpu().numpy()
    unlabelled = stream(shuffled(n), u, (config.seed, 1), start=state.step)
    labelled = stream(interleaved(known), m, (config.seed, 2), start=state.step)

    generator = torch.Generator(x.device)
    rows = torch.zeros(len(mine), dtype=torch.int64, device=x.device)
    terms_of = _Batch(state.model.train())
    terms_of = DistributedDataParallel(terms_of) if distributed.size() > 1 else terms_of

    def plain() -> Float[Tensor, " terms"]:
        part = u // distributed.size()
        terms = terms_of(state.model.prepare(x[rows]), y[rows[part:]], part, gamma, config, generator)
        return _update(state, Terms(*terms), config)

    step = _captured(plain, state, generator) if x.is_cuda and distributed.size() == 1 else plain
    pending: list[Step] = []
    while state.step < last:
        count = min(CHECK_EVERY if x.is_cuda else 1, last - state.step)
        chunk = np.stack([np.concatenate(pair)[mine] for pair in islice(zip(unlabelled, labelled, strict=True), count)])
        for numbers in torch.from_numpy(chunk).to(x.device):
            rows.copy_(numbers)
            # The step's number is all the state there is; processes draw different views.
            generator.manual_seed(config.seed * 2**32 + state.step * distributed.size() + distributed.rank())
            _set_rate(state.optimizer, rate(state.step, last, config))
            terms = step().clone()
            state.step += 1
            pending.append(Step(state.step, state.step * u / n, terms))
            if not x.is_cuda:
                _check(pending)
            yield pending[-1]
        _check(pending)
        pending.clear()


def rows_per_step(config: Config, n: int) -> tuple[int, int]:
    """Unlabelled and labelled rows in a step; data smaller than a batch keep the proportion."""
    shrink = min(1.0, n / config.unlabelled_rows)
    return round(config.unlabelled_rows * shrink), max(1, round(config.labelled_rows * shrink))


def my_rows(u: int, m: int) -> np.ndarray:
    """Which of a batch's u unlabelled and m labelled rows are this process's: an equal part of either."""
    parts, rank = distributed.size(), distributed.rank()
    if u % parts or m % parts:
        raise InputError(f"a batch of {u} + {m} rows for {parts} processes: both numbers must be multiples of {parts}")
    return np.concatenate([np.split(np.arange(u), parts)[rank], u + np.split(np.arange(m), parts)[rank]])


def steps_in_all(config: Config, n: int) -> int:
    return math.ceil(config.epochs * n / rows_per_step(config, n)[0])


def batch_terms(
    model: Model, x: Tensor, y: Tensor, u: int, gamma: float, config: Config, generator: torch.Generator
) -> Terms:
    """The terms of one batch: x has u rows that count as unlabelled, then those that y labels.

    With views, the labelled rows are learned from a weak and a strong one, and the strong ones of the unlabelled rows
    from what the model thinks of the plain ones. All go through the encoder as one batch.
    """
    target, plain = model.mixture, x if config.all_rows else x[:u]
    if config.views == "none":
        z = model.encode(x)
        z_labelled, agreement = z[u:], z.new_zeros(())
    else:
        weak, strong = VIEWS[config.views]
        views = [change(x[u:], weak, generator), change(x[u:], strong, generator), change(x[:u], strong, generator)]
        z = model.encode(torch.cat([plain, *views]))
        z_labelled, y = z[len(plain) : -u], torch.cat([y, y])
        agreement = consistency(z[:u], z[-u:], target, config.confidence)
    z = z[: len(plain)]
    return Terms(
        reconstruction(plain, model.decode(z)),
        log_distance(distributed.gather(z), target, gamma, config.phi),
        cross_entropy(z_labelled, y, target),
        agreement,
    )


class _Batch(nn.Module):
    """batch_terms as a module: what DistributedDataParallel can wrap."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Any) -> Terms:
        return batch_terms(self.model, *batch)


def rate(step: int, last: int, config: Config) -> float:
    """The learning rate of a step: a linear start, then constant or half a cosine down to 0."""
    warm = min(1.0, (step + 1) / (config.warmup + 1))
    decay = 0.5 * (1 + math.cos(math.pi * step / last)) if config.schedule == "cosine" else 1.0
    return config.learning_rate * warm * decay


def _set_rate(optimizer: torch.optim.Adam, value: float) -> None:
    group = optimizer.param_groups[0]
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(value)
    else:
        group["lr"] = value


def _update(state: State, terms: Terms, config: Config) -> Float[Tensor, " terms"]:
    """Backward, clip, Adam, averaged weights; returns what NAMES lists."""
    loss = terms.total(config.alpha, config.beta, config.kappa)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    trained = state.optimizer.param_groups[0]["params"]
    norm = get_total_norm([p.grad for p in trained if p.grad is not None])
    if config.clip_norm:
        clip_grads_with_norm_(trained, config.clip_norm, norm)
    if config.clip_value:
        clip_grad_value_(trained, config.clip_value)
    state.optimizer.step()
    if state.average:
        _average(state.average, state, config.average)
    return distributed.mean(torch.stack([*terms, loss, norm]).detach())


@torch.no_grad()
def _average(average: Model, state: State, decay: float) -> None:
    """average += (1 - decay) (weights - average), faster at first: over the first steps it is their plain mean."""
    steps = state.optimizer.state[state.optimizer.param_groups[0]["params"][0]]["step"]
    share = (1 / steps).clamp(min=1 - decay)
    for mean, value in zip(average.state_dict().values(), state.model.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(value, share.to(mean.dtype))
        else:
            mean.copy_(value)


def _captured(step: Callable[[], Tensor], state: State, generator: torch.Generator) -> Callable[[], Tensor]:
    """The step as one CUDA graph: launching its kernels one by one takes ten times as long as running them."""
    before = {name: value.clone() for name, value in state.tensors().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # warm-up, which trains: the state is put back below
            step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for name, value in state.tensors().items():
            value.copy_(before[name]) if name in before else value.zero_()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        terms = step()

    def replay() -> Tensor:
        graph.replay()
        return terms

    return replay


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
