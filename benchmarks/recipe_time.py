"""How long each recipe trains: its steps, a step's time on random images of the data's shape, and the product.

    python benchmarks/recipe_time.py        on two CPU cores a minute and a half

Start, compilation, pictures and checkpoints, seconds each, are not in it. As in training, on a GPU only runs of 20,000
steps or more are compiled: a step of the others takes longer here than where steps alone are compared.
"""

import math
import statistics
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import numpy as np
import torch
from timing import machine, report, seconds, table

from segma import launch
from segma.config import Config, override
from segma.data.arrays import Data
from segma.recipes import recipe
from segma.state import State
from segma.step import steps_in_all
from segma.train import fit

DEVICES = ("cpu", "cuda")
DATA = {  # shape, classes, training images
    "digits": ((8, 8, 1), 10, 1297),
    "mnist": ((28, 28, 1), 10, 60_000),
    "svhn": ((32, 32, 3), 10, 73_257),
    "celeba": ((64, 64, 3), 4, 37_540),
}
RECIPES = [(name, kind) for kind in ("best", "paper") for name in DATA]
ROWS = 2000  # of images that stand for the data
WARM, ROUNDS, SECONDS = {"cpu": 2, "cuda": 100}, 3, 2.0  # of each round, but at least one step


def training(name: str, kind: str, device: str) -> tuple[Iterator[object], Config]:
    """The steps of a recipe's training, about as many as it has (short ones are not compiled), and its settings."""
    shape, k, n = DATA[name]
    config, rng = recipe(kind, name, shape, n, k), np.random.default_rng(0)
    x, y = rng.integers(0, 256, (ROWS, *shape), dtype=np.uint8), np.arange(ROWS) % k
    stand_in = override(config, {"labels": None, "epochs": math.ceil(config.epochs * n / ROWS)})
    data = Data("random", x, y, x[:0], y[:0], tuple(map(str, range(k))))
    state = State.start(launch.new_model(data, stand_in).to(device), stand_in)
    return fit(state, *(torch.from_numpy(part).to(device) for part in (x, y)), stand_in), config


def measure(device: str = "cuda" if torch.cuda.is_available() else "cpu") -> dict:
    found = {}
    for name, kind in RECIPES:
        steps, config = training(name, kind, device)
        with closing(steps):
            first = seconds(partial(next, steps), WARM[device], device)
            total = steps_in_all(config, DATA[name][2])
            count = min(max(1, round(SECONDS / first)), (total - WARM[device]) // ROUNDS)
            rounds = [seconds(partial(next, steps), count, device) for _ in range(ROUNDS)]
        found[f"{name}, {kind}"] = {"steps": total, "seconds": statistics.median(rounds), "precision": config.precision}
        print(f"  {name}, {kind}: {found[f'{name}, {kind}']}", flush=True)
    return {"machine": machine(device), "rounds": ROUNDS, "recipes": found}


def page(result: dict) -> str:
    rows = []
    for name, r in result["recipes"].items():
        ms = 1000 * r["seconds"]
        step = f"{ms:,.{2 if ms < 10 else 0}f}"
        rows.append([name, r["precision"], f"{r['steps']:,}", step, spoken(r["steps"] * r["seconds"])])
    return report(
        result["machine"],
        table(["recipe", "products in", "steps", "ms a step", "training"], rows),
        f"Medians of {result['rounds']} rounds. Products are in the precision named where the machine has it.",
    )


def spoken(total: float) -> str:
    if total < 120:
        return f"{total:.0f} s"
    return f"{total / 60:.0f} min" if total < 7200 else f"{total / 3600:.0f} hours"


if __name__ == "__main__":
    print(page(measure()))
