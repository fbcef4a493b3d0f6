"""segma evaluate: what it measures, keeps, says, and refuses."""

import json
import re

import numpy as np
import pytest
import torch

from segma import cli, files, launch, measure, plots, report, run_data, runs
from segma.metrics import accuracy, fid

SETTINGS = {"hidden": "16", "latent_dim": 4, "batch_size": 20, "epochs": 2}
FOUND = {
    "fid": {"test": 12.345, "train": 11.0},
    "interpolation_fid": {"test": 13.0, "train": 12.0},
    "reconstruction_fid": {"test": 9.0, "train": 8.0},
    "kid": {split: {"mean": 0.01, "standard_error": 0.002} for split in ("test", "train")},
    "per_class_fid": {"0": 20.0, "1": None, "2": 30.0},
}


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.integers(0, 90, (60, 8, 8)) + 60 * y[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])
    job = launch.start(str(tmp_path / "rows.npz"), "paper", SETTINGS | {"labels": 9}, tmp_path / "run", device="cpu")
    for _ in launch.train(job):
        pass
    return job.run


def fake(few: bool = False):
    def scores(model, data, inception, data_dir, n, seed, progress, rows, along, alone):
        protocol = {"samples": n, "few": few, "rows": rows}
        at = {"interpolation_fid_at": {"t": list(along)} | dict.fromkeys(("test", "train"), [3.5] * len(along))}
        return {name: dict(values) for name, values in (FOUND | (at if along else {})).items()} | {"protocol": protocol}

    return scores


def measured(run, **more) -> dict:
    results = measure.scores(run, runs.load_model(run), **more)
    files.write_json(run.path / "results.json", results)
    return results


def test_a_run_that_has_not_ended_is_marked(run):
    found = measured(run)
    done = found["protocol"]["steps"]
    assert report.as_text(found).endswith("rows)")
    found["protocol"]["steps_in_all"] = done + 1
    assert report.as_text(found).endswith(f"; unfinished, at step {done} of {done + 1})")


def test_every_fid_carries_its_protocol(run, monkeypatch):
    monkeypatch.setattr(fid, "scores", fake())
    found = measured(run, samples=10_000)
    for name in ("fid", "kid", "interpolation_fid", "reconstruction_fid"):
        assert {"test", "train", "protocol"} <= found[name].keys()
        assert found[name]["protocol"]["rows"] is None
    text = report.as_text(found)
    assert "FID: 12.35 against test, 11.00 against train\n" in text
    assert "KID: 0.0100 +- 0.0020 against test" in text
    assert "0 20.0  2 30.0" in text
    assert text.splitlines()[-1].startswith("test error: ")


def test_few_samples_are_marked_and_meet_as_few_real_ones(run, monkeypatch):
    monkeypatch.setattr(fid, "scores", fake(few=True))
    found = measured(run, samples=100)
    assert found["fid"]["protocol"]["rows"] == 100
    assert "(100 samples: too few to compare)" in report.as_text(found)


def test_what_was_measured_of_the_same_weights_stays(run, monkeypatch):
    monkeypatch.setattr(fid, "scores", fake())
    measured(run, samples=10_000)
    again = measured(run)
    assert again["fid"]["test"] == 12.345
    model = runs.load_model(run)
    runs.save_model(run, model, runs.steps_done(run) + 1)  # other weights
    assert "fid" not in measured(run)


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"protocol": 3}', '{"protocol": {}}'])
def test_a_damaged_results_file_is_no_obstacle(run, content):
    (run.path / "results.json").write_text(content)
    assert measure.earlier(run) == {}


def test_editing_scores_come_with_a_plot(run):
    found = measured(run, with_editing=True)
    assert 0 <= found["editing"]["transfer"]["reached"] <= 1
    assert (run.path / "editing.png").read_bytes().startswith(b"\x89PNG")
    for own, told in ((0.42, True), (0.02, False)):
        found["editing"]["protocol"]["judge_error"] = own
        text = report.as_text(found)
        assert f"taken for the target by a judge (its own error: {own:.1%}" in text
        assert ("too large to trust its scores" in text) == told
    assert plots.editing(found["editing"]).width > 500


def test_with_both_options_interpolations_are_followed_along_t(run, monkeypatch):
    monkeypatch.setattr(fid, "scores", fake())
    found = measured(run, samples=10_000, with_editing=True)
    assert found["interpolation_fid_at"]["t"] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert (run.path / "interpolation.png").read_bytes().startswith(b"\x89PNG")
    assert "FID of interpolations, against test: 3.50 at t = 0, 3.50 at t = 0.1, " in report.as_text(found)
    assert "interpolation_fid_at" in measured(run)


