"""Commands that train: one model, one that was stopped, a grid of them."""

import json
import os
import shlex
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from segma.cli.measuring import show_results
from segma.cli.options import MOST_SEEDS, AsJson, DataDir, DataName, Device, bar, whole
from segma.errors import InputError, RunFailed

BUSY = 0.75  # of the threads: a load from which others are likely in the way


def train(
    data: DataName,
    model: Annotated[str | None, typer.Option(help="segma, cwae, m1m2, adgm or triple-gan.")] = None,
    recipe: Annotated[str, typer.Option(help="best or paper.")] = "best",
    labels: Annotated[
        str | None, typer.Option(metavar="N", help="How many labels to keep; the rest is hidden.")
    ] = None,
    epochs: Annotated[str | None, typer.Option(metavar="N", help="Passes over the training rows.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="S", help="Labels kept, first weights, order; else 0.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="A new folder; else runs/DATA-1, -2, ...")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of config.json; repeatable.")
    ] = None,
) -> None:
    """Train a model and print its test error."""
    from segma import distributed, launch
    from segma.config import assignments

    given = {"model": model, "labels": labels, "epochs": epochs, "seed": seed}
    given, changes = {key: value for key, value in given.items() if value is not None}, assignments(settings or [])
    for key in given.keys() & changes.keys():
        raise InputError(f"--{key} {given[key]} and --set {key}={changes[key]}: give one of them")
    changes |= given
    with distributed.group(launch.choose_device(device)):
        _train(launch.start(data, recipe, changes, out, data_dir, device, bar))


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Go on with a run that was stopped, exactly."""
    from segma import distributed, launch

    with distributed.group(launch.choose_device(device)):
        _train(launch.resume(run, data_dir, device, bar), f" --data-dir {data_dir}" if data_dir else "")


def sweep(
    data: DataName,
    grid: Annotated[
        list[str], typer.Option(metavar="KEY=A,B,C", help="Values of a setting; repeatable, all are combined.")
    ],
    seeds: Annotated[str, typer.Option(metavar="N", help="So many seeds, from 0, for each combination.")] = "1",
    recipe: Annotated[str, typer.Option(help="best or paper.")] = "best",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for the runs; one that exists is gone on with.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of all; repeatable.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train a grid of settings and seeds at once, and compare."""
    from segma import launch, progress
    from segma import sweep as many
    from segma.config import assignments

    cells, changes = many.grid(grid, whole("--seeds", seeds, 1, MOST_SEEDS)), assignments(settings or [])
    for key in cells[0].keys() & changes.keys():
        raise InputError(f"--set {key}={changes[key]}: {key} is already in the grid")
    folder = out or launch.free_name(f"{Path(data).stem}-sweep")
    jobs = many.open_jobs(data, cells, recipe, changes, folder, data_dir, device, bar)
    stacks = many.stacks([job for job in jobs if job.state.step < job.last])
    sizes = " + ".join(str(len(stack)) for stack in stacks) or "0"
    print(f"sweep: {folder}, {len(jobs)} models, training together {sizes} ({jobs[0].device})", file=sys.stderr)
    with progress.interruptible() as interrupted:
        progress.show_many(many.train(jobs, interrupted.is_set), sum(map(len, stacks)))
        if interrupted.is_set():
            print("stopped, saved; go on with the same command and --out " + str(folder), file=sys.stderr)
            raise typer.Exit(1)
    rows = many.report(folder, cells, jobs)
    print(json.dumps({"rows": rows}) if as_json else many.as_table(rows), end="\n" if as_json else "")
    maps = " and heat maps" if list(folder.glob("*.png")) else ""
    print(f"runs, table{maps}: {folder}", file=sys.stderr)
    if failed := [row["run"] for row in rows if "error" not in row]:
        raise RunFailed(f"{len(failed)} of {len(rows)} failed, losses that are not finite: {', '.join(failed)}")


def _train(job: Any, where: str = "") -> None:
    """Train with a live bar; the first Ctrl-C saves and says how to go on, `where` too if that has to be said. Of
    several processes the first speaks."""
    from segma import distributed, launch, measure, progress, report

    again = f"segma resume {shlex.quote(str(job.run.path))}{where}"
    with progress.interruptible() as interrupted:
        steps = launch.train(job, interrupted.is_set)
        if distributed.rank() > 0:
            deque(steps, maxlen=0)
            return
        several = f" x {distributed.size()}" if distributed.size() > 1 else ""
        print(f"run: {job.run.path} ({job.device}{several})", file=sys.stderr)
        print(report.in_hand(job.data), file=sys.stderr)
        for note in _slow(job, again) if str(job.device) == "cpu" else ():
            print(note, file=sys.stderr)
        try:
            last = progress.show(steps, job.run.config.epochs)
        except RunFailed as problem:
            hint = f"; once mended, go on with: {again}" if problem.resumable else ""
            raise RunFailed(f"{problem}{hint}") from problem
    if last is None:
        print(f"already finished, at step {job.state.step}", file=sys.stderr)
    elif last.step < last.last:
        print(f"stopped at step {last.step}, saved; go on with: {again}", file=sys.stderr)
        raise typer.Exit(1)
    model = job.state.result.eval()
    show_results(job.run, measure.basic(job.run, job.data, model), as_json=False)
    for picture in sorted((job.run.path / "samples").glob("*.png"))[-1:]:
        print(f"samples{'' if job.run.config.model == 'cwae' else ', one row per class'}: {picture}")
    print(f"run: {job.run.path}")


def _slow(job: Any, again: str) -> Iterator[str]:
    """What makes training on this CPU slow and can be helped."""
    import torch

    if job.run.config.critic:
        yield "a critic makes a step two to four times as long on a CPU; --set critic=0 does without, less sharply"
    threads, busy = torch.get_num_threads(), os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if threads > 1 and busy > BUSY * threads:
        yield (
            f"this machine is busy (load {busy:.1f}), so {threads} threads may wait for each other; if steps are slow: "
            f"Ctrl-C, then OMP_NUM_THREADS=1 {again}"
        )
