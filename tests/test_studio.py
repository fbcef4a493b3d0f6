"""The studio without a browser: what its values mean, what it exports, what it refuses."""

import asyncio
import base64
import io
import itertools
import json
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from segma import SeGMA, apply, cli, data, latent, report, runs
from segma.errors import InputError, RunFailed

pytest.importorskip("segma.studio", reason="the studio is not there")
gr = pytest.importorskip("gradio", reason="the studio needs Gradio: pip install 'segma[studio]'")

from segma.studio import actions, export, look, panels, session, shelf, uploads, view
from segma.studio.session import Edit, History
from studio_run import fitted, serving, trained

NAMES = ["not male, sad", "not male, smiling", "male, sad", "male, smiling"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "digits-1")


@pytest.fixture(scope="module")
def opened(run) -> shelf.Opened:
    return shelf.opened(shelf.version(run))


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> shelf.Opened:
    """A run whose classes are products of two attributes."""
    return shelf.opened(shelf.version(fitted(tmp_path_factory.mktemp("faces") / "faces", NAMES)))


@pytest.fixture
def given(opened) -> session.Given:
    return session.test_picture(opened, 3)


def edited(opened, **parts) -> Edit:
    """An edit by the names of classes."""
    edit = session.neutral(opened)
    for kind in ("towards", "intensity"):
        values = tuple(parts.get(kind, {}).get(name, 0.0) for name in opened.run.classes)
        edit = edit._replace(**{kind: values})
    return edit._replace(**{name: parts[name] for name in ("style", "shift", "attribute") if name in parts})


# ---- what is shown


def test_an_edit_is_that_of_the_estimator(opened, given):
    edit = edited(opened, towards={"5": 0.4, "8": 0.3}, intensity={"1": -0.3}, style=0.8, shift=(0.5, -1.0))
    model = SeGMA.load(opened.run.path, device="cpu")
    expected = model.edit(given.x[None], {5: 0.4, 8: 0.3}, {1: -0.3}, 0.8, (0.5, -1.0))[0]
    z = session.code(opened, given, edit)
    assert np.array_equal(session.picture(opened, z)[0], expected)
    np.testing.assert_allclose(session.posterior(opened, z), opened.model.mixture.posterior(z)[0].tolist())


def test_one_amount_is_transfer_or_intensify(opened, given):
    model = SeGMA.load(opened.run.path, device="cpu")
    there = session.picture(opened, session.code(opened, given, edited(opened, towards={"5": 0.6})))[0]
    assert np.array_equal(there, model.transfer(given.x[None], to=5, t=0.6)[0])
    own = model.predict(given.x[None])[0]
    more = session.picture(opened, session.code(opened, given, edited(opened, intensity={str(own): 0.7})))[0]
    assert np.abs(more.astype(int) - model.intensify(given.x[None], alpha=0.7)[0]).max() <= 1


def test_nothing_edited_is_the_reconstruction(opened, given):
    assert torch.equal(session.code(opened, given, session.neutral(opened)), torch.from_numpy(given.z))


def test_an_attribute_goes_from_its_first_value_to_its_last(faces):
    """Whichever the picture's own value is: the same step."""
    means, happy = faces.model.mixture.means.detach(), ["smiling" in name for name in faces.run.classes]
    step = means[happy].mean(dim=0) - means[[not is_so for is_so in happy]].mean(dim=0)
    assert [lever.text for lever in faces.levers] == ["male ↔ not male", "sad ↔ smiling"]
    for seed in range(6):
        given = session.sampled_picture(faces, seed % 4, 16, seed, 1.0, 0)
        for amount in (-0.5, 0.7):
            moved = session.code(faces, given, edited(faces, attribute=(0.0, amount)))
            torch.testing.assert_close(moved[0] - torch.from_numpy(given.z[0]), amount * step, atol=1e-5, rtol=1e-5)


def test_an_attribute_of_three_values_has_a_control_for_each():
    names = tuple(f"{size} {colour}" for size in ("small", "large") for colour in ("red", "green", "blue"))
    found = [lever.text for lever in shelf.levers(names)]
    assert found == ["small ↔ large", "towards red", "towards green", "towards blue"]
    assert shelf.levers(("yes yes", "yes no", "no yes", "no no")) == ()  # which `yes` would be meant?


def test_the_map_moves_a_picture_to_where_it_was_pointed(opened, given):
    edit = session.moved(opened, given, edited(opened, towards={"2": 0.5}), (1.5, -2.0))
    np.testing.assert_allclose(session.place(opened, session.code(opened, given, edit)), (1.5, -2.0), atol=1e-4)
    frame = view.Frame(-10.0, -5.0, 20.0)
    assert frame.on_plane(0.25, 0.75) == (-5.0, 0.0)
    assert frame.on_page(*frame.on_plane(0.25, 0.75)) == (25.0, 75.0)
    assert frame.on_plane(-3.0, 2.0) == (-10.0, -5.0)


