"""Gaussians fitted to codes: draws are where the codes are, the mixture and its posteriors stay."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

import segma
from segma import clouds, files, launch, runs, sweep
from segma.errors import InputError
from segma.mixture import Mixture
from segma.model import Model
from segma.recipes import recipe
from test_sweep import SMALL, pictures  # noqa: F401 (a fixture)

FLAT = SMALL | {"latent_dim": 2, "clouds": 3}  # few dimensions: 70 pictures are enough


def target(d: int = 2, variances: tuple[float, float] = (1.0, 1.0)) -> Mixture:
    return Mixture(torch.tensor([0.5, 0.5]), 40 * torch.eye(2, d), torch.tensor(variances))


def two_lobes(n: int = 6000) -> np.ndarray:
    """Codes of class 0: two ellipses left and right of its mean; of class 1: one that is tilted, and off its mean."""
    rng = np.random.default_rng(0)
    side = np.where(rng.random(n) < 0.25, -3.0, 2.0)
    lobes = np.stack([40 + side + 0.5 * rng.normal(size=n), 2 * rng.normal(size=n)], axis=1)
    tilted = rng.multivariate_normal([0.5, 41], [[2.0, 1.2], [1.2, 1.0]], n)
    return rng.permutation(np.concatenate([lobes, tilted])).astype(np.float32)


def draws(found: clouds.Clouds, mixture: Mixture, label: int, n: int = 20_000) -> np.ndarray:
    generator = torch.Generator().manual_seed(1)
    y, noise = torch.full((n,), label), torch.randn(n, mixture.d, generator=generator)
    return mixture.place(y, found.shaped(y, noise, generator)).numpy()


@pytest.mark.parametrize("variances", [(1.0, 1.0), (4.0, 0.25)])
def test_draws_are_where_the_codes_are(variances):
    """Shares, means and deviations of each lobe, by numpy; a floor of 0.1 component variances is added on purpose."""
    mixture, z = target(variances=variances), two_lobes()
    found = clouds.fit(torch.from_numpy(z), mixture, 2)
    made, codes = draws(found, mixture, 0), z[z[:, 0] > 20]
    left, truly = made[made[:, 0] < 39.5], codes[codes[:, 0] < 39.5]
    assert len(left) / len(made) == pytest.approx(len(truly) / len(codes), abs=0.01)
    np.testing.assert_allclose(left.mean(axis=0), truly.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(left.var(axis=0), truly.var(axis=0) + 0.1 * variances[0], rtol=0.1)
    assert np.mean(np.abs(made[:, 0] - 39.3) < 0.3) < 0.02  # nothing between the lobes, where the component has most
    made, codes = draws(found, mixture, 1), z[z[:, 0] < 20]
    np.testing.assert_allclose(made.mean(axis=0), codes.mean(axis=0), atol=0.05)
    wanted = np.cov(codes.T) + 0.1 * variances[1] * np.eye(2)
    np.testing.assert_allclose(np.cov(made.T), wanted, rtol=0.1)  # a hundredth of the codes, the outermost, is left out


@pytest.mark.parametrize("off", [200, 1e4])  # the outermost hundredth, and what is no code at all
def test_a_code_astray_gets_no_gaussian(off):
    z = two_lobes()
    z[:20] = 40 + off * np.sign(z[:20] - 20)
    made = np.concatenate([draws(clouds.fit(torch.from_numpy(z), target(), 5), target(), k) for k in (0, 1)])
    assert np.abs(made).max() < 60


@pytest.mark.parametrize("stray", [np.nan, np.inf, 1e38])
def test_codes_that_are_no_numbers_are_left_out(stray):
    z = two_lobes()
    z[::7] = stray
    found = clouds.fit(torch.from_numpy(z), target(), 3)
    assert all(torch.isfinite(part).all() for part in (found.weights, found.means, found.factors))


@pytest.mark.parametrize("z", [torch.full((500, 2), 40.0), 1e30 * torch.ones(500, 2), torch.randint(39, 41, (500, 2))])
def test_codes_all_alike_or_of_a_failed_training_are_no_trouble(z):
    found = clouds.fit(z.float(), target(), 3)
    assert found is None or np.isfinite(draws(found, target(), 0)).all()


def test_with_few_codes_there_are_fewer_gaussians_or_none():
    """Ten codes per dimension for each: 65 in two dimensions make three, 15 leave the component as it is."""
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal((40, 0), size=(65, 2)), rng.normal((0, 40), size=(15, 2))]).astype(np.float32)
    found = clouds.fit(torch.from_numpy(z), target(), 10)
    assert found.weights.shape == (2, 3)
    assert (found.weights[0] > 0).all()
    assert torch.equal(found.weights[1], torch.tensor([1.0, 0, 0]))
    y, generator = torch.ones(50, dtype=torch.long), torch.Generator().manual_seed(0)
    noise = torch.randn(50, 2)
    assert torch.equal(found.shaped(y, noise, generator), noise)
    assert clouds.fit(torch.from_numpy(z[-15:]), target(), 10) is None


def test_a_draw_of_many_classes_is_that_of_each():
    """Which of the others are drawn beside does not matter to a draw's share of noise."""
    found = clouds.fit(torch.from_numpy(two_lobes()), target(), 4)
    y, noise = torch.arange(1000) % 2, torch.randn(1000, 2)
    mixed = found.shaped(y, noise, torch.Generator().manual_seed(3))
    u = torch.rand(1000, 1, generator=torch.Generator().manual_seed(3))
    for i in (0, 1, 500, 999):  # by hand: the first Gaussian up to which the weights exceed u
        part = int(np.searchsorted(np.cumsum(found.weights[y[i]].numpy()), u[i].item()))
        by_hand = found.means[y[i], part] + found.factors[y[i], part] @ noise[i]
        torch.testing.assert_close(mixed[i], by_hand)


