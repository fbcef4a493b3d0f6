"""A mixture of spherical Gaussians as a value: weights p_k, means mu_k, variances sigma_k^2."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Mixture:
    """sum_k p_k N(mu_k, sigma_k^2 I). A variance of 0 makes a component a point; the weights sum to 1."""

    weights: Float[Tensor, " k"]
    means: Float[Tensor, "k d"]
    variances: Float[Tensor, " k"]

    @classmethod
    def from_points(cls, z: Float[Tensor, "n d"]) -> "Mixture":
        """The sample z as a mixture of equally likely points (paper, sec. III)."""
        n = len(z)  # weights in float64: the rounding of 1/n is the same for all points and would not average out
        return cls(z.new_full((n,), 1 / n, dtype=torch.float64), z, z.new_zeros(n))

    @property
    def k(self) -> int:
        return len(self.means)

    @property
    def d(self) -> int:
        return self.means.shape[1]

    def log_joint(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """log p_k N(mu_k, sigma_k^2 I)(z); its softmax is the posterior, its logsumexp the log-density."""
        sq = squared_distances(z.double(), self.means.double()).to(z.dtype)  # a GPU's tf32 would lose digits
        return self.weights.log() - self.d / 2 * (2 * math.pi * self.variances).log() - sq / (2 * self.variances)

    def posterior(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """P(k | z), the classifier (paper, eq. postG)."""
        return self.log_joint(z).softmax(dim=1)

    def place(self, y: Int[Tensor, " n"], noise: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Codes of components y, `noise` away from their means, in deviations."""
        return self.means[y] + self.variances[y].sqrt()[:, None] * noise

    def sample(self, n: int, generator: torch.Generator | None = None) -> Float[Tensor, "n d"]:
        """n draws from the mixture."""
        y = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        return self.place(y, torch.randn(n, self.d, generator=generator, dtype=self.means.dtype, device=y.device))


def squared_distances(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """|a_i - b_j|^2 in memory n m, whatever d. Both are centred first: far from 0, |a|^2 + |b|^2 - 2ab loses digits."""
    centre = b.detach().mean(dim=0)
    a, b = a - centre, b - centre
    sq = a.square().sum(dim=1, keepdim=True) + b.square().sum(dim=1) - 2 * a @ b.T
    return sq.clamp(min=0)
