"""Classes that are products of attributes, as "male, smiling" and "not male, smiling" are: found by their names."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from segma.errors import InputError, near

SEPARATORS = (", ", ",", "/", "|", "+", "_", "-", " ")  # the first that splits the names into a product is taken


class Axis(NamedTuple):
    """A way to sort the classes: each by itself, or by the value of one attribute."""

    values: tuple[str, ...]
    groups: tuple[int, ...]  # of each class, the place of its value


def own(classes: Sequence[str]) -> Axis:
    """The classes, each by itself."""
    return Axis(tuple(classes), tuple(range(len(classes))))


def find(classes: Sequence[str]) -> list[Axis]:
    """The attributes that the classes are all the combinations of; none if their names do not say so.

    Names are split at a separator; then every combination of parts must be there, and at least two places must vary.

    >>> [axis.values for axis in find(["young, sad", "young, happy", "old, sad", "old, happy"])]
    [('young', 'old'), ('sad', 'happy')]
    >>> find(["cat", "dog"])
    []
    """
    for separator in SEPARATORS:
        rows = [tuple(part.strip() for part in name.split(separator)) for name in classes]
        if len({len(row) for row in rows}) > 1 or len(set(rows)) < len(rows):
            continue
        columns = [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
        varied = [i for i, values in enumerate(columns) if len(values) > 1]
        if len(varied) > 1 and math.prod(map(len, columns)) == len(rows):
            return [Axis(columns[i], tuple(columns[i].index(row[i]) for row in rows)) for i in varied]
    return []


def shared(classes: Sequence[str], names: Collection[str]) -> Axis | None:
    """The one attribute of which all the names are values; None if there is none, an error if there are several."""
    axes = [axis for axis in find(classes) if names and set(names) <= set(axis.values)]
    if len(axes) > 1:
        raise InputError(f"{', '.join(map(repr, names))}: more than one attribute has it; name a whole class")
    return axes[0] if axes else None


def locate(classes: Sequence[str], names: Sequence[str]) -> tuple[Axis, list[int]]:
    """The axis on which all the names are, the classes themselves or one attribute, and their places on it."""
    axis = own(classes) if set(names) <= set(classes) else shared(classes, names)
    if axis is None:
        known = [*classes, *(value for attribute in find(classes) for value in attribute.values)]
        for name in names:
            if name not in known:
                raise InputError(f"class {name!r}: {near(name, known)}")
        raise InputError(f"{', '.join(map(repr, names))}: allowed are classes, or values of one attribute")
    return axis, [axis.values.index(name) for name in names]
