"""Plots of numbers, by matplotlib, which is imported only when one is drawn: that takes a second."""

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from segma.draw import short
from segma.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TERMS = {  # what log.jsonl has, and how it is called
    "reconstruction": "reconstruction error",
    "log_distance": "log d²",
    "cross_entropy": "cross-entropy",
    "consistency": "consistency",
    "loss": "objective",
    "error": "error",
}
ALIKE = 0.5  # distances of classes that differ by less are not spread over all colours, nor over all of the tree's axis
UNDRAWN = ("step", "epoch", "gradient", "samples_per_second")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def _image(figure: "Figure") -> Image.Image:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Image.open(file).convert("RGB")


def heat_map(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str], title: str, form: str
) -> Image.Image:
    """A table of numbers as colours with the numbers in them; `axes` name what goes down and what across."""
    figure = _figure(2 + 0.8 * len(columns), 1.4 + 0.5 * len(rows))
    plot = figure.add_subplot()
    _cells(plot, values, _decimals(form, values), least=0.01)
    plot.set_xticks(range(len(columns)), columns)
    plot.set_yticks(range(len(rows)), rows)
    plot.set(ylabel=axes[0], xlabel=axes[1], title=title)
    return _image(figure)


def _decimals(form: str, values: np.ndarray) -> str:
    """{:.3g} with one number of decimals for all, as many as show three digits of the median; other forms as given."""
    digits, seen = re.fullmatch(r"\{:\.(\d)g\}", form), abs(values[np.isfinite(values)])
    if not digits or not seen.any():
        return form
    return f"{{:.{max(0, int(digits[1]) - 1 - math.floor(math.log10(np.median(seen[seen > 0]))))}f}}"


def _cells(plot: "Axes", values: np.ndarray, form: str, least: float, missing: str = "-") -> None:
    """Numbers as colours, which reach over at least that share of the largest: what is nearly alike looks alike."""
    seen = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    middle, half = (seen.min() + seen.max()) / 2, max(np.ptp(seen), least * abs(seen).max(), 1e-9) / 2
    plot.imshow(values, cmap="viridis", aspect="auto", vmin=middle - half, vmax=middle + half)
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if value <= middle else "black"
        plot.text(j, i, form.format(value) if np.isfinite(value) else missing, ha="center", va="center", color=ink)


def similarity(distances: np.ndarray, names: Sequence[str]) -> Image.Image:
    """Distances of classes (k, k) as a tree, in which close ones join early, beside a heat map in the tree's order.

    The tree joins the two groups whose members are closest on average; its axis does not begin at 0.
    """
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    names = [short(name) for name in names]
    k, room = len(names), 0.085 * max(map(len, names))  # inches for the longest name
    side = max(2.6, min(0.42 * k, 14))
    upright = room > min(0.4, side / k)  # else they would run into each other
    figure = _figure(1.6 * side + room, side + 0.6 + (room if upright else 0.2))
    tree, cells = figure.subplots(1, 2, width_ratios=[1, 2.2])
    joined = linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    branches = dendrogram(joined, no_plot=True)
    order, low, high = branches["leaves"], joined[0, 2], joined[-1, 2]
    for y, x in zip(branches["icoord"], branches["dcoord"], strict=True):
        tree.plot(x, y, color="#444444")
    span = max(high - low, ALIKE * high, 1e-9)
    tree.set(xlim=(high + 0.05 * span, high - 1.25 * span), xlabel="joined at, distance\nof the means", yticks=[])
    tree.set_ylim(10 * k, 0)  # scipy's leaves are 10 apart; from the top down, as the rows beside them
    tree.spines[["left", "right", "top"]].set_visible(False)
    others = np.where(np.eye(k, dtype=bool), np.nan, distances)[np.ix_(order, order)]
    _cells(cells, others, "{:.1f}" if k <= 20 else "", ALIKE, missing="")
    cells.set_xticks(range(k), [names[i] for i in order], rotation=90 if upright else 0)
    cells.set_yticks(range(k), [names[i] for i in order])
    cells.set(xlabel="distance of the means")
    if k > 20:  # without numbers
        figure.colorbar(cells.images[0], ax=cells, shrink=0.5)
    cells.tick_params(length=0)
    cells.spines[:].set_visible(False)
    return _image(figure)


