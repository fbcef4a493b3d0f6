"""Commands about data sets: segma data list, check and fetch."""

import json
import sys
from typing import Annotated

import typer

from segma.cli.options import AsJson, DataDir, DataName, bar
from segma.errors import InputError


def listing(data_dir: DataDir = None, as_json: AsJson = False) -> None:
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
        if any(row["missing"] for row in rows):
            print("`segma data fetch NAME` gets what is missing, where a network allows", file=sys.stderr)


def check(
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
    found = sources.check(name, data_dir, bar, config.image_size, config.skip_broken)
    print(json.dumps(found) if as_json else sources.as_text(found))


def fetch(name: Annotated[str, typer.Argument(metavar="NAME")], data_dir: DataDir = None) -> None:
    """Download a data set from its owners, or say what to put where; `inception` is the network of FID."""
    from segma.data import sources

    sources.fetch(name, data_dir, bar)
    print(f"{name} is ready")
