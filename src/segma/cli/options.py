"""What several commands take, and the bar they show while something is read or measured."""

from pathlib import Path
from typing import Annotated, Any

import typer

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
