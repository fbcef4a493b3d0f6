"""One training step: what enters the networks, the terms of a batch, the update of the weights."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm

from segma import distributed
from segma.config import Config
from segma.cramer_wold import silverman
from segma.critic import Draws, codes_to_judge, opinions
from segma.data.views import NONE, VIEWS, View, change
from segma.model import Model, as_mixture, output
from segma.objective import Number, Terms, consistency, cross_entropy, log_distance, reconstruction
from segma.state import State

FOLLOW = 0.01  # of a step's shares in their running mean
SAY, HEARD = 0.5, 0.5  # the labels' shares count half in it at first, falling to nothing at half of the training
SPREAD = 0x9E3779B1  # 2^32 over the golden ratio: its multiples, taken modulo 2^32, lie far apart
NAMES = (*Terms._fields, "loss", "gradient")  # what a step reports; gradient is its norm before clipping


class Batch(NamedTuple):
    """What a step takes: `encoder_inputs`, the labels of its labelled rows, a critic's random numbers, if any, and what
    neighbours say of the unlabelled rows, -1 where they were not asked, if they are."""

    inputs: Float[Tensor, " inputs *shape"]
    y: Int[Tensor, " labelled"]
    draws: Draws | None = None
    said: Int[Tensor, " unlabelled"] | None = None


class Scales(NamedTuple):
    """The numbers of the objective; in a sweep, tensors with one entry per model."""

    gamma: Number
    alpha: Number
    beta: Number
    kappa: Number
    confidence: Number
    likeness: Number
    critic: Number
    say: Number = 0.0  # how much the labels' shares count in p_k that follow the codes: less from step to step

    @property
    def weights(self) -> tuple[Number, ...]:
        """What each of Terms counts."""
        return 1.0, self.alpha, self.beta, self.kappa, self.likeness, self.critic, 1.0


def scales(config: Config, n: int, k: int) -> Scales:
    u, m = rows_per_step(config, n)
    gamma = config.gamma_scale * silverman((u + m if config.all_rows else u) / k)
    weights = (config.alpha, config.beta, config.kappa, config.confidence, config.likeness, config.critic)
    return Scales(gamma, *weights)


def rows_per_step(config: Config, n: int) -> tuple[int, int]:
    """Unlabelled and labelled rows in a step; data smaller than a batch keep the proportion."""
    shrink = min(1.0, n / config.unlabelled_rows)
    return round(config.unlabelled_rows * shrink), max(1, round(config.labelled_rows * shrink))


def steps_in_all(config: Config, n: int) -> int:
    return math.ceil(config.epochs * n / rows_per_step(config, n)[0])


def rate(step: int, last: int, config: Config) -> float:
    """The learning rate of a step: a linear start, then what the schedule says."""
    warm, done = min(1.0, (step + 1) / (config.warmup + 1)), step / last
    decay = {
        "constant": 1.0,
        "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        "tail": 0.03 ** max(0.0, (done - 0.3) / 0.7),  # Triple-GAN's 0.995 an epoch from epoch 300 to 1,000
    }
    return config.learning_rate * warm * decay[config.schedule]


def noise_seed(seed: int, number: int) -> int:
    """Of the random numbers of a run's step: other seeds have others. 32 bits: a CPU's generator takes no more."""
    return (seed * SPREAD + number) % 2**32


def labels_say(step: int, last: int) -> float:
    """What the labels' shares have to say in a step, see `follow`."""
    return SAY * max(0.0, 1 - step / (HEARD * last))


def encoder_inputs(
    x: Float[Tensor, " models rows *shape"], u: int, config: Config, generators: Sequence[torch.Generator]
) -> Float[Tensor, " models inputs *shape"]:
    """Prepared batches, u rows that count as unlabelled and then the labelled, as they go through the encoder.

    With views that is: the plain rows, a weak and a strong view of the labelled, a strong view of the unlabelled. Each
    model draws its own.
    """
    if config.views == "none":
        return x
    weak, strong, plain = VIEWS[config.views]

    def view(rows: Tensor, kind: View) -> Tensor:
        return change(rows.flatten(0, 1), kind, *generators).unflatten(0, rows.shape[:2])

    rows = x if config.all_rows else x[:, :u]
    views = [view(x[:, u:], weak), view(x[:, u:], strong), view(x[:, :u], strong)]
    return torch.cat([rows if plain == NONE else view(rows, plain), *views], dim=1)


