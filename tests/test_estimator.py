"""SeGMA as scikit-learn checks it, and each method against arithmetic that shares no code with it."""

import copy
import math
import pickle
import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracles
from segma import SeGMA, apply, launch, measure, runs
from segma.errors import InputError
from segma.metrics.accuracy import error

FAILS_BY_CONTRACT = {
    "check_classifiers_classes": "its last case has the classes -1 and 1, but y = -1 means unlabelled (scikit-learn "
    "spares its own semi-supervised classifiers by name); its cases of text labels are test_labels_of_any_kind",
}
SMALL = {"epochs": 10, "batch_size": 64, "device": "cpu", "random_state": 0}
NET = {"network": "mlp", "hidden": (16,), "filters": (), "learning_rate": 0.02, "views": "none", "train_weights": False}


def small(**changes) -> SeGMA:
    return SeGMA(**{"latent_dim": 2, "settings": NET} | SMALL | changes)


# scikit-learn's own checks. The first warning is theirs: they hand in a column y to see that it is warned of.
# The second is ours: they fit on columns that are constant.
@pytest.mark.filterwarnings("ignore:A column-vector y was passed:sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:.* constant features carry nothing:UserWarning")
@parametrize_with_checks([small()], expected_failed_checks=lambda _: FAILS_BY_CONTRACT)
def test_scikit_learn(estimator, check):
    check(estimator)


# ---- a table of three classes in two columns of very different units, and images of three patterns

SHIFT, SCALE = np.array([100.0, -5.0]), np.array([10.0, 0.1])


def table(n: int = 90) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, the labels, and the labels with two thirds hidden (of class 2 half of what is left, so that shares differ)."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    x = np.array([[0, 2], [2, -1], [-2, -1]])[truth] + 0.5 * rng.normal(size=(n, 2))
    y = np.where((np.arange(n) // 3) % 3 == 0, truth, -1)
    y[(truth == 2) & (np.arange(n) % 2 == 0)] = -1
    return x * SCALE + SHIFT, truth, y


def pictures(n: int = 60, side: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Grey float images (n, side, side), each bright in the third of its class."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    x = 0.2 * rng.random((n, side, side))
    for i, c in enumerate(truth):
        x[i, 2 * c : 2 * c + 2] += 0.8
    return x, truth


X, TRUTH, Y = table()
IMAGES, PATTERN = pictures()


def as_bytes(images: np.ndarray) -> np.ndarray:
    return np.round(255 * images).astype(np.uint8)


@pytest.fixture(scope="module")
def model() -> SeGMA:
    return small().fit(X, Y)


@pytest.fixture(scope="module")
def pictured() -> SeGMA:
    return small().fit(as_bytes(IMAGES), PATTERN)


@pytest.fixture
def linear(model) -> SeGMA:
    """Its codes are the standardised columns and its samples the codes in the columns' units; means by hand."""
    stub = copy.deepcopy(model)
    stub.model_.encoder = stub.model_.decoder = torch.nn.Identity()
    stub.model_.means.copy_(torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]]))
    return stub


def layers(network: torch.nn.Module) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(m.weight.numpy(), m.bias.numpy()) for m in network.modules() if isinstance(m, torch.nn.Linear)]


def forward(x: np.ndarray, network: torch.nn.Module) -> np.ndarray:
    """A net of one hidden layer in numpy."""
    (w1, b1), (w2, b2) = layers(network)
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


# ---- fit


def test_what_is_learned_belongs_to_the_labelled_classes(model):
    assert model.classes_.tolist() == [0, 1, 2]
    counts = np.bincount(Y[Y >= 0])
    assert len(set(counts)) > 1
    np.testing.assert_allclose(model.model_.mixture.weights.numpy(), counts / counts.sum(), rtol=1e-6)
    assert model.n_features_in_ == 2
    assert model.config_.latent_dim == 2
    assert set(model.losses_) >= {"reconstruction", "log_distance", "cross_entropy", "loss"}


@pytest.mark.parametrize(
    ("names", "unlabelled", "form"),
    [
        ([0, 1, 2], -1, np.int32),
        ([0, 1, 2], -1, np.float64),
        ([0, 1, 2], -1, object),
        ([0, 1, 2], -1, list),
        ([7, 30, 100], -1, np.int64),
        ([-7, -2, 4], -1, np.int64),
        (["ant", "bee", "cat"], "", str),
        (["ant", "bee", "cat"], "", object),
        (["ant", "bee", "cat"], -1, object),
        (["ant", "bee", "cat"], -1, list),
    ],
)
def test_labels_of_any_kind(model, names, unlabelled, form):
    given = [names[c] if c >= 0 else unlabelled for c in Y]
    other = small().fit(X, given if form is list else np.array(given, dtype=form))
    assert other.classes_.tolist() == names
    assert other.classes_.dtype.kind == np.array(names, dtype=form if form is np.float64 else None).dtype.kind
    assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    assert other.predict(X).tolist() == [names[c] for c in model.predict(X)]
    assert other.score(X, given) == model.score(X, Y)


