"""Edits of codes against closed forms, and the density path against a shortest path on a grid."""

import doctest
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.decomposition import PCA

from segma import attributes, density, latent
from segma.data.celeba import CLASSES
from segma.errors import InputError
from segma.mixture import Mixture

RNG = np.random.default_rng(0)


def mixture(means, weights=None, variances=None) -> Mixture:
    means = torch.as_tensor(np.array(means, dtype=float))
    k = len(means)
    weights = torch.full((k,), 1 / k) if weights is None else torch.as_tensor(weights)
    return Mixture(weights.double(), means, torch.as_tensor(variances if variances is not None else [1.0] * k).double())


def random_mixture(k: int, d: int, apart: float, seed: int = 0) -> Mixture:
    """Means some `apart` from each other, unequal weights and variances."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, k)
    return mixture(
        rng.normal(size=(k, d)) * apart / math.sqrt(2 * d), weights / weights.sum(), rng.uniform(0.7, 1.4, k)
    )


def ints(values) -> torch.Tensor:
    return torch.tensor(np.array(values))


# ---- transfer and intensity


TARGET = random_mixture(5, 3, 6)
MU = TARGET.means.numpy()
Z = torch.from_numpy(RNG.normal(size=(20, 3)))
SOURCE, GOAL = RNG.integers(0, 5, 20), RNG.integers(0, 5, 20)


def test_transfer_at_0_stays_and_at_1_is_in_the_same_place_by_the_other_mean():
    assert torch.equal(latent.transfer(Z, ints(SOURCE), ints(GOAL), TARGET, 0.0), Z)
    there = latent.transfer(Z, ints(SOURCE), ints(GOAL), TARGET)
    np.testing.assert_allclose(there.numpy() - MU[GOAL], Z.numpy() - MU[SOURCE], atol=1e-12)


def test_transfer_there_and_back_is_the_identity():
    for t in (0.3, 1.0, 2.5):
        there = latent.transfer(Z, ints(SOURCE), ints(GOAL), TARGET, t)
        torch.testing.assert_close(latent.transfer(there, ints(GOAL), ints(SOURCE), TARGET, t), Z)


def test_transfer_is_linear_in_t():
    at = [latent.transfer(Z, ints(SOURCE), ints(GOAL), TARGET, t) for t in (-1.0, 0.0, 0.25, 1.0)]
    torch.testing.assert_close(at[2], 0.75 * at[1] + 0.25 * at[3])
    torch.testing.assert_close(at[0], 2 * at[1] - at[3])


@pytest.mark.parametrize("away", [[3], [0, 3], [4, 2, 1], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("alpha", [-0.7, 0.0, 0.5, 2.0])
def test_intensity_is_the_mean_of_the_differences(away, alpha):
    expected = [
        z + alpha * np.mean([MU[s] - MU[j] for j in away], axis=0) for z, s in zip(Z.numpy(), SOURCE, strict=True)
    ]
    np.testing.assert_allclose(latent.intensify(Z, ints(SOURCE), ints(away), TARGET, alpha).numpy(), expected)


def test_intensity_away_from_all_others():
    expected = [
        z + 0.5 * np.mean([MU[s] - MU[j] for j in range(5) if j != s], axis=0)
        for z, s in zip(Z.numpy(), SOURCE, strict=True)
    ]
    np.testing.assert_allclose(latent.intensify(Z, ints(SOURCE), None, TARGET, 0.5).numpy(), expected)
    alone = mixture([[1.0, 2.0, 3.0]])
    assert torch.equal(latent.intensify(Z, ints([0] * 20), None, alone, 0.5), Z)


# ---- attributes


def test_the_attributes_of_celeba():
    sex, smile = attributes.find(CLASSES)
    assert sex == (("not male", "male"), (0, 0, 1, 1))
    assert smile == (("not smiling", "smiling"), (0, 1, 0, 1))


@pytest.mark.parametrize(
    ("classes", "values"),
    [
        (["red_car", "red_bus", "blue_car", "blue_bus"], [("red", "blue"), ("car", "bus")]),
        (["a/1/x", "a/2/x", "b/1/x", "b/2/x"], [("a", "b"), ("1", "2")]),  # a part that never varies is none
        (["a,1", "b, 1", "a ,2", "b,2"], [("a", "b"), ("1", "2")]),
        (["big cat", "big dog", "old cat", "old dog", "shy cat", "shy dog"], [("big", "old", "shy"), ("cat", "dog")]),
        ([f"{a}-{b}-{c}" for a in "ab" for b in "cd" for c in "efg"], [("a", "b"), ("c", "d"), ("e", "f", "g")]),
        (["a, b", "a, c", "d, b"], []),  # not every combination
        (["big cat", "small cat"], []),  # one attribute is the classes themselves
        (["cat", "dog"], []),
        ([str(i) for i in range(10)], []),
        (["t-shirt", "trouser", "dress", "coat"], []),
        (["a"], []),
    ],
)
def test_attributes_from_names(classes, values):
    found = attributes.find(classes)
    assert [axis.values for axis in found] == values
    for i, name in enumerate(classes):
        for axis in found:
            assert axis.values[axis.groups[i]] in name


def test_names_are_located():
    assert attributes.locate(CLASSES, ["male, smiling"]) == (attributes.own(CLASSES), [3])
    assert attributes.locate(CLASSES, ["smiling"]) == (attributes.find(CLASSES)[1], [1])
    assert attributes.locate(CLASSES, ["male", "not male"]) == (attributes.find(CLASSES)[0], [1, 0])
    assert attributes.locate(CLASSES, []) == (attributes.own(CLASSES), [])
    for names, message in (
        (["smilling"], "class 'smilling': did you mean 'smiling'"),
        (["Male"], "class 'Male': did you mean 'male'"),
        (["xyz"], "class 'xyz': allowed are not male, not smiling, .*, male, not smiling, smiling"),
        (["male", "smiling"], "allowed are classes, or values of one attribute"),
        (["male", "male, smiling"], "allowed are classes, or values of one attribute"),
    ):
        with pytest.raises(InputError, match=message):
            attributes.locate(CLASSES, names)
    with pytest.raises(InputError, match="more than one attribute has it"):
        attributes.locate(["yes-yes", "yes-no", "no-yes", "no-no"], ["no"])
    assert doctest.testmod(attributes).failed == 0


def test_merged_components_are_at_the_mean_of_their_means():
    groups = (1, 0, 1, 2, 0)
    found = latent.merge(TARGET, groups)
    for g in range(3):
        rows = [i for i in range(5) if groups[i] == g]
        np.testing.assert_allclose(found.means[g], MU[rows].mean(axis=0))
        np.testing.assert_allclose(found.weights[g], TARGET.weights[rows].sum())
    same = latent.merge(TARGET, range(5))
    assert torch.equal(same.means, TARGET.means)
    single = Mixture(TARGET.weights.float(), TARGET.means.float(), TARGET.variances.float())
    assert latent.merge(single, groups).means.dtype == torch.float32


def test_an_attribute_edit_changes_one_attribute_and_keeps_the_other():
    """Classes at u_i + v_j, u and v at right angles, each a little off: the move is the average of the differences."""
    rng = np.random.default_rng(1)
    off = 0.3 * rng.normal(size=(2, 2, 5))
    off -= (
        off.mean(axis=1, keepdims=True) + off.mean(axis=0, keepdims=True) - off.mean(axis=(0, 1))
    )  # interaction alone
    means = np.array([[[4.0 * i, 0, 7.0 * j, 0, 0] for j in (0, 1)] for i in (0, 1)]) + off
    target = mixture(means.reshape(4, 5))
    z = torch.from_numpy(means.reshape(4, 5) + rng.normal(size=(4, 5)))
    axis, (goal,) = attributes.locate(CLASSES, ["smiling"])
    merged = latent.merge(target, axis.groups)
    source = latent.nearest_class(z, target, axis.groups)
    assert source.tolist() == [0, 1, 0, 1]
    moved = latent.transfer(z, source, torch.full_like(source, goal), merged)
    direction = (means[:, 1] - means[:, 0]).mean(axis=0)
    np.testing.assert_allclose(direction, [0, 0, 7, 0, 0], atol=1e-12)
    np.testing.assert_allclose(moved, z.numpy() + np.array([1, 0, 1, 0])[:, None] * direction, atol=1e-12)
    np.testing.assert_allclose(moved[:, 0], z[:, 0])  # male or not is left alone
    assert latent.nearest_class(moved, target, attributes.find(CLASSES)[0].groups).tolist() == [0, 0, 1, 1]
    assert latent.nearest_class(moved, target).tolist() == [1, 1, 3, 3]


def test_the_group_of_a_code_has_the_largest_sum_of_posteriors():
    groups, z = (0, 1, 0, 1, 1), torch.from_numpy(2 * RNG.normal(size=(300, 3)))
    posterior = TARGET.posterior(z).numpy()
    expected = posterior[:, [1, 3, 4]].sum(axis=1) > posterior[:, [0, 2]].sum(axis=1)
    found = latent.nearest_class(z, TARGET, groups)
    assert found.tolist() == expected.astype(int).tolist()
    best = np.array(groups)[posterior.argmax(axis=1)]
    assert (found.numpy() != best).any()  # which is not always the group of the likeliest class
    assert latent.nearest_class(z, TARGET).tolist() == posterior.argmax(axis=1).tolist()


# ---- distances and the plane


def test_class_distances_and_the_plane_of_the_means():
    target = random_mixture(9, 6, 5)
    np.testing.assert_allclose(latent.class_distances(target), cdist(target.means, target.means), atol=1e-12)
    centre, axes, share = latent.plane(target)
    peer = PCA(2).fit(target.means.numpy())
    np.testing.assert_allclose(share, peer.explained_variance_ratio_)
    found = (target.means - centre) @ axes
    expected = peer.transform(target.means.numpy())
    np.testing.assert_allclose(found, expected * np.sign((found.numpy() * expected).sum(axis=0)), atol=1e-10)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 4), (2, 1), (2, 5), (7, 1), (7, 2)])
def test_a_plane_of_few_means_or_dimensions(k, d):
    target = random_mixture(k, d, 3)
    centre, axes, share = latent.plane(target)
    assert (centre.shape, axes.shape, share.shape) == ((d,), (d, 2), (2,))
    gram = axes.T @ axes
    torch.testing.assert_close(gram, torch.diag(torch.tensor([1.0, float(d > 1)])).double())
    assert share.isfinite().all()
    assert float(share.sum()) == pytest.approx(float(k > 1))


# ---- straight paths


def test_linear_interpolation_is_even_and_exact_at_the_ends():
    a, b = Z[:10], Z[10:]
    found = latent.interpolate(a, b, 7, TARGET)
    np.testing.assert_allclose(found, np.linspace(a.numpy(), b.numpy(), 7).transpose(1, 0, 2), atol=1e-12)
    assert torch.equal(found[:, 0], a)
    assert torch.equal(found[:, -1], b)


@pytest.mark.parametrize("path", latent.PATHS)
def test_any_path_runs_between_its_ends(path):
    for steps in (2, 3, 40):
        for dtype in (torch.float32, torch.float64):
            a, b = Z[:3].to(dtype), Z[3:6].to(dtype)
            found = latent.interpolate(a, b, steps, TARGET, path)
            assert found.shape == (3, steps, 3)
            assert found.dtype == dtype
            assert torch.equal(found[:, 0], a)
            assert torch.equal(found[:, -1], b)
            assert latent.interpolate(a[:0], b[:0], steps, TARGET, path).shape == (0, steps, 3)


def test_wrong_paths():
    with pytest.raises(InputError, match="path 'curved': allowed are linear, density"):
        latent.interpolate(Z, Z, 3, TARGET, "curved")
    with pytest.raises(InputError, match="NaN or infinite"):
        latent.interpolate(Z, Z.where(Z > 1, torch.nan), 3, TARGET, "density")
    with pytest.raises(InputError, match="steps = 1: at least 2"):
        latent.interpolate(Z, Z, 1, TARGET)


# ---- the density path


def log_density(z: np.ndarray, target: Mixture) -> np.ndarray:
    """By scipy, sharing nothing with segma."""
    weights, means, variances = (part.numpy() for part in (target.weights, target.means, target.variances))
    sq = cdist(z, means, "sqeuclidean")
    norm = means.shape[1] / 2 * np.log(2 * np.pi * variances)
    return logsumexp(np.log(weights) - norm - sq / (2 * variances), axis=1)


def metric(z: np.ndarray, level: float, target: Mixture) -> np.ndarray:
    return np.hypot(1, np.maximum(0, level - log_density(z, target)))


def cost(path: np.ndarray, target: Mixture) -> float:
    """The length of a path of points, finely integrated."""
    level = log_density(path[[0, -1]], target).min()
    share, steps = (np.arange(20) + 0.5) / 20, np.diff(path, axis=0)
    fine = (path[:-1, None] + share[:, None] * steps[:, None]).reshape(-1, path.shape[1])
    return float(metric(fine, level, target).reshape(-1, 20).mean(axis=1) @ np.linalg.norm(steps, axis=1))


def bent(a, b, target: Mixture, steps: int = 65) -> np.ndarray:
    a, b = (torch.as_tensor(np.array(x, dtype=float))[None] for x in (a, b))
    return density.path(a, b, steps, target)[0].numpy()


def straight(a, b, steps: int = 65) -> np.ndarray:
    return np.linspace(np.array(a, dtype=float), np.array(b, dtype=float), steps)


def grid_cost(a, b, target: Mixture, margin: float = 4.0, spacing: float = 0.15) -> float:
    """The length of the shortest path on a grid, by Dijkstra; moves in 32 directions, so at most 1 % too long."""
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    corners = np.vstack([a, b, target.means.numpy()])
    low = corners.min(axis=0) - margin
    sides = np.ceil((corners.max(axis=0) + margin - low) / spacing).astype(int)
    points = low + spacing * np.stack(np.meshgrid(*map(np.arange, sides), indexing="ij"), axis=-1).reshape(-1, 2)
    level = log_density(np.stack([a, b]), target).min()
    number = np.arange(len(points)).reshape(sides)
    moves = [(i, j) for i, j in itertools.product(range(-4, 5), repeat=2) if math.gcd(i, j) == 1 and (i, j) > (0, 0)]
    rows, columns, lengths = [], [], []
    for i, j in moves:
        here = number[max(0, -i) : sides[0] - max(0, i), max(0, -j) : sides[1] - max(0, j)].ravel()
        there = number[max(0, i) : sides[0] - max(0, -i), max(0, j) : sides[1] - max(0, -j)].ravel()
        middle = [metric(points[here] + s * (points[there] - points[here]), level, target) for s in (1 / 6, 0.5, 5 / 6)]
        rows.append(here)
        columns.append(there)
        lengths.append(np.mean(middle, axis=0) * spacing * math.hypot(i, j))
    graph = coo_matrix((np.concatenate(lengths), (np.concatenate(rows), np.concatenate(columns))), (len(points),) * 2)
    start, end = (int(np.square(points - x).sum(axis=1).argmin()) for x in (a, b))
    return float(dijkstra(graph.tocsr(), directed=False, indices=start)[end])


ANGLES = 2 * np.pi * np.arange(8) / 8
RING = mixture(10 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1))
CASES = {
    "across a gap": (mixture([[-4, 0], [4, 0]]), [-4, 2], [4, 2]),
    "unequal": (mixture([[-3, 0], [4, 1]], [0.8, 0.2], [1.5, 0.5]), [-4, -2], [4.5, 2]),
    "around an empty middle": (RING, [10, 0.5], [-10.3, 0]),
    "a quarter around": (RING, [10, 0], [0, 10.5]),
    "by way of a third": (mixture([[-6, 0], [6, 0], [0, 4]]), [-6, -0.5], [6, -0.5]),
    "a third that is too far": (mixture([[-3, 0], [3, 0], [0, 30]]), [-3, 1], [3, 1]),
    "two ways round alike": (mixture([[-8, 0], [8, 0], [0, 5], [0, -5]]), [-8, 0], [8, 0]),
    "many": (random_mixture(12, 2, 14, 5), [-5, -5], [6, 4]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_density_path_is_as_short_as_the_shortest_on_a_grid(case):
    target, a, b = CASES[case]
    found, best = cost(bent(a, b, target), target), grid_cost(a, b, target)
    assert 0.97 * best <= found <= 1.015 * best
    assert found <= cost(straight(a, b), target) * (1 + 1e-9)


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"many", "unequal"}))  # there the line crosses at the best place
def test_the_density_path_avoids_what_is_empty(case):
    target, a, b = CASES[case]
    level = log_density(np.array([a, b], dtype=float), target).min()
    least, before = (log_density(path, target).min() - level for path in (bent(a, b, target), straight(a, b)))
    assert before < -0.5
    assert least > before + 0.1


@pytest.mark.parametrize("d", [1, 2, 10, 64])
def test_a_single_gaussian_leaves_the_line_straight(d):
    target = mixture(RNG.normal(size=(1, d)), variances=[2.0])
    a, b = (torch.from_numpy(3 * RNG.normal(size=(20, d))) for _ in range(2))
    torch.testing.assert_close(density.path(a, b, 11, target), latent.linear(a, b, 11, target), atol=1e-9, rtol=0)


def test_a_line_that_is_nowhere_less_likely_than_its_ends_stays():
    target = random_mixture(10, 20, 6)
    a, b = (target.sample(60, torch.Generator().manual_seed(i)) for i in (0, 1))
    line, path = latent.linear(a, b, 65, target), density.path(a, b, 65, target)
    along = np.stack([log_density(z, target) for z in line.numpy()])
    stays = (along >= np.minimum(along[:, :1], along[:, -1:]) - 1e-12).all(axis=1)
    assert 10 < stays.sum() < 60
    np.testing.assert_allclose(path[stays], line[stays], atol=1e-9)
    assert ((path - line).norm(dim=2).amax(dim=1)[~stays] > 1e-4).all()


def test_between_two_means_the_line_is_straight():
    """Bending off the axis through both means only lowers the density, on either side alike."""
    for d in (2, 5):
        target = mixture(np.eye(2, d) * 6)
        ends = target.means.numpy()
        np.testing.assert_allclose(bent(*ends, target), straight(*ends), atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.floats(0.1, 30))
def test_what_any_density_path_must_be(seed, k, d, apart):
    target = random_mixture(k, d, apart, seed)
    generator = torch.Generator().manual_seed(seed)
    a, b = target.sample(2, generator), target.sample(2, generator)
    found = density.path(a, b, 129, target)
    assert found.isfinite().all()
    assert torch.equal(found, density.path(a, b, 129, target))
    assert torch.equal(found, density.path(b, a, 129, target).flip(1))
    torch.testing.assert_close(found[:1], density.path(a[:1], b[:1], 129, target), atol=1e-9, rtol=0)
    sizes = found.diff(dim=1).norm(dim=2)
    assert (sizes <= 1.0001 * sizes.median(dim=1, keepdim=True).values).all()  # an even pace but at corners
    assert (sizes.mean(dim=1) > 0.98 * sizes.amax(dim=1)).all()
    for path in found.numpy():
        assert cost(path, target) <= cost(straight(path[0], path[-1]), target) * (1 + 1e-3)


def test_turned_and_shifted_it_is_the_same_path():
    turn = np.linalg.qr(RNG.normal(size=(2, 2)))[0]
    shift = np.array([3.0, -7.0])
    for target, a, b in (CASES["across a gap"], CASES["by way of a third"], CASES["a quarter around"]):
        other = mixture(target.means.numpy() @ turn + shift)
        expected = bent(a, b, target) @ turn + shift
        found = bent(np.array(a) @ turn + shift, np.array(b) @ turn + shift, other)
        np.testing.assert_allclose(found, expected, atol=0.02)


def test_nothing_makes_it_nan():
    target = random_mixture(4, 3, 5)
    ends = [[0, 0, 0], [1e-30, 0, 0], [1e6, -1e6, 1e6], [1e30, 0, 0], [1e200, 1e200, 0], [3, 3, 3]]
    ends = torch.tensor(ends, dtype=torch.float64)
    one, lost = mixture([[0.0, 0, 0]]), mixture(target.means[:2].numpy(), [1.0, 0.0])
    a, b = ends.repeat(6, 1), ends.repeat_interleave(6, dim=0)
    for other in (target, one, lost, mixture([[1.0, 2, 3]] * 3)):
        assert density.path(a, b, 11, other).isfinite().all()
    same = density.path(Z, Z, 5, TARGET)
    torch.testing.assert_close(same, Z[:, None].expand(-1, 5, -1), atol=1e-12, rtol=0)
    single = density.path(Z.float()[:2], Z.float()[2:4], 5, TARGET)
    torch.testing.assert_close(single.double(), density.path(Z[:2], Z[2:4], 5, TARGET), atol=1e-3, rtol=0)


def test_many_classes_in_many_dimensions():
    """Also with gradients switched off, as callers have it."""
    target = random_mixture(100, 64, 25, 2)
    a, b = (target.place(torch.tensor([k, k]), torch.randn(2, target.d, dtype=target.means.dtype)) for k in (0, 99))
    with torch.no_grad():
        found = density.path(a, b, 65, target)
    for path in found.numpy():
        assert cost(path, target) < 0.8 * cost(straight(path[0], path[-1]), target)


def test_a_chain_of_springs_moves_as_its_matrix_says():
    give, push = RNG.uniform(0.1, 2, (2, 7)), RNG.normal(size=(2, 6, 3))
    found = density.chain(torch.from_numpy(push), torch.from_numpy(give)).numpy()
    for i in range(2):
        stiff = 1 / give[i]
        matrix = np.diag(stiff[1:] + stiff[:-1]) - np.diag(stiff[1:-1], 1) - np.diag(stiff[1:-1], -1)
        np.testing.assert_allclose(found[i], np.linalg.solve(matrix, push[i]))


def test_points_at_equal_distances():
    line = np.cumsum(RNG.normal(size=(3, 9, 2)), axis=1)
    found = density.resample(torch.from_numpy(line), 20).numpy()
    for points, path in zip(found, line, strict=True):
        far = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
        at = np.linspace(0, far[-1], 20)
        np.testing.assert_allclose(points, np.stack([np.interp(at, far, path[:, j]) for j in range(2)], axis=1))


# ---- all edits at once


TOWARDS, INTENSITY = {"b": 0.4, "d": 0.3}, {"c": 0.5, "e": -0.2}


def test_an_edit_is_the_sum_of_its_parts():
    """Against a loop over codes and classes in numpy."""
    expected = []
    for z, s in zip(Z.numpy(), SOURCE, strict=True):
        out = z + (0.5 - 1) * (z - MU[s])
        for name, t in TOWARDS.items():
            out = out + t * (MU["abcde".index(name)] - MU[s])
        for name, a in INTENSITY.items():
            c = "abcde".index(name)
            out = out + a * (MU[c] - np.delete(MU, c, axis=0).mean(axis=0))
        axes = PCA(2).fit(MU).components_
        axes = np.stack([axis * np.sign(axis[np.abs(axis).argmax()]) for axis in axes])
        expected.append(out + 1.5 * axes[0] - 0.7 * axes[1])
    pushed = latent.pushes("abcde", TOWARDS, INTENSITY)
    found = latent.edit(Z, TARGET, pushed, 0.5, (1.5, -0.7), ints(SOURCE))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_an_edit_of_nothing_changes_nothing_to_the_last_bit():
    assert torch.equal(latent.edit(Z, TARGET), Z)
    assert torch.equal(latent.edit(Z, TARGET, latent.pushes("abcde", {"a": 0.0}, {"b": 0.0})), Z)


def test_an_edit_by_one_amount_is_transfer_or_intensify():
    own = latent.nearest_class(Z, TARGET)
    one = latent.edit(Z, TARGET, latent.pushes("abcde", {"b": 0.4}, {}))
    torch.testing.assert_close(one, latent.transfer(Z, own, torch.full_like(own, 1), TARGET, 0.4))
    one = latent.edit(Z, TARGET, latent.pushes("abcde", {}, {"c": -0.8}))
    torch.testing.assert_close(one, latent.intensify(Z, torch.full_like(own, 2), None, TARGET, -0.8))


def test_an_edit_along_an_attribute_keeps_the_others():
    target = random_mixture(4, 3, 6, seed=1)
    names = ["old, sad", "old, happy", "young, sad", "young, happy"]
    own = ints(RNG.integers(0, 4, len(Z)))
    mu, sad = target.means.numpy(), own.numpy() % 2 == 0
    step = (mu[[1, 3]].mean(axis=0) - mu[[0, 2]].mean(axis=0)) * 0.6
    found = latent.edit(Z, target, latent.pushes(names, {"happy": 0.6}, {}), source=own)
    np.testing.assert_allclose(found.numpy(), Z.numpy() + np.where(sad[:, None], step, 0), atol=1e-12)
    by_posterior = latent.edit(Z, target, latent.pushes(names, {"happy": 0.6}, {}))
    group = latent.nearest_class(Z, target, (0, 1, 0, 1)).numpy()
    np.testing.assert_allclose(by_posterior.numpy(), Z.numpy() + np.where(group[:, None] == 0, step, 0), atol=1e-12)


def test_style_0_is_the_mean_and_a_single_class_has_no_intensity():
    np.testing.assert_allclose(latent.edit(Z, TARGET, style=0.0, source=ints(SOURCE)).numpy(), MU[SOURCE], atol=1e-12)
    alone = mixture([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(latent.edit(Z, alone, latent.pushes("a", {}, {"a": 2.0})), Z)


def test_a_shift_moves_a_code_on_the_plane_and_nowhere_else():
    moved = latent.edit(Z, TARGET, shift=(2.0, -1.0))
    step = latent.on_plane(moved, TARGET) - latent.on_plane(Z, TARGET)
    np.testing.assert_allclose(step.numpy(), np.tile([2.0, -1.0], (len(Z), 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm((moved - Z).numpy(), axis=1), math.sqrt(5))


def test_pushes_name_what_is_not_a_class():
    with pytest.raises(InputError, match="class 'x'"):
        latent.pushes("abcde", {"x": 1.0}, {})
