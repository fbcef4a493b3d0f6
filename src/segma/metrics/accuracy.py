"""How well a model classifies, reconstructs and fills its mixture, on a split it has not trained on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from segma.baselines import AnyModel, classifies, encodes
from segma.config import Config
from segma.cramer_wold import silverman
from segma.errors import InputError
from segma.model import Model, classify_rows, encode_rows
from segma.objective import log_distance, reconstruction
from segma.step import rows_per_step

RECONSTRUCTION = "reconstruction_error", "reconstruction_share"
MEASURED = "error", "confusion", *RECONSTRUCTION, "log_distance", "log_distance_filled"


@torch.no_grad()
def evaluate(model: AnyModel, x: np.ndarray, y: np.ndarray, config: Config, n_train: int) -> dict:
    """Error over the labelled rows of the split, confusion matrix (rows: true class), squared error, also as a share of
    the one that the mean of all rows has, log d^2, and what that is of codes drawn from the mixture.

    What a model has none of is None: its components may be no classes, a rival has no mixture and may not encode.
    """
    found: dict = dict.fromkeys(MEASURED)
    z = encode_rows(model, x) if encodes(model) else None
    if z is not None and not (fine := torch.isfinite(z).all(dim=1)).all():
        first = int((~fine).nonzero()[0])
        raise InputError(f"row {first} of those to measure on: its values are too far from the training data")
    if classifies(config):
        mixture_joint = model.mixture.log_joint(z) if isinstance(model, Model) and z is not None else None
        guess = (classify_rows(model, x) if mixture_joint is None else mixture_joint).argmax(dim=1).cpu().numpy()
        known, k = y >= 0, len(model.class_weights)
        confusion = np.zeros((k, k), dtype=int)
        np.add.at(confusion, (y[known], guess[known]), 1)
        found["error"] = float(np.mean(guess[known] != y[known])) if known.any() else None
        found["confusion"] = confusion.tolist()
    if z is not None:
        found["reconstruction_error"] = reconstruction_error(model, x, z)
        found["reconstruction_share"] = found["reconstruction_error"] / max(variance(model, x), 1e-30)
        if isinstance(model, Model):
            found["log_distance"], found["log_distance_filled"] = log_distances(model, z, config, n_train)
    return found


def log_distances(model: Model, z: torch.Tensor, config: Config, n_train: int) -> tuple[float, float]:
    """log d^2 of codes, and of as many that fill the mixture: how low it gets."""
    full = model.mixture.sample(len(z), torch.Generator(z.device).manual_seed(0))
    found, filled = (batched_log_distance(model, codes, config, n_train) for codes in (z, full))
    return found, filled


@torch.no_grad()
def error(model: AnyModel, x: np.ndarray, y: np.ndarray) -> float:
    """The share of labelled rows whose class the model misses."""
    guess = classify_rows(model, x).argmax(dim=1).cpu().numpy()
    return float(np.mean((guess != y)[y >= 0]))


@torch.no_grad()
def reconstruction_error(model: Any, x: np.ndarray, z: torch.Tensor, size: int = 1000) -> float:
    """Squared error summed over features, averaged over samples; images in 0..1, tables standardised."""
    total = 0.0
    for i in range(0, len(x), size):
        part = model.prepare(torch.from_numpy(x[i : i + size]).to(z.device))
        total += float(reconstruction(part, model.decode(z[i : i + size]))) * len(part)
    return total / len(x)


def variance(model: Any, x: np.ndarray, size: int = 1000) -> float:
    """The squared error of one answer for all, the mean."""
    rows = [x[i : i + size] for i in range(0, len(x), size)]

    def each() -> Iterator[torch.Tensor]:  # a batch at a time
        return (model.prepare(torch.from_numpy(part).to(model.device)).double() for part in rows)

    mean = sum(part.sum(dim=0) for part in each()) / len(x)
    return sum(float((part - mean).square().sum()) for part in each()) / len(x)


@torch.no_grad()
def batched_log_distance(model: Model, z: torch.Tensor, config: Config, n_train: int) -> float:
    """log d^2 as in training: batches of that many rows, that gamma, averaged. Its level depends on both."""
    unlabelled, labelled = rows_per_step(config, n_train)
    size = min(unlabelled + labelled * config.all_rows, len(z))
    gamma = config.gamma_scale * silverman(size / model.mixture.k)
    batches = [part for part in z.split(size) if len(part) == size]
    return float(torch.stack([log_distance(part, model.mixture, gamma, config.phi) for part in batches]).mean())
