"""Triple-GAN's three networks: its MNIST nets for grey images of up to 32 pixels a side, its SVHN nets for all others.

Images are (n, c, h, w) in 0..1 on the outside; the second kind brings them to -1..1 inside. y goes, one-hot, into every
layer of generator and discriminator. With a random generator `rng` a network is training: dropout and noise are drawn
from it, batch norm takes the batch's own statistics, and remembers them where `track`. Without, it takes those.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

Rng = torch.Generator | None
Shape = tuple[int, ...]  # (c, h, w)


class Conv(NamedTuple):
    """A convolution, and what follows it."""

    width: int
    kernel: int = 3
    valid: bool = False  # or padded, so that the side stays
    stride: int = 1
    pool: bool = False  # of 2x2, the largest
    drop: float = 0.0


GREY_CLASSIFIER = [Conv(32, 5, valid=True, pool=True, drop=0.5), Conv(64), Conv(64, valid=True, pool=True, drop=0.5)]
GREY_CLASSIFIER += [Conv(128), Conv(128)]
COLOUR_CLASSIFIER = [Conv(128), Conv(128), Conv(128, pool=True, drop=0.5)]
COLOUR_CLASSIFIER += [Conv(256), Conv(256), Conv(256, pool=True, drop=0.5)]
COLOUR_CLASSIFIER += [Conv(512, valid=True), Conv(256, 1), Conv(128, 1)]
COLOUR_DISCRIMINATOR = [Conv(32), Conv(32, stride=2, drop=0.2), Conv(64), Conv(64, stride=2, drop=0.2)]
COLOUR_DISCRIMINATOR += [Conv(128, valid=True), Conv(128, valid=True)]
GREY_DISCRIMINATOR = 1000, 500, 250, 250, 250
GREY_GENERATOR = 500, 500
COLOUR_GENERATOR = 512  # channels of its start; every deconvolution halves them
START = 4  # its pixels a side
SMALLEST = 2  # pixels a side that every convolution and pool must leave
FULL_WIDTH = 16  # pixels a side from which on dense layers are as wide as in the original; below, in proportion


def is_grey(inner: Shape) -> bool:
    return inner[0] == 1 and max(inner) <= 32


def narrowed(width: int, inner: Shape) -> int:
    return math.ceil(width * min(1.0, max(inner[1:]) / FULL_WIDTH))


def fitted(plan: list[Conv], inner: Shape) -> list[Conv]:
    """The plan for images of this shape: what would leave fewer than SMALLEST pixels a side does not shrink them."""
    side, found = min(inner[1:]), []
    for conv in plan:
        valid = conv.valid and side - conv.kernel + 1 >= SMALLEST
        side -= (conv.kernel - 1) * valid
        stride = conv.stride if math.ceil(side / conv.stride) >= SMALLEST else 1
        side = math.ceil(side / stride)
        pool = conv.pool and side // 2 >= SMALLEST
        side //= 1 + pool
        found.append(conv._replace(valid=valid, stride=stride, pool=pool))
    return found


def convolutions(plan: list[Conv], c: int, extra: int = 0) -> list[nn.Conv2d]:
    """The plan's layers for pictures of c channels, each with `extra` channels more at its input."""
    return [
        nn.Conv2d(a + extra, conv.width, conv.kernel, conv.stride, 0 if conv.valid else conv.kernel // 2, bias=False)
        for a, conv in zip([c, *(conv.width for conv in plan[:-1])], plan, strict=True)
    ]


def initialise(net: nn.Module, deviation: float | None, rng: torch.Generator) -> None:
    """Weights from N(0, deviation^2), or Glorot's."""
    for layer in net.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            if deviation is None:
                nn.init.xavier_uniform_(layer.weight, generator=rng)
            else:
                nn.init.normal_(layer.weight, std=deviation, generator=rng)


def dropout(x: Tensor, p: float, rng: Rng) -> Tensor:
    """F.dropout draws from torch's global generator."""
    if rng is None or p == 0:
        return x
    kept = torch.rand(x.shape, generator=rng, dtype=x.dtype, device=x.device) >= p
    return x * kept / (1 - p)


def noisy(x: Tensor, deviation: float, rng: Rng) -> Tensor:
    return x if rng is None else x + deviation * torch.empty_like(x).normal_(generator=rng)


def one_hot(y: Int[Tensor, " n"], k: int, dtype: torch.dtype) -> Float[Tensor, "n k"]:
    return (y[:, None] == torch.arange(k, device=y.device)).to(dtype)


def joined(x: Tensor, y: Float[Tensor, "n k"]) -> Tensor:
    """x with y behind its features; of pictures, as constant planes behind the channels."""
    return torch.cat([x, y if x.dim() == 2 else y[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1)


class BatchNorm(nn.Module):
    def __init__(self, width: int, scaled: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width)) if scaled else None
        self.bias = nn.Parameter(torch.zeros(width))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor, rng: Rng, track: bool) -> Tensor:
        seen = (self.mean, self.variance) if rng is None or track else (None, None)
        # A weight that is not there must be ones: on a GPU a bias without one gets no gradient.
        weight = torch.ones_like(self.bias) if self.weight is None else self.weight
        return F.batch_norm(x, *seen, weight, self.bias, training=rng is not None, momentum=0.1, eps=1e-4)


class WeightNorm(nn.Module):
    """A layer without bias, its units' weights brought to length 1 or to one that is trained; and a bias."""

    def __init__(self, layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, trained: bool = False) -> None:
        super().__init__()
        self.layer = layer
        unit = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
        self.others = [i for i in range(layer.weight.dim()) if i != unit]
        self.scale = nn.Parameter(torch.ones(layer.weight.shape[unit])) if trained else 1.0
        self.bias = nn.Parameter(torch.zeros(layer.weight.shape[unit]))

    def forward(self, x: Tensor) -> Tensor:
        length = (self.layer.weight.square().sum(dim=self.others) + 1e-6).sqrt()
        shape = (-1, *[1] * (x.dim() - 2))
        return self.layer(x) * (self.scale / length).view(shape) + self.bias.view(shape)


class Classifier(nn.Module):
    """x to the logits of its class."""

    def __init__(self, inner: Shape, k: int, rng: torch.Generator) -> None:
        super().__init__()
        self.grey = is_grey(inner)
        self.plan = fitted(GREY_CLASSIFIER if self.grey else COLOUR_CLASSIFIER, inner)
        self.layers = nn.ModuleList(convolutions(self.plan, inner[0]))
        self.norms = nn.ModuleList(BatchNorm(conv.width) for conv in self.plan)
        self.last = nn.Linear(self.plan[-1].width, k, bias=False)
        initialise(self, 0.05, rng)
        if self.grey:
            nn.init.normal_(self.last.weight, std=0.01, generator=rng)
            self.bias = nn.Parameter(torch.zeros(k))
        else:
            self.last_norm = BatchNorm(k)

    def forward(self, x: Tensor, rng: Rng = None, track: bool = True) -> Float[Tensor, "n k"]:
        x = x if self.grey else dropout(2 * x - 1, 0.2, rng)
        for conv, layer, norm in zip(self.plan, self.layers, self.norms, strict=True):
            x = F.leaky_relu(norm(layer(x), rng, track), 0.0 if self.grey else 0.2)
            x = dropout(F.max_pool2d(x, 2) if conv.pool else x, conv.drop, rng)
        x = self.last(x.mean(dim=(2, 3)))
        return x + self.bias if self.grey else self.last_norm(x, rng, track)


class GreyGenerator(nn.Module):
    def __init__(self, inner: Shape, k: int, z_dim: int, rng: torch.Generator) -> None:
        super().__init__()
        self.inner, self.k = inner, k
        widths = [z_dim, *(narrowed(width, inner) for width in GREY_GENERATOR)]
        self.layers = nn.ModuleList(nn.Linear(a + k, b, bias=False) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(width) for width in widths[1:])
        self.last = WeightNorm(nn.Linear(widths[-1] + k, math.prod(inner), bias=False), trained=True)
        initialise(self, None, rng)

    def forward(self, z: Float[Tensor, "n d"], y: Int[Tensor, " n"], rng: Rng = None, track: bool = True) -> Tensor:
        x, code = z, one_hot(y, self.k, z.dtype)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.softplus(norm(layer(joined(x, code)), rng, track))
        return self.last(joined(x, code)).sigmoid().unflatten(1, self.inner)


class ColourGenerator(nn.Module):
    """A dense layer to 4x4, and as many deconvolutions as the larger side needs; what is too much is cropped."""

    def __init__(self, inner: Shape, k: int, z_dim: int, rng: torch.Generator) -> None:
        super().__init__()
        (c, *self.sides), self.k = inner, k
        times = max(1, math.ceil(math.log2(max(self.sides) / START)))
        widths = [math.ceil(COLOUR_GENERATOR / 2**i) for i in range(times)]
        self.start = (widths[0], *(math.ceil(side / 2**times) for side in self.sides))
        ups = [
            nn.ConvTranspose2d(a + k, b, 5, stride=2, padding=2, output_padding=1, bias=False)
            for a, b in pairwise([*widths, c])
        ]
        self.layers = nn.ModuleList([nn.Linear(z_dim + k, math.prod(self.start), bias=False), *ups[:-1]])
        self.norms = nn.ModuleList(BatchNorm(n, scaled=False) for n in [math.prod(self.start), *widths[1:]])
        self.last = WeightNorm(ups[-1], trained=True)
        initialise(self, 0.05, rng)

    def forward(self, z: Float[Tensor, "n d"], y: Int[Tensor, " n"], rng: Rng = None, track: bool = True) -> Tensor:
        x, code = z, one_hot(y, self.k, z.dtype)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(joined(x, code)), rng, track).relu()
            x = x.unflatten(1, self.start) if x.dim() == 2 else x
        h, w = self.sides
        return (self.last(joined(x, code)).tanh()[:, :, :h, :w] + 1) / 2


