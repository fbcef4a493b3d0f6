"""The plain eager training step, as one writes it first: autograd through the dense kernel of all pairs, Adam, and
nothing captured, fused or kept in blocks. Model, terms and views are segma's; the distance and the loop are not."""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from segma import critic
from segma.config import Config
from segma.data.views import VIEWS, change
from segma.mixture import Mixture
from segma.model import Model
from segma.objective import Terms, consistency, cross_entropy, reconstruction


def kernel(a: Tensor, b: Tensor, v: float) -> Tensor:
    """(2 pi v)^(-1/2) phi_d(|a_i - b_j|^2 / 2v) for all pairs at once, phi in the paper's form."""
    sq = a.square().sum(dim=1, keepdim=True) + b.square().sum(dim=1) - 2 * a @ b.T
    return (1 + 2 / (v * (2 * a.shape[1] - 3)) * sq.clamp(min=0)).rsqrt() / math.sqrt(2 * math.pi * v)


def naive(z: Tensor, target: Mixture, gamma: float) -> Tensor:
    """d^2 of the codes and a mixture of unit variances, in float64: it is a small difference of larger terms."""
    z, means, weights = z.double(), target.means.double(), target.weights.double()
    own = weights @ kernel(means, means, 2 + 2 * gamma) @ weights
    across = kernel(z, means, 1 + 2 * gamma).mean(dim=0) @ weights
    return kernel(z, z, 2 * gamma).mean() + own - 2 * across


def sampled(z: Tensor, target: Mixture, gamma: float) -> Tensor:
    """The same from as many draws of the target as there are codes: an MMD with the same kernel, biased like d^2."""
    drawn = target.sample(len(z))
    within = kernel(z, z, 2 * gamma).mean() + kernel(drawn, drawn, 2 * gamma).mean()
    return within - 2 * kernel(z, drawn, 2 * gamma).mean()


def train(model: Model, batches: Iterable[tuple[Tensor, Tensor]], config: Config, gamma: float) -> Iterator[None]:
    """A step for each batch (x, y): x as the model sees it, y the labels of its last rows."""
    trained = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.Adam(trained, lr=config.learning_rate)
    generator = torch.Generator(model.means.device).manual_seed(0)
    for x, y in batches:
        adam.zero_grad()
        found = terms(model, x, y, config, gamma, generator)
        found.total(config.alpha, config.beta, config.kappa, config.likeness, config.critic).backward()
        if config.clip_norm:
            nn.utils.clip_grad_norm_(trained, config.clip_norm)
        if config.clip_value:
            nn.utils.clip_grad_value_(trained, config.clip_value)
        adam.step()
        yield


def terms(model: Model, x: Tensor, y: Tensor, config: Config, gamma: float, generator: torch.Generator) -> Terms:
    u, target = len(x) - len(y), model.mixture
    rows = x if config.all_rows else x[:u]
    views: list[Tensor] = []
    if config.views != "none":
        weak, strong, plain = VIEWS[config.views]
        rows = change(rows, plain, generator)
        views = [change(x[u:], weak, generator), change(x[u:], strong, generator), change(x[:u], strong, generator)]
    codes = model.encode(torch.cat([rows, *views]))
    z, rest = codes[: len(rows)], codes[len(rows) :]
    beliefs = target.posterior(z[:u].detach())
    drawn = model.decode(z)
    seen = z.new_zeros(3)
    if config.critic:
        draws, own = critic.draw(u, model.means, model.inner, generator), config.likeness > 0
        judged = drawn[:u] if own else model.decode(critic.codes_to_judge(z[:u], target, draws))
        seen = critic.opinions(model.criticise, rows[:u], judged, draws, own)
    return Terms(
        reconstruction(rows, drawn),
        naive(z, target, gamma).log().to(z.dtype),
        cross_entropy(rest[:-u], torch.cat([y, y]), target) if views else cross_entropy(z[u:], y, target),
        consistency(beliefs, rest[-u:], target, config.confidence) if views else z.new_zeros(()),
        *seen,
    )
