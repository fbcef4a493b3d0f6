"""Labels: encoding them as places in the classes, hiding all but a few, and holding rows out."""

import math
import re
import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from segma.errors import InputError

GAPS = ("na", "n/a", "nan", "none", "null", "?", "unknown", "unlabeled", "unlabelled")  # as other programs write them


def of_cell(cell: str) -> str:
    """A label as a .csv has it: "" where it is not known; 1.0, as whoever had gaps writes it, is 1."""
    cell = re.sub(r"^(-?\d+)\.0*$", r"\1", cell)
    return "" if cell == "-1" else cell


def note_gaps(labels: Iterable[str], name: str) -> None:
    for label in dict.fromkeys(label for label in labels if label.lower() in GAPS):
        warnings.warn(f"{name}: {label!r} counts as a class; where a label is not known, leave it empty", stacklevel=3)


def encode_labels(
    y: Sequence | np.ndarray, classes: Sequence[str] | np.ndarray | None = None, name: str = "y"
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as int64 places in the classes, -1 where unlabelled, and the classes' names.

    y holds integers, of which -1 means unlabelled, or strings, of which "" does; or gaps among either. Without
    `classes` they are the distinct labels in order; with them integers are places in `classes` and strings names.
    """
    y = _integers_or_strings(y, name)
    unlabelled = "" if y.dtype.kind == "U" else -1
    found, inverse = np.unique(y, return_inverse=True)
    labels = [value for value in found.tolist() if value != unlabelled]
    allowed: Sequence = labels
    if classes is not None:
        classes = tuple(str(value) for value in classes)
        if len(set(classes)) < len(classes) or "" in classes:
            raise InputError(f"classes {', '.join(map(repr, classes))}: names must be distinct and not empty")
        allowed = classes if unlabelled == "" else range(len(classes))
    names = tuple(str(value) for value in labels) if classes is None else classes
    if not names:
        raise InputError(f"{name}: no sample has a label; a few of each class are needed")
    if len(names) < 2:
        raise InputError(
            f"{name}: {len(names)} classes ({', '.join(names)}), at least 2 needed ({unlabelled!r} is none)"
        )
    place = {value: i for i, value in enumerate(allowed)}
    outside = [str(value) for value in labels if value not in place]
    if outside:
        span = f"0..{len(names) - 1}, -1" if unlabelled == -1 else f"{_few(names)}, ''"
        raise InputError(f"{name}: labels outside the classes: {_few(outside)}; allowed: {span} = unlabelled")
    codes = np.array([place.get(value, -1) for value in found.tolist()], dtype=np.int64)
    return codes[inverse], names


def _few(names: Sequence[str], limit: int = 10) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _integers_or_strings(y: Sequence | np.ndarray, name: str) -> np.ndarray:
    # As objects first: numpy would turn the list ["cat", -1] into the strings "cat" and "-1".
    y = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if y.ndim != 1:
        raise InputError(f"{name}: shape {y.shape}, allowed: (n,), one label per sample")
    if y.dtype.kind == "O":
        values = y.tolist()
        if any(isinstance(value, str) for value in values):
            values = ["" if _is_gap(value) else value for value in values]
            y = np.array(values, dtype=str) if all(isinstance(value, str) for value in values) else y
        elif all(isinstance(value, int | float | np.number) or _is_gap(value) for value in values):
            y = np.array([-1 if _is_gap(value) else value for value in values])
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
        odd = np.flatnonzero(~((np.abs(y) < 2**53) & (y == np.round(y))))
        if len(odd):
            raise InputError(f"{name}: label {y[odd[0]]} in row {odd[0]}, allowed: integers, -1 = unlabelled")
    if y.dtype.kind not in "biufU":
        raise InputError(f"{name}: dtype {y.dtype}, allowed: integers (-1 = unlabelled) or strings ('' = unlabelled)")
    if y.dtype.kind == "U" and (y == "-1").any():
        raise InputError(
            f"{name} holds the text '-1': where the label is not known write '' among texts, -1 among numbers"
        )
    return y if y.dtype.kind == "U" else y.astype(np.int64)


def _is_gap(value: object) -> bool:
    """Whether it stands where there is no label: -1, or None, NaN or NA, as pandas has it."""
    if isinstance(value, int | float | np.number):
        return value == -1 or math.isnan(value)
    return value is None or type(value).__name__ == "NAType"


def as_names(y: Sequence | np.ndarray, name: str = "y") -> np.ndarray:
    """Labels as strings: integers by their str(), -1 by ""."""
    y = _integers_or_strings(y, name)
    return y if y.dtype.kind == "U" else np.where(y == -1, "", y.astype(str))


def shares(counts: np.ndarray, n: int) -> np.ndarray:
    """n split over the classes in proportion to their counts: largest remainders, and at least one each.

    Needs len(counts) <= n <= counts.sum() and no count of 0. In integers, so that a tie is a tie: to the first class.
    """
    counts = np.asarray(counts, dtype=np.int64)
    total = counts.sum()
    take = np.maximum(n * counts // total, 1)
    while take.sum() != n:
        owed = n * counts - take * total  # what a class has yet to get, in units of 1 / total
        if take.sum() < n:
            take[np.argmax(owed)] += 1
        else:
            take[np.argmin(np.where(take > 1, owed, owed.max() + 1))] -= 1
    return take


def hide(y: np.ndarray, n: int | None, seed: int, classes: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """y with all but n labels turned into -1, and the sorted rows that kept theirs; n = None keeps all.

    Stratified: each class keeps its share of n among the labelled rows, a uniformly random subset of its rows.
    """
    counts = np.bincount(y[y >= 0], minlength=len(classes))
    for name, count in zip(classes, counts, strict=True):
        if count == 0:
            raise InputError(f"class {name!r} has no labelled row, at least one per class needed")
    if n is None:
        return y.copy(), np.flatnonzero(y >= 0)
    if n < len(classes):
        raise InputError(f"{n} labels for {len(classes)} classes, at least one per class needed")
    if n > counts.sum():
        raise InputError(f"{n} labels asked for, but only {counts.sum()} rows are labelled")
    kept = _draw(y, shares(counts, n), seed)
    hidden = np.full_like(y, -1)
    hidden[kept] = y[kept]
    return hidden, kept


def hold_out(y: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Mask of the labelled rows kept out: a random `fraction` of each class, rounded, at least one and never all."""
    if not 0 < fraction < 1:
        raise InputError(f"fraction {fraction} to hold out, allowed: between 0 and 1, both excluded")
    counts = np.bincount(y[y >= 0])
    if not counts.sum():
        raise InputError("no labelled row to hold out")
    if (counts == 1).any():
        raise InputError(f"class number {np.argmax(counts == 1)} has one labelled row, two needed to hold one out")
    take = np.where(counts > 0, np.clip(np.floor(fraction * counts + 0.5).astype(int), 1, counts - 1), 0)
    mask = np.zeros(len(y), dtype=bool)
    mask[_draw(y, take, seed)] = True
    return mask


def _draw(y: np.ndarray, take: np.ndarray, seed: int) -> np.ndarray:
    """Sorted rows, take[c] random ones of each class c. Whole permutations are drawn, whatever `take` is, so that with
    the same seed a class's smaller draw is part of its larger one."""
    rng = np.random.default_rng(seed)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == c))[:m] for c, m in enumerate(take)]))
