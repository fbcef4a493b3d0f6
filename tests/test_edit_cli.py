"""interpolate, transfer, intensify and similarity as a user types them, against arithmetic on the codes."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segma import SeGMA, apply, cli, launch, plots, runs
from segma.data import load

NAMES = ["old, sad", "old, happy", "young, sad", "young, happy"]


@pytest.fixture
def call(capsys, monkeypatch):
    """Exit status, stdout and stderr of a command, run in this process."""

    def segma(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["segma", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return segma


def trained(name: str, out: Path, **changes) -> Path:
    for _ in launch.train(launch.start(name, settings=changes, out=out, device="cpu")):
        pass
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A short run on digits."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    return trained("digits", out, epochs=20, hidden="32", filters="16")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A run on a table whose classes are products of two attributes, each with a column of its own."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    x = np.stack([8.0 * (y // 2), 5.0 * (y % 2), np.zeros(200)], axis=1) + rng.normal(size=(200, 3))
    halves = {"x_train": x[:150], "y_train": y[:150], "x_test": x[150:], "y_test": y[150:]}
    np.savez(folder / "t.npz", classes=NAMES, **halves)
    np.savetxt(folder / "rows.csv", x[:5], delimiter=",")
    return trained(str(folder / "t.npz"), folder / "run", epochs=200, latent_dim=3, hidden="32", learning_rate=0.01)


@pytest.fixture(scope="module")
def digits():
    data = load("digits")
    return data.x_test, data.y_test


def columns(path: Path, n: int, rows: int, side: int = 48, from_right: int = 0) -> np.ndarray:
    """The last n columns of a sheet of 8 x 8 images, each shrunk back: (rows, n, 8, 8)."""
    with Image.open(path) as file:
        picture = np.asarray(file.convert("L"))
    right, top = picture.shape[1] - from_right, picture.shape[0] - 2 - 50 * rows
    at = [(top + 2 + 50 * i, right - 50 * (n - j)) for i in range(rows) for j in range(n)]
    found = [picture[y + 3 : y + side : 6, x + 3 : x + side : 6] for y, x in at]
    return np.array(found).reshape(rows, n, 8, 8)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_interpolation_of_test_rows_is_that_of_the_estimator(call, run, digits, tmp_path):
    x, y = digits
    status, out, err = call("interpolate", run, "test:3", "test:12", "--steps", 7, "--out", tmp_path / "a.png")
    assert (status, out) == (0, f"wrote {tmp_path / 'a.png'}\n")
    assert err.splitlines()[0].startswith(f"test:3: labelled '{y[3]}', taken for '")
    assert err.splitlines()[1].startswith(f"test:12: labelled '{y[12]}', taken for '")
    model = SeGMA.load(run, device="cpu")
    close(columns(tmp_path / "a.png", 7, 1, from_right=58)[0], model.interpolate(x[3], x[12], steps=7)[..., 0])
    close(columns(tmp_path / "a.png", 1, 1)[0], x[[12], :, :, 0])  # the sample itself, after what was made
    close(columns(tmp_path / "a.png", 1, 1, from_right=58 + 7 * 50 + 6)[0], x[[3], :, :, 0])


def test_the_density_path(call, run, digits, tmp_path):
    x, _ = digits
    model = SeGMA.load(run, device="cpu")
    straight, bent = (model.interpolate(x[:20], x[20:40], path=path) for path in ("linear", "density"))
    far = np.abs(straight.astype(int) - bent).max(axis=(1, 2, 3, 4))
    row = int(far.argmax())
    assert far[row] > 3
    words = ("interpolate", run, f"test:{row}", f"test:{row + 20}", "--path", "density", "--out", tmp_path / "d.png")
    assert call(*words)[0] == 0
    close(columns(tmp_path / "d.png", 11, 1, from_right=58)[0], bent[row, ..., 0])


def test_transfer_of_several_samples_is_a_sheet(call, run, digits, tmp_path):
    x, _ = digits
    words = ("transfer", run, "test:0", "test:1", "test:2", "--to", 5, "--steps", 5, "--out", tmp_path / "t.png")
    status, out, err = call(*words)
    assert (status, out) == (0, f"wrote {tmp_path / 't.png'}\n")
    model = SeGMA.load(run, device="cpu")
    expected = np.stack([model.transfer(x[:3], to=5, t=t)[..., 0] for t in np.linspace(0, 1, 5)], axis=1)
    close(columns(tmp_path / "t.png", 5, 3), expected)
    close(columns(tmp_path / "t.png", 1, 3, from_right=5 * 50 + 8)[:, 0], x[:3, :, :, 0])
    guesses = model.predict(x[:3])
    assert [line.split("taken for ")[1].split(" (")[0] for line in err.splitlines()[:3]] == [f"'{c}'" for c in guesses]
    assert call(*words[:-1], tmp_path / "n.png", "--no-given")[0] == 0
    close(columns(tmp_path / "n.png", 5, 3), expected)
    with Image.open(tmp_path / "n.png") as alone, Image.open(tmp_path / "t.png") as beside:
        assert alone.width == beside.width - 58
    words = ("transfer", run, "test:0", "--to", 5, "--source", 8, "--steps", 3, "--out", tmp_path / "s.png")
    assert call(*words)[0] == 0
    expected = [model.transfer(x[:1], to=5, t=t, source=8)[0, ..., 0] for t in (0, 0.5, 1)]
    close(columns(tmp_path / "s.png", 3, 1)[0], np.stack(expected))


@pytest.mark.parametrize(
    ("words", "away", "alpha"),
    [
        ([], None, 0.5),
        (["--alpha", "-1"], None, -1),
        (["--away-from", "3", "--alpha", "2"], 3, 2),
        (["--away-from", "3", "--away-from", "8"], [3, 8], 0.5),
    ],
)
def test_intensity(call, run, digits, tmp_path, words, away, alpha):
    x, _ = digits
    assert call("intensify", run, "test:0", "test:4", *words, "--steps", 4, "--out", tmp_path / "i.png")[0] == 0
    model = SeGMA.load(run, device="cpu")
    expected = [model.intensify(x[[0, 4]], away, alpha=a)[..., 0] for a in np.linspace(0, alpha, 4)]
    close(columns(tmp_path / "i.png", 4, 2), np.stack(expected, axis=1))


def test_an_edit_that_changes_nothing_says_so(call, run, digits, tmp_path):
    guess = SeGMA.load(run, device="cpu").predict(digits[0][:1])[0]
    status, _, err = call("transfer", run, "test:0", "--to", guess, "--out", tmp_path / "t.png")
    assert status == 0
    assert f"test:0: counts as '{guess}', which this edit leaves as it is" in err


def test_animations(call, run, tmp_path):
    for name, words in {
        "a.gif": ("interpolate", run, "test:3", "test:12", "--steps", 6),
        "b.gif": ("transfer", run, "test:3", "test:12", "--to", 1, "--steps", 6),
        "c.GIF": ("intensify", run, "test:3", "--steps", 6, "--alpha", 3),
    }.items():
        assert call(*words, "--out", tmp_path / name)[0] == 0
        with Image.open(tmp_path / name) as film:
            assert film.format == "GIF"
            assert film.n_frames == 10  # there and back
            assert film.width == (262 if name == "b.gif" else 132)


def test_pictures_of_any_kind(call, run, digits, tmp_path):
    """Turned, transparent, large, in colour: each becomes the digit it shows, and a line says how."""
    digit = Image.fromarray(digits[0][3, :, :, 0])
    large = digit.resize((80, 80), Image.Resampling.BOX)
    wide = Image.new("RGB", (140, 80))
    wide.paste(large.convert("RGB"), (30, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    wide.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    wide.save(tmp_path / "wide.png")
    digit.save(tmp_path / "plain.png")
    clear = Image.new("RGBA", (8, 8), (9, 9, 9, 255))
    clear.putalpha(Image.fromarray(255 - digits[0][3, :, :, 0]))  # see-through where the digit is: white on 9
    clear.save(tmp_path / "clear.png")
    lines = {
        "plain.png": "8 x 8 grey, taken as it is, ",
        "wide.png": "140 x 80 colour, centre cut, resized to 8 x 8, grey, ",
        "turned.png": "140 x 80 colour, turned as its EXIF says, centre cut, resized to 8 x 8, grey, ",
        "clear.png": "8 x 8 colour, laid on white, grey, ",
    }
    model, shown = SeGMA.load(run, device="cpu"), {}
    for i, (name, line) in enumerate(lines.items()):
        out = tmp_path / f"{i}.png"
        status, _, err = call("transfer", run, tmp_path / name, "--to", 7, "--steps", 2, "--out", out)
        assert status == 0, err
        assert err.startswith(f"{tmp_path / name}: {line}taken for '"), err
        seen = columns(out, 1, 1, from_right=2 * 50 + 8)[0, 0]
        shown[name] = seen
        assert np.abs(seen.astype(int) - digits[0][3, :, :, 0]).mean() < 20
        expected = model.transfer(seen[None, :, :, None], to=7)[..., 0]
        assert np.abs(columns(out, 1, 1)[0].astype(int) - expected).max() <= 3
    assert np.array_equal(shown["plain.png"], digits[0][3, :, :, 0])
    assert np.array_equal(shown["turned.png"], shown["wide.png"])
    words = ("interpolate", run, tmp_path / "wide.png", "test:3", "--out", tmp_path / "both.png")
    assert call(*words)[0] == 0


def rows_of(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open() as file:
        head, *rows = csv.reader(file)
    return head, rows


def test_tables_give_rows(call, table, tmp_path):
    file = table.parent / "rows.csv"
    x = np.loadtxt(file, delimiter=",")
    model = SeGMA.load(table, device="cpu")
    mu, z = model.model_.means.numpy(), model.transform(x)
    status, out, _ = call("interpolate", table, f"{file}:2", "test:7", "--steps", 4, "--out", tmp_path / "a.csv")
    assert (status, out) == (0, f"wrote {tmp_path / 'a.csv'}\n")
    head, rows = rows_of(tmp_path / "a.csv")
    assert head == ["sample", "t", "x0", "x1", "x2"]
    assert [row[0] for row in rows] == [f"{file}:2 to test:7"] * 4
    np.testing.assert_allclose([float(row[1]) for row in rows], np.linspace(0, 1, 4), atol=1e-6)
    other = model.transform(np.load(table.parent / "t.npz")["x_test"][[7]])
    expected = model.inverse_transform(np.linspace(z[1], other[0], 4))
    np.testing.assert_allclose(np.array(rows)[:, 2:].astype(float), expected, rtol=1e-4, atol=1e-4)

    assert call("transfer", table, file, "--to", "young, happy", "--steps", 3, "--out", tmp_path / "b.csv")[0] == 0
    head, rows = rows_of(tmp_path / "b.csv")
    assert [row[:2] for row in rows[:4]] == [
        [f"{file}:1", "0"],
        [f"{file}:1", "0.5"],
        [f"{file}:1", "1"],
        [f"{file}:2", "0"],
    ]
    source = [NAMES.index(name) for name in model.predict(x)]
    steps = [z + t * (mu[3] - mu[source]) for t in (0, 0.5, 1)]
    expected = np.stack([model.inverse_transform(step) for step in steps], axis=1).reshape(15, 3)
    np.testing.assert_allclose(np.array(rows)[:, 2:].astype(float), expected, rtol=1e-4, atol=1e-4)

    words = (
        "intensify",
        table,
        file,
        "--away-from",
        "old, sad",
        "--alpha",
        1,
        "--steps",
        2,
        "--out",
        tmp_path / "c.csv",
    )
    assert call(*words)[0] == 0
    head, rows = rows_of(tmp_path / "c.csv")
    assert head[:2] == ["sample", "alpha"]
    expected = model.inverse_transform(z + mu[source] - mu[0])
    np.testing.assert_allclose(np.array(rows)[1::2, 2:].astype(float), expected, rtol=1e-4, atol=1e-4)

    np.savetxt(tmp_path / "many.csv", np.concatenate([x] * 5), delimiter=",")
    status, _, err = call("transfer", table, tmp_path / "many.csv", "--to", "young, happy", "--out", tmp_path / "d.csv")
    counts = {name: 5 * source.count(i) for i, name in enumerate(NAMES) if i in source}
    assert err.splitlines()[0] == f"25 rows, taken for: {', '.join(f'{n} {count}' for n, count in counts.items())}"
    still = [f"{counts[NAMES[3]]} rows: count as {NAMES[3]!r}, which this edit leaves as it is"] * (3 in source)
    assert (status, err.splitlines()[1:]) == (0, still)


def test_one_attribute_is_changed_and_the_other_kept(call, table, tmp_path):
    model = SeGMA.load(table, device="cpu")
    data = np.load(table.parent / "t.npz")
    x = data["x_test"][:12]
    posterior = model.predict_proba(x)
    y = 2 * (posterior[:, 2:].sum(axis=1) > 0.5) + (posterior[:, 1::2].sum(axis=1) > 0.5)  # as far as the model knows
    assert np.mean(y == data["y_test"][:12]) > 0.8
    mu, z = model.model_.means.numpy(), model.transform(x)
    words = ("transfer", table, *(f"test:{i}" for i in range(12)), "--to", "happy", "--steps", 2)
    status, _, err = call(*words, "--out", tmp_path / "a.csv")
    assert status == 0
    _, rows = rows_of(tmp_path / "a.csv")
    found = np.array(rows)[1::2, 2:].astype(float)
    is_sad = (y % 2 == 0)[:, None]
    move = ((mu[1] - mu[0]) + (mu[3] - mu[2])) / 2
    np.testing.assert_allclose(found, model.inverse_transform(z + is_sad * move), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found, model.transfer(x, to="happy"), rtol=1e-3, atol=1e-3)
    guess = model.predict(found.astype(np.float32))
    assert np.mean([name == NAMES[2 * (c // 2) + 1] for name, c in zip(guess, y, strict=True)]) > 0.8
    assert sum("which this edit leaves as it is" in line for line in err.splitlines()) == (y % 2 == 1).sum()
    back = model.transfer(x, to="sad", source="happy", t=-1.0)
    np.testing.assert_allclose(back, model.transfer(x, to="happy", source="sad"), rtol=1e-4, atol=1e-4)
    for source, by in (("young, sad", 1), ("old, happy", 0)):  # a class says which value its samples have
        expected = model.inverse_transform(z + by * move)
        np.testing.assert_allclose(model.transfer(x, to="happy", source=source), expected, rtol=1e-4, atol=1e-4)
    for words, message in (
        ({"to": "happy", "source": "old"}, "source old: allowed are sad, happy"),
        ({"to": ["old", "sad"]}, "class 'old', 'sad': allowed are"),
        ({"to": "happy", "t": np.nan}, "t = nan: wanted is a number"),
        ({"to": "happy", "t": "a"}, "t = 'a': wanted is a number"),
    ):
        with pytest.raises(ValueError, match=message):
            model.transfer(x[:2], **words)
    with pytest.raises(ValueError, match="class 'happy': allowed are 'old, sad', 'old, happy'"):
        model.sample(3, label="happy")
    more = model.intensify(x, away_from="old", alpha=0.5)
    move = ((mu[2] - mu[0]) + (mu[3] - mu[1])) / 2
    expected = model.inverse_transform(z + 0.5 * (y // 2)[:, None] * move)
    np.testing.assert_allclose(more, expected, rtol=1e-3, atol=1e-3)
    words = ("transfer", table, "test:0", "--to", "happy", "--source", "young, sad", "--steps", 2)
    assert call(*words, "--out", tmp_path / "b.csv")[0] == 0


def test_similarity(call, run, tmp_path):
    status, out, err = call("similarity", run, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    expected = SeGMA.load(run, device="cpu").class_distances_
    np.testing.assert_allclose(found["distances"], expected, rtol=1e-6)
    assert found["classes"] == [str(i) for i in range(10)]
    apart = expected + np.diag([np.inf] * 10)
    assert [found["nearest"][str(i)]["class"] for i in range(10)] == [str(j) for j in apart.argmin(axis=1)]
    words = ("similarity", run, "--out", tmp_path / "s.png", "--map", tmp_path / "m.png")
    status, out, err = call(*words)
    assert (status, err) == (0, f"wrote {tmp_path / 's.png'}\nwrote {tmp_path / 'm.png'}\n")
    head, *rows, last = out.splitlines()
    assert re.fullmatch(r"all about equally far apart, 7\.\d\d to 8\.\d\d: the means have hardly moved", last)
    assert head.split() == found["classes"]
    assert [row.split()[0] for row in rows] == found["classes"]
    np.testing.assert_allclose([[float(v) for v in row.split()[1:]] for row in rows], expected, atol=0.0051)
    for name in ("s.png", "m.png"):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 400


def test_similarity_of_long_names_lists_the_nearest(call, table):
    _, out, _ = call("similarity", table)
    assert len(out.splitlines()) == 5
    from segma import similarity

    text = similarity.as_text({"classes": NAMES * 3, "distances": np.arange(144.0).reshape(12, 12).tolist()})
    assert text.splitlines()[1] == "    old, sad:  old, happy 1.00  young, sad 2.00  young, happy 3.00"


def test_a_saved_estimator_has_a_map_of_components_alone(call, table, tmp_path):
    SeGMA.load(table, device="cpu").save(tmp_path / "saved")
    about = json.loads((tmp_path / "saved" / "config.json").read_text())
    about["data"]["where"] = None  # as after a fit in Python
    (tmp_path / "saved" / "config.json").write_text(json.dumps(about))
    status, _, err = call("similarity", tmp_path / "saved", "--map", tmp_path / "m.png")
    assert status == 0
    assert "the map has the components alone" in err
    status, _, err = call("transfer", tmp_path / "saved", "test:0", "--to", "happy", "--out", tmp_path / "a.csv")
    assert status == 2
    assert "was fitted on arrays in Python" in err


WRONG = [
    (["interpolate", "RUN", "nowhere.png", "test:1", "--out", "x.png"], "nowhere.png: no such file"),
    (["interpolate", "RUN", "RUN/config.json", "test:1", "--out", "x.png"], "config.json: not a picture"),
    (
        ["interpolate", "RUN", "test:1", "test:500", "--out", "x.png"],
        "test:500 is not in digits: allowed are test:0 to",
    ),
    (
        ["interpolate", "RUN", "test:1", "test:2", "--steps", "1", "--out", "x.png"],
        "--steps 1: wanted is a whole number",
    ),
    (["interpolate", "RUN", "test:1", "test:2", "--steps", "9999", "--out", "x.png"], "allowed is 2 to 1000"),
    (["interpolate", "RUN", "test:1", "test:2", "--steps", "few", "--out", "x.png"], "--steps few"),
    (["interpolate", "RUN", "test:1", "test:2", "--path", "round", "--out", "x.png"], "allowed are linear, density"),
    (["interpolate", "RUN", "test:1", "test:2", "--out", "x.csv"], "must end in .png or .gif"),
    (["interpolate", "RUN", "test:1", "test:2"], "--out"),
    (["interpolate", "RUN", "test:1", "--out", "x.png"], "B"),
    (["interpolate", "nowhere", "test:1", "test:2", "--out", "x.png"], "nowhere: no such run"),
    (["transfer", "RUN", "test:1", "--to", "ten", "--out", "x.png"], "class 'ten': allowed are 0, 1, 2"),
    (["transfer", "RUN", "test:1", "--to", "5", "--source", "55", "--out", "x.png"], "class '55': allowed are 0, 1"),
    (["transfer", "RUN", "test:1", "--to", "5", "--out", "x.jpg"], "must end in .png or .gif"),
    (["transfer", "RUN", "test:1", "--out", "x.png"], "--to"),
    (["transfer", "RUN", "test:1", "--to", "5", "--to", "6", "--out", "x.png"], "--to 5 --to 6: one class at a time"),
    (["transfer", "RUN", "--to", "5", "--out", "x.png"], "IMAGE"),
    (["intensify", "RUN", "test:1", "--away-from", "x", "--out", "x.png"], "class 'x': allowed are"),
    (["intensify", "RUN", "test:1", "--alpha", "nan", "--out", "x.png"], "--alpha nan: wanted is a number"),
    (["intensify", "RUN", "test:1", "--alpha", "lots", "--out", "x.png"], "lots"),
    (["similarity", "RUN", "--out", "x.jpg"], "--out x.jpg: the name must end in .png or .gif"),
    (["similarity", "RUN", "--map", "x.jpg"], "--map x.jpg: the name must end in .png or .gif"),
    (["similarity", "RUN", "--map", "x.png", "--out", "x.png"], "wanted are two files"),
    (["similarity", "nowhere"], "nowhere: no such run"),
    (["interpolate", "TABLE", "ROWS", "test:1", "--out", "x.csv"], "rows.csv has 5 rows: name one of them, as"),
    (["interpolate", "TABLE", "ROWS:6", "test:1", "--out", "x.csv"], "allowed are"),
    (["interpolate", "TABLE", "ROWS:1", "test:1", "--out", "x.png"], "must end in .csv"),
    (["transfer", "TABLE", "ROWS", "--to", "hapy", "--out", "x.csv"], "class 'hapy': did you mean 'happy'?"),
    (["transfer", "TABLE", "ROWS", "--to", "happy", "--source", "old", "--out", "x.csv"], "allowed are sad, happy"),
    (["transfer", "TABLE", "RUN/config.json", "--to", "happy", "--out", "x.csv"], "not a table of numbers"),
    (["intensify", "TABLE", "ROWS", "--away-from", "old", "--away-from", "sad", "--out", "x.csv"], "of one attribute"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_mistake_is_one_line_and_writes_nothing(call, run, table, tmp_path, monkeypatch, words, message):
    places = {"RUN": run, "TABLE": table, "ROWS": table.parent / "rows.csv"}
    for name, path in places.items():
        words = [word.replace(name, str(path)) for word in words]
    monkeypatch.chdir(tmp_path)
    status, out, err = call(*words)
    assert (status, out) == (2, "")
    assert err.startswith("segma: ")
    assert len(err.splitlines()) == 1, err
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_and_no_table_too_far_away_is_edited(call, run, table, tmp_path):
    (tmp_path / "x.png").write_text("mine")
    for words in (
        ("interpolate", run, "test:1", "test:2", "--out"),
        ("transfer", run, "test:1", "--to", 3, "--out"),
        ("intensify", run, "test:1", "--out"),
        ("similarity", run, "--out"),
        ("similarity", run, "--map"),
    ):
        status, out, err = call(*words, tmp_path / "x.png")
        assert (status, out) == (2, "")
        assert "exists; nothing is overwritten" in err
    assert (tmp_path / "x.png").read_text() == "mine"
    (tmp_path / "far.csv").write_text("1e38,1e38,-1e38\n")
    status, _, err = call("transfer", table, tmp_path / "far.csv", "--to", "happy", "--out", tmp_path / "y.csv")
    assert (status, len(err.splitlines())) == (2, 1)
    assert "too far from the training data" in err
    assert not (tmp_path / "y.csv").exists()


def test_the_curves_of_a_run(run, tmp_path):
    log = apply.training_log(runs.read(run))
    assert log[-1]["step"] == runs.steps_done(runs.read(run))
    assert plots.training_curves(log, "digits").width > 500
    (tmp_path / "config.json").write_text((run / "config.json").read_text())
    assert apply.training_log(runs.read(tmp_path)) == []
    (tmp_path / "log.jsonl").write_text(json.dumps(log[0]) + '\n{"step": 2')
    assert apply.training_log(runs.read(tmp_path)) == log[:1]


def test_help(call):
    _, out, _ = call("--help")
    for command in ("interpolate", "transfer", "intensify", "similarity"):
        assert f"\n  {command} " in out
        assert call(command, "--help")[0] == 0
