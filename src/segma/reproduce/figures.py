"""The paper's figures, drawn anew: samples, interpolations, style transfer, intensity, and what settings change."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from segma import apply, draw, files, latent, launch, plots, runs, sweep
from segma.baselines import AnyModel, classifies, encodes
from segma.errors import InputError, RunFailed
from segma.model import Model, decode_rows, encode_rows
from segma.reproduce import cells
from segma.reproduce.cells import Work
from segma.reproduce.paper import ROWS, TABLES, rows
from segma.reproduce.tables import Section

PARTS = ("60-80 % of the steps", "80-100 %")
STEPS, SHOWN = 9, 6  # columns of a strip, and its rows at most
GRID = {"alpha": ("1", "5", "20"), "beta": ("1", "10", "50")}
DIMENSIONS = ("2", "5", "10", "20")
TITLES = {"error": "test error", "fid": "FID"}
LABELS = ("20", "50", "100", "500")


def models(work: Work, names: Sequence[str]) -> dict[str, AnyModel]:
    """The trained models of these rows, seed 0; those that fail are left out."""
    found = {}
    for row in names:
        if cells.results(row, work, 1, fid=False):
            found[row] = runs.load_model(runs.read(cells.finished(row, work)[0]))
    return found


def samples(work: Work) -> Section:
    """New samples of every class, a picture per model."""
    _want_pictures(work)
    pictures = []
    for row, model in models(work, rows(TABLES["table1"].numbers, work.data)).items():
        made = apply.class_samples(model, 10, 0)
        config = launch.config_for(work.data, work.whole, ROWS[row].recipe, ROWS[row].settings)
        names = work.whole.classes if classifies(config) else ()
        pictures.append((ROWS[row].title, _keep(work, f"samples-{row}", draw.grid(made, names))))
    return Section(
        "Samples, a row per class", [], pictures, ["Without labels components are no classes; CWAE has a single one."]
    )


def interpolations(work: Work) -> Section:
    """From one test image to another: of the rivals, codes and one-hot labels together, as the paper did."""

    def path(model: AnyModel, z: Tensor) -> Tensor:
        start, end = z.chunk(2)
        return latent.linear(start, end, STEPS)

    return _strips(work, "Interpolations", "interpolation", ("segma", "segma-best", "adgm"), path, ends=2)


def transfer(work: Work) -> Section:
    """Every sample on its way to the class after its own; of ADGM, the label goes over and the code stays."""

    def path(model: AnyModel, z: Tensor) -> Tensor:
        k = len(model.class_weights)
        if isinstance(model, Model):
            own = latent.nearest_class(z, model.mixture)
            moved = [latent.transfer(z, own, (own + 1) % k, model.mixture, t) for t in np.linspace(0, 1, STEPS)]
        else:
            style, own = z[:, :-k], z[:, -k:]
            goal = own.roll(1, dims=1)
            moved = [torch.cat([style, torch.lerp(own, goal, float(t))], dim=1) for t in np.linspace(0, 1, STEPS)]
        return torch.stack(moved, dim=1)

    return _strips(work, "Smooth style transfer, to the next class", "transfer", ("segma", "segma-best", "adgm"), path)


def intensity(work: Work) -> Section:
    """More of what sets a sample's class apart from all others, alpha from 0 to 1."""

    def path(model: AnyModel, z: Tensor) -> Tensor:
        assert isinstance(model, Model)
        own = latent.nearest_class(z, model.mixture)
        moved = [latent.intensify(z, own, None, model.mixture, float(a)) for a in np.linspace(0, 1, STEPS)]
        return torch.stack(moved, dim=1)

    return _strips(work, "Intensity of the class", "intensity", ("segma", "segma-best"), path)


