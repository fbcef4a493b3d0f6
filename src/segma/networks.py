"""Encoders and decoders: a function per family, each returns the pair for one input shape and latent dimension.

Images go through as float (n, c, h, w), tables as (n, features). The decoder ends before its output function.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from segma.config import Config
from segma.errors import InputError

Layers = list[nn.Module]


def build(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """(encoder, decoder) of `config.network` for inputs of `shape`, Glorot-initialised (paper, sec. VI-A)."""
    if len(shape) == 1 and config.network != "mlp":
        raise InputError(f"network = {config.network!r} is for images; for a table allowed is mlp")
    encoder, decoder = NETWORKS[config.network](config, shape)
    generator = torch.Generator().manual_seed(config.seed)
    for layer in [*encoder.modules(), *decoder.modules()]:
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return encoder, decoder


def mlp(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """The paper's fully connected net; for MNIST 784-1024-1024-10-1024-1024-784 (sec. VI-A)."""
    widths = [math.prod(shape), *config.hidden, config.latent_dim]
    return nn.Sequential(nn.Flatten(), *_dense(widths)), nn.Sequential(*_dense(widths[::-1]), nn.Unflatten(1, shape))


def strided(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """The paper's convolutional net (appendix): 4x4 filters at stride 2, dense layers, and all of it mirrored."""
    return _convolutional(
        config,
        shape,
        down=lambda a, b: [nn.Conv2d(a, b, 4, stride=2, padding=1), nn.ReLU()],
        up=_double,
    )


def blocks(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """A deeper one with batch norm, not in the paper: two 3x3 convolutions per entry of `filters`, then mirrored."""
    return _convolutional(
        config,
        shape,
        down=lambda a, b: [
            *(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()),
            *(nn.Conv2d(b, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()),
        ],
        up=lambda b, a: [
            *(nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1, bias=False)),
            *(nn.BatchNorm2d(b), nn.ReLU()),
            nn.ConvTranspose2d(b, a, 4, stride=2, padding=1, bias=a == shape[0]),  # else a batch norm shifts it
        ],
    )


def residual(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """A deeper reader, not in the paper: each halving of `strided` with batch norm, and added to it what two 3x3
    convolutions make of it, `additions` times. The decoder is that of `strided`."""
    return _convolutional(config, shape, down=partial(_halve_and_add, config.additions), up=_double)


def deep(config: Config, shape: tuple[int, ...]) -> tuple[nn.Sequential, nn.Sequential]:
    """`residual` with a decoder as deep as its reader: before each doubling, added to it what two 3x3 convolutions make
    of it. A layer norm before the codes keeps what they are made of from growing with each addition."""
    return _convolutional(
        config,
        shape,
        down=partial(_halve_and_add, config.additions),
        flat=lambda n: [nn.LayerNorm(n)],
        up=lambda b, a: [
            Added(
                *(nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1, bias=False)),
                *(nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1, bias=False)),
            ),
            *(nn.BatchNorm2d(b), nn.ReLU()),
            nn.ConvTranspose2d(b, a, 4, stride=2, padding=1, bias=a == shape[0]),  # else a batch norm shifts it
        ],
    )


class Added(nn.Sequential):
    """Layers whose result is added to what they were given (a residual block)."""

    def forward(self, input: Tensor) -> Tensor:
        return input + super().forward(input)


NETWORKS = {"mlp": mlp, "strided": strided, "blocks": blocks, "residual": residual, "deep": deep}


def _dense(widths: list[int]) -> Layers:
    """Linear layers with ReLU between them, none at the end."""
    layers: Layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return layers[:-1]


def _halve_and_add(additions: int, a: int, b: int) -> Layers:
    layers: Layers = [nn.Conv2d(a, b, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    for _ in range(additions):
        layers += [
            Added(
                *(nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()),
                *(nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()),
            )
        ]
    return layers


def _double(b: int, a: int) -> Layers:
    return [nn.ReLU(), nn.ConvTranspose2d(b, a, 4, stride=2, padding=1)]


def _convolutional(
    config: Config,
    shape: tuple[int, ...],
    down: Callable[[int, int], Layers],
    up: Callable[[int, int], Layers],
    flat: Callable[[int], Layers] = lambda n: [],
) -> tuple[nn.Sequential, nn.Sequential]:
    """Halve the picture once per filter bank, flatten, dense layers to the code; the decoder is the mirror image.

    A side that cannot be halved that often is padded with zeros on the way in and cropped on the way out. `flat` are
    layers of the encoder for what was flattened.
    """
    c, h, w = shape
    channels, factor = [c, *config.filters], 2 ** len(config.filters)
    high, wide = math.ceil(h / factor), math.ceil(w / factor)
    bottom, right = high * factor - h, wide * factor - w
    core = (channels[-1], high, wide)
    widths = [math.prod(core), *config.hidden, config.latent_dim]
    descent: Layers = []
    ascent: Layers = []
    for a, b in pairwise(channels):
        descent += down(a, b)
        ascent = up(b, a) + ascent
    encoder = nn.Sequential(
        nn.ZeroPad2d((0, right, 0, bottom)), *descent, nn.Flatten(), *flat(widths[0]), *_dense(widths)
    )
    decoder = nn.Sequential(
        *_dense(widths[::-1]), nn.Unflatten(1, core), *ascent, nn.ZeroPad2d((0, -right, 0, -bottom))
    )
    return encoder, decoder
