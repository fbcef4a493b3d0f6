"""MNIST from its four IDX files, gzipped or not, in DATA_DIR/mnist/."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from segma.data.arrays import Data
from segma.errors import InputError

# The owners' files and the sha256 of their unpacked bytes (the gzip around them varies from mirror to mirror).
ORIGINALS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def load(data_dir: Path) -> Data:
    folder = Path(data_dir) / "mnist"
    x_train, y_train = _split(folder, "train")
    x_test, y_test = _split(folder, "t10k")
    if x_train.shape[1:] != x_test.shape[1:]:
        raise InputError(f"{folder}: train images of {x_train.shape[1:3]} but test images of {x_test.shape[1:3]}")
    return Data("mnist", x_train, y_train, x_test, y_test, tuple("0123456789"))


def find(folder: Path, name: str) -> Path | None:
    """The file of that name, in any of the four spellings in use; None where there is none."""
    stems = (name, name.replace("-idx", ".idx"))
    return next((p for stem in stems for p in (folder / stem, folder / f"{stem}.gz") if p.is_file()), None)


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: a truncated or damaged gzip file ({error})") from error


def _split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    x = _read_idx(folder, f"{split}-images-idx3-ubyte", 3)[..., None]
    y = _read_idx(folder, f"{split}-labels-idx1-ubyte", 1).astype(np.int64)
    if len(x) != len(y):
        raise InputError(f"{folder}: {len(x)} images but {len(y)} labels in the {split} files, allowed: one a label")
    if len(y) and y.max() > 9:
        raise InputError(f"{folder}: label {y.max()} in the {split} labels, allowed: 0..9")
    return x, y


def _read_idx(folder: Path, name: str, ndim: int) -> np.ndarray:
    """IDX: two zero bytes, the type (8 = uint8), the number of axes, each axis as a big-endian uint32, the values."""
    path = find(folder, name)
    if path is None:
        raise InputError(
            f"{folder / name}[.gz]: no such file; `segma data fetch mnist`, or put the four IDX files there"
        )
    content, magic = unpacked(path), bytes([0, 0, 8, ndim])
    if content[:4] != magic:
        raise InputError(f"{path}: starts with {content[:4].hex(' ') or 'nothing'}, expected {magic.hex(' ')} (IDX)")
    start = 4 + 4 * ndim
    shape = tuple(int(size) for size in np.frombuffer(content[4:start].ljust(4 * ndim, b"\0"), ">u4"))
    expected = start + int(np.prod(shape, dtype=object))
    if len(content) != expected or 0 in shape:
        raise InputError(f"{path}: {len(content)} bytes, but its header {shape} means {expected}: truncated or damaged")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()  # a copy is writable
