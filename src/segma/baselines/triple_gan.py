"""Triple-GAN (Li et al., 2017): a classifier C and a class-conditional generator G against a discriminator D of (x, y).

The terms, with BCE on D's output and y_u = argmax C(x_u):
    D: BCE(real, 1) + .5 BCE(D(G(z, y), y), 0) + .5 BCE(D(x_u, y_u), 0); real are (x_l, y_l) and, mostly, (x_u, y_u)
    G: .5 BCE(D(G(z, y), y), 1)
    C: w max_y p_C(y|x_u) BCE(D(x_u, y_u), 1) + CE(x_l, y_l) + .3 H(p_C(.|x_u)) + 1e-3 CE(p(y), mean p_C(.|x_u))
       + 1e-4 |last layer|^2 and, later in training, lambda CE(C(G(z, y)), y), of which G learns nothing.
Losses, weights, networks and order are those of the authors' code for MNIST (grey images) and SVHN (the others).

What differs from it:
- A step has one batch for all three, where the original draws one for each. C sees its rows at once, labelled and
  unlabelled, in one batch norm. D sees the same (x_u, y_u) as real and as C's; what is real is still labelled in the
  original's proportion, by weights. G makes as many pictures as the batch has rows.
- Their classes have the shares `class_weights`, which are also p(y) above; in the original both are uniform.
- C's training alone has the rate and the momentum of the rest.
- Batch norm remembers each player's statistics in its own turn, and `generate` uses G's. The original takes those of
  the pictures that are sampled together: one alone would be the same for every z and y.
- The averaged C (decay .99, from zero, with its batch norm) is divided by the weights it has summed up so far.
- Below 16 pixels a side the dense layers are narrower, and convolutions and pools shrink less (triple_nets.py).
"""

import copy
import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from segma.baselines import triple_nets
from segma.baselines.gaussian import Rows
from segma.config import Config
from segma.errors import InputError
from segma.form import Form


class Weights(NamedTuple):
    """Of the terms, where MNIST and SVHN differ."""

    adversarial: float  # C's w
    pseudo: float  # C's lambda
    pseudo_from: float  # after this share of the training
    labelled: float  # share of the real pairs


GREY = Weights(0.5, 0.1, 0.3, 1 / 401)
COLOUR = Weights(0.5 * 0.01, 0.03, 0.2, 20 / 200)
ENTROPY, BALANCE, PRETRAIN_BALANCE, LAST_LAYER = 0.3, 1e-3, 0.3, 1e-4
DECAY = 0.99  # of the averaged classifier


def discriminator_loss(
    labelled: Float[Tensor, " m"], unlabelled: Float[Tensor, " u"], made: Float[Tensor, " n"], share: float
) -> Float[Tensor, ""]:
    """Of D's logits; `share` of the real pairs are labelled ones, and the unlabelled count both as real and as C's."""
    real = share * bce(labelled, True).mean() + (1 - share) * bce(unlabelled, True).mean()
    return real + 0.5 * bce(made, False).mean() + 0.5 * bce(unlabelled, False).mean()


def adversarial(logits: Float[Tensor, "u k"], judged: Float[Tensor, " u"]) -> Float[Tensor, ""]:
    """max_y p_C(y|x) BCE(D(x, y_u), 1): only the probability learns, neither argmax nor D's logits `judged`."""
    return (logits.softmax(dim=1).amax(dim=1) * bce(judged.detach(), True)).mean()


def entropy(logits: Float[Tensor, "u k"]) -> Float[Tensor, ""]:
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


def imbalance(logits: Float[Tensor, "u k"], shares: Float[Tensor, " k"]) -> Float[Tensor, ""]:
    """The cross-entropy of the mean prediction, relative to the classes' shares."""
    return -shares @ (logits.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(logits)))


def bce(logits: Float[Tensor, " n"], real: bool) -> Float[Tensor, " n"]:
    return F.softplus(-logits if real else logits)


