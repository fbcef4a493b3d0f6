"""The page's panels: what stands where and what each control says of itself. What they do is in wiring.py."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr

from segma.errors import InputError
from segma.studio import export


def opening() -> SimpleNamespace:
    """Where a picture comes from, and how the model sees it."""
    upload = from_browser(gr.File(label="Your picture: drop or paste it", elem_id="upload", height=96))
    with gr.Row(elem_classes="tight") as tests:
        row = gr.Number(0, label="Test picture", precision=0, elem_id="row", min_width=110)
        another = gr.Button("Another", elem_id="another", size="sm", min_width=80)
    with gr.Accordion("Draw one", open=False, elem_id="drawing") as drawing:
        canvas = gr.HTML("", elem_id="canvas", js_on_load="studio.draw(element)")
    given = gr.HTML(elem_id="given")
    invert = gr.Button("Invert it", elem_id="invert", size="sm", visible=False)
    return SimpleNamespace(
        upload=upload, tests=tests, row=row, another=another, drawing=drawing, canvas=canvas, given=given, invert=invert
    )


def from_browser(upload: gr.File) -> gr.File:
    """Of a file that a request names by its address Gradio would fetch the content; this page asks nobody for files."""
    keep = upload.async_move_resource_to_block_cache

    async def refuse(url_or_file_path: str | Path | None) -> str | None:
        if "://" in str(url_or_file_path):
            raise InputError(f"{url_or_file_path}: an address, wanted is a file")
        return await keep(url_or_file_path)

    upload.async_move_resource_to_block_cache = refuse
    return upload


def check(control: gr.components.Component, value: Any) -> None:
    """What a request says of a control with a number: within its limits. (Gradio's own check prints a traceback.)"""
    if not isinstance(control, gr.Slider | gr.Number) or (value is None and isinstance(control, gr.Number)):
        return
    low = -math.inf if control.minimum is None else control.minimum
    high = math.inf if control.maximum is None else control.maximum
    if not isinstance(value, int | float) or not math.isfinite(value) or not low <= value <= high:
        raise InputError(f"{control.label}: {value!r}, wanted is a number from {low:g} to {high:g}")


def showing() -> SimpleNamespace:
    """The edited picture, what the model takes it for, and the way back."""
    stage = gr.HTML(elem_id="stage")
    with gr.Row(elem_classes="tight"):
        undo = gr.Button("Undo", elem_id="undo", size="sm", min_width=48, interactive=False)
        redo = gr.Button("Redo", elem_id="redo", size="sm", min_width=48, interactive=False)
        reset = gr.Button("Reset", elem_id="reset", size="sm", min_width=48)
        gr.Button("Hold to compare", elem_id="hold", size="sm", min_width=126)
    swipe = gr.Slider(0, 100, 0, step=1, label="Swipe to compare", elem_id="swipe", elem_classes="lever", buttons=[])
    swipe.change(None, swipe, None, js="share => document.querySelector('#stage').style.setProperty('--swipe', share)")
    gr.Markdown("What the model takes it for, the posterior of the classes:", elem_classes="hint")
    bars = gr.HTML(elem_id="bars")
    return SimpleNamespace(stage=stage, undo=undo, redo=redo, reset=reset, swipe=swipe, bars=bars)


def editing(room: int) -> SimpleNamespace:
    """The controls: room for runs of so many classes, of which a run shows its own."""

    def slider(name: str, i: int, low: float, high: float) -> gr.Slider:
        both = ["lever", "both"] if low < 0 else "lever"
        return gr.Slider(
            low, high, 0, step=0.05, label=f"{name} {i}", elem_id=f"{name}-{i}", elem_classes=both, visible=False,
            buttons=[],
        )  # fmt: skip

    with gr.Tabs(elem_id="controls", selected="towards") as tabs:
        with gr.Tab("Attributes", id="attributes", visible=False) as attribute_tab:
            gr.Markdown(
                "Change one attribute and keep the others. 0: as it is, 1: as far as from one to the other; beyond is "
                "more, below 0 the other way.",
                elem_classes="hint",
            )
            attribute = [slider("attribute", i, -1.5, 1.5) for i in range(room)]
        with gr.Tab("Towards a class", id="towards"):
            gr.Markdown(
                "Move towards a class and keep the style. 0: as it is, 1: fully that class; several can be combined. "
                "Its own class, in grey, would change nothing.",
                elem_classes="hint",
            )
            towards = [slider("towards", i, 0, 1) for i in range(room)]
        with gr.Tab("Intensity", id="intensity"):
            gr.Markdown("More of what marks a class against all others, or, below 0, less.", elem_classes="hint")
            intensity = [slider("intensity", i, -1, 1) for i in range(room)]
        with gr.Tab("Map", id="map-tab"):
            gr.Markdown(
                "Click a circle to go to that class. Click elsewhere, drag or use the arrow keys: the picture moves on "
                "this plane; what the map does not show stays.",
                elem_classes="hint",
            )
            with gr.Column(elem_id="plane"):
                area = gr.HTML(elem_id="map", js_on_load="studio.map(element, trigger)")
                marker = gr.HTML(elem_id="marker")
    style = gr.Slider(0, 2, 1, step=0.05, label="Keep the style", elem_id="style", elem_classes="lever", buttons=[])
    gr.Markdown("1 keeps it, 0 is the most typical picture of its class, 2 exaggerates it.", elem_classes="hint")
    return SimpleNamespace(
        towards=towards, intensity=intensity, attribute=attribute, style=style, area=area, marker=marker,
        attribute_tab=attribute_tab, tabs=tabs,
    )  # fmt: skip


def between() -> SimpleNamespace:
    """From one picture to another."""
    gr.Markdown(
        "What lies between two pictures. Open a picture under *Edit*, then take it as one of the ends here: as it was "
        "given, without edits."
    )
    with gr.Row():
        with gr.Column(min_width=150):
            start = gr.HTML(elem_id="start")
            take_start = gr.Button("Start from the open picture, as given", elem_id="take-start", size="sm")
        with gr.Column(min_width=150):
            end = gr.HTML(elem_id="end")
            take_end = gr.Button("End at the open picture, as given", elem_id="take-end", size="sm")
        with gr.Column(min_width=260):
            steps = gr.Slider(3, 21, 9, step=1, label="Steps", info="pictures, the ends included", elem_id="steps")
            path = gr.Radio(
                [("straight line", "linear"), ("along the density", "density")], value="linear", label="Way",
                info="along the density goes around the empty space between classes", elem_id="path",
            )  # fmt: skip
            go = gr.Button("Interpolate", variant="primary", elem_id="interpolate")
    strip = gr.HTML(elem_id="strip")
    python, shell = programs("way-")
    return SimpleNamespace(
        start=start, end=end, take_start=take_start, take_end=take_end, steps=steps, path=path, go=go, strip=strip,
        python=python, shell=shell,
    )  # fmt: skip


def generating() -> SimpleNamespace:
    """New samples of a class."""
    gr.Markdown(
        "New pictures of a class. Click one to edit it: it is opened like any other picture, and edited from the code "
        "that the model finds for it, which gives it back more or less as it is."
    )
    with gr.Row():
        label = gr.Dropdown([], label="Class", info="which to draw from", elem_id="label", filterable=False)
        seed = gr.Number(0, label="Seed", info="the same seed, the same pictures", precision=0, elem_id="seed")
        spread = gr.Slider(
            0, 2, 1, step=0.1, label="Spread", info="below 1 more typical, above 1 more unusual", elem_id="spread"
        )
    samples = gr.HTML(elem_id="samples", js_on_load="studio.samples(element, trigger)")
    shell = gr.Code(
        label="The same on the command line", language="shell", interactive=False, lines=1, elem_id="samples-shell"
    )
    return SimpleNamespace(label=label, seed=seed, spread=spread, samples=samples, shell=shell)


def looking() -> SimpleNamespace:
    """What the run is."""
    with gr.Row():
        with gr.Column(min_width=320):
            gr.Markdown("#### Which classes lie close\nDistances of the trained means, as a tree and as colours.")
            close = gr.HTML(elem_id="close")
        with gr.Column(min_width=320):
            gr.Markdown("#### How it was trained\nThe terms of the objective and the error, over the epochs.")
            curves = gr.HTML(elem_id="curves")
    gr.Markdown("#### What it reached\nAs `segma evaluate` measured it.")
    results = gr.Code(show_label=False, interactive=False, elem_id="results")
    return SimpleNamespace(close=close, curves=curves, results=results)


def taking() -> SimpleNamespace:
    """Files and programs."""
    gr.Markdown(
        "The picture shown under *Edit*, and what makes it again. Pictures have the model's resolution; the larger one "
        f"repeats its pixels. The GIF goes from the picture given to the edited one and back, {export.STEPS} steps."
    )
    links = gr.HTML(elem_id="files")
    python, shell = programs("")
    return SimpleNamespace(links=links, python=python, shell=shell)


def programs(prefix: str) -> tuple[gr.Code, gr.Code]:
    """What makes a picture again."""
    return (
        gr.Code(label="In Python", language="python", interactive=False, lines=1, elem_id=f"{prefix}python"),
        gr.Code(label="On the command line", language="shell", interactive=False, lines=1, elem_id=f"{prefix}shell"),
    )