def test_two_truth_values_are_classes():
    two = TRUTH < 2
    fitted = small().fit(X[two], TRUTH[two] == 1)
    assert fitted.classes_.tolist() == [False, True]
    assert fitted.predict(X).dtype == bool


def test_the_unlabelled_rows_teach_too(model):
    other = X.copy()
    other[Y == -1] += np.random.default_rng(1).normal(size=((Y == -1).sum(), 2)) * SCALE
    assert not np.array_equal(small().fit(other, Y).transform(X), model.transform(X))


def test_classes_may_be_more_frequent_than_their_labels():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [480, 60, 60])
    x = rng.normal(size=(600, 5)) + 3.5 * np.eye(3, 5)[truth]
    y = np.where(np.concatenate([np.arange(n) for n in (480, 60, 60)]) < 10, truth, -1)
    learned = SeGMA(device="cpu", random_state=0).fit(x, y)
    held = SeGMA(device="cpu", random_state=0, settings={"train_weights": False}).fit(x, y)
    assert learned.class_shares_ == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    assert held.class_shares_ == pytest.approx([1 / 3] * 3)
    assert np.mean(learned.predict(x) != truth) < np.mean(held.predict(x) != truth)


def test_samples_of_a_narrow_table_are_where_its_classes_are():
    """With a quarter of the steps they were up to a deviation and a half off, the classes right all the same."""
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    x = np.array([[40, 118, 70], [50, 135, 62], [63, 155, 52]])[truth] + [8, 9, 5] * rng.normal(size=(300, 3))
    model = SeGMA(device="cpu", random_state=0).fit(x, np.where(np.arange(300) < 30, truth, -1))
    for label in range(3):
        made, real = model.sample(1000, label=label), x[truth == label]
        assert (np.abs(made.mean(axis=0) - real.mean(axis=0)) < 0.4 * real.std(axis=0)).all()
        assert (np.abs(np.log(made.std(axis=0) / real.std(axis=0))) < 0.4).all()


def test_the_seed_decides(model):
    again, other = small().fit(X, Y), small(random_state=1).fit(X, Y)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not np.array_equal(other.model_.means.numpy(), model.model_.means.numpy())
    five, six, again = (small(random_state=np.random.RandomState(i)).fit(X, Y).transform(X) for i in (5, 6, 5))
    assert np.array_equal(five, again)
    assert not np.array_equal(five, six)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1][::-1],
        lambda x: np.concatenate([x, x], axis=1)[:, : x.shape[1]],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_memory_layout_and_write_protection_do_not_matter(view, dtype):
    x = (as_bytes(IMAGES) if dtype == np.uint8 else IMAGES).astype(dtype)
    locked = view(x.copy())
    locked.flags.writeable = False
    a, b = (small(epochs=1).fit(given, PATTERN).transform(given) for given in (x, locked))
    assert np.array_equal(a, b)


