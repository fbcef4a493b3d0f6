"""Commands that measure: a run, the paper's tables, how classes relate."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from segma.cli.options import MOST_SEEDS, AsJson, DataDir, Device, RunPath, Shown, bar, whole
from segma.errors import InputError, RunFailed


def evaluate(
    run: RunPath,
    fid: Annotated[bool, typer.Option("--fid", help="Also FID, KID, interpolation and reconstruction FID.")] = False,
    editing: Annotated[bool, typer.Option("--editing", help="Also how well transfer and intensity work.")] = False,
    samples: Annotated[
        str | None, typer.Option(metavar="N", help="Images to generate for FID, else 10,000; fewer are marked.")
    ] = None,
    inception: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of the FID network; else in the data directory.")
    ] = None,
    as_json: AsJson = False,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Measure a run on its test split.

    Test error, confusion matrix, reconstruction error and log d^2, kept in the run's results.json.
    """
    from segma import launch, measure, runs

    for name, given in (("--samples", samples), ("--inception", inception)):
        if given is not None and not fid:
            raise InputError(f"{name} {given} is for FID: it goes with --fid")
    count, opened = whole("--samples", samples or "10000", 2), runs.read(run)
    model = runs.load_model(opened, launch.choose_device(device))
    results = measure.scores(opened, model, data_dir, inception, count if fid else None, editing, bar)
    show_results(opened, results, as_json)


def reproduce(
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="table1, table2, table3, figure-..., or all.")],
    data: Annotated[str, typer.Option(metavar="NAME", help="digits, mnist, svhn, celeba, or your own.")] = "digits",
    seeds: Annotated[str, typer.Option(metavar="N", help="Label seeds, from 0.")] = "1",
    budget: Annotated[
        str, typer.Option(help="quick (minutes on digits), paper (the real thing), or steps per model (whole epochs).")
    ] = "quick",
    samples: Annotated[
        str, typer.Option(metavar="N", help="Images for FID; else 10000, quick: 150. A CPU does some ten a second.")
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="ROWS", help="Train these rows only: segma,cwae,...; of others, show what is there.")
    ] = "",
    shown: Shown = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder; one that exists is gone on with.")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """The paper's tables and figures, measured, beside the paper's numbers."""
    from segma import launch, progress
    from segma import reproduce as again
    from segma.reproduce.cells import Work

    wanted, named = again.chosen(items), again.named(only)
    if budget not in ("quick", "paper"):
        if not budget.isdecimal() or not int(budget):
            raise InputError(f"--budget {budget}: allowed are quick, paper, or a number of steps for each model")
        budget = str(int(budget))
    folder = out or Path("reproductions") / f"{Path(data).stem}-{budget}"
    with progress.interruptible() as interrupted:

        def measuring(items: Any, total: int, text: str) -> Any:  # stops at once: it is done again
            for item in bar(items, total, text):
                if interrupted.is_set():
                    raise KeyboardInterrupt
                yield item

        work = Work(
            data,
            launch.read_data(data, {}, data_dir, bar),
            whole("--seeds", seeds, 1, MOST_SEEDS),
            budget,
            folder,
            data_dir,
            launch.choose_device(device),
            progress.show,
            lambda line: print(line, file=sys.stderr),
            interrupted.is_set,
            measuring,
            named,
            shown,
            whole("--samples", samples, 2) if samples else None,
        )
        try:
            sections = again.reproduce(wanted, work)
        except KeyboardInterrupt:
            interrupted.set()
        if interrupted.is_set():
            print(f"stopped; go on with the same command and --out {folder}", file=sys.stderr)
            raise typer.Exit(1)
    for section in sections if len(sections) < 4 else ():
        print(again.page.as_markdown("", [], [section]).removeprefix("# \n\n"))
    print(f"wrote {folder / 'index.html'}")
    if work.failed:
        raise RunFailed(f"{len(work.failed)} failed: {', '.join(work.failed)}")


def similarity(
    run: RunPath,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .png or .gif: distances as tree and colours.")
    ] = None,
    map_out: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="A .png or .gif: codes of the data in a plane.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Which classes lie close: the distances of the trained means."""
    from segma import inputs, runs
    from segma import similarity as classes

    opened = runs.read(run)
    classes.check_names(opened, out, map_out)
    found = classes.measure(opened)
    notes = classes.write_map(inputs.Source(opened, data_dir, bar), map_out) if map_out else []
    if out:
        classes.write_picture(found, out)
    print(json.dumps(found) if as_json else classes.as_text(found))
    for line in [*notes, *(f"wrote {file}" for file in (out, map_out) if file)]:
        print(line, file=sys.stderr)


def show_results(run: Any, results: dict, as_json: bool) -> None:
    """Print, then keep in results.json: what was measured is seen even where it cannot be written."""
    from segma import files, report

    print(json.dumps(results) if as_json else report.as_text(results))
    if not run.comes_along:
        files.write_json(run.path / "results.json", results)
