"""A cell of a reproduction: one model with one seed, trained and measured in a run folder of its own, once."""

import math
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from segma import files, launch, measure, runs, sweep
from segma.baselines import RIVALS
from segma.config import Config
from segma.data import directory
from segma.data.arrays import Data
from segma.errors import InputError, RunFailed
from segma.metrics import inception
from segma.record import Job, mend
from segma.reproduce.paper import ROWS
from segma.step import rows_per_step, steps_in_all

QUICK_STEPS, QUICK_SAMPLES, QUICK_GRID_SAMPLES = 800, 150, 60
LOOKS = 8  # at a shortened training, for its curve
T = TypeVar("T")


@dataclass(frozen=True)
class Work:
    """What is to be reproduced and how: the data, the seeds, the budget, and where all of it goes.

    `only` names the rows to train and measure, none is all; of others there is what was finished before. `most` limits
    a model's steps (None: its recipe's), `samples` are those of FID. `show` consumes a training's steps and shows them;
    `say` takes a line for the user.
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
    only: tuple[str, ...] = ()
    given: bool = True  # whether pictures show test images, too
    fid_samples: int | None = None  # None: by the budget
    failed: dict[str, str] = field(default_factory=dict)  # by the names of cells, why

    @property
    def most(self) -> int | None:
        return {"quick": QUICK_STEPS, "paper": None}.get(
            self.budget, int(self.budget) if self.budget.isdecimal() else None
        )

    @property
    def samples(self) -> int:
        return self.fid_samples or (QUICK_SAMPLES if self.budget == "quick" else measure.SAMPLES)

    @property
    def grid_samples(self) -> int:
        """For each model of a grid, of which there are many."""
        return self.fid_samples or (QUICK_GRID_SAMPLES if self.budget == "quick" else measure.SAMPLES)

    @property
    def weights(self) -> Path | None:
        """The FID network's, if they are there."""
        try:
            return inception.find(None, directory(self.data_dir))
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
    return {"epochs": str(epochs), "samples_every": str(max(1, epochs // LOOKS))}


def command(row: str, work: Work, settings: dict[str, str]) -> str:
    """What one would type for this cell alone."""
    sets = [f"--set {key}={value}" for key, value in settings.items() if key not in ("model", "seed", "epochs")]
    words = ["segma train", shlex.quote(work.data)]
    words += [f"--model {settings['model']}"] if "model" in settings else []
    words += [f"--recipe {ROWS[row].recipe}"]
    words += [f"--{key} {settings[key]}" for key in ("epochs", "seed") if key in settings]
    return " ".join([*words, *sets])


def results(row: str, work: Work, seeds: int, fid: bool) -> list[dict]:
    """The numbers of a row's cells, a seed each: trained, gone on with, or taken as they are where they are finished.

    Those that fail are left out.
    """
    if work.only and row not in work.only:
        return [files.read_json(path / "results.json") for path in finished(row, work)]
    jobs = [tried(work, [name(row, work, seed)], lambda s=seed: opened(row, work, s)) for seed in range(seeds)]
    jobs = [job for job in jobs if job is not None]
    for job in jobs:
        tried(work, [job.run.path.name], lambda j=job: mend([j]))
    waiting = [job for job in jobs if job.state.step < job.last]
    for stack in together(waiting):
        tried(work, [job.run.path.name for job in stack], lambda some=stack: train(some, work))
        if work.stop():
            return []
    samples = work.samples if fid else None
    waiting = [job for job in jobs if job.run.path.name not in work.failed]
    found = [tried(work, [job.run.path.name], lambda j=job: measured(work, j, samples)) for job in waiting]
    return [result for result in found if result is not None]


def together(jobs: Sequence[Job]) -> list[list[Job]]:
    """Stacks of dense nets, whose products batch well; the others one by one."""
    dense, others = [], []
    for job in jobs:
        (dense if job.run.config.network == "mlp" and job.run.config.model not in RIVALS else others).append(job)
    return sweep.stacks(dense) + [[job] for job in others]


def finished(row: str, work: Work) -> list[Path]:
    """The folders of a row's cells that were measured, by seed."""
    start = name(row, work, 0).removesuffix("0")
    found = {path.parent.name.removeprefix(start): path.parent for path in (work.out / "runs").glob("*/results.json")}
    return [found[seed] for seed in sorted(filter(str.isdecimal, found), key=int)]


def tried(work: Work, names: Sequence[str], do: Callable[[], T]) -> T | None:
    """What it gives; None if it fails, which is noted of these cells and told."""
    try:
        return do()
    except (InputError, RunFailed) as problem:
        work.failed.update(dict.fromkeys(names, str(problem)))
        work.say(f"{', '.join(names)} failed: {problem}")
        return None


def train(jobs: Sequence[Job], work: Work) -> None:
    """One model, or a stack, of which the first is shown; how long it took goes to cell.json."""
    first, began = jobs[0], time.monotonic()
    more = f" and {len(jobs) - 1} more at once" if len(jobs) > 1 else ""
    work.say(f"{first.run.path.name}{more}: step {first.state.step} of {first.last}")
    if more:
        steps = (step for job, step in sweep.train(jobs, work.stop) if job is first)
    else:
        steps = launch.train(first, work.stop)
    work.show(steps, first.run.config.epochs)
    for job in jobs:
        about = told(job.run.path)
        seconds = about.get("seconds", 0) + time.monotonic() - began
        files.write_json(job.run.path / "cell.json", about | {"seconds": seconds, "together": len(jobs)})
        if not runs.has_model(job.run) or runs.steps_done(job.run) < job.state.step:  # the rest of its stack went on
            work.failed[job.run.path.name] = "a step was not finite"


def check(row: str, work: Work, seed: int) -> None:
    """Whether the cell, if it is there, is of these settings: a table's row is for one budget."""
    path = work.out / "runs" / name(row, work, seed)
    config = launch.config_for(work.data, work.whole, ROWS[row].recipe, settings_of(row, work, seed))
    if path.exists() and runs.read(path).config != config:
        raise InputError(f"{path} was made with other settings: another --out for another budget, or --only other rows")


def opened(row: str, work: Work, seed: int) -> Job:
    """The cell's run, new or as far as it is."""
    path, settings = work.out / "runs" / name(row, work, seed), settings_of(row, work, seed)
    config = launch.config_for(work.data, work.whole, ROWS[row].recipe, settings)
    check(row, work, seed)
    if not path.exists():
        job = launch.begin(work.whole, config, path, work.data_dir, work.device)
        whole = launch.config_for(work.data, work.whole, ROWS[row].recipe, ROWS[row].settings)
        about = {"command": command(row, work, settings), "of": steps_in_all(whole, len(work.whole.x_train))}
        files.write_json(path / "cell.json", about)
        return job
    return launch.resume(path, work.data_dir, work.device, whole=work.whole)


def measured(work: Work, job: Job, samples: int | None, alone: bool = False) -> dict:
    """What `segma evaluate` gives, FID from so many samples; what was measured of these weights is not measured again.

    `alone` leaves out interpolations and reconstructions.
    """
    wanted = samples if work.weights and len(job.run.shape) == 3 else None
    earlier = measure.earlier(job.run)
    if wanted and earlier.get("fid", {}).get("protocol", {}).get("samples") == wanted:
        wanted = None
    if wanted:
        slow = ", many minutes on a CPU (--samples 200 takes a few)" if work.device == "cpu" and wanted > 1000 else ""
        work.say(f"{job.run.path.name}: FID of {wanted} samples{slow}")
    model = runs.load_model(job.run, job.device)
    if wanted is None:
        found = measure.basic(job.run, job.data, model)
    else:
        found = measure.scores(job.run, model, work.data_dir, work.weights, wanted, False, work.progress, alone)
    files.write_json(job.run.path / "results.json", found)
    return found


def told(path: Path) -> dict:
    """What cell.json has of a cell: its command, the steps of its whole recipe, seconds, models trained together."""
    return files.read_json(path / "cell.json") if (path / "cell.json").exists() else {}
