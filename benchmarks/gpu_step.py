"""Microseconds of one training step on a GPU: ours, a plain eager step, and the least the GPU could need.

    python benchmarks/gpu_step.py         one to two minutes; random images of the data set's shape

The floor by bytes is what a step must move, at the speed of a large copy measured in the same run: the forward and the
backward pass read the weights, the gradients are written, Adam reads weights, gradients and two moments and writes all
but the gradients; and the images. Activations are left out: they could stay in the cache. The floor by arithmetic is
the step's matrix products and convolutions, at the speed of a large matrix product in the precision they run in.
"""

import statistics
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

import numpy as np
import plain
import torch
from timing import machine, ratio, report, seconds, table, take_turns
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from segma import launch
from segma.config import Config, override
from segma.cramer_wold import silverman
from segma.data.arrays import Data
from segma.recipes import recipe
from segma.state import State
from segma.train import fit

DEVICES = ("cuda",)
SHAPES = {"mnist": ((28, 28, 1), 10), "svhn": ((32, 32, 3), 10), "celeba": ((64, 64, 3), 4)}
RECIPES = [
    ("mnist", "paper", "tf32"),
    ("mnist", "paper", "bfloat16"),
    ("mnist", "best", "bfloat16"),
    ("svhn", "paper", "tf32"),
    ("svhn", "best", "bfloat16"),
    ("celeba", "paper", "tf32"),
    ("celeba", "best", "bfloat16"),
]
ROUNDS, STEPS, PLAIN_STEPS = 3, 100, 20  # a look for NaN, which waits, comes every 100 steps
KINDS = {  # of kernels, by what their names contain; the first that fits
    "convolutions": ("conv", "cudnn", "fprop", "dgrad", "wgrad"),
    "matrix products": ("gemm", "nvjet", "cutlass", "splitk", "gemv"),
    "normalisation": ("norm", "bn_"),
    "copies": ("memcpy", "memset", "transpose", "cat"),
}
WHY = """What stands between these steps and their floors. MNIST, `paper`: small kernels, each waiting for another.
MNIST, `best`: convolutions of 1 to 256 channels, most of their arithmetic the critic's, before which pictures are laid
out anew, and as long again for what is done to one number at a time. SVHN, `paper`: products of width 786, whose rows
do not start at multiples of 16 bytes as the fast kernels want. CelebA, `paper`: convolutions of 3 to 64 channels, too
few to fill a tensor core. The `best` recipes of both: convolutions at a third to a half of the speed of a large
product, and what is bound by memory, batch norm and what is done to one number at a time (ReLU, views, casts), takes
as long again."""
FLOATS_MOVED = 3 + 7  # per weight: by the two passes and by Adam


def setting(name: str, kind: str, precision: str, n: int) -> tuple[Data, Config]:
    """Random images, 1,000 of them with a label."""
    shape, k = SHAPES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    y = np.where(np.arange(n) < 1000, rng.integers(0, k, n), -1)
    config = override(recipe(kind, name, shape, n, k), {"labels": None, "epochs": 10**6, "precision": precision})
    return Data("random", x, y, x[:0], y[:0], tuple(map(str, range(k)))), config


def plain_steps(data: Data, config: Config, device: str) -> Iterator[None]:
    """Batches drawn on the device: kinder than a DataLoader."""
    x, y = (torch.from_numpy(a).to(device) for a in (data.x_train, data.y_train))
    model, known = launch.new_model(data, config).to(device), y.ge(0).nonzero()[:, 0]
    u, m = config.unlabelled_rows, config.labelled_rows

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            labelled = known[torch.randint(len(known), (m,), device=device)]
            rows = torch.cat([torch.randint(len(x), (u,), device=device), labelled])
            yield model.prepare(x[rows]), y[labelled]

    return plain.train(model, batches(), config, silverman((u + m if config.all_rows else u) / len(data.classes)))


def step(name: str, kind: str, precision: str, device: str, speeds: dict, n: int = 20000, steps: int = STEPS) -> dict:
    data, config = setting(name, kind, precision, n)
    x, y = (torch.from_numpy(a).to(device) for a in (data.x_train, data.y_train))
    state = State.start(launch.new_model(data, config).to(device), config)
    with (
        products_in(config.precision),  # for the plain step: ours has it from its configuration
        closing(fit(state, x, y, config)) as ours,
        closing(plain_steps(data, config, device)) as eager,
    ):
        for _ in range(steps):
            next(ours)
        next(eager)
        with FlopCounterMode(display=False) as counter:
            next(eager)
        runners = {
            "ours": lambda: seconds(lambda: next(ours), steps, device) * 1e6,
            "plain": lambda: seconds(lambda: next(eager), PLAIN_STEPS, device) * 1e6,
        }
        found = take_turns(runners, ROUNDS)
        kernels = profile(lambda: next(ours), device)
    weights = sum(p.numel() for p in state.model.parameters() if p.requires_grad)
    moved = 4 * FLOATS_MOVED * weights + config.batch_size * x[0].nbytes
    result = {key: statistics.median(values) for key, values in found.items()}
    result |= {
        "plain_over_ours": ratio(found, "plain", "ours"),
        "batch": config.batch_size,
        "weights": weights,
        "precision": config.precision,
        "flops": counter.get_total_flops(),
        "bytes": moved,
        "floor_bytes": moved / speeds["copy"] * 1e6,
        "floor_arithmetic": counter.get_total_flops() / speeds[config.precision] * 1e6,
        "kernels": kernels,
    }
    return result | {"share": max(result["floor_bytes"], result["floor_arithmetic"]) / result["ours"]}


