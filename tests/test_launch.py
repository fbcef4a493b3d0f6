"""Runs as folders: what is written, killing and resuming, and everything that may be wrong with a folder."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from data_files import write_mnist
from segma import files, launch, measure, record, run_data, runs
from segma.errors import InputError, RunFailed
from segma.metrics.accuracy import error, evaluate
from segma.model import encode_rows
from segma.step import NAMES
from segma.train import Step

SMALL = {"hidden": "12", "network": "mlp", "batch_size": "20", "epochs": "12", "labels": "12"}
SMALL |= {"log_every": "5", "samples_every": "3"}


@pytest.fixture(scope="module")
def npz(tmp_path_factory) -> Path:
    """Pictures of three classes, with a test split."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(300) % 3)
    x = rng.integers(0, 80, (300, 6, 6), dtype=np.uint8)
    for row, label in zip(x, y, strict=True):
        row[2 * label : 2 * label + 2] += 150
    path = tmp_path_factory.mktemp("data") / "bars.npz"
    np.savez(path, x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:], classes=["top", "middle", "low"])
    return path


def finish(job: launch.Job) -> launch.Job:
    for _ in launch.train(job):
        pass
    return job


@pytest.fixture(scope="module")
def done(npz, tmp_path_factory) -> launch.Job:
    job = finish(launch.start(str(npz), "best", SMALL, tmp_path_factory.mktemp("runs") / "run", device="cpu"))
    files.write_json(job.run.path / "results.json", measure.alone(job.run, job.data, job.state.result.eval()))
    return job


def test_a_run_folder_holds_what_the_design_says(done, npz):
    path = done.run.path
    config = json.loads((path / "config.json").read_text())
    assert config["settings"]["hidden"] == [12]
    assert config["settings"]["data"] == str(npz.resolve())
    assert config["data"]["classes"] == ["top", "middle", "low"]
    assert config["versions"]["torch"] == torch.__version__
    kept = json.loads((path / "labels.json").read_text())["kept"]
    assert len(kept) == 12
    truth = np.load(npz)["y_train"][kept]
    assert np.bincount(truth).tolist() == [4, 4, 4]
    lines = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    assert lines[-1]["step"] == done.state.step
    assert {"reconstruction", "log_distance", "cross_entropy", "error", "samples_per_second"} <= lines[-1].keys()
    pictures = sorted((path / "samples").glob("*.png"))
    assert len(pictures) == 4  # one every three epochs
    with Image.open(pictures[-1]) as picture:
        assert min(picture.size) > 100
    results = json.loads((path / "results.json").read_text())
    assert results["protocol"]["labels"] == 12
    assert (results["protocol"]["steps"], results["protocol"]["epochs"]) == (150, 12)
    assert 0 <= results["test_error"] <= 1
    assert np.sum(results["confusion"]) == 100
    assert not list(path.rglob("*.part"))


def test_two_that_write_one_file_at_once_do_not_mix(tmp_path):
    """Each content is whole, and neither writer is told of a failure."""
    contents = [bytes([letter]) * 200_000 for letter in b"abcd"]

    def write(content: bytes) -> None:
        for _ in range(30):
            files.write(tmp_path / "file", content)
            assert (tmp_path / "file").read_bytes() in contents

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, contents))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_results_are_what_a_fresh_look_gives(done):
    """Error, confusion and reconstruction once more, row by row, from the files."""
    model = runs.load_model(runs.read(done.run.path))
    x, y = done.data.x_test, done.data.y_test
    wrong, squares, confusion = 0, 0.0, np.zeros((3, 3), int)
    with torch.no_grad():
        for row, label in zip(x, y, strict=True):
            image = torch.from_numpy(row).permute(2, 0, 1)[None].float() / 255
            z = model.encoder(image)
            distances = ((z - model.means) ** 2).sum(dim=1) / 2 - model.log_weights.log_softmax(dim=0)
            guess = int(distances.argmin())
            wrong += guess != label
            confusion[label, guess] += 1
            squares += float((model.decoder(z).sigmoid() - image).square().sum())
    results = json.loads((done.run.path / "results.json").read_text())
    assert results["test_error"] == wrong / 100
    assert results["confusion"] == confusion.tolist()
    assert results["reconstruction_error"] == pytest.approx(squares / 100, rel=1e-5)
    assert results["reconstruction_share"] == pytest.approx(squares / 100 / (x / 255.0).var(axis=0).sum(), rel=1e-5)


