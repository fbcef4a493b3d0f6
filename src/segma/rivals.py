"""One training step of a rival: its turns one after another, on a GPU as a CUDA graph for each kind of step."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm

from segma import fast
from segma.baselines import Rival, Rows, TripleGAN
from segma.config import Config
from segma.state import State


def names(model: Rival) -> tuple[str, ...]:
    """What a step reports: 0 for a term of which this step has none."""
    return *model.TERMS, "loss", "gradient"


def stepper(
    state: State, model: Rival, rows: Callable[[], Rows], config: Config, generator: torch.Generator, last: int
) -> Callable[[], Float[Tensor, " names"]]:
    """The step as a function that returns what `names` lists; which turns it has depends on how far the state is."""
    kinds: dict[tuple[str, ...], Callable[[], Tensor]] = {}

    def of_kind(turns: tuple[str, ...]) -> Callable[[], Tensor]:
        one = partial(take, turns, state, model, rows, config, generator)
        if generator.device.type == "cpu":
            return one
        with fast.products(config):
            return fast.recorded(one, [state], None, [generator])

    def step() -> Tensor:
        turns = model.turns(state.step / last)
        if turns not in kinds:
            kinds[turns] = of_kind(turns)
        return kinds[turns]()

    if generator.device.type == "cuda":
        _fill_slots(state)
    return step


def _fill_slots(state: State) -> None:
    """Adam's numbers, which it would make at its first step: a graph must find them."""
    for group in state.optimizer.param_groups:
        for p in group["params"]:
            if not state.optimizer.state[p]:
                zero = torch.zeros((), device=p.device)
                state.optimizer.state[p] = {
                    "step": zero,
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }


def take(
    turns: tuple[str, ...],
    state: State,
    model: Rival,
    draw: Callable[[], Rows],
    config: Config,
    generator: torch.Generator,
) -> Float[Tensor, " names"]:
    """Each player in turn: its loss, the gradients of its own parameters, clipping, Adam."""
    players, rows = model.players(), draw()
    found = dict.fromkeys(names(model), rows.x.new_zeros(()))
    for turn in turns:
        trained = players[turn]
        terms = model.terms(turn, rows, generator)
        grads = torch.autograd.grad(terms["loss"], trained, allow_unused=True)
        for p, grad in zip(trained, grads, strict=True):
            p.grad = grad
        norm = get_total_norm([p.grad for p in trained if p.grad is not None])
        if config.clip_norm:
            clip_grads_with_norm_(trained, config.clip_norm, norm)
        if config.clip_value:
            clip_grad_value_(trained, config.clip_value)
        state.optimizer.step()  # leaves alone what has no gradient
        for p in trained:
            p.grad = None
        sums = {"loss": found["loss"] + terms["loss"], "gradient": found["gradient"] + norm}
        found |= terms | sums
    if isinstance(model, TripleGAN):
        model.after()
    return torch.stack([value.detach() for value in found.values()])