def _strips(
    work: Work, title: str, name: str, names: Sequence[str], path: Callable[[AnyModel, Tensor], Tensor], ends: int = 1
) -> Section:
    """A strip per model: the given test images, `ends` of them a row, and what lies on the path of their codes."""
    _want_pictures(work)
    there = len(work.whole.x_test)
    if there < ends:
        raise InputError(f"{work.whole.name} has too few test images ({there}), this figure takes {ends} or more")
    shown = min(SHOWN, there // ends)
    x = work.whole.x_test[np.sort(np.random.default_rng(0).permutation(there)[: ends * shown])]
    pictures = []
    for row, model in models(work, names).items():
        if not encodes(model):
            continue
        with torch.no_grad():
            codes = path(model, encode_rows(model, x))
        made = draw.to_uint8(decode_rows(model, codes.flatten(0, 1)))
        made = made.reshape(shown, STEPS, *made.shape[1:])
        given = np.split(x, ends) if work.given else []
        given = [part if part.dtype == np.uint8 else draw.to_uint8(part) for part in given]
        heads = [f"{t:.3g}" for t in np.linspace(0, 1, STEPS)]
        heads = ["given"] * len(given[:1]) + heads + ["given"] * len(given[1:])
        pictures.append((ROWS[row].title, _keep(work, f"{name}-{row}", draw.sheet(given, made, heads))))
    return Section(title, [], pictures, [])


def _want_pictures(work: Work) -> None:
    if work.whole.kind != "image":
        raise InputError(f"{work.whole.name} is a table, and this is a figure of images")


def learning(work: Work) -> Section:
    """How each model learned, and whether it was still learning at the end."""
    table, pictures = [["model", *(f"{what}, {part}" for what in ("error", "loss") for part in PARTS), ""]], []
    for row in rows(TABLES["table1"].numbers, work.data):
        if not cells.results(row, work, 1, fid=False):
            continue
        log = apply.training_log(runs.read(cells.finished(row, work)[0]))
        pictures.append((ROWS[row].title, _keep(work, f"learning-{row}", plots.training_curves(log))))
        pairs = [_late(log, "error"), _late(log, "reconstruction" if "reconstruction" in log[-1] else "loss")]
        moving = any(abs(late - before) > 0.03 * abs(before) for before, late in pairs)
        shown = ["-" if np.isnan(x) else f"{x:.2%}" for x in pairs[0]] + [f"{x:.4g}" for x in pairs[1]]
        table.append([ROWS[row].title, *shown, "still moving" if moving else "flat"])
    note = "Means over the fourth and the last fifth of the training; the loss is SeGMA's reconstruction error, the "
    note += (
        "rivals' whole one. Flat: neither changes by more than 3 %, which after few steps may still be slow learning. "
    )
    note += "M1+M2 trains M1 first, alone, and Triple-GAN its classifier: until then the other terms are drawn as 0."
    return Section("Learning curves, seed 0", table, pictures, [note])


def _late(log: Sequence[dict], name: str) -> tuple[float, ...]:
    """The mean of what a log has under a name over the fourth and the last fifth of its steps."""
    seen = np.array([(line["step"], line[name]) for line in log if line.get(name) is not None], dtype=float)
    if not len(seen):
        return np.nan, np.nan
    part = seen[:, 0] / log[-1]["step"]
    late = [seen[(part > low) & (part <= low + 0.2), 1] for low in (0.6, 0.8)]
    return tuple(float(values.mean()) if len(values) else np.nan for values in late)


def sensitivity(work: Work) -> Section:
    """alpha x beta: test error, and FID where its network is there."""
    found = _swept(work, "sensitivity", [f"{key}={','.join(values)}" for key, values in GRID.items()])
    pictures = []
    for score, form in (("error", "{:.1%}"), ("fid", "{:.1f}")):
        values = [[_mean(found, score, alpha=a, beta=b) for b in GRID["beta"]] for a in GRID["alpha"]]
        if np.isfinite(values).any():
            picture = plots.heat_map(np.array(values), *GRID.values(), ("alpha", "beta"), TITLES[score], form)
            pictures.append((TITLES[score], _keep(work, f"sensitivity-{score}", picture)))
    return Section("Sensitivity to alpha and beta", [], pictures, [few(work)])


def dimension(work: Work) -> Section:
    return _line(work, "dimension", "latent_dim", DIMENSIONS, "Number of latent dimensions")


def labels(work: Work) -> Section:
    most = int((work.whole.y_train >= 0).sum())
    counts = [n for n in LABELS if int(n) <= most]
    if not counts:
        raise InputError(f"{work.whole.name} has {most} labels, this figure takes {LABELS[0]} or more")
    return _line(work, "labels", "labels", counts, "Number of labels")


def _line(work: Work, name: str, key: str, values: Sequence[str], title: str) -> Section:
    """One setting against error and FID."""
    found = _swept(work, name, [f"{key}={','.join(values)}"])
    curves = {score: [_mean(found, score, **{key: value}) for value in values] for score in ("error", "fid")}
    table = [[key, "error", "FID"]]
    for value, wrong, fid in zip(values, curves["error"], curves["fid"], strict=True):
        table.append([value, "-" if np.isnan(wrong) else f"{wrong:.2%}", "-" if np.isnan(fid) else f"{fid:.1f}"])
    drawn = {TITLES[score]: curve for score, curve in curves.items() if np.isfinite(curve).any()}
    return Section(title, table, [(title, _keep(work, name, plots.curves(values, drawn, key)))], [few(work)])


def _swept(work: Work, name: str, grid: list[str]) -> list[dict]:
    """The models of a grid with the paper's recipe, trained as stacks; settings, error and FID of the finished ones."""
    plain = launch.config_for(work.data, work.whole, "paper", {})
    shorter = cells.shortened(plain, len(work.whole.x_train), work.most)
    settings, folder = sweep.grid(grid, work.seeds), work.out / name
    jobs = sweep.open_jobs(work.data, settings, "paper", shorter, folder, work.data_dir, work.device, work.progress)
    if any(job.state.step < job.last for job in jobs):
        work.say(f"{name}: {len(jobs)} models")
        for stack in sweep.stacks([job for job in jobs if job.state.step < job.last]):
            cells.tried(work, [job.run.path.name for job in stack], lambda some=stack: cells.train(some, work))
    found = []
    for cell, job in zip(settings, jobs, strict=True):
        if work.stop() or not job.finished:
            continue
        result = cells.measured(work, job, work.grid_samples, alone=True)
        found.append({**cell, "error": result.get("test_error"), "fid": result.get("fid", {}).get("test")})
    if not found and not work.stop():
        raise RunFailed(f"none of its {len(jobs)} models got to its end")
    return found


def few(work: Work) -> str:
    if work.weights is None:
        return "The FID network's weights are not there: errors alone."
    return f"FID against the test split from {work.grid_samples:,} samples of each model."


def _mean(found: Sequence[dict], score: str, **cell: str) -> float:
    values = [row[score] for row in found if row[score] is not None and all(row[k] == v for k, v in cell.items())]
    return float(np.mean(values)) if values else np.nan


def _keep(work: Work, name: str, picture: Image.Image) -> str:
    file = Path("pictures") / f"{name}.png"
    files.write(work.out / file, draw.png(picture))
    return str(file)
