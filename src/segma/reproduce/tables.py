"""The paper's tables, measured: a line per model, the paper's number beside ours."""

import statistics
from typing import NamedTuple

from segma.reproduce import cells
from segma.reproduce.cells import Work
from segma.reproduce.paper import ROWS, TABLES, rows

FEW = 2048  # samples below which Inception's features do not determine their covariance


class Section(NamedTuple):
    """A part of the page: a title, a table as rows of cells (the first is its head), captioned pictures, notes."""

    title: str
    table: list[list[str]]
    pictures: list[tuple[str, str]]  # caption, file
    notes: list[str]


def table(item: str, work: Work) -> Section:
    """Train and measure what the table needs, then draw it up."""
    about = TABLES[item]
    lines, notes = [["model", "the paper", "measured", "seeds", "steps", "training", "command"]], []
    samples: set[int] = set()
    for row in rows(about.numbers, work.data):
        good = cells.results(row, work, work.seeds, fid=about.score != "error")
        if work.stop():
            break
        paths = cells.finished(row, work)
        if not paths and work.only and row not in work.only:
            continue
        protocols = [result[about.score]["protocol"] for result in good if about.score in result]
        samples |= {protocol["samples"] for protocol in protocols}
        values = [value for value in (score(result, about.score) for result in good) if value is not None]
        paper, known = about.numbers[row].get(work.data), [cells.told(path) for path in paths]
        lines.append(
            [
                ROWS[row].title,
                "-" if paper is None else about.form.format(paper),
                shown(values, about.form) if values else "failed" if not good else "-",
                str(len(values)),
                steps(good, known),
                took(known),
                f"`{known[0].get('command', '')}`" if known else "-",
            ]
        )
    if about.score != "error":
        counts = " or ".join(f"{n:,}" for n in sorted(samples or {work.samples}))
        notes.append(f"FID against the test split, {counts} samples, Inception of 2015-12-05.")
        if work.weights is None:
            notes.append("The FID network's weights are not there, so nothing was measured: see the guide, Scores.")
        elif min(samples, default=FEW) < FEW:
            notes.append(f"Those of fewer than {FEW:,} samples compare with each other only.")
    return Section(f"{item.replace('table', 'Table ')}: {about.title}, {work.whole.name}", lines, [], notes)


def score(result: dict, name: str) -> float | None:
    if name == "error":
        return result.get("test_error", result.get("validation_error"))
    return result[name]["test"] if name in result else None


def shown(values: list[float], form: str) -> str:
    spread = f" ± {form.format(statistics.stdev(values))}" if len(values) > 1 else ""
    return form.format(statistics.fmean(values)) + spread


def steps(results: list[dict], known: list[dict]) -> str:
    """How many, and of how many the recipe has, if that is more."""
    done = sorted({result["protocol"]["steps"] for result in results})
    of = max((about.get("of", 0) for about in known), default=0)
    short = f" of {of:,}" if done and of > 1.02 * done[-1] else ""  # a budget is whole epochs
    return ", ".join(f"{number:,}" for number in done) + short


def took(known: list[dict]) -> str:
    """Seconds of training, the mean over the seeds; of a stack, those of all together."""
    seconds = [about["seconds"] for about in known if "seconds" in about]
    if not seconds:
        return "-"
    together = max(about.get("together", 1) for about in known)
    return f"{statistics.fmean(seconds):,.0f} s" + (f" for {together} at once" if together > 1 else "")


def differences(work: Work) -> list[str]:
    """What is not as in the paper, for these data and this budget."""
    about = {
        "digits": "The 8x8 digits are not in the paper, whose numbers are for other data.",
        "svhn": "SVHN, cropped anew from whole numbers, without its extra set (73,257 training images, not 604,388).",
        "celeba": f"CelebA: {len(work.whole.x_train):,} training images (the paper: 162,770 or 182,637).",
    }
    notes = [about[work.data]] if work.data in about else []
    if work.most is not None:
        notes.append("Models with fewer steps than their recipe has (the column says so) may not have converged.")
    notes.append("Labels: a stratified random subset for each seed; the last weights are measured, none is chosen.")
    return notes
