"""What `segma export` writes: the same numbers without segma, a folder that loads, nothing of this machine."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from segma import SeGMA, data, export, files, launch, runs
from segma.clouds import Clouds
from segma.errors import InputError, RunFailed
from test_cli import call  # noqa: F401

onnxruntime = pytest.importorskip("onnxruntime", reason="needs segma[export]")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A short run on a table in units of its own, of a rare class and a frequent one."""
    folder = tmp_path_factory.mktemp("a place of mine")
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3 // 2
    lines = [
        f"{1000 + 50 * k + 9 * a:.3f},{0.01 * b:.5f},{'odd' if k else 'even'}"
        for k, (a, b) in zip(y, rng.normal(size=(300, 2)), strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(["weight,length,label", *lines]) + "\n")
    out = folder / "run"
    for _ in launch.train(launch.start(str(folder / "rows.csv"), settings={"epochs": 60}, out=out, device="cpu")):
        pass
    return out


def exported(run: Path | str, form: str, out: Path) -> Path:
    """By a process of its own: the checks of shapes in this one are in the exporter's way."""
    words = [sys.executable, "-m", "segma", "export", run, "--format", form, "--out", out]
    subprocess.run([*map(str, words)], check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    return exported("digits", "onnx", tmp_path_factory.mktemp("onnx") / "new")


def session(folder: Path, name: str):
    return onnxruntime.InferenceSession(folder / f"{name}.onnx")


def test_onnx_gives_what_the_estimator_gives(digits):
    x = data.load("digits").x_test[:37]
    model = SeGMA.load("digits", device="cpu")
    z, posterior = session(digits, "encoder").run(None, {"x": np.float32(x / 255)})
    np.testing.assert_allclose(z, model.transform(x), atol=1e-4)
    np.testing.assert_allclose(posterior, model.predict_proba(x), atol=1e-4)
    (x_hat,) = session(digits, "decoder").run(None, {"z": z[:5]})
    np.testing.assert_allclose(x_hat * 255, model.inverse_transform(z[:5])[..., None], atol=0.51)  # rounded there


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_onnx_of_a_table_takes_and_gives_its_own_units(table, tmp_path):
    folder = exported(table, "onnx", tmp_path / "out")
    model, about = SeGMA.load(table, device="cpu"), json.loads((folder / "model.json").read_text())
    assert about["x"] == {"shape": [2], "kind": "table", "columns": ["weight", "length"]}
    assert about["classes"] == ["even", "odd"]
    x = np.array([[1010.0, 0.002], [1040.0, -0.01], [990.0, 0.0]])
    z, posterior = session(folder, "encoder").run(None, {"x": np.float32(x)})
    np.testing.assert_allclose(z, model.transform(x), atol=1e-3)
    np.testing.assert_allclose(posterior, model.predict_proba(x), atol=1e-3)
    (x_hat,) = session(folder, "decoder").run(None, {"z": z})
    np.testing.assert_allclose(x_hat, model.inverse_transform(z), rtol=1e-4, atol=1e-5)


def test_the_readmes_program_runs_without_segma(digits):
    (program,) = re.findall(r"```python\n(.*?)```", (digits / "README.md").read_text(), re.DOTALL)
    assert "segma" not in program
    program += "print(posterior[:, 0].mean(), last.shape, more.shape, way.shape, encode(last)[1][:, -1].mean())"
    out = subprocess.run([sys.executable, "-c", program], cwd=digits, check=True, capture_output=True, text=True).stdout
    first, *shapes, last = re.match(r"(?s).*\n(\S+) (.*\)) (\(.*\)) (\(.*\)) (\S+)", out).groups()
    assert float(first) > 0.9  # zeros are taken for zeros
    assert float(last) > 0.9  # and, moved to the nines, for nines
    assert shapes == ["(16, 8, 8, 1)", "(16, 8, 8, 1)", "(11, 8, 8, 1)"]


def test_samples_come_from_where_the_model_draws_them():
    """By mean and covariance: from the clouds, in the deviations of a component, or from the component itself."""
    run = runs.read(Path("digits"))
    model = runs.load_mixture(run)
    with torch.no_grad():
        model.log_variances.copy_(torch.linspace(-1, 1, 10))
    g = torch.Generator().manual_seed(0)
    k, d = model.means.shape
    factors = torch.eye(d) * 0.5 + 0.1 * torch.randn(k, 2, d, d, generator=g).tril()
    for clouds in (None, Clouds(torch.tensor([[0.3, 0.7]]).expand(k, 2), torch.randn(k, 2, d, generator=g), factors)):
        model.clouds = clouds
        found = export.numbers(run, model)
        weights, means, factors = (np.array(found["samples"][name][7]) for name in ("weights", "means", "factors"))
        mean = weights @ means
        around = means - mean
        covariance = np.einsum("m,mij,mkj->ik", weights, factors, factors) + (weights * around.T) @ around
        z = model.draw(torch.full((200_000,), 7), torch.Generator().manual_seed(1)).detach().double().numpy()
        np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.03)
        np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.06)


