"""A critic of generated pictures, not in the paper: squared error alone draws the mean of what is likely, a blur.

A small network learns to tell the data's pictures from those that the decoder makes of codes between and around the
data's; the decoder learns to be taken for the data. With `likeness`, it is reconstructions that the network judges, and
what it sees also tells how like its picture each of them is. One more term for each, and one optimiser for all.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from segma.mixture import Mixture

JITTER = 0.05  # deviation of the noise that must not change an opinion
CALM = 1.0  # weight of that
SMALLEST = 4  # pixels a side: what is not larger is judged as a whole
FAINT = 0.01  # the share of the mean squared length below which what is seen at a place loses its say


class Draws(NamedTuple):
    """The random numbers of a step with a critic."""

    codes: Float[Tensor, "n d"]
    ways: Float[Tensor, "n 1"]
    pixels: Float[Tensor, " n *shape"]


def draw(u: int, means: Float[Tensor, "k d"], shape: tuple[int, ...], generator: torch.Generator) -> Draws:
    """For u rows of `shape` in a step, with codes like `means`."""
    codes, ways, pixels = (means.new_empty(u, *size) for size in (means.shape[1:], (1,), shape))
    return Draws(
        codes.normal_(generator=generator), ways.uniform_(generator=generator), pixels.normal_(generator=generator)
    )


def build(shape: tuple[int, ...], seed: int) -> nn.Sequential:
    """Convolutions that halve a picture (c, h, w) to four pixels or so, then one number: positive for the data's."""
    (c, h, w), width, layers = shape, 64, []
    while min(h, w) > SMALLEST:
        layers += [nn.Conv2d(c, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        c, h, w, width = width, h // 2, w // 2, min(2 * width, 256)
    layers += [nn.Conv2d(c, 1, (h, w))]
    critic, generator = nn.Sequential(*layers), torch.Generator().manual_seed(seed)
    for layer in critic:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, 0.2, nonlinearity="leaky_relu", generator=generator)
            nn.init.zeros_(layer.bias)  # ty: ignore[invalid-argument-type]
    return critic


def codes_to_judge(z: Float[Tensor, "n d"], target: Mixture, draws: Draws) -> Float[Tensor, "n d"]:
    """Half of them draws from the components that the codes z are in; of the others a third are codes themselves, the
    rest between one and the next."""
    z, half = z.detach(), len(z) // 2
    y = target.log_joint(z[:half]).argmax(dim=1)
    samples = target.place(y, draws.codes[:half])
    between = torch.lerp(z[half:], z.roll(1, 0)[half:], (1.5 * draws.ways[half:] - 0.5).clamp(min=0))
    return torch.cat([samples, between]).detach()


def opinions(
    criticise: Callable[..., tuple[list[Tensor], Float[Tensor, " rows"]]],
    real: Float[Tensor, " n *shape"],
    made: Float[Tensor, " n *shape"],
    draws: Draws,
    reconstructed: bool,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]]:
    """For the decoder: how unlike its real picture the critic finds each that was made, 0 unless they are
    reconstructions, and how unlike the data's as a whole. For the critic itself: how wrong it is.

    It also learns to be calm: its opinion of the data's may not change with a little noise.
    """
    n = len(real)
    seen, scores = criticise(torch.cat([real, real + JITTER * draws.pixels, made.detach()]))
    of_real, of_noisy, of_made = scores[:n], scores[n : 2 * n], scores[2 * n :]
    restless = ((of_noisy - of_real) / JITTER).square().mean()
    wrong = F.softplus(-of_real).mean() + F.softplus(of_made).mean() + CALM / 2 * restless
    again, scores = criticise(made, fixed=True)
    unlike = unlikeness([layer[:n].detach() for layer in seen], again) if reconstructed else wrong.new_zeros(())
    return unlike, F.softplus(-scores).mean(), wrong


def unlikeness(
    real: Sequence[Float[Tensor, "n c h w"]], drawn: Sequence[Float[Tensor, "n c h w"]]
) -> Float[Tensor, ""]:
    """How differently a critic sees pictures and their reconstructions: in each of its layers the squared difference
    between the directions of what it sees at a place, averaged over places. A blur costs more than another brightness
    of the same squared error."""
    total = torch.zeros((), device=real[0].device)
    for a, b in zip(real, drawn, strict=True):
        a, b = (seen.to(torch.promote_types(seen.dtype, torch.float32)) for seen in (a, b))
        faint = FAINT * a.square().sum(dim=1).mean()
        total = total + (_direction(a, faint) - _direction(b, faint)).square().sum(dim=1).mean()
    return total


def _direction(seen: Float[Tensor, "n c h w"], faint: Float[Tensor, ""]) -> Float[Tensor, "n c h w"]:
    """Of length 1, but shorter where next to nothing is seen."""
    return seen * (seen.square().sum(dim=1, keepdim=True) + faint).rsqrt()
