"""The terms of Definition 1 against loops and torch.distributions."""

import math

import pytest
import torch

import oracles
from segma.cramer_wold import squared_distance
from segma.mixture import Mixture
from segma.objective import Terms, consistency, cross_entropy, log_distance, reconstruction


@pytest.fixture
def target() -> Mixture:
    means = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    return Mixture(weights, means, torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64))


def test_reconstruction_sums_over_pixels_and_averages_over_samples():
    x, x_hat = torch.rand(4, 3, 5, 5), torch.rand(4, 3, 5, 5)
    expected = sum(((x[i] - x_hat[i]) ** 2).sum().item() for i in range(4)) / 4
    assert reconstruction(x, x_hat).item() == pytest.approx(expected, rel=1e-5)


def test_log_distance(target):
    z = torch.randn(8, 2, dtype=torch.float64)
    expected = oracles.cw_gmm(
        z.numpy(), target.weights.numpy(), target.means.numpy(), target.variances.numpy(), 0.7, False
    )
    assert log_distance(z, target, 0.7).item() == pytest.approx(math.log(expected))
    assert log_distance(z, target, 0.7, "paper").item() == pytest.approx(
        squared_distance(Mixture.from_points(z), target, 0.7, "paper").log().item()
    )


def test_cross_entropy_is_over_the_labelled_rows_only(target):
    z, y = torch.randn(6, 2, dtype=torch.float64), torch.tensor([0, -1, 2, 1, -1, 0])
    twin = oracles.torch_mixture(target.weights, target.means, target.variances)
    expected = 0.0
    for i in (0, 2, 3, 5):
        part = twin.component_distribution.log_prob(z[i])[y[i]] + target.weights[y[i]].log()
        expected += (twin.log_prob(z[i]) - part).item() / 4
    assert cross_entropy(z, y, target).item() == pytest.approx(expected)


def test_cross_entropy_without_labels_is_zero_and_has_a_gradient(target):
    z = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    value = cross_entropy(z, torch.full((3,), -1), target)
    value.backward()
    assert value.item() == 0
    assert torch.equal(z.grad, torch.zeros(3, 2))


def test_consistency_teaches_only_where_the_model_is_sure(target):
    sure, unsure = torch.tensor([3.0, 0.0]), torch.tensor([1.4, 0.2])
    assert target.posterior(unsure[None].double()).max() < 0.95 < target.posterior(sure[None].double()).max()
    z = torch.stack([sure, unsure]).double().requires_grad_()
    strong = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    value = consistency(target.posterior(z), strong, target, 0.95)
    expected = -target.posterior(strong)[0, 1].log() / 2  # two rows, one of them counts
    assert value.item() == pytest.approx(expected.item())
    value.backward()
    assert z.grad is None
    assert strong.grad[1].abs().sum() == 0 < strong.grad[0].abs().sum()


def test_total_is_definition_1():
    terms = Terms(*(torch.tensor(v) for v in (3.0, -2.0, 0.5, 0.25, 0.0625, 0.125, 0.5)))
    assert terms.total(5, 10, 4, 16, 8).item() == 3 + 5 * -2 + 10 * 0.5 + 4 * 0.25 + 16 * 0.0625 + 8 * 0.125 + 0.5
    paper = terms._replace(criticism=torch.tensor(0.0))
    assert paper.total(5, 10).item() == 3 + 5 * -2 + 10 * 0.5
    assert paper.total(5, 10, 4).item() == 3 + 5 * -2 + 10 * 0.5 + 4 * 0.25
