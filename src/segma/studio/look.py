"""What the page shows of a run as a whole: its map, a canvas in its colours, the class map, curves and results."""

import shlex
from functools import lru_cache
from pathlib import Path

import numpy as np

from segma import apply, files, plots, report, runs, similarity
from segma.errors import InputError
from segma.studio import session, shelf, view
from segma.studio.shelf import Opened


@lru_cache(maxsize=8)
def chart(opened: Opened) -> tuple[view.Frame, str]:
    """The map of a run: which part of the plane it shows, and the picture of it."""
    points, labels, centres, sigmas = similarity.on_plane(opened.model, opened.rows.x, opened.rows.y, view.DOTS)
    return view.frame(points, centres, sigmas), view.latent_map(points, labels, centres, sigmas, opened.run.classes)


def paper(opened: Opened) -> str:
    """A canvas in the colours of the run's pictures: light ink on dark, or the other way round."""
    light = session.picture(opened, opened.model.mixture.means).mean() > 127
    ink, ground = ("black", "white") if light else ("white", "black")
    pen = max(28, round(1.3 * 280 / opened.run.shape[1]))  # more than a pixel of the model's
    return (
        f'<canvas width="280" height="280" data-ink="{ink}" data-paper="{ground}" data-pen="{pen}" '
        f'style="background:{ground}" '
        'role="img" aria-label="draw here with the mouse or a finger"></canvas>'
        '<p class="note">Draw with the mouse or a finger; it opens when you let go. <button>Clear</button></p>'
    )


def overview(path: Path) -> tuple[str, str, str]:
    """The class map, the training curves and the results that a run has now; where something is missing, why."""
    weights, log = shelf.written(path / "model.safetensors"), shelf.written(path / "log.jsonl")
    return *pictures(path, weights, log), results(path)


@lru_cache(maxsize=8)
def pictures(path: Path, weights: int, log: int) -> tuple[str, str]:
    """The class map and the training curves, drawn once while the files, written then, stay."""
    run = runs.read(path)
    close = "one class: nothing to compare" if len(run.classes) < 2 else ""
    if not close:
        close = view.plot(
            plots.similarity(np.array(similarity.measure(run)["distances"]), run.classes), "distances of the classes"
        )
    try:
        curves = view.plot(plots.training_curves(apply.training_log(run)), "training curves")
    except InputError as problem:
        curves = view.escape(problem)
    return close, curves


def results(path: Path) -> str:
    try:
        with files.as_written(path / "results.json"):
            return report.as_text(files.read_json(path / "results.json"))
    except InputError:
        return f"not measured yet: segma evaluate {shlex.quote(runs.read(path).called)}"
