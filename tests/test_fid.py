"""FID and KID against scipy, closed forms and loops; the Inception network against one written out; the scores."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import oracles
from segma import draw
from segma.config import Config
from segma.data import sources
from segma.data.arrays import Data, some_rows
from segma.errors import InputError
from segma.metrics import features as made
from segma.metrics import fid, inception
from segma.metrics.features import cached, features, interpolated, interpolated_at, reconstructed, sampled
from segma.metrics.fid import Statistics, frechet, kid, per_class, statistics
from segma.model import Model, decode_rows

RNG = np.random.default_rng


def gaussian(n: int, d: int, seed: int, rank: int | None = None) -> np.ndarray:
    """Correlated samples with a mean, in a subspace of that rank."""
    rng = RNG(seed)
    return rng.normal(size=(n, rank or d)) @ rng.normal(size=(rank or d, d)) + rng.normal(size=d)


# The distances


@pytest.mark.parametrize("seed", range(3))
def test_frechet_is_scipys(seed):
    x, y = gaussian(300, 12, seed), gaussian(200, 12, seed + 10)
    expected = oracles.frechet(x.mean(axis=0), np.cov(x.T), y.mean(axis=0), np.cov(y.T))
    assert frechet(statistics([x]), statistics([y])) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "m", "rank"), [(8, 200, None), (8, 5, None), (300, 200, 4), (2, 2, None)])
def test_frechet_of_singular_covariances(n, m, rank):
    """Fewer samples than dimensions, or samples in a plane: the singular values of the samples know the answer."""
    x, y = gaussian(n, 20, 0, rank), gaussian(m, 20, 1)
    expected = oracles.frechet_samples(x, y)
    assert frechet(statistics([x]), statistics([y])) == pytest.approx(expected, rel=1e-6)
    assert oracles.frechet_samples(gaussian(99, 5, 2), gaussian(99, 5, 3)) == pytest.approx(  # and it is an oracle
        frechet(statistics([gaussian(99, 5, 2)]), statistics([gaussian(99, 5, 3)])), rel=1e-9
    )


def test_frechet_in_closed_form():
    """Independent coordinates: the sum of (m1 - m2)^2 + (s1 - s2)^2."""
    m1, m2, s1, s2 = RNG(0).normal(size=(4, 7))
    a, b = Statistics(m1, np.diag(s1**2), 9), Statistics(m2, np.diag(s2**2), 9)
    assert frechet(a, b) == pytest.approx(((m1 - m2) ** 2 + (abs(s1) - abs(s2)) ** 2).sum(), rel=1e-9)
    one = Statistics(np.array([1.0]), np.array([[4.0]]), 9), Statistics(np.array([-2.0]), np.array([[0.25]]), 9)
    assert frechet(*one) == pytest.approx(9 + 1.5**2)


@pytest.mark.parametrize("n", [10, 500])
def test_frechet_is_symmetric_and_0_for_equals(n):
    a, b = statistics([gaussian(n, 30, 0)]), statistics([gaussian(n, 30, 1)])
    assert frechet(a, b) == pytest.approx(frechet(b, a), rel=1e-6)
    assert 0 <= frechet(a, a) < 1e-6 * np.trace(a.covariance)


def test_statistics_by_batches_are_those_of_the_whole():
    """Far from 0 too, where sums of squares alone lose all digits."""
    x = gaussian(101, 6, 0).astype(np.float32) + np.float32(1e4)
    for parts in ([x], np.array_split(x, [1, 2, 50]), list(fid.blocks(x, 7))):
        found = statistics(iter(parts))
        np.testing.assert_allclose(found.mean, x.astype(np.float64).mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(found.covariance, np.cov(x.T.astype(np.float64)), rtol=1e-9)
        assert found.n == 101


@pytest.mark.parametrize("n", [0, 1])
def test_one_sample_is_too_few(n):
    with pytest.raises(InputError, match=f"{n} samples.*at least 2"):
        statistics([np.zeros((n, 3))])


def test_mmd_is_the_double_loop():
    x, y = gaussian(9, 4, 0), gaussian(7, 4, 1)
    assert fid.squared_mmd(x, y) == pytest.approx(oracles.squared_mmd(x, y), rel=1e-12)


def test_kid_of_one_distribution_is_0_on_average():
    """Unbiased: over many independent samples the mean is within its own error of 0, and half of them are below it."""
    found = [fid.squared_mmd(*RNG(seed).normal(size=(2, 30, 5))) for seed in range(400)]
    assert abs(np.mean(found)) < 3 * np.std(found) / 20
    assert 0.4 < np.mean(np.array(found) < 0) < 0.7


def test_kid_averages_subsets():
    x, y = RNG(0).normal(size=(500, 5)), RNG(1).normal(size=(400, 5)) + 0.5
    found, again = kid(x, y, subsets=50, size=100, seed=3), kid(x, y, subsets=50, size=100, seed=3)
    assert found == again
    assert found != kid(x, y, subsets=50, size=100, seed=4)
    assert (found.subsets, found.size) == (50, 100)
    assert found.mean == pytest.approx(fid.squared_mmd(x, y), abs=4 * found.standard_error)
    spread = np.std([kid(x, y, 10, 100, seed).mean for seed in range(40)])
    assert spread == pytest.approx(kid(x, y, 10, 100).standard_error, rel=0.6)


def test_kid_takes_smaller_subsets_of_few_samples_and_says_so():
    x, y = gaussian(50, 3, 0), gaussian(9, 3, 0)
    assert kid(x, y).size == 4
    assert kid(x, y).standard_error > 0
    with pytest.raises(InputError, match="50 and 3 samples"):
        kid(x, y[:3])


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance`")
def test_the_arithmetic_of_torchmetrics():
    theirs = pytest.importorskip("torchmetrics.image.fid"), pytest.importorskip("torchmetrics.image.kid")

    class Same(torch.nn.Module):
        num_features = 6

        def forward(self, x):
            return x

    x, y = gaussian(80, 6, 0), gaussian(90, 6, 1)
    far = theirs[0].FrechetInceptionDistance(feature=Same(), input_img_size=(6,)).set_dtype(torch.float64)
    kernel = theirs[1].KernelInceptionDistance(feature=Same(), subsets=2, subset_size=80)
    for metric in (far, kernel):
        metric.update(torch.from_numpy(x), real=True)
        metric.update(torch.from_numpy(y[:80] if metric is kernel else y), real=False)
    assert frechet(statistics([x]), statistics([y])) == pytest.approx(float(far.compute()), rel=1e-6)
    assert fid.squared_mmd(x, y[:80]) == pytest.approx(float(kernel.compute()[0]), rel=1e-6)


def test_per_class_is_the_distance_of_each_class_alone():
    x, y = gaussian(60, 4, 0), gaussian(50, 4, 1)
    a, b = np.arange(60) % 3, np.repeat([0, 1, -1, 2], [20, 20, 9, 1])
    found = per_class(x, a, y, b, 4)
    for label in (0, 1):
        assert found[label] == pytest.approx(oracles.frechet_samples(x[a == label], y[b == label]), rel=1e-6)
    assert found[2:] == [None, None]  # of the one there is a single real sample, of the other none


# The network and its weights


@pytest.fixture(scope="session")
def arrays() -> dict[str, np.ndarray]:
    """Random weights of the right names and shapes, of sizes at which the signal neither dies nor explodes."""
    rng, found = RNG(0), {}
    for name, layer in inception.network().named_modules():
        if isinstance(layer, torch.nn.Conv2d):
            name, c, w = name.removeprefix("stem."), layer.out_channels, layer.weight
            found[f"{name}.conv.weight"] = rng.standard_normal(w.shape, np.float32) * (2 / w[0].numel()) ** 0.5
            found[f"{name}.bn.bias"] = rng.normal(0.1, 0.1, c)
            found[f"{name}.bn.running_mean"] = rng.normal(0, 0.1, c)
            found[f"{name}.bn.running_var"] = rng.uniform(0.8, 1.2, c)
    return {name: value.astype(np.float16) for name, value in found.items()}


@pytest.fixture(scope="session")
def weights(arrays, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "inception-2015-12-05-random.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="session")
def net(weights) -> torch.nn.Module:
    return inception.load(weights)


def pictures(n: int, side: int, channels: int) -> np.ndarray:
    """Patterns made by a formula, so that numbers about them can be written down."""
    i, row, column, c = np.ogrid[:n, :side, :side, :channels]
    return ((row * (7 + 5 * i) + column * (3 + 11 * i) + 61 * c * (i + 1) + row * column) % 256).astype(np.uint8)


def test_the_network_has_the_files_arrays(arrays):
    assert len(arrays) == 376
    assert sum(value.size for name, value in arrays.items() if "conv" in name) == 21_751_136


def test_the_network_is_the_one_written_out(net, arrays):
    x = torch.rand(1, 3, 299, 299, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        found = net(x)
        assert found.shape == (1, 2048, 8, 8)
        expected = oracles.inception(arrays, x.double())
    assert expected.std() > 0.01
    torch.testing.assert_close(found.mean(dim=(2, 3)).double(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("h", "w", "size"), [(5, 7, 16), (16, 3, 16), (20, 31, 13), (1, 1, 4), (28, 28, 299)])
def test_images_are_resized_as_tensorflow_1_did(h, w, size):
    x = RNG(0).uniform(0, 255, (h, w))
    found = made.resized(torch.from_numpy(x)[None, None], size)[0, 0]
    np.testing.assert_allclose(found, oracles.resize(x, size), atol=1e-9)
    assert found.shape == (size, size)


def test_features_of_grey_and_of_equal_channels_and_of_any_batch(net):
    x = pictures(3, 12, 1)
    found = features(net, x, batch=2)
    assert found.shape == (3, 2048)
    assert found.dtype == np.float32
    assert not net.training
    np.testing.assert_allclose(features(net, x.repeat(3, axis=3), batch=3), found, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(features(net, x / np.float32(255), batch=2), found)  # floats become the same uint8
    assert np.abs(found[0] - found[1]).max() > 0.01


def test_features_are_of_the_resized_and_scaled_image(net):
    x, shown = pictures(1, 28, 3), []
    large = [oracles.resize(x[0, :, :, c].astype(float), 299) for c in range(3)]
    with torch.no_grad():
        expected = net(((torch.tensor(np.stack(large)[None]) - 128) / 128).float()).mean(dim=(2, 3))

    def progress(items, total, text):
        shown.append((total, text))
        return items

    np.testing.assert_allclose(features(net, x, progress, text="real"), expected, rtol=1e-4, atol=1e-5)
    assert shown == [(1, "real")]


@pytest.mark.parametrize(
    "x", [np.zeros((2, 4, 4, 2), np.uint8), np.zeros((2, 4, 4), np.uint8), np.zeros((2, 4, 4, 1), int)]
)
def test_features_of_something_else(net, x):
    with pytest.raises(InputError, match=r"allowed: \(n, h, w, 1 or 3\)"):
        features(net, x)


def real_weights() -> Path | None:
    places = [Path(os.environ.get("SEGMA_DATA", "/nowhere")), Path(__file__).parents[2] / "shared" / "weights"]
    return next((path for place in places for path in sources.inception_files(place)), None)


def test_features_of_the_real_network():
    """The numbers are torch-fidelity 0.4.0's for these weights: a network, a resize and a scaling of its own, which its
    authors compared with TensorFlow's bit by bit. Images of 28x28, 32x32 and 64x64 agreed with ours to 1e-5."""
    path = real_weights()
    if path is None or path.suffix != ".npz" or inception.digest(path) not in inception.KNOWN:
        pytest.skip("needs the FID's weights, inception-2015-12-05-fp16.npz, in SEGMA_DATA")
    net = inception.load(path)
    grey, colour = features(net, pictures(4, 28, 1)), features(net, pictures(4, 32, 3))
    np.testing.assert_allclose(grey.mean(axis=1), [0.340960, 0.300888, 0.300101, 0.277616], atol=2e-5)
    np.testing.assert_allclose(colour.mean(axis=1), [0.305067, 0.318694, 0.336402, 0.315812], atol=2e-5)
    np.testing.assert_allclose(grey[0, :4], [1.115772, 0.742219, 0.372526, 0.062994], atol=1e-4)
    np.testing.assert_allclose(colour[0, :4], [1.684097, 0.036342, 0.053911, 0.003788], atol=1e-4)