def profile(work: Callable[[], object], device: str, steps: int = 10) -> dict:
    """Microseconds of a step in kernels of each kind, how many there are, and the slowest ones by name.

    What runs beside something else counts in full: the sum may exceed the step's time.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(steps):
            work()
        if device == "cuda":
            torch.cuda.synchronize()
    kinds: dict[str, float] = dict.fromkeys(KINDS, 0.0) | {"other": 0.0}
    events = [event for event in found.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
    for event in events:
        name = event.key.lower()
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "other")
        kinds[kind] += event.self_device_time_total / steps
    slowest = sorted(events, key=lambda event: -event.self_device_time_total)[:6]
    return {
        "kinds": kinds,
        "launched": sum(event.count for event in events) / steps,
        "slowest": {event.key[:120]: event.self_device_time_total / steps for event in slowest},
    }


@contextmanager
def products_in(precision: str) -> Generator[None]:
    """Within, products of float32 run in tf32 if `precision` says so."""
    places = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = precision == "tf32"
    yield
    for place, value in zip(places, before, strict=True):
        place.allow_tf32 = value


def measured_speeds(device: str, megabytes: int = 1024, n: int = 8192) -> dict[str, float]:
    """Bytes per second of a copy, read and written; operations per second of a matrix product by precision."""
    source = torch.ones(megabytes * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    speeds = {"copy": 2 * len(source) / seconds(lambda: target.copy_(source), 20, device)}
    for name in ("float32", "tf32", "bfloat16"):
        a = torch.randn(n, n, device=device, dtype=torch.bfloat16 if name == "bfloat16" else torch.float32)
        with products_in(name):
            out = a @ a
            speeds[name] = 2 * n**3 / seconds(lambda a=a, out=out: torch.mm(a, a, out=out), 10, device)
    return speeds


def measure(device: str = "cuda", recipes: list[tuple[str, str, str]] = RECIPES) -> dict:
    torch.manual_seed(0)
    speeds, found = measured_speeds(device), {}
    for name, kind, precision in recipes:
        key = f"{name}, {kind}, {precision}"
        found[key] = step(name, kind, precision, device, speeds)
        print(f"  {key}: {found[key]['ours']:,.0f} us", flush=True)
    rounds = {"rounds": ROUNDS, "steps_per_round": {"ours": STEPS, "plain": PLAIN_STEPS}, "seed": 0}
    return {"machine": machine(device), **rounds, "speeds": speeds, "recipes": found}


def page(result: dict) -> str:
    speeds, recipes = result["speeds"], result["recipes"]
    rows = [
        [
            f"{name} ({r['batch']:,})",
            *(f"{r[key]:,.0f}" for key in ("plain", "ours", "floor_bytes", "floor_arithmetic")),
            f"{r['plain_over_ours']:.1f}",
            f"{r['share']:.0%}",
        ]
        for name, r in recipes.items()
    ]
    head = ["recipe, products in (batch)", "plain eager, µs", "segma, µs", "floor by bytes, µs", "by arithmetic, µs"]
    gain, share = ([r[key] for r in recipes.values()] for key in ("plain_over_ours", "share"))
    peaks = ", ".join(f"{speeds[name] / 1e12:,.0f} TFLOP/s in {name}" for name in ("float32", "tf32", "bfloat16"))
    found = report(
        result["machine"],
        table([*head, "plain / segma", "floor / segma"], rows),
        f"The plain step takes {min(gain):.1f} to {max(gain):.1f} times as long as segma's.",
        f"The larger of the two floors is {min(share):.0%} to {max(share):.0%} of segma's time; the rest is all that",
        "could still be gained (but bytes are no floor where the GPU's cache holds the weights). A step is everything:",
        "rows gathered on the device, views, both passes, clipping, Adam. The plain one has the same precision and no",
        f"DataLoader. Medians of {result['rounds']} rounds in turns. In this run a copy moved",
        f"{speeds['copy'] / 1e12:.2f} TB/s (read and written), a matrix product of 8,192 did {peaks}.",
    )
    return f"{found}\n\n{where_time_goes(recipes)}"


def where_time_goes(recipes: dict) -> str:
    kinds = list(next(iter(recipes.values()))["kernels"]["kinds"])
    rows = []
    for name, r in recipes.items():
        cells = [r["ours"], *r["kernels"]["kinds"].values(), r["kernels"]["launched"]]
        rows.append([name, *(f"{value:,.0f}" for value in cells)])
    about = "Microseconds of a step by kind of kernel; what runs beside something else counts in full."
    return f"{about}\n\n{table(['recipe, products in', 'step', *kinds, 'kernels launched'], rows)}\n\n{WHY}"


if __name__ == "__main__":
    print(page(measure()))
