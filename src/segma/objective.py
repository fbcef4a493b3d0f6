"""The terms of the objective (paper, Definition 1) and their sum. Pure functions of tensors."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from segma.cramer_wold import squared_distance
from segma.mixture import Mixture

Number = float | Tensor


class Terms(NamedTuple):
    """What is minimised, before it is weighted; scalars, or in a sweep one entry per model."""

    reconstruction: Float[Tensor, " *models"]
    log_distance: Float[Tensor, " *models"]
    cross_entropy: Float[Tensor, " *models"]
    consistency: Float[Tensor, " *models"]
    unlike: Float[Tensor, " *models"]  # how a critic sees reconstructions differ from their pictures
    unreal: Float[Tensor, " *models"]  # what a critic thinks of generated pictures
    criticism: Float[Tensor, " *models"]  # how wrong the critic is

    def total(
        self, alpha: Number, beta: Number, kappa: Number = 0.0, likeness: Number = 0.0, critic: Number = 0.0
    ) -> Float[Tensor, " *models"]:
        """MSE + alpha log d^2 + beta CE (Definition 1); what else counts is not the paper's."""
        paper = self.reconstruction + alpha * self.log_distance + beta * self.cross_entropy
        critics = likeness * self.unlike + critic * self.unreal + self.criticism
        return paper + kappa * self.consistency + critics


def reconstruction(x: Float[Tensor, " n *shape"], x_hat: Float[Tensor, " n *shape"]) -> Float[Tensor, ""]:
    """Squared error summed over the features, averaged over the samples (eq. MSE)."""
    return (x - x_hat).square().flatten(1).sum(dim=1).mean()


def log_distance(z: Float[Tensor, "n d"], target: Mixture, gamma: Number, form: str = "auto") -> Float[Tensor, ""]:
    """log d_gamma^2 between the codes and the target (eq. CW-GMM, Definition 1)."""
    return squared_distance(Mixture.from_points(z), target, gamma, form).log()


def cross_entropy(z: Float[Tensor, "n d"], y: Int[Tensor, " n"], target: Mixture) -> Float[Tensor, ""]:
    """-log P(y | z) averaged over the labelled rows, y >= 0 (eq. logloss); 0 where there are none."""
    total = F.cross_entropy(target.log_joint(z), y, ignore_index=-1, reduction="sum")
    return total / (y >= 0).sum().clamp(min=1)


def consistency(
    beliefs: Float[Tensor, "n k"], z_strong: Float[Tensor, "n d"], target: Mixture, confidence: Number
) -> Float[Tensor, ""]:
    """Where the posterior of a sample exceeds `confidence`, its class is the label of the sample's strong view.

    Averaged over all n, so that the term grows as the model becomes sure. `beliefs` only teach: no gradient goes there.
    """
    p, y = beliefs.detach().max(dim=1)
    y = torch.where(p > confidence, y, -1)
    return F.cross_entropy(target.log_joint(z_strong), y, ignore_index=-1, reduction="sum") / len(y)
