"""SeGMA's model: encoder, decoder and the mixture that its codes are fitted to."""

import math
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from segma import clouds, critic, networks
from segma.config import Config
from segma.data.arrays import some_rows
from segma.errors import InputError
from segma.form import Form
from segma.mixture import Mixture


class Model(Form):
    """`shape` is that of one raw sample: (h, w, c) for images, (features,) for tables."""

    log_weights: Tensor
    label_shares: Tensor

    def __init__(self, config: Config, shape: tuple[int, ...], k: int) -> None:
        super().__init__(shape)
        self.lower = config.precision == "bfloat16"
        self.encoder, self.decoder = networks.build(config, self.inner)
        self.means = nn.Parameter(initial_means(k, config.latent_dim, config.mean_distance, config.seed))
        self.register_buffer("log_weights", torch.full((k,), -math.log(k)))
        self.register_buffer("label_shares", torch.full((k,), 1 / k), persistent=False)  # where training starts
        self.log_variances = nn.Parameter(torch.zeros(k), requires_grad=config.train_variances)
        if config.views not in ("none", "noise") and not self.is_image:
            raise InputError(f"views = {config.views!r} is for images; for a table allowed are none, noise")
        if config.critic and not self.is_image:
            raise InputError(f"critic = {config.critic} is for images; for a table allowed is 0")
        if config.critic and config.likeness and min(shape[:2]) <= critic.SMALLEST:
            raise InputError(
                f"likeness = {config.likeness} wants pictures of more than {critic.SMALLEST} pixels a side"
            )
        self.critic = critic.build(self.inner, config.seed) if config.critic else None
        self.clouds: clouds.Clouds | None = None  # that samples come from, once it is trained

    @property
    def mixture(self) -> Mixture:
        return as_mixture(*self.mixture_parts)

    @property
    def mixture_parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """What its numbers come from."""
        return self.means, self.log_weights, self.log_variances

    def set_weights(self, shares: np.ndarray) -> None:
        """p_k = the labelled shares (paper, sec. V)."""
        with torch.no_grad():
            self.label_shares.copy_(torch.as_tensor(shares))
            self.log_weights.copy_(torch.as_tensor(shares, dtype=torch.float64).log())

    def start_at_mean(self, x: np.ndarray) -> None:
        """Let the decoder begin with the mean colour of images x. One that begins with grey first learns to be darker
        (or brighter) everywhere, and may in doing so lose all that could tell pictures apart: it stays black."""
        some = x[some_rows(len(x), 10_000)]
        sums = [part.sum(dim=(0, 2, 3), dtype=torch.float64) for part in _prepared(self, some, 1000)]
        mean = torch.stack(sums).sum(dim=0) / (len(some) * math.prod(self.inner[1:]))
        last = [layer for layer in self.decoder.modules() if isinstance(layer, nn.Linear | nn.ConvTranspose2d)][-1]
        with torch.no_grad():
            assert last.bias is not None
            colours = last.bias.view(len(mean), -1)  # of a dense layer, one for each pixel
            colours.copy_(mean.clamp(0.01, 0.99).logit()[:, None].expand_as(colours))

    @property
    def class_weights(self) -> Float[Tensor, " k"]:
        return self.mixture.weights

    def classify(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n k"]:
        """The mixture's own posterior (paper, eq. postG)."""
        return self.mixture.posterior(self.encode(x))

    def generate(self, y: Int[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, " n *shape"]:
        """A draw from the component of each class, decoded."""
        return self.decode(self.draw(y, generator))

    def draw(self, y: Int[Tensor, " n"], generator: torch.Generator, spread: float = 1.0) -> Float[Tensor, "n d"]:
        """A code from the component or the clouds of each class; `spread` multiplies the distance from its mean."""
        target = self.mixture
        noise = torch.randn(len(y), target.d, generator=generator, device=generator.device).to(target.means)
        if self.clouds:
            noise = self.clouds.shaped(y, noise, generator)
        return target.place(y, spread * noise)

    def encode(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n d"]:
        with self._networks(x.device):
            return self.encoder(x).to(self.means.dtype)

    def look(self, x: Float[Tensor, " n *shape"]) -> tuple[Float[Tensor, "n size"], Float[Tensor, "n d"]]:
        """What the last layer of the encoder reads, and the codes that it makes of that."""
        with self._networks(x.device):
            seen = self.encoder[:-1](x)
            return seen, self.encoder[-1](seen).to(self.means.dtype)

    def decode(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n *shape"]:
        return output(self.decode_raw(z), self.is_image, self.means.dtype)

    def decode_raw(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n *shape"]:
        with self._networks(z.device):
            return self.decoder(z)

    def criticise(
        self, x: Float[Tensor, " n *shape"], fixed: bool = False
    ) -> tuple[list[Float[Tensor, "n c h w"]], Float[Tensor, " n"]]:
        """What the critic's layers see of pictures, and its scores; `fixed` for who learns from it, when it does not
        learn itself."""
        assert self.critic is not None
        seen = []
        with self._networks(x.device):
            for layer in self.critic.children():
                held = {name: p.detach() if fixed else p for name, p in layer.named_parameters()}
                x = functional_call(layer, held, (x,))
                if not isinstance(layer, nn.Conv2d):
                    seen.append(x)
        return seen, x.flatten().to(self.means.dtype)

    @property
    def precision(self) -> torch.dtype:
        """Of the networks' products: float32 also where bfloat16 is wanted of a device that could only imitate it."""
        return torch.bfloat16 if self.lower and has_bfloat16(self.device.type) else torch.float32

    def _networks(self, device: torch.device) -> torch.autocast:
        lower = self.precision is torch.bfloat16
        return torch.autocast(device.type, torch.bfloat16, lower, cache_enabled=False)


@cache
def has_bfloat16(device: str) -> bool:
    """Whether there are instructions for it."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def as_mixture(means: Tensor, log_weights: Tensor, log_variances: Tensor) -> Mixture:
    return Mixture(log_weights.softmax(dim=0), means, log_variances.exp())


def output(raw: Float[Tensor, " n *shape"], is_image: bool, dtype: torch.dtype) -> Float[Tensor, " n *shape"]:
    """What the decoder's last layer gives, as data: images end in a sigmoid (the authors' code), tables are linear."""
    return raw.to(dtype).sigmoid() if is_image else raw.to(dtype)


def initial_means(k: int, d: int, distance: float, seed: int = 0) -> Float[Tensor, "k d"]:
    """k means, any two at `distance`: unit vectors for k <= d, a regular simplex for k = d + 1.

    More do not fit in d dimensions; then the closest two are at `distance`, and a warning says so.
    """
    if k <= d:
        return torch.eye(k, d) * distance / math.sqrt(2)
    if k == d + 1:  # unit vectors of R^k lie in a hyperplane: give them coordinates there
        corners = torch.eye(k, dtype=torch.float64) - 1 / k
        axes = torch.linalg.svd(corners).Vh[:d]
        return (corners @ axes.T * distance / math.sqrt(2)).float()
    warnings.warn(
        f"{k} classes in latent_dim = {d}: equal distances need latent_dim >= {k - 1}; the closest means start "
        f"{distance} apart, others further",
        stacklevel=2,
    )
    points = torch.linspace(-1, 1, k, dtype=torch.float64)[:, None] if d == 1 else _spread(k, d, seed)
    return (points * distance / torch.pdist(points).min()).float()


def _spread(k: int, d: int, seed: int) -> Float[Tensor, "k d"]:
    """k points of the unit sphere that have pushed each other apart."""
    points = torch.randn(k, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for step in range(500):
        points = nn.functional.normalize(points)
        gap = points[:, None] - points
        force = (gap / (gap.square().sum(dim=2, keepdim=True) + 1e-9).pow(1.5)).sum(dim=1)
        points = points + 0.1 / (1 + step / 20) * nn.functional.normalize(force)
    return nn.functional.normalize(points)


@torch.no_grad()
def settle(model: Any, x: np.ndarray, most: int, rows: int = 50_000) -> None:
    """Let a trained model draw its samples where raw rows x have their codes; not a rival, and not if `most` is 0."""
    if most and isinstance(model, Model):
        model.clouds = clouds.fit(encode_rows(model, x[some_rows(len(x), rows)]), model.mixture, most)


@torch.no_grad()
def encode_rows(model: Any, x: np.ndarray, size: int = 1000) -> Float[Tensor, "n d"]:
    """The codes that a model, or a rival that encodes, gives raw rows; batch by batch."""
    return torch.cat([model.encode(part) for part in _prepared(model, x, size)])


@torch.no_grad()
def decode_rows(model: Any, z: Float[Tensor, "n d"], size: int = 1000) -> np.ndarray:
    """Codes decoded to the raw form: images (n, h, w, c) in 0..1, tables in the user's units."""
    return np.concatenate([model.restore(model.decode(part)).cpu().numpy() for part in z.split(size)])


@torch.no_grad()
def classify_rows(model: Any, x: np.ndarray, size: int = 1000) -> Float[Tensor, "n k"]:
    """The class probabilities that any model gives raw rows."""
    return torch.cat([model.classify(part) for part in _prepared(model, x, size)])


def _prepared(model: Any, x: np.ndarray, size: int) -> Iterator[Tensor]:
    return (model.prepare(torch.from_numpy(x[i : i + size]).to(model.device)) for i in range(0, len(x), size))
