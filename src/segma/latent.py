"""Edits are arithmetic on codes: codes in, codes out. Decoding and drawing are the caller's."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segma import attributes, density
from segma.errors import InputError
from segma.mixture import Mixture


def linear(
    a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], steps: int, target: Mixture | None = None
) -> Float[Tensor, "n steps d"]:
    """Evenly spaced codes on the straight line from a to b, both ends included (paper, sec. VI-C)."""
    t = torch.linspace(0, 1, steps, dtype=a.dtype, device=a.device)[:, None]
    return torch.lerp(a[:, None], b[:, None], t)  # exact at both ends, which a + t (b - a) is not


PATHS: dict[str, Callable] = {"linear": linear, "density": density.path}


def interpolate(
    a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], steps: int, target: Mixture | None, path: str = "linear"
) -> Float[Tensor, "n steps d"]:
    """Codes on the way from a to b, both included: on the straight line, or where the mixture has mass (density.py)."""
    if path not in PATHS:
        raise InputError(f"path {path!r}: allowed are {', '.join(PATHS)}")
    if steps < 2:
        raise InputError(f"steps = {steps}: at least 2, the two ends")
    if not (a.isfinite().all() and b.isfinite().all()):
        raise InputError("there is no way between codes that are NaN or infinite")
    return PATHS[path](a, b, steps, target)


def transfer(
    z: Float[Tensor, "n d"], source: Int[Tensor, " n"], goal: Int[Tensor, " n"], target: Mixture, t: float = 1.0
) -> Float[Tensor, "n d"]:
    """z + t (mu_goal - mu_source): the same place relative to another mean (eq. shift)."""
    return z + t * (target.means[goal] - target.means[source])


def intensify(
    z: Float[Tensor, "n d"],
    source: Int[Tensor, " n"],
    away_from: Int[Tensor, " m"] | None,
    target: Mixture,
    alpha: float,
) -> Float[Tensor, "n d"]:
    """z + alpha mean_j (mu_source - mu_j) over the classes j moved away from (paper, sec. VI-D, which has one).

    None: all but the source. The mean and not the sum, so that alpha is as strong for several classes as for one; one
    that is the code's own adds a difference of 0. Negative alpha takes away what marks the class.
    """
    if away_from is None:
        alpha = alpha * target.k / max(target.k - 1, 1)  # the source's own 0 is in a mean over all k
        away_from = torch.arange(target.k, device=z.device)
    return z + alpha * (target.means[source] - target.means[away_from].mean(dim=0))


class Push(NamedTuple):
    """How far to go along one way of sorting the classes (attributes.Axis), for each of its values."""

    groups: tuple[int, ...]
    towards: tuple[float, ...]  # 1 is there
    intensity: tuple[float, ...]  # below 0 weakens


def pushes(classes: Sequence[str], towards: Mapping[str, float], intensity: Mapping[str, float]) -> list[Push]:
    """Amounts by the names of classes, or of values of attributes, sorted by the axes that the names are on."""
    found: dict[attributes.Axis, tuple[list[float], list[float]]] = {}
    for kind, amounts in enumerate((towards, intensity)):
        for name, amount in amounts.items():
            axis, (place,) = attributes.locate(classes, [name])
            found.setdefault(axis, ([0.0] * len(axis.values), [0.0] * len(axis.values)))[kind][place] += amount
    return [Push(axis.groups, tuple(t), tuple(a)) for axis, (t, a) in found.items()]


def edit(
    z: Float[Tensor, "n d"],
    target: Mixture,
    pushed: Sequence[Push] = (),
    style: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
    source: Int[Tensor, " n"] | None = None,
) -> Float[Tensor, "n d"]:
    """All edits at once, s being the code's own class, or its group where a push sorts the classes into groups:

        z + (style - 1) (z - mu_s) + sum_c t_c (mu_c - mu_s) + sum_c a_c (mu_c - mean_{j != c} mu_j) + shift in `plane`

    With one t it is `transfer`, with one a `intensify` as of class c, away from all others. Style 0 is the mean.
    """
    own = nearest_class(z, target) if source is None else source
    out = z + (style - 1) * (z - target.means[own])
    for push in pushed:
        merged = merge(target, push.groups)
        place = nearest_class(z, target, push.groups) if source is None else torch.tensor(push.groups)[source.cpu()]
        t, a = z.new_tensor(push.towards), z.new_tensor(push.intensity) * (merged.k / max(merged.k - 1, 1))
        out = out + t @ merged.means - t.sum() * merged.means[place] + a @ (merged.means - merged.means.mean(dim=0))
    return out + z.new_tensor(shift) @ plane(target)[1].T


def merge(target: Mixture, groups: Sequence[int]) -> Mixture:
    """The components of each group as one, at the mean of their means; groups[k] is the group of component k.

    Where classes are products of attributes, those that share a value of one attribute are a group, and the difference
    of two groups' means is that of their classes' means averaged over the other attributes: an edit on the merged
    mixture changes this attribute and keeps the others.
    """
    member = torch.nn.functional.one_hot(torch.tensor(groups, device=target.means.device)).double()  # exact on any GPU
    share = (member / member.sum(dim=0)).T
    weights, means, variances = (part.double() for part in (target.weights, target.means, target.variances))
    parts = (member.T @ weights, share @ means, share @ variances)
    return Mixture(*(part.to(target.means.dtype) for part in parts))


def nearest_class(z: Float[Tensor, "n d"], target: Mixture, groups: Sequence[int] | None = None) -> Int[Tensor, " n"]:
    """The class each code most likely belongs to, by the posterior; of groups of classes (as in `merge`), the group."""
    joint = target.log_joint(z)
    if groups is not None:
        group = torch.tensor(groups, device=z.device)
        joint = torch.stack([joint[:, group == g].logsumexp(dim=1) for g in range(max(groups) + 1)], dim=1)
    return joint.argmax(dim=1)


def class_distances(target: Mixture) -> Float[Tensor, "k k"]:
    """Euclidean distances of the means: which classes lie close."""
    return torch.cdist(target.means, target.means, compute_mode="donot_use_mm_for_euclid_dist")


def plane(target: Mixture) -> tuple[Float[Tensor, " d"], Float[Tensor, "d 2"], Float[Tensor, " 2"]]:
    """The plane in which the means lie furthest apart: their centre, its two axes (the means' principal ones), and the
    share of the means' variance along each. Codes are at (z - centre) @ axes, as `on_plane` says."""
    means = target.means.detach().double()
    centre = means.mean(dim=0)
    _, spread, axes = torch.linalg.svd(means - centre, full_matrices=True)
    axes = torch.nn.functional.pad(axes, (0, 0, 0, 2))[:2]  # of a line, the second axis is 0
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    axes = torch.where(largest < 0, -axes, axes)  # svd leaves the signs open
    share = torch.nn.functional.pad(spread.square() / spread.square().sum().clamp(min=1e-300), (0, 2))[:2]
    return centre.to(target.means), axes.T.to(target.means), share.to(target.means)


def on_plane(z: Float[Tensor, "n d"], target: Mixture) -> Float[Tensor, "n 2"]:
    """Where codes lie on the plane in which the means lie furthest apart."""
    centre, axes, _ = plane(target)
    return (z - centre) @ axes
