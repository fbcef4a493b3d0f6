"""What the page does when a person does something: values of controls in, what the panels show out."""

import math
import random
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import torch

from segma import apply, draw
from segma.errors import InputError
from segma.studio import export, look, session, uploads, view
from segma.studio.session import Edit, Given, History
from segma.studio.shelf import Opened

Shown = tuple[Any, ...]  # history, stage, bars, marker, undo, redo


def shown(opened: Opened, given: Given, history: History) -> Shown:
    """The picture where the history stands, and all that follows it."""
    z = session.code(opened, given, history.now)
    frame, _ = look.chart(opened)
    places = session.place(opened, torch.from_numpy(given.z)), session.place(opened, z)
    now = session.picture(opened, z)[0]
    return (
        history,
        view.stage(now, given.x),
        view.bars(opened.run.classes, session.posterior(opened, z), session.read_again(opened, now)),
        view.marker(frame, *places),
        gr.Button(interactive=bool(history.past)),
        gr.Button(interactive=bool(history.future)),
    )


def stand(edit: Edit, room: int) -> list[Any]:
    """The values of all sliders as an edit has them; those that the run does not need stay at 0."""
    parts = (edit.towards, edit.intensity, edit.attribute)
    return [value for part in parts for value in (*part, *[0.0] * (room - len(part)))] + [edit.style]


def read_sliders(opened: Opened, values: Sequence[float], room: int, shift: tuple[float, float]) -> Edit:
    k, a = len(opened.run.classes), len(opened.levers)
    parts = (values[i * room : i * room + n] for i, n in enumerate((k, k, a)))
    return Edit(*(tuple(map(float, part)) for part in parts), float(values[-1]), shift)


def fresh(opened: Opened, given: Given) -> tuple[Given, str, Shown]:
    """A picture has been opened: nothing is edited."""
    again = session.picture(opened, torch.from_numpy(given.z))[0]
    history = History(session.neutral(opened))
    return given, view.given(given.x, again, given.note), shown(opened, given, history)


def first_picture(opened: Opened) -> Given:
    """The first of the test split, or, where there is none, a generated one."""
    if opened.rows.missing:
        return session.sampled_picture(opened, 0, export.SAMPLES, 0, 1.0, 0)
    return session.test_picture(opened, 0)


def another_row(opened: Opened) -> int:
    if opened.rows.missing:
        raise InputError(f"there are no test pictures: {opened.rows.missing}")
    return random.randrange(len(opened.rows.x))


def uploaded(opened: Opened, file: str) -> Given:
    return uploads.read(opened, Path(file))


def changed(opened: Opened, given: Given, history: History, edit: Edit) -> Shown:
    """After an edit. When it was is when the page has it: a drag does not fall apart because the computer is slow."""
    after = session.done(history, edit, time.monotonic())
    _, *rest = shown(opened, given, after)
    return after if after is history else after._replace(changed=time.monotonic()), *rest


def moved(opened: Opened, given: Given, history: History, at: dict) -> Edit:
    """To the place on the map that was pointed at."""
    frame, _ = look.chart(opened)
    return session.moved(opened, given, history.now, frame.on_plane(number(at, "x"), number(at, "y")))


def pointed(opened: Opened, at: dict) -> int | None:
    """The class in whose circle the map was pointed at, if any."""
    frame, _ = look.chart(opened)
    return session.class_at(opened, frame.on_plane(number(at, "x"), number(at, "y")))


def number(at: dict, name: str) -> float:
    """A number that the browser sent."""
    value = at.get(name) if isinstance(at, dict) else None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name} = {value!r}: wanted is a number")
    return float(value)


def sliders(opened: Opened, given: Given, room: int) -> list[Any]:
    """All sliders for a picture that has been opened: at rest, those hidden that the run has no use for, and locked
    what leads to where the picture is already."""
    names, own = opened.run.classes, session.own(opened, given)
    towards = [(name, i == own) for i, name in enumerate(names)]
    intensity = [(name, False) for name in names]
    attribute = [
        (lever.text, lever.back is None and session.own(opened, given, lever.axis.groups) == lever.to)
        for lever in opened.levers
    ]
    found: list[Any] = []
    for part in (towards, intensity, attribute):
        found += [
            gr.Slider(value=0, label=f"{text} (its own)" if there else text, visible=True, interactive=not there)
            for text, there in part
        ]
        found += [gr.Slider(value=0, visible=False)] * (room - len(part))
    return [*found, 1.0]


