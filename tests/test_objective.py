"""The terms of Definition 1 against loops and torch.distributions."""

import math

import pytest
import torch

import oracles
from segma.cramer_wold import squared_distance
from segma.mixture import Mixture
from segma.objective import Terms, balance, consistency, cross_entropy, log_distance, reconstruction


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


@pytest.fixture
def apart(target) -> Mixture:
    """Components so far from each other that every posterior is 0 or 1."""
    return Mixture(target.weights, 100 * target.means, target.variances)


def drawn(target: Mixture, counts: tuple[int, ...]) -> torch.Tensor:
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return target.place(
        y, torch.randn(len(y), target.d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    )


def test_balanced_codes_of_a_class_weigh_its_share(target, apart):
    z = drawn(apart, (50, 30, 20))
    found = balance(z, apart)
    assert [part.sum().item() for part in found.split([50, 30, 20])] == pytest.approx([0.5, 0.2, 0.3])
    z = drawn(target, (50, 30, 20))  # that overlap: each of a code's classes by its posterior
    twin = oracles.torch_mixture(target.weights, target.means, target.variances)
    log_joint = twin.component_distribution.log_prob(z[:, None]) + twin.mixture_distribution.logits
    r = log_joint.softmax(dim=1).numpy()
    expected = [sum(r[i, k] * target.weights[k].item() / r[:, k].sum() for k in range(3)) for i in range(100)]
    assert balance(z, target).tolist() == pytest.approx(expected)
    few = balance(drawn(apart, (90, 5, 5)), apart).split([90, 5, 5])  # 0.05 of 0.2 and of 0.3: less than half
    assert [part.sum().item() for part in few] == pytest.approx([0.5, 2 * 0.05, 2 * 0.05])


def test_a_balanced_distance_minds_shapes_and_no_shares(apart):
    even, odd = drawn(apart, (500, 200, 300)), drawn(apart, (300, 400, 300))
    twice = torch.cat([even, even[:500]])  # every code of one class again
    for balanced, alike in ((True, True), (False, False)):
        first, other, more = (log_distance(z, apart, 0.3, balanced=balanced).item() for z in (even, odd, twice))
        assert (more == pytest.approx(first, abs=1e-6)) == alike
        assert (other < first + 1) == alike
    wide = apart.means[1] + 3 * (even[500:700] - apart.means[1])
    wrong = torch.cat([even[:500], wide, even[700:]])
    assert log_distance(wrong, apart, 0.3, balanced=True) > log_distance(even, apart, 0.3, balanced=True) + 1


def test_gradient_of_the_balanced_distance_goes_through_the_weights(target):
    z = drawn(target, (6, 3, 4)).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: log_distance(z, target, 0.3, balanced=True), z)


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
