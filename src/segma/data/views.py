"""Random views of a batch, for the consistency term: `weak` ones keep a sample's looks, `strong` ones its class."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


class View(NamedTuple):
    """Ranges from which each sample's change is drawn; all zero leaves it as it is."""

    rotate: float = 0.0  # degrees, either way
    scale: float = 0.0  # a share, either way
    shear: float = 0.0
    shift: float = 0.0  # a share of the side, either way
    bend: float = 0.0  # a share of the side by which places of a coarse grid move, either way
    flip: bool = False  # left and right, every second one
    contrast: float = 0.0  # a share, either way
    brightness: float = 0.0
    colour: float = 0.0  # per channel
    invert: float = 0.0  # probability
    hole: float = 0.0  # side of one grey square, as a share
    noise: float = 0.0  # standard deviation; for tables, in units of the columns' own
    border: str = "zeros"  # what a warp pulls in: black, or the border's colour


NONE = View()


class Kind(NamedTuple):
    weak: View
    strong: View
    plain: View = NONE  # of what is encoded and drawn


BENDS = 4  # places of that grid along a side
PHOTO = Kind(
    View(shift=0.05, flip=True, border="border"),
    View(10, 0.15, 0.1, 0.08, flip=True, contrast=0.4, brightness=0.2, colour=0.1, hole=0.3, border="border"),
)
VIEWS = {
    "none": Kind(NONE, NONE),
    "noise": Kind(View(noise=0.1), View(noise=0.3)),
    "affine": Kind(View(shift=0.05, rotate=5), View(rotate=20, scale=0.25, shear=0.2, shift=0.1)),
    "pen": Kind(View(shift=0.05, rotate=5), View(20, 0.25, 0.2, 0.1, bend=0.06)),
    # For what is centred and of one size, as MNIST's digits are: fewer errors there (experiments.md).
    "centred": Kind(View(shift=0.05, rotate=5), View(20, 0.15, 0.2, 0.05, bend=0.06)),
    "photo": PHOTO,
    # Its larger hole taught the classes of faces best (experiments.md); mirrored, there are twice as many to draw.
    "face": Kind(PHOTO.weak, PHOTO.strong._replace(hole=0.6), View(flip=True)),
    "street": Kind(
        View(shift=0.06, border="border"),
        View(15, 0.2, 0.15, 0.07, contrast=0.6, brightness=0.2, colour=0.1, invert=0.25, hole=0.375, border="border"),
    ),
}


def change(x: Float[Tensor, " n *shape"], view: View, *generators: torch.Generator) -> Float[Tensor, " n *shape"]:
    """x with a random change of this kind for each sample; images (n, c, h, w) in 0..1, or standardised tables.

    Of several generators each draws for its part of the rows, as it would for these alone.
    """

    def drawn(draw: Callable[..., Tensor], size: Sequence[int]) -> Tensor:
        shape, like = (len(x) // len(generators), *size), {"device": x.device, "dtype": x.dtype}
        parts = [draw(shape, generator=generator, **like) for generator in generators]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def uniform(*size: int) -> Tensor:  # in -1..1
        return 2 * drawn(torch.rand, size) - 1

    if view.noise:
        x = x + view.noise * drawn(torch.randn, x.shape[1:])
    if x.ndim == 2:
        return x
    if view.rotate or view.scale or view.shear or view.shift or view.bend or view.flip:
        places = F.affine_grid(_affine(view, uniform(6), *x.shape[2:]), list(x.shape), False)
        if view.bend:
            h, w = (_reach(side, x) for side in x.shape[2:])
            places = places + (h @ (2 * view.bend * uniform(2, BENDS, BENDS)) @ w.T).permute(0, 2, 3, 1)
        x = F.grid_sample(x, places, "bilinear", view.border, False)
    if view.contrast or view.brightness or view.colour:
        middle = x.mean(dim=(1, 2, 3), keepdim=True)
        x = middle + (x - middle) * (1 + view.contrast * uniform(1, 1, 1))
        x = x + view.brightness * uniform(1, 1, 1) + view.colour * uniform(x.shape[1], 1, 1)
    if view.invert:
        x = torch.where(uniform(1, 1, 1) < 2 * view.invert - 1, 1 - x, x)
    if view.hole:
        x = torch.where(_hole(view.hole, uniform(2), *x.shape[2:]), 0.5, x)
    return x.clamp(0, 1)


def _affine(view: View, u: Float[Tensor, "n 6"], h: int, w: int) -> Float[Tensor, "n 2 3"]:
    """Random affine maps from u in -1..1: rotation, scale, shear, two shifts, flip. Places are in units of the sides,
    angles and lengths in pixels, so that what is turned is not stretched where h and w differ."""
    angle = u[:, 0] * math.radians(view.rotate)
    scale = 1 + view.scale * u[:, 1]
    cos, sin = angle.cos() / scale, angle.sin() / scale
    side = torch.where(u[:, 5] < 0, -1.0, 1.0) if view.flip else torch.ones_like(scale)
    top = torch.stack([side * cos, (view.shear * u[:, 2] - sin) * (h / w), 2 * view.shift * u[:, 3]], dim=1)
    bottom = torch.stack([side * sin * (w / h), cos, 2 * view.shift * u[:, 4]], dim=1)
    return torch.stack([top, bottom], dim=1)


def _reach(side: int, like: Tensor) -> Float[Tensor, "side places"]:
    """How much each place of a coarse grid counts along a side: smoothly, all together 1."""
    along = torch.linspace(0, BENDS - 1, side, device=like.device, dtype=like.dtype)
    apart = (along[:, None] - torch.arange(BENDS, device=like.device)).abs().clamp(max=1)
    return (math.pi / 2 * apart).cos().square()


def _hole(side: float, u: Float[Tensor, "n 2"], h: int, w: int) -> Tensor:
    """(n, 1, h, w) true inside one square per sample, its centre anywhere; `side` is a share of the shorter one."""
    row = torch.linspace(-1, 1, h, device=u.device).sub(u[:, :1]).abs() < side * min(1.0, w / h)
    column = torch.linspace(-1, 1, w, device=u.device).sub(u[:, 1:]).abs() < side * min(1.0, h / w)
    return (row[:, :, None] & column[:, None, :])[:, None]
