"""A folder of pictures as data: a sub-folder per class, or a labels.csv."""

import csv
import warnings
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from segma.data.arrays import Data, Progress, images_or_table
from segma.data.labels import encode_labels
from segma.data.pictures import in_order, picture
from segma.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
UNLABELLED = ("unlabeled", "unlabelled")
Listing = list[tuple[Path, str]]  # files with their labels, "" = unlabelled


def load(
    path: Path, image_size: int | None = None, skip_broken: bool = False, progress: Progress | None = None
) -> Data:
    """Pictures in a sub-folder per class, those of no known class in `unlabeled/`; or a `labels.csv`, columns file and
    label, where a picture with an empty label or not listed is unlabelled. Where there is a `train/`, it and `test/`
    are each such a folder. Hidden files and files that are no pictures by their suffix are passed over.

    Files are in the order of their names, classes too (by value where all are integers). Pictures come out grey if all
    of them are, else RGB. image_size resizes the shortest side to it and cuts out the centre square; without it all
    must be of one size.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder")
    if image_size is not None and (not isinstance(image_size, int) or image_size < 1):
        raise InputError(f"image_size {image_size!r}, allowed: a positive integer")
    train, test = _splits(root)
    if not train:
        raise InputError(f"{root}: no pictures ({', '.join(SUFFIXES)})")
    names = {label for _, label in train if label}
    classes = sorted(names, key=lambda name: (int(name), name)) if all(map(_is_integer, names)) else sorted(names)
    if "-1" in names:
        raise InputError(f"{root}: a class named -1; unlabelled pictures go into unlabeled/, or get an empty label")
    listing = train + test
    y, names = encode_labels([label for _, label in listing], classes, f"{root}: labels")

    x, kept = _read_all(root, [file for file, _ in listing], image_size, skip_broken, progress)
    y, is_train = y[kept], (np.arange(len(listing)) < len(train))[kept]
    for c, name in enumerate(names):
        if not (y[is_train] == c).any():
            raise InputError(f"{root}: no picture of class {name!r} could be read")
    x_train = images_or_table(x[: is_train.sum()], str(root))  # slices, not masks: no copy
    return Data(root.resolve().name, x_train, y[is_train], x[is_train.sum() :], y[~is_train], names)


def _is_integer(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit()


def _splits(root: Path) -> tuple[Listing, Listing]:
    train, test = root / "train", root / "test"
    if not train.is_dir():
        if test.is_dir():
            raise InputError(f"{root}: test/ without train/, allowed: both, only train/, or neither")
        return _listing(root), []
    listing = _listing(train) + [(file, "") for name in UNLABELLED for file in _pictures(root / name)]
    others = [p for p in _visible(root) if p.is_dir() or p.name == "labels.csv"]
    beside = [p.name for p in others if p.name not in ("train", "test", *UNLABELLED)]
    if beside:
        warnings.warn(f"{root}: passed over beside train/ and test/: {', '.join(beside)}", stacklevel=3)
    return listing, _listing(test) if test.is_dir() else []


def _visible(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith(".")) if folder.is_dir() else []


def _pictures(folder: Path) -> list[Path]:
    """All pictures in and below the folder, in the order of their names."""
    files = [file for p in _visible(folder) for file in (_pictures(p) if p.is_dir() else [p])]
    return [file for file in files if file.suffix.lower() in SUFFIXES]


def _listing(folder: Path) -> Listing:
    if (folder / "labels.csv").is_file():
        return _from_csv(folder)
    listing: Listing = []
    for p in _visible(folder):
        files = _pictures(p)
        if p.is_dir() and not files and p.name not in UNLABELLED:
            raise InputError(f"{p}: no pictures in this class folder ({', '.join(SUFFIXES)})")
        if p.suffix.lower() in SUFFIXES and not p.is_dir():
            raise InputError(
                f"{p}: outside the class folders, allowed: a folder per class, unlabeled/, or a labels.csv"
            )
        listing += [(file, "" if p.name in UNLABELLED else p.name) for file in files]
    return listing


def _from_csv(folder: Path) -> Listing:
    path, labels = folder / "labels.csv", {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets write a byte-order mark
            reader = csv.DictReader(file, skipinitialspace=True)
            if not {"file", "label"} <= set(reader.fieldnames or ()):
                raise InputError(f"{path}: columns {', '.join(reader.fieldnames or ())}, allowed: file,label")
            for row in reader:
                name, label = row["file"], row["label"]
                if not name or label is None:
                    raise InputError(f"{path}: line {reader.line_num} is not a file and a label")
                picture_path = folder / PurePosixPath(name)
                if ".." in picture_path.parts or not picture_path.is_relative_to(folder):
                    raise InputError(f"{path}: line {reader.line_num}: {name} is outside {folder}")
                if not picture_path.is_file():
                    raise InputError(f"{path}: line {reader.line_num}: no file {name} in {folder}")
                if picture_path in labels:
                    raise InputError(f"{path}: line {reader.line_num}: {name} is listed twice")
                labels[picture_path] = label.strip()
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    return [(file, labels.get(file, "")) for file in sorted({*labels, *_pictures(folder)})]


def _read_all(
    root: Path, files: list[Path], image_size: int | None, skip_broken: bool, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    """The pictures as one array, and the places in `files` of those that could be read."""
    images, kept, broken = [], [], []
    with in_order(partial(_try, image_size=image_size), files, progress, f"reading {root.name}") as results:
        for i, result in enumerate(results):
            if isinstance(result, InputError):
                broken.append(str(result))
                continue
            if images and result.shape[:2] != images[0].shape[:2]:
                pair = ((files[kept[0]], images[0]), (files[i], result))
                one, two = (f"{file} is {image.shape[1]} x {image.shape[0]}" for file, image in pair)
                raise InputError(f"{one} but {two} pixels, allowed: one size; or resize with `--set image_size=64`")
            images.append(result)
            kept.append(i)
    if broken and not skip_broken:
        first = "; ".join(broken[:5])
        raise InputError(f"{len(broken)} broken pictures: {first}; skip them with `--set skip_broken=true`")
    if broken:
        warnings.warn(f"skipped {len(broken)} broken pictures: {'; '.join(broken)}", stacklevel=4)
    if not images:
        raise InputError(f"{root}: none of its {len(files)} pictures could be read")
    channels = 1 if all(image.ndim == 2 for image in images) else 3
    x = np.empty((len(images), *images[0].shape[:2], channels), np.uint8)
    for i, image in enumerate(images):
        x[i] = image[..., None] if image.ndim == 2 else image
        images[i] = None  # let go of it: never two copies of all in memory
    return x, np.array(kept)


def _try(path: Path, image_size: int | None) -> np.ndarray | InputError:
    try:
        return picture(path, image_size)
    except InputError as error:
        return error