def test_progress_is_printed_only_on_request(capsys):
    small(epochs=1).fit(X, Y)
    assert capsys.readouterr().out == ""
    small(epochs=12, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    numbers = [int(re.fullmatch(r"step (\d+) of 22: reconstruction .*, loss .*", line)[1]) for line in lines]
    assert numbers == [-(-22 * tenth // 10) for tenth in range(1, 11)]
    assert "criticism" not in lines[0]  # there is no critic


def test_it_beats_a_logistic_regression_that_has_only_the_labels():
    """Two moons, ten labels a moon, mean of three draws of the labels: 0.89 against 0.83 when this was written."""
    x, truth = make_moons(600, noise=0.1, random_state=0)
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([rng.permutation(np.flatnonzero(truth == c))[:10] for c in (0, 1)])
        y, hidden = np.full(600, -1), np.ones(600, dtype=bool)
        y[rows], hidden[rows] = truth[rows], False
        ours = SeGMA(epochs=30, settings={"hidden": (64, 64)}, device="cpu", random_state=0).fit(x, y)
        rival = LogisticRegression().fit(x[rows], truth[rows])
        found.append([fitted.score(x[hidden], truth[hidden]) for fitted in (ours, rival)])
    ours, rival = np.mean(found, axis=0)
    assert ours > rival + 0.03


# ---- predict, score, transform


def test_codes_are_the_encoders_of_standardised_columns(model):
    z = forward((X - X.mean(axis=0)) / X.std(axis=0), model.model_.encoder)
    np.testing.assert_allclose(model.transform(X), z, atol=1e-4)


def test_codes_of_images_are_the_encoders_of_pixels_in_0_to_1(pictured):
    z = forward(as_bytes(IMAGES).reshape(60, -1) / 255, pictured.model_.encoder)
    np.testing.assert_allclose(pictured.transform(as_bytes(IMAGES)), z, atol=1e-4)


def test_samples_are_the_decoders_in_the_columns_units(model):
    z = np.random.default_rng(0).normal(size=(7, 2))
    expected = forward(z, model.model_.decoder) * X.std(axis=0) + X.mean(axis=0)
    np.testing.assert_allclose(model.inverse_transform(z), expected, rtol=1e-5)
    np.testing.assert_allclose(model.inverse_transform(z.tolist()), expected, rtol=1e-5)


def test_samples_of_images_are_the_decoders_as_pixels(pictured):
    z = np.random.default_rng(0).normal(size=(7, 2))
    expected = 255 / (1 + np.exp(-forward(z, pictured.model_.decoder)))
    found = pictured.inverse_transform(z).reshape(7, -1)
    assert np.abs(found - expected).max() <= 0.5 + 1e-3


def test_probabilities_are_the_mixtures_posterior(model):
    mixture, z = model.model_.mixture, torch.from_numpy(model.transform(X))
    twin = oracles.torch_mixture(mixture.weights, mixture.means, mixture.variances)
    parts = twin.component_distribution.log_prob(z[:, None]).exp() * mixture.weights
    expected = (parts / parts.sum(dim=1, keepdim=True)).numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert model.predict(X).tolist() == [[0, 1, 2][row.argmax()] for row in expected]
    assert np.mean(model.predict(X) == TRUTH) > 0.9


def test_a_sample_is_judged_by_itself(model):
    np.testing.assert_allclose(model.predict_proba(X)[:1], model.predict_proba(X[:1]), rtol=1e-10)
    x = as_bytes(IMAGES)
    normed = small(settings=NET | {"network": "blocks", "filters": (4,)}).fit(x, PATTERN)  # it has batch norm
    np.testing.assert_allclose(normed.transform(x)[:1], normed.transform(x[:1]), rtol=1e-4, atol=1e-4)


def test_the_score_is_the_accuracy_on_known_rows(model):
    y = np.where(np.arange(90) % 4 == 0, (TRUTH + 1) % 3, Y)  # some wrong, some unlabelled
    right = model.predict(X) == y
    assert 0 < right[y >= 0].mean() < 1
    assert model.score(X, y) == pytest.approx(right[y >= 0].mean())
    weights = np.arange(90.0)
    assert model.score(X, y, weights) == pytest.approx((right * weights)[y >= 0].sum() / weights[y >= 0].sum())
    with pytest.raises(ValueError, match="y has no label"):
        model.score(X, np.full(90, -1))
    with pytest.raises(ValueError, match="y has none of the classes 0, 1, 2; its first is 3"):
        model.score(X, np.where(Y < 0, Y, Y + 3))


# ---- outputs come back in the form and range of the inputs


def form_of(name: str) -> np.ndarray:
    grey = IMAGES
    return {
        "table": X,
        "table float32": X.astype(np.float32),
        "table of integers": np.round(10 * X).astype(np.int64),
        "uint8 (n, h, w)": as_bytes(grey),
        "uint8 (n, h, w, 1)": as_bytes(grey)[..., None],
        "uint8 (n, h, w, 3)": as_bytes(grey)[..., None].repeat(3, axis=3),
        "int64 (n, h, w)": as_bytes(grey).astype(np.int64),
        "float (n, h, w)": grey / grey.max(),
        "bool (n, h, w)": grey > grey.mean(),
        "float32 (n, h, w, 1)": (grey / grey.max()).astype(np.float32)[..., None],
    }[name]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("table", "float64"),
        ("table float32", "float32"),
        ("table of integers", "float32"),
        ("uint8 (n, h, w)", "uint8"),
        ("uint8 (n, h, w, 1)", "uint8"),
        ("uint8 (n, h, w, 3)", "uint8"),
        ("int64 (n, h, w)", "uint8"),
        ("float (n, h, w)", "float64"),
        ("bool (n, h, w)", "float32"),
        ("float32 (n, h, w, 1)", "float32"),
    ],
)
def test_form_and_range(name, dtype):
    x = form_of(name)
    truth = TRUTH if x.ndim == 2 else PATTERN
    fitted = small(epochs=20).fit(x, truth)
    one = x.shape[1:]
    outputs = {
        "reconstruction": (fitted.inverse_transform(fitted.transform(x)), x.shape),
        "sample": (fitted.sample(5, label=1), (5, *one)),
        "transfer": (fitted.transfer(x[:4], to=2), (4, *one)),
        "intensify": (fitted.intensify(x[:4], away_from=2), (4, *one)),
        "interpolate one": (fitted.interpolate(x[0], x[1], steps=3), (3, *one)),
        "interpolate many": (fitted.interpolate(x[:4], x[4:8], steps=3), (4, 3, *one)),
    }
    for method, (output, shape) in outputs.items():
        assert (output.shape, output.dtype) == (shape, dtype), method
        if x.ndim > 2 and dtype != "uint8":
            assert 0 <= output.min() <= output.max() <= 1, method
    off = np.abs(outputs["reconstruction"][0].mean(axis=0) - x.mean(axis=0))
    assert (off < 0.5 * x.std(axis=0)).all()


def test_edits_come_back_as_they_went_in_whatever_the_model_was_fitted_on(pictured):
    """The model has seen bytes (n, h, w); floats (n, h, w, 1) are the same images."""
    x = as_bytes(IMAGES[:5])
    y = (x / 255)[..., None]
    for edit in (
        lambda x: pictured.transfer(x, to=1),
        lambda x: pictured.intensify(x, away_from=1),
        lambda x: pictured.interpolate(x[0], x[1], steps=4),
    ):
        a, b = edit(x), edit(y)
        assert (a.dtype, b.dtype, b.shape) == (np.uint8, np.float64, (*a.shape, 1))
        assert np.abs(a - 255 * b[..., 0]).max() <= 0.5 + 1e-3
    assert np.array_equal(pictured.predict(x), pictured.predict(y))


# ---- sample


def test_new_samples_of_a_class_come_from_its_gaussian(linear):
    x = linear.sample(20_000, label=1)
    z = (x - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(z.mean(axis=0), [2, -1], atol=0.03)
    np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=0.05)


def test_new_samples_come_in_the_labelled_shares(linear):
    linear.model_.means.mul_(20)
    shares = np.bincount(linear.predict(linear.sample(20_000)), minlength=3) / 20_000
    np.testing.assert_allclose(shares, np.bincount(Y[Y >= 0]) / (Y >= 0).sum(), atol=0.02)


def test_new_samples_repeat_with_the_seed(model):
    assert np.array_equal(model.sample(4, label=2), model.sample(4, label=2, random_state=0))
    assert not np.array_equal(model.sample(4, label=2), model.sample(4, label=2, random_state=1))
    assert model.sample().shape == (1, 2)


# ---- interpolate, transfer, intensify, distances


def test_interpolation_runs_evenly_from_one_reconstruction_to_the_other(model, pictured):
    for fitted, x in ((model, X), (pictured, as_bytes(IMAGES))):
        z = fitted.transform(x[:2])
        path = fitted.interpolate(x[0], x[1], steps=5)
        ends = fitted.inverse_transform(z)
        np.testing.assert_allclose(path[[0, -1]].astype(float), ends.astype(float), rtol=1e-6)
        expected = fitted.inverse_transform(np.linspace(z[0], z[1], 5))
        np.testing.assert_allclose(path.astype(float), expected.astype(float), rtol=1e-4, atol=1)
    many = model.interpolate(X[:3], X[3:6], steps=5)
    np.testing.assert_allclose(many, [model.interpolate(a, b, steps=5) for a, b in zip(X[:3], X[3:6], strict=True)])
    assert model.interpolate(X[0], X[1]).shape == (11, 2)


def test_interpolation_between_codes_is_a_straight_line(linear):
    path = linear.interpolate(X[0], X[1], steps=7)
    np.testing.assert_allclose(path, np.linspace(X[0], X[1], 7), rtol=1e-5)


def test_transfer_moves_by_the_difference_of_the_means(linear):
    x = X[:9]
    mu, source = linear.model_.means.numpy() * X.std(axis=0), linear.predict(x)
    assert len(set(source)) == 3
    for t in (-0.5, 0.3, 1, 2):
        expected = x + t * (mu[2] - mu[source])
        np.testing.assert_allclose(linear.transfer(x, to=2, t=t), expected, rtol=1e-5)
    np.testing.assert_allclose(linear.transfer(x, to=2), x + mu[2] - mu[source], rtol=1e-5)
    np.testing.assert_allclose(linear.transfer(x, to=2, source=1), x + mu[2] - mu[1], rtol=1e-5)
    goals, sources = np.arange(9) % 2, np.arange(9) // 3
    found = linear.transfer(x, to=goals, source=sources)
    np.testing.assert_allclose(found, x + mu[goals] - mu[sources], rtol=1e-5)


def test_no_transfer_is_the_reconstruction(model, pictured):
    for fitted, x in ((model, X), (pictured, as_bytes(IMAGES))):
        assert np.array_equal(fitted.transfer(x, to=1, t=0), fitted.inverse_transform(fitted.transform(x)))
        assert not np.array_equal(fitted.transfer(x, to=1), fitted.inverse_transform(fitted.transform(x)))


def test_intensity_moves_away_from_the_mean_of_the_other_classes(linear):
    x = X[:9]
    mu, source = linear.model_.means.numpy() * X.std(axis=0), linear.predict(x)
    for alpha in (-0.7, 0, 0.4):
        found = linear.intensify(x, away_from=2, alpha=alpha)
        np.testing.assert_allclose(found, x + alpha * (mu[source] - mu[2]), rtol=1e-5)
        found = linear.intensify(x, away_from=[0, 2], alpha=alpha)
        np.testing.assert_allclose(found, x + alpha * (mu[source] - (mu[0] + mu[2]) / 2), rtol=1e-5)
    np.testing.assert_allclose(linear.intensify(x, away_from=2), x + 0.5 * (mu[source] - mu[2]), rtol=1e-5)
    found = linear.intensify(x, away_from=2, alpha=1, source=0)
    np.testing.assert_allclose(found, x + mu[0] - mu[2], rtol=1e-5)


def test_edits_take_labels_by_name(model):
    names = np.array(["ant", "bee", "cat"])
    named = small().fit(X, np.where(Y >= 0, names[Y], ""))
    assert np.array_equal(named.transfer(X, to="bee"), model.transfer(X, to=1))
    assert np.array_equal(named.transfer(X, to="bee", source=names[TRUTH]), model.transfer(X, to=1, source=TRUTH))
    assert np.array_equal(named.intensify(X, away_from=("ant", "cat")), model.intensify(X, away_from=(0, 2)))
    assert np.array_equal(named.sample(3, label="cat"), model.sample(3, label=2))


def test_class_distances(model, pictured):
    for fitted in (model, pictured):
        means = fitted.model_.means.numpy()
        np.testing.assert_allclose(fitted.class_distances_, cdist(means, means), rtol=1e-6)


def test_class_shares(model, pictured):
    for fitted in (model, pictured):
        logits = fitted.model_.log_weights.double().numpy()
        np.testing.assert_allclose(fitted.class_shares_, np.exp(logits) / np.exp(logits).sum(), rtol=1e-6)


# ---- save and load


def outputs(fitted: SeGMA, x: np.ndarray) -> list[np.ndarray]:
    first, *_, last = fitted.classes_
    return [
        fitted.classes_,
        fitted.predict(x),
        fitted.predict_proba(x),
        fitted.transform(x),
        fitted.inverse_transform(fitted.transform(x)),
        fitted.sample(3),
        fitted.transfer(x, to=last),
        fitted.intensify(x, away_from=first),
        fitted.interpolate(x[0], x[1]),
        fitted.class_distances_,
    ]


def assert_same(a: SeGMA, b: SeGMA, x: np.ndarray) -> None:
    for one, other in zip(outputs(a, x), outputs(b, x), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("table", [0, 1, 2]),
        ("table float32", [-4, 2, 9]),
        ("table", [0.0, 1.0, 7.0]),
        ("uint8 (n, h, w)", ["ant", "bee", "cat"]),
        ("uint8 (n, h, w, 3)", ["0", "01", "1"]),
        ("float (n, h, w)", [3, 4, 5]),
        ("table", [False, True, True]),
    ],
)
def test_a_saved_model_comes_back_bit_for_bit(tmp_path, name, names):
    x = form_of(name)
    y = np.array(names)[TRUTH if x.ndim == 2 else PATTERN]
    network = {"network": "blocks", "filters": (4,)} if x.ndim == 4 else {"average": 0.9}
    fitted = small(epochs=2, alpha=3.5, settings=NET | network, random_state=4).fit(x, y)
    fitted.save(tmp_path / "run")
    loaded = SeGMA.load(tmp_path / "run", device="cpu")
    assert_same(fitted, loaded, x)
    assert loaded.config_ == fitted.config_
    assert getattr(loaded, "n_features_in_", None) == getattr(fitted, "n_features_in_", None)
    for refit in (loaded.fit(x, y), clone(loaded).fit(x, y)):
        assert_same(fitted, refit, x)


