"""Live progress on stderr: a bar in a terminal, plain lines elsewhere, and a gentle Ctrl-C."""

import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, track

SHORT = {"reconstruction": "mse", "log_distance": "log d2", "cross_entropy": "ce"}
LINE_SECONDS = 10  # between two lines where there is no terminal


@contextmanager
def interruptible() -> Generator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets, so that work can stop between two steps; a second one kills."""
    event = threading.Event()

    def ask(_number: int, _frame: Any) -> None:
        event.set()
        for other, handler in before.items():
            signal.signal(other, handler)
        print("stopping as soon as nothing is lost; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def bar(items: Iterable, total: int, text: str) -> Iterable:
    """Iterate with a bar, or with a line now and then where there is no terminal; a total of 0 is one not known."""
    console = Console(stderr=True)
    return (
        track(items, text, total, console=console, transient=True) if console.is_terminal else lines(items, total, text)
    )


def lines(items: Iterable, total: int, text: str) -> Iterator:
    began = line_at = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - line_at > LINE_SECONDS:
            line_at, left = now, (now - began) / done * (total - done)
            share = f"{done / total:.0%}, {timedelta(seconds=round(left))} left" if total else f"{done:,}"
            print(f"{text}: {share}", file=sys.stderr)
        yield item


def show(steps: Iterable, epochs: int) -> Any:
    """Consume the steps of a training and show epoch, losses, error, speed and time left. Returns the last step."""
    console, step = Console(stderr=True), None
    if console.is_terminal:
        columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, console=console, refresh_per_second=4) as live:
            task = live.add_task("")
            for step, text, _ in described(steps, epochs):
                live.update(task, total=step.last, completed=step.step, description=text)
    else:
        line_at = time.monotonic()
        for step, text, left in described(steps, epochs):
            if time.monotonic() - line_at > LINE_SECONDS or step.step == step.last:
                line_at = time.monotonic()
                print(f"{step.step}/{step.last} {text}  {timedelta(seconds=round(left))} left", file=sys.stderr)
    return step


def show_many(steps: Iterable, count: int) -> None:
    """Consume the steps of a sweep, (job, step) of one model after another, and show how far all of them are."""
    console, done, line_at = Console(stderr=True), {}, time.monotonic()
    columns = (BarColumn(20), TextColumn("{task.percentage:.0f} %  {task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, refresh_per_second=4, disable=not console.is_terminal) as live:
        task = live.add_task("", total=count)
        for job, step in steps:
            done[job.run.path] = step.step / step.last
            if step.values:
                share, text = sum(done.values()), f"{len(done)} of {count} models, loss {step.values['loss']:.4g}"
                live.update(task, completed=share, description=text)
                if not console.is_terminal and time.monotonic() - line_at > LINE_SECONDS:
                    line_at = time.monotonic()
                    print(f"{share / count:.0%}  {text}", file=sys.stderr)


def _shown(values: dict[str, float]) -> list[str]:
    """The terms worth a place on the line: SeGMA's three, of a rival all that are not 0."""
    own = [name for name in SHORT if name in values]
    return own if len(own) == len(SHORT) else [name for name, value in values.items() if value and name != "gradient"]


def described(steps: Iterable, epochs: int) -> Iterator[tuple[Any, str, float]]:
    """Each step with a line about it, made of the last values seen, and the seconds that are left."""
    began, first, losses, error = time.monotonic(), None, "", ""
    for step in steps:
        first = step.step - 1 if first is None else first
        seconds = max(time.monotonic() - began, 1e-9)
        done = step.step - first  # of a stack, not every step is told
        if step.values:
            losses = "".join(f"  {SHORT.get(name, name)} {step.values[name]:.3g}" for name in _shown(step.values))
        if step.error is not None:
            error = f"  error {step.error:.1%}"
        epoch = f"epoch {min(int(step.epoch) + 1, epochs)}/{epochs}"
        yield (
            step,
            f"{epoch}{losses}{error}  {done * step.rows / seconds:,.0f}/s",
            seconds / done * (step.last - step.step),
        )
