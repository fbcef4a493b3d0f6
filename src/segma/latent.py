"""Edits are arithmetic on codes: codes in, codes out. Decoding and drawing are the caller's."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from segma.mixture import Mixture


def nearest_class(z: Float[Tensor, "n d"], target: Mixture) -> Int[Tensor, " n"]:
    """The class each code most likely belongs to, by the posterior."""
    return target.log_joint(z).argmax(dim=1)


def interpolate(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], steps: int) -> Float[Tensor, "n steps d"]:
    """Evenly spaced codes on the straight line from a to b, both ends included (paper, sec. VI-C)."""
    t = torch.linspace(0, 1, steps, dtype=a.dtype, device=a.device)[:, None]
    return torch.lerp(a[:, None], b[:, None], t)  # exact at both ends, which a + t (b - a) is not


def transfer(
    z: Float[Tensor, "n d"], source: Int[Tensor, " n"], goal: Int[Tensor, " n"], target: Mixture, t: float = 1.0
) -> Float[Tensor, "n d"]:
    """z + t (mu_goal - mu_source): the same place relative to another mean (eq. shift)."""
    return z + t * (target.means[goal] - target.means[source])


def intensify(
    z: Float[Tensor, "n d"], source: Int[Tensor, " n"], away_from: Int[Tensor, " m"], target: Mixture, alpha: float
) -> Float[Tensor, "n d"]:
    """z + alpha (mu_source - mu_anti), anti the mean of the classes moved away from (paper, sec. VI-D)."""
    return z + alpha * (target.means[source] - target.means[away_from].mean(dim=0))


def class_distances(target: Mixture) -> Float[Tensor, "k k"]:
    """Euclidean distances of the means: which classes lie close."""
    return torch.cdist(target.means, target.means, compute_mode="donot_use_mm_for_euclid_dist")
