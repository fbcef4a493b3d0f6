"""Live progress on stderr: a bar in a terminal, plain lines elsewhere, and a gentle Ctrl-C."""

import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, track

LINE_SECONDS = 10  # between two lines where there is no terminal


@contextmanager
def interruptible() -> Generator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets, so that work can stop between two steps; a second one kills."""
    event = threading.Event()

    def ask(number: int, _frame: Any) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])
        print("stopping after this step; once more to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def bar(items: Iterable, total: int, text: str) -> Iterable:
    """Iterate with a bar."""
    return track(items, description=text, total=total, console=Console(stderr=True), transient=True)


def show(steps: Iterable, job: Any) -> None:
    """Consume the steps of a training and show epoch, losses, error, speed and time left."""
    console = Console(stderr=True)
    config, began, first = job.run.config, time.monotonic(), job.state.step
    values, wrong, line_at = None, None, began
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, refresh_per_second=4) as live:
        task = live.add_task("", total=None)
        for step in steps:
            values, wrong = step.values or values, wrong if step.error is None else step.error
            now = time.monotonic()
            text = None
            if step.values or now - line_at > LINE_SECONDS or step.step == step.last:
                speed = (step.step - first) * config.batch_size / max(now - began, 1e-9)
                text = describe(step, config.epochs, values, wrong, speed)
            live.update(task, total=step.last, completed=step.step, description=text or live.tasks[task].description)
            if not console.is_terminal and (now - line_at > LINE_SECONDS or step.step == step.last):
                left = (now - began) / (step.step - first) * (step.last - step.step)
                print(f"{step.step}/{step.last} {text} {left:.0f} s left", file=sys.stderr)
                line_at = now


def describe(step: Any, epochs: int, values: dict | None, wrong: float | None, speed: float) -> str:
    parts = [f"epoch {min(int(step.epoch) + 1, epochs)}/{epochs}"]
    if values:
        parts += [
            f"mse {values['reconstruction']:.3g}",
            f"log d2 {values['log_distance']:.2f}",
            f"ce {values['cross_entropy']:.3f}",
        ]
    if wrong is not None:
        parts.append(f"error {wrong:.1%}")
    return "  ".join([*parts, f"{speed:,.0f}/s"])
