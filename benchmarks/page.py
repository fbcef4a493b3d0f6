"""docs/performance.md and its plots, from whatever results are in docs/performance: those of other machines stay.

python benchmarks/page.py       measures nothing
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import cold_start
import cpu_step
import distance
import fid_features
import gpu_step
import matplotlib
import recipe_time
import studio
import sweep

matplotlib.use("agg")
import matplotlib.pyplot as plt
from timing import ROOT

DOCS, FOLDER = ROOT / "docs", ROOT / "docs" / "performance"
BENCHMARKS: dict[str, tuple[str, ModuleType]] = {
    "cpu_step": ("A training step on a CPU", cpu_step),
    "gpu_step": ("A training step on a GPU", gpu_step),
    "recipe_time": ("The recipes' training times", recipe_time),
    "distance": ("The distance against n", distance),
    "sweep": ("Many models at once", sweep),
    "fid_features": ("FID features", fid_features),
    "cold_start": ("From a cold start", cold_start),
    "studio": ("The web studio", studio),
}
INTRO = """# Performance

Rendered by `benchmarks/page.py` from the results in [performance/](performance); do not edit. `make bench` makes the
environments, measures what fits the machine and refreshes this page; `python benchmarks/run.py NAME ...` does so for
some. Ratios are of one run, whose parts take turns. Images are random, the seeds fixed.
"""
OURS, OTHERS, LIMIT = "#1f6feb", ("#d9822b", "#8b949e", "#5f9e6e"), "#c0c4c8"


def render() -> Path:
    parts = [INTRO, *(section(name) for name in BENCHMARKS)]
    path = DOCS / "performance.md"
    path.write_text("\n".join(parts))
    return path


def section(name: str) -> str:
    """What is compared (the benchmark's own docstring), then for each kind of device the table and the plot."""
    title, module = BENCHMARKS[name]
    about = [part for part in module.__doc__.strip().split("\n\n") if not part.startswith(" ")]
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob(f"{name}-*.json"))}
    parts = [f"## {title}", *about, f"`python benchmarks/run.py {name}`"]
    for device in module.DEVICES:
        where = {"cpu": "CPU", "cuda": "GPU"}[device]
        results = {stem: result for stem, result in found.items() if result["machine"]["device"] == device}
        for stem, result in results.items():
            parts.append(f"**{where}**: {module.page(result)}")
            if name in PLOTS:
                parts.append(f"![{title}](performance/{plot(name, stem, result)})")
        if not results:
            parts.append(f"**{where}**: not measured yet; `python benchmarks/run.py {name} --device {device}`.")
    return "\n\n".join(parts) + "\n"


def plot(name: str, stem: str, result: dict) -> str:
    figure = PLOTS[name](result)
    figure.tight_layout()
    figure.savefig(FOLDER / f"{stem}.png", dpi=100)
    plt.close(figure)
    return f"{stem}.png"


def plot_cpu_step(result: dict) -> plt.Figure:
    speed = {
        (name, precision): seen[name]
        for precision, seen in result["samples_per_second"].items()
        for name in cpu_step.LABELS
        if name in seen
    }
    keys = list(speed)[::-1]
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.4 * len(keys)))
    colours = {"ours": OURS, "limit": LIMIT}
    bars = axes.barh(
        [f"{cpu_step.LABELS[name]}, {precision}" for name, precision in keys],
        [speed[key] for key in keys],
        color=[colours.get(name, OTHERS[0]) for name, _ in keys],
    )
    axes.bar_label(bars, [f"{speed[key]:,.0f}" for key in keys], padding=4)
    axes.set(xlabel="samples per second", xlim=(0, 1.2 * max(speed.values())))
    return figure


def plot_gpu_step(result: dict) -> plt.Figure:
    recipes = result["recipes"]
    bars = {
        "plain": ("plain eager", OTHERS[0]),
        "ours": ("segma", OURS),
        "floor_bytes": ("floor by bytes", LIMIT),
        "floor_arithmetic": ("floor by arithmetic", OTHERS[1]),
    }
    figure, axes = plt.subplots(figsize=(8, 4))
    for i, (key, (label, colour)) in enumerate(bars.items()):
        places = [place + 0.2 * (i - 1.5) for place in range(len(recipes))]
        axes.bar(places, [r[key] for r in recipes.values()], 0.18, label=label, color=colour)
    axes.set_xticks(range(len(recipes)), [name.replace(", ", "\n") for name in recipes])
    axes.set(yscale="log", ylabel="µs per step")
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.15), frameon=False)
    return figure


def plot_distance(result: dict) -> plt.Figure:
    figure, panels = plt.subplots(1, 2, figsize=(9, 4))
    labels = {"ours": "segma", "naive": "naive, float64", "sampled": "sampled MMD, float32"}
    for (way, values), colour in zip(result["ways"].items(), (OURS, *OTHERS), strict=False):
        points = {int(n): value for n, value in values.items() if value}
        for axes, key, scale in zip(panels, ("seconds", "mib"), (1000, 1), strict=True):
            label = f"{labels[way]}: $n^{{{result['slopes'][key][way]:.2f}}}$"
            heights = [scale * value[key] for value in points.values()]
            axes.loglog(list(points), heights, "o-", color=colour, label=label, markersize=4)
    for axes, name in zip(panels, ("ms, with gradient", "peak MiB"), strict=True):
        axes.set(xlabel="n", ylabel=name)
        axes.set_xticks(distance.SIZES[::2], [f"{n:,}" for n in distance.SIZES[::2]])
        axes.minorticks_off()
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    return figure


PLOTS: dict[str, Callable[[dict], plt.Figure]] = {
    "cpu_step": plot_cpu_step,
    "gpu_step": plot_gpu_step,
    "distance": plot_distance,
}

if __name__ == "__main__":
    print(render())
