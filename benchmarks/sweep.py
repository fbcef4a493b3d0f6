"""Models trained together in one stack against one after another: 16 and 64 of the paper's networks.

    python benchmarks/sweep.py            on a GPU about a minute, on two CPU cores as long; random images

The models differ in alpha and in their seeds, as in a sweep. A round times a stretch of steps of one model and of each
stack; a stack's time over that of one says how many times the time of one it takes to train all of them.
"""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import torch
from timing import machine, report, seconds, table, take_turns

from segma import launch
from segma.config import override
from segma.data.arrays import Data
from segma.recipes import recipe
from segma.record import Job
from segma.stack import fit_together
from segma.train import fit

DEVICES = ("cpu", "cuda")
SHAPES = {"digits": ((8, 8, 1), 1297), "mnist": ((28, 28, 1), 20000)}
SIZES = (16, 64)
ROUNDS, STEPS = 3, {"cpu": 3, "cuda": 100}


def jobs(name: str, count: int, device: str, folder: Path) -> list[Job]:
    shape, n = SHAPES[name]
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (n, *shape), dtype=np.uint8), rng.permutation(np.arange(n) % 10)
    data = Data("random", x, y, x[:0], y[:0], tuple("0123456789"))
    plain = override(recipe("paper", name, shape, n, 10), {"epochs": 10**6, "labels": 100})
    configs = [override(plain, {"seed": i, "alpha": 1 + i % 8}) for i in range(count)]
    paths = [folder / f"{name}-{count}-{i}" for i in range(count)]
    return [launch.begin(data, config, path, None, device) for config, path in zip(configs, paths, strict=True)]


def steps(name: str, count: int, device: str, folder: Path) -> Iterator[object]:
    """The steps of one model, by the loop for one, or of a stack."""
    group = jobs(name, count, device, folder)
    if count > 1:
        return fit_together(group)
    x, y = launch.place(group[0].data.x_train, device), torch.from_numpy(group[0].data.y_train).to(device)
    return fit(group[0].state, x, y, group[0].run.config)


def measure(device: str = "cuda" if torch.cuda.is_available() else "cpu") -> dict:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in SHAPES:
            running = {count: steps(name, count, device, Path(folder)) for count in (1, *SIZES)}
            for one in running.values():
                for _ in range(STEPS[device]):
                    next(one)
            turns = {
                count: partial(seconds, partial(next, one), STEPS[device], device) for count, one in running.items()
            }
            rounds = take_turns(turns, ROUNDS)
            found[name] = {str(count): statistics.median(values) * 1e6 for count, values in rounds.items()}
            for one in running.values():
                with closing(one):
                    pass
            print(f"  {name}: {found[name]}", flush=True)
    return {"machine": machine(device), "rounds": ROUNDS, "steps_per_round": STEPS[device], "microseconds": found}


def page(result: dict) -> str:
    rows = []
    for name, times in result["microseconds"].items():
        for count in (key for key in times if key != "1"):
            ratio = times[count] / times["1"]
            rows.append(
                [name, count, f"{times['1']:,.0f}", f"{times[count]:,.0f}", f"{ratio:.2f}", f"{int(count) / ratio:.1f}"]
            )
    head = ["paper's network for", "models", "one alone, µs a step", "together, µs", "times the time of one"]
    return report(
        result["machine"],
        table([*head, "times as fast as one after another"], rows),
        "A GPU that one small model leaves waiting takes many for little more. Where one fills the machine (a CPU,",
        "or a GPU with larger networks) a stack only saves what is not arithmetic or memory traffic: 16 of the MNIST",
        "networks must move 16 times the weights. Medians of",
        f"{result['rounds']} rounds in turns.",
    )


if __name__ == "__main__":
    print(page(measure()))