def test_the_command_line_can_use_a_saved_model(tmp_path, model):
    model.save(tmp_path / "run")
    found = apply.classify(runs.read(tmp_path / "run"), list("abcd"), X[:4])
    posterior = [[row["posterior"][name] for name in "012"] for row in found]
    np.testing.assert_allclose(posterior, model.predict_proba(X[:4]), atol=1e-5)


def test_a_run_of_the_command_line_can_be_loaded(tmp_path):
    settings = {"epochs": 3, "labels": 50, "hidden": (32,), "seed": 3}
    job = launch.start("digits", settings=settings, out=tmp_path / "run", device="cpu")
    for _ in launch.train(job):
        pass
    x, y = job.data.x_test, job.data.y_test
    loaded = SeGMA.load(tmp_path / "run", device="cpu")
    assert loaded.classes_.tolist() == list(range(10))
    assert loaded.score(x, y) == pytest.approx(1 - error(job.state.result, x, y))
    assert loaded.score(x[..., 0] / 255, y) == loaded.score(x, y)
    assert (loaded.sample(2, label=7).shape, loaded.sample(2).dtype) == ((2, 8, 8), np.uint8)
    assert loaded.transfer(x[:3], to=5).shape == (3, 8, 8, 1)
    assert loaded.interpolate(x[0], x[1], steps=3).shape == (3, 8, 8, 1)
    assert (loaded.random_state, loaded.epochs) == (3, 3)
    loaded.save(tmp_path / "copy")  # has the weights, and neither the data nor which rows had labels: and says so
    with pytest.raises(InputError, match="fitted on arrays in Python, which it does not keep"):
        measure.scores(runs.read(tmp_path / "copy"), job.state.result)
    clone(loaded).set_params(epochs=1).fit(job.data.x_train, job.data.y_train)