class TripleGAN(Form):
    """`config.latent_dim` is that of z, uniform in 0..1 (the original's: 100)."""

    TERMS = ("discriminator", "generator", "classifier", "cross_entropy")
    BETAS = (0.5, 0.999)

    def __init__(self, config: Config, shape: tuple[int, ...], k: int) -> None:
        if len(shape) != 3:
            raise InputError(f"triple-gan is for images (h, w, c), not for rows of shape {shape}")
        super().__init__(shape)
        self.k, self.z_dim, self.pretrain = k, config.latent_dim, config.pretrain
        self.weights = GREY if triple_nets.is_grey(self.inner) else COLOUR
        self.classifier, self.generator, self.discriminator = triple_nets.build(self.inner, k, self.z_dim, config.seed)
        self.averaged = copy.deepcopy(self.classifier).requires_grad_(False)
        self.class_weights: Tensor
        self.register_buffer("class_weights", torch.full((k,), 1 / k))
        self.steps: Tensor
        self.register_buffer("steps", torch.zeros(()))

    def players(self) -> dict[str, list[nn.Parameter]]:
        c, g, d = (list(net.parameters()) for net in (self.classifier, self.generator, self.discriminator))
        return {"pretrain": c, "discriminator": d, "generator": g, "classifier": c, "pseudo": c}

    def turns(self, done: float) -> tuple[str, ...]:
        if done < self.pretrain:
            return ("pretrain",)
        return "discriminator", "generator", "classifier" if done < self.weights.pseudo_from else "pseudo"

    def terms(self, turn: str, rows: Rows, generator: torch.Generator) -> dict[str, Tensor]:
        if turn == "discriminator":
            return self._discriminator_turn(rows, generator)
        if turn == "generator":
            return self._generator_turn(rows, generator)
        return self._classifier_turn(turn, rows, generator)

    def _discriminator_turn(self, rows: Rows, rng: torch.Generator) -> dict[str, Tensor]:
        with torch.no_grad():
            y_u = self.classifier(rows.x, rng, track=False).argmax(dim=1)
            made, y = self._make(len(rows.x) + len(rows.y), rng, track=False)
        pairs = torch.cat([rows.labelled, rows.x, made]), torch.cat([rows.y, y_u, y])
        logits = self.discriminator(*pairs, rng).split([len(rows.y), len(y_u), len(y)])
        loss = discriminator_loss(*logits, share=self.weights.labelled)
        return {"loss": loss, "discriminator": loss}

    def _generator_turn(self, rows: Rows, rng: torch.Generator) -> dict[str, Tensor]:
        made, y = self._make(len(rows.x) + len(rows.y), rng)
        loss = 0.5 * bce(self.discriminator(made, y, rng), True).mean()
        return {"loss": loss, "generator": loss}

    def _classifier_turn(self, turn: str, rows: Rows, rng: torch.Generator) -> dict[str, Tensor]:
        """Alone ("pretrain"), against D ("classifier"), and then on G's pictures as well ("pseudo")."""
        labelled, logits = self.classifier(torch.cat([rows.labelled, rows.x]), rng).split([len(rows.y), len(rows.x)])
        cross_entropy = F.cross_entropy(labelled, rows.y)
        balance = PRETRAIN_BALANCE if turn == "pretrain" else BALANCE
        loss = cross_entropy + ENTROPY * entropy(logits) + balance * imbalance(logits, self.class_weights)
        loss = loss + LAST_LAYER * self.classifier.last.weight.square().sum()
        if turn != "pretrain":
            with torch.no_grad():
                judged = self.discriminator(rows.x, logits.argmax(dim=1), rng)
            loss = loss + self.weights.adversarial * adversarial(logits, judged)
        if turn == "pseudo":
            with torch.no_grad():
                made, y = self._make(len(rows.x) + len(rows.y), rng, track=False)
            loss = loss + self.weights.pseudo * F.cross_entropy(self.classifier(made, rng, track=False), y)
        return {"loss": loss, "classifier": loss, "cross_entropy": cross_entropy}

    def _make(self, n: int, rng: torch.Generator, track: bool = True) -> tuple[Tensor, Int[Tensor, " n"]]:
        """n pictures and their classes, as near to the shares as whole numbers come."""
        z = self._uniform(n, self.z_dim, rng)
        at = (torch.arange(n, device=self.device) + self._uniform(1, 1, rng)[0]) / n
        y = torch.searchsorted(self.class_weights.cumsum(dim=0), at).clamp(max=self.k - 1)
        return self.generator(z, y, rng, track), y

    @torch.no_grad()
    def after(self) -> None:
        """The averaged C follows C: at once after the first step, by 1 - DECAY in the end."""
        self.steps += 1
        share = (1 - DECAY) / (1 - DECAY**self.steps)
        pairs = zip(self.averaged.state_dict().values(), self.classifier.state_dict().values(), strict=True)
        for mean, value in pairs:
            mean.lerp_(value, share.to(value.dtype))

    def classify(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n k"]:
        """P(y | x) of the averaged classifier; nothing is drawn."""
        return self.averaged(x).softmax(dim=1)

    def generate(self, y: Int[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, " n *shape"]:
        return self.generator(self._uniform(len(y), self.z_dim, generator), y)

    def _uniform(self, n: int, d: int, rng: torch.Generator) -> Float[Tensor, "n d"]:
        return torch.rand(n, d, generator=rng, dtype=self.dtype, device=self.device)