def colours(k: int) -> np.ndarray:
    """k colours (k, 4) that are told apart as well as k allows; none is grey, which is for what has no class."""
    import matplotlib

    if k > 20:
        return matplotlib.colormaps["turbo"](np.linspace(0, 1, k))
    some = matplotlib.colormaps["tab20"](np.r_[0:20:2, 1:20:2])  # which are ten and the same ten lighter
    some[[7, 17], :3] = [[0.1, 0.1, 0.1], [0.05, 0.35, 0.25]]  # in place of its greys
    return some[:k]


def latent_map(
    points: np.ndarray,
    labels: np.ndarray,
    centres: np.ndarray,
    sigmas: np.ndarray,
    names: Sequence[str],
    shares: Sequence[float],
) -> Image.Image:
    """Codes (n, 2) coloured by class (-1: grey), and the components as circles of one sigma with their names, which
    stand above the circles where one does not fit in.

    `shares` are those of the means' variance along the two axes.
    """
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    figure, names = _figure(6, 6.2), [short(name) for name in names]
    plot = figure.add_subplot()
    ink = colours(len(names))
    shades = np.vstack([ink, [0.7, 0.7, 0.7, 1.0]])  # the last one is what -1 takes
    plot.scatter(*points.T, s=7, c=shades[labels], alpha=0.55, linewidths=0)
    extent = np.ptp(np.vstack([points, centres - sigmas[:, None], centres + sigmas[:, None]]), axis=0).max()
    halo = [withStroke(linewidth=3, foreground="white")]
    size = 7 if len(names) > 20 else 13 if max(map(len, names)) < 4 else 10
    widths, height = 0.0018 * size * extent * np.array([len(name) for name in names]), 0.0035 * size * extent
    above = (widths > 1.8 * sigmas).any() * (sigmas + 0.6 * height)
    places = apart(centres + np.stack([0 * above, above], axis=1), widths, height)
    for name, centre, (x, y), sigma, colour in zip(names, centres, places, sigmas, ink, strict=True):
        plot.add_patch(Circle(tuple(centre), sigma, fill=False, edgecolor=colour, linewidth=1.5))
        dark = 0.75 * colour[:3]
        plot.text(x, y, name, size=size, weight="bold", color=dark, ha="center", va="center", path_effects=halo)
    plot.set_aspect("equal", adjustable="datalim")
    plot.update_datalim(np.vstack([places - height, places + height]))
    plot.autoscale_view()
    told = ["dots: samples"] * (len(points) > 0) + ["grey: not labelled"] * bool((labels < 0).any())
    plot.set_title("; ".join([*told, "circles: one sigma of each Gaussian"]), size=9, color="#555555", loc="left")
    plot.set(xlabel=f"first axis, {shares[0]:.0%} of the means' variance", ylabel=f"second axis, {shares[1]:.0%}")
    plot.spines[["right", "top"]].set_visible(False)
    return _image(figure)


def apart(centres: np.ndarray, widths: np.ndarray, height: float) -> np.ndarray:
    """Where to write names of these sizes, about their centres (k, 2), moved up and down until none covers another."""
    places, touch = centres.astype(float), (widths[:, None] + widths) / 2
    order = np.arange(len(places))
    for _ in range(100):
        across, up = np.moveaxis(places[:, None] - places, 2, 0)
        lack = np.where((abs(across) < touch) & (order[:, None] != order), np.clip(height - abs(up), 0, None), 0)
        if lack.max() < 0.01 * height:
            break
        sign = np.where(up == 0, np.sign(order[:, None] - order), np.sign(up))
        places[:, 1] += (0.5 * lack * sign).sum(axis=1)
    return places


