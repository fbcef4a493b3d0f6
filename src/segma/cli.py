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


RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder; or digits or mnist, which come trained.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data files are; else $SEGMA_DATA, else ~/.cache/segma.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DataName = Annotated[
    str, typer.Argument(metavar="DATA", help="digits, mnist, svhn, celeba, an .npz, a .csv or a folder.")
]
Out = Annotated[Path, typer.Option(metavar="FILE", help="A .png or .gif that does not exist yet; tables: .csv.")]

Images = Annotated[
    list[str],
    typer.Argument(metavar="IMAGE...", help="Image files, or test:12 for a row of the test split; for tables a .csv."),
]
SourceClass = Annotated[str | None, typer.Option(metavar="CLASS", help="The class they are of; else as classified.")]
Shown = Annotated[bool, typer.Option("--given/--no-given", help="Whether a .png shows the samples as given, too.")]
Steps = Annotated[str, typer.Option(metavar="N", help="How many on the way, the ends included.")]


@app.command()
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
        _train(launch.start(data, recipe, changes, out, data_dir, device, _bar))


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """Go on with a run that was stopped, exactly."""
    from segma import distributed, launch

    with distributed.group(launch.choose_device(device)):
        _train(launch.resume(run, data_dir, device, _bar))


@app.command()
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
    maps = " and heat maps" if list(folder.glob("*.png")) else ""
    print(f"runs, table{maps}: {folder}", file=sys.stderr)
    if failed := [row["run"] for row in rows if "error" not in row]:
        raise RunFailed(f"{len(failed)} of {len(rows)} failed, losses that are not finite: {', '.join(failed)}")


