"""A stack of models trained as one: batched matrix products, one step for all, each as if it were alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.func import functional_call

from segma import critic, fast, layers, neighbours
from segma.config import Config
from segma.data.arrays import Data
from segma.model import Model
from segma.objective import Terms
from segma.record import Job
from segma.state import State
from segma.step import (
    Batch,
    Parts,
    Scales,
    blend,
    encoder_inputs,
    labels_say,
    noise_seed,
    rate,
    rows_per_step,
    scales,
    steps_in_all,
)
from segma.train import CHECK_EVERY, BatchTerms, Step, one_by_one, row_numbers
from segma.vectors import adam, lay_out, stacked


def fit_together(group: Sequence[Job]) -> Iterator[tuple[int, Callable[[], list[Step | None]]]]:
    """train.fit for a stack: after every step its number, and a function that gives the step of each model, or None
    from where it has failed. Ends early where all have."""
    configs, states, few = [job.run.config for job in group], [job.state for job in group], [job.data for job in group]
    first, n, device = configs[0], len(few[0].x_train), torch.device(group[0].device)
    for state in states:  # on a CPU autocast does not reach the convolutions of a stack
        state.model.lower &= device.type == "cuda"
    u, m = rows_per_step(first, n)
    last = steps_in_all(first, n)
    x, held_out = _shared_rows(few, group[0].device)
    k = len(states[0].model.class_weights)
    y = torch.from_numpy(np.stack([part.y_train for part in few])).to(device).clamp(max=k - 1)
    rows = torch.zeros(len(group), u + m, dtype=torch.int64, device=device)
    speeds = states[0].model.means.new_zeros(len(group), 1).detach()
    generators = [torch.Generator(device) for _ in group]
    said = _stack_said(states, y) if first.neighbours and first.views != "none" else None

    def batch() -> Batch:
        labels = y.gather(1, rows[:, u:])
        raw = x[(held_out.gather(1, rows) if held_out is not None else rows).flatten()]
        if states[0].model.is_image:  # prepared alike in all
            prepared = states[0].model.prepare(raw).unflatten(0, (len(group), -1))
        else:
            parts = raw.unflatten(0, (len(group), -1))
            prepared = torch.stack([state.model.prepare(part) for state, part in zip(states, parts, strict=True)])
        inputs, like = encoder_inputs(prepared, u, first, generators), states[0].model
        draws = [critic.draw(u, like.means, like.inner, each) for each in generators if first.critic]
        together = critic.Draws(*map(torch.stack, zip(*draws, strict=True))) if draws else None
        return Batch(inputs, labels, together, said.gather(1, rows[:, :u]) if said is not None else None)

    say = speeds.new_zeros(len(group))
    weights = _columns([scales(config, n, k) for config in configs], speeds)._replace(say=say)
    step = _together(states, batch, u, weights, first, speeds, last, generators)
    numbers = [row_numbers(own, c, states[0].step) for own, c in zip(y.cpu().numpy(), configs, strict=True)]
    pending: list[Tensor] = []
    failed: set[int] = set()
    for now, speed in _schedule(numbers, configs, states[0].step, last, speeds):
        if (number := states[0].step) == last:
            break
        rows.copy_(now)
        speeds.copy_(speed)
        if first.train_weights:
            say.fill_(labels_say(number, last))
        for generator, config in zip(generators, configs, strict=True) if first.draws_each_step else ():
            generator.manual_seed(noise_seed(config.seed, number))
        if said is not None and neighbours.due(number, last):
            for i, state in enumerate(states):
                mine = x if held_out is None else x[held_out[i]]
                said[i] = neighbours.ask(state.model, mine, y[i], first.neighbours)
        terms = step().clone()
        for state in states:
            state.step = number + 1
        pending.append(terms)
        if device.type == "cpu" or len(pending) == CHECK_EVERY or number + 1 == last:
            bad = ~torch.stack(pending).isfinite().all(dim=2).all(dim=0)
            failed.update(bad.nonzero().flatten().tolist())
            pending.clear()
        if len(failed) == len(group):
            return
        epoch = (number + 1) * u / n
        yield number + 1, partial(_steps, number + 1, epoch, terms, failed)


def _steps(number: int, epoch: float, terms: Tensor, failed: set[int]) -> list[Step | None]:
    return [None if i in failed else Step(number, epoch, row) for i, row in enumerate(terms)]


def _schedule(
    numbers: Sequence[Iterator[np.ndarray]], configs: Sequence[Config], start: int, last: int, like: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers and rates of each step and model, on the device; those of many steps go there at once."""

    kinds = {(c.learning_rate, c.schedule, c.warmup): c for c in configs}
    which = [list(kinds).index((c.learning_rate, c.schedule, c.warmup)) for c in configs]

    def block(start: int) -> Iterable[tuple[Tensor, Tensor]]:
        rows = np.stack([next(each) for each in numbers], axis=1)
        steps = range(start, start + CHECK_EVERY)
        rates = np.array([[rate(step, last, config) for config in kinds.values()] for step in steps])
        speeds = torch.from_numpy(rates)[:, which, None].to(like)
        return zip(torch.from_numpy(rows).to(like.device), speeds, strict=True)

    return one_by_one(map(block, count(start, CHECK_EVERY)))


