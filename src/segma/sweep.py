"""Many models trained at once: their weights stacked, one step for all of them, an ordinary run folder for each.

Settings that only enter as numbers (FREE) may differ within a stack; those that change shapes or the course of a step
make a stack of their own. Each model ends as if trained alone, to the rounding of batched matrix products.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from segma import draw, files, launch, measure, plots, run_data, runs
from segma.baselines import RIVALS
from segma.config import Config, check_names, parse
from segma.errors import InputError
from segma.record import Job, Progress, mend, recorded
from segma.stack import fit_together

FREE = (
    *("alpha", "beta", "gamma_scale", "kappa", "confidence", "mean_distance"),
    *("learning_rate", "schedule", "warmup", "seed", "label_seed", "labels"),
)
AT_ONCE = {"cpu": 16, "cuda": 64}  # models in a stack: more run after one another


def grid(pairs: Sequence[str], seeds: int = 1) -> list[dict[str, str]]:
    """--grid KEY=A,B,C ... as one dict of settings per model, the last key fastest; with seeds 0, 1, ... if several.

    Widths and filters, which are lists themselves, are written 256x256.
    """
    axes: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, values = pair.partition("=")
        if not equals or not all(value.strip() for value in values.split(",")):
            raise InputError(f"--grid {pair}: wanted is KEY=A,B,C, for instance --grid alpha=1,5,10")
        check_names([key])
        if key in axes:
            raise InputError(f"--grid {pair}: {key} is given twice")
        axes[key] = [value.strip() for value in values.split(",")]
        if len({parse(key, value) for value in axes[key]}) < len(axes[key]):
            hint = "; several widths of one network are written 64x64" if key in ("hidden", "filters") else ""
            raise InputError(f"--grid {pair}: a value is given twice{hint}")
    if seeds > 1:
        if "seed" in axes:
            raise InputError(f"--seeds {seeds} and --grid seed={','.join(axes['seed'])}: give one of them")
        axes["seed"] = [str(seed) for seed in range(seeds)]
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def open_jobs(
    name: str,
    cells: Sequence[dict[str, str]],
    recipe: str,
    settings: dict,
    out: Path,
    data_dir: Path | None = None,
    device: str = "auto",
    progress: Callable | None = None,
) -> list[Job]:
    """A run folder below `out` for each cell: a new one, or the one that is there, if its settings are the same."""
    device = launch.choose_device(device)
    for cell in cells:
        launch.check_settings({**settings, **cell})
    if (out / "config.json").exists():
        raise InputError(f"{out} is a run, not a sweep: choose another --out")
    if out.is_dir() and not (out / "sweep.json").exists():  # one that was stopped has nothing but runs so far
        for other in sorted(path.name for path in out.iterdir() if "=" not in path.name)[:1]:
            raise InputError(f"{out} is not a sweep, it has {other} in it: choose another --out")
    for row in _rows(out):
        if (keys := [key for key in row if key not in (*MEASURED, *ABOUT)]) != list(cells[0]):
            raise InputError(f"{out} is a sweep of {', '.join(keys)}: give these, in this order, or another --out")
    each = [{**settings, **cell} for cell in cells]
    read = {key: launch.read_data(name, dict(key), data_dir, progress) for key in dict.fromkeys(map(_of_reading, each))}
    wholes = [read[_of_reading(own)] for own in each]
    configs = [launch.config_for(name, whole, recipe, own) for whole, own in zip(wholes, each, strict=True)]
    for whole, cell, config in zip(wholes, cells, configs, strict=True):  # all of them, before anything is made
        if config.model in RIVALS:
            raise InputError(f"model = {config.model!r}: a sweep trains segma and cwae; train this one by itself")
        run_data.choose_rows(whole, config)
        if not len(whole.x_test) and not config.holdout:
            raise InputError(f"{whole.name} has no test split to compare on; give one, or --set holdout=0.2")
        path = out / folder_name(cell)
        if path.exists() and runs.read(path).config != config:
            raise InputError(f"{path} was made with other settings: choose another --out")
    return [
        launch.resume(path, data_dir, device, whole=whole)
        if (path := out / folder_name(cell)).exists()
        else launch.begin(whole, config, path, data_dir, device)
        for whole, cell, config in zip(wholes, cells, configs, strict=True)
    ]


def _of_reading(settings: dict) -> tuple[tuple[str, Any], ...]:
    """Those that say how data are read: models that differ in these do not have the same rows."""
    return tuple((key, settings[key]) for key in launch.READING if key in settings)


def folder_name(cell: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in cell.items()) or "run"


def stacks(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that can share a step: the same but for FREE settings, equally far, on equally many rows."""
    plain = {field.name: field.default for field in dataclasses.fields(Config) if field.name in FREE}
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        key = (dataclasses.replace(job.run.config, **plain), job.state.step, len(job.data.x_train))
        groups.setdefault(key, []).append(job)
    size = AT_ONCE[jobs[0].device] if jobs else 1
    return [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]


