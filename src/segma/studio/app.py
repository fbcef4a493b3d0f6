"""The page: its panels, and which of them act on which."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr

from segma import runs
from segma.errors import InputError
from segma.studio import actions, export, look, panels, session, shelf, view
from segma.studio.session import Given, History
from segma.studio.shelf import Opened

ABOUT = "Open an image, change what it is, watch it change. Everything stays on this computer."


def page(found: Mapping[str, Path]) -> gr.Blocks:
    """The studio for these runs, by name; the first is shown first."""
    named = [runs.read(path).classes for path in found.values()]
    classes, attributes = max(map(len, named)), max(len(shelf.levers(names)) for names in named)
    with gr.Blocks(title="segma studio", analytics_enabled=False, delete_cache=(600, 600)) as blocks:
        p = SimpleNamespace(given=gr.State(), history=gr.State(), first=gr.State(), last=gr.State())
        with gr.Row(elem_id="top"):
            gr.HTML(f"<h1>segma studio</h1><p>{ABOUT}</p>", elem_id="title")
            p.run = gr.Dropdown(
                list(found),
                value=next(iter(found)),
                label="Run: yours, and those that come along",
                elem_id="run",
                min_width=220,
            )
        p.about = gr.HTML(elem_id="about")
        with gr.Tabs(elem_id="tabs") as p.tabs:
            with gr.Tab("Edit", id="edit"), gr.Row(elem_id="bench"):
                with gr.Column(scale=3, min_width=250):
                    p.open = panels.opening()
                with gr.Column(scale=4, min_width=300):
                    p.show = panels.showing()
                with gr.Column(scale=5, min_width=320):
                    p.edit = panels.editing(classes, attributes)
            with gr.Tab("Interpolate", id="between"):
                p.between = panels.between()
            with gr.Tab("Generate", id="generate") as p.new_tab:
                p.new = panels.generating()
            with gr.Tab("Look", id="look") as p.look_tab:
                p.look = panels.looking()
            with gr.Tab("Take away", id="take") as p.take_tab:
                p.take = panels.taking()
        p.sliders = [*p.edit.towards, *p.edit.intensity, *p.edit.attribute, p.edit.style]
        p.picture = [p.history, p.show.stage, p.show.bars, p.edit.marker, p.show.undo, p.show.redo]
        p.fresh = [p.given, p.open.given, *p.picture, *p.sliders]
        p.classes, p.attributes = classes, attributes
        wire(p, listener(p, found), blocks)
    return blocks


def listener(p: SimpleNamespace, found: Mapping[str, Path]) -> Callable:
    """`on(events, act, inputs, outputs)`: act(the run that is open, *inputs) gives the outputs. A mistake becomes a
    message, and the page stays as it was. With `event`, act's last argument is what the browser says happened."""

    def on(events: Sequence, act: Callable, inputs: list, outputs: list, event: bool = False, **options: Any) -> None:
        def run(name: str, *values: Any) -> Any:
            try:
                if name not in found:
                    raise InputError(f"run {name}: allowed are {', '.join(found)}")
                return act(shelf.opened(found[name]), *values)
            except InputError as problem:
                gr.Warning(view.escape(problem), duration=8)
                return [gr.skip() for _ in outputs]

        def run_with_event(happened: gr.EventData, name: str, *values: Any) -> Any:
            return run(name, *values, happened._data)

        fn = run_with_event if event else run
        options = {"api_visibility": "private", "show_progress": "hidden"} | options
        gr.on(list(events), fn, [p.run, *inputs], outputs, **options)

    return on


def wire(p: SimpleNamespace, on: Callable, blocks: gr.Blocks) -> None:
    """Connect the panels."""
    wire_start(p, on, blocks)
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
    return [given, text, *rest, *actions.stand(rest[0].now, p.classes, p.attributes)]


def wire_start(p: SimpleNamespace, on: Callable, blocks: gr.Blocks) -> None:
    """The page is loaded, or another run is chosen: the controls become those of the run, its first picture opens."""

    def switch(opened: Opened) -> list:
        given, text, *rest = fresh(p, opened, actions.first_picture(opened))
        labels = actions.slider_labels(opened, p.classes, p.attributes)
        sliders = [gr.Slider(value=0, label=text or "", visible=text is not None) for text in labels]
        start = [given, text, *rest[: len(p.picture)], 1.0, 0]
        return [gr.Tabs(selected="edit"), *actions.about(opened), *sliders, *start, None, None, *[""] * 5]

    parts = [p.tabs, p.about, p.edit.tabs, p.edit.attribute_tab, p.edit.area]
    parts += [p.open.canvas, p.open.drawing, p.open.tests, p.new.label, *p.sliders[:-1]]
    opened = [p.given, p.open.given, *p.picture, p.edit.style, p.open.row]
    way = p.between
    ends = [p.first, p.last, way.start, way.end, way.strip, way.python, way.shell]
    on([p.run.change, blocks.load], switch, [], [*parts, *opened, *ends])