@app.command()
def evaluate(
    run: RunPath,
    fid: Annotated[bool, typer.Option("--fid", help="Also FID, KID, interpolation and reconstruction FID.")] = False,
    editing: Annotated[bool, typer.Option("--editing", help="Also how well transfer and intensity work.")] = False,
    samples: Annotated[
        str, typer.Option(metavar="N", help="Images to generate for FID; fewer than 10,000 are marked.")
    ] = "10000",
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
    from segma import launch, report, runs
    from segma.config import whole

    count, opened = whole("--samples", samples, 2), runs.read(run)
    model = runs.load_model(opened, launch.choose_device(device))
    results = report.measure(opened, model, data_dir, inception, count if fid else None, editing, _bar)
    _show_results(opened, results, as_json)


@app.command()
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
    from segma.config import whole
    from segma.reproduce.cells import Work

    wanted, named = again.chosen(items), again.named(only)
    if budget not in ("quick", "paper"):
        if not budget.isdecimal() or not int(budget):
            raise InputError(f"--budget {budget}: allowed are quick, paper, or a number of steps for each model")
        budget = str(int(budget))
    folder = out or Path("reproductions") / f"{Path(data).stem}-{budget}"
    with progress.interruptible() as interrupted:

        def measuring(items: Any, total: int, text: str) -> Any:  # stops at once: it is done again
            for item in _bar(items, total, text):
                if interrupted.is_set():
                    raise KeyboardInterrupt
                yield item

        work = Work(
            data,
            launch.read_data(data, {}, data_dir, _bar),
            whole("--seeds", seeds, 1),
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


@app.command()
def classify(
    run: RunPath,
    images: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE...", help="Image files, folders of these, or test:12; for tables a .csv."),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """The class of each image and how sure the model is."""
    from segma import apply, edit, runs

    opened = runs.read(run)
    broken: list[InputError] = []
    samples = edit.read(edit.Source(opened, data_dir, _bar), edit.unfolded(images), broken=broken)
    found = apply.classify(opened, samples.names, samples.x)
    if as_json:
        print(json.dumps({"results": found}))
    for line in [] if as_json else edit.said_once(samples):
        print(line, file=sys.stderr)
    for row in [] if as_json else found:
        likely = sorted(row["posterior"].items(), key=lambda item: -item[1])[:3]
        others = "  ".join(f"{name} {p:.1%}" for name, p in likely[1:])
        print(f"{row['file']}: {row['class']}  {likely[0][1]:.1%}  (then {others})")
    if broken:
        raise InputError("; ".join([*map(str, broken), f"the other {len(found)} are classified"]))


@app.command()
def sample(
    run: RunPath,
    out: Out,
    label: Annotated[str | None, typer.Option(metavar="CLASS", help="One class; else a row for each.")] = None,
    n: Annotated[str, typer.Option("-n", metavar="N", help="How many of each.")] = "10",
    seed: Annotated[str, typer.Option(metavar="S", help="The same seed gives the same samples.")] = "0",
    spread: Annotated[str, typer.Option(metavar="A", help="Below 1 more typical, above 1 more unusual.")] = "1",
) -> None:
    """Generate new samples, by class, as a picture."""
    from segma import apply, edit, runs
    from segma.config import whole

    wide = edit.number("--spread", spread, 0)
    apply.write_samples(runs.read(run), label, whole("-n", n, 1), whole("--seed", seed, 0), out, wide)
    print(f"wrote {out}")


@app.command()
def interpolate(
    run: RunPath,
    a: Annotated[str, typer.Argument(metavar="A", help="An image file, or test:12 for a row of the test split.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    out: Out,
    steps: Steps = "11",
    path: Annotated[str, typer.Option(help="linear, or density: around the empty space between classes.")] = "linear",
    shown: Shown = True,
    data_dir: DataDir = None,
) -> None:
    """What lies between two samples, as a strip or an animation."""
    from segma import edit, runs
    from segma.config import whole

    source = edit.Source(runs.read(run), data_dir, _bar, shown)
    _wrote(out, edit.interpolate(source, a, b, whole("--steps", steps, 2), path, out))


@app.command()
def transfer(
    run: RunPath,
    images: Images,
    to: Annotated[str, typer.Option(metavar="CLASS", help="A class, or a value of an attribute, as smiling.")],
    out: Out,
    source: SourceClass = None,
    steps: Steps = "11",
    shown: Shown = True,
    data_dir: DataDir = None,
) -> None:
    """Samples on their way to another class, in their own style."""
    from segma import edit, runs
    from segma.config import whole

    given = edit.Source(runs.read(run), data_dir, _bar, shown)
    _wrote(out, edit.transfer(given, images, to, source, whole("--steps", steps, 2), out))


@app.command()
def intensify(
    run: RunPath,
    images: Images,
    out: Out,
    away_from: Annotated[
        list[str] | None, typer.Option(metavar="CLASS", help="What to move away from; repeatable; else all others.")
    ] = None,
    alpha: Annotated[str, typer.Option(metavar="A", help="How far; below 0 weakens.")] = "0.5",
    source: SourceClass = None,
    steps: Steps = "11",
    shown: Shown = True,
    data_dir: DataDir = None,
) -> None:
    """Samples with more, or less, of what marks their class."""
    from segma import edit, runs
    from segma.config import whole

    given = edit.Source(runs.read(run), data_dir, _bar, shown)
    far, n = edit.number("--alpha", alpha), whole("--steps", steps, 2)
    _wrote(out, edit.intensify(given, images, away_from or [], source, far, n, out))


@app.command()
def similarity(
    run: RunPath,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A .png: distances as tree and colours.")] = None,
    map_out: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="A .png: codes of the data in a plane.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Which classes lie close: the distances of the trained means."""
    from segma import edit, runs
    from segma import similarity as classes

    opened = runs.read(run)
    classes.check_names(opened, out, map_out)
    found = classes.measure(opened)
    notes = classes.write_map(edit.Source(opened, data_dir, _bar), map_out) if map_out else []
    if out:
        classes.write_picture(found, out)
    print(json.dumps(found) if as_json else classes.as_text(found))
    for line in [*notes, *(f"wrote {file}" for file in (out, map_out) if file)]:
        print(line, file=sys.stderr)


@app.command()
def studio(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run on images; else MNIST's digits.")] = None,
    port: Annotated[
        str | None, typer.Option(metavar="P", help="The port to serve at; else the first that is free.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to serve at: this computer alone, unless told.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Open a local web page to edit images with a run, or with a model that comes trained."""
    try:
        from segma import studio as web
    except ImportError:
        raise InputError("the studio is not part of this installation") from None
    from segma import runs
    from segma.config import whole

    web.library()
    at = None if port is None else whole("--port", port, 1)
    web.check_place(host, at)
    web.serve(run or runs.come_along()["mnist"], host, at, browser, lambda line: print(line, flush=True))


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
    name: DataName,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="image_size or skip_broken, of a folder.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Read a data set whole and say what is in it."""
    from segma.config import Config, assignments, override
    from segma.data import sources

    changes = assignments(settings or [])
    for key in changes.keys() - {"image_size", "skip_broken"}:
        raise InputError(f"--set {key}: data are read with image_size and skip_broken alone")
    config = override(Config(), changes)
    found = sources.check(name, data_dir, _bar, config.image_size, config.skip_broken)
    print(json.dumps(found) if as_json else "\n".join(f"{key}: {value}" for key, value in found.items()))


@data_app.command("fetch")
def data_fetch(name: Annotated[str, typer.Argument(metavar="NAME")], data_dir: DataDir = None) -> None:
    """Download a data set from its owners, or say what to put where; `inception` is the network of FID."""
    from segma.data import sources

    sources.fetch(name, data_dir, _bar)
    print(f"{name} is ready")


def _wrote(out: Path, notes: list[str]) -> None:
    for line in notes:
        print(line, file=sys.stderr)
    print(f"wrote {out}")


def _train(job: Any) -> None:
    """Train with a live bar; the first Ctrl-C saves and says how to go on. Of several processes the first speaks."""
    from segma import distributed, launch, progress, report

    with progress.interruptible() as interrupted:
        steps = launch.train(job, interrupted.is_set)
        if distributed.rank() > 0:
            deque(steps, maxlen=0)
            return
        several = f" x {distributed.size()}" if distributed.size() > 1 else ""
        print(f"run: {job.run.path} ({job.device}{several})", file=sys.stderr)
        print(report.in_hand(job.data), file=sys.stderr)
        if job.run.config.critic and str(job.device) == "cpu":
            note = "a critic makes a step two to four times as long on a CPU; --set critic=0 does without, less sharply"
            print(note, file=sys.stderr)
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
    model = job.state.result.eval()
    if len(job.data.x_test):
        _show_results(job.run, report.basic(job.run, job.data, model), as_json=False)
    else:
        if job.run.config.train_weights and len(model.class_weights) == len(job.run.classes):
            print(report.learned_shares(job.run.classes, model.class_weights.tolist()))
        print("no test split to measure on; --set holdout=0.2 would keep some labelled rows for it", file=sys.stderr)
    for picture in sorted((job.run.path / "samples").glob("*.png"))[-1:]:
        print(f"samples{'' if job.run.config.model == 'cwae' else ', one row per class'}: {picture}")
    print(f"run: {job.run.path}")


def _show_results(run: Any, results: dict, as_json: bool) -> None:
    """Print, then keep in results.json: what was measured is seen even where it cannot be written."""
    from segma import report, runs

    print(json.dumps(results) if as_json else report.as_text(results))
    if not run.comes_along:
        runs.write_json(run.path / "results.json", results)


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