def about(opened: Opened) -> list[Any]:
    """What the page says of a run, and the parts that depend on it: attributes, map, canvas, classes to draw."""
    (h, w, c), names = opened.run.shape, opened.run.classes
    text = (
        f"{opened.run.data['name']}: {len(names)} classes, {'grey' if c == 1 else 'colour'}. A picture of any size is "
        f"cut to its centre and resized to {w} x {h}; results have that resolution, the model's, and are shown large "
        "without blur."
    )
    done, last = opened.steps
    unfinished = f"It has trained {done:,} of its {last:,} steps; it goes on with: segma resume "
    unfinished += shlex.quote(opened.run.called)
    note = f'<p class="note told">{view.escape(unfinished)}</p>' if done < last else ""
    return [
        f'<p class="note">{view.escape(text)}</p>{note}',
        gr.Tabs(selected="attributes" if opened.levers else "towards"),
        gr.Tab(visible=bool(opened.levers)),
        look.chart(opened)[1],
        look.paper(opened),
        gr.Accordion(visible=c == 1),
        gr.Row(visible=not opened.rows.missing),
        gr.Dropdown(choices=list(names), value=names[0]),
    ]


def other_picture(opened: Opened, given: Given) -> Given:
    """Something to go to, while nobody has chosen: the test picture after the open one, else a new sample."""
    if opened.rows.missing:
        return session.sampled_picture(opened, len(opened.run.classes) - 1, export.SAMPLES, 0, 1.0, 0)
    row = int(given.word.removeprefix("test:")) + 1 if given.word.startswith("test:") else 1
    return session.test_picture(opened, row % len(opened.rows.x))


def wanted(opened: Opened, label: str, seed: float | None, spread: float) -> tuple[int, int, float]:
    """Which samples: class, seed and spread as they are allowed."""
    if not 0 <= (seed or 0) < 2**31:
        raise InputError(f"seed {seed}: allowed are 0 to {2**31 - 1}")
    return apply.class_number(opened.run, str(label)), int(seed or 0), float(spread)


def generated(opened: Opened, label: str, seed: float | None, spread: float) -> tuple[str, str]:
    """A grid of new samples, and the command that draws them."""
    number, seed, spread = wanted(opened, label, seed, spread)
    made = session.samples(opened, number, export.SAMPLES, seed, spread)
    return view.grid(made, label, seed, spread), export.samples_command(opened, number, seed, spread)


def picked(opened: Opened, at: dict) -> Given:
    """A sample that was clicked: which one, and what its gallery was drawn with, which the controls may have left."""
    place, seed, spread = (number(at, name) for name in ("place", "seed", "spread"))
    chosen = wanted(opened, str(at.get("label")), seed, spread)
    if not 0 <= place < export.SAMPLES:
        raise InputError(f"sample {place:g}: allowed are 0 to {export.SAMPLES - 1}")
    return session.sampled_picture(opened, chosen[0], export.SAMPLES, *chosen[1:], int(place))


def between(opened: Opened, a: Given, b: Given, steps: int, path: str) -> str:
    """The strip, the animation, and what makes them again."""
    made = session.way(opened, torch.from_numpy(a.z), torch.from_numpy(b.z), steps, path)
    heads = [f"{t:.2f}" for t in np.linspace(0, 1, steps)]
    films = draw.gif([export.large(x, 256) for x in (*made, *made[-2:0:-1])], 120)
    files = {
        "interpolation.png": (draw.png(draw.grid(made[None])), "image/png", "the strip"),
        "interpolation.gif": (films, "image/gif", "there and back"),
        **export.as_given(a, "the start"),
        **export.as_given(b, "the end"),
    }
    moving = f'<img class="film" alt="the way, there and back" src="{view.data_url(films, "image/gif")}">'
    return f'{view.strip(made, heads)}<div class="row">{moving}{view.downloads(files)}</div>'
