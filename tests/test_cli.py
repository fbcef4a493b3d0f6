"""The commands as a user types them: what they print, where, and how they fail."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from segma import cli

WORDS = ["--epochs", "40", "--set", "hidden=32", "--set", "filters=16", "--device", "cpu"]


def segma(capsys, monkeypatch, *words: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["segma", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.fixture
def call(capsys, monkeypatch):
    return lambda *words: segma(capsys, monkeypatch, *words)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A short run on digits, made by the command itself."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    subprocess.run(
        [sys.executable, "-m", "segma", "train", "digits", "--out", out, *WORDS], check=True, capture_output=True
    )
    return out


def test_train_prints_the_error_on_stdout_and_progress_on_stderr(call, tmp_path):
    status, out, err = call("train", "digits", "--labels", 50, "--seed", 3, "--out", tmp_path / "run", *WORDS)
    assert status == 0
    assert re.search(r"^test error: \d+\.\d\d%  \(50 labels, test, 500 rows\)$", out, re.MULTILINE)
    assert re.search(r"\d+/\d+ epoch 40/40  mse .* log d2 .* ce .* error .* [\d,]+/s  0:00:00 left", err)
    picture = re.search(r"samples, one row per class: (.*)", out)
    assert Path(picture[1]).exists()
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (settings["labels"], settings["seed"], settings["hidden"], settings["recipe"]) == (50, 3, [32], "best")


def test_what_takes_long_on_a_cpu_is_said(call, tmp_path):
    for weight, told in ((0, False), (1, True)):
        words = ("--epochs", 1, "--set", f"critic={weight}", "--device", "cpu")
        status, _, err = call("train", "digits", "--out", tmp_path / f"run-{weight}", *words)
        assert (status, "--set critic=0" in err) == (0, told)


@pytest.mark.parametrize(("threads", "load", "told"), [(2, 1.9, True), (2, 1.2, False), (8, 7, True), (1, 9, False)])
def test_a_busy_machine_is_said(call, tmp_path, monkeypatch, threads, load, told):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    words = ("--epochs", 1, "--set", "hidden=8", "--device", "cpu")
    status, _, err = call("train", "digits", "--out", tmp_path / "run", *words)
    assert (status, f"Ctrl-C, then OMP_NUM_THREADS=1 segma resume {tmp_path / 'run'}" in err) == (0, told)


def test_the_default_folder_is_new_each_time(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("train", "digits", "--epochs", 1, "--set", "hidden=8")[0] == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["digits-1", "digits-2"]


def test_evaluate_json_is_one_object_and_nothing_else(call, run):
    status, out, err = call("evaluate", run, "--json", "--device", "cpu")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert 0 <= found["test_error"] <= 1
    assert {"reconstruction_error", "log_distance", "confusion", "protocol"} <= found.keys()
    assert found == json.loads((run / "results.json").read_text())


def test_evaluate_for_people(call, run):
    status, out, _ = call("evaluate", run)
    assert status == 0
    assert "test error: " in out
    assert len(re.findall(r"^ +\d  +\d", out, re.MULTILINE)) == 10 + 1  # and the names above them


def test_resume_of_a_finished_run_says_the_same(call, run):
    before = (run / "model.safetensors").read_bytes()
    for picture in (run / "samples").iterdir():
        picture.unlink()
    status, out, err = call("resume", run, "--device", "cpu")
    assert status == 0
    assert "already finished" in err
    assert "test error" in out
    assert (run / "model.safetensors").read_bytes() == before


def digit_files(folder: Path) -> tuple[list[Path], list[str]]:
    from segma.data import load

    data = load("digits")
    files = []
    for i in range(20):
        image = Image.fromarray(data.x_test[i, :, :, 0])
        path = folder / f"{i}.png"
        (image.resize((80, 80), Image.Resampling.BOX).convert("RGB") if i % 2 else image).save(path)
        files.append(path)
    return files, [data.classes[y] for y in data.y_test[:20]]


def test_classify_any_size_and_mode(call, run, tmp_path):
    files, truth = digit_files(tmp_path)
    status, out, _ = call("classify", run, *files, "--json")
    assert status == 0
    results = json.loads(out)["results"]
    assert [row["file"] for row in results] == [str(file) for file in files]
    assert np.mean([row["class"] == y for row, y in zip(results, truth, strict=True)]) >= 0.7
    for row in results:
        assert sum(row["posterior"].values()) == pytest.approx(1, abs=1e-5)
        assert max(row["posterior"], key=row["posterior"].get) == row["class"]
    for i in range(0, 20, 2):  # the same picture, ten times as large and in colour, would be the same
        alone = json.loads(call("classify", run, files[i], "--json")[1])["results"][0]
        assert alone["posterior"] == pytest.approx(results[i]["posterior"], abs=1e-4)
    status, out, _ = call("classify", run, files[0])
    assert out.startswith(f"{files[0]}: {results[0]['class']}")
    assert " 0.0%" not in out
    rows = json.loads(call("classify", run, "test:0", "test:19", "--json")[1])["results"]
    assert [row["file"] for row in rows] == ["test:0", "test:19"]
    assert rows[1]["posterior"] == pytest.approx(results[19]["posterior"], abs=1e-2)  # the file is of 8 bits


def test_classify_a_folder_and_say_what_was_done_to_its_pictures(call, run, tmp_path):
    files, _ = digit_files(tmp_path)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "deeper").mkdir()
    files[7].rename(tmp_path / "deeper" / "seven.png")
    status, out, err = call("classify", run, tmp_path)
    assert status == 0
    named = [line.split(": ")[0] for line in out.splitlines()]
    rest = sorted(str(file) for file in files if file.exists())
    assert named == sorted([*rest, str(tmp_path / "deeper" / "seven.png")])
    assert err == f"{tmp_path / '1.png'} and 9 more: 80 x 80 colour, resized to 8 x 8, grey\n"
    assert json.loads(call("classify", run, tmp_path, "--json")[1])["results"][0]["file"] == rest[0]
    assert call("classify", run, tmp_path, "--json")[2] == ""
    (tmp_path / "empty").mkdir()
    assert call("classify", run, tmp_path / "empty")[0] == 2
    assert call("transfer", run, tmp_path, "--to", "3", "--out", tmp_path / "t.png")[0] == 2


@pytest.mark.filterwarnings("default:.*a negative of what:UserWarning")
def test_a_negative_is_said_and_a_blank_picture_is_none(call, tmp_path):
    strokes = np.zeros((28, 28), np.uint8)
    strokes[4:24, 13:16] = 255
    for name, image in (("one", strokes), ("negative", 255 - strokes), ("blank", np.full_like(strokes, 255))):
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    for name in ("one", "negative", "blank"):
        _, _, err = call("classify", "mnist", tmp_path / f"{name}.png")
        assert ("a negative of what this model knows" in err) is (name == "negative"), name
        edits = ("transfer", "digits", tmp_path / f"{name}.png", "--to", 5, "--out", tmp_path / f"to-{name}.png")
        status, _, err = call(*edits)
        assert (status, "a negative of what this model knows" in err) == (0, name == "negative"), name


def test_a_broken_picture_does_not_keep_the_others_from_being_classified(call, run, tmp_path):
    files, _ = digit_files(tmp_path)
    whole = {row["file"]: row for row in json.loads(call("classify", run, tmp_path, "--json")[1])["results"]}
    files[3].write_text("no picture")
    files[8].write_bytes(files[8].read_bytes()[:40])
    status, out, err = call("classify", run, tmp_path, "--json")
    rest = [whole[str(file)] for i, file in enumerate(files) if i not in (3, 8)]
    assert sorted(json.loads(out)["results"], key=lambda row: row["file"]) == sorted(rest, key=lambda row: row["file"])
    assert status == 2
    assert re.fullmatch(r"segma: .*3\.png: not a picture; .*8\.png: .*; 18 of 20 are classified\n", err)
    status, out, err = call("classify", run, files[3], files[0])
    assert (status, len(out.splitlines())) == (2, 1)
    assert call("classify", run, files[3], files[8]) == (2, "", call("classify", run, files[8])[2])


def test_sample_writes_pictures(call, run, tmp_path):
    assert call("sample", run, "--out", tmp_path / "all.png")[:2] == (0, f"wrote {tmp_path / 'all.png'}\n")
    assert call("sample", run, "--label", 3, "-n", 4, "--out", tmp_path / "three.png")[0] == 0
    assert call("sample", run, "--label", 3, "-n", 4, "--out", tmp_path / "again.png")[0] == 0
    assert call("sample", run, "--label", 3, "-n", 4, "--seed", 1, "--out", tmp_path / "other.png")[0] == 0
    assert call("sample", run, "--label", 8, "--label", 3, "-n", 4, "--out", tmp_path / "two.png")[0] == 0
    assert call("sample", run, "-n", 5, "--out", tmp_path / "moving.gif")[0] == 0
    assert call("sample", run, "--label", 3, "-n", 1, "--out", tmp_path / "one.png")[0] == 0
    size = {}
    for path in tmp_path.iterdir():
        with Image.open(path) as picture:
            size[path.name] = (*picture.size, getattr(picture, "n_frames", 1))
    assert size["all.png"][0] > 500 > 480 < size["all.png"][1]
    assert size["three.png"][1] < 60
    assert size["three.png"][1] < size["two.png"][1] < 2 * size["three.png"][1]
    with Image.open(tmp_path / "two.png") as two, Image.open(tmp_path / "three.png") as three:  # both from the top
        assert two.crop((0, 0, *three.size)).tobytes() != three.tobytes()  # eights come first, as asked
    assert size["one.png"] == (8, 8, 1)
    (row,) = json.loads(call("classify", run, tmp_path / "one.png", "--json")[1])["results"]
    assert row["class"] == "3"
    assert size["moving.gif"][2] == 5
    assert (tmp_path / "three.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    assert (tmp_path / "three.png").read_bytes() != (tmp_path / "other.png").read_bytes()


def test_many_samples_are_decoded_in_parts(run, monkeypatch):
    """All at once would need the memory of every layer for every picture."""
    from segma import runs
    from segma.apply import class_samples

    model, sizes = runs.load_model(runs.read(run)), []
    decode = model.decode
    monkeypatch.setattr(model, "decode", lambda z: sizes.append(len(z)) or decode(z))
    assert class_samples(model, 700, seed=0).shape[:2] == (10, 700)
    assert sizes == [1000] * 7


def test_samples_of_a_class_are_of_that_class(run):
    """Decoded and encoded again, most samples are taken for the class they were drawn from, even after few epochs."""
    import torch

    from segma import runs
    from segma.apply import class_samples
    from segma.model import encode_rows

    model = runs.load_model(runs.read(run))
    x = class_samples(model, 20, seed=0)
    with torch.no_grad():
        guess = model.mixture.log_joint(encode_rows(model, x.reshape(200, 8, 8, 1))).argmax(dim=1)
    assert (guess == torch.arange(10).repeat_interleave(20)).float().mean() > 0.6


def test_tables_from_the_command_line(call, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    x = rng.normal(size=(100, 3)) + 5 * y[:, None]
    np.savez(tmp_path / "t.npz", x_train=x, y_train=y, classes=["no", "yes"])
    status, out, err = call("train", tmp_path / "t.npz", "--labels", 10, "--epochs", 50, "--out", tmp_path / "run")
    assert status == 0
    assert "run:" in out
    assert "100 samples, 10 of them labelled (no: 5, yes: 5)" in err
    assert "test error: no test split, all else is of training rows; --set holdout=0.2" in out
    assert re.search(r"^shares of the classes, as learned: no [45]\d\.\d%  yes [45]\d\.\d%$", out, re.MULTILINE), out
    assert call("sample", tmp_path / "run", "-n", 3, "--out", tmp_path / "s.csv")[0] == 0
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert lines[0] == "label,x0,x1,x2"
    assert [line.split(",")[0] for line in lines[1:]] == ["no"] * 3 + ["yes"] * 3
    assert call("data", "check", tmp_path / "s.csv")[1].startswith("s: ")  # what it wrote itself is data to train on
    found = json.loads(call("classify", tmp_path / "run", tmp_path / "s.csv", "--json")[1])
    assert [row["class"] for row in found["results"]] == ["no"] * 3 + ["yes"] * 3
    (tmp_path / "rows.csv").write_text("a,b,c\n0,0,0\n5,5,5\n")
    np.save(tmp_path / "rows.npy", np.array([[5.0, 5, 5]]))
    found = json.loads(call("classify", tmp_path / "run", tmp_path / "rows.csv", tmp_path / "rows.npy", "--json")[1])
    assert [row["class"] for row in found["results"]] == ["no", "yes", "yes"]
    assert call("evaluate", tmp_path / "run")[:2] == (0, out.partition("run:")[0])  # as the training ended
    status, _, err = call("evaluate", tmp_path / "run", "--editing")
    assert (status, err) == (
        2,
        "segma: --editing: t has no test split to measure on; train with one, or --set holdout=0.2\n",
    )
    for text, said in {"a,b,c\n": "0 samples", "1,2,3\n1,2\n": "line 2 has 2 cells, the first one 3\n"}.items():
        (tmp_path / "odd.csv").write_text(text)
        status, _, err = call("classify", tmp_path / "run", tmp_path / "odd.csv")
        assert (status, err.count("\n"), said in err) == (2, 1, True), err
    assert call("classify", tmp_path / "run", tmp_path / "no.csv")[2].endswith("no.csv: no such file\n")
    (tmp_path / "rows.csv").write_text("1e30,1e30,-1e30\n")
    status, out, err = call("classify", tmp_path / "run", tmp_path / "rows.csv", "--json")
    assert (status, out) == (2, "")
    assert "too far from the training data" in err
    status, _, err = call("train", tmp_path / "t.npz", "--set", "network=strided", "--set", "filters=8")
    assert (status, err) == (2, "segma: network = 'strided' is for images; for a table allowed is mlp\n")
    status, _, err = call("train", tmp_path / "t.npz", "--set", "views=affine")
    assert (status, err) == (2, "segma: views = 'affine' is for images; for a table allowed are none, noise\n")
    status, _, err = call("sample", tmp_path / "run", "-n", 10**9, "--out", tmp_path / "many.csv")
    assert (status, err) == (2, "segma: -n 1000000000: allowed is 1 to 1000000\n")
    (tmp_path / "rows.csv").write_text("1,2\n")
    assert call("classify", tmp_path / "run", tmp_path / "rows.csv")[0] == 2
    assert call("sample", tmp_path / "run", "--out", tmp_path / "s.png")[0] == 2


def test_pictures_of_two_sizes_are_checked_as_they_would_train(call, tmp_path):
    """With the setting that the message asks for."""
    for i, label in enumerate("aabb"):
        (tmp_path / "own" / label).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + i, 20 + i)).save(tmp_path / "own" / label / f"{i}.png")
    status, _, err = call("data", "check", tmp_path / "own")
    assert status == 2
    assert "--set image_size=64" in err
    status, out, _ = call("data", "check", tmp_path / "own", "--set", "image_size=16")
    assert status == 0
    assert "images of 16x16x3" in out
    assert out.splitlines()[3].split() == ["a", "2", "0"]
    assert out.splitlines()[6].split() == ["in", "all", "4", "0"]


def test_a_table_as_text_trains_and_keeps_the_names_of_its_columns(call, tmp_path):
    """Rows that are classified are found by these names, in whatever order and beside whatever else."""
    rng, lines = np.random.default_rng(0), ["width,label,height"]
    for i in range(100):
        a, b = rng.normal(size=2) + 6 * (i % 2)
        lines.append(f"{a:.4f},{('no', 'yes')[i % 2] if i < 10 else ''},{b - 3 * a:.4f}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    status, _, err = call("train", tmp_path / "t.csv", "--epochs", 50, "--out", tmp_path / "run")
    assert status == 0
    assert "100 samples, 10 of them labelled (no: 5, yes: 5)" in err
    assert call("sample", tmp_path / "run", "-n", 1, "--out", tmp_path / "s.csv")[0] == 0
    assert (tmp_path / "s.csv").read_text().startswith("label,width,height\n")
    (tmp_path / "rows.csv").write_text("who;height;label;width\nann;-12;;6\nbob;0;yes;0\n")
    found = json.loads(call("classify", tmp_path / "run", tmp_path / "rows.csv", "--json")[1])
    assert [row["class"] for row in found["results"]] == ["yes", "no"]
    edit = ("transfer", tmp_path / "run", f"{tmp_path / 'rows.csv'}:2", "--to", "yes", "--out", tmp_path / "way.csv")
    assert call(*edit)[0] == 0
    assert (tmp_path / "way.csv").read_text().startswith("sample,t,width,height\n")
    renamed = (tmp_path / "t.csv").read_text().replace("height", "t", 1)
    (tmp_path / "u.csv").write_text(renamed)
    assert call("train", tmp_path / "u.csv", "--epochs", 1, "--out", tmp_path / "other")[0] == 0
    (tmp_path / "u.csv").write_text("width,t\n6,-12\n")
    edit = ("transfer", tmp_path / "other", tmp_path / "u.csv", "--to", "yes", "--out", tmp_path / "u-way.csv")
    assert call(*edit)[0] == 0
    assert (tmp_path / "u-way.csv").read_text().startswith("sample,t_,width,t\n")  # and not two of one name
    (tmp_path / "rows.csv").write_text("height,depth\n-12,6\n")
    status, _, err = call("classify", tmp_path / "run", tmp_path / "rows.csv")
    assert (status, err) == (2, f"segma: {tmp_path}/rows.csv: no column 'width'; it has height, depth\n")
    assert call("train", tmp_path / "no.csv")[2].endswith("no.csv: no such file or folder\n")


def test_data_commands(call, tmp_path):
    status, out, err = call("data", "list", "--data-dir", tmp_path)
    assert status == 0
    assert "segma data fetch NAME" in err
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == [
        "digits",
        "mnist",
        "svhn",
        "celeba",
    ]
    assert "missing files" in out
    status, out, _ = call("data", "check", "digits", "--json")
    assert json.loads(out)["train"]["n"] == 1297
    status, _, err = call("data", "check", "mnist", "--data-dir", tmp_path)
    assert status == 2
    assert "train-images-idx3-ubyte" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "digts"], "did you mean 'digits'?"),
        (["train", "digits", "--set", "betta=3"], "unknown setting 'betta': did you mean 'beta'?"),
        (["train", "digits", "--recipe", "worst"], "recipe 'worst': allowed are best, paper"),
        (["train", "digits", "--model", "gan"], "model = 'gan': allowed are segma"),
        (["train", "digits", "--labels", "5"], "10"),
        (["train", "digits", "--labels", "100000"], "1297"),
        (["train", "digits", "--epochs", "0"], "epochs = 0: allowed is 1"),
        (["train", "digits", "--epochs", "many"], "many"),
        (["train", "digits", "--device", "tpu"], "device 'tpu': allowed are auto, cpu, cuda"),
        (["train", "digits", "--seed", "-1"], "seed = -1"),
        (["train", "nowhere.npz"], "nowhere.npz: no such file"),
        (["train"], "DATA"),
        (["train", "digits", "--set", "data=mnist"], "not a setting to change"),
        (["train", "digits", "--epochs", "4", "--set", "epochs=3"], "give one of them"),
        (["train", "./nowhere", "--set", "image_size=8"], "./nowhere: no such file or folder"),
        (["trian"], "trian"),
        (["help"], "No such command 'help'; segma --help lists them"),
        (["train", "digits", "--alpha", "5"], "settings are --set NAME=VALUE"),
        (["resume", "RUN", "--epochs", "5"], "a run goes on as it began"),
        (["train", "digits", "--set", " betta = 3"], "unknown setting 'betta': did you mean 'beta'?"),
        (["train", "digits", "--set", "alpha=1e20"], "allowed is 0 to 1000000000"),
        (["classify", "RUN/config.json", "RUN"], "is a file, and a run is a folder; the run is named first"),
        (["classify", "RUN/samples", "x.png"], "it has no config.json; segma train makes one of data"),
        (["data", "check", "RUN/log.jsonl"], "spreadsheets are saved as .csv, arrays by np.savez"),
        (["resume", "nowhere"], "nowhere: no such run; there are digits"),
        (["evaluate", "nowhere"], "nowhere: no such run"),
        (["evaluate", "mnsit"], "mnsit: no such run; did you mean 'mnist'?"),
        (["reproduce", "table9"], "item 'table9': allowed are table1"),
        (["reproduce", "tabel1"], "did you mean 'table1'?"),
        (["sample", "RUN", "--label", "ten", "--out", "x.png"], "class 'ten' is not in"),
        (["sample", "RUN", "--out", "x.jpg"], "must end in .png or .gif"),
        (["sample", "RUN", "--out", "RUN/config.json"], "must end in"),
        (["sample", "RUN", "-n", "0", "--out", "x.png"], "0"),
        (["sample", "RUN"], "--out"),
        (["classify", "RUN", "nowhere.png"], "nowhere.png: no such file"),
        (["classify", "RUN", "RUN/config.json"], "not a picture"),
        (["data", "check", "cifar"], "cifar"),
        (["evaluate", "digits", "--inception", "file"], "goes with --fid"),
        (["evaluate", "digits", "--samples", "100"], "goes with --fid"),
        (["data", "check", "digits", "--set", "labels=3"], "image_size and skip_broken alone"),
        (["data", "fetch", "cifar"], "cifar"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_status_2(call, run, tmp_path, monkeypatch, words, message):
    words = [word.replace("RUN", str(run)) for word in words]
    monkeypatch.chdir(tmp_path)
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith("segma: ")
    assert len(err.splitlines()) == 1, err
    assert message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (KeyboardInterrupt(), "stopped"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "out of memory; "),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"), "out of memory; a smaller batch_size"),
    ],
)
def test_what_ends_a_command_is_one_line(call, monkeypatch, problem, said):
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("segma.runs.read", fail)
    status, out, err = call("evaluate", "digits")
    assert (status, out) == (1, "")
    assert err.startswith(f"segma: {said}")
    assert len(err.splitlines()) == 1


def test_nothing_is_overwritten(call, run, tmp_path):
    (tmp_path / "x.png").write_text("mine")
    status, _, err = call("sample", run, "--out", tmp_path / "x.png")
    assert status == 2
    assert "exists" in err
    assert (tmp_path / "x.png").read_text() == "mine"
    status, _, err = call("train", "digits", "--out", run)
    assert status == 2
    assert f"segma resume {run}" in err


def test_help_of_every_command(call):
    _, out, _ = call("--help")
    assert call() == (0, out, "")
    assert call("data")[0] == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", call("--version")[1])
    for command in ("train", "resume", "evaluate", "classify", "sample", "data"):
        assert re.search(rf"^  {command} ", out, re.MULTILINE)
        assert call(command, "--help")[0] == 0
        assert call(command, "-h") == call(command, "--help")
