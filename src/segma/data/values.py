"""What numbers a data set may hold: the checks that bring a user's array into the form that Data wants."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from segma.errors import InputError

LOST = 1e-3  # of a column's range: a larger rounding is told
ROUNDING = 1e-6  # beyond 0..1, as arithmetic on pixels leaves it
DARK = 32  # of 255: pictures nowhere as bright


def images_or_table(x: np.ndarray, name: str, at_least: int = 2) -> np.ndarray:
    """The array in the form that Data wants, without a copy where it has that form; `name` is for the messages."""
    try:
        x = x if isinstance(x, np.memmap) else np.asarray(x)
    except ValueError:
        raise InputError(f"{name}: rows of different lengths, allowed: one array of numbers") from None
    if x.dtype.kind not in "biuf":
        raise InputError(f"{name}: dtype {x.dtype}, allowed: numbers (bool, integer or float)")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        allowed = "(n, features) for a table, (n, h, w) or (n, h, w, c) for images"
        raise InputError(f"{name}: shape {x.shape}, allowed: {allowed}")
    if len(x) < at_least:
        raise InputError(f"{name}: {len(x)} samples, at least {at_least} needed")
    if x.ndim == 2:
        _range(x, name)
        return x.astype(np.float32, copy=False)
    x = x[..., None] if x.ndim == 3 else x
    _check_channels(x.shape, name)
    return _image_values(x, name)


def _check_channels(shape: tuple[int, ...], name: str) -> None:
    if shape[3] in (1, 3):
        return
    hint = "channels go last: x.transpose(0, 2, 3, 1)" if shape[1] in (1, 3) else "grey or RGB"
    if shape[3] == 4:
        hint = "RGBA: composite the alpha channel on a background, or drop it, first"
    raise InputError(f"{name}: {shape[3]} channels in shape {shape}, allowed: 1 or 3 ({hint})")


def _image_values(x: np.ndarray, name: str) -> np.ndarray:
    if x.dtype == np.uint8:
        return x
    if x.dtype == bool:
        return np.where(x, np.uint8(255), np.uint8(0))
    low, high = _range(x, name)
    if x.dtype.kind == "f":
        if low < -ROUNDING or high > 1 + ROUNDING:
            hint = ""
            if low >= 0 and high <= 255:
                hint = f"; divide by {255 if high > 16 else high:g}?"
            elif low >= -1 and high <= 1:
                hint = "; (x + 1) / 2?"
            raise InputError(f"{name}: float images with values in {low:g}..{high:g}, allowed: 0..1{hint}")
        x = x.astype(np.float32, copy=False)
        return x.clip(0, 1) if low < 0 or high > 1 else x
    if low < 0 or high > 255:
        raise InputError(f"{name}: integer images with values in {low:g}..{high:g}, allowed: 0..255")
    return x.astype(np.uint8)


def blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    """Runs of rows of some 16 MB, so that looking at a memory map does not read all of it into memory at once."""
    rows = max(1, (1 << 24) // max(1, x.itemsize * x[:1].size))
    return (x[i : i + rows] for i in range(0, len(x), rows))


def note_doubtful(x: np.ndarray, name: str, columns: Sequence[str] = ()) -> None:
    """Warnings where training data are hardly what was meant: pictures of another range than 0..255, nearly black as
    that; columns of a table whose differences float32, in which they are kept, rounds off."""
    dark = x.ndim > 2 and x.dtype.kind in "iu" and all(part.max() < DARK for part in blocks(x))
    if dark and (high := _range(x, name)[1]):
        said = f"whole numbers up to {high:g} count as 0 to 255, nearly black"
        warnings.warn(f"{name}: {said}; if {high:g} is white, give x / {high:g}, decimals in 0..1", stacklevel=2)
    if x.ndim != 2 or x.dtype.kind not in "iuf" or x.dtype.itemsize < 4 or x.dtype == np.float32 or not len(x):
        return
    low = np.min([part.min(axis=0) for part in blocks(x)], axis=0).astype(np.float64)
    high = np.max([part.max(axis=0) for part in blocks(x)], axis=0).astype(np.float64)
    off = np.max([np.abs(part - part.astype(np.float32)).max(axis=0) for part in blocks(x)], axis=0)
    for i in np.flatnonzero(off > LOST * (high - low))[:5]:
        warnings.warn(
            f"{name}: column {columns[i] if len(columns) else i} ({low[i]:.12g} to {high[i]:.12g}) varies too little "
            "beside its size, float32 rounds it off; subtract its smallest value first",
            stacklevel=2,
        )


def _range(x: np.ndarray, name: str) -> tuple[float, float]:
    """Smallest and largest value (0, 0 of no rows); NaN, infinity and what float32 cannot hold are errors."""
    ends = np.array([(block.min(), block.max()) for block in blocks(x)], dtype=np.float64)
    if not (np.abs(ends) <= np.finfo(np.float32).max).all():
        _name_the_unusable(x, name)
    return (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 0.0)


def _name_the_unusable(x: np.ndarray, name: str) -> None:
    count, first, done = 0, None, 0
    for block in blocks(x):
        bad = ~(np.abs(block.astype(np.float64)) <= np.finfo(np.float32).max)
        if bad.any() and first is None:
            first = done + int(np.flatnonzero(bad.reshape(len(bad), -1).any(1))[0])
        count, done = count + int(bad.sum()), done + len(block)
    raise InputError(
        f"{name}: {count} values are NaN, infinite or too large for float32, the first in row {first} (from 0); "
        "fill gaps in, or leave their rows out"
    )
