"""The command line: each command a few lines over the library, which is imported only when a command runs."""

import json
import sys
import warnings
from collections import deque
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from segma import __version__
from segma.errors import InputError, RunFailed

app = typer.Typer(
    help="Learn from many samples and few labels with one editable latent space.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="List, check or fetch data sets.")
app.add_typer(data_app, name="data")


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    pass


RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data files are; else $SEGMA_DATA, else ~/.cache/segma.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Out = Annotated[Path, typer.Option(metavar="FILE", help="A .png or .gif that does not exist yet; tables: .csv.")]


@app.command()
def train(
    data: Annotated[str, typer.Argument(metavar="DATA", help="digits, mnist, svhn, celeba, an .npz or a folder.")],
    model: Annotated[str | None, typer.Option(help="segma.")] = None,
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
        _train(launch.start(data, recipe, changes, out, data_dir, device, _bar))


@app.command()
def resume(run: RunPath, device: Device = "auto", data_dir: DataDir = None) -> None:
    """Go on with a run that was stopped, exactly."""
    from segma import distributed, launch

    with distributed.group(launch.choose_device(device)):
        _train(launch.resume(run, data_dir, device, _bar))


@app.command()
def sweep(
    data: Annotated[str, typer.Argument(metavar="DATA", help="digits, mnist, svhn, celeba, an .npz or a folder.")],
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
    from segma.config import assignments, whole

    cells, changes = many.grid(grid, whole("--seeds", seeds, 1)), assignments(settings or [])
    for key in cells[0].keys() & changes.keys():
        raise InputError(f"--set {key}={changes[key]}: {key} is already in the grid")
    folder = out or launch.free_name(f"{Path(data).stem}-sweep")
    jobs = many.open_jobs(data, cells, recipe, changes, folder, data_dir, device, _bar)
    stacks = many.stacks([job for job in jobs if job.state.step < job.last])
    sizes = " + ".join(str(len(stack)) for stack in stacks) or "0"
    print(f"sweep: {folder}, {len(jobs)} models, training together {sizes} ({jobs[0].device})", file=sys.stderr)
    with progress.interruptible() as interrupted:
        progress.show_many(many.train(jobs, interrupted.is_set), len(jobs))
        if interrupted.is_set():
            print("stopped, saved; go on with the same command and --out " + str(folder), file=sys.stderr)
            raise typer.Exit(1)
    rows = many.report(folder, cells, jobs)
    print(json.dumps({"rows": rows}) if as_json else many.as_table(rows), end="\n" if as_json else "")
    print(f"runs, table and heat maps: {folder}", file=sys.stderr)


@app.command()
def evaluate(run: RunPath, as_json: AsJson = False, device: Device = "auto", data_dir: DataDir = None) -> None:
    """Measure a run on its test split.

    Test error, confusion matrix, reconstruction error and log d^2, kept in the run's results.json.
    """
    from segma import launch, runs

    opened = runs.read(run)
    model = runs.load_model(opened, launch.choose_device(device))
    _show_results(opened, launch.measure(opened, launch.load_data(opened, data_dir, _bar), model), as_json)


@app.command()
def classify(
    run: RunPath,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files; for tables a .csv or .npy.")],
    as_json: AsJson = False,
) -> None:
    """The class of each image and how sure the model is."""
    from segma import apply, runs

    found = apply.classify(runs.read(run), images)
    if as_json:
        print(json.dumps({"results": found}))
        return
    for row in found:
        likely = sorted(row["posterior"].items(), key=lambda item: -item[1])[:3]
        others = "  ".join(f"{name} {p:.1%}" for name, p in likely[1:])
        print(f"{row['file']}: {row['class']}  {likely[0][1]:.1%}  (then {others})")


@app.command()
def sample(
    run: RunPath,
    out: Out,
    label: Annotated[str | None, typer.Option(metavar="CLASS", help="One class; else a row for each.")] = None,
    n: Annotated[str, typer.Option("-n", metavar="N", help="How many of each.")] = "10",
    seed: Annotated[str, typer.Option(metavar="S", help="The same seed gives the same samples.")] = "0",
) -> None:
    """Generate new samples, by class, as a picture."""
    from segma import apply, runs
    from segma.config import whole

    apply.write_samples(runs.read(run), label, whole("-n", n, 1), whole("--seed", seed, 0), out)
    print(f"wrote {out}")


@data_app.command("list")
def data_list(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """The named data sets, and whether their files are there."""
    from segma.data import sources

    rows = sources.listing(data_dir)
    if as_json:
        print(json.dumps({"data": rows}))
    else:
        for row in rows:
            print(f"{row['name']:7} {row['status']:14} {row['about']}")
            if row["missing"]:
                print(f"{'':23}put into {row['folder']}: {', '.join(row['missing'])}")


@data_app.command("check")
def data_check(
    name: Annotated[str, typer.Argument(metavar="NAME")], data_dir: DataDir = None, as_json: AsJson = False
) -> None:
    """Read a data set whole and say what is in it."""
    from segma.data import sources

    found = sources.check(name, data_dir, _bar)
    print(json.dumps(found) if as_json else "\n".join(f"{key}: {value}" for key, value in found.items()))


@data_app.command("fetch")
def data_fetch(name: Annotated[str, typer.Argument(metavar="NAME")], data_dir: DataDir = None) -> None:
    """Download a data set from its owners, or say what to put where."""
    from segma.data import sources

    sources.fetch(name, data_dir, _bar)
    print(f"{name} is ready")


def _train(job: Any) -> None:
    """Train with a live bar; the first Ctrl-C saves and says how to go on. Of several processes the first speaks."""
    from segma import distributed, launch, progress

    with progress.interruptible() as interrupted:
        steps = launch.train(job, interrupted.is_set)
        if distributed.rank() > 0:
            deque(steps, maxlen=0)
            return
        several = f" x {distributed.size()}" if distributed.size() > 1 else ""
        print(f"run: {job.run.path} ({job.device}{several})", file=sys.stderr)
        try:
            last = progress.show(steps, job.run.config.epochs)
        except RunFailed as problem:
            hint = f"; once mended, go on with: segma resume {job.run.path}" if problem.resumable else ""
            raise RunFailed(f"{problem}{hint}") from problem
    if last is None:
        print(f"already finished, at step {job.state.step}", file=sys.stderr)
    elif last.step < last.last:
        print(f"stopped at step {last.step}, saved; go on with: segma resume {job.run.path}", file=sys.stderr)
        raise typer.Exit(1)
    if len(job.data.x_test):
        _show_results(job.run, launch.measure(job.run, job.data, job.state.result.eval()), as_json=False)
    for picture in sorted((job.run.path / "samples").glob("*.png"))[-1:]:
        print(f"samples, one row per class: {picture}")
    print(f"run: {job.run.path}")


def _show_results(run: Any, results: dict, as_json: bool) -> None:
    """Print, then keep in results.json: what was measured is seen even where it cannot be written."""
    print(json.dumps(results) if as_json else _as_text(results))
    from segma import runs

    runs.write_json(run.path / "results.json", results)


def _as_text(results: dict) -> str:
    split = "test" if "test_error" in results else "validation"
    wrong, protocol = results[f"{split}_error"], results["protocol"]
    names = results["classes"]
    width = max(len(name) for name in names)
    lines = ["rows: true class; columns: the class it was taken for"]
    if width <= 5:
        lines.append(f"  {'':{width}}  " + " ".join(f"{name:>5}" for name in names))
    for name, row in zip(names, results["confusion"], strict=True):
        lines.append(f"  {name:>{width}}  " + " ".join(f"{count:5d}" for count in row))
    shown = "no labelled rows to measure on" if wrong is None else f"{wrong:.2%}"
    return "\n".join(
        [
            *lines,
            f"reconstruction error: {results['reconstruction_error']:.4g} (squared, per sample)",
            f"log d^2: {results['log_distance']:.3f}",
            f"{split} error: {shown}  ({protocol['labels']} labels, {protocol['split']})",
        ]
    )


def _bar(items: Any, total: int, text: str) -> Any:
    from segma import progress

    return progress.bar(items, total, text)


def main() -> NoReturn:
    """Run a command; a user's mistake is one line on stderr and exit status 2, a failed job 1."""
    if sys.argv[1:] in ([], ["data"]):
        sys.argv.append("--help")
    warnings.showwarning = _note  # ty: ignore[invalid-assignment]
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except InputError as problem:
        _fail(str(problem), 2)
    except RunFailed as problem:
        _fail(str(problem), 1)
    except KeyboardInterrupt:
        _fail("stopped", 1)
    except OSError as problem:
        _fail(f"{problem.filename or 'a file'}: {problem.strerror or problem}", 1)
    except Exception as problem:
        message = getattr(problem, "format_message", None)  # the command-line library's own: a wrong option, say
        if message is None:
            raise
        _fail(message(), 2)


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code it came from."""
    print(f"segma: note: {message}", file=sys.stderr)


def _fail(message: str, status: int) -> NoReturn:
    print("segma: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
