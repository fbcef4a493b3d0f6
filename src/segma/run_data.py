"""The data of a run: read again from where they are now, every label hidden but those that it kept."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from segma import data, runs
from segma.config import Config
from segma.data.arrays import Data
from segma.data.labels import hide, hold_out
from segma.errors import InputError


def load(
    run: runs.Run, data_dir: Path | None = None, progress: Callable | None = None, whole: Data | None = None
) -> Data:
    """The data of a run with the labels it kept; other data than it was trained on are an error."""
    whole = whole_data(run, data_dir, progress, whole)
    return with_rows(whole, *runs.rows(run))


def with_all_labels(run: runs.Run, whole: Data) -> Data:
    """Its data, as whole_data gives them, with every label there is: for judges of the model, never for the model."""
    _, held_out = runs.rows(run)
    return with_rows(whole, np.flatnonzero(whole.y_train >= 0), held_out)


def whole_data(
    run: runs.Run, data_dir: Path | None = None, progress: Callable | None = None, whole: Data | None = None
) -> Data:
    """The data that a run was trained on, nothing hidden."""
    config = run.config
    if run.data["where"] is None:
        raise InputError(f"{run.path} was fitted on arrays in Python, which it does not keep: measure it there")
    if whole is None:
        place = data_place(run, data_dir)
        whole = data.load(_found(config.data, data_dir), place, config.image_size, config.skip_broken, progress)
    runs.check_same_data(run, whole)
    return whole


def _found(name: str, data_dir: Path | None) -> str:
    """A file or folder of one's own that is no longer where it was may be in the data directory that was given."""
    if name in data.NAMED or Path(name).exists():
        return name
    own = Path(name).name
    places = [data_dir / own, *([data_dir] if data_dir.name == own else [])] if data_dir else []
    found = next((place for place in places if place.exists()), None)
    if found is None:
        looked = f", nor is {places[0]} there" if places else ""
        raise InputError(f"{name}: no such file or folder{looked}; --data-dir FOLDER, if it lies there now as {own}")
    return str(found.resolve())


def data_place(run: runs.Run, data_dir: Path | None = None) -> Path:
    """As given, else where the run had its data; a run that came from another machine looks where this one has them."""
    here = Path(run.data["where"], run.config.data).exists()
    return data.directory(data_dir or (run.data["where"] if here else None))


def choose_rows(whole: Data, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """By the label seed: the training rows that keep their label, and those held out of training to measure on."""
    seed = config.seed if config.label_seed is None else config.label_seed
    if not config.holdout:
        return hide(whole.y_train, config.labels, seed, whole.classes)[1], np.empty(0, dtype=int)
    mask = hold_out(whole.y_train, config.holdout, seed)
    rows = np.flatnonzero(~mask)
    known = int((whole.y_train[rows] >= 0).sum())
    if (config.labels or 0) > known:
        raise InputError(f"{config.labels} labels asked for, but holdout={config.holdout:g} leaves {known} to train on")
    return rows[hide(whole.y_train[rows], config.labels, seed, whole.classes)[1]], np.flatnonzero(mask)


def with_rows(whole: Data, kept: np.ndarray, held_out: np.ndarray) -> Data:
    """The data with every label hidden but the kept ones; rows held out take the place of the test split."""
    y = np.full_like(whole.y_train, -1)
    y[kept] = whole.y_train[kept]
    if not len(held_out):
        return dataclasses.replace(whole, y_train=y)
    rest = np.setdiff1d(np.arange(len(y)), held_out)
    x, x_test, y_test = whole.x_train[rest], whole.x_train[held_out], whole.y_train[held_out]
    return dataclasses.replace(whole, x_train=x, y_train=y[rest], x_test=x_test, y_test=y_test)
