"""Where the codes of a class are: a few Gaussians fitted to them after training, for samples to be drawn from.

Training brings the codes near the mixture, not onto it. In many dimensions a draw from a class's round component falls
where there are no codes, and of what it has never seen a decoder makes noise. Posteriors, distances and edits stay the
mixture's.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from segma.mixture import Mixture

FAR = 1e3  # deviations beyond which a code is none: a training that failed, or a number that is none
OUTER = 0.01  # share of a class's codes, the furthest out, left aside: one astray would get a Gaussian of its own
ENOUGH = 10  # codes per Gaussian and dimension; with fewer a class has fewer Gaussians, or none but its component
FLOOR = 0.1  # what is added to the Gaussians' variances; a component has 1


@dataclass(frozen=True)
class Clouds:
    """Of each class, m Gaussians: from its component's mean, in its deviations."""

    weights: Float[Tensor, "k m"]
    means: Float[Tensor, "k m d"]
    factors: Float[Tensor, "k m d d"]  # lower triangular; times its transpose, the covariance

    def shaped(
        self, y: Int[Tensor, " n"], noise: Float[Tensor, "n d"], generator: torch.Generator
    ) -> Float[Tensor, "n d"]:
        """Standard normal noise made that of the classes y."""
        weights, means, factors = (part.to(noise) for part in (self.weights, self.means, self.factors))
        u = torch.rand(len(y), 1, generator=generator, device=generator.device).to(noise)
        y = y.to(noise.device)
        chosen = (u > weights.cumsum(dim=1)[y, :-1]).sum(dim=1) + y * weights.shape[1]
        out = torch.empty_like(noise)
        for i in chosen.unique().tolist():  # one by one: a matrix for each draw takes n d^2 numbers
            out[chosen == i] = means.flatten(0, 1)[i] + noise[chosen == i] @ factors.flatten(0, 1)[i].T
        return out


def fit(z: Float[Tensor, "n d"], target: Mixture, most: int) -> Clouds | None:
    """At most so many Gaussians for each class, fitted to those of the codes z that are most likely its own; a class
    with too few of them keeps its component. None if all do."""
    y, k, d = target.log_joint(z).argmax(dim=1), target.k, target.d
    noise = ((z - target.means[y]) / target.variances[y, None].sqrt()).detach().double().cpu().numpy()
    rows = [_inner(noise[y.cpu().numpy() == i]) for i in range(k)]
    counts = [min(most, len(each) // (ENOUGH * d)) for each in rows]
    if not any(counts):
        return None
    weights = np.eye(1, max(counts)).repeat(k, axis=0)
    means, factors = np.zeros((*weights.shape, d)), np.tile(np.eye(d), (*weights.shape, 1, 1))
    for i, m in enumerate(counts):
        if m:
            found = _gaussians(rows[i], m)
            weights[i, :m], means[i, :m] = found.weights_, found.means_
            factors[i, :m] = np.linalg.cholesky(found.covariances_)
    return Clouds(*(torch.from_numpy(part).float() for part in (weights, means, factors)))


def _inner(noise: np.ndarray) -> np.ndarray:
    noise = noise[(np.abs(noise) < FAR).all(axis=1)]
    far = (noise**2).sum(axis=1)
    return noise[far <= np.quantile(far, 1 - OUTER)] if len(noise) else noise


def _gaussians(rows: np.ndarray, m: int) -> Any:
    """sklearn's mixture of m Gaussians, fitted to the rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture  # here: slow to import, and most runs need none
    from threadpoolctl import threadpool_limits

    found = GaussianMixture(m, reg_covar=FLOOR, tol=1e-2, random_state=0, init_params="k-means++")
    with warnings.catch_warnings(), threadpool_limits(1):  # products so small that threads only wait for each other
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
        return found.fit(rows)
