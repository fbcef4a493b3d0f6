"""Which control does what: the panels' events, connected to actions and to the panels that show what came of them."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr

from segma import apply
from segma.errors import InputError
from segma.studio import actions, export, look, session, shelf, view
from segma.studio.session import Given, History
from segma.studio.shelf import Opened, Version


def warn(problem: object) -> None:
    gr.Warning(view.escape(problem), duration=8)


def wire(p: SimpleNamespace, on: Callable, blocks: gr.Blocks, known: Callable[[], dict[str, Path]]) -> None:
    """Connect the panels; `known` are the runs there are now."""
    wire_start(p, blocks, known)
    wire_opening(p, on)
    wire_editing(p, on)
    wire_between(p, on)
    wire_generating(p, on)
    on([p.look_tab.select], lambda opened: look.overview(opened.run.path), [], list(vars(p.look).values()))

    def take(opened: Opened, given: Given, history: History) -> list:
        edit = history.now
        files = view.downloads(export.files(opened, given, edit))
        return [files, export.python(opened, given, edit), export.command(opened, given, edit)]

    on([p.take_tab.select], take, [p.given, p.history], [p.take.links, p.take.python, p.take.shell])


def fresh(p: SimpleNamespace, opened: Opened, given: Given) -> list:
    """The values of p.fresh when a picture has been opened."""
    given, text, rest = actions.fresh(opened, given)
    invert = gr.Button(visible=given.doubt == apply.NEGATIVE)
    return [given, text, invert, 0, *rest, *actions.sliders(opened, given, p.room)]


def wire_start(p: SimpleNamespace, blocks: gr.Blocks, known: Callable[[], dict[str, Path]]) -> None:
    """The page is loaded, with the run that its address names, or another run is chosen: the controls become those of
    the run, its first picture opens."""

    def switch(found: dict[str, Path], name: str) -> list:
        if name not in found:
            raise InputError(f"run {name}: allowed are {', '.join(found)}")
        version = shelf.version(found[name])
        opened = shelf.opened(version)
        start = fresh(p, opened, actions.first_picture(opened))
        listed = gr.Dropdown(list(found), value=name)
        parts = [gr.Tabs(selected="edit"), *actions.about(opened), *start, 0]
        return [listed, version, *parts, None, None, "", "", *no_way(), "", ""]

    def choose(name: str, version: Version) -> list:
        try:
            return switch(known(), name)
        except InputError as problem:  # the list goes back to the run that is open
            warn(problem)
            return [gr.Dropdown(value=version.path.name), *(gr.skip() for _ in outputs[1:])]

    def load(name: str) -> list:
        """A run that the address names and that is no longer there, or damaged, is told; then the first one opens."""
        first, found = p.run.value, known()
        if name != first:
            try:
                return switch(found, name)
            except InputError as problem:
                warn(problem)
        return choose(first, p.version.value)

    parts = [p.tabs, p.about, p.edit.tabs, p.edit.attribute_tab, p.edit.area]
    parts += [p.open.canvas, p.open.drawing, p.open.tests, p.new.label]
    way = p.between
    ends = [p.first, p.last, way.start, way.end, way.strip, way.python, way.shell]
    outputs = [p.run, p.version, *parts, *p.fresh, p.open.row, *ends, p.new.samples, p.new.shell]
    options: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    p.run.input(choose, [p.run, p.version], outputs, **options)
    p.run.change(None, [p.run], None, js="name => studio.name(name)")
    # by `switch`, not by Gradio, which knows the runs that there were when the studio was started
    blocks.load(load, [p.run], outputs, js="name => studio.named(name)", preprocess=False, **options)


def wire_opening(p: SimpleNamespace, on: Callable) -> None:
    def upload(opened: Opened, file: str) -> list:
        try:
            given = actions.uploaded(opened, file)
            if given.doubt:
                warn(f"{given.word}: {given.doubt}")
            return [None, *fresh(p, opened, given)]
        except InputError as problem:  # the field is emptied all the same, for the next one
            warn(problem)
            return [None, *(gr.skip() for _ in p.fresh)]

    def invert(opened: Opened, given: Given) -> list:
        return fresh(p, opened, session.inverted(opened, given))

    def row(opened: Opened, number: float | None) -> list:
        return fresh(p, opened, session.test_picture(opened, int(number or 0)))

    def another(opened: Opened) -> list:
        number = actions.another_row(opened)
        return [number, *row(opened, number)]

    on([p.open.upload.upload], upload, [p.open.upload], [p.open.upload, *p.fresh])
    on([p.open.row.submit, p.open.row.input], row, [p.open.row], p.fresh, preprocess=False)
    on([p.open.another.click], another, [], [p.open.row, *p.fresh])
    on([p.open.invert.click], invert, [p.given], p.fresh)


def wire_editing(p: SimpleNamespace, on: Callable) -> None:
    state = [p.given, p.history]

    def change(opened: Opened, given: Given, history: History, *values: float) -> tuple:
        edit = actions.read_sliders(opened, values, p.room, history.now.shift)
        return actions.changed(opened, given, history, edit)

    def move(opened: Opened, given: Given, history: History, at: dict) -> tuple:
        return actions.changed(opened, given, history, actions.moved(opened, given, history, at))

    def click(opened: Opened, given: Given, history: History, at: dict) -> tuple:
        """In a class's circle the picture goes to that class, as by its slider; elsewhere it moves on the plane."""
        label = actions.pointed(opened, at)
        if label is not None:
            history = session.step(history, session.to_class(history.now, label, session.own(opened, given)))
            return *actions.shown(opened, given, history), *actions.stand(history.now, p.room)
        return *move(opened, given, history, at), *(gr.skip() for _ in p.sliders)

    def back(step: Callable[[Opened, History], History]) -> Callable:
        def go(opened: Opened, given: Given, history: History) -> tuple:
            history = step(opened, history)
            return *actions.shown(opened, given, history), *actions.stand(history.now, p.room)

        return go

    live = {"queue": False, "trigger_mode": "always_last"}  # the picture follows the hand
    on(
        [slider.input for slider in p.sliders],
        change,
        [*state, *p.sliders],
        p.picture,
        api_name="change",
        api_visibility="undocumented",
        preprocess=False,  # by panels.check, which does not fail in the middle of a slider's move
        **live,
    )
    on([p.edit.area.click], click, state, [*p.picture, *p.sliders], event=True, queue=False, trigger_mode="multiple")
    on([p.edit.area.select], move, state, p.picture, event=True, queue=False, trigger_mode="multiple")
    steps = {
        p.show.undo: lambda _, history: session.undo(history),
        p.show.redo: lambda _, history: session.redo(history),
        p.show.reset: lambda opened, history: session.step(history, session.neutral(opened)),
    }
    for button, step in steps.items():
        on([button.click], back(step), state, [*p.picture, *p.sliders])


