"""The rivals as models like any other: trained, resumed, measured, sampled and drawn by the same commands."""

import json

import numpy as np
import pytest
import torch

from segma import apply, launch, measure, rivals, runs
from segma.baselines import RIVALS, Rows, build, classifies
from segma.config import Config
from segma.errors import InputError
from segma.metrics import fid
from segma.recipes import recipe
from segma.step import rate
from segma.train import fit
from test_cli import call, segma  # noqa: F401

NAMES = [*RIVALS, "cwae"]
SMALL = {"latent_dim": 4, "batch_size": 20, "epochs": 4}
TINY = {
    "m1m2": SMALL | {"hidden": "16,16", "inner_hidden": "12", "auxiliary_dim": 4},
    "adgm": SMALL | {"hidden": "16,16", "auxiliary_dim": 4},
    "triple-gan": SMALL,
    "cwae": SMALL | {"hidden": "16,16"},
}


@pytest.fixture(scope="module")
def npz(tmp_path_factory):
    """8x8 pictures of three classes: a bright bar high, in the middle or low."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 3)
    x = rng.integers(0, 80, (90, 8, 8), dtype=np.uint8)
    for row, label in zip(x, y, strict=True):
        row[3 * label : 3 * label + 2] += 150
    path = tmp_path_factory.mktemp("data") / "bars.npz"
    np.savez(path, x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    return path


def start(npz, model: str, path, **changes) -> launch.Job:
    settings = TINY[model] | {"model": model, "labels": 12} | changes
    return launch.start(str(npz), "best", settings, path, device="cpu")


@pytest.fixture(scope="module", params=NAMES)
def done(request, npz, tmp_path_factory) -> launch.Job:
    job = start(npz, request.param, tmp_path_factory.mktemp("runs") / request.param)
    for _ in launch.train(job):
        pass
    return job


def test_a_run_is_one_like_any_other(done):
    config = json.loads((done.run.path / "config.json").read_text())["settings"]
    assert config["model"] == done.run.config.model
    log = apply.training_log(done.run)
    assert all(np.isfinite(list(line.values())).all() for line in log if line.get("error") is not None)
    assert list((done.run.path / "samples").glob("*.png"))
    found = measure.alone(done.run, done.data, runs.load_model(done.run))
    assert found["protocol"]["model"] == done.run.config.model
    assert (found["test_error"] is None) is (done.run.config.model == "cwae")
    assert (found["reconstruction_error"] is None) is (done.run.config.model == "triple-gan")
    assert (found["log_distance"] is None) is (done.run.config.model != "cwae")


@pytest.mark.parametrize("model", NAMES)
def test_stopped_and_gone_on_it_is_the_same_as_never_stopped(npz, tmp_path, model):
    """Also across what changes on the way: M1 then M2, the classifier alone and then with the others."""
    changes = {"pretrain": 0.5} if model in ("m1m2", "triple-gan") else {}
    through, stopped = (start(npz, model, tmp_path / name, **changes) for name in ("through", "stopped"))
    for _ in launch.train(through):
        pass
    for _ in launch.train(stopped, lambda: stopped.state.step >= stopped.last // 3):
        pass
    assert 0 < stopped.state.step < stopped.last
    again = launch.resume(tmp_path / "stopped", device="cpu")
    for _ in launch.train(again):
        pass
    for name, value in through.state.tensors().items():
        torch.testing.assert_close(again.state.tensors()[name], value, msg=name)


def test_each_player_moves_its_own_weights_alone(npz, tmp_path):
    job = start(npz, "triple-gan", tmp_path / "run", pretrain=0)
    state, model = job.state, job.state.model
    rows = Rows(torch.rand(8, 1, 8, 8), torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0]))
    for turn, trained in model.players().items():
        before = {name: value.clone() for name, value in model.named_parameters()}
        rivals.take((turn,), state, model, lambda: rows, job.run.config, torch.Generator().manual_seed(0))
        own = {id(p) for p in trained}
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}  # not the averaged classifier
        moved = {name for name, p in trainable.items() if not torch.equal(p, before[name])}
        assert moved
        assert moved <= {name for name, p in model.named_parameters() if id(p) in own}, turn


def test_gradients_are_clipped_as_the_settings_say(npz, tmp_path):
    job = start(npz, "adgm", tmp_path / "run", clip_value=1e-4, clip_norm=0.0)
    seen = []
    job.state.optimizer.step = lambda: seen.append(
        max(p.grad.abs().max().item() for p in job.state.model.parameters() if p.grad is not None)
    )
    next(fit(job.state, torch.from_numpy(job.data.x_train), torch.from_numpy(job.data.y_train), job.run.config))
    assert seen == [pytest.approx(1e-4)]


def test_fid_is_of_what_a_model_can_do(done, npz, tmp_path):
    model = runs.load_model(done.run)

    def pixels(images: np.ndarray, _text: str) -> np.ndarray:
        return images.reshape(len(images), -1)[:, :6].astype(np.float32) / 255

    found = fid.measured(model, done.data, pixels, tmp_path, {}, 50, 0, along=(0.5,))
    assert found["fid"]["test"] >= 0
    encodes = done.run.config.model != "triple-gan"
    assert ("interpolation_fid" in found) is ("reconstruction_fid" in found) is encodes
    assert ("interpolation_fid_at" in found) is encodes


def test_commands_do_what_a_model_can_and_say_what_it_cannot(call, done, npz, tmp_path):  # noqa: F811
    run, model = done.run.path, done.run.config.model
    assert call("sample", run, "--out", tmp_path / "s.png")[0] == 0
    assert call("sample", run, "--label", "1", "--out", tmp_path / "l.png")[0] == (2 if model == "cwae" else 0)
    status, _, err = call("interpolate", run, "test:0", "test:1", "--out", tmp_path / "i.png")
    assert (status, "cannot encode" in err) == ((2, True) if model == "triple-gan" else (0, False))
    for words in (
        ("transfer", run, "test:0", "--to", "1"),
        ("intensify", run, "test:0"),
        ("evaluate", run, "--editing"),
    ):
        status, _, err = call(*words, *(["--out", tmp_path / "t.png"] if words[0] != "evaluate" else []))
        assert status == 2
        assert model in err
        assert len(err.strip().splitlines()) == 1
    assert call("similarity", run)[0] == 2
    status, out, _ = call("evaluate", run, "--json")
    assert status == 0
    assert json.loads(out)["protocol"]["model"] == model


def test_cwae_is_segma_with_one_gaussian(npz, tmp_path):
    job = start(npz, "cwae", tmp_path / "run")
    assert len(job.state.model.class_weights) == 1
    assert job.run.config.beta == 0
    assert not classifies(job.run.config)
    for step in launch.train(job):
        if step.values:
            assert step.values["cross_entropy"] == pytest.approx(0, abs=1e-6)  # one class: nothing to tell apart


@pytest.mark.parametrize("model", RIVALS)
@pytest.mark.parametrize("data", ["mnist", "svhn", "celeba", "digits"])
def test_every_recipe_builds(model, data):
    shape = {"mnist": (28, 28, 1), "digits": (8, 8, 1), "svhn": (32, 32, 3), "celeba": (64, 64, 3)}[data]
    config = recipe("paper", data, shape, 50_000, 10, model)
    assert config.model == model
    if (model, data) != ("triple-gan", "celeba"):  # not in the paper
        net = build(config, shape, 10).eval()
        assert net.generate(torch.arange(3), torch.Generator()).shape == (3, shape[2], *shape[:2])


def test_settings_of_another_model_are_refused():
    wrong = [{"weight_decay": 0.1}, {"model": "cwae", "draws": 3}]
    wrong += [
        {"model": "adgm", "average": 0.9},
        {"model": "triple-gan", "alpha": 3.0},
        {"model": "m1m2", "views": "noise"},
    ]
    for changes in wrong:
        word = list(changes)[-1]
        with pytest.raises(Exception, match=word):
            build(Config(**changes), (8, 8, 1), 3)


def test_the_tail_of_the_rate():
    """0.995 an epoch from epoch 300 to 1,000 is a factor of 0.03."""
    config = Config(schedule="tail", learning_rate=1.0)
    assert rate(299, 1000, config) == 1
    assert rate(1000, 1000, config) == pytest.approx(0.995**700, rel=0.01)


@pytest.mark.parametrize(
    ("model", "setting", "whose"),
    [
        ("triple-gan", {"hidden": "16"}, "segma, cwae, m1m2, adgm"),
        ("adgm", {"pretrain": 0.5}, "m1m2, triple-gan"),
        ("adgm", {"alpha": 1.0}, "segma, cwae"),
        ("cwae", {"draws": 2}, "m1m2, adgm"),
    ],
)
def test_what_a_model_has_no_use_for_is_refused(npz, tmp_path, model, setting, whose):
    with pytest.raises(InputError, match=f"{model} has no use for it, it is for {whose}$"):
        start(npz, model, tmp_path / "run", **setting)
    assert not (tmp_path / "run").exists()


def test_a_rival_is_not_swept(call, tmp_path):  # noqa: F811
    status, _, err = call("sweep", "digits", "--grid", "seed=0,1", "--set", "model=adgm", "--out", tmp_path / "s")
    assert status == 2
    assert "adgm" in err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("model", RIVALS)
def test_on_a_gpu_a_recorded_step_trains_like_a_plain_one(npz, tmp_path, monkeypatch, model):
    changes = {"pretrain": 0.5} if model != "adgm" else {}

    def losses(name: str) -> torch.Tensor:
        settings = TINY[model] | {"model": model, "labels": 12, "precision": "float32"} | changes
        job = launch.start(str(npz), "best", settings, tmp_path / name)
        x, y = (torch.from_numpy(a).cuda() for a in (job.data.x_train, job.data.y_train))
        return torch.stack([step.terms for step in fit(job.state, x, y, job.run.config)])

    recorded = losses("recorded")
    monkeypatch.setattr("segma.fast.recorded", lambda step, *_: step)
    torch.testing.assert_close(losses("plain"), recorded, rtol=2e-2, atol=1e-3)