def test_an_unfinished_or_held_out_run_stays_what_it_is_when_it_is_saved_again(tmp_path):
    for name, stop, more in (("stopped", 1, {}), ("held", 10**6, {"holdout": 0.5})):
        settings = {"epochs": 3, "labels": 40, "hidden": (8,), "filters": (4,)} | more
        job = launch.start("digits", settings=settings, out=tmp_path / name, device="cpu")
        for _ in launch.train(job, lambda job=job, stop=stop: job.state.step >= stop):
            pass
        run, copy = runs.read(tmp_path / name), tmp_path / f"{name}-copy"
        with pytest.warns(UserWarning, match="has trained") if name == "stopped" else nullcontext():
            SeGMA.load(run.path, device="cpu").save(copy)
        assert runs.steps_done(runs.read(copy)) == runs.steps_done(run)
        assert runs.steps_to_do(runs.read(copy)) == runs.steps_to_do(run)


def test_negative_classes_come_back_as_numbers(tmp_path):
    np.savez(tmp_path / "t.npz", x_train=X, y_train=np.where(TRUTH == 0, -7, TRUTH))
    job = launch.start(str(tmp_path / "t.npz"), settings={"epochs": 1}, out=tmp_path / "run", device="cpu")
    for _ in launch.train(job):
        pass
    loaded = SeGMA.load(tmp_path / "run", device="cpu")
    assert loaded.classes_.tolist() == [-7, 1, 2]
    assert loaded.sample(1, label=-7).shape == (1, 2)


