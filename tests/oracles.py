"""Independent ways to the same numbers: slow, naive, and sharing no code with segma. Each cites what it checks."""

import math

import mpmath
import numpy as np
import torch
import torch.nn.functional as F
from scipy import integrate, linalg, stats


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


def frechet(m1: np.ndarray, s1: np.ndarray, m2: np.ndarray, s2: np.ndarray) -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)) with scipy's square root of a matrix (Heusel et al., 2017)."""
    return float(((m1 - m2) ** 2).sum() + np.trace(s1 + s2 - 2 * linalg.sqrtm(s1 @ s2).real))


def frechet_samples(x: np.ndarray, y: np.ndarray) -> float:
    """The same from samples, without a covariance: tr (S1 S2)^(1/2) is the sum of the singular values of A B^T, with A
    and B the centred samples over the square root of n - 1."""
    a, b = ((z - z.mean(axis=0)) / math.sqrt(len(z) - 1) for z in (x, y))
    gap = x.mean(axis=0) - y.mean(axis=0)
    return float(gap @ gap + (a**2).sum() + (b**2).sum() - 2 * np.linalg.svd(a @ b.T, compute_uv=False).sum())


def squared_mmd(x: np.ndarray, y: np.ndarray) -> float:
    """The unbiased estimate of MMD^2 under (x.y/d + 1)^3, by loops (Binkowski et al., 2018, eq. 4)."""
    n, m, d = len(x), len(y), x.shape[1]

    def k(a, b):
        return (sum(p * q for p, q in zip(a, b, strict=True)) / d + 1) ** 3

    total = sum(k(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    total += sum(k(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return total - 2 * sum(k(a, b) for a in x for b in y) / (n * m)


def resize(image: np.ndarray, size: int) -> np.ndarray:
    """tf.image.resize_bilinear of TensorFlow 1 (align_corners=False, then without half-pixel centres), by loops."""
    h, w = image.shape
    out = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            top, left = i * h / size, j * w / size
            a, b = math.floor(top), math.floor(left)
            below, right = min(a + 1, h - 1), min(b + 1, w - 1)
            upper = image[a, b] * (1 - left + b) + image[a, right] * (left - b)
            lower = image[below, b] * (1 - left + b) + image[below, right] * (left - b)
            out[i, j] = upper * (1 - top + a) + lower * (top - a)
    return out


def inception(arrays: dict, x: torch.Tensor) -> torch.Tensor:
    """The FID's Inception written out line by line from its arrays, in float64: batch norm apart, no classes."""

    def conv(name, x, stride=1, valid=False):
        w, *norm = (
            torch.from_numpy(arrays[f"{name}.{part}"].astype(np.float64))
            for part in ("conv.weight", "bn.running_mean", "bn.running_var", "bn.bias")
        )
        x = F.conv2d(x, w, stride=stride, padding=0 if valid else tuple(side // 2 for side in w.shape[2:]))
        return F.batch_norm(x, norm[0], norm[1], None, norm[2], eps=0.001).relu()

    def chain(block, names, x):
        for name in names:
            x = conv(f"{block}.{name}", x)
        return x

    def average(x):  # the mean of those of the nine that are inside
        ones = F.conv2d(torch.ones_like(x[:, :1]), torch.ones(1, 1, 3, 3).to(x), padding=1)
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, stride=1) * 9 / ones

    x = conv("Conv2d_2a_3x3", conv("Conv2d_1a_3x3", x, 2, True), valid=True)
    x = F.max_pool2d(conv("Conv2d_2b_3x3", x), 3, 2)
    x = F.max_pool2d(conv("Conv2d_4a_3x3", conv("Conv2d_3b_1x1", x), valid=True), 3, 2)
    for b in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
        five = chain(b, ["branch5x5_1", "branch5x5_2"], x)
        three = chain(b, ["branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"], x)
        x = torch.cat([conv(f"{b}.branch1x1", x), five, three, conv(f"{b}.branch_pool", average(x))], 1)
    three = conv("Mixed_6a.branch3x3dbl_3", chain("Mixed_6a", ["branch3x3dbl_1", "branch3x3dbl_2"], x), 2, True)
    x = torch.cat([conv("Mixed_6a.branch3x3", x, 2, True), three, F.max_pool2d(x, 3, 2)], 1)
    for b in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
        seven = chain(b, [f"branch7x7_{i}" for i in (1, 2, 3)], x)
        twice = chain(b, [f"branch7x7dbl_{i}" for i in (1, 2, 3, 4, 5)], x)
        x = torch.cat([conv(f"{b}.branch1x1", x), seven, twice, conv(f"{b}.branch_pool", average(x))], 1)
    three = conv("Mixed_7a.branch3x3_2", conv("Mixed_7a.branch3x3_1", x), 2, True)
    seven = chain("Mixed_7a", [f"branch7x7x3_{i}" for i in (1, 2, 3)], x)
    x = torch.cat([three, conv("Mixed_7a.branch7x7x3_4", seven, 2, True), F.max_pool2d(x, 3, 2)], 1)
    for b, pool in (("Mixed_7b", average), ("Mixed_7c", lambda x: F.max_pool2d(x, 3, 1, padding=1))):
        one, two = conv(f"{b}.branch3x3_1", x), chain(b, ["branch3x3dbl_1", "branch3x3dbl_2"], x)
        sides = [conv(f"{b}.branch3x3_2a", one), conv(f"{b}.branch3x3_2b", one)]
        sides += [conv(f"{b}.branch3x3dbl_3a", two), conv(f"{b}.branch3x3dbl_3b", two)]
        x = torch.cat([conv(f"{b}.branch1x1", x), *sides, conv(f"{b}.branch_pool", pool(x))], 1)
    return x.mean(dim=(2, 3))
