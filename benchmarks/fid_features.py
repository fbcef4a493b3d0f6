"""FID features per second: the Inception network with random weights, on images of MNIST's and CelebA's shapes.

    python benchmarks/fid_features.py        half a minute

Resizing to 299x299 is part of it, as in `segma evaluate --fid`, in float32, on a GPU in tf32 (results of segma 9154bca
and before are in float32); statistics and distances, which take seconds in all, are not.
"""

import numpy as np
import torch
from timing import machine, report, seconds, table, take_turns

from segma.metrics import inception
from segma.metrics.features import features

DEVICES = ("cpu", "cuda")
SHAPES = {"28x28 grey": (28, 28, 1), "64x64 colour": (64, 64, 3)}
IMAGES, ROUNDS = {"cpu": 32, "cuda": 4096}, 3
PROTOCOL = 100_000  # images of one evaluation of MNIST: both splits, samples, reconstructions, interpolations


def measure(device: str = "cuda" if torch.cuda.is_available() else "cpu") -> dict:
    torch.manual_seed(0)
    net, rng, n = inception.network().eval().to(device), np.random.default_rng(0), IMAGES[device]
    images = {name: rng.integers(0, 256, (n, *shape), dtype=np.uint8) for name, shape in SHAPES.items()}
    runners = {name: lambda x=x: n / seconds(lambda: features(net, x), 1, device) for name, x in images.items()}
    take_turns(runners, 1)
    found = {name: sorted(values)[ROUNDS // 2] for name, values in take_turns(runners, ROUNDS).items()}
    return {"machine": machine(device), "rounds": ROUNDS, "images": n, "per_second": found}


def page(result: dict) -> str:
    rows = [
        [name, f"{speed:,.1f}", f"{10_000 / speed:,.0f} s", f"{PROTOCOL / speed:,.0f} s"]
        for name, speed in result["per_second"].items()
    ]
    return report(
        result["machine"],
        table(["images", "a second", "10,000 of them", f"{PROTOCOL:,}: one `evaluate mnist --fid`"], rows),
        "The real images' features are kept in a file, so a second evaluation has 30,000 left to do.",
        f"Medians of {result['rounds']} rounds of {result['images']:,} images.",
    )


if __name__ == "__main__":
    print(page(measure()))
