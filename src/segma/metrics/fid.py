"""Frechet and kernel Inception distances, and the scores of a model with the protocol that produced them.

FID: |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)) of the features' means and covariances (Heusel et al., 2017).
KID: the squared maximum mean discrepancy of the features under (x.y/d + 1)^3 (Binkowski et al., 2018).
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from segma.baselines import AnyModel, encodes
from segma.data.arrays import Data, Progress, fingerprint, some_rows
from segma.errors import InputError
from segma.metrics import inception
from segma.metrics.features import (
    PROTOCOL,
    WIDTH,
    Statistics,
    blocks,
    cached,
    features,
    interpolated,
    interpolated_at,
    on,
    reconstructed,
    sampled,
    statistics,
)

ALONG = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # points of an interpolation; the pairs have no order, so t is as 1 - t
KEPT = 10_000  # rows of a split whose features are kept beside the statistics of all of them
FEW = 200  # samples that a CPU makes features of within minutes
LEAST = 4  # samples: KID takes subsets of two from a half of them

Extract = Callable[[np.ndarray, str], np.ndarray]  # (images, what they are) -> their features (n, d)


def frechet(a: Statistics, b: Statistics) -> float:
    """The squared Frechet distance of two Gaussians, also where a covariance is singular.

    tr (S1 S2)^(1/2) is the sum of the square roots of the eigenvalues of F S2 F^T, S1 = F^T F, which is symmetric
    and has none below 0. What rounding brings below 0, there or in the distance of equals, becomes 0.
    """
    product = a.factor @ on(a.device, b.covariance) @ a.factor.T
    shared = float(torch.linalg.eigvalsh(product).clamp(min=0).sqrt().sum())
    gap = a.mean - b.mean
    return max(0.0, float(gap @ gap + np.trace(a.covariance) + np.trace(b.covariance) - 2 * shared))


class Kid(NamedTuple):
    """The mean over subsets and its standard error: how well the subsets settle it, for these samples."""

    mean: float
    standard_error: float
    subsets: int
    size: int  # of a subset: as asked, but at most half of either sample, that subsets differ


def kid(x: np.ndarray, y: np.ndarray, subsets: int = 100, size: int = 1000, seed: int = 0, device: str = "cpu") -> Kid:
    """The unbiased estimate of MMD^2 between features (n, d) and (m, d), averaged over random subsets of equal size."""
    size = min(size, len(x) // 2, len(y) // 2)
    if size < 2 or subsets < 2:
        raise InputError(
            f"{len(x)} and {len(y)} samples in {subsets} subsets of {size}: "
            f"KID needs at least {LEAST} of either and 2 subsets of 2"
        )
    rng = np.random.default_rng(seed)
    parts = (
        (x[rng.choice(len(x), size, replace=False)], y[rng.choice(len(y), size, replace=False)]) for _ in range(subsets)
    )
    found = [squared_mmd(a, b, device) for a, b in parts]
    return Kid(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(subsets)), subsets, size)


def squared_mmd(x: np.ndarray, y: np.ndarray, device: str = "cpu") -> float:
    """E k(x, x') + E k(y, y') - 2 E k(x, y) over pairs of different samples, k = (x.y/d + 1)^3; may be below 0."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.T / a.shape[1] + 1) ** 3

    def within(a: Tensor) -> Tensor:
        k = kernel(a, a)
        return (k.sum() - k.trace()) / (len(a) * (len(a) - 1))

    one, two = on(device, x), on(device, y)
    return float(within(one) + within(two) - 2 * kernel(one, two).mean())


def per_class(
    x: np.ndarray, x_labels: np.ndarray, y: np.ndarray, y_labels: np.ndarray, k: int, device: str = "cpu"
) -> list[float | None]:
    """The FID of each class's features alone; None for a class of which either side has fewer than two."""
    both = [(x[x_labels == label], y[y_labels == label]) for label in range(k)]
    return [
        frechet(statistics([a], device), statistics([b], device)) if min(len(a), len(b)) >= 2 else None for a, b in both
    ]


class Reference(NamedTuple):
    """Real images as FID sees them: the statistics of them all, and the features of up to KEPT, with their rows."""

    statistics: Statistics
    features: np.ndarray
    rows: np.ndarray


def reference(x: np.ndarray, extract: Extract, folder: Path, key: dict, text: str, device: str = "cpu") -> Reference:
    """Of the images x, from the file that keeps it, or made and kept."""

    def make() -> dict[str, np.ndarray]:
        found, rows = extract(x, text), some_rows(len(x), KEPT)
        whole = statistics(blocks(found), device)
        numbers = {"mean": whole.mean, "covariance": whole.covariance, "n": np.array(whole.n)}
        return {**numbers, "features": found[rows], "rows": rows}

    alone = Data("", x, np.empty(0, np.int64), x[:0], np.empty(0, np.int64), ())  # whatever their labels
    found = cached(folder, {**key, "images": fingerprint(alone), "rows": len(x), "protocol": PROTOCOL}, make)
    whole = Statistics(found["mean"], found["covariance"], int(found["n"]), device)
    return Reference(whole, found["features"], found["rows"])


