"""Pictures: arrays of images in, PIL images out."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from segma.errors import InputError

GAP, PAPER, INK = 2, 255, (70, 70, 70)


def to_uint8(images: np.ndarray) -> np.ndarray:
    """Images in 0..1 as uint8."""
    return np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)


def grid(images: np.ndarray, names: Sequence[str] = (), side: int = 48) -> Image.Image:
    """Rows of images (rows, columns, h, w, c), uint8, each enlarged by whole pixels to about `side`, with row names."""
    rows, columns, h, w, c = images.shape
    times = max(1, round(side / max(h, w)))
    images = images.repeat(times, axis=2).repeat(times, axis=3)
    h, w = h * times, w * times
    sheet = np.full((rows * (h + GAP) + GAP, columns * (w + GAP) + GAP, c), PAPER, dtype=np.uint8)
    for i in range(rows):
        for j in range(columns):
            top, left = GAP + i * (h + GAP), GAP + j * (w + GAP)
            sheet[top : top + h, left : left + w] = images[i, j]
    picture = Image.fromarray(sheet.squeeze(-1) if c == 1 else sheet).convert("RGB")
    return _name_rows(picture, names, h + GAP) if names else picture


def _name_rows(picture: Image.Image, names: Sequence[str], height: int) -> Image.Image:
    """The same picture with a margin on the left that holds one name per row."""
    font = ImageFont.load_default(size=min(16, max(9, height // 2)))
    margin = int(max(font.getlength(name) for name in names)) + 12
    out = Image.new("RGB", (picture.width + margin, picture.height), (PAPER,) * 3)
    out.paste(picture, (margin, 0))
    pen = ImageDraw.Draw(out)
    for i, name in enumerate(names):
        pen.text((margin - 6, GAP + i * height + height // 2), name, fill=INK, font=font, anchor="rm")
    return out


def heat_map(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str], title: str, form: str
) -> Image.Image:
    """A table of numbers as colours with the numbers in them; `axes` name what goes down and what across."""
    from matplotlib.figure import Figure  # only here: importing it takes a second

    figure = Figure(figsize=(2 + 0.8 * len(columns), 1.4 + 0.5 * len(rows)), dpi=120, layout="constrained")
    plot = figure.add_subplot()
    plot.imshow(values, cmap="viridis", aspect="auto")
    low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if value < (low + high) / 2 else "black"
        plot.text(j, i, form.format(value) if np.isfinite(value) else "-", ha="center", va="center", color=ink)
    plot.set_xticks(range(len(columns)), columns)
    plot.set_yticks(range(len(rows)), rows)
    plot.set(ylabel=axes[0], xlabel=axes[1], title=title)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Image.open(file)


def check_name(path: Path, allowed: Sequence[str] = (".png", ".gif")) -> None:
    """The name must have an ending that can be written, and nothing may be there."""
    if path.suffix.lower() not in allowed:
        raise InputError(f"--out {path}: the name must end in {' or '.join(allowed)}")
    if path.exists():
        raise InputError(f"--out {path} exists; nothing is overwritten, choose another name")


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