def training_curves(log: Sequence[dict], title: str = "") -> Image.Image:
    """The terms of the objective and the error over the epochs, a panel each; `log` are the lines of a log.jsonl."""
    others = dict.fromkeys(name for line in log for name in line if name not in (*TERMS, *UNDRAWN))
    found = {name: _points(log, name) for name in (*others, *TERMS)}
    found = {name: points for name, points in found.items() if points[:, 1].any()}
    if not found:
        raise InputError("the log is empty: there is nothing to draw")
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure = _figure(2.9 * columns, 2.1 * rows + 0.4)
    plots = figure.subplots(rows, columns, squeeze=False).ravel()
    for plot, (name, points) in zip(plots, found.items(), strict=False):
        x, y = points.T
        is_error = name == "error"
        plot.plot(x, y, color="#c8501e" if is_error else "#2a6f97", linewidth=1.2, marker="." if len(x) < 30 else "")
        plot.set_title(
            TERMS.get(name, name.replace("_", " ")) + (f", {y[-1]:.2%} at last" if is_error else ""), size=10
        )
        if is_error:
            plot.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        plot.tick_params(labelsize=8)
        plot.spines[["right", "top"]].set_visible(False)
        plot.grid(axis="y", alpha=0.25)
    for plot in plots[len(found) :]:
        plot.set_visible(False)
    figure.suptitle(title, size=11)
    figure.supxlabel("epoch", size=9)
    return _image(figure)


def _points(log: Sequence[dict], name: str) -> np.ndarray:
    """(n, 2): epoch and value, of the lines that have it."""
    rows = [(line["epoch"], line[name]) for line in log if line.get(name) is not None]
    return np.array(rows, dtype=float).reshape(-1, 2)


def editing(found: dict) -> Image.Image:
    """What metrics.editing gives: the target along a transfer, as a judge and as the posterior see it; and against
    alpha, how far samples are from the data and whether the judge still sees their class."""
    rows, limit = found["intensity"]["rows"], found["intensity"]["limit"]
    alphas, along = [row["alpha"] for row in rows], found["transfer"]["along"]
    figure = _figure(11.5, 3)
    first, *panels = figure.subplots(1, 3)
    for name, label, colour in (("judged", "a judge", "#1f6feb"), ("posterior", "the posterior", "#d9822b")):
        first.plot(along["t"], along[name], marker="o", color=colour, label=label)
    first.set(xlabel="t", title="transfer: share taken for the target by", ylim=(0, 1.04))
    first.legend(frameon=False)
    first.spines[["top", "right"]].set_visible(False)
    for plot, name, title in zip(
        panels,
        ("distance", "still_its_class"),
        (
            "intensity: distance to the nearest\nreal sample, over that at alpha = 0",
            "intensity: share that\na judge gives its class",
        ),
        strict=True,
    ):
        plot.plot(alphas, [row[name] for row in rows], marker="o", color="#1f6feb")
        plot.axvline(limit, color="#c0c4c8", linestyle="--", zorder=0)
        plot.set(xlabel="alpha\n(dashed: beyond it, away from the data)", title=title)
        plot.set_ylim(0, 1.08 * max(0.1, *(row[name] for row in rows)))
        plot.spines[["top", "right"]].set_visible(False)
    return _image(figure)


def interpolation(found: dict) -> Image.Image:
    """The FID of interpolations against t, as metrics.fid gives it under `interpolation_fid_at`."""
    figure = _figure(4.4, 3)
    plot = figure.add_subplot()
    for split, colour in (("test", "#1f6feb"), ("train", "#d9822b")):
        plot.plot(found["t"], found[split], marker="o", color=colour, label=f"against {split}")
    plot.set(xlabel="t (1 - t is the same: pairs have no order)", title="FID of what lies between two test images")
    plot.set_ylim(0, 1.1 * max(*found["test"], *found["train"], 1e-9))
    plot.legend(frameon=False)
    plot.spines[["top", "right"]].set_visible(False)
    return _image(figure)


def curves(values: Sequence[str], scores: dict[str, list[float]], setting: str) -> Image.Image:
    """Scores against the values of one setting, a panel each."""
    figure = _figure(4 * max(1, len(scores)), 2.8)
    for i, (name, heights) in enumerate(scores.items()):
        plot = figure.add_subplot(1, len(scores), i + 1)
        plot.plot(list(values), list(heights), marker="o", color="#1f6feb")
        plot.set(xlabel=setting, title=name)
        plot.set_ylim(0, 1.1 * max(np.nanmax(heights), 1e-9))
        if "error" in name:
            plot.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        plot.spines[["right", "top"]].set_visible(False)
    return _image(figure)
