"""ADGM (Maaloe et al., 2016): a semi-supervised variational auto-encoder with an auxiliary variable a."""

import dataclasses
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from segma import networks
from segma.baselines.gaussian import (
    Gaussian,
    Network,
    Normal,
    Rows,
    Variational,
    draw,
    initialise,
    likelihood,
    log_density,
    log_standard,
    objective,
    over_classes,
)
from segma.config import Config
from segma.model import output


class ADGM(Variational):
    """p(z) p(y) p(x|z,y) p(a|x,y,z) with q(a|x), q(y|a,x) and q(z|a,x,y).

    All Gaussians are diagonal, p(z) is standard normal, p(y) uniform. `trunk` makes pixels a vector, which every
    network that sees x takes, and `ascent` makes a vector pixels: convolutions where the settings ask for them.
    """

    TERMS = ("bound_labelled", "bound_unlabelled", "cross_entropy")
    BETAS = (0.9, 0.999)
    TEST_DRAWS = 100  # of a, over which q(y|a,x) is averaged to classify

    def __init__(self, config: Config, shape: tuple[int, ...], k: int) -> None:
        super().__init__(config, shape, k)
        a, z, hidden = config.auxiliary_dim, config.latent_dim, config.hidden
        self.trunk, self.ascent, x = ends(config, self.inner)
        self.auxiliary = Network([x], hidden, a, Gaussian, nn.ReLU)  # q(a|x)
        self.classifier = Network([a, x], hidden, k, nn.Linear, nn.ReLU)  # q(y|a,x)
        self.encoder = Network([a, x, k], hidden, z, Gaussian, nn.ReLU)  # q(z|a,x,y)
        self.decoder = Network([z, k], hidden[::-1], x, nn.Linear, nn.ReLU)  # p(x|z,y), before `ascent`
        self.auxiliary_decoder = Network([x, k, z], hidden, a, Gaussian, nn.ReLU)  # p(a|x,y,z)
        initialise(self, config.seed)

    def players(self) -> dict[str, list[nn.Parameter]]:
        return {"adgm": list(self.parameters())}

    def turns(self, done: float) -> tuple[str, ...]:
        return ("adgm",)

    def terms(self, turn: str, rows: Rows, generator: torch.Generator) -> dict[str, Tensor]:
        labelled, cross_entropy = self.labelled_bound(rows.labelled, rows.y, generator)
        return objective(labelled, self.unlabelled_bound(rows.x, generator), cross_entropy, self.config.beta)

    def labelled_bound(
        self, x: Float[Tensor, " n *shape"], y: Int[Tensor, " n"], generator: torch.Generator
    ) -> tuple[Float[Tensor, "draws n"], Float[Tensor, "draws n"]]:
        """L(x, y), and the cross-entropy -log q(y|a,x) at the same a."""
        features, label = self.trunk(x), self.one_hot[y]
        q: Normal = self.auxiliary(features)
        a = draw(q, generator, self.config.draws)
        cross_entropy = -(self.classifier(a, features).log_softmax(dim=-1) * label).sum(dim=-1)
        return self._bound(x, features, a, log_density(a, q), label, generator), cross_entropy

    def unlabelled_bound(self, x: Float[Tensor, " n *shape"], generator: torch.Generator) -> Float[Tensor, "draws n"]:
        """U(x), every class tried; a draw of a serves both L and the class probabilities that weigh it."""
        features = self.trunk(x)
        q: Normal = self.auxiliary(features)
        a = draw(q, generator, self.config.draws)
        each = a[:, None], log_density(a, q)[:, None], self.one_hot[:, None]
        bounds = self._bound(x, features, *each, generator)  # (draws, k, n)
        return over_classes(bounds, self.classifier(a, features).log_softmax(dim=-1))

    def _bound(
        self, x: Tensor, features: Tensor, a: Tensor, log_q: Tensor, y: Tensor, generator: torch.Generator
    ) -> Float[Tensor, "*rows"]:
        """log q(a|x) + log q(z|a,x,y) - log p(x|z,y) - log p(a|x,y,z) - log p(z) - log p(y) at one z for each a and y.

        Nothing is in closed form, as in the authors' code: where q is the posterior, the estimate has no variance.
        """
        q: Normal = self.encoder(a, features, y)
        z = draw(q, generator)
        inferred = log_q + log_density(z, q)
        raw = self._raw(z, y).flatten(-len(self.inner))
        pixels = likelihood(x.flatten(1), raw, self.config.likelihood, self.is_image)
        auxiliary = log_density(a, self.auxiliary_decoder(features, y, z))
        return inferred - pixels - auxiliary - log_standard(z) + math.log(self.k)

    @torch.no_grad()
    def classify(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n k"]:
        """q(y|a,x), averaged over TEST_DRAWS draws of a. All rows share the noise, which is always the same: what a row
        gets does not depend on the rows beside it."""
        generator = torch.Generator().manual_seed(0)
        features = self.trunk(x)
        q: Normal = self.auxiliary(features)
        shape = self.TEST_DRAWS, q.mean.shape[1]
        noise = torch.randn(shape, generator=generator, dtype=self.dtype).to(self.device)
        total = torch.zeros(len(x), self.k, device=self.device, dtype=self.dtype)
        for one in noise:  # one by one: all at once would take TEST_DRAWS times the memory
            total += self.classifier(q.mean + (q.log_variance / 2).exp() * one, features).softmax(dim=-1)
        return total / self.TEST_DRAWS

    @torch.no_grad()
    def generate(self, y: Int[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, " n *shape"]:
        z = torch.randn(len(y), self.latent_dim, generator=generator, device=self.device, dtype=self.dtype)
        return self.decode(torch.cat([z, self.one_hot[y]], dim=1))

    def encode(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n d"]:
        """The mean of z at the mean of a and the class most likely there; then that class."""
        features = self.trunk(x)
        a = self.auxiliary(features).mean
        y = self.one_hot[self.classifier(a, features).argmax(dim=1)]
        return torch.cat([self.encoder(a, features, y).mean, y], dim=1)

    def decode(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n *shape"]:
        return output(self._raw(*z.split([self.latent_dim, self.k], dim=1)), self.is_image, self.dtype)

    def _raw(self, z: Float[Tensor, "*rows code"], y: Float[Tensor, "*#rows k"]) -> Float[Tensor, " *all"]:
        """What the decoder gives before its output function, (*rows, *inner)."""
        return self.ascent(self.decoder(z, y).flatten(0, -2)).unflatten(0, z.shape[:-1])


def ends(config: Config, shape: tuple[int, ...]) -> tuple[nn.Module, nn.Module, int]:
    """What makes pixels a vector, what makes a vector pixels, and the length of that vector.

    Convolutional ones are those of `networks` without their dense layers (paper, appendix).
    """
    if config.network == "mlp":
        return nn.Flatten(), nn.Unflatten(1, shape), math.prod(shape)
    encoder, decoder = networks.build(dataclasses.replace(config, hidden=()), shape)
    (*body, last), (_, *ascent) = encoder.children(), decoder.children()
    assert isinstance(last, nn.Linear)
    return nn.Sequential(*body), nn.Sequential(*ascent), last.in_features