def batch_terms(
    model: Model,
    inputs: Float[Tensor, " inputs *shape"],
    y: Int[Tensor, " labelled"],
    u: int,
    scales: Scales,
    config: Config,
    parts: "Parts | None" = None,
    draws: Draws | None = None,
    said: Int[Tensor, " unlabelled"] | None = None,
) -> Terms:
    """The terms of one batch of `encoder_inputs`, whose labelled rows y labels; the rest as in Batch."""
    distance, labels, picture, aside = parts or Parts()
    z = model.encode(inputs)
    if config.train_weights:
        follow(model, z[:u].detach(), scales.say)
    n = u + len(y) if config.all_rows else u
    plain, x = (z, inputs) if n == len(z) else (z[:n], inputs[:n])
    with aside(plain):
        away = distance(plain, model.mixture_parts, scales, config)
    with aside(z, y):
        wrong, apart = labels(z, y, u, model.mixture_parts, scales, config, said)
    if draws is None:
        none = away.new_zeros(())
        return Terms(picture(x, model.decode_raw(plain), model.is_image), away, wrong, apart, none, none, none)
    own = config.likeness > 0
    raw = model.decode_raw(plain if own else torch.cat([plain, codes_to_judge(plain[:u], model.mixture, draws)]))
    judged = output(raw[:u] if own else raw[n:], True, x.dtype)
    return Terms(picture(x, raw[:n], True), away, wrong, apart, *opinions(model.criticise, x[:u], judged, draws, own))


@torch.no_grad()
def follow(model: Model, z: Float[Tensor, "n d"], say: Number) -> None:
    """p_k as the running mean of what all codes are taken for: then the distance asks none to change its class.

    Components count as equally likely there: with their own p_k a class that loses codes would lose ever more. At first
    the labels' shares have a say, too, until the classes have formed.
    """
    target = model.mixture
    likelihoods = target.log_joint(z) - target.weights.log()
    shares = distributed.mean(likelihoods.softmax(dim=1).mean(dim=0)).lerp(model.label_shares, say)
    model.log_weights.copy_(target.weights.lerp(shares, FOLLOW).log())


def distance_term(
    z: Float[Tensor, "n d"], mixture: tuple[Tensor, ...], scales: Scales, config: Config
) -> Float[Tensor, ""]:
    return log_distance(distributed.gather(z), as_mixture(*mixture), scales.gamma, config.phi)


def label_terms(
    z: Float[Tensor, "inputs d"],
    y: Int[Tensor, " labelled"],
    u: int,
    mixture: tuple[Tensor, ...],
    scales: Scales,
    config: Config,
    said: Int[Tensor, " unlabelled"] | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy and consistency.

    With views, the labelled rows are learned from both of theirs, and the unlabelled's strong ones from what neighbours
    say, or else from what the model thinks of the plain ones.
    """
    target = as_mixture(*mixture)
    if config.views == "none":
        return cross_entropy(z[u:], y, target), z.new_zeros(())
    n = u + len(y) if config.all_rows else u
    beliefs = target.posterior(z[:u].detach())
    if said is not None:
        certain = said[:, None] == torch.arange(target.k, device=said.device)
        beliefs = torch.where(said[:, None] < 0, beliefs, certain.to(beliefs))
    agreement = consistency(beliefs, z[-u:], target, scales.confidence)
    return cross_entropy(z[n:-u], torch.cat([y, y]), target), agreement


def picture_term(x: Float[Tensor, " n *shape"], raw: Float[Tensor, " n *shape"], is_image: bool) -> Float[Tensor, ""]:
    return reconstruction(x, output(raw, is_image, x.dtype))


class Parts(NamedTuple):
    """The parts of batch_terms that a GPU takes in other forms: compiled, and beside the rest."""

    distance: Callable[..., Tensor] = distance_term
    labels: Callable[..., tuple[Tensor, Tensor]] = label_terms
    picture: Callable[..., Tensor] = picture_term
    aside: Callable[..., AbstractContextManager] = lambda *read: nullcontext()


def update(state: State, terms: Terms, config: Config) -> Float[Tensor, " names"]:
    """Backward, clip, Adam, averaged weights; returns what NAMES lists."""
    loss = terms.total(config.alpha, config.beta, config.kappa, config.likeness, config.critic)
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
        steps = state.optimizer.state[trained[0]]["step"]
        blend(
            zip(state.average.state_dict().values(), state.model.state_dict().values(), strict=True),
            steps,
            config.average,
        )
    return distributed.mean(torch.stack([*terms, loss, norm]).detach())


@torch.no_grad()
def blend(pairs: Iterable[tuple[Tensor, Tensor]], steps: Tensor, decay: float) -> None:
    """mean += (1 - decay) (value - mean), faster at first: over the first steps it is their plain mean."""
    share = (1 / steps).clamp(min=1 - decay)
    for mean, value in pairs:
        if mean.is_floating_point():
            mean.lerp_(value, share.to(mean.dtype))
        else:
            mean.copy_(value)
