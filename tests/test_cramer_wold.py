"""phi, the inner product and the distance against series, loops, random lines and finite differences."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from segma import cramer_wold
from segma.cramer_wold import inner, phi, silverman, squared_distance
from segma.mixture import Mixture

GRID = [0, 1e-9, 1e-4, 0.03, 0.3, 1, 2.5, 7, 11, 29.5, 64, 100, 333, 1000, 4321, 9999, 1e4]


def mixture(k: int, d: int, seed: int, dtype=torch.float64, spread: float = 2.0) -> Mixture:
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(k, generator=g, dtype=torch.float64) + 0.2
    means = spread * torch.randn(k, d, generator=g, dtype=torch.float64)
    variances = 0.2 + 2 * torch.rand(k, generator=g, dtype=torch.float64)
    return Mixture((weights / weights.sum()).to(dtype), means.to(dtype), variances.to(dtype))


def arrays(p: Mixture) -> tuple:
    return p.weights.numpy(), p.means.numpy(), p.variances.numpy()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 9, 10, 20, 32, 64, 301])
def test_exact_phi_and_its_slope(d):
    s = torch.tensor(GRID, dtype=torch.float64, requires_grad=True)
    value = phi(s, d, "exact")
    (slope,) = torch.autograd.grad(value.sum(), s)
    expected = torch.tensor([oracles.phi(x, d) for x in GRID], dtype=torch.float64)
    expected_slope = torch.tensor([oracles.phi_slope(x, d) for x in GRID], dtype=torch.float64)
    torch.testing.assert_close(value.detach(), expected, rtol=1e-10, atol=1e-300)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-8, atol=1e-300)


@settings(deadline=None, max_examples=60)
@given(st.floats(0, 1e4), st.integers(1, 80))
def test_exact_phi_anywhere(s, d):
    value = phi(torch.tensor([s], dtype=torch.float64), d, "exact").item()
    assert value == pytest.approx(oracles.phi(s, d), rel=1e-6, abs=1e-300)


def test_exact_phi_passes_gradcheck():
    s = torch.tensor([0.02, 0.7, 5.0, 60.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: phi(s, 5, "exact"), s)


@pytest.mark.parametrize("form", ["exact", "paper"])
def test_what_is_not_a_number_stays_so(form):
    value = phi(torch.tensor([1.0, math.nan, math.inf]), 5, form)
    assert value.isnan().tolist()[:2] == [False, True]


def test_paper_phi_is_the_formula_of_the_paper():
    s = torch.tensor([0.0, 1.0, 17.0], dtype=torch.float64)
    expected = [(1 + 4 * x / (2 * 12 - 3)) ** -0.5 for x in s.tolist()]
    assert phi(s, 12, "paper").tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("d", "worst"), [(2, 0.3075), (5, 0.0566), (10, 0.0228), (20, 0.0103), (64, 0.00302)])
def test_how_far_the_paper_is_off(d, worst):
    s = torch.linspace(0, 100, 20001, dtype=torch.float64)
    exact = phi(s, d, "exact")
    assert ((phi(s, d, "paper") - exact).abs() / exact).max().item() == pytest.approx(worst, rel=0.01)


def test_auto_is_the_paper_from_ten_dimensions_on():
    s = torch.tensor([3.0], dtype=torch.float64)
    for d in (2, 9):
        assert torch.equal(phi(s, d), phi(s, d, "exact"))
    for d in (10, 20):
        assert torch.equal(phi(s, d), phi(s, d, "paper"))
    with pytest.raises(ValueError, match="d >= 2"):
        phi(s, 1, "paper")


@pytest.mark.parametrize("form", ["paper", "exact"])
@pytest.mark.parametrize("d", [2, 6, 12])
def test_distance_of_a_sample_is_eq_cw_gmm(d, form):
    z, target = np.random.default_rng(0).normal(size=(9, d)), mixture(3, d, 1)
    points = Mixture.from_points(torch.from_numpy(z))
    expected = oracles.cw_gmm(z, *arrays(target), gamma=0.4, approximate=form == "paper")
    assert squared_distance(points, target, 0.4, form).item() == pytest.approx(expected, rel=1e-9)


def test_distance_to_the_standard_normal_is_eq_cw_gauss_data():
    z, one = np.random.default_rng(0).normal(size=(8, 4)), np.ones(1)
    target = Mixture(torch.ones(1).double(), torch.zeros(1, 4).double(), torch.ones(1).double())
    expected = oracles.cw_gmm(z, one, np.zeros((1, 4)), one, gamma=0.3, approximate=False)
    assert squared_distance(Mixture.from_points(torch.from_numpy(z)), target, 0.3).item() == pytest.approx(expected)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_distance_is_what_random_lines_say(d):
    p, q = mixture(3, d, 1), mixture(2, d, 2)
    value, error = oracles.projected_distance(arrays(p), arrays(q), gamma=0.5, directions=600, seed=0)
    assert squared_distance(p, q, 0.5, "exact").item() == pytest.approx(value, abs=4 * error + 1e-9)


def test_points_on_lines():
    """The sample as points, from the definition: its smoothed projection is a kernel density estimate."""
    z, q = torch.randn(6, 3, dtype=torch.float64), mixture(2, 3, 2)
    p = Mixture.from_points(z)
    value, error = oracles.projected_distance(arrays(p), arrays(q), gamma=0.3, directions=600, seed=0)
    assert squared_distance(p, q, 0.3, "exact").item() == pytest.approx(value, abs=4 * error + 1e-9)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 14), st.integers(0, 10**6), st.floats(0.05, 3), st.sampled_from(["auto", "exact"]))
def test_what_a_distance_must_be(d, seed, gamma, form):
    p, q = mixture(4, d, seed), mixture(3, d, seed + 1)
    value = squared_distance(p, q, gamma, form).item()
    assert squared_distance(p, p, gamma, form).item() == pytest.approx(0, abs=1e-14)
    assert squared_distance(q, p, gamma, form).item() == pytest.approx(value, rel=1e-9, abs=1e-14)
    assert value >= -1e-14
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64)).Q
    shift = torch.randn(d, dtype=torch.float64)
    moved = [Mixture(m.weights, m.means @ turn + shift, m.variances) for m in (p, q)]
    assert squared_distance(*moved, gamma, form).item() == pytest.approx(value, rel=1e-8, abs=1e-14)


def test_inner_is_bilinear():
    p, q, r = mixture(2, 5, 1), mixture(3, 5, 2), mixture(2, 5, 3)
    both = Mixture(
        torch.cat([0.3 * p.weights, 0.7 * q.weights]),
        torch.cat([p.means, q.means]),
        torch.cat([p.variances, q.variances]),
    )
    expected = 0.3 * inner(p, r, 0.2) + 0.7 * inner(q, r, 0.2)
    torch.testing.assert_close(inner(both, r, 0.2), expected)


@pytest.mark.parametrize("d", [3, 12])
def test_gradients_by_finite_differences(d):
    target = mixture(3, d, 1)
    z = torch.randn(5, d, dtype=torch.float64, requires_grad=True)
    means = target.means.clone().requires_grad_()
    variances = target.variances.clone().requires_grad_()
    weights = target.weights.clone().requires_grad_()

    def loss(z, weights, means, variances):
        return squared_distance(Mixture.from_points(z), Mixture(weights, means, variances), 0.3)

    assert torch.autograd.gradcheck(loss, (z, weights, means, variances))


@pytest.mark.parametrize("form", ["auto", "exact"])
@pytest.mark.parametrize("distance", [1.0, 8.0])
def test_float32_keeps_four_digits(form, distance):
    """At its smallest, for a sample that matches the target: there d^2 is a difference of much larger terms."""
    means = torch.eye(10, 20, dtype=torch.float64) * distance / math.sqrt(2)
    target = Mixture(torch.full((10,), 0.1).double(), means, torch.ones(10).double())
    z = target.sample(2000, generator=torch.Generator().manual_seed(0)).float()
    low = Mixture(target.weights.float(), means.float(), torch.ones(10))
    for shift in (0.0, 30.0):
        high = Mixture(low.weights.double(), low.means.double() + shift, low.variances.double())
        exact = squared_distance(Mixture.from_points((z + shift).double()), high, silverman(200), form)
        moved = Mixture(low.weights, low.means + shift, low.variances)
        found = squared_distance(Mixture.from_points(z + shift), moved, silverman(200), form)
        assert found.dtype == torch.float32
        assert found.item() == pytest.approx(exact.item(), rel=1e-4)


MEMORY = """
import resource, sys, torch
from segma import cramer_wold
from segma.cramer_wold import squared_distance
from segma.mixture import Mixture
n, d = map(int, sys.argv[1:])
target = Mixture(torch.ones(1), torch.zeros(1, d), torch.ones(1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
z = torch.randn(n, d, requires_grad=True)
squared_distance(Mixture.from_points(z), target, 0.1).log().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_of_the_distance_and_its_gradient_is_linear():
    """One float64 per pair of 6,000 would be 288 MB, one per pair and coordinate of 1,500 in 400 dimensions 7.2 GB."""

    def used(n: str, d: str) -> int:
        return int(subprocess.run([sys.executable, "-c", MEMORY, n, d], capture_output=True, check=True).stdout)

    few = used("1000", "5")
    assert used("6000", "5") < few + 60_000  # KiB
    assert used("1500", "400") < few + 60_000


def test_blocks_do_not_show(monkeypatch):
    z, target = torch.randn(37, 6, dtype=torch.float64, requires_grad=True), mixture(3, 6, 1)
    found = []
    for size in (2**18, 100, 1):
        monkeypatch.setitem(cramer_wold.BLOCK, "cpu", size)
        value = squared_distance(Mixture.from_points(z), target, 0.3)
        found.append((value.detach(), *torch.autograd.grad(value, z)))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-12, atol=1e-14)


def test_silverman():
    assert silverman(10) == pytest.approx((4 / 30) ** (2 / 5))
    assert [round(silverman(n), 4) for n in (10, 100, 64, 20)] == [
        0.4467,
        0.1778,
        0.2126,
        0.3385,
    ]  # the authors' values