# ---- scikit-learn's machinery


def test_parameters_are_kept_as_given():
    settings = {"hidden": [8]}
    given = small(settings=settings, alpha="2")
    assert given.get_params()["settings"] is settings
    assert (given.get_params()["alpha"], given.get_params()["latent_dim"]) == ("2", 2)
    twin = clone(given).set_params(alpha=3, epochs=1)
    assert (twin.alpha, given.alpha) == (3, "2")
    assert twin.fit(X, Y).config_.alpha == 3
    assert twin.settings == {"hidden": [8]}
    assert twin.config_.hidden == (8,)
    assert SeGMA().get_params()["epochs"] is None


def test_settings_left_out_are_the_recipes():
    paper = SeGMA(recipe="paper", epochs=1, device="cpu").fit(X, Y).config_
    assert (paper.alpha, paper.beta, paper.learning_rate, paper.views) == (5, 10, 3e-4, "none")
    changed = SeGMA(recipe="paper", beta=2, epochs=1, settings={"beta": 4, "warmup": 3}, device="cpu").fit(X, Y).config_
    assert (changed.beta, changed.warmup, changed.alpha) == (2, 3, 5)


def test_in_a_pipeline(model):
    chain = make_pipeline(StandardScaler(), small()).fit(X, Y)
    assert chain.score(X, Y) > 0.9
    np.testing.assert_allclose(chain.predict_proba(X), model.predict_proba(X), atol=1e-3)  # standardised either way
    back, expected = (fitted.inverse_transform(fitted.transform(X)) for fitted in (chain, model))
    np.testing.assert_allclose(back / SCALE, expected / SCALE, atol=0.01)
    assert chain[-1].get_feature_names_out().tolist() == ["segma0", "segma1"]


