"""Pictures from files: decoded by Pillow, many at once, as uint8 arrays."""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segma.data.arrays import Progress
from segma.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # the modes of files without colour
BLOCK = 512  # pictures in flight


def picture(path: Path, image_size: int | None = None) -> np.ndarray:
    """uint8, (h, w) where the file is grey and (h, w, 3) where it has colour, turned as its EXIF says, on white where
    it is transparent; with image_size the centre square, resized to that side."""
    return decode(path, partial(_standard, image_size=image_size))


def decode(path: Path, prepare: Callable[["Image"], "Image"]) -> np.ndarray:
    """The prepared picture as an array; whatever is wrong with the file is an InputError that names it."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            limit = Image.MAX_IMAGE_PIXELS  # beyond it Pillow only warns, up to twice as much
            if limit and image.width * image.height > limit:
                raise ValueError(f"{image.width} x {image.height} pixels, more than {limit}")
            return np.array(prepare(image))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # a broken file makes Pillow raise nearly anything
        reason = "not a picture" if type(error).__name__ == "UnidentifiedImageError" else " ".join(str(error).split())
        raise InputError(f"{path}: {reason or type(error).__name__}") from error


@contextmanager
def in_order(
    read: Callable[[Path], Any], paths: Sequence[Path], progress: Progress | None, text: str
) -> Generator[Iterable, None, None]:
    """read(path) of each path in order, by threads (Pillow decodes outside Python's lock), few at a time in memory.

    A context, so that the threads end with the caller's work also when that fails: were they to end with a forgotten
    generator, the garbage collector would wait for them, wherever it happens to run.
    """
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        blocks = (pool.map(read, paths[start : start + BLOCK]) for start in range(0, len(paths), BLOCK))
        results = chain.from_iterable(blocks)
        try:
            yield progress(results, len(paths), text) if progress else results
        finally:
            pool.shutdown(cancel_futures=True)


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
