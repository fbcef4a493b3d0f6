"""Pieces of the page as HTML: pictures, bars, strips, the map. Names that come from data are escaped."""

import base64
import html
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

import numpy as np
from PIL import Image

from segma import draw, plots

DOTS = 400  # codes on the map
NAME = 14  # letters of a name on the map


def escape(text: object) -> str:
    """For HTML, and for the page's templates, in which braces, backticks and dollars mean something."""
    safe = html.escape(str(text))
    for letter in "{}$`\\":
        safe = safe.replace(letter, f"&#{ord(letter)};")
    return safe


def data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def pixels(x: np.ndarray, alt: str, classes: str = "") -> str:
    """A picture in the model's resolution; the style sheet enlarges it without blur."""
    source = data_url(draw.png(draw.as_image(x)), "image/png")
    return f'<img class="pixels {classes}" alt="{escape(alt)}" src="{source}">'


def figure(x: np.ndarray, caption: str, alt: str) -> str:
    return f"<figure>{pixels(x, alt)}<figcaption>{escape(caption)}</figcaption></figure>"


def given(x: np.ndarray, again: np.ndarray, note: str) -> str:
    """What is open, as the model sees it, and what its code decodes to."""
    pair = figure(x, "as the model sees it", "the picture that is open") + figure(
        again, "decoded from its code", "its reconstruction"
    )
    return f'<div class="pair">{pair}</div><p class="note">{escape(note)}</p>'


def stage(now: np.ndarray, before: np.ndarray) -> str:
    """The edited picture, and above it the one that was given, of which the page shows as much as is asked for."""
    h, w, _ = now.shape
    both = pixels(now, "the edited picture", "now") + pixels(before, "the picture that was given", "before")
    return f'<div class="stage" style="aspect-ratio:{w}/{h}">{both}</div>'


def bars(names: Sequence[str], posterior: Sequence[float], again: Sequence[float]) -> str:
    """The posterior of a code, a bar for each class, in the classes' order; and what the picture `again` is taken for
    where that is another class, said above them in a line that is always there: nothing jumps."""
    best = max(range(len(names)), key=lambda i: posterior[i])
    rows = "".join(
        f'<li class="{"best" if i == best else ""}"><span class="name">{escape(name)}</span>'
        f'<span class="track"><span style="width:{100 * p:.1f}%"></span></span>'
        f'<span class="share">{100 * p:.1f}&nbsp;%</span></li>'
        for i, (name, p) in enumerate(zip(names, posterior, strict=True))
    )
    seen = max(range(len(names)), key=lambda i: again[i])
    text = "" if seen == best else f"Read again from the picture: {names[seen]}, {100 * again[seen]:.0f} %"
    note = f'<p class="note again told">{escape(text)}</p>'
    return f'{note}<ul class="bars" aria-label="How likely each class is">{rows}</ul>'


def strip(images: np.ndarray, heads: Sequence[str]) -> str:
    frames = "".join(figure(x, head, head) for x, head in zip(images, heads, strict=True))
    return f'<div class="strip">{frames}</div>'


def grid(images: np.ndarray, name: str, seed: int, spread: float) -> str:
    """Samples of a class, each a button that opens it; the page keeps what they were drawn with."""
    buttons = "".join(
        f'<button class="sample" data-place="{i}" title="edit it">{pixels(x, f"sample {i + 1} of {name}")}</button>'
        for i, x in enumerate(images)
    )
    drawn = f'data-label="{escape(name)}" data-seed="{seed}" data-spread="{spread!r}"'
    return f'<div class="samples" {drawn}>{buttons}</div>'


def plot(image: Image.Image, alt: str) -> str:
    return f'<img class="plot" alt="{escape(alt)}" src="{data_url(draw.png(image), "image/png")}">'


def downloads(files: dict[str, tuple[bytes, str, str]]) -> str:
    """Links that save a file: name to (content, media type, what it is). The files are in the page itself."""
    links = "".join(
        f'<li><a download="{escape(name)}" href="{data_url(content, kind)}">{escape(name)}</a> '
        f"<span>{escape(about)}</span></li>"
        for name, (content, kind, about) in files.items()
    )
    return f'<ul class="files">{links}</ul>'


