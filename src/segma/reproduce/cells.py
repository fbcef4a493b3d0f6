"""A cell of a reproduction: one model with one seed, trained and measured in a run folder of its own, once."""

import math
import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segma import launch, report, runs
from segma.config import Config
from segma.data import data_dir
from segma.data.arrays import Data
from segma.errors import InputError, RunFailed
from segma.metrics import inception
from segma.record import Job
from segma.reproduce.paper import ROWS
from segma.step import rows_per_step, steps_in_all

QUICK_STEPS, QUICK_SAMPLES, QUICK_GRID_SAMPLES = 800, 150, 60


@dataclass(frozen=True)
class Work:
    """What is to be reproduced and how: the data, the seeds, the budget, and where all of it goes.

    `most` limits a model's steps (None: its recipe's), `samples` are those of FID. `show` consumes a training's steps
    and shows them; `say` takes a line for the user.
    """

    data: str
    whole: Data  # its rows, nothing hidden
    seeds: int
    budget: str
    out: Path
    data_dir: Path | None
    device: str
    show: Callable[[Iterable, int], Any]
    say: Callable[[str], None]
    stop: Callable[[], bool] = lambda: False
    progress: Callable | None = None
    failed: dict[str, str] = field(default_factory=dict)  # by the names of cells, why

    @property
    def most(self) -> int | None:
        return {"quick": QUICK_STEPS, "paper": None}.get(
            self.budget, int(self.budget) if self.budget.isdecimal() else None
        )

    @property
    def samples(self) -> int:
        return QUICK_SAMPLES if self.budget == "quick" else report.SAMPLES

    @property
    def grid_samples(self) -> int:
        """For each model of a grid, of which there are many."""
        return QUICK_GRID_SAMPLES if self.budget == "quick" else report.SAMPLES

    @property
    def weights(self) -> Path | None:
        """The FID network's, if they are there."""
        try:
            return inception.find(None, data_dir(self.data_dir))
        except InputError:
            return None


def name(row: str, work: Work, seed: int) -> str:
    return f"{Path(work.data).stem}-{row}-{seed}"


def settings_of(row: str, work: Work, seed: int) -> dict[str, str]:
    """What goes over the recipe: the row's own, the seed, and fewer epochs where the budget asks for it."""
    given = ROWS[row].settings | {"seed": str(seed)}
    config = launch.config_for(work.data, work.whole, ROWS[row].recipe, given)
    return given | shortened(config, len(work.whole.x_train), work.most)


def shortened(config: Config, n: int, most: int | None) -> dict[str, str]:
    """The epochs of at most so many steps, if the recipe has more."""
    if most is None or steps_in_all(config, n) <= most:
        return {}
    epochs = max(1, math.floor(most * rows_per_step(config, n)[0] / n))
    return {"epochs": str(epochs), "samples_every": str(max(1, epochs // 4))}


def command(row: str, work: Work, settings: dict[str, str]) -> str:
    """What one would type for this cell alone."""
    sets = [f"--set {key}={value}" for key, value in settings.items() if key not in ("model", "seed", "epochs")]
    words = ["segma train", shlex.quote(work.data)]
    words += [f"--model {settings['model']}"] if "model" in settings else []
    words += [f"--recipe {ROWS[row].recipe}"]
    words += [f"--{key} {settings[key]}" for key in ("epochs", "seed") if key in settings]
    return " ".join([*words, *sets])


def results(row: str, work: Work, seed: int, fid: bool) -> dict | None:
    """The numbers of a cell: trained, gone on with, or taken as it is if it is finished; None if it fails."""
    path = work.out / "runs" / name(row, work, seed)
    try:
        job = opened(row, work, seed, path)
        if job.state.step < job.last:
            work.say(f"{path.name}: step {job.state.step} of {job.last}")
            began = time.monotonic()
            work.show(launch.train(job, work.stop), job.run.config.epochs)
            _add_seconds(path, time.monotonic() - began)
            if work.stop():
                return None
        return measured(work, job, work.samples if fid else None)
    except (InputError, RunFailed) as problem:
        work.failed[path.name] = str(problem)
        work.say(f"{path.name} failed: {problem}")
        return None


def opened(row: str, work: Work, seed: int, path: Path) -> Job:
    """The cell's run, new or as far as it is."""
    config = launch.config_for(work.data, work.whole, ROWS[row].recipe, settings_of(row, work, seed))
    if not path.exists():
        return launch.begin(work.whole, config, path, work.data_dir, work.device)
    job = launch.resume(path, work.data_dir, work.device, whole=work.whole)
    if job.run.config != config:
        raise InputError(f"{path} was made with other settings: another --out for another budget")
    return job


def measured(work: Work, job: Job, samples: int | None, alone: bool = False) -> dict:
    """What `segma evaluate` gives, FID from so many samples; what was measured of these weights is not measured again.

    `alone` leaves out interpolations and reconstructions.
    """
    wanted = samples if work.weights and len(job.run.shape) == 3 else None
    earlier = report.earlier(job.run)
    if wanted and earlier.get("fid", {}).get("protocol", {}).get("samples") == wanted:
        wanted = None
    if wanted:
        work.say(f"{job.run.path.name}: FID of {wanted} samples")
    model = runs.load_model(job.run, job.device)
    if wanted is None:
        found = report.basic(job.run, job.data, model)
    else:
        found = report.measure(job.run, model, work.data_dir, work.weights, wanted, False, work.progress, alone)
    runs.write_json(job.run.path / "results.json", found)
    return found


def seconds(path: Path) -> float:
    """How long the training in a folder took, over all its stretches."""
    file = path / "seconds.json"
    return float(runs.read_json(file)["train"]) if file.exists() else math.nan


def _add_seconds(path: Path, more: float) -> None:
    before = seconds(path)
    runs.write_json(path / "seconds.json", {"train": more + (0 if math.isnan(before) else before)})
