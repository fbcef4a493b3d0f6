"""What a trained run is used for: classify, and new samples of its classes."""

import contextlib
import csv
import io
import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from segma import draw, files, runs
from segma.baselines import AnyModel, classifies, encodes
from segma.errors import InputError, near
from segma.model import Model, classify_rows, decode_rows, encode_rows

MOST_PICTURES, MOST_ROWS = 1000, 1_000_000  # of a class, in one file
NEGATIVE = "a negative of what this model knows, it seems; invert the picture for a better answer"


def classify(run: runs.Run, names: Sequence[str], x: np.ndarray) -> list[dict]:
    """The class and the posterior of each sample: images (h, w, c) in 0..1, or rows of a table."""
    if not classifies(run.config):
        raise InputError(f"{run.path} was trained without its labels: it has no classes")
    model = runs.load_model(run)
    with torch.no_grad():
        posterior = classify_rows(model, x).cpu().numpy()
    for name, p in zip(names, posterior, strict=True):
        if not np.isfinite(p).all():
            raise InputError(f"{name}: its values are too far from the training data to be classified")
    note_negatives(model, names, x)
    return [
        {"file": name, "class": run.classes[p.argmax()], "posterior": dict(zip(run.classes, p.tolist(), strict=True))}
        for name, p in zip(names, posterior, strict=True)
    ]


def note_negatives(model: AnyModel, names: Sequence[str], x: np.ndarray) -> None:
    for name, row in zip(names, x, strict=True):
        if model.is_image and is_negative(model, row):
            warnings.warn(f"{name}: {NEGATIVE}", stacklevel=3)


def is_negative(model: AnyModel, x: np.ndarray) -> bool:
    """Whether a model of grey pictures gives the negative of x (h, w, 1), uint8 or in 0..1, back much better than x:
    handwriting on white paper, say, for one that knows white strokes on black."""
    if not encodes(model) or x.shape[2] != 1 or (x == x[0, 0]).all():  # of one colour it is nothing's negative
        return False
    x = x / np.float32(255) if x.dtype == np.uint8 else x
    both = np.stack([x, 1 - x])
    as_it_is, inverted = ((decode_rows(model, encode_rows(model, both)) - both) ** 2).mean(axis=(1, 2, 3))
    return bool(inverted < as_it_is / 3)


def class_number(run: runs.Run, name: str) -> int:
    """The number of a class by its name; a near miss is suggested."""
    if name in run.classes:
        return run.classes.index(name)
    raise InputError(f"class {name!r} is not in {run.called}: {near(name, run.classes)}")


def class_samples(
    model: AnyModel, n: int, seed: int, labels: list[int] | None = None, spread: float = 1.0
) -> np.ndarray:
    """n new samples per class: images (classes, n, h, w, c) uint8, table rows (classes, n, features)."""
    labels = list(range(len(model.class_weights))) if labels is None else labels
    generator = torch.Generator(model.device).manual_seed(seed)
    numbers = [torch.full((n,), label, device=model.device) for label in labels]
    if isinstance(model, Model):
        x = decode_rows(model, torch.cat([model.draw(y, generator, spread) for y in numbers]))
    elif spread != 1:
        raise InputError(f"spread = {spread:g}: only a mixture has one to change")
    else:
        with torch.no_grad():
            x = model.restore(torch.cat([model.generate(y, generator) for y in numbers])).cpu().numpy()
    x = draw.to_uint8(x) if model.is_image else x
    return x.reshape(len(labels), n, *x.shape[1:])


def write_samples(run: runs.Run, classes: Sequence[str], n: int, seed: int, out: Path, spread: float = 1.0) -> None:
    """New samples of some classes, or of all: a picture with a row for each, a GIF with a frame per draw, of tables a
    .csv as `train` takes it. One of one class is a picture like the data's, of their size: every command takes it."""
    labels, is_image = [class_number(run, name) for name in classes] or None, len(run.shape) == 3
    draw.check_name(out, (".png", ".gif") if is_image else (".csv",))
    if n > (most := MOST_PICTURES if is_image else MOST_ROWS):
        raise InputError(f"-n {n}: allowed is 1 to {most}")
    model = runs.load_model(run)
    names = [run.classes[i] for i in labels or range(len(run.classes))]
    if len(model.class_weights) != len(run.classes):
        if classes:
            raise InputError(
                f"--label {classes[0]}: {run.path} is of the model {run.config.model}, which has no classes"
            )
        names = [""] * len(model.class_weights)
    x = class_samples(model, n, seed, labels, spread)
    if not is_image:
        first = [(name,) for name in names for _ in range(n)]
        files.write(out, as_csv(run, ("label",), first, x.reshape(len(first), -1)))
    elif out.suffix.lower() == ".gif":
        files.write(out, draw.gif([draw.grid(x[:, i : i + 1], names) for i in range(n)]))
    else:
        files.write(out, draw.png(draw.as_image(x[0, 0]) if len(classes) == n == 1 else draw.grid(x, names)))


def as_csv(run: runs.Run, heads: Sequence[str], first: Iterable[tuple[object, ...]], x: np.ndarray) -> bytes:
    """The content of a .csv: rows of the run's features behind what comes first in each; no two columns of a name."""
    heads = [f"{head}_" if head in run.heads else head for head in heads]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*heads, *run.heads])
    lines.writerows([*start, *(f"{value:.7g}" for value in row)] for start, row in zip(first, x, strict=True))
    return text.getvalue().encode()


def training_log(run: runs.Run) -> list[dict]:
    """The lines of a run's log.jsonl, as plots.training_curves takes them; one that is being written is left out."""
    file, found = run.path / "log.jsonl", []
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found