def test_a_click_in_a_circle_is_that_class(opened):
    mixture = opened.model.mixture
    centres, sigmas = latent.on_plane(mixture.means, mixture).numpy(), mixture.variances.sqrt().numpy()
    found = []
    for at in np.random.default_rng(0).uniform(centres.min(axis=0) - 2, centres.max(axis=0) + 2, (400, 2)):
        inside = [(np.hypot(*(at - centre)), i) for i, centre in enumerate(centres)]
        inside = [(away, i) for away, i in inside if away <= sigmas[i]]
        found.append(session.class_at(opened, tuple(at)))
        assert found[-1] == (min(inside)[1] if inside else None)
    assert None in found
    assert len(set(found)) > 5


def test_going_to_a_class_leaves_the_map_and_the_other_classes(opened, given):
    before = edited(opened, towards={"2": 0.5, "9": 0.3}, intensity={"1": 0.2}, style=0.7, shift=(1.5, -2.0))
    edit = session.to_class(before, 4, session.own(opened, given))
    assert edit == edited(opened, towards={"4": 1.0}, intensity={"1": 0.2}, style=0.7)
    assert np.argmax(session.posterior(opened, session.code(opened, given, edit._replace(style=1.0)))) == 4
    history = session.step(History(before), edit)
    assert session.undo(history).now == before
    assert session.step(history, edit) == history  # a second click there is nothing to undo
    home = session.own(opened, given)
    assert session.to_class(before, home, home) == edited(opened, intensity={"1": 0.2}, style=0.7)


def locked(opened, given, room: int = 12) -> list[int]:
    """The places of the sliders that a person cannot move, of those that are shown."""
    found = actions.sliders(opened, given, room)
    assert len(found) == 3 * room + 1
    return [i for i, slider in enumerate(found[:-1]) if slider.visible and not slider.interactive]


def test_the_slider_of_the_pictures_own_class_is_locked_and_says_why(opened):
    """It is the only one towards a class that would change nothing."""
    owns = set()
    for row in range(12):
        given = session.test_picture(opened, row)
        codes = [session.code(opened, given, edited(opened, towards={name: 1.0})) for name in opened.run.classes]
        dead = [i for i, z in enumerate(codes) if np.allclose(z, given.z, atol=1e-5)]
        assert locked(opened, given) == dead
        assert len(dead) == 1
        assert actions.sliders(opened, given, 12)[dead[0]].label == f"{opened.run.classes[dead[0]]} (its own)"
        owns |= set(dead)
    assert len(owns) > 3


def test_of_an_attribute_of_three_values_the_pictures_own_is_locked(tmp_path, faces):
    names = [f"{size}, {colour}" for size in ("small", "large") for colour in ("red", "green", "blue")]
    opened = shelf.opened(shelf.version(fitted(tmp_path / "shapes", names)))
    axis = opened.levers[1].axis
    for seed in range(4):
        given = session.sampled_picture(opened, seed, 16, seed, 1.0, 0)
        colour = axis.values[session.own(opened, given, axis.groups)]
        labels = [slider.label for slider in actions.sliders(opened, given, 6)[12:16]]
        assert labels == ["large ↔ small", *(f"towards {c}{' (its own)' * (c == colour)}" for c in axis.values)]
        assert locked(opened, given, 6)[1:] == [13 + axis.values.index(colour)]
    assert len(locked(faces, session.sampled_picture(faces, 0, 16, 0, 1.0, 0))) == 1  # of two values none is dead


def test_a_picture_that_is_taken_for_another_class_than_its_code_says_so(opened, given):
    model, rng, differ = SeGMA.load(opened.run.path, device="cpu"), np.random.default_rng(0), 0
    for _ in range(40):
        shift = tuple(rng.normal(0, 12, 2).tolist())
        _, stage, bars, *_ = actions.changed(
            opened, given, History(session.neutral(opened)), edited(opened, shift=shift)
        )
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", stage)[1]))))
        chances = model.predict_proba(shown[None])[0]
        of_code = re.search(r'class="best"><span class="name">(\d)', bars)[1]
        text = f"Read again from the picture: {chances.argmax()}, {100 * chances.max():.0f} %"
        assert (text in bars) == (str(chances.argmax()) != of_code)
        assert ("Read again" in bars) == (text in bars)
        differ += text in bars
        assert bars.find("Read again") < bars.index("<ul")  # above the bars, of which there may be many
    assert 0 < differ < 40


