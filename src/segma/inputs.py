"""What a trained run is given to work on, by name: pictures and their folders, tables, rows of its test split."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from segma import run_data, runs
from segma.data import folder, table
from segma.data.pictures import GREY, picture
from segma.data.values import images_or_table
from segma.errors import InputError


class Source(NamedTuple):
    """Where samples come from: the run that says in what form, and how to read its data for those named test:12.

    What may not be passed on (a data set's own pictures) is not shown beside what was made of it."""

    run: runs.Run
    data_dir: Path | None = None
    progress: Callable | None = None
    shown: bool = True


class Samples(NamedTuple):
    """What is to be edited: a name each, raw rows (images as floats in 0..1), and what was done to each in words."""

    names: list[str]
    x: np.ndarray
    notes: list[str]


def read(
    source: Source, words: Sequence[str], one_each: bool = False, broken: list[InputError] | None = None
) -> Samples:
    """Samples by name: test:12 is a row of the test split, counted from 0; else a picture, or rows of a table's file,
    of which FILE:3 is the third. With a list for what is `broken`, a picture that cannot be read goes there, as long as
    there are others."""
    run, names, rows, notes = source.run, [], [], []
    few = None
    for word in words:
        if test := re.fullmatch(r"test:(\d+)", word):
            few = few or run_data.load(run, source.data_dir, source.progress)
            row = int(test[1])
            if row >= len(few.x_test):
                if not len(few.x_test):
                    raise InputError(f"{word}: {few.name} has no test split, allowed are files")
                raise InputError(f"{word} is not in {few.name}: allowed are test:0 to test:{len(few.x_test) - 1}")
            label = few.y_test[row]
            found = [(word, few.x_test[row], f"labelled {run.classes[label]!r}" if label >= 0 else "not labelled")]
        elif re.fullmatch(r"(test|train):.*", word) and not Path(word).exists():
            raise InputError(f"{word}: rows are named test:0, test:1 and so on; of the test split alone")
        elif len(run.shape) == 3:
            try:
                x = picture_as(Path(word), run.shape)
            except InputError as problem:
                if broken is None or len(broken) == len(words) - 1:
                    raise
                broken.append(problem)
                continue
            found = [(word, x, changes(Path(word), run.shape))]
        else:
            found = _table_rows(run, word)
        if one_each and len(found) > 1:
            raise InputError(f"{word} has {len(found)} rows: name one of them, as {word}:1")
        for name, x, note in found:
            names.append(name)
            rows.append(x.astype(np.float32) / 255 if x.dtype == np.uint8 else np.array(x))
            notes.append(note)
    return Samples(names, np.stack(rows), notes)


def unfolded(words: Sequence[str]) -> list[str]:
    """The words, and in the place of a folder the pictures in it and deeper, in the order of their names."""
    found: list[str] = []
    for word in words:
        if not Path(word).is_dir():
            found.append(word)
            continue
        inside = folder.pictures_below(Path(word))
        if not inside:
            raise InputError(f"{word}: no pictures ({', '.join(folder.SUFFIXES)})")
        found += [str(Path(word, name)) for name in inside]
    return found


def said_once(samples: Samples) -> list[str]:
    """What was done to the samples, a line for each kind: "a.png and 11 more: 640 x 480 colour, resized to 28 x 28"."""
    alike: dict[str, list[str]] = {}
    for name, note in zip(samples.names, samples.notes, strict=True):
        if note and not note.endswith("taken as it is"):
            alike.setdefault(note, []).append(name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {note}" for note, names in alike.items()
    ]


def _table_rows(run: runs.Run, word: str) -> list[tuple[str, np.ndarray, str]]:
    file, colon, number = word.rpartition(":")
    if not (colon and number.isdecimal()) or Path(word).exists():
        names, x = table_rows(run, Path(word))
        return [(name, row, "") for name, row in zip(names, x, strict=True)]
    _, x = table_rows(run, Path(file))
    if not 1 <= int(number) <= len(x):
        raise InputError(f"{word}: {file} has {len(x)} rows, allowed are {file}:1 to {file}:{len(x)}")
    return [(word, x[int(number) - 1], "")]


def picture_as(file: Path, shape: tuple[int, ...]) -> np.ndarray:
    """An image file as a model of this shape takes it: the centre in the model's proportions, resized, grey or RGB."""
    h, w, c = shape
    image = Image.fromarray(picture(file)).convert("L" if c == 1 else "RGB")
    return np.asarray(ImageOps.fit(image, (w, h), Image.Resampling.BILINEAR)).reshape(shape)


def changes(file: Path, shape: tuple[int, ...]) -> str:
    """What `picture_as` does to a file, in words: "640 x 480 colour, centre cut, resized to 28 x 28, grey"."""
    h, w, c = shape
    with Image.open(file) as image:
        turned = image.getexif().get(0x0112, 1) not in (0, 1)  # EXIF's tag of the orientation
        sides = image.size[::-1] if image.getexif().get(0x0112) in (5, 6, 7, 8) else image.size
        grey, clear = image.mode in GREY, image.has_transparency_data
        try:
            frames = getattr(image, "n_frames", 1)
        except Exception:  # broken after the first, which is all that is read
            frames = 1
    done = {
        f"the first of {frames} frames": frames > 1,
        "turned as its EXIF says": turned,
        "laid on white": clear,
        "centre cut": sides[0] * h != sides[1] * w,
        f"resized to {w} x {h}": sides != (w, h),
        "grey": c == 1 and not grey,
        "taken as colour": c == 3 and grey,
    }
    said = [text for text, is_so in done.items() if is_so] or ["taken as it is"]
    return f"{sides[0]} x {sides[1]} {'grey' if grey else 'colour'}, {', '.join(said)}"


def table_rows(run: runs.Run, file: Path) -> tuple[list[str], np.ndarray]:
    """The rows of a .csv, by the names of its columns where both it and the run have them (or it is one that segma
    wrote), or of a .npy; with names FILE:ROW."""
    if file.suffix != ".npy":
        named = run.columns or (run.heads if set(run.heads) <= set(table.head(file)) else ())
        rows = table.read(file, named).x
    elif not file.is_file():
        raise InputError(f"{file}: no such file")
    else:
        try:
            rows = np.load(file, allow_pickle=False)
        except (OSError, ValueError) as problem:
            why = str(problem).split(";")[0]  # what follows is advice on numpy
            raise InputError(f"{file}: not a table of numbers as .npy ({why})") from problem
    if rows.ndim != 2 or rows.shape[1:] != run.shape:
        raise InputError(f"{file} has the shape {rows.shape}; the run takes rows of {run.shape[0]} numbers")
    return [f"{file}:{i + 1}" for i in range(len(rows))], images_or_table(rows, str(file), at_least=1)