def scores(
    model: AnyModel,
    data: Data,
    inception_path: Path | None,
    data_dir: Path,
    n: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
    rows: int | None = None,
    along: Sequence[float] = (),
    samples_alone: bool = False,
) -> dict:
    """FID, KID, interpolation and reconstruction FID of a model against both splits, each with how it was made.

    `rows` limits the real images of a split, where there is no GPU: a number of another protocol, and it says so.
    `along` are values of t at which interpolations are measured too, all at the same t; `samples_alone` leaves out
    interpolations and reconstructions.
    """
    check(data, n, rows)
    path = inception.find(inception_path, data_dir)
    net, digest = inception.load(path, model.device), inception.digest(path)
    weights = {"file": path.name, "sha256": digest, "known": digest in inception.KNOWN}
    if n > FEW and model.device.type == "cpu":
        warnings.warn(
            f"the FID network does some ten images a second on a CPU; --samples {FEW} takes minutes", stacklevel=2
        )

    def extract(images: np.ndarray, text: str) -> np.ndarray:
        return features(net, images, progress, text=text)

    precision = "tf32" if model.device.type == "cuda" else "float32"
    key = {"weights": digest, "precision": precision}
    found = measured(model, data, extract, data_dir / "statistics", key, n, seed, rows, along, samples_alone)
    found["protocol"] = {
        "network": f"Inception of 2015-12-05 (TensorFlow), {WIDTH} pool features",
        "weights": weights,
        "resize": "bilinear to 299x299 as TensorFlow 1: no antialiasing, no half-pixel centres",
        "quantisation": "uint8 (rounded), grey repeated to RGB, then (x - 128) / 128",
        "precision": f"{precision}, statistics in float64",
        **found["protocol"],
        "device": model.device.type,
        "version": PROTOCOL,
    }
    return found


def check(data: Data, n: int, rows: int | None) -> None:
    if data.kind != "image":
        raise InputError(f"{data.name} is a table of shape {data.shape}: FID is for images, grey or RGB")
    if not len(data.x_test):
        raise InputError(
            f"{data.name} has no test split, against which FID is measured; train with one, or --set holdout=0.2"
        )
    for what, count in (("training rows", len(data.x_train)), ("test rows", len(data.x_test)), ("samples", n)):
        if count < LEAST:
            raise InputError(
                f"{data.name}: {count} {what}, FID and KID need at least {LEAST} (and mean little below {WIDTH})"
            )
    if rows is not None and rows < LEAST:
        raise InputError(f"rows = {rows}: allowed are at least {LEAST}")


def measured(
    model: AnyModel,
    data: Data,
    extract: Extract,
    folder: Path,
    key: dict,
    n: int,
    seed: int,
    rows: int | None = None,
    along: Sequence[float] = (),
    samples_alone: bool = False,
) -> dict:
    """The scores of a model by features of any kind."""
    images, labels = sampled(model, n, seed)
    again = some_rows(len(data.x_test), n)
    made, at = {"fid": images}, {f"interpolation at t = {t:g}": t for t in along if encodes(model)}
    if encodes(model) and not samples_alone:
        made["interpolation_fid"] = interpolated(model, data.x_test, n, seed)
        made["reconstruction_fid"] = reconstructed(model, data.x_test[again])
    made |= {name: interpolated_at(model, data.x_test, t, n, seed) for name, t in at.items()}
    if len(model.class_weights) != len(data.classes):  # a component is no class
        labels = np.full(n, -1)
    found = compared(made, labels, data, extract, folder, key, seed, rows, model.device.type)
    if at:
        each = [found.pop(name) for name in at]
        found["interpolation_fid_at"] = {"t": list(along)} | {s: [one[s] for one in each] for s in ("test", "train")}
    found["protocol"] |= {
        "samples": n,
        "seed": seed,
        "class_weights": model.class_weights.tolist(),
        "interpolation": "random pairs of test images, one uniform point on the segment between their codes",
        "reconstruction": f"{len(again)} test images",
    }
    return found


def compared(
    made: dict[str, np.ndarray],
    labels: np.ndarray,
    data: Data,
    extract: Extract,
    folder: Path,
    key: dict,
    seed: int = 0,
    rows: int | None = None,
    device: str = "cpu",
) -> dict:
    """Images of any model, by their scores' names, against both splits; `labels` (-1: none) are of those of "fid"."""
    splits = {"test": data.x_test, "train": data.x_train}
    chosen = {split: some_rows(len(x), rows or len(x)) for split, x in splits.items()}
    real = {
        split: reference(x[chosen[split]] if rows else x, extract, folder, key, f"{split} images", device)
        for split, x in splits.items()
    }
    found = {name: extract(images, name.replace("_", " ")) for name, images in made.items()}
    own = {name: statistics(blocks(x), device) for name, x in found.items()}
    test, k = real["test"], len(data.classes)
    y_test = data.y_test[chosen["test"]][test.rows]
    classes = per_class(found["fid"], labels, test.features, y_test, k, device)
    counts = {what: np.bincount(y[y >= 0], minlength=k) for what, y in (("samples", labels), ("reference", y_test))}
    return {
        **{name: {split: frechet(real[split].statistics, own[name]) for split in splits} for name in made},
        "kid": {split: kid(found["fid"], real[split].features, seed=seed, device=device)._asdict() for split in splits},
        "per_class_fid": dict(zip(data.classes, classes, strict=True)),
        "protocol": {
            "reference": {split: real[split].statistics.n for split in splits},
            "reference_rows": f"at most {rows} of a split, chosen at random" if rows else "all",
            # a covariance of fewer samples than features is singular, and FID too large
            "few": min(x.n for x in (*own.values(), *(split.statistics for split in real.values()))) < WIDTH,
            "kid": f"unbiased, (x.y/d + 1)^3, against at most {KEPT} rows of a split",
            "per_class": {
                **{what: count.tolist() for what, count in counts.items()},
                "few": bool(min(count.min() for count in counts.values()) < WIDTH),
            },
        },
    }
