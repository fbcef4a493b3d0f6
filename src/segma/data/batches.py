"""Which rows a step sees: two endless streams of row numbers that can be entered at any step."""

from collections.abc import Callable, Iterator

import numpy as np

Order = Callable[[np.random.Generator], np.ndarray]


def shuffled(n: int) -> Order:
    """Every one of n rows once, in random order."""
    return lambda rng: rng.permutation(n)


def interleaved(y: np.ndarray) -> Order:
    """Every labelled row once, so ordered that any stretch holds the classes by their shares, within one or two.

    The r-th of a class's n_c rows, in random order, is put at (r + u_c) / n_c; u_c is random.
    """
    classes = [np.flatnonzero(y == c) for c in np.unique(y[y >= 0])]

    def order(rng: np.random.Generator) -> np.ndarray:
        rows = np.concatenate([rng.permutation(rows) for rows in classes])
        place = np.concatenate([(np.arange(len(rows)) + rng.random()) / len(rows) for rows in classes])
        return rows[np.argsort(place, kind="stable")]

    return order


def stream(order: Order, size: int, seed: tuple[int, ...], start: int = 0) -> Iterator[np.ndarray]:
    """Batches of `size` rows, one pass in `order` after another, from batch number `start` on.

    Batches cross the border between passes, so all have the same size and each pass shows each row once. Pass i depends
    on (seed, i) alone: a resumed run needs no more than the number of its step.
    """
    n = len(order(np.random.default_rng((*seed, 0))))
    i, skip = divmod(start * size, n)
    rows = order(np.random.default_rng((*seed, i)))[skip:]
    while True:
        while len(rows) < size:
            i += 1
            rows = np.concatenate([rows, order(np.random.default_rng((*seed, i)))])
        yield rows[:size]
        rows = rows[size:]
