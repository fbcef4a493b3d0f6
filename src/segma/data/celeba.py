"""CelebA, aligned faces cut to 64 x 64, in the four classes of the paper: male or not, smiling or not."""

import hashlib
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from segma.data.arrays import Data, Progress, read_npz
from segma.data.pictures import decode, in_order
from segma.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

CLASSES = ("not male, not smiling", "not male, smiling", "male, not smiling", "male, smiling")  # 2 * Male + Smiling
CROP, SIZE = 140, 64
FILES = ("img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt")


def load(data_dir: Path, progress: Progress | None = None) -> Data:
    """DATA_DIR/celeba/ holds either `celeba-64.npz` (taken first) or the owners' pictures and two lists.

    The owners' pictures are decoded once, into memory-mapped files in `celeba-64-cache/`, which may be removed at any
    time. Of the official partition train (0) trains and test (2) tests; valid (1) is left out.
    """
    folder = Path(data_dir) / "celeba"
    if (folder / "celeba-64.npz").is_file():
        return _from_npz(folder / "celeba-64.npz")
    missing = [name for name in FILES[1:] if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder}: no {', '.join(missing)}; put celeba-64.npz there, or {', '.join(FILES)}")
    labels, splits = _labels(folder / FILES[1]), _splits(folder / FILES[2])
    x_train, x_test = _cached(folder, splits, progress)
    y_train, y_test = (_look_up(labels, names, folder) for names in splits)
    return Data("celeba", x_train, y_train, x_test, y_test, CLASSES)


def _from_npz(path: Path) -> Data:
    keys = ("x_train", "attributes_train", "x_test", "attributes_test", "attribute_names")
    arrays = read_npz(path, keys)
    names = arrays["attribute_names"].tolist()
    if "Male" not in names or "Smiling" not in names:
        raise InputError(f"{path}: no Male and Smiling in attribute_names, which holds {', '.join(map(str, names))}")
    male, smiling = names.index("Male"), names.index("Smiling")
    for split in ("train", "test"):
        x, attributes = arrays[f"x_{split}"], arrays[f"attributes_{split}"]
        if x.dtype != np.uint8 or x.shape[1:] != (SIZE, SIZE, 3):
            raise InputError(f"{path}: x_{split} is {x.dtype} {x.shape}, expected uint8 (n, {SIZE}, {SIZE}, 3)")
        if attributes.shape != (len(x), len(names)) or not np.isin(attributes, (0, 1)).all():
            expected = f"({len(x)}, {len(names)}) of 0 and 1"
            raise InputError(f"{path}: attributes_{split} of shape {attributes.shape}, expected {expected}")
        arrays[f"y_{split}"] = 2 * attributes[:, male].astype(np.int64) + attributes[:, smiling]
    return Data("celeba", arrays["x_train"], arrays["y_train"], arrays["x_test"], arrays["y_test"], CLASSES)


def _labels(path: Path) -> dict[str, int]:
    """File name -> class. The list: a count, the attributes' names, then a file and its -1s and 1s per line."""
    count, header, *lines = [*path.read_text(errors="replace").splitlines(), "", ""]
    attributes = header.split()
    if "Male" not in attributes or "Smiling" not in attributes:
        raise InputError(f"{path}: no Male and Smiling in its second line, expected CelebA's list of attributes")
    male, smiling = attributes.index("Male") + 1, attributes.index("Smiling") + 1
    labels = {}
    for line in filter(str.strip, lines):
        fields = line.split()
        if len(fields) != len(attributes) + 1 or {fields[male], fields[smiling]} - {"-1", "1"}:
            raise InputError(f"{path}: the line of {fields[0]} is not a file name and {len(attributes)} times 1 or -1")
        labels[fields[0]] = 2 * (fields[male] == "1") + (fields[smiling] == "1")
    if count.strip() != str(len(labels)):
        raise InputError(f"{path}: announces {count.strip()} pictures but lists {len(labels)}: truncated or damaged")
    return labels


def _splits(path: Path) -> tuple[list[str], list[str]]:
    """The files' names of the train and the test part."""
    parts: dict[str, list[str]] = {"0": [], "1": [], "2": []}
    for line in path.read_text(errors="replace").splitlines():
        fields = line.split() or ["", "1"]  # an empty line adds to the part that is left out
        if len(fields) != 2 or fields[1] not in parts:
            raise InputError(f"{path}: the line {line!r} is not a file name and 0, 1 or 2")
        parts[fields[1]].append(fields[0])
    if not parts["0"] or not parts["2"]:
        raise InputError(f"{path}: {len(parts['0'])} train (0) and {len(parts['2'])} test (2) pictures, both needed")
    return parts["0"], parts["2"]


def _look_up(labels: dict[str, int], names: list[str], folder: Path) -> np.ndarray:
    unknown = [name for name in names if name not in labels]
    if unknown:
        raise InputError(f"{folder}: {unknown[0]} is in {FILES[2]} but not in {FILES[1]} ({len(unknown)} such)")
    return np.array([labels[name] for name in names], dtype=np.int64)


def _cached(folder: Path, splits: tuple[list[str], list[str]], progress: Progress | None) -> list[np.ndarray]:
    """The memory-mapped pictures of each split, decoded first where this very list has not been yet."""
    listed = hashlib.sha256("\n".join([*splits[0], "", *splits[1]]).encode()).hexdigest()
    made_from = {"crop": CROP, "size": SIZE, "filter": "bilinear", "files_sha256": listed}
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    done = folder / "celeba-64-cache" / digest[:16]  # a folder per list: nothing is ever overwritten
    paths = [done / "x_train.npy", done / "x_test.npy"]
    if not done.is_dir():
        try:
            done.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=done.parent) as scratch:
                whole = Path(scratch) / "whole"
                whole.mkdir()
                for path, names in zip(paths, splits, strict=True):
                    _decode_all(folder / FILES[0], names, whole / path.name, progress)
                (whole / "made_from.json").write_text(json.dumps(made_from, indent=2))
                whole.rename(done)
        except OSError as error:
            if not done.is_dir():  # it is when another process was quicker
                raise InputError(f"{done.parent}: cannot keep the decoded pictures there ({error})") from error
    try:
        return [np.load(path, mmap_mode="c", allow_pickle=False) for path in paths]
    except (OSError, ValueError) as error:
        raise InputError(f"{done}: damaged ({error}); remove it and it is made anew") from error


def _decode_all(pictures: Path, names: list[str], out: Path, progress: Progress | None) -> None:
    """Written in order through an ordinary file: on a full disk that is an error, in a memory map it is a crash."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(names), SIZE, SIZE, 3)}
    paths = [pictures / name for name in names]
    read = partial(decode, prepare=_cut)
    with out.open("wb") as file, in_order(read, paths, progress, f"decoding {out.stem}") as images:
        np.lib.format.write_array_header_1_0(file, header)
        for image in images:
            file.write(image.tobytes())


def _cut(image: "Image") -> "Image":
    from PIL.Image import Resampling

    left, top = (image.width - CROP) // 2, (image.height - CROP) // 2
    if left < 0 or top < 0:
        raise ValueError(f"{image.width} x {image.height} pixels, at least {CROP} x {CROP} needed")
    square = image.convert("RGB").crop((left, top, left + CROP, top + CROP))
    return square.resize((SIZE, SIZE), Resampling.BILINEAR)
