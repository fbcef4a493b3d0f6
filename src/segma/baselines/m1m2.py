"""M1+M2 (Kingma et al., 2014): a variational auto-encoder, then a semi-supervised one on its codes."""

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
    divergence,
    draw,
    initialise,
    likelihood,
    objective,
    over_classes,
    squared,
)
from segma.config import Config
from segma.model import output


class M1M2(Variational):
    """M1 is p(z1) p(x|z1) with q(z1|x); M2 is p(z2) p(y) p(z1|z2,y) with q(y|z1) and q(z2|z1,y).

    M1 is trained first and then kept; M2 sees new draws of z1 in every step. All Gaussians are diagonal, p(z1) and
    p(z2) standard normal, p(y) uniform. The activations are softplus; convolutional networks keep their ReLU.
    """

    TERMS = ("bound_m1", "bound_labelled", "bound_unlabelled", "cross_entropy")
    BETAS = (0.9, 0.999)

    def __init__(self, config: Config, shape: tuple[int, ...], k: int) -> None:
        super().__init__(config, shape, k)
        code, hidden = config.auxiliary_dim, config.inner_hidden
        self.encoder, self.decoder = image_networks(config, self.inner)
        self.classifier = Network([code], hidden, k, nn.Linear, nn.Softplus)
        self.code_encoder = Network([code, k], hidden, config.latent_dim, Gaussian, nn.Softplus)
        self.code_decoder = Network([config.latent_dim, k], hidden[::-1], code, nn.Linear, nn.Softplus)
        initialise(self, config.seed)

    def players(self) -> dict[str, list[nn.Parameter]]:
        m2 = (self.classifier, self.code_encoder, self.code_decoder)
        return {
            "m1": [*self.encoder.parameters(), *self.decoder.parameters()],
            "m2": [parameter for part in m2 for parameter in part.parameters()],
        }

    def turns(self, done: float) -> tuple[str, ...]:
        return ("m1",) if done < self.config.pretrain else ("m2",)

    def terms(self, turn: str, rows: Rows, generator: torch.Generator) -> dict[str, Tensor]:
        if turn == "m1":
            bound = self.image_bound(rows.x, generator).mean()
            return {"loss": bound, "bound_m1": bound}
        with torch.no_grad():  # M1 is kept
            z, labelled = (draw(self.encoder(x), generator, self.config.draws) for x in (rows.x, rows.labelled))
        y = self.one_hot[rows.y]
        return objective(
            self.code_bound(labelled, y, generator),
            self.unlabelled_bound(z, generator),
            -(self.classifier(labelled).log_softmax(dim=-1) * y).sum(dim=-1),
            self.config.beta,
        )

    def image_bound(self, x: Float[Tensor, " n *shape"], generator: torch.Generator) -> Float[Tensor, "draws n"]:
        """M1: KL(q(z1|x) || p(z1)) - log p(x|z1), the first in closed form (eq. 5)."""
        q: Normal = self.encoder(x)
        raw = self._raw(draw(q, generator, self.config.draws))
        return divergence(q) - likelihood(x.flatten(1), raw.flatten(2), self.config.likelihood, self.is_image)

    def code_bound(
        self, z: Float[Tensor, "*rows code"], y: Float[Tensor, "*classes k"], generator: torch.Generator
    ) -> Float[Tensor, "*all"]:
        """M2: L(z1, y) = KL(q(z2|z1,y) || p(z2)) - log p(z1|z2,y) - log p(y), the first in closed form (eq. 6)."""
        q: Normal = self.code_encoder(z, y)
        return divergence(q) - squared(z, self.code_decoder(draw(q, generator), y)) + math.log(self.k)

    def unlabelled_bound(
        self, z: Float[Tensor, "draws n code"], generator: torch.Generator
    ) -> Float[Tensor, "draws n"]:
        """M2: U(z1), every class tried (eq. 7)."""
        bounds = self.code_bound(z[:, None], self.one_hot[:, None], generator)  # (draws, k, n)
        return over_classes(bounds, self.classifier(z).log_softmax(dim=-1))

    @torch.no_grad()
    def classify(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n k"]:
        """q(y|z1) at the mean of q(z1|x), as in Kingma's code, so nothing is drawn; the paper's port draws z1."""
        return self.classifier(self.encoder(x).mean).softmax(dim=-1)

    @torch.no_grad()
    def generate(self, y: Int[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, " n *shape"]:
        """z2 and y to the mean of z1, and that to the mean of x: pixels come from M1's decoder."""
        z = torch.randn(len(y), self.latent_dim, generator=generator, device=self.device, dtype=self.dtype)
        return self.decode(torch.cat([z, self.one_hot[y]], dim=1))

    def encode(self, x: Float[Tensor, " n *shape"]) -> Float[Tensor, "n d"]:
        """The mean of z2 at the mean of z1 and the most likely class; then that class."""
        z = self.encoder(x).mean
        y = self.one_hot[self.classifier(z).argmax(dim=1)]
        return torch.cat([self.code_encoder(z, y).mean, y], dim=1)

    def decode(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n *shape"]:
        code, y = z.split([self.latent_dim, self.k], dim=1)
        return output(self.decoder(self.code_decoder(code, y)), self.is_image, self.dtype)

    def _raw(self, z: Float[Tensor, "draws n code"]) -> Float[Tensor, " draws n *shape"]:
        return self.decoder(z.flatten(0, 1)).unflatten(0, z.shape[:2])


def image_networks(config: Config, shape: tuple[int, ...]) -> tuple[nn.Module, nn.Module]:
    """M1's q(z1|x), which gives a Normal, and its decoder of z1, which ends before its output function.

    Convolutional ones are those of `networks` with the last dense layer replaced (paper, appendix).
    """
    d, pixels = config.auxiliary_dim, math.prod(shape)
    if config.network == "mlp":
        encoder = Network([pixels], config.hidden, d, Gaussian, nn.Softplus)
        decoder = Network([d], config.hidden[::-1], pixels, nn.Linear, nn.Softplus)
        return nn.Sequential(nn.Flatten(), encoder), nn.Sequential(decoder, nn.Unflatten(1, shape))
    encoder, decoder = networks.build(dataclasses.replace(config, latent_dim=d), shape)
    *body, last = encoder.children()
    assert isinstance(last, nn.Linear)
    return nn.Sequential(*body, Gaussian(last.in_features, d)), decoder