class Frame(NamedTuple):
    """The square of the plane that the map shows: its lower left corner and its side."""

    x: float
    y: float
    side: float

    def on_page(self, x: float, y: float) -> tuple[float, float]:
        """A place of the plane in per cent of the map, from its upper left."""
        return 100 * (x - self.x) / self.side, 100 * (1 - (y - self.y) / self.side)

    def on_plane(self, across: float, down: float) -> tuple[float, float]:
        """A place of the map, in shares of it, on the plane; outside it, at its edge."""
        across, down = (min(max(share, 0.0), 1.0) for share in (across, down))
        return self.x + across * self.side, self.y + (1 - down) * self.side


def frame(points: np.ndarray, centres: np.ndarray, sigmas: np.ndarray) -> Frame:
    ends = np.vstack([points, centres - 1.2 * sigmas[:, None], centres + 1.2 * sigmas[:, None]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    side = 1.06 * float((high - low).max())
    x, y = ((low + high - side) / 2).tolist()
    return Frame(x, y, side)


def latent_map(
    points: np.ndarray, labels: np.ndarray, centres: np.ndarray, sigmas: np.ndarray, names: Sequence[str]
) -> str:
    """Codes (n, 2) and the components as circles of one sigma, as SVG; -1 is a code without a label."""
    shown = frame(points, centres, sigmas)
    ink = [stroke(colour) for colour in plots.colours(len(names))] + ["#999"]
    dots = "".join(
        '<circle cx="{:.1f}" cy="{:.1f}" r=".55" fill="{}"/>'.format(*shown.on_page(*point), ink[label])
        for point, label in zip(points.tolist(), labels.tolist(), strict=True)
    )
    rings = ""
    for centre, sigma, colour in zip(centres, sigmas, ink, strict=False):
        x, y = shown.on_page(*centre)
        rings += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{100 * sigma / shown.side:.1f}" fill="none" stroke="{colour}"/>'
    rings += labels_on_map(np.array([shown.on_page(*centre) for centre in centres]), names)
    about = (
        "Map of the latent space: click a circle to go to its class; click elsewhere, drag or use the arrow keys to "
        "move the picture there"
    )
    return (
        f'<svg class="map" viewBox="0 0 100 100" tabindex="0" role="application" aria-label="{about}">'
        f'<g class="dots">{dots}</g>{rings}</svg>'
    )


def stroke(colour: np.ndarray) -> str:
    """As the page writes it; black is the text's, which is white in the dark."""
    rgb = 255 * colour[:3]
    return "rgb({:.0f} {:.0f} {:.0f})".format(*rgb) if max(rgb) > 50 else "var(--body-text-color)"


def labels_on_map(centres: np.ndarray, names: Sequence[str]) -> str:
    """Names at their circles' centres (k, 2), in per cent of the map: cut, inside it, and clear of each other."""
    short = [name if len(name) <= NAME else f"{name[: NAME - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}" for name in names]
    size = 3.6 if max(map(len, short)) > 3 or len(short) > 20 else 5
    half = 0.5 * size * np.array([width(name) for name in short])
    inside = np.stack([centres[:, 0].clip(half + 1, 99 - half), centres[:, 1].clip(size, 100 - size)], axis=1)
    places = plots.apart(inside, 2 * half, size)
    return "".join(
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"><title>{escape(name)}</title>{escape(text)}</text>'
        for (x, y), name, text in zip(places.tolist(), names, short, strict=True)
    )


def width(text: str) -> float:
    """About what a bold text takes, over its letters' size."""
    full = [letter in "MWmw@%\N{HORIZONTAL ELLIPSIS}" or east_asian_width(letter) in "WF" for letter in text]
    return sum(0.96 if is_so else 0.72 if letter.isupper() else 0.58 for letter, is_so in zip(text, full, strict=True))


def marker(shown: Frame, before: tuple[float, float], now: tuple[float, float]) -> str:
    """Where the picture was and is, to lie over the map."""
    (x, y), (u, v) = shown.on_page(*before), shown.on_page(*now)
    return (
        f'<svg class="marker" viewBox="0 0 100 100" data-x="{u / 100:.4f}" data-y="{v / 100:.4f}" aria-hidden="true">'
        f'<line x1="{x:.2f}" y1="{y:.2f}" x2="{u:.2f}" y2="{v:.2f}"/>'
        f'<circle class="was" cx="{x:.2f}" cy="{y:.2f}" r="1.6"/>'
        f'<circle class="here" cx="{u:.2f}" cy="{v:.2f}" r="2.4"/></svg>'
    )