def test_a_way_has_both_ends(opened, given):
    other = session.test_picture(opened, 12)
    ends = [torch.from_numpy(end.z) for end in (given, other)]
    for path in ("linear", "density"):
        made = session.way(opened, *ends, 5, path)
        expected = SeGMA.load(opened.run.path, device="cpu").interpolate(given.x, other.x, 5, path)
        assert np.array_equal(made, expected)


# ---- undo


def test_undo_and_redo(opened):
    zero, one, two = (edited(opened, towards={"1": t}) for t in (0.0, 0.5, 1.0))
    history = session.done(session.done(History(zero), one, 0.0), two, 9.0)
    assert (history.past, history.now) == ((zero, one), two)
    back = session.undo(history)
    assert (back.past, back.now, back.future) == ((zero,), one, (two,))
    assert session.redo(back)[:3] == history[:3]
    assert session.undo(session.undo(back)).now == zero
    assert session.done(back, zero, 20.0).future == ()


def test_a_drag_is_one_step(opened):
    zero = session.neutral(opened)
    history = History(zero)
    for i in range(1, 20):
        history = session.done(history, edited(opened, towards={"1": i / 20}), i * 0.05)
    assert history.past == (zero,)
    other = session.done(history, edited(opened, towards={"1": 0.95, "2": 0.1}), 1.0)
    assert len(other.past) == 2


def test_a_drag_is_one_step_on_a_slow_computer_too(opened, given, monkeypatch):
    """Every picture takes five seconds; the hand goes on as soon as it is there."""
    clock, posterior = [100.0], session.posterior

    def slow(*told) -> list[float]:
        clock[0] += 5
        return posterior(*told)

    monkeypatch.setattr(actions.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(session, "posterior", slow)
    history = History(session.neutral(opened))
    for i in range(1, 9):
        history, *_ = actions.changed(opened, given, history, edited(opened, towards={"1": i / 20}))
        clock[0] += 0.1
    assert len(history.past) == 1
    clock[0] += 5  # a hand that rests
    history, *_ = actions.changed(opened, given, history, edited(opened, towards={"1": 0.9}))
    assert len(history.past) == 2


# ---- what is exported


def decoded(found: dict, name: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(found[name][0])))


EDITS = [
    {"towards": {"5": 0.4}},
    {"intensity": {"3": -0.5}},
    {"towards": {"5": 0.4, "0": 0.25}, "intensity": {"1": 0.3}, "style": 0.5, "shift": (1.0, 0.5)},
    {},
]


@pytest.mark.parametrize("parts", EDITS)
@pytest.mark.parametrize("origin", ["test", "file", "sample"])
def test_the_exported_python_makes_the_same_pixels(opened, tmp_path, parts, origin, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if origin == "test":
        given = session.test_picture(opened, 7)
    elif origin == "file":
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 30, 3), np.uint8)).save("it's mine.jpg")
        given = uploads.read(opened, tmp_path / "it's mine.jpg")
        (tmp_path / "it's mine.jpg").unlink()  # it may be called otherwise where it came from
    else:
        given = session.sampled_picture(opened, 4, export.SAMPLES, 11, 1.5, 6)
    edit = edited(opened, **parts)
    found, program = export.files(opened, given, edit), export.python(opened, given, edit)
    assert ("download it from the list above" in program) == (origin == "file")
    if origin == "file":
        Path(given.word).write_bytes(found[given.word][0])
    exec(compile(program, "exported", "exec"), {})  # the program as it stands on the page
    with Image.open("picture.png") as made:
        assert np.array_equal(np.asarray(made), decoded(found, "picture.png"))


def test_a_command_says_where_the_files_are_that_it_names(opened, given, tmp_path):
    edit, said = edited(opened, **EDITS[0]), "download it from the list above"
    assert said not in export.command(opened, given, edit) + export.way_command(opened, given, given, 3, "linear")
    sample = session.sampled_picture(opened, 4, export.SAMPLES, 11, 1.0, 6)
    for parts in EDITS[:2]:
        assert export.command(opened, sample, edited(opened, **parts)).endswith(f"# sample-4-11-7.png: {said}")
    turned = session.inverted(opened, given)
    ways = export.way_command(opened, sample, turned, 3, "linear").splitlines()[1:]
    assert ways == [f"# sample-4-11-7.png: {said}", f"# test-3-inverted.png: {said}"]
    assert set(export.as_given(turned, "it")) == {"test-3-inverted.png"}