def finished(folder) -> Model:
    return runs.load_model(runs.read(folder))


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_run_ends_with_them_alone_and_in_a_stack(pictures, tmp_path, average):  # noqa: F811
    settings = FLAT | {"average": average}
    job = launch.start(str(pictures), "paper", settings, tmp_path / "run", device="cpu")
    for step in launch.train(job):
        if step.step < step.last:
            assert job.state.result.clouds is None  # not yet: the codes still move
    model = finished(tmp_path / "run")
    again = clouds.fit(model.encode(model.prepare(torch.from_numpy(job.data.x_train))).detach(), model.mixture, 3)
    torch.testing.assert_close(vars(model.clouds), vars(again), rtol=1e-4, atol=1e-4)
    y, same = torch.arange(300) % 3, torch.Generator().manual_seed(0)
    kept = model.draw(y, same)
    model.clouds = None
    assert (kept - model.draw(y, torch.Generator().manual_seed(0))).abs().max() > 0.1
    jobs = sweep.open_jobs(str(pictures), sweep.grid(["alpha=5,1"]), "paper", settings, tmp_path / "s", device="cpu")
    for _ in sweep.train(jobs):
        pass
    beside = finished(tmp_path / "s" / "alpha=5")
    torch.testing.assert_close(beside.clouds.means, again.means, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore:.* has trained:UserWarning")
def test_a_stopped_run_has_none_and_a_resumed_one_the_same(pictures, tmp_path):  # noqa: F811
    job = launch.start(str(pictures), "paper", FLAT, tmp_path / "run", device="cpu")
    stop = iter([False, False, True])
    for _ in launch.train(job, lambda: next(stop)):
        pass
    assert finished(tmp_path / "run").clouds is None
    for _ in launch.train(launch.resume(tmp_path / "run", device="cpu")):
        pass
    resumed = finished(tmp_path / "run").clouds
    (tmp_path / "run" / "model.safetensors").unlink()  # the checkpoint has all but these: they are fitted again
    for _ in launch.train(launch.resume(tmp_path / "run", device="cpu")):
        pass
    assert torch.equal(finished(tmp_path / "run").clouds.means, resumed.means)


def test_an_estimator_has_them_too_and_keeps_them(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = rng.normal(size=(200, 3)) + 3 * y[:, None]
    settings = {"latent_dim": 2, "hidden": "8", "clouds": 2}
    model = segma.SeGMA(epochs=5, settings=settings, device="cpu").fit(x, y)
    assert model.model_.clouds.weights.shape == (2, 2)
    model.save(tmp_path / "run")
    loaded = segma.SeGMA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.sample(20, random_state=1), model.sample(20, random_state=1))


@pytest.mark.filterwarnings("ignore:.* has trained:UserWarning")
def test_a_damaged_file_is_told(pictures, tmp_path):  # noqa: F811
    for _ in launch.train(launch.start(str(pictures), "paper", FLAT, tmp_path / "run", device="cpu")):
        pass
    file = tmp_path / "run" / "model.safetensors"
    with safe_open(file, framework="pt") as content:
        tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    tensors.pop("clouds.means")
    files.write_tensors(file, tensors, {"step": "1"})
    with pytest.raises(InputError, match=r"does not fit config\.json"):
        finished(tmp_path / "run")


def test_rivals_have_no_use_for_them(pictures, tmp_path):  # noqa: F811
    with pytest.raises(InputError, match="clouds"):
        launch.start(str(pictures), "best", {"clouds": 3, "model": "adgm"}, tmp_path / "run", device="cpu")


@pytest.mark.parametrize("data", ["digits", "mnist", "svhn", "celeba", "of one's own"])
def test_the_papers_samples_come_from_its_components(data):
    assert recipe("paper", data, (32, 32, 3), 5000, 10).clouds == 0
