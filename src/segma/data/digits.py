"""The 1,797 handwritten digits, 8 x 8, that come with scikit-learn: the data that needs no download."""

from pathlib import Path

import numpy as np

from segma.data.arrays import Data
from segma.data.labels import shares


def load(data_dir: Path | None = None) -> Data:  # data_dir: as the others, though it needs none
    """Values 0..16 become 0..255. Fixed split: 500 test images, each digit in proportion (largest remainders), the
    first of a permutation of that digit's rows, digits in order, by numpy's RandomState(0); the rest train."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    y = bunch.target.astype(np.int64)
    rng = np.random.RandomState(0)  # numpy froze its stream for good (NEP 19); default_rng's may change
    rows = [rng.permutation(np.flatnonzero(y == c))[:m] for c, m in enumerate(shares(np.bincount(y), 500))]
    test = np.zeros(len(y), dtype=bool)
    test[np.concatenate(rows)] = True
    return Data("digits", x[~test], y[~test], x[test], y[test], tuple("0123456789"))
