"""Commands that use a trained run: classify, generate, edit, export, the studio."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from segma.cli.options import (
    MOST_SEED,
    AsJson,
    DataDir,
    Images,
    Out,
    RunPath,
    Shown,
    SourceClass,
    Steps,
    bar,
    number,
    whole,
)
from segma.errors import InputError


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
    from segma import apply, inputs, runs

    opened = runs.read(run)
    broken: list[InputError] = []
    samples = inputs.read(inputs.Source(opened, data_dir, bar), inputs.unfolded(images), broken=broken)
    found = apply.classify(opened, samples.names, samples.x)
    for line in () if as_json else inputs.said_once(samples):
        print(line, file=sys.stderr)
    print(json.dumps({"results": found}) if as_json else "\n".join(map(_likely, found)))
    if broken:
        raise InputError("; ".join([*map(str, broken), f"{len(found)} of {len(found) + len(broken)} are classified"]))


def _likely(row: dict) -> str:
    """A file's class and the next two that are at all likely, as "a.png: 3 (98.1%; then 8 1.2%, 5 0.4%)"."""
    (name, p), *others = sorted(row["posterior"].items(), key=lambda item: -item[1])[:3]
    rest = ", ".join(f"{name} {p:.1%}" for name, p in others if p >= 0.0005)
    return f"{row['file']}: {name} ({p:.1%}{f'; then {rest}' if rest else ''})"


def sample(
    run: RunPath,
    out: Out,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS", help="A class (with -n 1 a plain picture), again for another; else all."),
    ] = None,
    n: Annotated[str, typer.Option("-n", metavar="N", help="How many of each.")] = "10",
    seed: Annotated[str, typer.Option(metavar="S", help="The same seed gives the same samples.")] = "0",
    spread: Annotated[str, typer.Option(metavar="A", help="Below 1 more typical, above 1 more unusual.")] = "1",
) -> None:
    """Generate new samples, by class, as a picture."""
    from segma import apply, runs

    wide = number("--spread", spread, 0)
    apply.write_samples(runs.read(run), label or [], whole("-n", n, 1), whole("--seed", seed, 0, MOST_SEED), out, wide)
    print(f"wrote {out}")


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
    from segma import edit, inputs, runs

    source = inputs.Source(runs.read(run), data_dir, bar, shown)
    _wrote(out, edit.interpolate(source, a, b, whole("--steps", steps, 2), path, out))


def transfer(
    run: RunPath,
    images: Images,
    to: Annotated[list[str], typer.Option(metavar="CLASS", help="A class, or a value of an attribute, as smiling.")],
    out: Out,
    source: SourceClass = None,
    steps: Steps = "11",
    shown: Shown = True,
    data_dir: DataDir = None,
) -> None:
    """Samples on their way to another class, in their own style."""
    from segma import edit, inputs, runs

    if len(to) > 1:
        raise InputError(f"--to {' --to '.join(to)}: one class at a time; a call for each")
    given = inputs.Source(runs.read(run), data_dir, bar, shown)
    _wrote(out, edit.transfer(given, images, to[0], source, whole("--steps", steps, 2), out))


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
    from segma import edit, inputs, runs

    given = inputs.Source(runs.read(run), data_dir, bar, shown)
    far, n = number("--alpha", alpha), whole("--steps", steps, 2)
    _wrote(out, edit.intensify(given, images, away_from or [], source, far, n, out))


def export(
    run: RunPath,
    form: Annotated[str, typer.Option("--format", help="onnx, or hub: a folder with a model card.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder.")],
) -> None:
    """A run for other programs: ONNX files, or a folder to upload."""
    from segma import export as exported
    from segma import runs

    _wrote(out, exported.export(runs.read(run), form, out))


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

    web.library()
    at = None if port is None else whole("--port", port, 1, 65535)
    web.check_place(host, at)
    web.serve(run or runs.come_along()["mnist"], host, at, browser, lambda line: print(line, flush=True))


def _wrote(out: Path, notes: list[str]) -> None:
    for line in notes:
        print(line, file=sys.stderr)
    print(f"wrote {out}")
