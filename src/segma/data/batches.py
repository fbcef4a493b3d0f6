"""Which rows a step sees: endless streams of row numbers that can be entered at any step, and reading them ahead."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

Order = Callable[[np.random.Generator], np.ndarray]


def shuffled(n: int) -> Order:
    """Every one of n rows once, in random order."""
    return lambda rng: rng.permutation(n)


def interleaved(y: np.ndarray) -> Order:
    """Every labelled row once, so ordered that any stretch holds the classes by their shares, within one or two.

    The r-th of a class's n_c rows, in random order, is put at (r + u_c) / n_c; u_c is random. A few labels are soon
    through, and making an order takes longer than a fast step: so many orders are made at once, one after another.
    """
    rows = np.flatnonzero(y >= 0)
    rows = rows[np.argsort(y[rows], kind="stable")]
    _, kind, counts = np.unique(y[rows], return_inverse=True, return_counts=True)
    rank = np.arange(len(rows)) - (np.cumsum(counts) - counts)[kind]
    passes = max(1, 8192 // len(rows))

    def order(rng: np.random.Generator) -> np.ndarray:
        mixed = rows[np.argsort(kind + rng.random((passes, len(rows))), axis=1)]  # class by class, each in random order
        place = (rank + rng.random((passes, len(counts)))[:, kind]) / counts[kind]
        return np.take_along_axis(mixed, np.argsort(place, axis=1, kind="stable"), axis=1).flatten()

    return order


def stream(order: Order, size: int, seed: tuple[int, ...], start: int = 0) -> Iterator[np.ndarray]:
    """`size` rows at a time, one pass in `order` after another, from row number `start` on.

    They cross the border between passes, so all have the same size and each pass shows each row once. Pass i depends
    on (seed, i) alone: a resumed run needs no more than the number of its step.
    """
    n = len(order(np.random.default_rng((*seed, 0))))
    i, skip = divmod(start, n)
    parts = [order(np.random.default_rng((*seed, i)))[skip:]]
    while True:
        while sum(map(len, parts)) < size:
            i += 1
            parts.append(order(np.random.default_rng((*seed, i))))
        rows = np.concatenate(parts)
        yield rows[:size]
        parts = [rows[size:]]


def read_ahead(
    x: np.ndarray, batches: Iterator[np.ndarray], depth: int = 8, threads: int = 2
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of row numbers, each with its rows of x, which threads have read while earlier ones were in use.

    For a memory map: a batch is read in the order of the file, and `depth` batches wait at most.
    """

    def read(rows: np.ndarray) -> np.ndarray:
        order = np.argsort(rows)
        out = np.empty((len(rows), *x.shape[1:]), dtype=x.dtype)
        out[order] = x[rows[order]]
        return out

    waiting: deque = deque()
    with ThreadPoolExecutor(threads) as pool:
        for rows in batches:
            waiting.append((rows, pool.submit(read, rows)))
            if len(waiting) > depth:
                first, found = waiting.popleft()
                yield first, found.result()
        for first, found in waiting:
            yield first, found.result()
