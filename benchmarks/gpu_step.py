"""Microseconds per training step on a GPU, the step captured as one CUDA graph and launched kernel by kernel; and the
time and memory of the Cramer-Wold distance with its gradient against n.

    python benchmarks/gpu_step.py         prints the tables in docs/performance.md; about a minute. Random images.
"""

import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch

from segma import launch, train
from segma.config import override
from segma.cramer_wold import silverman, squared_distance
from segma.data.arrays import Data
from segma.mixture import Mixture
from segma.recipes import recipe
from segma.state import State
from segma.train import fit

SHAPES = {"mnist": ((28, 28, 1), 10), "svhn": ((32, 32, 3), 10), "celeba": ((64, 64, 3), 4)}


def microseconds(work: Callable[[], object], times: int) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times * 1e6


def step(name: str, recipe_name: str, times: int) -> float:
    """One step of a recipe; the photo recipes in bfloat16, as they were trained."""
    shape, k = SHAPES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20000, *shape), dtype=np.uint8)
    y = np.where(np.arange(len(x)) < 1000, rng.integers(0, k, len(x)), -1)
    precision = "bfloat16" if recipe_name == "best" and name != "mnist" else "float32"
    settings = {"labels": None, "epochs": 10**6, "precision": precision}
    config = override(recipe(recipe_name, name, shape, len(x), k), settings)
    data = Data("random", x, y, x[:0], y[:0], tuple(map(str, range(k))))
    state = State.start(launch.new_model(data, config).cuda(), config)
    steps = fit(state, torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), config)
    for _ in range(train.CHECK_EVERY):
        next(steps)
    return microseconds(lambda: next(steps), times)


def distance(n: int) -> tuple[float, float]:
    """Milliseconds and peak MiB for the distance of n codes in 20 dimensions, with its gradient."""
    target = Mixture(*(x.cuda() for x in (torch.full((10,), 0.1), torch.eye(10, 20), torch.ones(10))))
    z = torch.randn(n, 20, device="cuda", requires_grad=True)

    def once() -> None:
        squared_distance(Mixture.from_points(z), target, silverman(n / 10)).log().backward()

    once()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    spent = microseconds(once, 3) / 1000
    return spent, (torch.cuda.max_memory_allocated() - before) / 2**20


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name in SHAPES:
        for recipe_name in ("paper", "best"):
            captured = step(name, recipe_name, 200)
            with patch.object(train, "_captured", lambda plain, state, generator: plain):
                eager = step(name, recipe_name, 50)
            print(
                f"{name:7}{recipe_name:6} captured {captured:8.0f}   eager {eager:8.0f} microseconds a step", flush=True
            )
    for n in (256, 1024, 4096, 16384, 65536):
        print("distance n = {:6d} {:9.2f} ms {:8.1f} MiB".format(n, *distance(n)), flush=True)
