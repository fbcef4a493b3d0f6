"""The page: its panels, the run that is open, and how mistakes are told. Which control does what is in wiring.py."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr

from segma.errors import InputError
from segma.studio import panels, shelf, wiring
from segma.studio.shelf import Version

ABOUT = "Open an image, change what it is, watch it change. Everything stays on this computer."


def page(start: Path) -> gr.Blocks:
    """The studio for a run, which is shown first, and those beside it."""
    found = shelf.beside(start)
    room = shelf.most_classes(found)
    with gr.Blocks(title="segma studio", analytics_enabled=False, delete_cache=(600, 600)) as blocks:
        p = SimpleNamespace(given=gr.State(), history=gr.State(), first=gr.State(), last=gr.State())
        # of the run that is open, whatever the list says; its data are read now, and not when the first person waits
        p.version = gr.State(shelf.version(next(iter(found.values()))))
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
                    p.edit = panels.editing(room)
            with gr.Tab("Interpolate", id="between"):
                p.between = panels.between()
            with gr.Tab("Generate", id="generate") as p.new_tab:
                p.new = panels.generating()
            with gr.Tab("Model", id="look") as p.look_tab:
                p.look = panels.looking()
            with gr.Tab("Export", id="take") as p.take_tab:
                p.take = panels.taking()
        p.sliders = [*p.edit.towards, *p.edit.intensity, *p.edit.attribute, p.edit.style]
        p.picture = [p.history, p.show.stage, p.show.bars, p.edit.marker, p.show.undo, p.show.redo]
        p.fresh = [p.given, p.open.given, p.open.invert, p.show.swipe, *p.picture, *p.sliders]
        p.room = room
        wiring.wire(p, listener(p), blocks, lambda: shelf.within(shelf.beside(start), room))
    return blocks


def listener(p: SimpleNamespace) -> Callable:
    """`on(events, act, inputs, outputs)`: act(the run that is open, *inputs) gives the outputs. A mistake becomes a
    message, and the page stays as it was. With `event`, act's last argument is what the browser says happened."""

    def on(events: Sequence, act: Callable, inputs: list, outputs: list, event: bool = False, **options: Any) -> None:
        def run(version: Version, *values: Any) -> Any:
            try:
                for control, value in zip(inputs, values, strict=False):  # there is one value more with an event
                    panels.check(control, value)
                return act(shelf.opened(version), *values)
            except InputError as problem:
                wiring.warn(problem)
                return [gr.skip() for _ in outputs]

        def run_with_event(happened: gr.EventData, version: Version, *values: Any) -> Any:
            return run(version, *values, happened._data)

        fn = run_with_event if event else run
        options = {"api_visibility": "private", "show_progress": "hidden"} | options
        gr.on(list(events), fn, [p.version, *inputs], outputs, **options)

    return on