def test_rows_of_the_confusion_matrix_are_the_true_classes(done):
    """The classes as they are guessed, called by the next one's name: all counts stand left of the diagonal."""
    model, x = done.state.result.eval(), done.data.x_test
    guess = model.mixture.posterior(encode_rows(model, x)).argmax(dim=1).numpy()
    found = evaluate(model, x, (guess + 1) % 3, done.run.config, 200)
    a, b, c = np.bincount(guess, minlength=3).tolist()
    assert found["confusion"] == [[0, 0, c], [a, 0, 0], [0, b, 0]]
    assert found["error"] == 1


def test_stop_saves_and_resume_ends_the_same(done, npz, tmp_path):
    job = launch.start(str(npz), "best", SMALL, tmp_path / "run", device="cpu")
    steps = iter(range(100))
    last = list(launch.train(job, lambda: next(steps) == 3))[-1]
    assert last.step == job.state.step == 4
    with pytest.warns(UserWarning, match=r"has trained 4 of its \d+ steps; if it was stopped, it goes on with: segma"):
        half = measure.alone(job.run, job.data, runs.load_model(job.run))
    assert half["protocol"]["steps"] == 4  # what was trained, not what was planned
    resumed = finish(launch.resume(tmp_path / "run", device="cpu"))
    for name in ("model.safetensors", "checkpoint/last.safetensors", "labels.json"):
        assert (tmp_path / "run" / name).read_bytes() == (done.run.path / name).read_bytes(), name
    assert resumed.state.step == done.state.step
    logs = [(path / "log.jsonl").read_text().splitlines() for path in (tmp_path / "run", done.run.path)]
    keep = [[{**json.loads(line), "samples_per_second": 0} for line in log] for log in logs]
    assert keep[0] == keep[1]
    assert list(launch.train(launch.resume(tmp_path / "run", device="cpu"))) == []  # finished: nothing more to do


def segma(*words: str, **more) -> subprocess.Popen:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "segma", *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def settings(**values: str) -> list[str]:
    return [word for key, value in (SMALL | values).items() for word in ("--set", f"{key}={value}")]


