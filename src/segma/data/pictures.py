"""Pictures from files: decoded by Pillow, many at once, as uint8 arrays."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from segma.data.arrays import Progress
from segma.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # the modes of files without colour
Form = tuple[int, int, int]  # h, w, channels
Sized = tuple[int, tuple[int, int]] | None  # the place of a picture among many, and its h and w


def picture(path: Path, image_size: int | None = None) -> np.ndarray:
    """uint8, (h, w) where the file is grey and (h, w, 3) where it has colour, turned as its EXIF says, on white where
    it is transparent; with image_size the centre square, resized to that side."""
    return decode(path, partial(_standard, image_size=image_size))


def form(path: Path, image_size: int | None = None) -> Form | None:
    """What `picture` would give, by the file's header alone (h and w may be swapped); None where that is broken."""
    try:
        with _opened(path) as image:
            h, w = (image_size, image_size) if image_size else (image.height, image.width)
            return h, w, 1 if image.mode in GREY else 3
    except Exception:  # `picture` says what is wrong with it
        return None


def decode(path: Path, prepare: Callable[["Image"], "Image"]) -> np.ndarray:
    """The prepared picture as an array; whatever is wrong with the file is an InputError that names it."""
    try:
        with _opened(path) as image:
            return np.array(prepare(image))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a folder, wanted is a picture") from None
    except Exception as error:  # a broken file makes Pillow raise nearly anything
        reason = "not a picture" if type(error).__name__ == "UnidentifiedImageError" else " ".join(str(error).split())
        raise InputError(f"{path}: {reason or type(error).__name__}") from error


@contextmanager
def _opened(path: Path) -> Generator["Image"]:
    from PIL import Image

    with Image.open(path) as image:
        limit = Image.MAX_IMAGE_PIXELS  # beyond it Pillow only warns, up to twice as much
        if limit and image.width * image.height > limit:
            raise ValueError(f"{image.width} x {image.height} pixels, more than {limit}")
        yield image


class Broken(NamedTuple):
    """Why a picture could not be read; `may_pass` where it was not for its content: no permission, no memory."""

    reason: str
    may_pass: bool


def attempt(name: str, root: Path, image_size: int | None) -> np.ndarray | Broken:
    path = root / name
    try:
        return picture(path, image_size)
    except InputError as error:
        cause = error.__cause__
        may_pass = isinstance(cause, MemoryError) or getattr(cause, "errno", None) is not None
        return Broken(str(error).removeprefix(f"{path}: "), may_pass)


@contextmanager
def in_order(
    read: Callable[[Any], Any], names: Sequence, progress: Progress | None, text: str
) -> Generator[Iterable, None, None]:
    """read(name) of each name in order, by threads (Pillow decodes outside Python's lock), few at a time in memory.

    A context, so that the threads end with the caller's work also when that fails: were they to end with a forgotten
    generator, the garbage collector would wait for them, wherever it happens to run.
    """
    workers = min(16, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        results = _ahead(pool, read, iter(names), 4 * workers)
        try:
            yield progress(results, len(names), text) if progress else results
        finally:
            pool.shutdown(cancel_futures=True)


def _ahead(pool: ThreadPoolExecutor, read: Callable[[Any], Any], names: Iterator, n: int) -> Iterator:
    """Results in order, while the next n are worked on."""
    ahead = deque(pool.submit(read, name) for name in islice(names, n))
    while ahead:
        yield ahead.popleft().result()
        ahead.extend(pool.submit(read, name) for name in islice(names, 1))


def of_one_size(
    results: Iterable[np.ndarray | Broken], root: Path, names: Sequence[str], start: int = 0, first: Sized = None
) -> Iterator[tuple[int, np.ndarray | Broken]]:
    """Each result with its place in names, from `start` on; a picture of another size than the first is an error."""
    for place, result in enumerate(results, start):
        if isinstance(result, np.ndarray):
            h, w = result.shape[:2]
            first = first or (place, (h, w))
            if first[1] != (h, w):
                one, two = (f"{root / names[i]} is {w} x {h}" for i, (h, w) in (first, (place, (h, w))))
                raise InputError(f"{one} but {two} pixels, allowed: one size; or resize with `--set image_size=64`")
        yield place, result


def _standard(image: "Image", image_size: int | None) -> "Image":
    from PIL import Image, ImageOps

    mode = "L" if image.mode in GREY else "RGB"
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ValueError("32-bit float pixels, allowed: 8 or 16 bit")
    if image.mode.startswith("I"):
        image = _eight_bit(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert(mode)
    return ImageOps.fit(image, (image_size, image_size), Image.Resampling.BILINEAR) if image_size else image


def _eight_bit(image: "Image") -> "Image":
    """16 bits to 8, by hand: what Pillow's own convert("L") does to them has changed between its versions."""
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"grey values in {values.min()}..{values.max()}, allowed: 8 or 16 bit")
    return Image.fromarray(np.round(values / 257).astype(np.uint8))
