"""Pictures of samples: arrays of images in, PIL images out. Plots of numbers are in plots.py."""

import importlib.util
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from segma.errors import InputError

GAP, INK = 2, (70, 70, 70)
PAPER, MARK = (255, 255, 255), (235, 125, 30)  # MARK frames what was given, as opposed to what the model made
HEAD, APART = 18, 6  # pixels: the room for column heads, and between what was given and what was made


def to_uint8(images: np.ndarray) -> np.ndarray:
    """Images in 0..1 as uint8."""
    return np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """That of the plots, which comes with matplotlib: it has far more letters than Pillow's own (but not Chinese)."""
    library = importlib.util.find_spec("matplotlib")  # found, not imported: that would take a while
    assert library is not None
    assert library.origin is not None
    return ImageFont.truetype(Path(library.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf", size)


def as_image(x: np.ndarray) -> Image.Image:
    """(h, w, c) uint8, grey or RGB."""
    return Image.fromarray(x[..., 0] if x.shape[2] == 1 else x)


def enlarged(h: int, w: int, side: int) -> int:
    """By how many whole pixels to make one of an image for it to be about `side` large."""
    return max(1, round(side / max(h, w)))


def short(name: str, most: int = 28) -> str:
    """A name of one line and not too many letters, as a picture has room for."""
    name = " ".join(name.split())
    return name if len(name) <= most else name[: most - 1] + "…"


def grid(
    images: np.ndarray, names: Sequence[str] = (), side: int = 48, paper: tuple[int, int, int] = PAPER
) -> Image.Image:
    """Rows of images (rows, columns, h, w, c), uint8, each enlarged by whole pixels to about `side`, with row names."""
    rows, columns, h, w, _ = images.shape
    times = enlarged(h, w, side)
    images = np.broadcast_to(images, (rows, columns, h, w, 3)).repeat(times, axis=2).repeat(times, axis=3)
    h, w = h * times, w * times
    picture = Image.new("RGB", (columns * (w + GAP) + GAP, rows * (h + GAP) + GAP), paper)
    for i in range(rows):
        for j in range(columns):
            picture.paste(Image.fromarray(images[i, j]), (GAP + j * (w + GAP), GAP + i * (h + GAP)))
    return _name_rows(picture, names, h + GAP) if names else picture


def _name_rows(picture: Image.Image, names: Sequence[str], height: int) -> Image.Image:
    """The same picture with a margin on the left that holds one name per row."""
    letters, names = font(min(16, max(9, height // 2))), [short(name, 40) for name in names]
    margin = int(max(letters.getlength(name) for name in names)) + 12
    out = Image.new("RGB", (picture.width + margin, picture.height), PAPER)
    out.paste(picture, (margin, 0))
    pen = ImageDraw.Draw(out)
    for i, name in enumerate(names):
        pen.text((margin - 6, GAP + i * height + height // 2), name, fill=INK, font=letters, anchor="rm")
    return out


def sheet(
    given: Sequence[np.ndarray], made: np.ndarray, heads: Sequence[str], names: Sequence[str] = (), side: int = 48
) -> Image.Image:
    """A row per sample: what was given, framed, and what the model made of it (rows, columns, h, w, c), all uint8.

    `given` are columns (rows, h, w, c), none to two: the samples of an edit, or the two ends of an interpolation, which
    stand before and after what was made. `heads` stand above the columns, one for each of either kind.
    """
    columns = [(column[:, None], MARK) for column in given]
    columns.insert(len(columns[:1]), (made, PAPER))
    blocks = [grid(images, () if i else names, side, paper) for i, (images, paper) in enumerate(columns)]
    width = sum(block.width for block in blocks) + APART * (len(blocks) - 1)
    out = Image.new("RGB", (width, HEAD + blocks[0].height), PAPER)
    right, middles, pitch = -APART, [], made.shape[3] * enlarged(*made.shape[2:4], side) + GAP
    for block, (images, _) in zip(blocks, columns, strict=True):
        out.paste(block, (right + APART, HEAD))
        right += APART + block.width
        n = images.shape[1]
        middles += [right - GAP / 2 - (n - j - 0.5) * pitch for j in range(n)]
    return _head(out, heads, middles, pitch)


def _head(picture: Image.Image, heads: Sequence[str], middles: Sequence[float], pitch: int) -> Image.Image:
    """Column heads written into the room above, smaller where columns are narrow, and none over its neighbour."""
    letters, pen, free_from = font(min(12, max(8, pitch // 4))), ImageDraw.Draw(picture), 0.0
    for text, middle in zip(heads, middles, strict=True):
        half = letters.getlength(text) / 2
        middle = min(max(middle, half + 1), picture.width - half - 1)
        if middle - half >= free_from:
            pen.text((middle, HEAD - 3), text, fill=INK, font=letters, anchor="ms")
            free_from = middle + half + 4
    return picture


def frames(made: np.ndarray, heads: Sequence[str], side: int = 128) -> list[Image.Image]:
    """The columns of (rows, columns, h, w, c) one after another, the rows beside each other, there and back."""
    shown = []
    for i, text in enumerate(heads):
        picture = grid(made[None, :, i], side=side)
        frame = Image.new("RGB", (picture.width, HEAD + picture.height), PAPER)
        frame.paste(picture, (0, HEAD))
        shown.append(_head(frame, [text], [picture.width / 2], pitch=48))
    return shown + shown[-2:0:-1]


def check_name(path: Path, allowed: Sequence[str] = (".png", ".gif"), option: str = "--out") -> None:
    """The name must have an ending that can be written, and nothing may be there."""
    if path.suffix.lower() not in allowed:
        raise InputError(f"{option} {path}: the name must end in {' or '.join(allowed)}")
    if path.exists():
        raise InputError(f"{option} {path} exists; nothing is overwritten, choose another name")


def png(picture: Image.Image) -> bytes:
    """The content of a .png file."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def gif(frames: Sequence[Image.Image], milliseconds: int = 200) -> bytes:
    """The content of a .gif file that runs for ever."""
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return file.getvalue()


def still(picture: Image.Image, out: Path) -> bytes:
    """The content of a .gif or .png file, whichever the name says, of one picture."""
    return gif([picture]) if out.suffix.lower() == ".gif" else png(picture)
