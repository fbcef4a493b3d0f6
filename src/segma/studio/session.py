"""What a person has open: a picture, its code, the edits made so far. Values and pure functions; nothing is drawn."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from segma import apply, draw, latent
from segma.errors import InputError
from segma.model import classify_rows, decode_rows, encode_rows
from segma.studio.shelf import Opened

TOGETHER = 2.0  # seconds: changes of one control that follow each other so closely are one step to undo


class Given(NamedTuple):
    """The picture that is open."""

    x: np.ndarray  # (h, w, c) uint8, as the model sees it
    z: np.ndarray  # (1, d) its code
    word: str  # as the command line calls it: test:12, or a file
    note: str  # what it is and what was done to it
    drawn: tuple[int, int, int, float] | None = None  # of a generated one: class, seed, place, spread
    doubt: str = ""  # what speaks against going on with it as it is


class Edit(NamedTuple):
    """Where the controls stand."""

    towards: tuple[float, ...]  # a class each
    intensity: tuple[float, ...]  # a class each
    attribute: tuple[float, ...]  # a lever each
    style: float = 1.0
    shift: tuple[float, float] = (0.0, 0.0)  # on the plane of the map


class History(NamedTuple):
    """Edits made and undone."""

    now: Edit
    past: tuple[Edit, ...] = ()
    future: tuple[Edit, ...] = ()
    changed: float = 0.0  # when


def begin(opened: Opened, x: np.ndarray, word: str, note: str, drawn: tuple | None = None) -> Given:
    """Open a picture (h, w, c): it is encoded once, and edits decode."""
    x = x if x.dtype == np.uint8 else draw.to_uint8(x)
    z = encode_rows(opened.model, np.array(x[None]))
    if not z.isfinite().all():
        raise InputError(f"{word}: the model finds no code for it")
    return Given(x, z.numpy(), word, note, drawn)


def test_picture(opened: Opened, row: int) -> Given:
    rows = opened.rows
    if rows.missing:
        raise InputError(f"there are no test pictures: {rows.missing}")
    if not 0 <= row < len(rows.x):
        raise InputError(f"row {row}: allowed are 0 to {len(rows.x) - 1}")
    label = f"labelled {opened.run.classes[rows.y[row]]!r}" if rows.y[row] >= 0 else "not labelled"
    return begin(opened, np.asarray(rows.x[row]), f"test:{row}", f"row {row} of the test split, {label}")


def inverted(opened: Opened, given: Given) -> Given:
    """The negative of a picture, under a name of its own."""
    name = f"{Path(given.word.replace(':', '-')).stem}-inverted.png"
    return begin(opened, 255 - given.x, name, f"{name}: {given.word}, inverted")


def own(opened: Opened, given: Given, groups: tuple[int, ...] | None = None) -> int:
    """The class, or the group of classes, that the picture is taken for: moving towards it changes nothing."""
    return int(latent.nearest_class(torch.from_numpy(given.z), opened.model.mixture, groups))


def told_apart(a: Given, b: Given) -> Given:
    """b, under another name where a has the same and is another picture: two drawings, say."""
    if a.word != b.word or np.array_equal(a.x, b.x):
        return b
    return b._replace(word=f"{Path(b.word).stem}-2.png")


def samples(opened: Opened, label: int, n: int, seed: int, spread: float) -> np.ndarray:
    return apply.class_samples(opened.model, n, seed, [label], spread)[0]


def sampled_picture(opened: Opened, label: int, n: int, seed: int, spread: float, place: int) -> Given:
    name = opened.run.classes[label]
    x = samples(opened, label, n, seed, spread)[place]
    note = f"generated: {name!r}, number {place + 1} of seed {seed}, spread {spread:g}"
    called = f"sample-{label}-{seed}-{place + 1}" + (f"-spread-{spread:g}" if spread != 1 else "")
    return begin(opened, x, f"{called}.png", note, (label, seed, place, spread))


def neutral(opened: Opened) -> Edit:
    k = len(opened.run.classes)
    return Edit((0.0,) * k, (0.0,) * k, (0.0,) * len(opened.levers))


def words(opened: Opened, given: Given, edit: Edit) -> tuple[dict[str, float], dict[str, float]]:
    """An edit as `SeGMA.edit` takes it: how far towards, and how intense, by name; what is 0 is left out.

    Where an attribute has two values, its control goes from one to the other whatever the picture's own is: towards the
    other where it points there, and, for more of its own, away from the other.
    """
    classes = opened.run.classes
    towards = {name: amount for name, amount in zip(classes, edit.towards, strict=True) if amount}
    intensity = {name: amount for name, amount in zip(classes, edit.intensity, strict=True) if amount}
    for (axis, to, back), amount in zip(opened.levers, edit.attribute, strict=True):
        if amount:
            there = own(opened, given, axis.groups) == to
            towards |= {axis.values[back]: -amount} if there and back is not None else {axis.values[to]: amount}
    return towards, intensity


@torch.inference_mode()
def code(opened: Opened, given: Given, edit: Edit) -> Tensor:
    """The code (1, d) of the edited picture."""
    pushed = latent.pushes(opened.run.classes, *words(opened, given, edit))
    return latent.edit(torch.from_numpy(given.z), opened.model.mixture, pushed, edit.style, edit.shift)


@torch.inference_mode()
def picture(opened: Opened, z: Tensor) -> np.ndarray:
    """Codes (n, d) as pictures (n, h, w, c), uint8."""
    return draw.to_uint8(decode_rows(opened.model, z))


@torch.inference_mode()
def posterior(opened: Opened, z: Tensor) -> list[float]:
    return opened.model.mixture.posterior(z)[0].tolist()


@torch.inference_mode()
def read_again(opened: Opened, x: np.ndarray) -> list[float]:
    """The posterior of a picture (h, w, c) itself. Far from the data it may be another than that of the code it was
    decoded from."""
    return classify_rows(opened.model, x[None])[0].tolist()


@torch.inference_mode()
def place(opened: Opened, z: Tensor) -> tuple[float, float]:
    """Where a code lies on the map."""
    x, y = latent.on_plane(z, opened.model.mixture)[0].tolist()
    return x, y


def moved(opened: Opened, given: Given, edit: Edit, to: tuple[float, float]) -> Edit:
    """The edit that also brings the picture to a place on the map."""
    x, y = place(opened, code(opened, given, edit))
    return edit._replace(shift=(edit.shift[0] + to[0] - x, edit.shift[1] + to[1] - y))


@torch.inference_mode()
def class_at(opened: Opened, at: tuple[float, float]) -> int | None:
    """The class in whose circle a place of the map lies; of several the one with the nearest centre."""
    mixture = opened.model.mixture
    away = (latent.on_plane(mixture.means, mixture) - torch.tensor(at)).norm(dim=1)
    inside = away <= mixture.variances.sqrt()
    return int(away.where(inside, away.new_tensor(torch.inf)).argmin()) if inside.any() else None


def to_class(edit: Edit, label: int, start: int) -> Edit:
    """The edit that brings a picture of the class `start` to a class and to no other, off the map as well; the rest
    stays."""
    towards = tuple(float(i == label != start) for i in range(len(edit.towards)))
    return edit._replace(towards=towards, shift=(0.0, 0.0))


def way(opened: Opened, a: Tensor, b: Tensor, steps: int, path: str = "linear") -> np.ndarray:
    """Pictures (steps, h, w, c) on the way from one code to another."""
    return picture(opened, latent.interpolate(a, b, steps, opened.model.mixture, path)[0])


def done(history: History, edit: Edit, when: float) -> History:
    """After an edit; one that goes on moving the control that has just moved belongs to the same step."""
    if edit == history.now:
        return history
    last = history.past[-1] if history.past else None
    same = last is not None and controls(last, history.now) == controls(last, edit)
    if same and when - history.changed < TOGETHER:  # never just after undo, which leaves `changed` at 0
        return History(edit, history.past, (), when)
    return step(history, edit, when)


def step(history: History, edit: Edit, when: float = 0.0) -> History:
    """An edit that can be undone by itself."""
    if edit == history.now:
        return history
    return History(edit, (*history.past, history.now), (), when)


def controls(a: Edit, b: Edit) -> set:
    """Which controls stand differently."""
    flat = [(*edit.towards, *edit.intensity, *edit.attribute, edit.style, edit.shift) for edit in (a, b)]
    return {i for i, (one, two) in enumerate(zip(*flat, strict=True)) if one != two}


def undo(history: History) -> History:
    if not history.past:
        return history
    *past, last = history.past
    return History(last, tuple(past), (history.now, *history.future))


def redo(history: History) -> History:
    if not history.future:
        return history
    first, *future = history.future
    return History(first, (*history.past, history.now), tuple(future))
