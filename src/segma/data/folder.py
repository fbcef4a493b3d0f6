"""A folder of pictures as data: a sub-folder per class, or a labels.csv."""

import csv
import math
import os
import warnings
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from segma.data import arrays
from segma.data.arrays import Data, Progress, images_or_table
from segma.data.labels import encode_labels, note_gaps, of_cell
from segma.data.pictures import Broken, attempt, form, in_order, of_one_size
from segma.data.prepared import prepared
from segma.data.table import delimiter
from segma.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
UNLABELLED = ("unlabeled", "unlabelled")
HIDDEN = (".", "__MACOSX")  # the second is what some zip files leave beside their pictures
Listing = list[tuple[str, str]]  # files, by their names below the root, with their labels, "" = unlabelled


def load(
    path: Path,
    image_size: int | None = None,
    skip_broken: bool = False,
    progress: Progress | None = None,
    keep: Path | None = None,
) -> Data:
    """Pictures in a sub-folder per class, those of no known class in `unlabeled/`; or a `labels.csv`, columns file and
    label, where a picture whose label is empty or -1, or that is not listed, is unlabelled. Where there is a `train/`,
    it and `test/` are each such a folder, or a `labels.csv` beside them lists the pictures of both. These names count
    in any case, as `Unlabelled` too. Hidden files and files that are no pictures by their suffix are passed over.

    Files are in the order of their names, classes too (by value where all are integers). Pictures come out grey if all
    of them are, else RGB. image_size resizes the shortest side to it and cuts out the centre square; without it all
    must be of one size.

    Where they take more than arrays.LARGE bytes, they are decoded into a memory-mapped file below `keep`, if given.
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
    if len(names) < 2:
        found = f"pictures of one class ({names.pop()})" if names else "pictures of no class"
        raise InputError(f"{root}: {found}, at least 2 needed; a sub-folder each, or a labels.csv, tells them apart")
    if unseen := sorted({label for _, label in test if label} - names):
        raise InputError(
            f"{root}/test: {', '.join(unseen)}: no picture in train/ is of that; its classes: {', '.join(classes)}"
        )
    listing = train + test
    y, names = encode_labels([label for _, label in listing], classes, f"{root}: labels")

    x, kept = _read_all(root, [file for file, _ in listing], image_size, skip_broken, progress, keep)
    y, is_train = y[kept], (np.arange(len(listing)) < len(train))[kept]
    for c, name in enumerate(names):
        if not (y[is_train] == c).any():
            raise InputError(f"{root}: no picture of class {name!r} could be read")
    x_train = images_or_table(x[: is_train.sum()], str(root))  # slices, not masks: no copy
    return Data(root.resolve().name, x_train, y[is_train], x[is_train.sum() :], y[~is_train], names)


def _is_integer(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit()


def _splits(root: Path) -> tuple[Listing, Listing]:
    folders = [entry.name for entry in _visible(root) if _is_dir(entry)]
    train, test, unlabelled = (
        [f"{name}/" for name in folders if name.lower() in own] for own in (("train",), ("test",), UNLABELLED)
    )
    if not train:
        if test:
            raise InputError(f"{root}: test/ without train/, allowed: both, only train/, or neither")
        return _listing(root), []
    beside = [name for name in folders if f"{name}/" not in train + test + unlabelled]
    if beside:
        warnings.warn(f"{root}: passed over beside train/ and test/: {', '.join(beside)}", stacklevel=3)
    if (root / "labels.csv").is_file():
        over, apart = tuple(f"{name}/" for name in beside), tuple(test)
        listed = [pair for pair in _from_csv(root, "") if not pair[0].startswith(over)]
        split = [[pair for pair in listed if pair[0].startswith(apart) is own] for own in (False, True)]
        return split[0], split[1]
    listing = [pair for name in train for pair in _listing(root, name)]
    listing += [(file, "") for name in unlabelled for file in pictures_below(root, name)]
    return listing, [pair for name in test for pair in _listing(root, name)]


def _visible(folder: Path) -> list[os.DirEntry]:
    """What is in the folder, in the order of the names; not Paths, of which a million take their time."""
    if not folder.is_dir():
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(HIDDEN)), key=lambda entry: entry.name)
    except OSError as problem:
        raise InputError(f"{folder}: cannot be listed ({problem.strerror})") from problem


def _is_dir(entry: os.DirEntry) -> bool:
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()  # a link may lead to itself


def _is_picture(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def pictures_below(root: Path, below: str = "", above: frozenset[str] = frozenset()) -> list[str]:
    """All pictures in root/below and deeper, in the order of their names; below is "" or ends with "/"."""
    here = os.path.realpath(root / below)
    if here in above:
        raise InputError(f"{root / below}: a link to a folder that it lies in, so its pictures would count again")
    files = []
    for entry in _visible(root / below):
        if _is_dir(entry):
            files += pictures_below(root, f"{below}{entry.name}/", above | {here})
        elif _is_picture(entry.name):
            files.append(below + entry.name)
    return files


def _listing(root: Path, below: str = "") -> Listing:
    if (root / below / "labels.csv").is_file():
        return _from_csv(root, below)
    listing: Listing = []
    for entry in _visible(root / below):
        path, label = root / below / entry.name, "" if entry.name.lower() in UNLABELLED else entry.name
        if not _is_dir(entry):
            if _is_picture(entry.name):
                allowed = "a folder per class, unlabeled/, or a labels.csv"
                raise InputError(f"{path}: outside the class folders, allowed: {allowed}")
            continue
        files = pictures_below(root, f"{below}{entry.name}/")
        if label and not files:
            raise InputError(f"{path}: no pictures in this class folder ({', '.join(SUFFIXES)})")
        listing += [(file, label) for file in files]
    return listing


def _from_csv(root: Path, below: str) -> Listing:
    folder, labels, pictures = root / below, {}, set(pictures_below(root, below))
    path = folder / "labels.csv"
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets write a byte-order mark
            reader = csv.DictReader(file, delimiter=delimiter(file), skipinitialspace=True)
            if not {"file", "label"} <= set(reader.fieldnames or ()):
                raise InputError(f"{path}: columns {', '.join(reader.fieldnames or ())}, allowed: file,label")
            for row in reader:
                name, label = row["file"], row["label"]
                if not name or label is None:
                    raise InputError(f"{path}: line {reader.line_num} is not a file and a label")
                inside = PurePosixPath(name)
                if inside.is_absolute() or ".." in inside.parts:
                    raise InputError(f"{path}: line {reader.line_num}: {name} is outside {folder}")
                listed = f"{below}{inside}"
                if listed not in pictures and not (root / listed).is_file():
                    raise InputError(f"{path}: line {reader.line_num}: no file {name} in {folder}")
                if listed in labels:
                    raise InputError(f"{path}: line {reader.line_num}: {name} is listed twice")
                labels[listed] = of_cell(label.strip())
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    note_gaps(labels.values(), str(path))
    return [(file, labels.get(file, "")) for file in sorted({*labels, *pictures}, key=lambda file: file.split("/"))]


def _read_all(
    root: Path,
    files: list[str],
    image_size: int | None,
    skip_broken: bool,
    progress: Progress | None,
    keep: Path | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The pictures as one array, and the places in `files` of those that could be read."""
    one = next(filter(None, (form(root / file, image_size) for file in files)), (0, 0, 0))
    if keep is not None and len(files) * math.prod(one) > arrays.LARGE:
        x, broken = prepared(keep, root, files, image_size, one, progress)
    else:
        x, broken = _in_memory(root, files, image_size, progress)
    named = [f"{root / files[place]}: {found.reason}" for place, found in broken]
    count = f"{len(broken)} broken picture{'s' if len(broken) > 1 else ''}"
    if broken and not skip_broken:
        first = "; ".join(named[:5])
        raise InputError(f"{count}: {first}; skip them with `--set skip_broken=true`")
    if broken:
        warnings.warn(f"skipped {count}: {'; '.join(named)}", stacklevel=4)
    if not len(x):
        raise InputError(f"{root}: none of its {len(files)} pictures could be read")
    return x, np.delete(np.arange(len(files)), [place for place, _ in broken])


def _in_memory(
    root: Path, files: list[str], image_size: int | None, progress: Progress | None
) -> tuple[np.ndarray, list[tuple[int, Broken]]]:
    """All pictures that can be read, and the places of those that cannot."""
    images, broken = [], []
    read = partial(attempt, root=root, image_size=image_size)
    with in_order(read, files, progress, f"reading {root.name}") as results:
        for place, found in of_one_size(results, root, files):
            if isinstance(found, Broken):
                broken.append((place, found))
            else:
                images.append(found)
    channels = 1 if all(image.ndim == 2 for image in images) else 3
    x = np.empty((len(images), *(images[0].shape[:2] if images else (1, 1)), channels), np.uint8)
    for i, image in enumerate(images):
        x[i] = image[..., None] if image.ndim == 2 else image
        images[i] = None  # let go of it: never two copies of all in memory
    return x, broken
