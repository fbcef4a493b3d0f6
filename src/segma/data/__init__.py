"""Data sets: the named ones, your own arrays, tables and folders of pictures, and hiding their labels."""

import os
from pathlib import Path

from segma.data import celeba, digits, folder, mnist, svhn, table
from segma.data.arrays import Data, Progress, from_npz
from segma.errors import InputError, near

TABLES = ".csv", ".tsv"
NAMED = {"digits": digits.load, "mnist": mnist.load, "svhn": svhn.load, "celeba": celeba.load}


def directory(given: Path | str | None = None) -> Path:
    """Where the owners' files are: as given, else $SEGMA_DATA, else ~/.cache/segma."""
    return Path(given or os.environ.get("SEGMA_DATA") or "~/.cache/segma").expanduser()


def load(
    name: Path | str,
    data_dir: Path | str | None = None,
    image_size: int | None = None,
    skip_broken: bool = False,
    progress: Progress | None = None,
) -> Data:
    """The data set of that name, or at that path: an .npz, a .csv or a folder of pictures (image_size and skip_broken
    are for a folder). A name goes before a path: `mnist` is MNIST, `./mnist` a folder.

    What is larger than arrays.LARGE is memory-mapped: an .npz that is not compressed where it lies, a folder's pictures
    once they are decoded, under data_dir/prepared.
    """
    path, where = Path(name).expanduser(), directory(data_dir)
    kind = path.suffix.lower()
    named = name if isinstance(name, str) and name in NAMED else None
    if not named and path.is_dir() and str(name):
        return folder.load(path, image_size, skip_broken, progress, where)
    if not named and not path.exists() and (kind in (".npz", *TABLES) or os.sep in str(name)):
        raise InputError(f"{name}: no such file or folder")
    for setting, value in (("image_size", image_size), ("skip_broken", skip_broken)):
        if value:
            raise InputError(f"{setting}={value} for {name}, allowed for folders of pictures only")
    if named:
        return _named(named, where, progress)
    if kind == ".npz":
        return from_npz(path)
    if kind in TABLES:
        return table.load(path)
    if path.exists() and str(name):
        raise InputError(
            f"{path}: neither an .npz, nor a .csv, nor a folder of pictures; spreadsheets are saved "
            "as .csv, arrays by np.savez as .npz"
        )
    meant = near(str(name), (*NAMED, "an .npz", "a .csv", "a folder of pictures"))
    raise InputError(f"data {str(name)!r}: no such file, folder or data set; {meant}")


def _named(name: str, where: Path, progress: Progress | None) -> Data:
    return celeba.load(where, progress) if name == "celeba" else NAMED[name](where)  # the others take a second or two
