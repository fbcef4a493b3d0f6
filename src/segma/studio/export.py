"""What a person takes away: the picture, its way, its code, and the Python and command line that make it again."""

import json
import shlex
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

import segma
from segma import draw
from segma.estimator import KINDS
from segma.studio import session
from segma.studio.session import Edit, Given
from segma.studio.shelf import Opened

STEPS = 11  # of the way that a GIF shows
SAMPLES = 16  # in a grid
WRITTEN = "picture", "picture-large", "interpolation", "transfer", "intensify", "between"  # .png, by the programs here
LISTED = "download it from the list above"
File = tuple[bytes, str, str]  # content, media type, what it is
SEVERAL = "# no command does several edits at once, or moves on the map: the Python above does"


def files(opened: Opened, given: Given, edit: Edit) -> dict[str, File]:
    """By name; the picture twice: as the model makes it, and enlarged without blur."""
    z = session.code(opened, given, edit)
    now = session.picture(opened, z)[0]
    h, w, _ = now.shape
    path = session.way(opened, torch.from_numpy(given.z), z, STEPS)
    heads = [f"{share:.0%}" for share in np.linspace(0, 1, STEPS)]
    found = {
        "picture.png": (draw.png(draw.as_image(now)), "image/png", f"the picture, {w} x {h} as the model makes it"),
        "picture-large.png": (draw.png(large(now)), "image/png", "the same, each pixel enlarged"),
        "path.gif": (draw.gif(draw.frames(path[None], heads), 150), "image/gif", "from the picture given to this one"),
        "code.json": (code(opened, given, edit), "application/json", "its code, the edits, the posterior"),
    }
    return found | as_given(given, "what was given")


def as_given(given: Given, what: str) -> dict[str, File]:
    """The picture itself, so that what names it finds it; a row of the test split is found without."""
    if given.word.startswith("test:"):
        return {}
    return {given.word: (draw.png(draw.as_image(given.x)), "image/png", f"{what}, as the model sees it")}


def name_for(file: str) -> str:
    """What programs call an upload, and the page offers it as: not always as it was, for Gradio drops letters of names.
    None is called like a file that the programs write."""
    stem = Path(file).stem
    return f"{stem}-given.png" if stem in WRITTEN else f"{stem}.png"


def large(x: np.ndarray, side: int = 512):
    times = draw.enlarged(*x.shape[:2], side)
    return draw.as_image(x.repeat(times, axis=0).repeat(times, axis=1))


def code(opened: Opened, given: Given, edit: Edit) -> bytes:
    """As JSON; `model.inverse_transform([code])` decodes it."""
    z = session.code(opened, given, edit)
    towards, intensity = session.words(opened, given, edit)
    content = {
        "run": opened.run.called,
        "picture": given.word,
        "code": z[0].tolist(),
        "code_given": given.z[0].tolist(),
        "edit": {"towards": towards, "intensity": intensity, "style": edit.style, "shift": list(edit.shift)},
        "posterior": dict(zip(opened.run.classes, session.posterior(opened, z), strict=True)),
        "segma": segma.__version__,
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def labels(opened: Opened, amounts: dict[str, float]) -> str:
    """A dict as Python's user writes it: classes that are numbers as numbers."""
    kind = KINDS.get(opened.run.data["labels"], str)
    named = {(kind(name) if name in opened.run.classes else name): amount for name, amount in amounts.items()}
    return repr(named)


def start(opened: Opened) -> list[str]:
    path = opened.run.called
    return [
        "from pathlib import Path",
        "",
        "from PIL import Image",
        "from segma import SeGMA, apply, draw, inputs, runs",
        "",
        f"run = runs.read(Path({path!r}))",
        'model = SeGMA.load(run.path, device="cpu")',
    ]


def picture_line(given: Given, name: str) -> str:
    """How Python comes by a picture, (1, h, w, c) uint8."""
    if given.drawn:
        label, seed, place, spread = given.drawn
        return f"{name} = apply.class_samples(model.model_, {SAMPLES}, {seed}, [{label}], {spread!r})[0, [{place}]]"
    line = f"{name} = draw.to_uint8(inputs.read(inputs.Source(run), [{given.word!r}]).x)"
    return line if given.word.startswith("test:") else f"{line}  # {LISTED}"


def python(opened: Opened, given: Given, edit: Edit) -> str:
    """A program that writes picture.png again."""
    towards, intensity = session.words(opened, given, edit)
    parts = {
        "towards": labels(opened, towards) if towards else "",
        "intensity": labels(opened, intensity) if intensity else "",
        "style": repr(edit.style) if edit.style != 1 else "",
        "shift": repr(edit.shift) if edit.shift != (0, 0) else "",
    }
    words = "".join(f", {name}={value}" for name, value in parts.items() if value)
    lines = [
        *start(opened),
        picture_line(given, "x"),
        f"made = model.edit(x{words})[0]",
        'Image.fromarray(made.squeeze()).save("picture.png")',
    ]
    return "\n".join(lines) + "\n"


def command(opened: Opened, given: Given, edit: Edit) -> str:
    """The command line for it, where one can say it; which part of what it writes is the picture; where a file is that
    it names."""
    towards, intensity = session.words(opened, given, edit)
    plain = edit.style == 1 and edit.shift == (0, 0)
    words = ["segma", "transfer", opened.run.called, given.word]
    if not (towards or intensity) and plain:
        return "# nothing is edited yet: the first column of any transfer is the picture shown"
    if not plain or len(towards) + len(intensity) > 1:
        return SEVERAL
    (name, amount), *_ = [*towards.items(), *intensity.items()]
    if towards and 0 < amount <= 1:
        share = Fraction(amount).limit_denominator(100)
        words += ["--to", name, "--steps", str(share.denominator + 1), "--out", "transfer.png"]
        return "\n".join([shlex.join(words), f"# the picture is the column t = {amount:.3g}", *listed(given)])
    words[1] = "intensify"
    about = (
        ["--away-from", name, "--alpha", f"{-amount:g}"] if towards else ["--source", name, "--alpha", f"{amount:g}"]
    )
    line = shlex.join([*words, *about, "--out", "intensify.png"])
    return "\n".join([line, "# the picture is the last column", *listed(given)])


def listed(*given: Given) -> list[str]:
    """Where the files of pictures are that a command names; a row of the test split needs none."""
    return [f"# {word}: {LISTED}" for word in dict.fromkeys(one.word for one in given) if not word.startswith("test:")]


def way_python(opened: Opened, a: Given, b: Given, steps: int, path: str) -> str:
    lines = [
        *start(opened),
        picture_line(a, "a"),
        picture_line(b, "b"),
        f"made = model.interpolate(a[0], b[0], steps={steps}, path={path!r})",
        'draw.grid(made[None]).save("interpolation.png")',
    ]
    return "\n".join(lines) + "\n"


def way_command(opened: Opened, a: Given, b: Given, steps: int, path: str) -> str:
    words = ["segma", "interpolate", opened.run.called, a.word, b.word]
    line = shlex.join([*words, "--steps", str(steps), "--path", path, "--out", "between.png"])
    return "\n".join([line, *listed(a, b)])


def samples_command(opened: Opened, label: int, seed: int, spread: float) -> str:
    words = ["segma", "sample", opened.run.called, "--label", opened.run.classes[label], "-n", str(SAMPLES)]
    return shlex.join([*words, "--seed", str(seed), "--spread", f"{spread:g}", "--out", "samples.png"])