def test_in_a_grid_search():
    search = GridSearchCV(small(epochs=20), {"alpha": [0.5, 5.0]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["alpha"] in (0.5, 5.0)
    assert search.best_estimator_.config_.alpha == search.best_params_["alpha"]
    assert search.best_score_ > 0.8  # over known rows: two thirds of Y are -1 and would all count as wrong


def test_pickle(model, pictured):
    assert_same(model, pickle.loads(pickle.dumps(model)), X)
    assert_same(pictured, pickle.loads(pickle.dumps(pictured)), as_bytes(IMAGES))
    weights = sum(value.numel() * value.element_size() for value in pictured.model_.state_dict().values())
    assert len(pickle.dumps(pictured)) < 1.5 * weights + 50_000


# ---- mistakes


WITH_NAN = np.where(np.arange(180).reshape(90, 2) == 5, np.nan, X)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, np.where(Y == 1, 1, -1), r"1 classes \(1\), at least 2 needed"),
        (X, np.full(90, -1), "no sample has a label"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X, np.where(Y == 1, 0.5, Y), "Unknown label type: continuous"),
        (X, np.where(Y == 1, np.inf, Y), "infinity"),
        (X, np.full(90, np.nan), "no sample has a label"),
        (X, [object(), *Y[1:]], "dtype object, allowed: integers"),
        (X, np.array(["a", "b", "-1"])[TRUTH], "text '-1'"),
        (X, None, "y should be a 1d array"),
        (X, np.stack([Y, Y], axis=1), "y should be a 1d array"),
        (WITH_NAN, Y, "X contains NaN"),
        (np.ones_like(X), Y, "all 2 features are constant"),
        (X[0], Y, "Expected 2D array"),
        (np.where(IMAGES > 0.9, np.nan, IMAGES), PATTERN, "NaN"),
        (255 * IMAGES, PATTERN, r"allowed: 0\.\.1; divide by 255"),
        (IMAGES - 0.5, PATTERN, r"allowed: 0\.\.1"),
        (as_bytes(IMAGES).astype(int) * 2, PATTERN, r"allowed: 0\.\.255"),
        (IMAGES[:, None], PATTERN, "channels go last"),
        (IMAGES[None, None], PATTERN, "X: shape"),
    ],
)
def test_wrong_data(x, y, message):
    with pytest.raises(ValueError, match=message):
        small().fit(x, y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "worst"}, "recipe 'worst': allowed are best, paper"),
        ({"settings": {"hiden": (8,)}}, "unknown setting 'hiden': did you mean 'hidden'"),
        ({"settings": {"model": "adgm"}}, "rivals are for the command line: segma train DATA --model adgm"),
        ({"settings": {"labels": 10}}, "'labels' has no place here"),
        ({"settings": {"seed": 10}}, "'seed' has no place here"),
        ({"alpha": -1}, "alpha = -1"),
        ({"epochs": "many"}, "epochs = 'many': wanted is a whole number"),
        ({"latent_dim": 0}, "latent_dim = 0"),
        ({"device": "tpu"}, "device 'tpu': allowed are auto, cpu, cuda"),
        ({"random_state": "x"}, "cannot be used to seed"),
        ({"random_state": -1}, "random_state = -1: allowed is 0 to"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict(X[:, :1]), "X has 1 features, but SeGMA is expecting 2 features"),
        (lambda m: m.predict(WITH_NAN), "X contains NaN"),
        (lambda m: m.predict(1e39 * X), "too large for float32"),
        (lambda m: m.predict(IMAGES), r"shape \(6, 6, 1\), the model was fitted on \(2,\)"),
        (lambda m: m.score(X, Y[:5]), "inconsistent numbers of samples"),
        (lambda m: m.inverse_transform(np.zeros((3, 5))), r"codes of shape \(3, 5\), wanted is \(n, 2\)"),
        (lambda m: m.inverse_transform([[np.nan, 0]]), "Z contains NaN"),
        (lambda m: m.sample(0), "n = 0: wanted is a whole number, 1 or more"),
        (lambda m: m.sample(2.5), "n = 2.5: wanted is a whole number"),
        (lambda m: m.sample(3, label=9), "class 9: allowed are 0, 1, 2"),
        (lambda m: m.sample(3, label=-1), "class -1: allowed are 0, 1, 2"),
        (lambda m: m.sample(3, label=[0, 1]), "2 classes for 1 samples"),
        (lambda m: m.transfer(X, to="dog"), "class 'dog': allowed are 0, 1, 2"),
        (lambda m: m.sample(3, label="1"), "class '1': allowed are 0, 1, 2"),
        (lambda m: m.transfer(X, to=1, source=9), "class 9: allowed are 0, 1, 2"),
        (lambda m: m.transfer(X, to=1, source=[0, 1]), "2 classes for 90 samples"),
        (lambda m: m.intensify(X, away_from=[0, 9]), "class 9: allowed are 0, 1, 2"),
        (lambda m: m.intensify(X, away_from=[]), "class none: allowed are 0, 1, 2"),
        (lambda m: m.interpolate(X[0], X[1], steps=1), "steps = 1: wanted is a whole number, 2 or more"),
        (lambda m: m.interpolate(X[0], X[1], steps=2.5), "steps = 2.5: wanted is a whole number"),
        (lambda m: m.edit(X, shift=3), "shift = 3: wanted are two numbers"),
        (lambda m: m.edit(X, towards="well"), "'well': wanted are classes with amounts"),
        (lambda m: m.sample(random_state=2**70), "random_state = "),
        (lambda m: m.interpolate(X[0], X[:1]), "a and b differ in shape"),
    ],
)
def test_wrong_calls(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X, r"shape \(2,\), the model was fitted on \(6, 6, 1\)"),
        (IMAGES[:, :5], r"shape \(5, 6, 1\), the model was fitted on \(6, 6, 1\)"),
        (IMAGES[..., None].repeat(3, axis=3), r"shape \(6, 6, 3\), the model was fitted on"),
        (IMAGES[0], r"fitted on \(6, 6, 1\); a single one is X\[None\]"),
        (IMAGES + 0.5, r"allowed: 0\.\.1"),
    ],
)
def test_wrong_images(pictured, x, message):
    for call in (pictured.predict, pictured.transform, lambda x: pictured.transfer(x, to=1)):
        with pytest.raises(ValueError, match=message):
            call(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.predict(X),
        lambda m: m.predict_proba(X),
        lambda m: m.score(X, Y),
        lambda m: m.transform(X),
        lambda m: m.inverse_transform(X),
        lambda m: m.sample(3),
        lambda m: m.interpolate(X[0], X[1]),
        lambda m: m.transfer(X, to=1),
        lambda m: m.intensify(X, away_from=1),
        lambda m: m.save("never"),
    ],
)
def test_not_fitted(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(SeGMA())


def test_files(tmp_path, model):
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="there exists and is not overwritten"):
        model.save(tmp_path / "there")
    with pytest.raises(ValueError, match="there is not a run"):
        SeGMA.load(tmp_path / "there")


