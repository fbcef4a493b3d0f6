"""Every setting of a run in one frozen dataclass; recipes.py fills it."""

import dataclasses
import math
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from segma.errors import InputError, near


@dataclass(frozen=True)
class Config:
    """What a run used. Unknown names and impossible values are errors; recipes.py gives the numbers a reason."""

    # the data
    data: str = "arrays"  # a named data set, or the path of an .npz, a .csv or a folder
    labels: int | None = None  # how many labels to keep, stratified; None keeps all
    label_seed: int | None = None  # chooses which; None takes `seed`
    holdout: float = 0.0  # share of the labelled rows kept out of training to measure on, instead of the test split
    image_size: int | None = None  # resize a folder's images: shortest side, then centre crop
    skip_broken: bool = False  # leave out a folder's unreadable images instead of stopping
    # the networks
    model: str = "segma"
    recipe: str = "best"
    network: str = "mlp"  # mlp, strided, blocks, residual or deep (networks.py)
    hidden: tuple[int, ...] = (1024, 1024)  # widths of the encoder's dense layers; the decoder mirrors them
    filters: tuple[int, ...] = ()  # channels of its convolutions
    additions: int = 1  # of residual and deep: so often two 3x3 convolutions add to what they read, after each halving
    latent_dim: int = 10
    start_at_mean: bool = False  # the decoder's first pictures have the data's mean colour; otherwise they are grey
    # the mixture
    mean_distance: float = 1.0  # between any two means at the start
    train_weights: bool = False  # p_k follow what all codes are taken for; otherwise they are the labelled shares
    train_variances: bool = False  # sigma_k^2; otherwise 1
    clouds: int = 0  # Gaussians that samples of a class come from, fitted to its codes (clouds.py); 0: its component
    # the objective
    alpha: float = 5.0  # weight of log d^2
    beta: float = 10.0  # weight of the cross-entropy
    gamma_scale: float = 1.0  # multiplies Silverman's bandwidth
    phi: str = "auto"  # paper, exact, or auto: the paper's for latent_dim >= 10
    all_rows: bool = True  # reconstruction and distance on the labelled rows too, not on the unlabelled alone
    kappa: float = 0.0  # weight of the consistency of two views; 0 is off
    confidence: float = 0.95  # posterior above which an unlabelled row teaches its strong view
    neighbours: int = 0  # how many rows most like a row vote on what its strong view is taught; 0: the row decides
    views: str = "none"  # how views are made (data/views.py)
    critic: float = 0.0  # weight of what a critic thinks of generated pictures (critic.py); 0 is off
    likeness: float = 0.0  # with a critic, weight of how it sees reconstructions differ from their pictures
    # the rivals (baselines/)
    auxiliary_dim: int = 100  # ADGM's a; of M1+M2, the code of M1
    inner_hidden: tuple[int, ...] = (300,)  # widths of M2's networks, which work on M1's codes
    draws: int = 1  # over which a bound is averaged
    likelihood: str = "bernoulli"  # of a pixel given its mean, or gaussian: minus the squared error
    pretrain: float = 0.0  # share of the steps in which M1, or Triple-GAN's classifier, trains alone
    # the batches
    batch_size: int = 200  # rows per step, labelled and unlabelled
    labelled_share: float = 0.5  # of these
    # the optimiser
    epochs: int = 100  # passes over the training rows
    learning_rate: float = 3e-4
    schedule: str = "constant"  # or cosine: down to 0 at the last step; tail: from 30 % on, exponentially to 3 %
    warmup: int = 0  # steps over which the rate rises to its value
    weight_decay: float = 0.0  # of the rivals: times half the squared weights
    clip_norm: float = 0.0  # global gradient norm; 0 is off
    clip_value: float = 0.0  # then each gradient's size; 0 is off
    average: float = 0.0  # decay of the averaged weights that are used after training; 0 is off
    precision: str = "tf32"  # of the networks: float32; tf32 or bfloat16 where the device has them
    # the run
    seed: int = 0  # initial weights, batch order, views
    log_every: int = 100  # steps
    samples_every: int = 10  # epochs between pictures
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} = {getattr(self, name)!r}: allowed are {', '.join(choices)}")
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:  # NaN fails too
                raise InputError(f"{name} = {value}: allowed is {_interval(low, high)}")
        for name in ("hidden", "filters", "inner_hidden"):
            if any(width < 1 for width in getattr(self, name)):
                raise InputError(f"{name} = {getattr(self, name)}: every width must be at least 1")
        if self.phi == "paper" and self.latent_dim < 2:
            raise InputError("phi = 'paper': its approximation needs latent_dim >= 2; allowed for 1 are auto, exact")
        if self.network != "mlp" and not self.filters:
            raise InputError(f"network = {self.network!r} needs filters, for instance filters=32,64,64")

    @property
    def labelled_rows(self) -> int:
        """Labelled rows per step; at least one of either kind."""
        return min(max(1, round(self.batch_size * self.labelled_share)), self.batch_size - 1)

    @property
    def unlabelled_rows(self) -> int:
        return self.batch_size - self.labelled_rows

    @property
    def draws_each_step(self) -> bool:
        """Whether a step needs random numbers, beside those that choose its rows."""
        return self.views != "none" or self.critic > 0

    def to_json(self) -> dict:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, settings: dict) -> "Config":
        return override(cls(), {name: value for name, value in settings.items() if (name, value) not in RETIRED})


