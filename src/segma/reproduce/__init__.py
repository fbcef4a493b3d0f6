"""The paper's tables and figures, one function each, with the paper's numbers beside ours."""

import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial

from segma import files
from segma.errors import InputError, RunFailed, near
from segma.reproduce import cells, figures, page
from segma.reproduce.cells import Work
from segma.reproduce.paper import ROWS, TABLES, rows
from segma.reproduce.tables import Section, differences, table

ITEMS: dict[str, Callable[[Work], Section]] = {
    **{name: partial(table, name) for name in TABLES},
    "figure-samples": figures.samples,
    "figure-interpolation": figures.interpolations,
    "figure-transfer": figures.transfer,
    "figure-intensity": figures.intensity,
    "figure-learning": figures.learning,
    "figure-sensitivity": figures.sensitivity,
    "figure-dimension": figures.dimension,
    "figure-labels": figures.labels,
}


def chosen(names: Sequence[str]) -> list[str]:
    """The items of these names, in the order of the page; `all` is all of them."""
    for name in names:
        if name not in (*ITEMS, "all"):
            raise InputError(f"item {name!r}: {near(name, (*ITEMS, 'all'))}")
    return [item for item in ITEMS if item in names or "all" in names]


def named(only: str) -> tuple[str, ...]:
    """The rows of a list with commas."""
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    for name in names:
        if name not in ROWS:
            raise InputError(f"--only {name}: {near(name, ROWS)}")
    return names


def reproduce(items: Sequence[str], work: Work) -> list[Section]:
    """Make each item, one after another; index.md and index.html grow with them, and have those made before."""
    began, made, (known, calls) = time.monotonic(), {}, earlier(work)
    check(items, work)
    call = command(items, work)
    keep(known, calls, work)  # from now on the folder is for these data and this kind of budget
    for item in items:
        try:
            made[item] = ITEMS[item](work)
        except (InputError, RunFailed) as problem:
            work.failed[item] = str(problem)
            work.say(f"{item} failed: {problem}")
        if work.stop():
            break
        found = known | made
        took = f"{time.monotonic() - began:,.0f} s on {'a GPU' if work.device == 'cuda' else 'a CPU'}"
        write({name: found[name] for name in ITEMS if name in found}, {**calls, call: took}, work)
    return list(made.values())


def check(items: Sequence[str], work: Work) -> None:
    """Before anything trains or is written: whether it can be measured, and goes with what is there."""
    if not len(work.whole.x_test):
        raise InputError(f"{work.whole.name} has no test split to measure on")
    alone = [item for item in items if item in TABLES and TABLES[item].score != "error"]
    if alone and work.weights is None:
        missing = "the FID network's weights are not there (segma data fetch inception)"
        if len(alone) == len(items):
            raise InputError(f"{', '.join(items)}: {missing}, so there is nothing to measure")
        work.say(f"{missing}: {', '.join(alone)} will have no numbers")
    wanted = {row for item in items if item in TABLES for row in rows(TABLES[item].numbers, work.data)}
    for row in wanted & set(work.only or wanted):
        for seed in range(work.seeds):
            cells.check(row, work, seed)


def command(items: Sequence[str], work: Work) -> str:
    words = f"segma reproduce {'all' if len(items) == len(ITEMS) else ' '.join(items)} --data {shlex.quote(work.data)}"
    only = f" --only {','.join(work.only)}" if work.only else ""
    samples = f" --samples {work.fid_samples}" if work.fid_samples else ""
    return f"{words} --seeds {work.seeds}{only} --budget {work.budget}{samples}{'' if work.given else ' --no-given'}"


def keep(found: dict[str, Section], calls: dict[str, str], work: Work) -> None:
    kept = {"data": work.data, "budget": work.budget, "calls": calls, "items": found}
    files.write_json(work.out / "reproduction.json", kept)


def earlier(work: Work) -> tuple[dict[str, Section], dict[str, str]]:
    """What the folder's page has already, and the calls that made it, with their times.

    A folder is for one set of data, and not for quick and real work together.
    """
    file = work.out / "reproduction.json"
    if not file.exists():
        there = {path.name for path in work.out.iterdir()} if work.out.is_dir() else set()
        if there and not there & {"index.md", "runs"}:
            raise InputError(f"{work.out} is not a reproduction, it has {min(there)} in it: choose another --out")
        return {}, {}
    found = files.read_json(file)
    if found["data"] != work.data or (found["budget"] == "quick") != (work.budget == "quick"):
        raise InputError(f"{work.out} is for --data {found['data']} --budget {found['budget']}: choose another --out")
    return {item: Section(*parts) for item, parts in found["items"].items()}, found.get("calls", {})


def write(found: dict[str, Section], calls: dict[str, str], work: Work) -> None:
    """The page of all items that there are, and what is needed to add to it."""
    title, sections = f"SeGMA reproduced on {work.whole.name}", list(found.values())
    intro = [
        *(f"`{call}`: {took}." for call, took in calls.items()),
        *(["What an earlier call had finished was not run again."] if len(calls) > 1 else []),
        *differences(work),
        *(f"{name} failed: {why}" for name, why in work.failed.items()),
    ]
    keep(found, calls, work)
    files.write(work.out / "index.md", page.as_markdown(title, intro, sections).encode())
    files.write(work.out / "index.html", page.as_html(title, intro, sections).encode())