def test_other_float_types_and_a_whole_state_dict_load_the_same(arrays, net, tmp_path):
    extra = {name.replace("bias", "weight"): np.ones(len(v)) for name, v in arrays.items() if name.endswith("bn.bias")}
    np.savez(
        tmp_path / "w.npz", **{name: v.astype(np.float32) for name, v in arrays.items()}, **extra, other=np.ones(3)
    )
    other = inception.load(tmp_path / "w.npz")
    for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q), name


@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_as_pytorch_saves_it_loads_the_same(arrays, net, tmp_path, zipped):
    tensors = {name: torch.from_numpy(value).float() for name, value in arrays.items()}
    more = {"fc.weight": torch.ones(3), "Mixed_5b.branch1x1.bn.num_batches_tracked": torch.tensor(7)}
    path = tmp_path / "pt_inception-2015-12-05-mine.pth"
    torch.save(tensors | more, path, _use_new_zipfile_serialization=zipped)
    assert inception.find(None, tmp_path) == path
    for (name, p), q in zip(net.named_parameters(), inception.load(path).parameters(), strict=True):
        assert torch.equal(p, q), name


@pytest.mark.parametrize(
    ("content", "match"),
    [(b"no weights", "not a whole state dict"), ([1, 2], "no Conv2d_1a"), ({"a": Path("b")}, "not a whole state dict")],
)
def test_another_file_of_pytorchs(tmp_path, content, match):
    path = tmp_path / "w.pth"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(InputError, match=match) as caught:
        inception.load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"nowhere\.pth: no such file"):
        inception.load(tmp_path / "nowhere.pth")


