"""What users of the estimator hand in, checked: labels, names of classes, numbers, seeds."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from segma import attributes
from segma.config import RANGES
from segma.errors import InputError


def number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not np.isfinite(value):
        raise InputError(f"{name} = {value!r}: wanted is a number")
    return float(value)


def whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} = {value!r}: wanted is a whole number, {least} or more")
    return int(value)


def amounts(value: Any, classes: np.ndarray) -> dict[str, float]:
    """How much of each class, by its name."""
    if not isinstance(value, Mapping | None):
        raise InputError(f"{value!r}: wanted are classes with amounts, as {{{classes.tolist()[0]!r}: 0.5}}")
    own = {label: str(label) for label in classes.tolist()}  # 1 is the class 1.0, as it is to `places`
    return {own.get(name, str(name)): number(str(name), amount) for name, amount in (value or {}).items()}


def one_row(x: Any) -> Any:
    """A sample as a batch of one; the row of a frame keeps the names of its columns."""
    return x.to_frame().T if hasattr(x, "to_frame") else [x]


def pair(name: str, value: Any) -> tuple[float, float]:
    if np.shape(value) != (2,):
        raise InputError(f"{name} = {value!r}: wanted are two numbers, one for each axis of the map")
    return number(name, value[0]), number(name, value[1])


def labels(y: Any) -> np.ndarray:
    """y as an array (n,) of whole numbers or texts; gaps may be among them."""
    # As objects: numpy would turn the list ["cat", -1] into the texts "cat" and "-1".
    y = column_or_1d(np.array(y, dtype=object) if isinstance(y, list | tuple) else y, warn=True)
    if y.dtype.kind == "f":
        gaps = np.isnan(y)  # as pandas has them, which makes decimals of whole numbers
        y = np.where(gaps, -1, y)
        y = y.astype(np.int64) if gaps.any() and (y == np.round(y)).all() and (np.abs(y) < 2**53).all() else y
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    return y


def places(given: Any, classes: np.ndarray, n: int | None = None) -> tuple[attributes.Axis, list[int]]:
    """Labels as places among the classes, or among the values of an attribute: any number, or one for each of n."""
    given, names = np.array(given, dtype=object).ravel().tolist(), list(map(str, classes.tolist()))
    axis, place = attributes.own(names), {label: i for i, label in enumerate(classes.tolist())}
    if not set(given) <= place.keys() and (other := attributes.shared(names, given)):
        axis, place = other, {value: i for i, value in enumerate(other.values)}
    unknown = [_quoted(label) for label in given if label not in place]
    if unknown or not given:
        raise InputError(f"class {', '.join(unknown) or 'none'}: allowed are {', '.join(map(_quoted, place))}")
    if n is not None and len(given) not in (1, n):
        raise InputError(f"{len(given)} classes for {n} samples: wanted is one class, or one for each sample")
    return axis, [place[label] for label in given]


def one_class(given: Any, classes: np.ndarray) -> int:
    """The place of one class; values of attributes are none."""
    axis, (place,) = places(given, classes, 1)
    if len(axis.values) < len(classes):
        raise InputError(f"class {_quoted(given)}: allowed are {', '.join(map(_quoted, classes.tolist()))}")
    return place


def _quoted(label: Any) -> str:
    """'3' and 3 are two classes to Python."""
    return repr(label) if isinstance(label, str) else str(label)


def seed(random_state: Any) -> int:
    """An integer is the seed itself, so that a run can be repeated from the command line."""
    if isinstance(random_state, int | np.integer):
        low, high = RANGES["seed"]
        if not low <= random_state <= high:
            raise InputError(f"random_state = {random_state}: allowed is {low} to {high}")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
