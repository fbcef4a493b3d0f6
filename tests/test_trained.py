"""The models that come with segma: there, small, as good as they say, and never written to."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segma import SeGMA, data, files, runs
from segma.errors import InputError
from test_cli import call  # noqa: F401

MODELS = runs.come_along()


def test_digits_and_mnist_come_along():
    assert list(MODELS) == ["digits", "mnist"]


@pytest.mark.parametrize("name", MODELS)
def test_each_is_small_and_says_what_it_is(name):
    assert sum(file.stat().st_size for file in MODELS[name].iterdir()) < 8e6
    run = runs.read(Path(name))
    assert run.path == MODELS[name]
    assert run.config.data == name
    assert run.data["where"] == ""  # no path of the machine that made it
    assert runs.steps_done(run) == files.read_json(run.path / "results.json")["protocol"]["steps"]


def test_one_line_loads_it_and_it_is_as_good_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # wherever one is
    model = SeGMA.load("digits", device="cpu")
    digits = data.load("digits")
    wrong = (model.predict(digits.x_test[..., 0]) != digits.y_test).mean()
    assert wrong == pytest.approx(files.read_json(MODELS["digits"] / "results.json")["test_error"], abs=0.005)
    assert model.sample(2, label=3).shape == (2, 8, 8)


def test_mnist_reads_the_digits_of_other_people():
    """Those of scikit-learn, 8x8 and enlarged: other writers, another scanner, and here without MNIST's files."""
    digits, model = data.load("digits"), SeGMA.load("mnist", device="cpu")
    x = np.zeros((len(digits.x_test), 28, 28), np.uint8)
    for small, large in zip(digits.x_test[..., 0], x, strict=True):
        large[5:23, 5:23] = Image.fromarray(small).resize((18, 18), Image.Resampling.BICUBIC)
    assert (model.predict(x) != digits.y_test).mean() < 0.2  # 0.12 when made; guessing has 0.9
    samples = np.concatenate([model.sample(20, label=label) for label in model.classes_])
    assert (model.predict(samples) == np.repeat(model.classes_, 20)).mean() > 0.95


def test_commands_take_it_by_name_and_leave_it_as_it_is(call, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in MODELS["digits"].iterdir()}
    status, out, _ = call("evaluate", "digits", "--json")
    assert status == 0
    assert json.loads(out)["test_error"] < 0.06
    assert call("sample", "digits", "--label", "3", "--out", tmp_path / "threes.png")[0] == 0
    assert (tmp_path / "threes.png").exists()
    assert {file: file.stat().st_mtime_ns for file in MODELS["digits"].iterdir()} == before


def test_it_is_not_trained_on(call, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "TRAINED", shutil.copytree(runs.TRAINED, tmp_path / "trained"))
    status, _, err = call("resume", "digits")
    assert (status, "digits holds a trained model but no checkpoint" in err) == (2, True)


def test_a_run_of_that_name_comes_first_and_another_folder_is_not_in_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("digits").mkdir()
    assert runs.read(Path("digits")).comes_along
    shutil.copy(runs.TRAINED / "mnist" / "config.json", "digits")
    assert runs.read(Path("digits")).path == Path("digits")
    Path("photos").mkdir()
    with pytest.raises(InputError, match=r"photos is not a run"):
        runs.read(Path("photos"))
    with pytest.raises(InputError, match="nothing: no such run; there are digits, mnist"):
        runs.read(Path("nothing"))


def test_a_run_misspelt_is_guessed_and_another_number_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs.TRAINED / "digits", "runs/photos-1")
    shutil.copytree(runs.TRAINED / "digits", "kept/photos-2")
    for wrong, message in {
        "runs/photo-1": "did you mean 'runs/photos-1'",
        "runs/photos-3": "there are runs/photos-1, digits, mnist",
        "photos-1": "did you mean 'runs/photos-1'",
        "kept/photos-3": "there are kept/photos-2, runs/photos-1, digits, mnist",
    }.items():
        with pytest.raises(InputError, match=message):
            runs.read(Path(wrong))


@pytest.mark.filterwarnings("always")
def test_a_negative_is_noticed_and_what_is_right_is_not(call, tmp_path):  # noqa: F811
    digits = data.load("digits")
    for i, picture in enumerate(digits.x_test[:10]):
        for name, x in (("right", picture), ("negative", 255 - picture)):
            Image.fromarray(x[..., 0]).save(tmp_path / f"{name}-{i}.png")
    status, _, notes = call("classify", "digits", *sorted(tmp_path.glob("*.png")))
    assert status == 0
    assert sum("negative of what this model knows" in line for line in notes.splitlines()) == 10
    assert "right-" not in notes
