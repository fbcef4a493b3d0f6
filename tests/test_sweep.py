"""Models trained in a stack: each must be what it would be alone, whatever is beside it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data_files import save_picture
from segma import launch, measure, runs, stack, sweep
from segma.cli import main
from segma.errors import InputError
from segma.model import has_bfloat16
from segma.record import Job

SMALL = {"hidden": "16", "latent_dim": 4, "batch_size": 20, "epochs": 3, "learning_rate": 1e-3, "mean_distance": 3.0}
VIEWS = SMALL | {"views": "affine", "kappa": 5.0, "confidence": 0.4, "all_rows": False, "average": 0.9}
NORM = VIEWS | {"network": "residual", "filters": "4", "hidden": ""}
CLIPPED = SMALL | {"clip_norm": 1.0, "clip_value": 0.05, "train_variances": True, "train_weights": True}
HELD = SMALL | {"holdout": 0.25}
CASES = {
    "paper": SMALL,
    "views": VIEWS,
    "norm": NORM,
    "clipped": CLIPPED,
    "held out": HELD,
    "shares": VIEWS | {"train_weights": True},
    "neighbours": VIEWS | {"neighbours": 4},
    "neighbours, held out": VIEWS | {"neighbours": 4, "holdout": 0.25},
    "critic": VIEWS | {"critic": 2.0, "likeness": 3.0},
    "cwae": SMALL | {"model": "cwae"},
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.arange(90) % 3)
    x = rng.integers(0, 80, (90, 6, 6), dtype=np.uint8)
    for row, label in zip(x, truth, strict=True):
        row[2 * label : 2 * label + 2] += 150
    path = tmp_path_factory.mktemp("data") / "rows.npz"
    np.savez(path, x_train=x[:70], y_train=truth[:70], x_test=x[70:], y_test=truth[70:])
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    truth = np.arange(80) % 2
    x = (rng.normal(size=(80, 5)) + truth[:, None]).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "table.npz"
    np.savez(path, x_train=x[:60], y_train=truth[:60], x_test=x[60:], y_test=truth[60:])
    return path


def doubled(job: Job) -> Job:
    """In float64 what must be equal is: in float32 Adam makes steps of what is only rounding, before a batch norm."""
    if job.state.step == 0:
        job.state.model.double()
        if job.state.average:
            job.state.average.double()
    return job


def alone(path, settings, out):
    job = doubled(launch.start(str(path), "paper", settings, out, device="cpu"))
    for _ in launch.train(job):
        pass
    return job


def swept(path, grid, settings, out, seeds=1, prepare=doubled):
    jobs = sweep.open_jobs(str(path), sweep.grid(grid, seeds), "paper", settings, out, device="cpu")
    for job in jobs:
        prepare(job)
    for _ in sweep.train(jobs):
        pass
    return jobs


@pytest.mark.parametrize("case", CASES)
def test_each_model_is_as_if_trained_alone(pictures, tmp_path, case):
    """Weights, averages, moments, batch statistics, log and labels of every cell against its own run."""
    grid = ["alpha=0.5,5", "labels=12,30", "learning_rate=0.001,0.003"]
    jobs = swept(pictures, grid, CASES[case], tmp_path / "sweep", seeds=2)
    assert len(jobs) == 16
    assert len(sweep.stacks(jobs)) == 1
    for cell, job in list(zip(sweep.grid(grid, 2), jobs, strict=True))[::5]:
        one = alone(pictures, CASES[case] | cell, tmp_path / ("alone " + sweep.folder_name(cell)))
        assert one.run.config == job.run.config
        for name, value in one.state.tensors().items():
            torch.testing.assert_close(job.state.tensors()[name], value, rtol=1e-5, atol=1e-6)
        assert (job.run.path / "labels.json").read_text() == (one.run.path / "labels.json").read_text()
        logs = [[json.loads(line) for line in (r.run.path / "log.jsonl").read_text().splitlines()] for r in (job, one)]
        assert [line["step"] for line in logs[0]] == [line["step"] for line in logs[1]]
        assert logs[0][-1]["loss"] == pytest.approx(logs[1][-1]["loss"], rel=1e-5)


def test_models_of_a_stack_do_differ(pictures, tmp_path):
    jobs = swept(pictures, ["alpha=0.5,5", "mean_distance=1,4"], SMALL, tmp_path / "s", seeds=2)
    codes = [job.state.model.means.detach() for job in jobs]
    assert all(not torch.allclose(a, b, atol=1e-3) for i, a in enumerate(codes) for b in codes[:i])


def test_a_table_is_swept_too(table, tmp_path):
    settings = SMALL | {"views": "noise", "kappa": 1.0}
    jobs = swept(table, ["beta=1,10"], settings, tmp_path / "s")
    one = alone(table, settings | {"beta": 10}, tmp_path / "one")
    for name, value in one.state.tensors().items():
        torch.testing.assert_close(jobs[1].state.tensors()[name], value, rtol=1e-5, atol=1e-6)


def test_models_of_a_stack_may_warm_up_differently(table, tmp_path):
    settings = SMALL | {"schedule": "cosine"}
    jobs = swept(table, ["warmup=0,4"], settings, tmp_path / "s")
    assert len(sweep.stacks(jobs)) == 1
    one = alone(table, settings | {"warmup": 4}, tmp_path / "one")
    for name, value in one.state.tensors().items():
        torch.testing.assert_close(jobs[1].state.tensors()[name], value, rtol=1e-5, atol=1e-6)


def test_shapes_make_stacks_of_their_own(pictures, tmp_path):
    jobs = swept(pictures, ["latent_dim=2,5", "hidden=16,8x8", "alpha=1,2"], SMALL, tmp_path / "s")
    assert [len(stack) for stack in sweep.stacks(jobs)] == [2, 2, 2, 2]
    assert [job.run.config.hidden for job in jobs[:4]] == [(16,), (16,), (8, 8), (8, 8)]
    for job in jobs:
        found = runs.read(job.run.path)
        assert runs.load_model(found).means.shape[1] == found.config.latent_dim
        assert runs.steps_done(found) == job.last


def test_many_models_go_in_parts(pictures, tmp_path, monkeypatch):
    monkeypatch.setitem(sweep.AT_ONCE, "cpu", 3)
    jobs = swept(pictures, ["alpha=1,2,3,4"], SMALL | {"epochs": 1}, tmp_path / "s")
    assert [len(stack) for stack in sweep.stacks(jobs)] == [3, 1]
    assert all(job.state.step == job.last for job in jobs)


def test_stopped_it_goes_on_and_what_is_done_stays_done(pictures, tmp_path):
    """Stopped half-way, with one more cell asked for: the same numbers as in one go, nothing finished trained again."""
    whole = swept(pictures, ["alpha=1,2"], SMALL, tmp_path / "whole", prepare=lambda job: job)
    cells = sweep.grid(["alpha=1,2"])
    jobs = sweep.open_jobs(str(pictures), cells, "paper", SMALL, tmp_path / "s", device="cpu")
    count = iter(range(100))
    for _ in sweep.train(jobs, lambda: next(count) == 4):
        pass
    assert [job.state.step for job in jobs] == [5, 5]
    again = sweep.open_jobs(str(pictures), sweep.grid(["alpha=1,2,3"]), "paper", SMALL, tmp_path / "s", device="cpu")
    assert [job.state.step for job in again] == [5, 5, 0]
    assert len(sweep.stacks(again)) == 2
    for _ in sweep.train(again):
        pass
    for a, b in zip(whole, again, strict=False):
        for name, value in a.state.tensors().items():
            torch.testing.assert_close(b.state.tensors()[name], value, rtol=1e-4, atol=1e-5)
    stamp = (again[0].run.path / "model.safetensors").stat().st_mtime_ns
    finished = sweep.open_jobs(str(pictures), sweep.grid(["alpha=1,2,3"]), "paper", SMALL, tmp_path / "s", device="cpu")
    assert list(sweep.train(finished)) == []
    assert (again[0].run.path / "model.safetensors").stat().st_mtime_ns == stamp


@pytest.fixture
def poisoned(monkeypatch):
    """The second model of every stack fails in its sixth step."""
    adam, count = stack.adam, iter(range(1000))

    def poison(vectors, *rest):
        names = adam(vectors, *rest)
        if next(count) >= 5:
            vectors.weights[1] = torch.nan
            names[1] = torch.nan
        return names

    monkeypatch.setattr(stack, "adam", poison)


@pytest.mark.usefixtures("poisoned")
def test_one_that_fails_leaves_the_others_alone(pictures, tmp_path):
    jobs = swept(pictures, ["alpha=1,2,3"], SMALL, tmp_path / "s")
    one = alone(pictures, SMALL | {"alpha": 3}, tmp_path / "one")
    torch.testing.assert_close(jobs[2].state.model.means, one.state.model.means, rtol=1e-5, atol=1e-6)
    assert torch.isfinite(runs.load_model(jobs[2].run).means).all()
    assert [(job.run.path / "model.safetensors").exists() for job in jobs] == [True, False, True]


def test_a_stack_that_fails_leaves_the_others_alone(pictures, tmp_path, monkeypatch):
    """Its models have no numbers, even those that have saved a checkpoint; and the same command again says the same."""
    adam = stack.adam

    def poison(vectors, terms, weights, speeds, *rest):
        names = adam(vectors, terms, weights, speeds, *rest)
        names[(speeds[:, 0] > 0.5) & (next(count) > 0)] = torch.nan
        return names

    monkeypatch.setattr(stack, "adam", poison)
    grid = ["latent_dim=4,5", "learning_rate=0.001,1"]
    for _ in range(2):
        count = iter(range(1000))
        jobs = swept(pictures, grid, SMALL | {"checkpoint_seconds": 0}, tmp_path / "s", prepare=lambda job: job)
        rows = sweep.report(tmp_path / "s", sweep.grid(grid), jobs)
        assert ["error" in row for row in rows] == [True, False, True, False]
    assert runs.has_model(jobs[1].run)
    assert sweep.as_table(rows).count("failed") == 2 * len(sweep.MEASURED)


def test_a_model_that_a_kill_took_is_made_again(pictures, tmp_path):
    """The checkpoint of the last step is written before the model: a kill between the two leaves the first alone."""
    for _ in range(2):
        jobs = swept(pictures, ["alpha=1"], SMALL, tmp_path / "s", prepare=lambda job: job)
        rows = sweep.report(tmp_path / "s", sweep.grid(["alpha=1"]), jobs)
        before = (tmp_path / "s" / "alpha=1" / "model.safetensors").read_bytes()
        (tmp_path / "s" / "alpha=1" / "model.safetensors").unlink()
    swept(pictures, ["alpha=1"], SMALL, tmp_path / "s", prepare=lambda job: job)
    assert (tmp_path / "s" / "alpha=1" / "model.safetensors").read_bytes() == before
    assert rows[0]["error"] is not None


def test_settings_of_reading_may_differ(tmp_path):
    """Each model has the pictures as its own settings say, which are those that its run is measured on."""
    for i in range(24):
        save_picture(tmp_path / "pictures" / f"class-{i % 2}" / f"{i}.png", 100 * (i % 2) + i, (12, 12))
    grid, small = ["image_size=6,8"], SMALL | {"holdout": 0.25, "epochs": 1}
    jobs = swept(tmp_path / "pictures", grid, small, tmp_path / "s", prepare=lambda job: job)
    assert [job.run.shape[:2] for job in jobs] == [(6, 6), (8, 8)]
    rows = [measure.scores(job.run, runs.load_model(job.run))["protocol"]["split"] for job in jobs]  # its own data
    assert rows == ["validation, 6 rows"] * 2


@pytest.mark.skipif(not has_bfloat16("cpu"), reason="needs a CPU with bfloat16")
def test_convolutions_in_bfloat16_are_trained_in_a_stack_on_a_cpu(pictures, tmp_path):
    settings = NORM | {"precision": "bfloat16", "epochs": 1}
    jobs = swept(pictures, ["alpha=1,5"], settings, tmp_path / "s", prepare=lambda job: job)
    rows = sweep.report(tmp_path / "s", sweep.grid(["alpha=1,5"]), jobs)
    assert all(row["error"] is not None for row in rows)


def test_the_table_has_the_sample_deviation_over_seeds():
    rows = [{"alpha": "1", "seed": str(i), "run": "", "error": e} for i, e in enumerate((0.1, 0.2, 0.6))]
    rows = [row | {"reconstruction_error": 1.0, "log_distance": 2.0} for row in rows]
    assert "| 1 | 3 | 30.0% ± 26.5% |" in sweep.as_table(rows)


def test_a_folder_by_another_name_is_the_same(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for out in (Path("s"), tmp_path / "s"):
        jobs = swept(pictures, ["alpha=1"], SMALL | {"epochs": 1}, out)
        rows = sweep.report(out, sweep.grid(["alpha=1"]), jobs)
    assert len(rows) == 1


def test_what_has_no_classes_has_no_error(pictures, tmp_path):
    settings = SMALL | {"model": "cwae", "epochs": 1}
    jobs = swept(pictures, ["alpha=1"], settings, tmp_path / "s", prepare=lambda job: job)
    assert "| 1 | 1 | - |" in sweep.as_table(sweep.report(tmp_path / "s", sweep.grid(["alpha=1"]), jobs))


def test_the_grid():
    cells = sweep.grid(["alpha=1,5", "hidden=8x8,16"], 2)
    assert len(cells) == 8
    assert cells[0] == {"alpha": "1", "hidden": "8x8", "seed": "0"}
    assert cells[-1] == {"alpha": "5", "hidden": "16", "seed": "1"}
    assert sweep.grid([]) == [{}]


@pytest.mark.parametrize(
    ("pairs", "seeds", "message"),
    [
        (["alpha"], 1, "KEY=A,B,C"),
        (["alpha=1,,2"], 1, "KEY=A,B,C"),
        (["alpha="], 1, "KEY=A,B,C"),
        (["alhpa=1"], 1, "did you mean 'alpha'"),
        (["alpha=1", "alpha=2"], 1, "given twice"),
        (["seed=1,2"], 3, "give one of them"),
        (["alpha=1,1.0"], 1, "given twice"),
        (["hidden=64,64"], 1, "written 64x64"),
        (["alpha=1,b"], 1, "wanted is a number"),
    ],
)
def test_a_wrong_grid_is_named(pairs, seeds, message):
    with pytest.raises(InputError, match=message):
        sweep.grid(pairs, seeds)


def test_other_settings_in_the_same_place_are_refused(pictures, tmp_path):
    swept(pictures, ["alpha=1"], SMALL | {"epochs": 1}, tmp_path / "s")
    with pytest.raises(InputError, match="other settings"):
        swept(pictures, ["alpha=1"], SMALL | {"epochs": 2}, tmp_path / "s")


def test_nothing_is_made_before_all_cells_are_known_to_be_right(pictures, tmp_path):
    with pytest.raises(InputError, match="labels"):
        swept(pictures, ["labels=12,100000"], SMALL, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_second_look_keeps_what_options_measured(pictures, tmp_path):
    jobs = swept(pictures, ["alpha=1"], SMALL | {"epochs": 1}, tmp_path / "s", prepare=lambda job: job)
    sweep.report(tmp_path / "s", sweep.grid(["alpha=1"]), jobs)
    path = jobs[0].run.path / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fid": {"test": 12.0}}))
    sweep.report(tmp_path / "s", sweep.grid(["alpha=1"]), jobs)
    assert json.loads(path.read_text())["fid"] == {"test": 12.0}


def test_a_folder_of_something_else_is_left_alone(pictures, tmp_path):
    (tmp_path / "cats").mkdir()
    with pytest.raises(InputError, match="is not a sweep, it has cats in it"):
        swept(pictures, ["alpha=1"], SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cats"]


@pytest.mark.usefixtures("poisoned")
def test_a_model_that_fails_is_told_of(pictures, tmp_path, capsys, monkeypatch):
    """The others are measured and shown; the command's status is that of a failed job."""
    words = ["sweep", pictures, "--grid", "alpha=1,2", "--out", tmp_path / "s", "--device", "cpu"]
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    monkeypatch.setattr("sys.argv", ["segma", *map(str, words), *settings])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert "| 2 | 1 | failed |" in out
    assert "| 1 | 1 | failed |" not in out
    assert err.endswith(f"segma: 1 of 2 failed, losses that are not finite: {tmp_path}/s/alpha=2\n")


