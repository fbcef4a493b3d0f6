"""A full Gaussian per class, fitted to a trained model's codes: what samples are drawn from if the settings say so.

Training brings the codes as a whole close to the mixture, not those of each class to its round component: in many
dimensions a component draws codes unlike any that the decoder has seen. The mixture stays, and so do its posteriors.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from segma.metrics.features import some_rows
from segma.model import Model, encode_rows

MOST = 20_000  # rows to fit to


@torch.no_grad()
def fit_to_codes(model: Model, x: np.ndarray) -> None:
    """Set what `model.draw` draws from by the codes of raw rows x, each counted to its most likely class."""
    z = encode_rows(model, x[some_rows(len(x), MOST)]).double()
    target = model.mixture
    y = target.posterior(z).argmax(dim=1)
    for k, (mean, variance) in enumerate(zip(target.means.double(), target.variances.double(), strict=True)):
        centre, factor = gaussian((z[y == k] - mean) / variance.sqrt())
        model.offsets[k] = centre
        model.factors[k] = factor


def gaussian(z: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
    """Mean and Cholesky factor of the covariance of z, as if d more rows had come from the standard normal: with few
    rows it stays near that one."""
    n, d = z.shape
    centre = z.sum(dim=0) / (n + d)
    scatter = (z - centre).T @ (z - centre) + d * torch.eye(d, dtype=z.dtype, device=z.device)
    return centre, torch.linalg.cholesky(scatter / (n + d))