def no_way() -> list:
    """The strip and the programs while there is nothing in them."""
    hidden = gr.Code("", visible=False)
    return ["", hidden, hidden]


def wire_between(p: SimpleNamespace, on: Callable) -> None:
    here = p.between

    def take(_: Opened, given: Given) -> list:
        """An end is chosen; a way from or to another that is shown goes."""
        return [given, view.figure(given.x, given.word, "an end of the way"), *no_way()]

    def go(opened: Opened, given: Given, first: Given | None, last: Given | None, steps: int, path: str) -> list:
        first, last = first or given, last or actions.other_picture(opened, given)
        last = session.told_apart(first, last)
        ends = [view.figure(end.x, end.word, "an end of the way") for end in (first, last)]
        made = actions.between(opened, first, last, int(steps), path)
        programs = [make(opened, first, last, int(steps), path) for make in (export.way_python, export.way_command)]
        return [first, last, *ends, made, *(gr.Code(text, visible=True) for text in programs)]

    def again(opened: Opened, given: Given, first: Given | None, last: Given | None, steps: int, path: str) -> list:
        """Other steps, or another path: the way that is shown follows."""
        return go(opened, given, first, last, steps, path) if first and last else [gr.skip() for _ in outputs]

    way = [here.strip, here.python, here.shell]
    outputs = [p.first, p.last, here.start, here.end, *way]
    inputs = [p.given, p.first, p.last, here.steps, here.path]
    on([here.take_start.click], take, [p.given], [p.first, here.start, *way])
    on([here.take_end.click], take, [p.given], [p.last, here.end, *way])
    on([here.go.click], go, inputs, outputs, preprocess=False)
    on([here.steps.input, here.path.input], again, inputs, outputs, preprocess=False, trigger_mode="always_last")


def wire_generating(p: SimpleNamespace, on: Callable) -> None:
    here, settings = p.new, [p.new.label, p.new.seed, p.new.spread]

    def draw(opened: Opened, label: str, seed: float | None, spread: float) -> list:
        made, command = actions.generated(opened, label, seed, spread)
        return [made, command]

    def pick(opened: Opened, at: dict) -> list:
        return [gr.Tabs(selected="edit"), *fresh(p, opened, actions.picked(opened, at))]

    asked = [p.new_tab.select, *(control.change for control in settings)]
    drawn = [here.samples, here.shell]
    on(asked, draw, settings, drawn, trigger_mode="always_last", preprocess=False)  # none is lost while one is drawn
    on([here.samples.select], pick, [], [p.tabs, *p.fresh], event=True)
