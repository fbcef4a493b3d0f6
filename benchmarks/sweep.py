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
from gpu_step import FLOATS_MOVED, measured_speeds
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
    found, weights = {}, {}
    speed = measured_speeds(device)["copy"] if device == "cuda" else None
    with tempfile.TemporaryDirectory() as folder:
        for name in SHAPES:
            running = {count: steps(name, count, device, Path(folder)) for count in (1, *SIZES)}
            for one in running.values():
                for _ in range(STEPS[device]):
                    next(one)
            turns = {
                count: partial(seconds, partial(next, one), STEPS[device], device) for count, one in running.items()
            }
            times = take_turns(turns, ROUNDS)
            (one,) = jobs(name, 1, device, Path(folder) / "weights")
            weights[name] = sum(p.numel() for p in one.state.model.parameters() if p.requires_grad)
            found[name] = {str(count): statistics.median(values) * 1e6 for count, values in times.items()}
            for one in running.values():
                with closing(one):
                    pass
            print(f"  {name}: {found[name]}", flush=True)
    rounds = {"rounds": ROUNDS, "steps_per_round": STEPS[device], "copy": speed, "weights": weights}
    return {"machine": machine(device), **rounds, "microseconds": found}


def page(result: dict) -> str:
    rows, bound = [], []
    for name, times in result["microseconds"].items():
        for count in (key for key in times if key != "1"):
            ratio, cells = times[count] / times["1"], []
            if result.get("copy"):
                floor = 4 * FLOATS_MOVED * result["weights"][name] * int(count) / result["copy"] * 1e6
                cells = [f"{floor:,.0f}"]
                bound.append(f"{count} of {name} {floor / times['1']:.1f}")
            speeds = [f"{times['1']:,.0f}", f"{times[count]:,.0f}", *cells, f"{ratio:.2f}"]
            rows.append([name, count, *speeds, f"{int(count) / ratio:.1f}"])
    head = ["paper's network for", "models", "one alone, µs a step", "together, µs", "times the time of one"]
    head[4:4] = ["floor by bytes, µs"] if bound else []
    return report(
        result["machine"],
        table([*head, "times as fast as one after another"], rows),
        "A GPU that one small model leaves waiting takes many for little more. Where one fills the machine (a CPU,",
        "or a GPU with larger networks) a stack only saves what is not arithmetic or memory traffic: 16 of the MNIST",
        "networks must move 16 times the weights.",
        f"The floor (ten numbers a weight, by the passes and Adam, as fast as a copy in the same run) alone is so many "
        f"times the time of one: {', '.join(bound)}."
        if bound
        else "",
        f"Medians of {result['rounds']} rounds in turns.",
    )


if __name__ == "__main__":
    print(page(measure()))
