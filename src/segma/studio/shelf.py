"""The runs that a studio shows: the one it was started with, those beside it, those that come with segma."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segma import attributes, run_data, runs
from segma.errors import InputError, RunFailed
from segma.model import Model


class Version(NamedTuple):
    """A run as a page found it. A page goes on with it until it is loaded again, whatever becomes of the files: its
    picture, code and map belong together."""

    path: Path
    settings: int  # when they were written
    weights: int
    missing: str  # why there is no test split


class Lever(NamedTuple):
    """A control of an attribute: from one value to the other where there are two, else towards one of them."""

    axis: attributes.Axis
    to: int
    back: int | None

    @property
    def text(self) -> str:
        to = self.axis.values[self.to]
        return f"towards {to}" if self.back is None else f"{self.axis.values[self.back]} \N{LEFT RIGHT ARROW} {to}"


class Rows(NamedTuple):
    """The test split, or why there is none."""

    x: np.ndarray = np.empty(0)
    y: np.ndarray = np.empty(0, int)
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Opened:
    """A run ready to use."""

    run: runs.Run
    model: Model
    levers: tuple[Lever, ...]  # of the attributes that its classes are products of
    rows: Rows
    steps: tuple[int, int]  # that it has trained, and that it trains in all


def beside(path: Path) -> dict[str, Path]:
    """The image runs in the same folder that have a model, by name, after the given one, which must be one, and then
    those that come with segma. Beside these are the runs in `runs`, where `segma train` puts them."""
    run = runs.read(path)
    path = run.path
    if len(run.shape) != 3:
        raise InputError(
            f"{path} is a run on a table: the studio shows runs on images; use transfer or classify for it"
        )
    if run.config.model != "segma":
        raise InputError(
            f"{path} is of the model {run.config.model}: the studio needs one Gaussian per class, as segma has"
        )
    runs.read_weights(run)
    path = path.resolve() if path.name in ("", "..") else path
    folder = Path("runs") if run.comes_along else path.parent
    others = sorted(other for other in folder.iterdir() if usable(other)) if folder.is_dir() else []
    found = {path.name: path} | {other.name: other for other in others}
    return found | {name: place for name, place in runs.come_along().items() if name not in found}


def most_classes(found: Mapping[str, Path]) -> int:
    """Of any of the runs. None needs more levers: products are at least as many as the values they are made of."""
    return max(len(runs.read(path).classes) for path in found.values())


def within(found: Mapping[str, Path], classes: int) -> dict[str, Path]:
    """The runs that need no more controls than a page with room for so many classes has."""
    return {name: path for name, path in found.items() if len(runs.read(path).classes) <= classes}


def usable(path: Path) -> bool:
    try:
        run = runs.read(path)
    except InputError:
        return False
    return (path / "model.safetensors").is_file() and len(run.shape) == 3 and run.config.model == "segma"


def written(file: Path) -> int:
    """When, in nanoseconds; 0 where it is not there, which whoever reads it will say."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def version(path: Path) -> Version:
    """What there is now. Where its data cannot be had, a run still edits files and generates."""
    settings, weights = written(path / "config.json"), written(path / "model.safetensors")
    try:
        missing = test_rows(path, settings).missing
    except (InputError, RunFailed, OSError) as problem:
        missing = f"its data are not here: {problem}"
    return Version(path, settings, weights, missing)


@lru_cache(maxsize=8)
def opened(version: Version) -> Opened:
    run = runs.read(version.path)
    rows = Rows(missing=version.missing) if version.missing else test_rows(version.path, version.settings)
    model, steps = runs.load_mixture(run).requires_grad_(False), (runs.steps_done(run), runs.steps_to_do(run))
    return Opened(run, model, levers(run.classes), rows, steps)


def levers(classes: tuple[str, ...]) -> tuple[Lever, ...]:
    """Of the attributes whose values have names of their own: those that are no other's value, and no class."""
    found = attributes.find(classes)
    names = [*classes, *(value for axis in found for value in axis.values)]
    return tuple(
        Lever(axis, to, 0 if len(axis.values) == 2 else None)
        for axis in found
        if all(names.count(value) == 1 for value in axis.values)
        for to in range(len(axis.values) == 2, len(axis.values))
    )


@lru_cache(maxsize=8)
def test_rows(path: Path, settings: int) -> Rows:
    """Read once while the settings, written then, stay; what fails is tried again."""
    few = run_data.load(runs.read(path))
    return Rows(few.x_test, few.y_test, "" if len(few.x_test) else "its data have no test split")
