"""Edits with a trained run: samples in; a strip, an animation or a table out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from segma import apply, attributes, draw, files, latent, runs
from segma.baselines import AnyModel, classifies, encodes
from segma.errors import InputError
from segma.inputs import Samples, Source, read
from segma.mixture import Mixture
from segma.model import Model, classify_rows, decode_rows, encode_rows

MOST_STEPS = 1000
TOLD = 20  # rows of a table of which each has a line of its own
STILL = "which this edit leaves as it is"


def interpolate(source: Source, a: str, b: str, steps: int, path: str, out: Path) -> list[str]:
    """Write what lies between two samples, and say what was done to them."""
    check_out(source.run, steps, out)
    if path not in latent.PATHS:
        raise InputError(f"--path {path}: allowed are {', '.join(latent.PATHS)}")
    model = runs.load_model(source.run)
    if not encodes(model):
        raise InputError(f"{source.run.path} is of the model {source.run.config.model}, which cannot encode a sample")
    if path != "linear" and not isinstance(model, Model):
        raise InputError(f"--path {path}: {source.run.config.model} has no mixture; allowed is linear")
    samples = read(source, [a, b], one_each=True)
    z, notes = encode(source.run, model, samples)
    target = model.mixture if isinstance(model, Model) else None
    with torch.no_grad():
        codes = latent.interpolate(z[:1], z[1:], steps, target, path)
    t = np.linspace(0, 1, steps)
    given = [samples.x[:1], samples.x[1:]] if source.shown else []
    write(source.run, out, model, [f"{a} to {b}"], given, codes, "t", t)
    return notes


def transfer(source: Source, words: Sequence[str], to: str, given: str | None, steps: int, out: Path) -> list[str]:
    """Write samples on their way to a class, or a value of an attribute; `given` is their own, else the posterior's."""

    def move(z: Tensor, own: Tensor, goal: Tensor, target: Mixture, t: float) -> Tensor:
        return latent.transfer(z, own, goal.expand_as(own), target, t)

    check_out(source.run, steps, out)
    return _edit(source, words, [to], given, move, "t", np.linspace(0, 1, steps), out, f" → {to}")


def intensify(
    source: Source,
    words: Sequence[str],
    away_from: Sequence[str],
    given: str | None,
    alpha: float,
    steps: int,
    out: Path,
) -> list[str]:
    """Write samples moved away from classes (or values of one attribute), from all others if none is named."""

    def move(z: Tensor, own: Tensor, away: Tensor, target: Mixture, alpha: float) -> Tensor:
        return latent.intensify(z, own, away if len(away) else None, target, alpha)

    check_out(source.run, steps, out)
    return _edit(source, words, away_from, given, move, "alpha", np.linspace(0, alpha, steps), out)


def _edit(
    source: Source,
    words: Sequence[str],
    names: Sequence[str],
    given: str | None,
    move: Callable[[Tensor, Tensor, Tensor, Mixture, float], Tensor],
    symbol: str,
    values: np.ndarray,
    out: Path,
    on: str = "",
) -> list[str]:
    """Move samples relative to the classes (or values of one attribute) of these names, by each of the values. `on` is
    written behind the class of each."""
    classes = source.run.classes
    axis, places = attributes.locate(classes, names)
    number = None if given is None else place(classes, axis, given)
    model = runs.load_mixture(source.run)
    samples = read(source, words)
    z, notes = encode(source.run, model, samples)
    with torch.no_grad():
        own = latent.nearest_class(z, model.mixture, axis.groups)
        own = own if number is None else torch.full_like(own, number)
        target = latent.merge(model.mixture, axis.groups)
        goals = torch.tensor(places, dtype=own.dtype)
        codes = torch.stack([move(z, own, goals, target, float(value)) for value in values], dim=1)
    labels = [axis.values[i] for i in own.tolist()]
    rows = [label + on for label in labels]
    write(source.run, out, model, samples.names, [samples.x] if source.shown else [], codes, symbol, values, rows)
    still = (codes[:, 0] == codes[:, -1]).all(dim=1).nonzero().flatten().tolist()
    if model.is_image or len(labels) <= TOLD:
        return [*notes, *(f"{samples.names[i]}: counts as {labels[i]!r}, {STILL}" for i in still)]
    count = {label: sum(labels[i] == label for i in still) for label in axis.values}
    return [*notes, *(f"{many} rows: count as {label!r}, {STILL}" for label, many in count.items() if many)]


def check_out(run: runs.Run, steps: int, out: Path) -> None:
    """What can be known to be wrong before anything is read."""
    if not 2 <= steps <= MOST_STEPS:
        raise InputError(f"--steps {steps}: allowed is 2 to {MOST_STEPS}")
    draw.check_name(out, (".png", ".gif") if len(run.shape) == 3 else (".csv",))


def place(classes: Sequence[str], axis: attributes.Axis, name: str) -> int:
    """The place of a class, or of a value, on an axis."""
    if name in axis.values:
        return axis.values.index(name)
    own, (number,) = attributes.locate(classes, [name])
    if own.values != tuple(classes):
        raise InputError(f"--source {name}: allowed are {', '.join(axis.values)}")
    return axis.groups[number]


def encode(run: runs.Run, model: AnyModel, samples: Samples) -> tuple[Tensor, list[str]]:
    """The codes, and a line about each sample: what was done to it and what it is taken for; of a long table, how many
    rows are taken for each class."""
    z, known = encode_rows(model, samples.x), classifies(run.config)
    posterior = classify_rows(model, samples.x) if known else z
    apply.note_negatives(model, samples.names, samples.x)
    notes = []
    for name, note, p in zip(samples.names, samples.notes, posterior, strict=True):
        if not p.isfinite().all():
            raise InputError(f"{name}: its values are too far from the training data to be edited")
        taken = f"taken for {run.classes[int(p.argmax())]!r} ({float(p.max()):.0%})" if known else ""
        notes.append(f"{name}: {', '.join(filter(None, [note, taken]))}")
    if known and not model.is_image and len(notes) > TOLD:
        counts = np.bincount(posterior.argmax(dim=1).cpu().numpy(), minlength=len(run.classes))
        named = ", ".join(f"{name} {count}" for name, count in zip(run.classes, counts, strict=True) if count)
        notes = [f"{len(z)} rows, taken for: {named}"]
    return z, notes


def write(
    run: runs.Run,
    out: Path,
    model: AnyModel,
    names: Sequence[str],
    given: list[np.ndarray],
    codes: Tensor,
    symbol: str,
    at: np.ndarray,
    labels: Sequence[str] = (),
) -> None:
    """The decoded codes (rows, steps, d) as the ending of `out` says; `at` are the values of `symbol` at the steps."""
    made = decode_rows(model, codes.flatten(0, 1))
    if not np.isfinite(made).all():
        raise InputError(f"{symbol} up to {at[-1]:g} leads so far from the data that nothing can be decoded there")
    if not model.is_image:
        first = [(name, f"{value:.6g}") for name in names for value in at]
        files.write(out, apply.as_csv(run, ("sample", symbol), first, made))
        return
    made = draw.to_uint8(made).reshape(len(names), len(at), *made.shape[1:])
    values = [f"{value:.3g}" for value in at]
    if out.suffix.lower() == ".gif":
        files.write(out, draw.gif(draw.frames(made, [f"{symbol} = {value}" for value in values]), 150))
        return
    heads = [*["given"] * len(given[:1]), f"{symbol} = {values[0]}", *values[1:], *["given"] * len(given[1:])]
    files.write(out, draw.png(draw.sheet([draw.to_uint8(x) for x in given], made, heads, labels)))
