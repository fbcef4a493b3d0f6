"""The map of the classes of a run: which lie close, which far, by their trained means."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from segma import draw, files, latent, plots, run_data, runs
from segma.data.arrays import some_rows
from segma.errors import InputError
from segma.inputs import Source
from segma.model import Model, encode_rows

MAPPED = 2000  # codes on a map


def check_names(run: runs.Run, out: Path | None, map_out: Path | None) -> None:
    """What can be known to be wrong before anything is measured."""
    if out:
        draw.check_name(out)
    if map_out:
        draw.check_name(map_out, option="--map")
    if out and out == map_out:
        raise InputError(f"--out {out} and --map {map_out}: wanted are two files")
    if out and len(run.classes) < 2:
        raise InputError(f"{run.path} has one class: there is no other to compare it with")


def measure(run: runs.Run) -> dict:
    """How far the trained means lie from each other, and which class is nearest to each."""
    with torch.no_grad():
        distances = latent.class_distances(runs.load_mixture(run).mixture).double().numpy()
    apart = distances + np.diag(np.full(len(distances), np.inf))
    nearest = apart.argmin(axis=1)
    return {
        "classes": list(run.classes),
        "distances": distances.tolist(),
        "nearest": {
            name: {"class": run.classes[j], "distance": float(distances[i, j])}
            for i, (name, j) in enumerate(zip(run.classes, nearest, strict=True))
        },
    }


def as_text(found: dict, width: int = 100) -> str:
    """The distances as a table; the three nearest of each class where that would be too wide."""
    names, distances = found["classes"], np.array(found["distances"])
    first, cell = max(map(len, names)), max(*map(len, names), len(f"{distances.max():.2f}"))
    if first + (cell + 2) * len(names) <= width:
        lines = [" " * first + "".join(f"  {name:>{cell}}" for name in names)]
        for name, row in zip(names, distances, strict=True):
            lines.append(f"{name:>{first}}" + "".join(f"  {value:>{cell}.2f}" for value in row))
        return "\n".join([*lines, *_all_alike(distances)])
    lines = ["the nearest classes, by the distance of the means"]
    for i, (name, row) in enumerate(zip(names, distances, strict=True)):
        close = [j for j in row.argsort(kind="stable") if j != i][:3]
        lines.append(f"{name:>{first}}:  " + "  ".join(f"{names[j]} {row[j]:.2f}" for j in close))
    return "\n".join([*lines, *_all_alike(distances)])


def _all_alike(distances: np.ndarray) -> list[str]:
    """A line that says so where no class is much closer to one than to another: means start at one distance."""
    apart = distances[~np.eye(len(distances), dtype=bool)]
    if len(distances) < 3 or apart.min() < 0.95 * apart.max():
        return []
    return [f"all about equally far apart, {apart.min():.2f} to {apart.max():.2f}: the means have hardly moved"]


def write_picture(found: dict, out: Path) -> None:
    """The distances as a tree and a heat map."""
    files.write(out, draw.still(plots.similarity(np.array(found["distances"]), found["classes"]), out))


class Plane(NamedTuple):
    """What lies where on the plane in which the means lie furthest apart."""

    points: np.ndarray  # (n, 2), of codes
    labels: np.ndarray  # (n,)
    centres: np.ndarray  # (k, 2), of the components
    sigmas: np.ndarray  # (k,)


@torch.no_grad()
def on_plane(model: Model, x: np.ndarray, y: np.ndarray, most: int) -> Plane:
    """The codes of raw rows, at most so many, chosen at random, and the components; there may be no rows."""
    mixture, rows = model.mixture, some_rows(len(x), most)
    z = encode_rows(model, np.asarray(x[rows])) if len(rows) else mixture.means[:0]
    points, centres = (latent.on_plane(codes, mixture).numpy() for codes in (z, mixture.means))
    return Plane(points, y[rows], centres, mixture.variances.sqrt().numpy())


def write_map(source: Source, out: Path) -> list[str]:
    """Codes of test samples, or of training ones where there are none, and the components, on their plane."""
    run = source.run
    model = runs.load_mixture(run)
    x, y, notes = np.empty((0, *run.shape), np.float32), np.empty(0, int), []
    if run.data["where"] is None:
        notes = [f"{run.path} does not keep the arrays it was fitted on in Python: the map has the components alone"]
    else:
        few = run_data.load(run, source.data_dir, source.progress)
        x, y = (few.x_test, few.y_test) if len(few.x_test) else (few.x_train, few.y_train)
    _, _, shares = latent.plane(model.mixture)
    files.write(out, draw.still(plots.latent_map(*on_plane(model, x, y, MAPPED), run.classes, shares.tolist()), out))
    return notes
