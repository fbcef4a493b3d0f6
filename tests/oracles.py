"""Independent ways to the same numbers: slow, naive, and sharing no code with segma. Each cites what it checks."""

import math

import mpmath
import numpy as np
import torch
from scipy import integrate, stats


def phi(s: float, d: int) -> float:
    """phi_d(s) = 1F1(1/2; d/2; -s), to 40 digits (the exact form behind eq. cwprod)."""
    with mpmath.workdps(40):
        return float(mpmath.hyp1f1(mpmath.mpf(1) / 2, mpmath.mpf(d) / 2, -mpmath.mpf(s)))


def phi_slope(s: float, d: int) -> float:
    """d phi / d s = -1F1(3/2; d/2 + 1; -s) / d."""
    with mpmath.workdps(40):
        return float(-mpmath.hyp1f1(mpmath.mpf(3) / 2, mpmath.mpf(d) / 2 + 1, -mpmath.mpf(s)) / d)


def gaussian_inner(a: np.ndarray, s: float, b: np.ndarray, t: float, gamma: float, approximate: bool = False) -> float:
    """<N(a, s I), N(b, t I)>_gamma, written out (eq. cwprod)."""
    d, width = len(a), s + t + 2 * gamma
    at = sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (2 * width)
    value = (1 + 4 * at / (2 * d - 3)) ** -0.5 if approximate else phi(at, d)
    return value / math.sqrt(2 * math.pi * width)


def cw_gmm(z: np.ndarray, p: np.ndarray, mu: np.ndarray, var: np.ndarray, gamma: float, approximate: bool) -> float:
    """The three double sums of eq. CW-GMM, by loops."""
    m, k, total = len(z), len(p), 0.0
    for i in range(m):
        for j in range(m):
            total += gaussian_inner(z[i], 0, z[j], 0, gamma, approximate) / m**2
    for i in range(m):
        for j in range(k):
            total -= 2 * p[j] / m * gaussian_inner(z[i], 0, mu[j], var[j], gamma, approximate)
    for i in range(k):
        for j in range(k):
            total += p[i] * p[j] * gaussian_inner(mu[i], var[i], mu[j], var[j], gamma, approximate)
    return total


def projected_distance(p: tuple, q: tuple, gamma: float, directions: int, seed: int) -> tuple[float, float]:
    """d^2 from its definition: project on random lines, smooth by N(0, gamma), integrate the squared difference of the
    densities numerically, average over the lines. A mixture is (weights, means, variances). Also the standard error."""
    rng = np.random.default_rng(seed)
    d = p[1].shape[1]
    found = []
    for _ in range(directions):
        v = rng.normal(size=d)
        v /= np.linalg.norm(v)
        grid = np.linspace(-40, 40, 4001)

        def density(mixture, v=v, grid=grid):
            w, mu, var = mixture
            scale = np.sqrt(var + gamma)
            return (w * stats.norm.pdf(grid[:, None], mu @ v, scale)).sum(axis=1)

        found.append(integrate.simpson((density(p) - density(q)) ** 2, x=grid))
    return float(np.mean(found)), float(np.std(found) / math.sqrt(directions))


def torch_mixture(weights: torch.Tensor, means: torch.Tensor, variances: torch.Tensor):
    """The same mixture as torch.distributions has it (which takes deviations, not variances)."""
    parts = torch.distributions.MultivariateNormal(
        means, variances[:, None, None] * torch.eye(means.shape[1]).to(means)
    )
    return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(weights), parts)