@pytest.mark.parametrize("name", ["picture.png", "interpolation.jpg"])
def test_an_upload_is_not_called_like_what_the_programs_write(opened, given, tmp_path, name):
    """Somebody opens what he has taken away: the list has both, and no program overwrites what it reads."""
    Image.fromarray(given.x[..., 0]).save(tmp_path / name)
    mine, edit = uploads.read(opened, tmp_path / name), edited(opened, **EDITS[0])
    assert mine.word == f"{Path(name).stem}-given.png"
    found = export.files(opened, mine, edit)
    assert len(found) == 5
    assert np.array_equal(
        decoded(found, "picture.png"), session.picture(opened, session.code(opened, mine, edit))[0, ..., 0]
    )


def test_the_exported_commands_run_and_show_the_picture(opened, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for parts, columns, place in ((EDITS[0], 6, 2), (EDITS[1], 11, 10)):
        edit = edited(opened, **parts)
        line = export.command(opened, given, edit).splitlines()[0]
        words = shlex.split(line)
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code
        with Image.open(words[-1]) as file:
            sheet = np.asarray(file.convert("L"))
        right = sheet.shape[1] - 50 * (columns - place)
        found = sheet[-50 + 3 : -2 : 6, right + 3 : right + 48 : 6]
        made = decoded(export.files(opened, given, edit), "picture.png")
        assert np.abs(found.astype(int) - made).max() <= 1
    assert export.command(opened, given, edited(opened, **EDITS[2])).startswith("# no command")


def test_the_command_of_a_way_runs_with_the_files_that_the_page_offers(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("L", (20, 20), 40).save("drawing.png")
    one = uploads.read(opened, tmp_path / "drawing.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 20), np.uint8)).save("drawing.png")
    other = session.told_apart(one, uploads.read(opened, tmp_path / "drawing.png"))
    (tmp_path / "drawing.png").unlink()
    pairs = [(one, other), (session.sampled_picture(opened, 4, export.SAMPLES, 11, 0.5, 6), one)]
    for a, b in pairs:
        links = re.findall(
            r'download="([^"]+)" href="data:image/png;base64,([^"]+)"', actions.between(opened, a, b, 3, "linear")
        )
        offered = {name: base64.b64decode(content) for name, content in links if name != "interpolation.png"}
        assert len(offered) == 2
        for name, content in offered.items():
            (tmp_path / name).write_bytes(content)
        line = export.way_command(opened, a, b, 3, "linear").splitlines()[0]
        assert "interpolation.png" not in line  # that is what the Python writes
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code
        (tmp_path / "between.png").unlink()
    test_row = session.test_picture(opened, 7)
    assert export.as_given(test_row, "the start") == {}


def test_samples_of_other_spreads_have_other_names(opened):
    names = {session.sampled_picture(opened, 4, export.SAMPLES, 3, spread, 2).word for spread in (1.0, 0.5, 1.5)}
    assert names == {"sample-4-3-3.png", "sample-4-3-3-spread-0.5.png", "sample-4-3-3-spread-1.5.png"}


def test_commands_for_attributes(faces):
    given = session.sampled_picture(faces, 0, 16, 0, 1.0, 0)
    axis = faces.levers[1].axis
    own = axis.values[latent.nearest_class(torch.from_numpy(given.z), faces.model.mixture, axis.groups)]
    up, down = (export.command(faces, given, edited(faces, attribute=(0.0, amount))) for amount in (0.5, -0.5))
    towards, away = (up, down) if own == "sad" else (down, up)
    other = {"sad": "smiling", "smiling": "sad"}[own]
    assert f"--to {other} --steps 3" in towards
    assert f"--away-from {other} --alpha 0.5" in away


def test_the_files(opened, given):
    edit = edited(opened, towards={"5": 0.5})
    found = export.files(opened, given, edit)
    small, big = decoded(found, "picture.png"), decoded(found, "picture-large.png")
    assert np.array_equal(big[::64, ::64], small)
    content = json.loads(found["code.json"][0])
    model = SeGMA.load(opened.run.path, device="cpu")
    assert np.array_equal(model.inverse_transform([content["code"]])[0], small)
    assert content["edit"]["towards"] == {"5": 0.5}
    assert sum(content["posterior"].values()) == pytest.approx(1)
    with Image.open(io.BytesIO(found["path.gif"][0])) as film:
        assert film.n_frames == 2 * export.STEPS - 2


# ---- bad uploads


def png(w: int, h: int, rows: bytes) -> bytes:
    """A grey PNG by hand, whose header may say anything."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def noise(side: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side), np.uint8)).save(file, "PNG")
    return file.getvalue()


BAD = {
    "bomb.png": (png(20_000, 20_000, bytes(1000)), "pixels"),
    "huge.png": (png(30_000, 30_000, bytes(1000)), "pixels"),
    "large.png": (png(9_000, 9_000, bytes(1000)), "pixels"),
    "text.png": (b"this is not a picture at all, it is a text\n" * 20, "not a picture"),
    "short.png": (noise(200)[:9000], "short.png: "),
    "empty.png": (b"", "not a picture"),
    "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
    "lines.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
    "heavy.png": (noise(8) + bytes(uploads.LARGEST), "MB"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_upload_is_a_message(opened, tmp_path, name):
    content, said = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=re.escape(said)) as problem:
        uploads.read(opened, tmp_path / name)
    assert name in str(problem.value)
    assert str(tmp_path) not in str(problem.value)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_pictures_of_any_kind_and_size_open(opened, faces, tmp_path, mode):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (33, 57, 3), np.uint8))
    picture = Image.new("I;16", (57, 33), 900) if mode == "I;16" else picture.convert(mode)
    file = tmp_path / ("a.tiff" if mode in ("CMYK", "I;16") else "a.png")
    picture.save(file)
    for run in (opened, faces):
        given = uploads.read(run, file)
        assert given.x.shape == run.run.shape
        assert "57 x 33" in given.note


def test_a_negative_is_inverted_under_another_name(opened, given, tmp_path):
    Image.fromarray(255 - given.x[..., 0]).save(tmp_path / "mine.jpg", quality=100)
    found = uploads.read(opened, tmp_path / "mine.jpg")
    assert found.doubt == apply.NEGATIVE
    assert not given.doubt
    again = session.inverted(opened, found)
    assert np.array_equal(again.x, 255 - found.x)
    assert (again.word, again.doubt) == ("mine-inverted.png", "")
    (name, (content, *_)), *_ = export.as_given(again, "it").items()
    (tmp_path / name).write_bytes(content)
    assert np.array_equal(uploads.read(opened, tmp_path / again.word).x, again.x)


def test_a_picture_of_one_colour_is_called_that_and_no_negative(opened, faces, tmp_path):
    for level in (0, 128, 255):
        Image.new("RGB", (9, 9), (level, level, level)).save(tmp_path / "flat.png")
        for run in (opened, faces):
            found = uploads.read(run, tmp_path / "flat.png")
            assert found.doubt == uploads.FLAT
            assert found.note.endswith(
                "; of one colour only, as the model sees it: there is nothing in it to recognise"
            )
            assert not apply.is_negative(run.model, found.x)
    Image.fromarray(np.eye(9, dtype=np.uint8) * 255).save(tmp_path / "line.png")
    assert not uploads.read(opened, tmp_path / "line.png").doubt


def test_of_an_animation_the_first_frame_is_taken(opened, tmp_path):
    frames = [Image.fromarray(np.full((9, 9), 20 * i, np.uint8)) for i in range(12)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert "the first of 12 frames" in uploads.read(opened, tmp_path / "a.gif").note
    frames[0].save(tmp_path / "b.gif")
    assert "frames" not in uploads.read(opened, tmp_path / "b.gif").note
    frames[0].save(tmp_path / "c.tiff", save_all=True, append_images=frames[1:])
    whole = (tmp_path / "c.tiff").read_bytes()
    (tmp_path / "c.tiff").write_bytes(whole[: len(whole) // 2])  # broken after the first frame
    assert "frames" not in uploads.read(opened, tmp_path / "c.tiff").note


def test_names_of_files_are_cut_to_what_can_be_shown():
    assert uploads.clean("../../etc/pass\x00wd.png") == "passwd.png"
    assert uploads.clean("C:\\me\\a.png") == "a.png"
    assert uploads.clean("") == "picture"


# ---- the page


def test_names_from_data_cannot_become_page():
    text = view.bars(["<script>alert(1)</script>", "${alert(1)}"], [0.5, 0.5], [0.1, 0.9]) + view.escape("{{value}}`")
    assert "<script" not in text
    assert "${" not in text
    assert "{{" not in text
    assert "`" not in text


def test_long_names_on_the_map_are_cut(opened):
    centres = np.array([[0.0, 0.0], [0.5, 0.1], [9.0, 5.0]])
    names = ["Egyptian fruit bat, male", "Egyptian fruit bat, female", "short"]
    drawn = view.latent_map(np.empty((0, 2)), np.empty(0, int), centres, np.ones(3), names)
    shown = re.findall(r"<title>([^<]+)</title>([^<]+)</text>", drawn)
    assert shown == [(names[0], "Egyptian frui…"), (names[1], "Egyptian frui…"), ("short", "short")]


def test_a_picture_on_the_page_has_the_models_resolution(given):
    content = base64.b64decode(re.search(r"base64,([^\"]+)", view.pixels(given.x, "it"))[1])
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), given.x[..., 0])


def test_what_a_browser_sends_is_checked(opened):
    for at in ({"x": float("nan")}, {"x": "1"}, {}, None, [1]):
        with pytest.raises(InputError, match="wanted is a number"):
            actions.number(at, "x")
    drawn = {"place": 3, "label": "3", "seed": 0, "spread": 1.0}
    for part, said in ({"place": 99}, "allowed are 0 to 15"), ({"seed": -1}, "seed -1"), ({"label": None}, "None"):
        with pytest.raises(InputError, match=said):
            actions.picked(opened, drawn | part)
    with pytest.raises(InputError, match="seed -1"):
        actions.generated(opened, "3", -1, 1.0)
    with pytest.raises(InputError, match="row 500"):
        session.test_picture(opened, 500)


def test_a_run_without_its_data_starts_with_a_generated_picture(faces):
    assert actions.first_picture(faces).note.startswith("generated")
    assert "data are not here" in faces.rows.missing
    frame, chart = look.chart(faces)
    assert chart.count("<text") == 4
    assert frame.side > 0


# ---- files that change while the studio runs


@pytest.fixture
def mine(run, tmp_path) -> Path:
    """A copy of the run that may be changed."""
    return Path(shutil.copytree(run, tmp_path / "mine"))


def train_on(path: Path) -> None:
    """Other weights, as after `segma resume`."""
    run = runs.read(path)
    model = runs.load_model(run).requires_grad_(False)
    for weights in model.parameters():
        weights.mul_(0.9)
    runs.save_model(run, model, runs.steps_done(run))


def test_what_is_measured_and_trained_meanwhile_is_shown(mine, monkeypatch):
    close, curves, results = look.overview(mine)
    assert results == f"not measured yet: segma evaluate {mine}"
    monkeypatch.setattr(sys, "argv", ["segma", "evaluate", str(mine)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    found = json.loads((mine / "results.json").read_text())
    assert look.overview(mine) == (close, curves, report.as_text(found))
    log = (mine / "log.jsonl").read_text().splitlines()
    (mine / "log.jsonl").write_text("\n".join(log[: len(log) // 2]))
    assert look.overview(mine)[0] == close
    assert look.overview(mine)[1] != curves
    train_on(mine)
    assert look.overview(mine)[0] != close


def test_a_run_that_was_trained_on_is_opened_with_its_new_weights(mine):
    first = shelf.version(mine)
    opened = shelf.opened(first)
    assert shelf.opened(shelf.version(mine)) is opened  # read once
    train_on(mine)
    again = shelf.opened(shelf.version(mine))
    z = opened.model.mixture.means
    assert not np.array_equal(session.picture(again, z), session.picture(opened, z))
    assert look.chart(again) != look.chart(opened)
    assert again.rows is opened.rows  # the data are the same
    assert shelf.opened(first) is opened  # what a page has open stays


def test_data_that_have_come_are_found(mine):
    (mine / "labels.json").rename(mine / "away")
    before = shelf.opened(shelf.version(mine))
    assert "labels.json is missing" in before.rows.missing
    (mine / "away").rename(mine / "labels.json")
    opened = shelf.opened(shelf.version(mine))
    assert actions.first_picture(opened).word == "test:0"
    assert look.chart(opened)[1].count("<circle") > look.chart(before)[1].count("<circle")


def test_data_that_cannot_be_prepared_do_not_stop_the_studio(mine, monkeypatch):
    def full(*_) -> None:
        raise RunFailed("9.0 GB needed for the decoded pictures, 1.0 GB free")

    monkeypatch.setattr(data, "load", full)
    opened = shelf.opened(shelf.version(mine))
    assert opened.rows.missing == "its data are not here: 9.0 GB needed for the decoded pictures, 1.0 GB free"
    assert actions.first_picture(opened).note.startswith("generated")


READ = """
import sys
from pathlib import Path

from segma import data, runs, studio


def told(name, read):
    return lambda *given: print(name) or read(*given)


data.load = told("data", data.load)
runs.load_mixture = told("weights", runs.load_mixture)
with studio.served(Path("digits")) as address:
    sys.path.append(sys.argv[1])
    from test_studio import load

    load(address, "digits", "test")
"""


def test_a_run_is_read_once_until_its_first_picture(tmp_path):
    """Under whatever name it was given: what is read at the start is what the page asks for."""
    words = [sys.executable, "-c", READ, str(Path(__file__).parent)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["data", "weights"], done.stderr


# ---- which runs


def test_runs_beside_are_listed_and_nothing_else(run, tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).symlink_to(run)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.json").write_text((run / "config.json").read_text())
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "notes.txt").write_text("")
    assert list(shelf.beside(tmp_path / "b")) == ["b", "a", *runs.come_along()]


@pytest.mark.parametrize("content", ["[]", "[1]", "no shape"])
def test_a_broken_run_beside_is_left_out(mine, content):
    broken = Path(shutil.copytree(mine, mine.with_name("broken")))
    if content == "no shape":
        said = json.loads((mine / "config.json").read_text())
        del said["data"]["shape"]
        content = json.dumps(said)
    (broken / "config.json").write_text(content)
    assert list(shelf.beside(mine)) == ["mine", *runs.come_along()]


def test_a_table_has_no_studio(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    SeGMA(2, epochs=1, settings={"hidden": "8"}, random_state=0, device="cpu").fit(x, y).save(tmp_path / "t")
    with pytest.raises(InputError, match="run on a table"):
        shelf.beside(tmp_path / "t")
    with pytest.raises(InputError, match="no such run"):
        shelf.beside(tmp_path / "nothing")


def test_runs_that_need_more_controls_than_the_page_has_are_not_offered(run, faces):
    found = {"digits": run, "faces": faces.run.path}
    assert shelf.most_classes(found) == 10
    assert shelf.within(found, 10) == found
    assert list(shelf.within(found, 9)) == ["faces"]
    for sizes in ((2, 2), (2, 2, 2), (2, 3), (3, 3), (2, 5), (3, 4), (2, 2, 2, 2)):
        values = [[f"{letter}{i}" for i in range(n)] for letter, n in zip("abcd", sizes, strict=False)]
        names = tuple(", ".join(name) for name in itertools.product(*values))
        assert 0 < len(shelf.levers(names)) <= len(names)  # so that room for the classes is room for these


def test_a_run_that_is_not_trained_to_its_end_says_so_on_the_page(mine):
    run = runs.read(mine)
    last = runs.steps_to_do(run)
    assert "has trained" not in actions.about(shelf.opened(shelf.version(mine)))[0]
    runs.save_model(run, runs.load_model(run), 153)
    with pytest.warns(UserWarning, match=f"153 of its {last} steps"):  # in the terminal
        opened = shelf.opened(shelf.version(mine))
    said = actions.about(opened)[0]
    assert f"It has trained 153 of its {last:,} steps; it goes on with: segma resume {mine}" in said


def test_models_that_come_along_are_offered(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert list(shelf.beside(Path("digits"))) == list(runs.come_along())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(run)
    assert list(shelf.beside(Path("digits")))[:2] == ["digits", "mine"]
    assert list(shelf.beside(tmp_path / "runs" / "mine")) == ["mine", *runs.come_along()]


def test_what_is_taken_away_calls_a_model_that_comes_along_by_its_name():
    opened = shelf.opened(shelf.version(runs.come_along()["digits"]))
    assert "run = runs.read(Path('digits'))" in export.start(opened)
    assert str(runs.TRAINED) not in export.samples_command(opened, 0, 0, 1.0)


def test_without_gradio_one_line_says_what_to_install(run):
    code = (
        "import sys; sys.modules['gradio'] = None; sys.argv = ['segma', 'studio', sys.argv[1]]\n"
        "from segma import cli; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "segma: the studio needs Gradio: pip install 'segma[studio]'\n"


def test_gradio_is_not_waited_for_before_anything_is_said():
    code = "import sys; from segma import studio; studio.library(); sys.exit('gradio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---- over HTTP


@pytest.fixture(scope="module")
def address(run):
    with serving(run) as address:
        yield address


def test_no_file_can_be_read_through_the_server(address, run, monkeypatch):
    import httpx

    monkeypatch.chdir(run.parent)
    files = [run / "config.json", Path("digits-1/config.json"), Path("/etc/passwd"), Path("../digits-1/config.json")]
    for file in files:
        for prefix in ("gradio_api/file=", "file=", "file/", "static/", "assets/", "gradio_api/file/"):
            answer = httpx.get(f"{address}{prefix}{file}")
            assert answer.status_code in (403, 404), (prefix, file)


def load(address: str, name: str, session: str) -> Callable:
    """Load the page; `change(value)` then moves its second slider, by hand, and gives the server's answer."""
    import httpx

    config = httpx.get(f"{address}config").json()
    events = {d["api_name"]: d for d in config["dependencies"]}
    named = {c["id"]: c for c in config["components"]}
    load = next(d["id"] for d in config["dependencies"] if any(event == "load" for _, event in d["targets"]))
    body = {"data": [name], "fn_index": load, "session_hash": session}
    httpx.post(f"{address}gradio_api/queue/join", json=body)
    with httpx.stream("GET", f"{address}gradio_api/queue/data?session_hash={session}", timeout=20) as answer:
        assert any('"success":true' in line for line in answer.iter_lines())
    start = [named[i]["props"].get("value") for i in events["change"]["inputs"]]

    def change(value: object) -> str:
        values = [*start[:4], value, *start[5:]]
        body = {"data": values, "fn_index": events["change"]["id"], "session_hash": session}
        answer = httpx.post(f"{address}gradio_api/run/predict", json=body)
        assert answer.status_code == 200
        return answer.text

    return change


def test_a_slider_beyond_its_limits_is_a_message(run, capfd):
    """What the page would not send, to a studio of its own, whose terminal stays free of tracebacks."""
    with serving(run) as address:
        change = load(address, run.name, "test")
        for value in (0.5, 7, -1, None, "1", [1], 0.2):
            assert ("data:image/png" in change(value)) == (value in (0.5, 0.2)), value
    said = capfd.readouterr().err
    assert said.startswith("opening the studio ...\n")
    assert "Traceback" not in said


def test_a_page_keeps_its_weights_until_it_is_loaded_again(mine):
    """A picture's code is of the weights that encoded it, and so is the map."""

    def picture(answer: str) -> str:
        return re.findall(r"data:image/png;base64,[^\\\"]+", answer)[0]

    with serving(mine) as address:
        change = load(address, "mine", "before")
        before = picture(change(0.5))
        train_on(mine)
        assert picture(change(0.5)) == before
        assert picture(load(address, "mine", "after")(0.5)) != before
        for file in ("model.safetensors", "config.json"):
            (mine / file).unlink()
        assert picture(change(0.5)) == before  # nothing is read for a move


@pytest.mark.parametrize("path", ["config", "/etc/passwd", "http://127.0.0.1:9/a.png", "http://example.com/a.png"])
def test_an_upload_that_names_another_file_or_address_is_refused(address, run, path):
    """The page's upload event, called by hand with a path that nobody uploaded."""
    import httpx

    path = str(run / "config.json") if path == "config" else path
    config = httpx.get(f"{address}config").json()
    upload = next(c["id"] for c in config["components"] if c["props"].get("elem_id") == "upload")
    event = next(d for d in config["dependencies"] if [upload, "upload"] in [list(t) for t in d["targets"]])
    body = {
        "data": [run.name, {"path": path, "meta": {"_type": "gradio.FileData"}}],
        "fn_index": event["id"],
        "session_hash": "test",
    }
    httpx.post(f"{address}gradio_api/queue/join", json=body)
    with httpx.stream("GET", f"{address}gradio_api/queue/data?session_hash=test", timeout=20) as answer:
        lines = [line for line in answer.iter_lines() if "process_completed" in line]
    assert json.loads(lines[-1].removeprefix("data: "))["success"] is False


def test_the_server_fetches_nothing():
    field = panels.from_browser(gr.File(render=False))
    with pytest.raises(InputError, match="wanted is a file"):
        asyncio.run(field.async_move_resource_to_block_cache("https://example.com/a.png"))


def test_the_server_is_for_this_computer_alone(address):
    assert address.startswith("http://127.0.0.1:")


def test_who_serves_others_is_told(monkeypatch):
    from segma import studio

    monkeypatch.setattr("socket.gethostname", lambda: "mine")
    assert studio.in_reach("127.0.0.1", "http://127.0.0.1:7860/") == []
    assert studio.in_reach("localhost", "http://localhost:7860/") == []
    (said,) = studio.in_reach("0.0.0.0", "http://localhost:7861/")
    assert "http://mine:7861 and" in said
    assert "no password" in said
    assert "http://192.0.2.7:7861 and" in studio.in_reach("192.0.2.7", "http://192.0.2.7:7861/")[0]
    assert "http://[2001:db8::1]:7861 and" in studio.in_reach("2001:db8::1", "http://[2001:db8::1]:7861/")[0]


def test_temporary_files_go_with_the_studio(run, tmp_path):
    with serving(run, TMPDIR=str(tmp_path)):
        (folder,) = tmp_path.glob("segma-studio-*")
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_a_place_that_cannot_be_served_at_is_named_at_once():
    import socket

    from segma import studio

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for host, number, message in (
            ("127.0.0.1", port, f"--port {port}: cannot serve"),
            ("127.0.0.1", 99999, "--port 99999: allowed"),
            ("no.such.place.invalid", None, "--host no.such.place.invalid: no such address"),
        ):
            with pytest.raises(InputError, match=message):
                studio.check_place(host, number)
    studio.check_place("127.0.0.1", None)
