"""The paper's tables and figures, one function each, with the paper's numbers beside ours."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from segma import runs
from segma.errors import InputError, RunFailed
from segma.reproduce import figures, page
from segma.reproduce.cells import Work
from segma.reproduce.paper import TABLES
from segma.reproduce.tables import Section, differences, table

ITEMS: dict[str, Callable[[Work], Section]] = {
    **{name: partial(table, name) for name in TABLES},
    "figure-samples": figures.samples,
    "figure-interpolation": figures.interpolations,
    "figure-transfer": figures.transfer,
    "figure-intensity": figures.intensity,
    "figure-sensitivity": figures.sensitivity,
    "figure-dimension": figures.dimension,
    "figure-labels": figures.labels,
}


def chosen(item: str) -> list[str]:
    """The items of a name: itself, or all."""
    if item == "all":
        return list(ITEMS)
    if item not in ITEMS:
        raise InputError(f"item {item!r}: allowed are {', '.join(ITEMS)}, all")
    return [item]


def reproduce(items: Sequence[str], work: Work) -> list[Section]:
    """Make each item, one after another; index.md and index.html grow with them, and have those made before."""
    began, sections = time.monotonic(), []
    check_same(work)
    for item in items:
        try:
            sections.append(ITEMS[item](work))
        except (InputError, RunFailed) as problem:
            work.failed[item] = str(problem)
            work.say(f"{item} failed: {problem}")
        if work.stop():
            break
        write(items, sections, work, time.monotonic() - began)
    return sections


def check_same(work: Work) -> None:
    """A folder holds one reproduction: of other data or budget it would not be the same."""
    file, asked = work.out / "reproduction.json", {"data": work.data, "budget": work.budget}
    if file.exists() and (found := runs.read_json(file)) != asked:
        raise InputError(f"{work.out} is for --data {found['data']} --budget {found['budget']}: choose another --out")
    runs.write_json(file, asked)


def write(items: Sequence[str], sections: Sequence[Section], work: Work, seconds: float) -> None:
    title = f"SeGMA reproduced on {work.whole.name}"
    again = f"segma reproduce {'all' if len(items) > 1 else items[0]} --data {work.data} --seeds {work.seeds}"
    intro = [
        f"`{again} --budget {work.budget}`: {len(sections)} of {len(items)} items, {seconds:,.0f} s this time "
        f"(what was finished before is not run again), on {'a GPU' if work.device == 'cuda' else 'a CPU'}.",
        *differences(work),
        *(f"{name} failed: {why}" for name, why in work.failed.items()),
    ]
    runs.write(work.out / "index.md", page.as_markdown(title, intro, sections).encode())
    runs.write(work.out / "index.html", page.as_html(title, intro, sections).encode())
