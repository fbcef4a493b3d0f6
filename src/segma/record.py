"""While a run trains: its log, its pictures, its checkpoints."""

import json
import math
import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from segma import distributed, draw, files, runs
from segma.apply import class_samples
from segma.baselines import classifies
from segma.data.arrays import Data
from segma.metrics.accuracy import error
from segma.model import settle
from segma.state import State
from segma.step import rows_per_step, steps_in_all
from segma.train import Step


@dataclass(frozen=True)
class Job:
    """A run, its data with all but the kept labels hidden, and how far its training is."""

    run: runs.Run
    data: Data
    state: State
    device: str

    @property
    def last(self) -> int:
        """The number of its last step."""
        return steps_in_all(self.run.config, len(self.data.x_train))

    @property
    def finished(self) -> bool:
        """Whether the model that is saved has trained to the end."""
        return runs.has_model(self.run) and runs.steps_done(self.run) >= self.last


class Progress(NamedTuple):
    """After each step; `values` and `error` only where they were looked at: looking waits for the device."""

    step: int
    last: int
    epoch: float
    values: dict[str, float] | None
    error: float | None
    rows: int  # in a step


class Recorder(NamedTuple):
    """`due` says whether a step's number is one to log, draw or save; `after`, called after a step (with whether it is
    the last for now), does what is due."""

    due: Callable[[int], bool]
    after: Callable[[Step, bool], Progress]


@contextmanager
def recorded(job: Job) -> Generator[Recorder]:
    """The keeper of a run folder while its model trains."""
    config, n, last, first = job.run.config, len(job.data.x_train), job.last, job.state.step
    rows = rows_per_step(config, n)
    began = saved = time.monotonic()

    def pictures(number: int) -> float:  # due by step `number`
        return number * rows[0] / n // config.samples_every

    def picture_due(number: int) -> bool:
        return number == last or pictures(number) > pictures(number - 1)

    def due(number: int) -> bool:
        late = time.monotonic() - saved >= config.checkpoint_seconds
        return late or number % config.log_every == 0 or picture_due(number)

    with open_log(job) as log:
        if first >= last and distributed.rank() == 0:  # finished: should the model be lost, the checkpoint has it
            settle(job.state.result.eval(), job.data.x_train, config.clouds)
            runs.save_model(job.run, job.state.result, first)

        def after(step: Step, halt: bool) -> Progress:
            nonlocal saved
            values = wrong = None
            done, picture = step.number == last, picture_due(step.number)
            if done and distributed.rank() == 0:
                settle(job.state.result.eval(), job.data.x_train, config.clouds)
            if picture or step.number % config.log_every == 0:
                values = step.values()
                speed = round((step.number - first) * sum(rows) / (time.monotonic() - began))
                line: dict = {"step": step.number, "epoch": step.epoch, **values, "samples_per_second": speed}
                if picture:
                    line["error"] = wrong = look(job, step.number)
                log.write(json.dumps(line) + "\n")
            if done or halt or time.monotonic() - saved >= config.checkpoint_seconds:
                saved = time.monotonic()
                save(job, step)
            return Progress(step.number, last, step.epoch, values, wrong, sum(rows))

        yield Recorder(due, after)


def mend(jobs: Iterable[Job]) -> None:
    """Of those that have trained to the end and lost their model, a kill just before it was saved say, make it anew."""
    for job in jobs:
        if job.state.step >= job.last and not job.finished:
            with recorded(job):
                pass


@contextmanager
def open_log(job: Job) -> Generator[TextIO]:
    """The log up to the state's step, in a folder that no other training may enter; only the first process has one."""
    if distributed.rank() > 0:
        with Path(os.devnull).open("w") as nowhere:
            yield nowhere
        return
    with runs.locked(job.run):
        runs.cut_log(job.run.path / "log.jsonl", job.state.step)
        with (job.run.path / "log.jsonl").open("a", buffering=1) as log:
            yield log


def save(job: Job, step: Step) -> None:
    """A checkpoint, unless the step is not finite: on a GPU that is noticed only every so many steps."""
    if distributed.rank() == 0 and all(map(math.isfinite, step.values().values())):
        runs.save_checkpoint(job.run, job.state.tensors(), job.state.step)
        runs.save_model(job.run, job.state.result, job.state.step)


def look(job: Job, step: int) -> float | None:
    """A picture of samples per class into the run folder, and the error on the test (or held-out) split."""
    if distributed.rank() > 0:
        return None
    model = job.state.result.eval()
    known = classifies(job.run.config)
    wrong = error(model, job.data.x_test, job.data.y_test) if known and (job.data.y_test >= 0).any() else None
    if model.is_image:
        path, made = job.run.path / "samples" / f"step-{step:07d}.png", class_samples(model, 10, seed=0)
        files.write(path, draw.png(draw.grid(made, job.run.classes if known else ())))
    job.state.model.train()
    return wrong
