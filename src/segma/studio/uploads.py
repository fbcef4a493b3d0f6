"""Pictures that people hand in: size first, then decoded as the command line does, and every mistake a message."""

import warnings
from pathlib import Path

from PIL import Image

from segma import apply, inputs
from segma.errors import InputError
from segma.studio import export
from segma.studio.session import Given, begin
from segma.studio.shelf import Opened

LARGEST = 20 * 2**20  # bytes of a file
PIXELS = 64_000_000  # of a picture: more than any telephone's, and decoded some 200 MB
FLAT = "of one colour only, as the model sees it: there is nothing in it to recognise"
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # what people have; Pillow's rarer decoders stay closed


def read(opened: Opened, file: Path, name: str | None = None) -> Given:
    """A file as the open picture; what is wrong with it is an InputError that calls it by the name it came with."""
    name = clean(name or file.name)
    try:
        check(file)
        x, note = inputs.picture_as(file, opened.run.shape), inputs.changes(file, opened.run.shape)
    except InputError as problem:
        raise InputError(str(problem).replace(str(file), name)) from problem
    flat = (x == x[:1, :1]).all()
    doubt = FLAT if flat else apply.NEGATIVE if apply.is_negative(opened.model, x) else ""
    note = "; ".join(filter(None, [note, doubt]))
    return begin(opened, x, export.name_for(name), f"{name}: {note}")._replace(doubt=doubt)


def check(file: Path) -> None:
    """What the first bytes tell, before anything is decoded."""
    size = file.stat().st_size
    if size > LARGEST:
        raise InputError(f"{file}: {size / 2**20:.0f} MB, allowed are {LARGEST / 2**20:.0f} MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit says it better, below
            with Image.open(file, formats=FORMATS) as image:
                w, h = image.size
    except Exception as problem:  # a broken file makes Pillow raise nearly anything
        bomb = isinstance(problem, Image.DecompressionBombError)
        reason = f"too many pixels, allowed are {PIXELS:,}" if bomb else f"not a picture ({', '.join(FORMATS)})"
        raise InputError(f"{file}: {reason}") from problem
    if w * h > PIXELS:
        raise InputError(f"{file}: {w:,} x {h:,} pixels, allowed are {PIXELS:,} in all")


def clean(name: str) -> str:
    """The last part of a name, without what could not be shown or typed."""
    kept = "".join(letter for letter in Path(name.replace("\\", "/")).name if letter.isprintable())
    return kept[-80:] or "picture"