def train(jobs: Sequence[Job], stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[Job, Progress]]:
    """Train all, a stack after another; yields what was due of each job. A model that fails leaves its stack alone.

    Ends each with a checkpoint, or with its last good one where a step was not finite.
    """
    mend(jobs)
    for group in stacks([job for job in jobs if job.state.step < job.last]):
        with ExitStack() as folders:
            records = {i: folders.enter_context(recorded(job)) for i, job in enumerate(group)}
            for number, steps in fit_together(group):
                halt = stop()
                if not halt and not any(record.due(number) for record in records.values()):
                    continue
                for i, step in enumerate(steps()):
                    if step is None:
                        records.pop(i, None)
                    else:
                        yield group[i], records[i].after(step, halt)
                if halt:
                    return


def report(out: Path, cells: Sequence[dict[str, str]], jobs: Sequence[Job]) -> list[dict]:
    """Measure every model; the rows go to sweep.json and table.md, and for two settings to heat maps, seeds averaged.

    Models that an earlier sweep into the same folder trained are in them too. One whose training failed has no numbers.
    """
    now = {job.run.path.name for job in jobs}
    rows = [row for row in _rows(out) if Path(row["run"]).name not in now]
    for cell, job in zip(cells, jobs, strict=True):
        row: dict = {**cell, "run": str(job.run.path)}
        if job.finished:
            found = measure.basic(job.run, job.data, runs.load_model(job.run, job.device))
            files.write_json(job.run.path / "results.json", found)
            wrong = found.get("test_error", found.get("validation_error"))
            row |= {"split": found["protocol"]["split"], "error": wrong}
            row |= {name: found[name] for name in MEASURED if name != "error"}
        rows.append(row)
    files.write_json(out / "sweep.json", {"rows": rows})
    files.write(out / "table.md", as_table(rows).encode())
    axes = [key for key in cells[0] if key != "seed" and len({row[key] for row in rows}) > 1]
    for name in MEASURED if len(axes) >= 2 else ():
        files.write(out / f"{name}.png", draw.png(_heat_map(rows, axes[0], axes[1], name)))
    return rows


def _rows(out: Path) -> list[dict]:
    """What earlier sweeps into this folder have measured."""
    return files.read_json(out / "sweep.json")["rows"] if (out / "sweep.json").exists() else []


MEASURED = {"error": "{:.1%}", "reconstruction_error": "{:.3g}", "log_distance": "{:.2f}"}
ABOUT = ("run", "split")  # what else a row has beside its settings


def as_table(rows: Sequence[dict]) -> str:
    """One line per setting, mean and deviation over seeds."""
    keys = [key for key in rows[0] if key not in (*MEASURED, *ABOUT, "seed")]
    heads = [*keys, "models", *(title(rows, name) for name in MEASURED)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for values, group in _grouped(rows, keys).items():
        cells = [_mean(form, group, name) for name, form in MEASURED.items()]
        lines.append(f"| {' | '.join([*values, str(len(group)), *cells])} |")
    return "\n".join(lines) + "\n"


def title(rows: Sequence[dict], name: str) -> str:
    """What a measured number is called; an error says of which rows it is."""
    splits = {row["split"] for row in rows if "split" in row} if name == "error" else set()
    return f"{name.replace('_', ' ')}{f' ({splits.pop()})' if len(splits) == 1 else ''}"


def _mean(form: str, rows: Sequence[dict], name: str) -> str:
    """Models that failed have no numbers; of a CWAE there is no error."""
    values = [row[name] for row in rows if name in row]
    good = [value for value in values if value is not None]
    if not good:
        return "-" if values else "failed"
    spread = f" ± {form.format(np.std(good, ddof=1))}" if len(good) > 1 else ""
    lost = f" ({len(rows) - len(values)} failed)" if len(values) < len(rows) else ""
    return form.format(np.mean(good)) + spread + lost


def _grouped(rows: Sequence[dict], keys: Sequence[str]) -> dict[tuple[str, ...], list[dict]]:
    groups: dict[tuple[str, ...], list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def _heat_map(rows: Sequence[dict], down: str, across: str, name: str) -> Any:
    groups = _grouped(rows, (down, across))
    names = [list(dict.fromkeys(row[key] for row in rows)) for key in (down, across)]
    means = [[_average(groups.get((a, b), []), name) for b in names[1]] for a in names[0]]
    return plots.heat_map(np.array(means), *names, (down, across), title(rows, name), MEASURED[name])


def _average(group: Sequence[dict], name: str) -> float:
    good = [row[name] for row in group if row.get(name) is not None]
    return float(np.mean(good)) if good else np.nan