def test_nothing_of_this_machine_is_in_the_files(digits, table, tmp_path):
    hub = exported(table, "hub", tmp_path / "hub")
    for folder in (digits, hub, exported(table, "onnx", tmp_path / "onnx")):
        for file in folder.iterdir():
            content = file.read_bytes()
            for word in (str(Path(export.__file__).parent), str(table.parent), "model.py", str(Path.home())):
                assert word.encode() not in content, (file.name, word)


def test_a_folder_for_a_hub_is_a_run_with_a_card(tmp_path):
    hub = exported("digits", "hub", tmp_path / "mine")
    x = data.load("digits").x_test
    before, after = SeGMA.load("digits", device="cpu"), SeGMA.load(hub, device="cpu")
    np.testing.assert_array_equal(before.predict_proba(x), after.predict_proba(x))
    card = (hub / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: segma\npipeline_tag: image-classification\n")
    assert "test error: 3.40%  (100 labels, test, 500 rows)" in card
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    program = program.replace('snapshot_download("YOU/digits")', repr(str(hub))).replace("from huggingface_hub", "# ")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_the_hubs_copy_of_a_run_on_a_table_can_be_measured(table, tmp_path, call):  # noqa: F811
    hub = exported(table, "hub", tmp_path / "hub")
    assert not (hub / "samples.png").exists()
    shutil.copy(table.parent / "rows.csv", tmp_path / "rows.csv")
    status, _, err = call("classify", hub, tmp_path / "rows.csv")
    assert status == 0, err
    assert runs.read(hub).config.data == "rows.csv"
    assert runs.steps_done(runs.read(hub)) == runs.steps_done(runs.read(table))


def test_a_card_of_a_run_without_a_test_split_has_no_error_and_no_advice(tmp_path):
    run = shutil.copytree(runs.come_along()["digits"], tmp_path / "run")
    assert export.facts(runs.read(run))["measured"].startswith("test error: 3.40%")
    found = files.read_json(run / "results.json")
    files.write_json(run / "results.json", found | {"test_error": None})
    assert export.facts(runs.read(run))["measured"] == "Its error was not measured"


def test_wrong_calls(call, table, tmp_path, monkeypatch):  # noqa: F811
    for words, told in (
        (("digits", "--format", "onxx", "--out", tmp_path / "a"), "did you mean 'onnx'?"),
        (("digits", "--format", "tflite", "--out", tmp_path / "a"), "allowed are onnx, hub"),
        (("digits", "--format", "hub", "--out", tmp_path), "exists; nothing is overwritten"),
        ((tmp_path / "no", "--format", "hub", "--out", tmp_path / "a"), "no such run"),
    ):
        status, out, err = call("export", *words)
        assert (status, out) == (2, "")
        assert told in err
    monkeypatch.setattr(export, "PACKAGES", ("onnx", "no_such_package"))
    status, _, err = call("export", "digits", "--format", "onnx", "--out", tmp_path / "a")
    assert (status, "needs no_such_package: pip install" in err) == (2, True)
    assert not (tmp_path / "a").exists()


def test_a_rival_is_refused(tmp_path):
    out = tmp_path / "m1m2"
    settings = {"epochs": 1, "model": "m1m2", "hidden": "8", "inner_hidden": "8"}
    for _ in launch.train(launch.start("digits", settings=settings, out=out, device="cpu")):
        pass
    for form in export.FORMATS:
        with pytest.raises(InputError, match="one Gaussian per class"):
            export.export(runs.read(out), form, tmp_path / form)


def test_what_is_off_is_not_written(tmp_path, monkeypatch):
    """An ONNX file that gives other numbers than the model."""
    monkeypatch.setattr(export, "SAME", 1e-12)
    run = runs.read(Path("digits"))
    with pytest.raises(RunFailed, match="nothing was written"):
        export.export(run, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert files.read_json(run.path / "config.json")


def test_a_failed_export_leaves_nothing_in_the_way_of_the_next(tmp_path, monkeypatch):
    write, run = files.write, runs.read(Path("digits"))

    def full(path: Path, content: bytes) -> None:
        if path.name == "README.md":
            raise RunFailed("no space left")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", full)
        with pytest.raises(RunFailed, match="no space left"):
            export.export(run, "hub", tmp_path / "there" / "out")
    assert list((tmp_path / "there").iterdir()) == []
    export.export(run, "hub", tmp_path / "there" / "out")
    assert (tmp_path / "there" / "out" / "README.md").exists()
    (tmp_path / "file").touch()
    with pytest.raises(RunFailed, match="cannot write"):
        export.export(run, "hub", tmp_path / "file" / "out")
