"""The paper's rivals, and every model by its name. What trains, keeps, measures or draws a run goes by this face:

    prepare, restore, classify(x), generate(y, generator), class_weights     all
    encode(x), decode(z)                                                     all but Triple-GAN, which cannot encode
    mixture                                                                  SeGMA and CWAE

A rival trains in turns. `turns(done)` names those of a step when so much of the training is over, `players()` has the
parameters that each trains, `terms(turn, rows, generator)` gives its losses, and what moves without gradients moves in
`after()`, where there is one.
"""

import torch

from segma.baselines.adgm import ADGM
from segma.baselines.gaussian import Rows
from segma.baselines.m1m2 import M1M2
from segma.baselines.triple_gan import TripleGAN
from segma.config import Config
from segma.errors import InputError
from segma.model import Model

Rival = M1M2 | ADGM | TripleGAN
AnyModel = Model | Rival
RIVALS: dict[str, type[Rival]] = {"m1m2": M1M2, "adgm": ADGM, "triple-gan": TripleGAN}
NETS = ("network", "hidden", "filters", "additions", "beta")
OURS = (
    *("start_at_mean", "mean_distance", "train_weights", "train_variances", "clouds", "alpha", "gamma_scale", "phi"),
    *("all_rows", "kappa", "confidence", "neighbours", "views", "critic", "likeness", "average"),
)
USED = {  # the settings that not every model has a use for, by those that have
    "segma": (*NETS, *OURS),
    "cwae": (*NETS, *OURS),
    "m1m2": (*NETS, "auxiliary_dim", "inner_hidden", "draws", "likelihood", "pretrain", "weight_decay"),
    "adgm": (*NETS, "auxiliary_dim", "draws", "likelihood", "weight_decay"),
    "triple-gan": ("pretrain", "weight_decay"),
}
__all__ = ["ADGM", "M1M2", "RIVALS", "AnyModel", "Rival", "Rows", "TripleGAN", "build", "classifies", "encodes"]


def build(config: Config, shape: tuple[int, ...], k: int) -> AnyModel:
    """An untrained model of the kind that `config.model` names; CWAE is SeGMA with a single Gaussian."""
    for name in {name: None for names in USED.values() for name in names if name not in USED[config.model]}:
        if (value := getattr(config, name)) != getattr(Config, name):
            whose = ", ".join(model for model, names in USED.items() if name in names)
            raise InputError(f"{name} = {value}: {config.model} has no use for it, it is for {whose}")
    with torch.random.fork_rng(devices=[]):  # PyTorch fills layers by its own numbers, before ours replace them
        if config.model in RIVALS:
            return RIVALS[config.model](config, shape, k)
        return Model(config, shape, 1 if config.model == "cwae" else k)


def classifies(config: Config) -> bool:
    """Whether its classes are the data's: without cross-entropy, components are no classes."""
    return config.model != "cwae" and (config.model != "segma" or config.beta > 0)


def encodes(model: AnyModel) -> bool:
    return hasattr(model, "encode")