def wire_opening(p: SimpleNamespace, on: Callable) -> None:
    def upload(opened: Opened, file: str) -> list:
        try:
            return [None, *fresh(p, opened, actions.uploaded(opened, file))]
        except InputError as problem:  # the field is emptied all the same, for the next one
            gr.Warning(view.escape(problem), duration=8)
            return [None, *(gr.skip() for _ in p.fresh)]

    def row(opened: Opened, number: float | None) -> list:
        rows = shelf.test_rows(opened.run.path)
        return fresh(p, opened, session.test_picture(opened, rows, int(number or 0)))

    def another(opened: Opened) -> list:
        number = actions.another_row(opened.run.path)
        return [number, *row(opened, number)]

    on([p.open.upload.upload], upload, [p.open.upload], [p.open.upload, *p.fresh])
    on([p.open.row.submit, p.open.row.input], row, [p.open.row], p.fresh)
    on([p.open.another.click], another, [], [p.open.row, *p.fresh])


def wire_editing(p: SimpleNamespace, on: Callable) -> None:
    state = [p.given, p.history]

    def change(opened: Opened, given: Given, history: History, *values: float) -> tuple:
        edit = actions.read_sliders(opened, values, p.classes, history.now.shift)
        return actions.changed(opened, given, history, edit)

    def move(opened: Opened, given: Given, history: History, at: dict) -> tuple:
        return actions.changed(opened, given, history, actions.moved(opened, given, history, at))

    def back(step: Callable[[Opened, History], History]) -> Callable:
        def go(opened: Opened, given: Given, history: History) -> tuple:
            history = step(opened, history)
            return *actions.shown(opened, given, history), *actions.stand(history.now, p.classes, p.attributes)

        return go

    live = {"queue": False, "trigger_mode": "always_last"}  # the picture follows the hand
    on(
        [slider.input for slider in p.sliders],
        change,
        [*state, *p.sliders],
        p.picture,
        api_name="change",
        api_visibility="undocumented",
        **live,
    )
    on([p.edit.area.select], move, state, p.picture, event=True, queue=False, trigger_mode="multiple")
    steps = {
        p.show.undo: lambda _, history: session.undo(history),
        p.show.redo: lambda _, history: session.redo(history),
        p.show.reset: lambda opened, history: session.step(history, session.neutral(opened)),
    }
    for button, step in steps.items():
        on([button.click], back(step), state, [*p.picture, *p.sliders])


def wire_between(p: SimpleNamespace, on: Callable) -> None:
    here = p.between

    def take(_: Opened, given: Given) -> list:
        return [given, view.figure(given.x, given.word, "an end of the way")]

    def go(opened: Opened, given: Given, first: Given | None, last: Given | None, steps: int, path: str) -> list:
        first, last = first or given, last or actions.other_picture(opened, given)
        ends = [view.figure(end.x, end.word, "an end of the way") for end in (first, last)]
        made = actions.between(opened, first, last, int(steps), path)
        programs = [make(opened, first, last, int(steps), path) for make in (export.way_python, export.way_command)]
        return [first, last, *ends, made, *programs]

    on([here.take_start.click], take, [p.given], [p.first, here.start])
    on([here.take_end.click], take, [p.given], [p.last, here.end])
    outputs = [p.first, p.last, here.start, here.end, here.strip, here.python, here.shell]
    on([here.go.click], go, [p.given, p.first, p.last, here.steps, here.path], outputs)


def wire_generating(p: SimpleNamespace, on: Callable) -> None:
    here, settings = p.new, [p.new.label, p.new.seed, p.new.spread]

    def draw(opened: Opened, label: str, seed: float | None, spread: float) -> list:
        made, command = actions.generated(opened, label, seed, spread)
        return [made, command]

    def pick(opened: Opened, label: str, seed: float | None, spread: float, at: dict) -> list:
        given = actions.picked(opened, label, seed, spread, at)
        return [gr.Tabs(selected="edit"), *fresh(p, opened, given)]

    asked = [p.new_tab.select, *(control.change for control in settings)]
    on(asked, draw, settings, [here.samples, here.shell], trigger_mode="always_last")  # none is lost while one is drawn
    on([here.samples.select], pick, settings, [p.tabs, *p.fresh], event=True)
