"""Samples per second on the CPU, the paper's MNIST network and batch of 200: ours, a plain loop, pythae, the limit.

    python benchmarks/cpu_step.py        two minutes; random images stand in for MNIST

The plain loop (plain.py) gets its batches from DataLoaders, and runs twice: as people would run it, with the waiting of
OpenMP's threads as it comes, and with that which segma sets (`GOMP_SPINCOUNT`). pythae's trainer runs its WAE-MMD in an
environment of its own, .bench/pythae, which `make bench` makes, with the waiting as it comes. The limit is the matrix
products of a step alone, forward and backward, with segma's. All but pythae both in float32 and with the networks in
bfloat16 (the plain loop: autocast), which the recipe asks for and a CPU of this kind has instructions for.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import plain
import torch
from timing import ROOT, machine, ratio, report, table, take_turns
from torch.utils.data import DataLoader, TensorDataset

from segma import launch
from segma.config import Config, override
from segma.cramer_wold import silverman
from segma.data.arrays import Data
from segma.recipes import recipe
from segma.state import State
from segma.train import fit

DEVICES = ("cpu",)
ROWS, WIDTHS = 200, [784, 1024, 1024, 10, 1024, 1024, 784]
ROUNDS, PEER_ROUNDS = 40, 6
PRECISIONS = ("float32", "bfloat16")
SECONDS, PEER_SECONDS = 0.5, 3.0  # of each in a round; pythae's is three epochs
AS_IT_COMES = os.environ | {"GOMP_SPINCOUNT": "300000"}  # what libgomp takes where nothing is set
PYTHAE = ROOT / ".bench" / "pythae" / "bin" / "python"


def setting(precision: str, n: int = 6000) -> tuple[Data, Config]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8)
    y = np.where(np.arange(n) < 100, rng.permutation(np.arange(n) % 10), -1)
    config = override(recipe("paper", "mnist", (28, 28, 1), n, 10), {"epochs": 10**6, "labels": None})
    config = override(config, {"precision": precision})
    return Data("random", x, y, x[:0], y[:0], tuple("0123456789")), config


def ours(precision: str) -> Iterator[None]:
    data, config = setting(precision)
    state = State.start(launch.new_model(data, config), config)
    for _ in fit(state, torch.from_numpy(data.x_train), torch.from_numpy(data.y_train), config):
        yield


def plain_loop(precision: str) -> Iterator[None]:
    data, config = setting(precision)
    model, y = launch.new_model(data, config), torch.from_numpy(data.y_train)
    x = model.prepare(torch.from_numpy(data.x_train)).contiguous()
    unlabelled = DataLoader(TensorDataset(x), ROWS // 2, shuffle=True)
    labelled = DataLoader(TensorDataset(x[:100], y[:100]), ROWS // 2, shuffle=True)

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            for (rows,) in unlabelled:
                known, classes = next(iter(labelled))
                yield torch.cat([rows, known]), classes

    return plain.train(model, batches(), config, silverman(ROWS / 10))


def limit(precision: str) -> Iterator[None]:
    shapes, kind = list(pairwise(WIDTHS)), {"dtype": getattr(torch, precision)}
    work = [(torch.randn(ROWS, a, **kind), torch.randn(b, a, **kind), torch.randn(ROWS, b, **kind)) for a, b in shapes]
    room = [[torch.empty(a, b, **kind) for a, b in ((ROWS, b), (b, a), (ROWS, a))] for a, b in shapes]
    while True:
        for i, ((x, w, grad), (out, dw, dx)) in enumerate(zip(work, room, strict=True)):
            torch.mm(x, w.T, out=out)
            torch.mm(grad.T, x, out=dw)
            if i:  # the first layer's input needs no gradient
                torch.mm(grad, w, out=dx)
        yield


def rate(steps: Iterator[None], seconds: float) -> float:
    """Samples per second over the next `seconds`."""
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        next(steps)
        done += 1
    return done * ROWS / (time.perf_counter() - began)


def pythae(seen: dict) -> float:
    """One short training in its own process; start-up is not counted, the number of threads is ours."""
    words = [PYTHAE, ROOT / "benchmarks" / "pythae_step.py", str(torch.get_num_threads()), "3"]
    seen |= json.loads(subprocess.run(words, check=True, capture_output=True, env=AS_IT_COMES).stdout)
    return seen["samples_per_second"]


def plain_alone(precision: str) -> float:
    """The plain loop in a process of its own, which nothing of segma has set up."""
    words = [sys.executable, __file__, "plain", str(torch.get_num_threads()), precision]
    return float(subprocess.run(words, check=True, capture_output=True, env=AS_IT_COMES).stdout)


def print_plain(threads: int, precision: str) -> None:
    torch.set_num_threads(threads)
    steps = plain_loop(precision)
    rate(steps, SECONDS)
    print(rate(steps, PEER_SECONDS))


def measure(device: str = "cpu") -> dict:
    kinds = {"ours": ours, "tuned": plain_loop, "limit": limit}
    running = {(name, precision): start(precision) for precision in PRECISIONS for name, start in kinds.items()}
    for steps in running.values():
        rate(steps, SECONDS)  # to warm up
    found = take_turns({key: partial(rate, steps, SECONDS) for key, steps in running.items()}, ROUNDS)
    peer: dict = {}
    turns = {("ours", precision): partial(rate, running["ours", precision], PEER_SECONDS) for precision in PRECISIONS}
    turns |= {("plain", precision): partial(plain_alone, precision) for precision in PRECISIONS}
    turns |= {("pythae", "float32"): partial(pythae, peer)} if PYTHAE.exists() else {}
    beside = take_turns(turns, PEER_ROUNDS)  # a process for each turn: fewer and longer ones
    speed, over = ({precision: {} for precision in PRECISIONS} for _ in range(2))
    for name, precision in [*found, *(key for key in beside if key not in found)]:
        rounds = found if (name, precision) in found else beside
        speed[precision][name] = statistics.median(rounds[name, precision])
        for ours_in in PRECISIONS:
            over[ours_in][f"{name}, {precision}"] = ratio(rounds, ("ours", ours_in), (name, precision))
    return {
        "machine": machine(device),
        "rounds": {"peers": PEER_ROUNDS, "others": ROUNDS},
        "seconds_per_round": {"peers": PEER_SECONDS, "others": SECONDS},
        "batch": ROWS,
        "seed": 0,
        "pythae": peer,
        "samples_per_second": speed,
        "ours_over": over,
    }


LABELS = {
    "ours": "segma",
    "plain": "the same model in a plain loop with a DataLoader",
    "tuned": "the same, with segma's setting of OpenMP",
    "pythae": "pythae's trainer, WAE-MMD",
    "limit": "limit: the matrix products alone",
}


def page(result: dict) -> str:
    speed, over = result["samples_per_second"], result["ours_over"]
    rows = [
        [f"{LABELS[name]}, {precision}", f"{speed[precision][name]:,.0f}"]
        + [f"{over[ours_in][f'{name}, {precision}']:.2f}" for ours_in in PRECISIONS]
        for precision in PRECISIONS
        for name in LABELS
        if name in speed[precision]
    ]
    whole, low = (over[precision] for precision in PRECISIONS)
    peer = "pythae was not there (`make bench` installs it)."
    if "pythae, float32" in whole:
        name = f"pythae {result['pythae']['pythae']}"
        peer = f"Over {name}, whose model has no labels, it is {low['pythae, float32']:.2f} times in"
        peer += f" bfloat16 and {whole['pythae, float32']:.2f} times in float32."
    return report(
        result["machine"],
        table(["", "samples/s", "segma in float32 is so many times as fast", "segma in bfloat16"], rows),
        f"As it comes, in bfloat16, segma is {low['plain, float32']:.2f} times as fast as the plain loop as it comes,",
        f"in float32, and has {low['limit, float32']:.0%} of the speed of the products alone in float32; of the same",
        f"in bfloat16 it is {low['plain, bfloat16']:.2f} times as fast and has {low['limit, bfloat16']:.0%}.",
        f"In float32 (`--set precision=float32`) it is {whole['plain, float32']:.2f} times as fast as the loop and has",
        f"{whole['limit, float32']:.0%} of the products' speed.",
        peer,
        f"Medians of {result['rounds']['others']} rounds in turns, {result['rounds']['peers']} for those in processes",
        "of their own, all with the same number of threads. Ratios are of the same turns; samples a second are not",
        "(the machine's speed varies by the minute), so rows compare by the ratios alone.",
    )


if __name__ == "__main__":
    print_plain(int(sys.argv[2]), sys.argv[3]) if sys.argv[1:2] == ["plain"] else print(page(measure()))
