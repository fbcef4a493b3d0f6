"""A data set as arrays: images (n, h, w, c) or a table (n, features), with labels of which -1 means unlabelled."""

import hashlib
import json
import math
import mmap
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from segma.data.labels import as_names, encode_labels
from segma.data.values import images_or_table, note_doubtful
from segma.errors import InputError

# Wraps what a long job goes through, to show how far it is: (iterable, its length or 0, a text) -> iterable.
Progress = Callable[[Iterable, int, str], Iterable]
LARGE = 256 << 20  # bytes from which on arrays are mapped, not read
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, for which Python 3.11 has no name


@dataclass(frozen=True, eq=False)
class Data:
    """Images are uint8 in 0..255 or float32 in 0..1 with 1 or 3 channels, tables float32, labels int64 in -1..k-1.

    Arrays may be memory maps; those of an .npz begin at any byte (flags.aligned is False) until rows are copied out.
    Data without a test split have x_test and y_test of length 0.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...]
    columns: tuple[str, ...] = ()  # of a table, where they have names

    @property
    def kind(self) -> str:
        return "image" if self.x_train.ndim == 4 else "table"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.x_train.shape[1:]


def read_npz(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The named arrays of an .npz; pickled ones are refused. Large ones that are not compressed are memory maps."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            if file.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):  # else np.load takes it for a pickle
                raise InputError(f"{path}: not an .npz")
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            missing = [key for key in required if key not in archive.files]
            if missing:
                there = ", ".join(archive.files) or "nothing"
                raise InputError(f"{path}: no {', '.join(missing)}; it holds {there}")
            return {key: _member(archive, key, file) for key in (*required, *optional) if key in archive.files}
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own for a damaged file
        reason = f"not a whole .npz ({' '.join(str(error).split())})"  # numpy's are of several lines
        if "allow_pickle" in str(error):
            reason = "objects in it (pickle), which are refused"
        raise InputError(f"{path}: {reason}") from error


def _member(archive: np.lib.npyio.NpzFile, key: str, file: BinaryIO) -> np.ndarray:
    """One array of an open .npz, mapped (copy on write) where it is large and lies in the file as it is."""
    zipped = ZipFile(file)
    found = zipped.NameToInfo.get(f"{key}.npy")
    if found is None or found.compress_type != ZIP_STORED or found.file_size < LARGE:
        return archive[key]
    with zipped.open(found) as member:
        version = np.lib.format.read_magic(member)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(member)
        begin = member.tell()
        if dtype.hasobject or version > (2, 0) or begin + math.prod(shape) * dtype.itemsize != found.file_size:
            return archive[key]  # which says what is wrong with it
        while member.read(1 << 24):  # to the end, where zipfile compares the CRC
            pass
    file.seek(found.header_offset + 26)
    begin += found.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))  # a name and an extra field come before
    return mapped(file, dtype, shape, begin, "F" if is_fortran else "C")


def mapped(
    file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...], begin: int, order: Literal["C", "F"] = "C"
) -> np.memmap:
    """An array in a file from byte `begin` on; written to, it changes in memory alone. As np.memmap's mode "c", but
    for that Linux must be able to promise memory for all of it, and so it fails for the files that matter most."""
    skip = begin % mmap.ALLOCATIONGRANULARITY
    size = skip + math.prod(shape) * dtype.itemsize
    flags, allowed = mmap.MAP_PRIVATE | NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
    content = mmap.mmap(file.fileno(), size, flags, allowed, offset=begin - skip)
    x = np.ndarray.__new__(np.memmap, shape, dtype, content, skip, order=order)
    vars(x)["_mmap"] = content  # by this numpy knows that parts of it are memory maps too
    return x


def from_npz(path: Path) -> Data:
    """Data from `x_train, y_train` and, where given, `x_test, y_test` (both or neither) and `classes`, the names."""
    path = Path(path)
    arrays = read_npz(path, ("x_train", "y_train"), ("x_test", "y_test", "classes"))
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise InputError(f"{path}: only one of x_test and y_test, allowed: both or neither")
    given = arrays.get("classes")
    if given is not None and (given.ndim != 1 or given.dtype.kind not in "iuU"):
        raise InputError(f"{path}: classes of dtype {given.dtype}, shape {given.shape}, allowed: a row of names")

    x_train = images_or_table(arrays["x_train"], f"{path}: x_train")
    note_doubtful(arrays["x_train"], f"{path}: x_train")
    y_train, classes = encode_labels(arrays["y_train"], given, f"{path}: y_train")
    x_test, y_test = x_train[:0], y_train[:0]
    if np.size(arrays.get("x_test", ())) or np.size(arrays.get("y_test", ())):
        x_test = images_or_table(arrays["x_test"], f"{path}: x_test", at_least=1)
        # Without names given, integers are labels and not places: 7 in the test split is the 7 of the train split.
        y_test = arrays["y_test"] if given is not None else as_names(arrays["y_test"], f"{path}: y_test")
        y_test, _ = encode_labels(y_test, classes, f"{path}: y_test")
    for split, x, y in (("train", x_train, y_train), ("test", x_test, y_test)):
        if len(x) != len(y):
            raise InputError(f"{path}: {len(x)} rows in x_{split} but {len(y)} in y_{split}, allowed: one label a row")
    if x_test.shape[1:] != x_train.shape[1:] or x_test.dtype != x_train.dtype:
        found = f"{x_train.dtype} {x_train.shape[1:]} and {x_test.dtype} {x_test.shape[1:]}"
        raise InputError(f"{path}: samples of x_train and x_test differ: {found}, allowed: the same form")
    return Data(path.stem, x_train, y_train, x_test, y_test, classes)


def fingerprint(data: Data) -> str:
    """Digest of shapes, dtypes, classes, all labels and up to 4,096 evenly spaced samples a split; not of the name."""
    arrays = (data.x_train, data.y_train, data.x_test, data.y_test)
    form = [[list(array.shape), array.dtype.str] for array in arrays] + [list(data.classes)]
    digest = hashlib.sha256(json.dumps(form).encode())
    for y in (data.y_train, data.y_test):
        digest.update(y.tobytes())
    for x in (data.x_train, data.x_test):
        m = min(len(x), 4096)
        for row in np.arange(m) * (len(x) - 1) // max(1, m - 1):  # from the first to the last
            digest.update(x[row].tobytes())
    return digest.hexdigest()


def some_rows(total: int, n: int) -> np.ndarray:
    """n of so many rows, always the same random ones, in order; or all.

    Evenly spaced ones may be of one kind: every twelfth training image of MNIST is darker than the rest.
    """
    return np.sort(np.random.default_rng(0).permutation(total)[:n])