def test_a_column_of_labels_is_taken_with_a_warning(model):
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = small().fit(X, Y[:, None])
    assert np.array_equal(column.predict_proba(X), model.predict_proba(X))


def test_several_edits_at_once(linear):
    """Against the formula, with the means written down in `linear`; each amount alone is transfer or intensify."""
    x = X[:6]
    mu, own = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]]), linear.predict(x)
    z, place = linear.transform(x), [linear.classes_.tolist().index(label) for label in own]
    first, second = linear.classes_[0], linear.classes_[1]
    expected = z - 0.5 * (z - mu[place]) + 0.3 * (mu[0] - mu[place]) + 0.2 * (mu[1] - (mu[0] + mu[2]) / 2)
    found = linear.edit(x, towards={first: 0.3}, intensity={second: 0.2}, style=0.5)
    np.testing.assert_allclose(linear.transform(found), expected, atol=1e-5)
    np.testing.assert_allclose(linear.edit(x, {first: 0.7}), linear.transfer(x, to=first, t=0.7), atol=1e-5)
    numbers = copy.copy(linear)
    numbers.classes_ = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(numbers.edit(x, {1: 0.7}), numbers.transfer(x, to=1, t=0.7))
    for wrong, said in (
        ({"towards": {"no": 1.0}}, "'no'"),
        ({"style": math.nan}, "style"),
        ({"shift": (0, math.inf)}, "shift"),
    ):
        with pytest.raises(InputError, match=said):
            linear.edit(x, **wrong)


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(5)
    before, others = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    SeGMA(epochs=1, random_state=0).fit(X, Y).sample(3)
    assert (torch.get_rng_state() == before).all()
    assert (np.random.get_state()[1] == others).all()  # noqa: NPY002


def test_a_frame_with_gaps_in_its_labels_and_names_that_stay(tmp_path):
    """None, NaN and NA among texts mean that there is none; columns keep their names in a saved run."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    texts = np.array(["no", "yes"], dtype=object)[Y % 2]
    gaps = pandas.Series(texts)
    gaps[::4], gaps[1::4], gaps[2::8] = None, np.nan, pandas.NA
    empty = np.where(pandas.isna(gaps), "", texts).astype(str)
    one, two = (SeGMA(epochs=2, random_state=0).fit(frame, y) for y in (gaps, empty))
    assert one.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(one.predict_proba(frame), two.predict_proba(frame))
    whole = SeGMA(epochs=2, random_state=0).fit(frame, Y)
    numbers = pandas.Series(Y).where(Y >= 0)  # as pandas has whole numbers with gaps: floats and NaN, or its own kind
    lists = (
        [None if pandas.isna(y) else int(y) for y in numbers],
        [math.nan if pandas.isna(y) else int(y) for y in numbers],
    )
    objects = pandas.Series(lists[0], dtype=object)
    for y in (numbers, numbers.astype("Int64"), *lists, objects, objects.to_numpy()):
        model = SeGMA(epochs=2, random_state=0).fit(frame, y)
        assert list(map(repr, model.classes_.tolist())) == list(map(repr, sorted(set(Y[Y >= 0].tolist()))))  # no 1.0
        np.testing.assert_array_equal(model.predict_proba(frame), whole.predict_proba(frame))
    way = one.interpolate(frame.iloc[0], frame.iloc[1])
    np.testing.assert_array_equal(way, one.interpolate(frame[:1], frame[1:2])[0])
    again = SeGMA(epochs=1, random_state=0, settings={"hidden": (8,)}).fit(frame, Y).fit(IMAGES, PATTERN)
    assert not hasattr(again, "feature_names_in_")  # pictures have none
    assert not hasattr(again, "n_features_in_")
    one.save(tmp_path / "run")
    again = SeGMA.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(frame), one.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[frame.columns[::-1]])