def test_the_judge_sees_labels_that_the_model_did_not(run):
    whole = run_data.whole_data(run)
    assert (run_data.load(run).y_train >= 0).sum() == 9
    assert (run_data.with_all_labels(run, whole).y_train >= 0).sum() == 40


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fid", "--data-dir", "DIR"], "inception"),
        (["--fid", "--inception", "DIR/none.npz"], "none.npz"),
        (["--fid", "--samples", "1"], "--samples 1"),
        (["--fid", "--samples", "many"], "--samples many"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(run, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.setattr(
        "sys.argv", ["segma", "evaluate", str(run.path), *(w.replace("DIR", str(tmp_path)) for w in words)]
    )
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("segma: ")
    assert message in error
    assert not (run.path / "results.json").exists()


def test_json_is_json(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["segma", "evaluate", str(run.path), "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["test_error"] <= 1
    assert found["protocol"]["labels"] == 9


def test_data_without_a_test_split_are_measured_on_training_rows(tmp_path):
    """As they would be on a test split of the same rows, but for the error: their labels were taught."""
    x, y = np.random.default_rng(0).random((30, 8, 8)), np.arange(30) % 2
    found = {}
    for test in ({}, {"x_test": x, "y_test": y}):
        np.savez(tmp_path / "rows.npz", x_train=x, y_train=y, **test)
        path = tmp_path / f"run-{len(test)}"
        job = launch.start(str(tmp_path / "rows.npz"), "paper", SETTINGS | {"epochs": 1}, path, device="cpu")
        for _ in launch.train(job):
            pass
        found[bool(test)] = measure.scores(job.run, runs.load_model(job.run))
    for name in ("reconstruction_error", "reconstruction_share", "log_distance", "log_distance_filled"):
        assert found[False][name] == found[True][name]
    assert found[False]["protocol"]["split"] == "train, 30 rows"
    assert found[False]["test_error"] is None
    assert found[True]["test_error"] is not None
    text = report.as_text(found[False])
    assert "no test split, all else is of training rows; --set holdout=0.2" in text
    assert "taken for" not in text
    assert "taken for" in report.as_text(found[True])


def test_long_names_of_classes_are_numbered_in_the_confusion():
    results = {
        "test_error": 0.25,
        "confusion": [[20, 10], [0, 10]],
        "classes": ["not smiling", "smiling"],
        "log_distance": None,
        "reconstruction_error": None,
        "protocol": {"labels": 4, "split": "test", "steps": 10},
    }
    assert report.as_text(results).splitlines()[1:4] == [
        "                     (1)   (2)",
        "  not smiling (1)     20    10",
        "      smiling (2)      0    10",
    ]


@pytest.mark.parametrize(("share", "told"), [(0.4, ""), (0.97, "hardly better"), (1.7, "no better")])
def test_a_decoder_with_one_answer_for_all_is_named(share, told):
    results = {
        "test_error": 0.1,
        "confusion": [[1]],
        "classes": ["a"],
        "log_distance": None,
        "reconstruction_error": 5.0,
        "reconstruction_share": share,
        "protocol": {"labels": 1, "split": "test", "steps": 10},
    }
    text = report.as_text(results)
    assert f"5 (squared, per sample, {share:.0%} of the mean's)" in text
    assert re.findall(r"(\w+ better) than one answer for all", text) == [told] * bool(told)


def test_codes_that_do_not_fill_their_components_are_told(tmp_path):
    """After one pass they are told, by training rows as well; codes of the mixture itself are not."""
    x = np.random.default_rng(0).normal(size=(300, 4))
    np.savez(tmp_path / "rows.npz", x_train=x, y_train=np.arange(300) % 2)
    job = launch.start(str(tmp_path / "rows.npz"), "best", {"epochs": 1}, tmp_path / "run", device="cpu")
    for _ in launch.train(job):
        pass
    lines = report.as_text(measure.alone(job.run, job.data, job.state.result.eval())).splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("log d^2"))
    line, note = lines[number : number + 2]
    found, filled = map(float, re.findall(r"-?\d+\.\d+", line))
    assert found - filled > report.UNFILLED
    assert note == report.UNFILLED_NOTE
    model, config = job.state.result, job.run.config
    others = model.means.detach()[torch.arange(300) % 2] + torch.randn(300, 4, generator=torch.manual_seed(1))
    found, again = accuracy.log_distances(model, others, config, 300)
    assert (found, again) == pytest.approx((filled, filled), abs=0.5)
    assert report.distance(found, filled)[1:] == []
    assert report.distance(-5.0, None) == ["log d^2: -5.000"]


def test_learned_shares_are_shown(tmp_path):
    """Half as many of the second class as of the first, whose labels are equally many."""
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3 // 2
    x = (rng.normal(size=(300, 4)) + 4 * truth[:, None]).astype(np.float32)
    y = np.where(np.arange(300) < 30, truth, -1)
    y[:30][np.flatnonzero(truth[:30] == 0)[10:]] = -1
    np.savez(tmp_path / "rows.npz", x_train=x, y_train=y, x_test=x, y_test=truth)
    out = {}
    for learned in (True, False):
        settings = SETTINGS | {"train_weights": learned, "epochs": 40}
        job = launch.start(str(tmp_path / "rows.npz"), "best", settings, tmp_path / f"run-{learned}", device="cpu")
        for _ in launch.train(job):
            pass
        out[learned] = measure.scores(job.run, runs.load_model(job.run))
    assert out[True]["class_shares"] == pytest.approx([2 / 3, 1 / 3], abs=0.03)
    text = report.as_text(out[True])
    assert f"shares of the classes, as learned: 0 {out[True]['class_shares'][0]:.1%}  1 " in text
    assert "class_shares" not in out[False]
