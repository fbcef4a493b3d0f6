"""What the variational rivals share: Gaussian densities and draws, likelihoods, bounds over classes, networks."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from segma.config import Config
from segma.errors import InputError
from segma.form import Form
from segma.model import output


class Rows(NamedTuple):
    """The prepared rows of a step."""

    x: Float[Tensor, " u *shape"]  # whose labels are not used
    labelled: Float[Tensor, " m *shape"]
    y: Int[Tensor, " m"]


class Normal(NamedTuple):
    """N(mean, diag(exp(log_variance))), one for each row. The logarithm takes any value: no bound on the variance."""

    mean: Float[Tensor, "*rows d"]
    log_variance: Float[Tensor, "*rows d"]


def draw(q: Normal, generator: torch.Generator, *times: int) -> Float[Tensor, "*all d"]:
    """mean + deviation * noise, so that gradients reach both (Kingma & Welling, 2014, sec. 2.4); `times` come first."""
    shape = (*times, *q.mean.shape)
    noise = torch.randn(shape, generator=generator, device=q.mean.device, dtype=q.mean.dtype)
    return q.mean + (q.log_variance / 2).exp() * noise


def log_density(z: Float[Tensor, "*rows d"], q: Normal) -> Float[Tensor, "*all"]:
    """log N(z; m, v) = -1/2 sum_i (log 2 pi + log v_i + (z_i - m_i)^2 / v_i); z and q broadcast."""
    squares = (z - q.mean).square() * (-q.log_variance).exp()
    return -0.5 * (math.log(2 * math.pi) + q.log_variance + squares).sum(dim=-1)


def log_standard(z: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows"]:
    """log N(z; 0, I)."""
    return -0.5 * (math.log(2 * math.pi) + z.square()).sum(dim=-1)


def divergence(q: Normal) -> Float[Tensor, "*rows"]:
    """KL(q || N(0, I)) = 1/2 sum_i (m_i^2 + v_i - log v_i - 1) (Kingma & Welling, 2014, appendix B)."""
    return 0.5 * (q.mean.square() + q.log_variance.exp() - q.log_variance - 1).sum(dim=-1)


def bernoulli(x: Float[Tensor, "*#rows d"], logits: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows"]:
    """sum_i x_i log p_i + (1 - x_i) log(1 - p_i) with p = sigmoid(logits); x may lie anywhere in 0..1."""
    return (x * logits - F.softplus(logits)).sum(dim=-1)


def squared(x: Float[Tensor, "*#rows d"], mean: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows"]:
    """-|x - mean|^2, which is log N(x; mean, I / 2) + d/2 log pi."""
    return -(x - mean).square().sum(dim=-1)


def likelihood(
    x: Float[Tensor, "*#rows d"], raw: Float[Tensor, "*rows d"], kind: str, is_image: bool
) -> Float[Tensor, "*rows"]:
    """log p(x | raw), raw being what a decoder's last layer gives; a table is Gaussian around it whatever `kind`."""
    if kind == "bernoulli" and is_image:
        return bernoulli(x, raw)
    return squared(x, output(raw, is_image, x.dtype))


def over_classes(bounds: Float[Tensor, "*rows k n"], log_q: Float[Tensor, "*rows n k"]) -> Float[Tensor, "*rows n"]:
    """U(x) = sum_y q(y|x) L(x, y) - H(q(y|x)), with L and U minus the bounds (Kingma et al., 2014, eq. 7)."""
    return (log_q.exp() * (bounds.mT + log_q)).sum(dim=-1)


def objective(labelled: Tensor, unlabelled: Tensor, cross_entropy: Tensor, beta: float) -> dict[str, Tensor]:
    """J = L + U + beta CE (Kingma et al., 2014, eq. 9), of what each row and draw has; both kinds of rows weigh the
    same, however many they are."""
    parts = {"bound_labelled": labelled, "bound_unlabelled": unlabelled, "cross_entropy": cross_entropy}
    means = {name: part.mean() for name, part in parts.items()}
    loss = means["bound_labelled"] + means["bound_unlabelled"] + beta * means["cross_entropy"]
    return {"loss": loss, **means}


class Variational(Form):
    """What M1+M2 and ADGM share: their settings, p(y), and a one-hot row for each class."""

    class_weights: Tensor
    one_hot: Tensor

    def __init__(self, config: Config, shape: tuple[int, ...], k: int) -> None:
        super().__init__(shape)
        self.k, self.config, self.latent_dim = k, config, config.latent_dim
        self.register_buffer("class_weights", torch.full((k,), 1 / k))
        self.register_buffer("one_hot", torch.eye(k), persistent=False)


class Gaussian(nn.Module):
    """The last layer of a network that gives a Normal: mean and log-variance are both linear."""

    def __init__(self, width: int, d: int) -> None:
        super().__init__()
        self.mean, self.log_variance = nn.Linear(width, d), nn.Linear(width, d)

    def forward(self, h: Float[Tensor, "*rows width"]) -> Normal:
        return Normal(self.mean(h), self.log_variance(h))


class Network(nn.Module):
    """An MLP of one or more inputs: each has its own first linear layer, and the sum of these goes on.

    The sum broadcasts, so that what is the same for all classes or draws is computed once. `last` is nn.Linear or
    Gaussian.
    """

    def __init__(
        self,
        inputs: Sequence[int],
        hidden: Sequence[int],
        d: int,
        last: type[nn.Linear] | type[Gaussian],
        activation: type[nn.Module],
    ) -> None:
        super().__init__()
        if not hidden:
            raise InputError("hidden and inner_hidden = (): this model's networks need one width or more")
        self.first = nn.ModuleList(nn.Linear(size, hidden[0]) for size in inputs)
        layers: list[nn.Module] = [activation()]
        for a, b in pairwise(hidden):
            layers += [nn.Linear(a, b), activation()]
        self.rest = nn.Sequential(*layers, last(hidden[-1], d))

    def forward(self, *inputs: Tensor):
        total, *others = (layer(part) for layer, part in zip(self.first, inputs, strict=True))
        for other in others:
            total = total + other
        return self.rest(total)


def initialise(model: nn.Module, seed: int) -> None:
    """Xavier-normal weights, biases 0, in every layer the model has by now."""
    generator = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_normal_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