def test_a_scale_of_the_batch_norm_counts(arrays, net, tmp_path):
    np.savez(tmp_path / "w.npz", **arrays, **{"Mixed_7c.branch1x1.bn.weight": np.full(320, 2.0)})
    layer = inception.load(tmp_path / "w.npz").get_submodule("Mixed_7c.branch1x1")
    torch.testing.assert_close(layer.weight, 2 * net.get_submodule("Mixed_7c.branch1x1").weight)


def test_weights_that_are_not(arrays, weights, tmp_path):
    def problem(content: bytes | dict, match: str) -> None:
        path = tmp_path / "w.npz"
        path.write_bytes(content) if isinstance(content, bytes) else np.savez(path, **content)
        with pytest.raises(InputError, match=match) as caught:
            inception.load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    name = "Mixed_6c.branch7x7_2.conv.weight"
    whole = weights.read_bytes()
    problem(b"these are no weights", "not an .npz")
    problem(whole[: len(whole) // 2], "not a whole .npz")
    problem(whole[: 10**6] + b"!!!!" + whole[10**6 + 4 :], "not a whole .npz")
    problem({"x": np.zeros(3)}, "no Conv2d_1a_3x3.conv.weight nor 375 more of the 376.*pytorch-fid")
    problem({key: value for key, value in arrays.items() if key != name}, f"no {name};")
    problem(arrays | {name: arrays[name].swapaxes(2, 3)}, rf"{name} is float16 \(160, 160, 7, 1\), needed .*160, 1, 7")
    problem(arrays | {name: arrays[name].astype(int)}, f"{name} is int64")
    problem(arrays | {name: arrays[name] * np.nan}, f"{name} has values")
    problem(arrays | {name: np.array([None] * 3)}, "pickle")
    variance = "Mixed_5b.branch1x1.bn.running_var"
    problem(arrays | {variance: -arrays[variance]}, f"{variance} has values")
    with pytest.raises(InputError, match=r"nowhere.npz: no such file"):
        inception.load(tmp_path / "nowhere.npz")


def test_where_the_weights_are_looked_for(tmp_path, monkeypatch):
    usual = tmp_path / "usual"
    monkeypatch.setenv("SEGMA_DATA", str(usual))
    with pytest.raises(InputError, match=r"no weights of the FID.*; `segma data fetch inception`, .*pytorch-fid"):
        inception.find(None, tmp_path)
    with pytest.raises(InputError, match=r"other.npz: no such file; `segma data fetch inception`"):
        inception.find(tmp_path / "other.npz", tmp_path)
    first, second = tmp_path / "inception-2015-12-05-fp16.npz", tmp_path / "inception-2015-12-05.npz"
    first.touch()
    assert inception.find(None, tmp_path) == inception.find(tmp_path, tmp_path / "elsewhere") == first
    with pytest.raises(InputError, match=f"{tmp_path.parent} has no weights of the FID network"):
        inception.find(tmp_path.parent, tmp_path)
    second.touch()
    with pytest.raises(InputError, match="--inception"):
        inception.find(None, tmp_path)
    usual.mkdir()
    first.rename(usual / first.name)
    second.unlink()
    assert inception.find(None, tmp_path) == usual / first.name  # where `data fetch` puts it, whatever --data-dir says
    first, second = usual / first.name, usual / second.name
    second.touch()
    assert inception.find(second, tmp_path) == second
    assert inception.digest(first) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# What is compared


class Linear(Model):
    """Codes are the pixels: what comes out of an edit can be written down."""

    def __init__(self, means: list, weights: list, deviation: float = 0.05) -> None:
        super().__init__(Config(hidden=(2,), latent_dim=4), (2, 2, 1), len(means))
        self.set_weights(np.array(weights))
        with torch.no_grad():
            self.means.copy_(torch.tensor(means)[:, None].expand(-1, 4))
            self.log_variances.fill_(2 * np.log(deviation))

    def encode(self, x):
        return x.flatten(1)

    def decode(self, z):
        return z.unflatten(1, (1, 2, 2))


def test_samples_follow_the_mixture():
    """Pixels are N(mu_k, 0.05^2), a class is drawn with its weight, and values are rounded to 1/255."""
    model = Linear([0.3, 0.5, 0.7], [0.2, 0.5, 0.3])
    images, y = sampled(model, 6000, seed=0)
    assert images.shape == (6000, 2, 2, 1)
    assert images.dtype == np.uint8
    assert stats.chisquare(np.bincount(y), 6000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-3
    for label, mean in enumerate([0.3, 0.5, 0.7]):
        own = images[y == label].astype(float).reshape(-1, 4) / 255
        error = 0.05 / np.sqrt(own.size)
        assert own.mean() == pytest.approx(mean, abs=4 * error)
        assert own.std() == pytest.approx(0.05, abs=4 * error)
        assert abs(np.corrcoef(own.T) - np.eye(4)).max() < 0.1


def test_what_is_outside_0_to_1_is_cut_and_the_rest_rounded():
    images, _ = sampled(Linear([-1.0, 2.0], [0.5, 0.5]), 50, seed=0)
    assert set(np.unique(images)) == {0, 255}
    x = np.array([0, 1, 126.4, 126.6]).reshape(1, 2, 2, 1).astype(np.float32) / 255
    assert reconstructed(Linear([0.5], [1.0]), x).ravel().tolist() == [0, 1, 126, 127]


def test_a_point_on_the_segment_between_two_images():
    """Black and white are the only pair: greys, uniform, each of one level."""
    model = Linear([0.5], [1.0])
    x = np.stack([np.zeros((2, 2, 1)), np.ones((2, 2, 1))]).astype(np.float32)
    levels = interpolated(model, x, 3000, seed=0).reshape(-1, 4)
    assert (levels == levels[:, :1]).all()
    assert stats.kstest(levels[:, 0] / 255, "uniform").pvalue > 1e-3
    assert set(np.unique(interpolated_at(model, x, 0.25, 100, seed=0))) == {64, 191}
    assert set(np.unique(interpolated_at(model, x, 0.0, 100, seed=0))) == {0, 255}


def test_any_two_images_are_a_pair_but_none_with_itself():
    codes = torch.arange(5.0)[:, None]
    a, b = made.pairs(codes, 20_000, torch.Generator().manual_seed(0))
    counts = np.zeros((5, 5))
    np.add.at(counts, (a[:, 0].long().numpy(), b[:, 0].long().numpy()), 1)
    assert not counts.diagonal().any()
    assert stats.chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > 1e-3
    with pytest.raises(InputError, match="1 images, but a pair needs two"):
        made.pairs(codes[:1], 3, torch.Generator())


def test_the_distance_of_interpolations_in_closed_form():
    """Of independent x, x' ~ N(m, S), (1-t) x + t x' ~ N(m, c S), c = (1-t)^2 + t^2: the FID is tr S (1 - sqrt c)^2."""
    x = RNG(0).normal(0.5, 0.1, (2000, 2, 2, 1)).clip(0, 1).astype(np.float32)
    real = statistics([x.reshape(-1, 4)])
    for t in (0.0, 0.2, 0.5):
        images = interpolated_at(Linear([0.5], [1.0]), x, t, 20_000, seed=1).reshape(-1, 4) / 255
        c = (1 - t) ** 2 + t**2
        expected = np.trace(real.covariance) * (1 - c**0.5) ** 2
        assert frechet(real, statistics([images])) == pytest.approx(expected, rel=0.1, abs=2e-5)


def test_images_depend_on_the_seed_and_not_on_the_batches():
    model = Model(Config(hidden=(16,), latent_dim=4), (3, 3, 1), 3).eval()
    x = pictures(20, 3, 1)

    def images(seed: int, size: int) -> list[np.ndarray]:
        one, y = sampled(model, 50, seed, size)
        return [one, y, interpolated(model, x, 50, seed, size), interpolated_at(model, x, 0.3, 50, seed, size)]

    for first, again, other in zip(images(0, 7), images(0, 50), images(1, 50), strict=True):
        assert np.abs(first.astype(int) - again).max() <= 1  # a value next to a half may be rounded either way
        assert (first != other).any()
    np.testing.assert_array_equal(
        reconstructed(model, x), draw.to_uint8(decode_rows(model, made.encode_rows(model, x)))
    )


# The file of reference features


def test_a_result_is_kept_for_its_key_and_a_damaged_file_is_made_anew(tmp_path):
    made_for = []

    def get(key: dict) -> list[float]:
        def make():
            made_for.append(key)
            return {"a": np.arange(3.0) + key["rows"], "n": np.array(key["rows"])}

        found = cached(tmp_path / "statistics", key, make)
        assert int(found["n"]) == key["rows"]
        return found["a"].tolist()

    assert get({"rows": 1, "split": "test"}) == [1, 2, 3]
    assert get({"split": "test", "rows": 1}) == [1, 2, 3]
    assert len(made_for) == 1
    (path,) = (tmp_path / "statistics").iterdir()
    assert get({"rows": 2, "split": "test"}) == [2, 3, 4]
    assert get({"rows": 2, "split": "train"}) == [2, 3, 4]
    assert len(made_for) == 3
    whole = path.read_bytes()
    place = whole.index(np.arange(1.0, 4).tobytes())
    with np.load(path) as file:
        arrays = dict(file)
    for count, damage in enumerate(
        [
            lambda: path.write_bytes(whole[:-40]),
            lambda: path.write_bytes(whole[:place] + b"?" + whole[place + 1 :]),
            lambda: path.write_bytes(b""),
            lambda: path.write_bytes(b"no archive"),
            lambda: np.savez(path, **arrays | {"a": np.zeros(3)}),  # a whole file, of other numbers
            lambda: np.savez(path, a=np.zeros(3)),
            lambda: np.savez(path, **arrays | {"a": np.array([None])}),
        ],
        start=4,
    ):
        damage()
        assert get({"rows": 1, "split": "test"}) == [1, 2, 3]
        assert len(made_for) == count
    assert get({"rows": 1, "split": "test"}) == [1, 2, 3]
    assert len(made_for) == 10


def test_a_directory_that_cannot_be_written_costs_only_the_time(tmp_path):
    (tmp_path / "statistics").touch()
    with pytest.warns(UserWarning, match="not kept for the next time"):
        assert cached(tmp_path / "statistics", {}, lambda: {"a": np.ones(1)})["a"] == 1


@pytest.mark.parametrize(("total", "n"), [(10, 3), (10, 10), (10, 99), (1, 1)])
def test_some_rows_are_always_the_same(total, n):
    rows = some_rows(total, n)
    assert len(rows) == min(total, n)
    assert set(rows) <= set(range(total))
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, some_rows(total, n))


def test_some_rows_are_of_all_classes_whatever_the_order():
    for y in (np.arange(9000) % 10, np.arange(9000) // 900):
        assert stats.chisquare(np.bincount(y[some_rows(9000, 900)])).pvalue > 1e-3


# The scores

NAMES = ("fid", "interpolation_fid", "reconstruction_fid")


@pytest.fixture
def data() -> Data:
    """Three classes of 2x2 images that `Linear` with the same means makes."""
    rng = RNG(0)
    y = np.arange(900) % 3
    x = (np.array([0.3, 0.5, 0.7])[y][:, None, None, None] + 0.05 * rng.normal(size=(900, 2, 2, 1))).astype(np.float32)
    return Data("greys", x[:600], np.full(600, -1), x[600:], y[600:], ("dark", "middle", "light"))


def pixels(images: np.ndarray, _text: str) -> np.ndarray:
    images = images if images.dtype == np.uint8 else draw.to_uint8(images)
    return images.reshape(-1, 4).astype(np.float32) / 255


def test_scores_of_a_model_that_is_right_and_of_one_that_is_not(data, tmp_path):
    right, wrong = Linear([0.3, 0.5, 0.7], [1 / 3] * 3), Linear([0.5, 0.5, 0.7], [1 / 3] * 3)
    good, bad = (fid.measured(model, data, pixels, tmp_path, {}, 3000, 0) for model in (right, wrong))
    for split in ("test", "train"):
        assert good["fid"][split] < 1e-3 < 5e-3 < bad["fid"][split]
        assert abs(good["kid"][split]["mean"]) < 0.01 < bad["kid"][split]["mean"]
        assert good["interpolation_fid"][split] == pytest.approx(bad["interpolation_fid"][split])
        assert good["reconstruction_fid"][split] < 1e-3
    assert good["reconstruction_fid"]["test"] < 1e-5 < good["reconstruction_fid"]["train"]
    assert max(good["per_class_fid"].values()) < 1e-3
    assert bad["per_class_fid"]["dark"] == pytest.approx(4 * 0.2**2, rel=0.05)
    assert bad["per_class_fid"]["light"] < 1e-3
    assert good["protocol"]["samples"] == 3000
    assert good["protocol"]["reference"] == {"test": 300, "train": 600}
    assert good["protocol"]["few"] is good["protocol"]["per_class"]["few"] is True
    assert good["protocol"]["per_class"]["reference"] == [100, 100, 100]
    np.testing.assert_allclose(good["protocol"]["class_weights"], 1 / 3, rtol=1e-5)


def test_every_score_is_of_its_own_split(data, tmp_path):
    """Test images at half the light, and a model of those: all is near them and far from the training images."""
    dark = dataclasses.replace(data, x_test=data.x_test / 2)
    found = fid.measured(Linear([0.15, 0.25, 0.35], [1 / 3] * 3, 0.025), dark, pixels, tmp_path, {}, 2000, 0)
    for name in NAMES:
        assert found[name]["test"] < 0.02 < 0.2 < found[name]["train"]
    assert found["kid"]["test"]["mean"] < 0.01 < 0.1 < found["kid"]["train"]["mean"]
    assert max(found["per_class_fid"].values()) < 1e-3


def test_interpolations_along_t_are_those_of_each_t(data, tmp_path):
    model = Linear([0.3, 0.5, 0.7], [1 / 3] * 3)
    found = fid.measured(model, data, pixels, tmp_path, {}, 500, 3, along=(0.0, 0.5))
    assert found["interpolation_fid_at"]["t"] == [0, 0.5]
    for i, t in enumerate((0.0, 0.5)):
        own = statistics([pixels(interpolated_at(model, data.x_test, t, 500, 3), "")])
        for split, x in (("test", data.x_test), ("train", data.x_train)):
            expected = frechet(statistics([pixels(x, "")]), own)
            assert found["interpolation_fid_at"][split][i] == pytest.approx(expected)
    assert "interpolation_fid_at" not in fid.measured(model, data, pixels, tmp_path, {}, 500, 3)


def test_enough_samples_are_not_few(data, tmp_path):
    x, model = np.resize(data.x_train, (2048, 2, 2, 1)), Linear([0.3, 0.5, 0.7], [1 / 3] * 3)
    many = dataclasses.replace(data, x_train=x, x_test=x, y_test=np.resize(data.y_test, 2048))
    assert fid.measured(model, many, pixels, tmp_path, {}, 2048, 0)["protocol"]["few"] is False
    assert fid.measured(model, many, pixels, tmp_path, {}, 2047, 0)["protocol"]["few"] is True


def test_components_that_are_no_classes_have_no_fid_of_their_own(data, tmp_path):
    found = fid.measured(Linear([0.5], [1.0]), data, pixels, tmp_path, {}, 100, 0)
    assert found["per_class_fid"] == {"dark": None, "middle": None, "light": None}
    assert found["protocol"]["per_class"]["samples"] == [0, 0, 0]
    assert found["fid"]["test"] > 0


def test_scores_are_the_same_again_and_the_real_images_read_once(data, tmp_path):
    seen = []

    def extract(images, text):
        seen.append((text, len(images)))
        return pixels(images, text)

    model = Linear([0.3, 0.5, 0.7], [1 / 3] * 3)
    first, again = (fid.measured(model, data, extract, tmp_path, {}, 100, 0) for _ in range(2))
    assert first == again
    real = [("test images", 300), ("train images", 600)]
    made_by_the_model = [("fid", 100), ("interpolation fid", 100), ("reconstruction fid", 100)]
    assert seen == real + 2 * made_by_the_model
    few = fid.measured(model, data, extract, tmp_path, {}, 100, 0, rows=50)
    assert seen[8:10] == [("test images", 50), ("train images", 50)]
    assert few["protocol"]["reference"] == {"test": 50, "train": 50}
    counts = np.bincount(data.y_test[some_rows(300, 50)])
    assert few["protocol"]["per_class"]["reference"] == counts.tolist() != [17, 17, 16]
    fid.measured(model, data, extract, tmp_path, {"weights": "others"}, 100, 0)
    assert seen[13:15] == real


def test_all_of_it_with_a_network(weights, data, tmp_path):
    model = Linear([0.3, 0.5, 0.7], [1 / 3] * 3)
    found = fid.scores(model, data, weights, tmp_path, n=4, seed=1, rows=4)
    assert np.isfinite([found[name][split] for name in NAMES for split in ("test", "train")]).all()
    assert {"mean", "standard_error"} < found["kid"]["test"].keys()
    protocol = found["protocol"]
    assert protocol["weights"] == {"file": weights.name, "sha256": inception.digest(weights), "known": False}
    assert (protocol["samples"], protocol["seed"], protocol["few"], protocol["device"]) == (4, 1, True, "cpu")
    assert len(list((tmp_path / "statistics").iterdir())) == 2


def test_data_that_have_no_fid(data, tmp_path):
    def problem(match: str, n: int = 10, rows: int | None = None, **changes) -> None:
        changed = Data(**vars(data) | changes)
        with pytest.raises(InputError, match=match):
            fid.scores(Linear([0.5], [1.0]), changed, None, tmp_path, n, rows=rows)

    table = data.x_train.reshape(600, 4)
    problem("greys is a table of shape", x_train=table, x_test=table[:9], y_test=data.y_test[:9])
    problem("greys has no test split", x_test=data.x_test[:0], y_test=data.y_test[:0])
    problem("greys: 3 test rows", x_test=data.x_test[:3], y_test=data.y_test[:3])
    problem("greys: 2 samples", n=2)
    problem("rows = 1", rows=1)
    problem("data fetch inception")
