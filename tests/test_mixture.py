"""The mixture against torch.distributions and plain arithmetic."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import oracles
from segma.mixture import Mixture, squared_distances


@pytest.fixture
def target() -> Mixture:
    g = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    means = 2 * torch.randn(3, 4, generator=g, dtype=torch.float64)
    return Mixture(weights, means, torch.tensor([0.3, 1.0, 2.5], dtype=torch.float64))


def test_sizes(target):
    assert (target.k, target.d) == (3, 4)


def test_log_joint_is_log_weight_plus_log_density(target):
    z = torch.randn(7, 4, dtype=torch.float64)
    for k in range(3):
        covariance = target.variances[k].item() * np.eye(4)
        expected = stats.multivariate_normal(target.means[k].numpy(), covariance).logpdf(z.numpy())
        expected += math.log(target.weights[k])
        torch.testing.assert_close(target.log_joint(z)[:, k], torch.from_numpy(expected), rtol=1e-10, atol=1e-10)


def test_density_and_posterior_agree_with_torch(target):
    z = 2 * torch.randn(50, 4, dtype=torch.float64)
    twin = oracles.torch_mixture(target.weights, target.means, target.variances)
    torch.testing.assert_close(target.log_joint(z).logsumexp(1), twin.log_prob(z))
    parts = twin.component_distribution.log_prob(z[:, None]).exp() * target.weights
    torch.testing.assert_close(target.posterior(z), parts / parts.sum(dim=1, keepdim=True))


def test_posterior_far_from_everything_is_still_a_distribution(target):
    p = Mixture(target.weights.float(), target.means.float(), target.variances.float()).posterior(
        torch.full((1, 4), 1e4)
    )
    assert torch.isfinite(p).all()
    assert p.sum().item() == pytest.approx(1)


def test_samples_have_the_moments_of_the_mixture(target):
    n = 200_000
    z = target.sample(n, generator=torch.Generator().manual_seed(1))
    mean = target.weights @ target.means
    spread = target.means - mean
    covariance = (target.weights @ target.variances) * torch.eye(4) + spread.T @ torch.diag(target.weights) @ spread
    torch.testing.assert_close(z.mean(dim=0), mean, atol=0.05, rtol=0)
    torch.testing.assert_close(torch.cov(z.T), covariance, atol=0.12, rtol=0)


def test_sampling_repeats_with_its_generator(target):
    a, b = (target.sample(5, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(a, b)


def test_points_are_a_mixture_without_spread():
    z = torch.randn(5, 3)
    points = Mixture.from_points(z)
    assert torch.equal(points.means, z)
    assert points.variances.tolist() == [0] * 5
    assert points.weights.tolist() == [1 / 5] * 5


def test_squared_distances_and_a_common_shift():
    a, b = torch.randn(6, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b) ** 2)
    near, far = squared_distances(a.float(), b.float()), squared_distances(a.float() + 500, b.float() + 500)
    torch.testing.assert_close(near, far, rtol=1e-3, atol=1e-3)
    assert (squared_distances(a, a) >= 0).all()