class GreyDiscriminator(nn.Module):
    def __init__(self, inner: Shape, k: int, rng: torch.Generator) -> None:
        super().__init__()
        self.k = k
        widths = [math.prod(inner), *(narrowed(width, inner) for width in GREY_DISCRIMINATOR), 1]
        self.layers = nn.ModuleList(WeightNorm(nn.Linear(a + k, b, bias=False)) for a, b in pairwise(widths))
        initialise(self, 0.1, rng)

    def forward(self, x: Tensor, y: Int[Tensor, " n"], rng: Rng = None) -> Float[Tensor, " n"]:
        x, code = noisy(x.flatten(1), 0.3, rng), one_hot(y, self.k, x.dtype)
        for layer in self.layers[:-1]:
            x = noisy(layer(joined(x, code)).relu(), 0.5, rng)
        return self.layers[-1](joined(x, code))[:, 0]


class ColourDiscriminator(nn.Module):
    def __init__(self, inner: Shape, k: int, rng: torch.Generator) -> None:
        super().__init__()
        self.k = k
        self.plan = fitted(COLOUR_DISCRIMINATOR, inner)
        last = WeightNorm(nn.Linear(self.plan[-1].width + k, 1, bias=False), trained=True)
        self.layers = nn.ModuleList([*(WeightNorm(layer) for layer in convolutions(self.plan, inner[0], k)), last])
        initialise(self, 0.05, rng)

    def forward(self, x: Tensor, y: Int[Tensor, " n"], rng: Rng = None) -> Float[Tensor, " n"]:
        x, code = dropout(2 * x - 1, 0.2, rng), one_hot(y, self.k, x.dtype)
        for conv, layer in zip(self.plan, self.layers[:-1], strict=True):
            x = dropout(F.leaky_relu(layer(joined(x, code)), 0.2), conv.drop, rng)
        return self.layers[-1](joined(x.mean(dim=(2, 3)), code))[:, 0]


def build(inner: Shape, k: int, z_dim: int, seed: int) -> tuple[Classifier, nn.Module, nn.Module]:
    """(classifier, generator, discriminator) of images of shape `inner`."""
    rng = torch.Generator().manual_seed(seed)
    makes, judges = (GreyGenerator, GreyDiscriminator) if is_grey(inner) else (ColourGenerator, ColourDiscriminator)
    return Classifier(inner, k, rng), makes(inner, k, z_dim, rng), judges(inner, k, rng)