def test_data_without_a_test_split_cannot_be_compared_on(pictures, tmp_path):
    arrays = np.load(pictures)
    np.savez(tmp_path / "train.npz", x_train=arrays["x_train"], y_train=arrays["y_train"])
    with pytest.raises(InputError, match="no test split to compare on"):
        swept(tmp_path / "train.npz", ["alpha=1"], SMALL, tmp_path / "s")
    jobs = swept(tmp_path / "train.npz", ["alpha=1"], HELD, tmp_path / "s", prepare=lambda job: job)
    (row,) = rows = sweep.report(tmp_path / "s", sweep.grid(["alpha=1"]), jobs)
    assert row["error"] is not None
    held = len(jobs[0].data.x_test)
    assert row["split"] == f"validation, {held} rows"
    assert f"| alpha | models | error (validation, {held} rows) | reconstruction error |" in sweep.as_table(rows)
    assert "| models | error |" in sweep.as_table([row, row | {"split": "test, 9 rows"}])
    again = swept(tmp_path / "train.npz", ["alpha=2"], HELD, tmp_path / "s", prepare=lambda job: job)
    assert len(sweep.report(tmp_path / "s", sweep.grid(["alpha=2"]), again)) == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu_each_is_as_if_alone(pictures, tmp_path, case):
    settings = CASES[case] | {"precision": "float32"}
    cells = sweep.grid(["alpha=0.5,5", "learning_rate=0.001,0.003"], 2)
    jobs = sweep.open_jobs(str(pictures), cells, "paper", settings, tmp_path / "s", device="cuda")
    for job in jobs:
        doubled(job)  # a pseudo-label on the edge would make another course
    losses = {}
    for job, step in sweep.train(jobs):
        losses[job.run.path.name] = step.values["loss"] if step.values else None
    for cell in cells[::3]:
        path = tmp_path / sweep.folder_name(cell)
        *_, last = launch.train(doubled(launch.start(str(pictures), "paper", settings | cell, path, device="cuda")))
        assert losses[sweep.folder_name(cell)] == pytest.approx(last.values["loss"], rel=2e-2, abs=2e-2)


def test_a_second_sweep_adds_to_the_first(pictures, tmp_path):
    """The table has all of both, in one order, and the heat maps too; other keys, or a run's folder, are refused."""
    settings, out = SMALL | {"epochs": 1}, tmp_path / "s"
    for grid in (["alpha=1,2", "beta=1"], ["alpha=1", "beta=1,3"]):
        jobs = swept(pictures, grid, settings, out, prepare=lambda job: job)
        rows = sweep.report(out, sweep.grid(grid), jobs)
    assert sorted((row["alpha"], row["beta"]) for row in rows) == [("1", "1"), ("1", "3"), ("2", "1")]
    assert (out / "table.md").read_text().count("\n") == 5
    assert (out / "error.png").exists()
    assert json.loads((out / "sweep.json").read_text())["rows"] == rows
    with pytest.raises(InputError, match="a sweep of alpha, beta"):
        swept(pictures, ["beta=1"], settings, out)
    with pytest.raises(InputError, match="is a run, not a sweep"):
        swept(pictures, ["beta=1"], settings, jobs[0].run.path)
