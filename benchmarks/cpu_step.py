"""Samples per second on the CPU, the paper's MNIST network and batch of 200: ours, a plain loop, and the limit.

    python benchmarks/cpu_step.py [SECONDS]        ratios in one run, interleaved; random images stand in for MNIST

The plain loop is what one writes first: a DataLoader over float images, autograd through the naive distance, Adam. The
limit is the matrix products of a step alone, forward and backward, with nothing around them.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from segma import launch
from segma.config import override
from segma.data.arrays import Data
from segma.recipes import recipe
from segma.state import State
from segma.train import fit

ROWS, WIDTHS = 200, [784, 1024, 1024, 10, 1024, 1024, 784]


def images(n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 10)
    return rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8), np.where(np.arange(n) < 100, y, -1)


def ours() -> Iterator[None]:
    x, y = images()
    config = override(recipe("paper", "mnist", (28, 28, 1), len(x), 10), {"epochs": 10**6, "labels": None})
    data = Data("random", x, y, x[:0], y[:0], tuple("0123456789"))
    state = State.start(launch.new_model(data, config), config)
    for _ in fit(state, torch.from_numpy(x), torch.from_numpy(y), config):
        yield


def plain() -> Iterator[None]:
    x, y = (torch.from_numpy(a) for a in images())
    x = x.float().flatten(1) / 255
    half = ROWS // 2
    unlabelled = DataLoader(TensorDataset(x), half, shuffle=True, drop_last=True)
    labelled = DataLoader(TensorDataset(x[:100], y[:100]), half, shuffle=True)
    layers = [layer for a, b in pairwise(WIDTHS) for layer in (nn.Linear(a, b), nn.ReLU())]
    encoder, decoder = nn.Sequential(*layers[:5]), nn.Sequential(*layers[6:-1], nn.Sigmoid())
    means = nn.Parameter(torch.eye(10) / math.sqrt(2))
    parameters = [*encoder.parameters(), *decoder.parameters(), means]
    adam = torch.optim.Adam(parameters, lr=3e-4)
    gamma = (4 / (3 * ROWS / 10)) ** 0.4

    def kernel(a: torch.Tensor, b: torch.Tensor, v: float) -> torch.Tensor:
        sq = (a[:, None] - b).square().sum(dim=2)
        return ((1 + 4 * sq / (2 * v) / 17).rsqrt() / math.sqrt(2 * math.pi * v)).mean()

    while True:
        for (x_u,) in unlabelled:
            x_l, y_l = next(iter(labelled))
            batch = torch.cat([x_u, x_l])
            z = encoder(batch)
            mse = (decoder(z) - batch).square().sum(dim=1).mean()
            d2 = kernel(z, z, 2 * gamma) + kernel(means, means, 2 + 2 * gamma) - 2 * kernel(z, means, 1 + 2 * gamma)
            ce = nn.functional.cross_entropy(-torch.cdist(z[half:], means).square() / 2, y_l)
            adam.zero_grad()
            (mse + 5 * d2.log() + 10 * ce).backward()
            nn.utils.clip_grad_norm_(parameters, 5)
            nn.utils.clip_grad_value_(parameters, 1)
            adam.step()
            yield


def limit() -> Iterator[None]:
    shapes = list(pairwise(WIDTHS))
    work = [(torch.randn(ROWS, a), torch.randn(b, a), torch.randn(ROWS, b)) for a, b in shapes]
    while True:
        for i, (x, w, grad) in enumerate(work):
            x @ w.T, grad.T @ x  # forward, gradient of the weights
            if i:
                grad @ w  # gradient of the input; the first layer needs none
        yield


def rates(seconds: float, runners: dict[str, Callable[[], Iterator[None]]]) -> dict[str, float]:
    """Median samples per second of each, taking turns so that all see the same machine."""
    running = {name: make() for name, make in runners.items()}
    found: dict[str, list[float]] = {name: [] for name in runners}
    for steps in running.values():
        for _ in range(5):
            next(steps)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, steps in running.items():
            began = time.perf_counter()
            for _ in range(10):
                next(steps)
            found[name].append(10 * ROWS / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in found.items()}


if __name__ == "__main__":
    result = rates(float(sys.argv[1]) if len(sys.argv) > 1 else 60, {"limit": limit, "ours": ours, "plain": plain})
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    for name, value in result.items():
        print(f"{name:6} {value:7,.0f} samples/s, {value / result['limit']:.2f} of the limit", end="")
        print(f", {value / result['plain']:.2f} times the plain loop")