RETIRED = (
    ("samples_from", "mixture"),
    ("teacher", False),
    ("balanced", False),
)  # in runs of before, and without effect
CHOICES = {
    "model": ("segma", "cwae", "m1m2", "adgm", "triple-gan"),
    "recipe": ("best", "paper"),
    "network": ("mlp", "strided", "blocks", "residual", "deep"),
    "phi": ("auto", "paper", "exact"),
    "views": ("none", "noise", "affine", "pen", "centred", "photo", "face", "street"),
    "likelihood": ("bernoulli", "gaussian"),
    "schedule": ("constant", "cosine", "tail"),
    "precision": ("float32", "tf32", "bfloat16"),
}
RANGES = {
    "labels": (1, math.inf),
    "holdout": (0, 0.9),
    "image_size": (4, 1024),
    "additions": (1, 100),
    "latent_dim": (1, 4096),
    "mean_distance": (1e-6, 1e6),
    "clouds": (0, 1000),
    "alpha": (0, 1e9),
    "beta": (0, 1e9),
    "gamma_scale": (1e-9, 1e9),
    "kappa": (0, 1e9),
    "confidence": (0, 1),
    "neighbours": (0, 10**6),
    "critic": (0, 1e9),
    "likeness": (0, 1e9),
    "auxiliary_dim": (1, 4096),
    "draws": (1, 1000),
    "pretrain": (0, 1),
    "weight_decay": (0, 1e3),
    "batch_size": (2, 10**7),
    "labelled_share": (0, 1),
    "epochs": (1, 10**9),
    "learning_rate": (1e-12, 1e3),
    "warmup": (0, 10**9),
    "clip_norm": (0, 1e9),
    "clip_value": (0, 1e9),
    "average": (0, 0.999999),
    "seed": (0, 2**32 - 1),
    "label_seed": (0, 2**32 - 1),
    "log_every": (1, 10**9),
    "samples_every": (1, 10**9),
    "checkpoint_seconds": (0, 1e9),
}
TYPES = typing.get_type_hints(Config)


def _interval(low: float, high: float) -> str:
    return f"{low:g} or more" if high == math.inf else f"{low:.10g} to {high:.10g}"


def check_names(settings: Iterable[str]) -> None:
    for name in settings:
        if name not in TYPES:
            raise InputError(f"unknown setting {name!r}: {near(name, TYPES)}")


def override(config: Config, settings: dict) -> Config:
    """`config` with some settings replaced; values may be text, as typed after --set."""
    check_names(settings)
    return dataclasses.replace(config, **{name: parse(name, value) for name, value in settings.items()})


def parse(name: str, value: Any) -> Any:
    """`value` as the type that setting `name` has."""
    kind, text = TYPES[name], str(value).strip()
    optional = isinstance(kind, types.UnionType)
    if optional and (value is None or text.lower() == "none"):
        return None
    kind = typing.get_args(kind)[0] if optional else kind
    try:
        if kind is bool:
            return {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}[text.lower()]
        if typing.get_origin(kind) is tuple:
            parts = value if isinstance(value, list | tuple) else text.strip("[]()").replace("x", ",").split(",")
            return tuple(_whole(part) for part in parts if str(part).strip())
        if kind is int:
            return _whole(value)
        return kind(text) if isinstance(value, str) else kind(value)
    except (ValueError, KeyError, TypeError, OverflowError):
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        wanted = words.get(kind, "whole numbers, as 1024,1024 or 1024x1024")
        raise InputError(f"{name} = {text!r}: wanted is {wanted}") from None


def _whole(value: Any) -> int:
    if not isinstance(value, str) and value != int(value):
        raise ValueError
    return int(value)


def assignments(pairs: list[str]) -> dict[str, str]:
    """--set KEY=VALUE ... as a dict."""
    for pair in pairs:
        if "=" not in pair:
            raise InputError(f"--set {pair}: wanted is KEY=VALUE, for instance --set alpha=5")
    found = [[part.strip() for part in pair.split("=", 1)] for pair in pairs]
    keys = [key for key, _ in found]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--set {key}=... {keys.count(key)} times: give it once")
    return dict(found)
