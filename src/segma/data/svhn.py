"""SVHN, the cropped 32 x 32 house-number digits, from DATA_DIR/svhn/{train,test,extra}_32x32.mat."""

from pathlib import Path

import numpy as np

from segma.data.arrays import Data
from segma.errors import InputError

# The owners' files and the md5 they are known by (torchvision checks the same ones).
ORIGINALS = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    "extra_32x32.mat": "a93ce644f1a588dc4d68dda5feec44a7",
}


def load(data_dir: Path, extra: bool | None = None) -> Data:
    """`extra` appends the 531,131 easier images to the train split; None does so where their file is present."""
    folder = Path(data_dir) / "svhn"
    x_train, y_train = _read(folder / "train_32x32.mat")
    x_test, y_test = _read(folder / "test_32x32.mat")
    more = folder / "extra_32x32.mat"
    if extra or (extra is None and more.is_file()):
        x_extra, y_extra = _read(more)
        x_train, y_train = np.concatenate([x_train, x_extra]), np.concatenate([y_train, y_extra])
    return Data("svhn", x_train, y_train, x_test, y_test, tuple("0123456789"))


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    from scipy.io import loadmat

    if not path.is_file():
        raise InputError(f"{path}: no such file; `segma data fetch svhn`, or put the owners' file there")
    try:
        content = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # scipy raises whatever its parser trips over
        raise InputError(f"{path}: not a whole MATLAB 5 file ({' '.join(str(error).split())})") from error
    x, y = content.get("X", np.empty(0)), content.get("y", np.empty(0)).ravel()
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
        raise InputError(f"{path}: X is {x.dtype} {x.shape}, expected uint8 (32, 32, 3, n)")
    if len(y) != x.shape[3]:
        raise InputError(f"{path}: {x.shape[3]} images in X but {len(y)} labels in y, expected one a label")
    if not np.isin(y, np.arange(1, 11)).all():
        raise InputError(f"{path}: labels {', '.join(map(str, np.unique(y)[:12]))}, expected 1..10 (10 is the digit 0)")
    return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y.astype(np.int64) % 10
