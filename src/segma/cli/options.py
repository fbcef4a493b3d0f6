"""What several commands take, the numbers in it, and the bar they show while something is read or measured."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from segma.errors import InputError

MOST_SEEDS = 1000
MOST_SEED = 2**32 - 1

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


def bar(items: Any, total: int, text: str) -> Any:
    from segma import progress

    return progress.bar(items, total, text)


def whole(name: str, text: str, low: int, high: float = math.inf) -> int:
    """A whole number as typed, from `low` to `high`."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise InputError(
            f"{name} {text}: wanted is a whole number, {low} {'or more' if high == math.inf else f'to {high}'}"
        )
    return value


def number(name: str, text: str, low: float = -math.inf) -> float:
    """A number as typed, not below `low`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < low:
        raise InputError(
            f"{name} {text}: wanted is a number, as 0.5" + (f", {low:g} or more" if low > -math.inf else "")
        )
    return value