def _shared_rows(few: Sequence[Data], device: str) -> tuple[Tensor, Tensor | None]:
    """The training rows of all, once; where rows are held out, and so differ, those of each with their places."""
    if all(part.x_train is few[0].x_train for part in few):
        return torch.from_numpy(few[0].x_train).to(device), None
    whole = torch.from_numpy(np.concatenate([part.x_train for part in few])).to(device)
    return whole, torch.arange(len(whole), device=device).view(len(few), -1)


def _stack_said(states: Sequence[State], y: Int[Tensor, "models n"]) -> Int[Tensor, "models n"]:
    """What neighbours said in all models, stacked; each state keeps its row as its own."""
    said = torch.stack(
        [torch.full_like(own, -1) if state.said is None else state.said for state, own in zip(states, y, strict=True)]
    )
    for state, own in zip(states, said, strict=True):
        state.said = own
    return said


def _columns(each: Sequence[Scales], like: Tensor) -> Scales:
    """The numbers of all models as tensors; gamma enters the distance, which is in float64."""
    gamma, *rest = (torch.tensor(column, device=like.device, dtype=torch.float64) for column in zip(*each, strict=True))
    return Scales(gamma, *(column.to(like.dtype) for column in rest))


def _together(
    states: Sequence[State],
    batch: Callable[[], Batch],
    u: int,
    weights: Scales,
    config: Config,
    speeds: Tensor,
    last: int,
    generators: list[torch.Generator],
) -> Callable[[], Tensor]:
    """One step of all models, as fast.fast_step is of one; returns what step.NAMES lists, a row per model."""
    model, group = states[0].model.train(), states[0].optimizer.param_groups[0]
    vectors, trained = lay_out(states, model.precision), group["params"]
    compiled, beside = fast.compiler(last if speeds.is_cuda else 0), layers.Beside(speeds.is_cuda)
    update, terms_of = compiled(adam), BatchTerms(model)
    parts = Parts(*(_of_all(part, compiled) for part in Parts()[:3]), beside)
    weight = dict(zip(trained, stacked(vectors.weights, trained), strict=True))
    place = dict(zip(trained, stacked(vectors.gradients, trained), strict=True))
    low = weight if vectors.low is None else dict(zip(trained, stacked(vectors.low, trained), strict=True))
    low = low | {p: weight[p] for p in layers.codes_bias(model)}
    others = [p for p in trained if p not in layers.dense_parameters(model)]
    forwards = layers.dense_aside(model, low, place, beside, compiled)
    leaves, places = [weight[p].requires_grad_() for p in others], [place[p] for p in others]
    names = {p: f"model.{name}" for name, p in model.named_parameters()}
    fixed = {
        f"model.{name}": torch.stack([dict(state.model.named_parameters())[name].detach() for state in states])
        for name, p in model.named_parameters()
        if not p.requires_grad
    }
    buffers = {f"model.{name}": value for name, value in _stack_buffers([state.model for state in states]).items()}
    seeds = [torch.as_tensor(scale).to(speeds).expand(len(states)) for scale in weights.weights]

    def one(own: list[Tensor], shared: dict, inputs: Tensor, y: Tensor, scale: Scales, *more: Any) -> tuple:
        tensors = {names[p]: value for p, value in zip(others, own, strict=True)} | shared
        return tuple(functional_call(terms_of, tensors, (inputs, y, u, scale, config, parts, *more)))

    def step() -> Tensor:
        inputs, y, *more = batch()
        with layers.replaced(forwards):
            ways = (0, 0, 0, 0, 0, *(None if part is None else 0 for part in more))
            terms = Terms(*torch.vmap(one, ways)(leaves, fixed | buffers, inputs, y, weights, *more))
        felt = [(term, seed) for term, seed in zip(terms, seeds, strict=True) if term.requires_grad]
        found = torch.autograd.grad(
            [term for term, _ in felt], [beside.anchor, *leaves], [seed for _, seed in felt], allow_unused=True
        )
        torch._foreach_copy_(places, list(found[1:]))
        beside.join()
        out = update(vectors, terms, weights, speeds, *group["betas"], group["eps"], config)
        for state in states:
            if state.average:
                blend(zip(state.average.buffers(), state.model.buffers(), strict=True), vectors.steps, config.average)
        return out

    if not speeds.is_cuda:
        return step
    with fast.products(config):
        return fast.recorded(step, list(states), vectors, generators if config.draws_each_step else [])


def _of_all(part: Callable, compiled: Callable) -> Callable:
    """A part of batch_terms, called under vmap, that leaves it: compiled for the tensors of all models at once."""
    ways: dict[str, Callable] = {}

    class Together(torch.autograd.Function):
        @staticmethod
        def forward(*inputs: Any) -> Any:
            return part(*inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Any, Any]:
            way = ways.setdefault(str(in_dims), compiled(torch.vmap(part, in_dims)))
            out = way(*inputs)
            return out, (0,) * len(out) if isinstance(out, tuple) else 0

    return Together.apply


def _stack_buffers(models: Sequence[Model]) -> dict[str, Tensor]:
    """The buffers of all models, stacked; each model keeps its row as its own, so that running statistics reach it."""
    out = {
        name: torch.stack([dict(model.named_buffers())[name] for model in models])
        for name, _ in models[0].named_buffers()
    }
    for row, model in enumerate(models):
        for name, value in out.items():
            module, _, key = name.rpartition(".")
            model.get_submodule(module)._buffers[key] = value[row]
    return out
