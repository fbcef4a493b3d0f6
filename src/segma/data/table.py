"""A table as a .csv: a column of numbers per feature and, to learn from, one of labels."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from segma.data.arrays import Data
from segma.data.labels import GAPS, encode_labels, note_gaps, of_cell
from segma.data.values import images_or_table, note_doubtful
from segma.errors import InputError

LABEL = "label"  # or Label, as spreadsheets like it
MOST_FRACTIONS = 10  # classes may be called 0.5, 1.0 and 1.5; more of the kind are measurements


class Table(NamedTuple):
    columns: tuple[str, ...]  # the features' names, none where the first line holds numbers
    x: np.ndarray  # (n, features)
    labels: list[str] | None  # "" where not known; None where no column is called so


def load(path: Path) -> Data:
    """Data from a .csv whose first line names its columns: `label`, empty where it is not known, the others numbers."""
    columns, x, labels = read(path)
    if labels is None:
        found = f"the columns {', '.join(columns)}" if columns else "no line with names of columns at first"
        raise InputError(f"{path}: {found}; one must be called {LABEL}, and is empty where the label is not known")
    note_gaps(labels, str(path))
    rows = images_or_table(x, str(path))
    note_doubtful(x, str(path), columns)
    y, classes = encode_labels(_whole_numbers(labels, f"{path}: {LABEL}"), None, f"{path}: {LABEL}")
    return Data(path.stem, rows, y, rows[:0], y[:0], classes, columns)


def read(path: Path, only: Sequence[str] = ()) -> Table:
    """What a .csv holds; of one that names its columns, those named `only`, if any are, in that order."""
    numbered = _lines(path)
    if not numbered:
        raise InputError(f"{path}: no rows")
    names = _names(path, numbered[0][1], only)
    numbered = numbered[bool(names) :]
    missing = [name for name in only if names and name not in names]
    if missing:
        raise InputError(f"{path}: no column {', '.join(map(repr, missing))}; it has {', '.join(names)}")
    wide = len(names) or len(numbered[0][1])
    for number, cells in numbered:
        if len(cells) != wide:
            said = f"line {number} has {len(cells)} cells, the first one {wide}"
            raise InputError(f"{path}: not a table of numbers: {said}")
    wanted = [names.index(name) for name in only if names] or [i for i in range(wide) if names[i : i + 1] != [LABEL]]
    columns = tuple(names[i] for i in wanted) if names else ()
    cells = [[cells[i] for i in wanted] for _, cells in numbered]
    try:
        x = np.array(cells, dtype=np.float64).reshape(len(cells), len(wanted))
        if not np.isfinite(x).all() or any("_" in cell for row in cells for cell in row):  # Python reads 1_5 as 15
            raise ValueError
    except ValueError:
        line, i, cell = next(
            (line, i, cell)
            for (line, _), row in zip(numbered, cells, strict=True)
            for i, cell in enumerate(row)
            if not _is_number(cell)
        )
        where = f"column {columns[i]}" if columns else f"column {i + 1}"
        hint = "; leave the column out, or write numbers in it: 0 and 1 in a column for each value, say"
        hint = f"; labels are in a column called {LABEL}" if names and LABEL not in names else hint
        hint = "; numbers have a decimal point" if _is_number(cell.replace(",", ".", 1)) else hint
        if not cell or cell.lower() in GAPS:
            hint = "; fill gaps in, with the column's median for instance, or leave their lines out"
            hint += f"; if it has the labels, call it {LABEL}" if names and LABEL not in names else ""
        raise InputError(f"{path}: not a table of numbers: line {line}, {where}: {cell!r}{hint}") from None
    labels = [cells[names.index(LABEL)] for _, cells in numbered] if LABEL in names else None
    return Table(columns, x, labels)


def _names(path: Path, first: list[str], only: Sequence[str]) -> list[str]:
    """The names of the columns if the first line holds them; names may be numbers if one is `label`, or `only` knows
    them. A line of both, or with gaps, could be either: whoever took one for the other would lose or invent a row."""
    numbers = sum(map(_is_number, first))
    if numbers == len(first) and not (only and set(only) <= set(first)):
        return []
    if "" in first or len(set(first)) < len(first):
        raise InputError(
            f"{path}: columns {', '.join(map(repr, first))}, allowed: a name for each, all different "
            "(one without a name may be the row's number: leave it out)"
        )
    if numbers and LABEL not in first and not (only and set(only) <= set(first)):
        raise InputError(f"{path}: {', '.join(first)} in its first line, allowed: names of columns, or numbers")
    labels = [name for name in first if name.lower() == LABEL and name not in only]
    return [LABEL if labels == [name] else name for name in first]


def head(path: Path) -> list[str]:
    """The cells of a .csv's first line."""
    return next((cells for _, cells in _lines(path)), [])


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The cells of each line that has any, with its number."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets write a byte-order mark
            reader = csv.reader(file, delimiter=delimiter(file))
            lines = ((reader.line_num, [cell.strip() for cell in line]) for line in reader)
            return [(number, cells) for number, cells in lines if any(cells)]
    except (csv.Error, UnicodeDecodeError) as problem:
        why = problem if isinstance(problem, csv.Error) else "it is no text in UTF-8; spreadsheets save as CSV UTF-8"
        why = f"allowed are .csv and .npy, not {path.suffix}" if path.suffix not in (".csv", ".tsv", ".txt") else why
        raise InputError(f"{path}: not a table of numbers as .csv ({why})") from problem
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}") from problem


def delimiter(file: TextIO) -> str:
    """What lies between the cells: what the first line has most of."""
    first = file.readline()
    file.seek(0)
    return max(",;\t", key=first.count)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _whole_numbers(labels: list[str], name: str) -> np.ndarray:
    """Labels as integers, -1 where there is none, if that is what all are: 3, or 3.0, as whoever had gaps writes it."""
    values = np.array([float(cell or -1) if not cell or _is_number(cell) else np.nan for cell in labels])
    texts = np.array([of_cell(label) for label in labels], dtype=str)
    if not (np.abs(values) < 2**53).all():  # not numbers, or some of so many digits that they are names
        return texts
    odd, known = values[values != np.round(values)], values[values != -1]
    if not len(odd):
        return values.astype(np.int64)
    if len(np.unique(known)) > max(MOST_FRACTIONS, len(known) / 2):
        raise InputError(f"{name}: numbers to predict, as {odd[0]:g}, and not classes, which many rows share")
    return texts
