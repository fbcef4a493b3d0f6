"""How well a model classifies, reconstructs and fills its mixture, on a split it has not trained on."""

import numpy as np
import torch

from segma.config import Config
from segma.cramer_wold import silverman
from segma.model import Model, encode_rows
from segma.objective import log_distance, reconstruction
from segma.step import rows_per_step


@torch.no_grad()
def evaluate(model: Model, x: np.ndarray, y: np.ndarray, config: Config, n_train: int) -> dict:
    """Error over the labelled rows of the split, confusion matrix (rows: true class), squared error, log d^2."""
    z = encode_rows(model, x)
    guess = model.mixture.log_joint(z).argmax(dim=1).cpu().numpy()
    known = y >= 0
    confusion = np.zeros((model.mixture.k,) * 2, dtype=int)
    np.add.at(confusion, (y[known], guess[known]), 1)
    return {
        "error": float(np.mean(guess[known] != y[known])) if known.any() else None,
        "confusion": confusion.tolist(),
        "reconstruction_error": reconstruction_error(model, x, z),
        "log_distance": batched_log_distance(model, z, config, n_train),
    }


@torch.no_grad()
def error(model: Model, x: np.ndarray, y: np.ndarray) -> float:
    """The share of labelled rows whose class the posterior misses."""
    guess = model.mixture.log_joint(encode_rows(model, x)).argmax(dim=1).cpu().numpy()
    return float(np.mean((guess != y)[y >= 0]))


@torch.no_grad()
def reconstruction_error(model: Model, x: np.ndarray, z: torch.Tensor, size: int = 1000) -> float:
    """Squared error summed over features, averaged over samples; images in 0..1, tables standardised."""
    total = 0.0
    for i in range(0, len(x), size):
        part = model.prepare(torch.from_numpy(x[i : i + size]).to(z.device))
        total += float(reconstruction(part, model.decode(z[i : i + size]))) * len(part)
    return total / len(x)


@torch.no_grad()
def batched_log_distance(model: Model, z: torch.Tensor, config: Config, n_train: int) -> float:
    """log d^2 as in training: batches of that many rows, that gamma, averaged. Its level depends on both."""
    unlabelled, labelled = rows_per_step(config, n_train)
    size = min(unlabelled + labelled * config.all_rows, len(z))
    gamma = config.gamma_scale * silverman(size / model.mixture.k)
    batches = [part for part in z.split(size) if len(part) == size]
    return float(torch.stack([log_distance(part, model.mixture, gamma, config.phi) for part in batches]).mean())