def test_killed_without_warning_and_resumed_is_bit_for_bit_the_same(done, npz, tmp_path):
    out = tmp_path / "run"
    words = settings(checkpoint_seconds="0")
    process = segma("train", str(npz), "--out", str(out), "--device", "cpu", *words)
    deadline = time.monotonic() + 60
    while not (out / runs.CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    step = runs.read_checkpoint(runs.read(out))[1]
    assert 1 <= step < done.state.step, "killed too late to show anything"
    process = segma("resume", str(out), "--device", "cpu")
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert "test error" in stdout
    assert (out / "model.safetensors").read_bytes() == (done.run.path / "model.safetensors").read_bytes()


def test_ctrl_c_saves_and_says_how_to_go_on(npz, tmp_path):
    out, mine = tmp_path / "run", Path(shutil.copy(npz, tmp_path / "bars.npz"))

    def interrupted(*words: str) -> str:
        log, deadline = out / "log.jsonl", time.monotonic() + 60
        before = log.stat().st_size if log.exists() else 0
        process = segma(*words, "--device", "cpu")
        while not (log.exists() and log.stat().st_size > before) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "Traceback" not in stderr
        return stderr

    assert interrupted("train", str(mine), "--out", str(out), *settings(epochs="100000")).endswith(f" {out}\n")
    assert (step := runs.read_checkpoint(runs.read(out))[1]) >= 1
    (tmp_path / "there").mkdir()
    mine.rename(tmp_path / "there" / "bars.npz")
    again = ("resume", str(out), "--data-dir", str(tmp_path / "there"))
    assert interrupted(*again).endswith(f"saved; go on with: segma {' '.join(again)}\n")
    assert runs.read_checkpoint(runs.read(out))[1] > step


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_full_disk_keeps_the_last_good_checkpoint(npz, tmp_path):
    """A file-size limit stands in for the disk: the first save of a larger model does not fit, the old one stays."""
    out = tmp_path / "run"
    process = segma(
        "train", str(npz), "--out", str(out), "--device", "cpu", *settings(hidden="64"), preexec_fn=limit_files
    )
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert len(stderr.strip().splitlines()[-1].split("cannot write")) == 2, stderr
    assert "Traceback" not in stderr
    assert not list(out.rglob("*.part"))


def test_a_failed_save_leaves_the_old_file(done, tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write(path, b"old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RunFailed, match=r"cannot write .*file: No space left on device; what was saved before is intact"
    ):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(RunFailed, match=r"cannot write .*x: .*file is a file, no folder"):
        files.write(path / "x", b"new")


def test_nan_keeps_the_last_good_checkpoint(npz, tmp_path, monkeypatch):
    from segma import fast

    job = launch.start(str(npz), "best", SMALL | {"checkpoint_seconds": "0"}, tmp_path / "run", device="cpu")
    plain, count = fast.batch_terms, iter(range(1000))

    def poison(*args):
        terms = plain(*args)
        return terms._replace(cross_entropy=terms.cross_entropy * float("nan")) if next(count) == 5 else terms

    monkeypatch.setattr(fast, "batch_terms", poison)
    with pytest.raises(RunFailed, match="step 6: the cross entropy is nan") as failure:
        finish(job)
    assert not failure.value.resumable
    tensors, step = runs.read_checkpoint(job.run)
    assert step == 5
    assert all(torch.isfinite(value).all() for value in tensors.values())
    assert all(torch.isfinite(value).all() for value in load_file(tmp_path / "run" / "model.safetensors").values())


def test_data_of_ones_own_that_have_moved(npz, tmp_path):
    here = shutil.copy(npz, tmp_path / "bars.npz")
    job = finish(launch.start(here, "best", SMALL | {"epochs": "1"}, tmp_path / "run", device="cpu"))
    there = tmp_path / "there" / "bars.npz"
    there.parent.mkdir()
    Path(here).rename(there)
    with pytest.raises(InputError, match=r"bars\.npz: no such file or folder; --data-dir FOLDER, if it lies there now"):
        run_data.load(job.run)
    with pytest.raises(InputError, match=r"no such file or folder, nor is .*run.bars\.npz there; --data-dir"):
        run_data.load(job.run, tmp_path / "run")
    for place in (there.parent, there):  # what it lies in, or itself
        again = run_data.load(job.run, place)
        np.testing.assert_array_equal(again.x_train, job.data.x_train)
        np.testing.assert_array_equal(again.y_train, job.data.y_train)
    shutil.copy(npz, here)
    there.write_bytes(b"another")  # where it was goes before where it may have moved
    np.testing.assert_array_equal(run_data.load(job.run, there.parent).x_test, job.data.x_test)


def test_a_home_is_written_out(npz, tmp_path, monkeypatch):
    """The run finds its data again, wherever it is looked at from."""
    monkeypatch.setenv("HOME", str(npz.parent))
    job = finish(launch.start(f"~/{npz.name}", "best", SMALL | {"epochs": "1"}, tmp_path / "run", device="cpu"))
    assert run_data.load(job.run).shape == job.data.shape


def test_an_existing_folder_is_never_touched(npz, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="exists and is not overwritten"):
        launch.start(str(npz), "best", SMALL, tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_default_names_count_up(tmp_path):
    assert launch.free_name("digits", tmp_path) == tmp_path / "digits-1"
    (tmp_path / "digits-1").mkdir()
    assert launch.free_name("digits", tmp_path) == tmp_path / "digits-2"


def copy_of(done, tmp_path) -> Path:
    import shutil

    return Path(shutil.copytree(done.run.path, tmp_path / "copy"))


def test_a_run_of_other_data_is_refused(done, npz, tmp_path):
    run = copy_of(done, tmp_path)
    arrays = dict(np.load(npz))
    arrays["x_train"][0, 0, 0] ^= 1
    np.savez(tmp_path / "other.npz", **arrays)
    config = json.loads((run / "config.json").read_text())
    config["settings"]["data"] = str(tmp_path / "other.npz")
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="was trained on other data"):
        launch.resume(run)


def test_a_run_from_another_machine_finds_the_data_of_this_one(tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    write_mnist(there)
    monkeypatch.setenv("SEGMA_DATA", str(here))
    run = launch.start("mnist", "best", SMALL, tmp_path / "run", there, "cpu").run
    assert run_data.data_place(run) == there  # what it was trained on goes before what this machine has
    there.rename(here)
    assert run_data.data_place(run) == here
    assert run_data.load(run).name == "mnist"
    assert run_data.data_place(run, tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("checkpoint/last.safetensors", None, "damaged"),
        ("checkpoint/last.safetensors", b"", "damaged"),
        ("config.json", b'{"settings": {', "damaged"),
        ("config.json", b'{"settings": {}}', "damaged"),
        ("config.json", b"[]", "damaged"),
        ("config.json", b'{"settings": {}, "data": 3}', "damaged"),
        ("config.json", b'{"settings": [], "data": {}}', "damaged"),
        ("config.json", b'{"settings": {}, "data": {"name": "a", "form": {}}}', "nothing of the data's where, shape, "),
        ("labels.json", b"[", "damaged"),
        ("labels.json", b"{}", "damaged"),
        ("labels.json", b'{"kept": ["a"], "held_out": []}', "damaged"),
    ],
)
def test_half_written_files_are_named(done, tmp_path, file, content, message):
    run = copy_of(done, tmp_path)
    whole = (run / file).read_bytes()
    (run / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(InputError, match=f"{Path(file).name}.*{message}"):
        launch.resume(run)


@pytest.mark.parametrize(("key", "value"), [("shape", 3), ("rows", ["a", "b"]), ("classes", 5), ("classes", [1, 2])])
def test_a_config_of_other_kinds_of_values_is_damaged(done, tmp_path, key, value):
    run = copy_of(done, tmp_path)
    config = json.loads((run / "config.json").read_text())
    config["data"][key] = value
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"config.json is damaged: not what segma writes"):
        runs.read(run)


def test_a_model_that_does_not_say_its_step_is_damaged(done, tmp_path):
    run = copy_of(done, tmp_path)
    tensors, _ = files.read_tensors(run / "model.safetensors", "")
    files.write_tensors(run / "model.safetensors", tensors, {})
    for use in (runs.load_model, runs.steps_done):
        with pytest.raises(InputError, match=r"model.safetensors is damaged"):
            use(runs.read(run))


def test_rows_too_far_to_be_measured_are_named(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    far = np.where(np.arange(10)[:, None] == 7, np.float32(3e38), x[:10])
    np.savez(tmp_path / "t.npz", x_train=x, y_train=np.arange(40) % 2, x_test=far, y_test=np.arange(10) % 2)
    job = launch.start(str(tmp_path / "t.npz"), "best", {"epochs": 1}, tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match="row 7 of those to measure on: its values are too far"):
        measure.alone(job.run, job.data, job.state.result.eval())
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "x.json", {"error": float("nan")})


def test_a_step_that_is_not_finite_saves_nothing(npz, tmp_path):
    job = launch.start(str(npz), "best", SMALL, tmp_path / "run", device="cpu")
    for value, saved in ((float("nan"), False), (1.0, True)):
        record.save(job, Step(1, 0.1, torch.full((len(NAMES),), value)))
        assert runs.has_checkpoint(job.run) is runs.has_model(job.run) is saved


def test_what_is_looked_at_on_the_way_is_the_model_that_is_kept(npz, tmp_path):
    """The averaged one: its pictures, and its error, which here the last weights have not."""
    job = launch.start(str(npz), "best", SMALL | {"average": 0.9}, tmp_path / "run", device="cpu")
    with torch.no_grad():
        for weight in job.state.model.parameters():
            weight.fill_(0.0)
    wrong = record.look(job, 1)
    assert wrong == error(job.state.average.eval(), job.data.x_test, job.data.y_test)
    assert wrong != error(job.state.model.eval(), job.data.x_test, job.data.y_test)


def test_a_missing_or_foreign_model_is_named(done, tmp_path):
    run = copy_of(done, tmp_path)
    (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes()[:100])
    with pytest.raises(InputError, match=r"model.safetensors is damaged"):
        runs.load_model(runs.read(run))
    (run / "model.safetensors").rename(run / "away")
    with pytest.raises(InputError, match=r"model.safetensors is missing"):
        runs.load_model(runs.read(run))
    config = json.loads((run / "config.json").read_text())
    config["settings"]["hidden"] = [13]
    (run / "config.json").write_text(json.dumps(config))
    (run / "away").rename(run / "model.safetensors")
    whole = (done.run.path / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(whole)
    with pytest.raises(InputError, match=r"does not fit config.json"):
        runs.load_model(runs.read(run))
    with pytest.raises(InputError, match=r"does not fit config.json"):
        launch.resume(run)


def test_a_finished_run_without_its_checkpoint_is_not_started_anew(done, tmp_path):
    run = copy_of(done, tmp_path)
    (run / runs.CHECKPOINT).unlink()
    before = (run / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="holds a trained model but no checkpoint: it can be used, not resumed"):
        launch.resume(run)
    assert (run / "model.safetensors").read_bytes() == before


def test_a_lost_model_comes_back_from_the_checkpoint(done, tmp_path):
    run = copy_of(done, tmp_path)
    (run / "model.safetensors").unlink()
    assert list(launch.train(launch.resume(run, device="cpu"))) == []
    assert (run / "model.safetensors").read_bytes() == (done.run.path / "model.safetensors").read_bytes()


def test_one_training_at_a_time_in_a_folder(npz, tmp_path):
    job = launch.start(str(npz), "best", SMALL, tmp_path / "run", device="cpu")
    first = launch.train(job)
    next(first)
    with pytest.raises(InputError, match="is being trained by another process"):
        next(launch.train(launch.resume(tmp_path / "run", device="cpu")))
    assert len(list(first)) == 149


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"is not a run: it has no config.json"):
        runs.read(tmp_path)


def test_a_log_cut_in_the_middle_is_mended(done, tmp_path):
    run = copy_of(done, tmp_path)
    text = (run / "log.jsonl").read_text()
    (run / "log.jsonl").write_text(text + '{"step": 99')
    runs.cut_log(run / "log.jsonl", 10)
    assert (run / "log.jsonl").read_text().splitlines() == text.splitlines()[:2]  # steps 5 and 10


def test_held_out_rows_replace_the_test_split(npz, tmp_path):
    job = launch.start(str(npz), "best", SMALL | {"holdout": "0.25"}, tmp_path / "run", device="cpu")
    rows = json.loads((tmp_path / "run" / "labels.json").read_text())
    assert len(rows["held_out"]) == pytest.approx(50, abs=2)
    assert not set(rows["held_out"]) & set(rows["kept"])
    arrays = np.load(npz)
    np.testing.assert_array_equal(job.data.x_test[..., 0], arrays["x_train"][rows["held_out"]])
    assert len(job.data.x_train) == 200 - len(rows["held_out"])
    known = np.flatnonzero(job.data.y_train >= 0)
    rest = np.setdiff1d(np.arange(200), rows["held_out"])
    np.testing.assert_array_equal(rest[known], rows["kept"])
    judged = run_data.with_all_labels(job.run, run_data.whole_data(job.run))
    np.testing.assert_array_equal(judged.x_test, job.data.x_test)
    assert len(judged.x_train) == len(job.data.x_train)  # a judge does not learn from what it is asked about
    assert (judged.y_train >= 0).all()
    finish(job)
    results = measure.alone(job.run, job.data, job.state.result.eval())
    assert "validation_error" in results
    assert "test_error" not in results


def test_more_labels_than_held_out_rows_leave(npz, tmp_path):
    with pytest.raises(InputError, match=r"180 labels asked for, but holdout=0.25 leaves 150 to train on"):
        launch.start(str(npz), "best", SMALL | {"holdout": "0.25", "labels": "180"}, tmp_path / "run", device="cpu")


def test_label_seed_changes_the_labels_alone(npz):
    from segma import data
    from segma.config import Config

    whole = data.load(str(npz))
    kept = [
        run_data.choose_rows(whole, Config(labels=9, seed=s, label_seed=t))[0].tolist() for s, t in [(0, 5), (1, 5)]
    ]
    assert kept[0] == kept[1]
    assert run_data.choose_rows(whole, Config(labels=9, seed=1))[0].tolist() != kept[0]


def test_tables_train_too(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = rng.normal(size=(120, 5)) * [1, 10, 100, 1, 1] + 4 * y[:, None] * [1, 10, 100, 0, 0]
    np.savez(tmp_path / "table.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    job = finish(
        launch.start(str(tmp_path / "table.npz"), "best", {"labels": 6, "epochs": 60}, tmp_path / "run", device="cpu")
    )
    assert measure.alone(job.run, job.data, job.state.result.eval())["test_error"] < 0.1


def test_a_column_that_says_nothing_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("width,label,depth\n1,a,7\n2,b,7\n3,,7\n")
    with pytest.warns(UserWarning, match="1 constant feature carries nothing: column depth$"):
        launch.start(str(tmp_path / "t.csv"), "best", {}, tmp_path / "run", device="cpu")


def test_progress_comes_with_every_step(npz, tmp_path):
    job = launch.start(str(npz), "best", SMALL, tmp_path / "run", device="cpu")
    first = list(islice(launch.train(job), 5))
    assert [step.step for step in first] == [1, 2, 3, 4, 5]
    assert [step.values is None for step in first] == [True] * 4 + [False]
    assert {step.last for step in first} == {150}  # 12 epochs of 200 rows, 16 a step
