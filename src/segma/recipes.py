"""Recipes: a full Config for a data set, by name. `best` is what this project recommends, `paper` what the paper did.

Sources: "sec." is the paper; "code" is what the authors' published code does where the paper is silent or vague.
"""

import math

from segma import rival_recipes
from segma.config import CHOICES, Config, override
from segma.errors import InputError, near

BFLOAT16: dict = {"precision": "bfloat16"}  # for nets that gain by it; on MNIST tf32 scored the same (experiments.md)

PAPER: dict = {
    "latent_dim": 10,
    "mean_distance": 1.0,  # sec. VI-A: "distance between each two means is 1 at the start"; code: 0.14, 2 and 0.5
    "alpha": 5.0,  # sec. VI-A
    "beta": 10.0,  # sec. VI-A
    "gamma_scale": 1.0,  # sec. VI-A: gamma = (4 / (3 N_c))^(2/5)
    "phi": "auto",  # sec. III: the approximation, for D >= 10
    "all_rows": True,  # sec. V: "MSE and d^2 are evaluated for all data"; code: on the unlabelled half alone
    "labelled_share": 0.5,  # sec. V: "half of data in a mini-batch is labeled"
    "learning_rate": 3e-4,  # sec. VI-A; Adam with its defaults: code
    "schedule": "constant",  # code
    "clip_norm": 5.0,  # code, not in the paper
    "clip_value": 1.0,  # code, not in the paper
    "batch_size": 200,  # code: 100 + 100 on MNIST
    "epochs": 500,  # code: checkpoints of epoch 500
}
PAPER_DATA: dict[str, dict] = {
    "mnist": {**BFLOAT16, "labels": 100, "hidden": (1024, 1024)},  # sec. VI-A
    "svhn": {
        **BFLOAT16,
        "labels": 1000,  # sec. VI-A
        "hidden": (786,) * 5,  # sec. VI-A
        "latent_dim": 20,  # sec. VI-A
        "batch_size": 2000,  # code: 1000 + 1000
        "epochs": 400,  # code
        "samples_every": 20,
    },
    "celeba": {
        **BFLOAT16,
        "labels": 1000,  # sec. VI-A
        "network": "strided",  # appendix
        "filters": (32, 32, 64, 64),  # appendix
        "hidden": (786, 786),  # appendix
        "latent_dim": 32,  # appendix
        "batch_size": 512,  # code: 256 + 256
    },
    "digits": {"labels": 100, "hidden": (256, 256)},  # not in the paper
}

CWAE: dict = {  # the paper's unsupervised rows: the same nets and alpha, no labels, a single Gaussian
    "beta": 0.0,
    "labelled_share": 0.0,  # one row, which counts as any other
    "clip_norm": 0.0,  # code
    "clip_value": 0.0,  # code
}

BEST: dict = {
    "mean_distance": 8.0,
    "all_rows": False,  # the labelled rows are few: their views teach the classes, the whole set the rest
    "kappa": 10.0,
    "views": "affine",
    "batch_size": 320,
    "labelled_share": 0.2,
    "learning_rate": 1e-3,
    "schedule": "cosine",
}
PHOTOS: dict = {
    **BFLOAT16,
    "labels": 1000,
    "hidden": (),
    "latent_dim": 32,
    "batch_size": 384,
    "labelled_share": 1 / 3,
    "warmup": 500,
    "clouds": 10,  # not on MNIST, whose codes fill their components: there samples get worse (experiments.md)
}
BEST_DATA: dict[str, dict] = {
    "digits": {
        "labels": 100,
        "network": "strided",
        "filters": (32, 64),
        "hidden": (256,),
        "views": "pen",
        "batch_size": 160,
        "learning_rate": 2e-3,
        "epochs": 250,
        "samples_every": 25,
    },
    "mnist": {
        **BFLOAT16,
        "labels": 100,
        "network": "strided",
        "filters": (32, 64, 128),
        "hidden": (256,),
        "latent_dim": 12,
        "start_at_mean": True,
        "views": "centred",
        "neighbours": 10,
        "critic": 5.0,
        "average": 0.999,
        "epochs": 170,
    },
    "svhn": {
        **PHOTOS,
        "network": "residual",
        "filters": (64, 128, 256),
        "start_at_mean": True,
        "views": "street",
        "alpha": 20.0,
        "beta": 60.0,
        "kappa": 60.0,
        "clip_norm": 60.0,
        "critic": 5.0,
        "average": 0.999,
        "epochs": 140,  # as many steps as on MNIST
    },
    "celeba": {
        **PHOTOS,
        "network": "deep",
        "filters": (64, 128, 256, 256),
        "start_at_mean": True,
        "mean_distance": 5.0,  # two classes meet where pictures are, so the way from one to the other is drawn well
        "confidence": 0.5,  # with means so near 0.95 cost classes (experiments.md)
        "views": "face",
        "alpha": 200.0,
        "beta": 1000.0,
        "kappa": 1000.0,
        "clip_norm": 500.0,
        "critic": 20.0,
        "likeness": 300.0,
        "average": 0.999,
        "epochs": 50,
    },
}


def recipe(name: str, data: str, shape: tuple[int, ...], n: int, k: int, model: str = "segma") -> Config:
    """The settings of recipe `name` for a data set: by its own name if it is known, else by its shape and size.

    A rival has one recipe, whatever its name: what the paper's authors, or its own, used.
    """
    if name not in CHOICES["recipe"]:
        raise InputError(f"recipe {name!r}: {near(name, CHOICES['recipe'])}")
    if model in rival_recipes.OWN:
        settings = rival_recipes.settings(model, data, shape, n)
    elif model == "cwae":
        settings = PAPER | PAPER_DATA.get(data, {"hidden": _widths(shape)}) | CWAE
    elif name == "paper":
        settings = PAPER | PAPER_DATA.get(data, {"hidden": _widths(shape)})
    else:
        settings = BEST | (BEST_DATA.get(data) or _best_for(shape, n, k))
    return override(Config(), settings | {"data": data, "recipe": name, "model": model})


def _widths(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Two dense layers for an unknown array: four times its features, between 64 and 1024, a power of two."""
    width = 2 ** math.ceil(math.log2(4 * math.prod(shape)))
    return (min(max(width, 64), 1024),) * 2


def _best_for(shape: tuple[int, ...], n: int, k: int) -> dict:
    """Unknown data: dense layers for tables, a few convolutions for small grey pictures, deeper nets for others. So
    many epochs that any amount of data gets the same number of steps."""
    settings: dict = {"latent_dim": max(10, k), "batch_size": 320 if n >= 5000 else 160}
    settings |= {"train_weights": True}  # a user labels ten of each class, however many there are (experiments.md)
    if len(shape) == 3:
        settings |= {"start_at_mean": True} | (BFLOAT16 if max(shape[:2]) >= 16 else {})
    if len(shape) == 1:
        width = max(256, _widths(shape)[0])  # one layer: two err more, as do narrow ones (experiments.md)
        settings |= {"views": "noise", "hidden": (width,), "latent_dim": max(2, min(10, shape[0], 2 * k))}
        settings |= {"learning_rate": 1.5e-3}
        steps = 2000  # with fewer, codes of few columns do not fill their components: samples are off (experiments.md)
    elif shape[2] == 1 and max(shape[:2]) <= 32:
        settings |= {"network": "strided", "filters": _filters(shape)[:3], "hidden": (256,)}
        settings |= {"views": "pen", "learning_rate": 2e-3}
        steps = 2500
    else:
        settings |= {"latent_dim": max(32, k), "views": "photo" if shape[2] == 3 else "affine", "clip_norm": 20.0}
        settings |= {"filters": _filters(shape), "hidden": ()}  # a dense layer costs colours (experiments.md)
        if n >= 10_000:
            settings |= {"network": "blocks"}
        else:
            settings |= {"network": "deep", "batch_size": 80, "average": 0.99}
            settings |= {"beta": 30.0, "kappa": 30.0}  # so few large pictures are learned by heart before their classes
        steps = 1500
    unlabelled = min(n, round(settings["batch_size"] * (1 - BEST["labelled_share"])))
    epochs = max(1, math.ceil(steps * unlabelled / n))
    return settings | {"epochs": epochs, "samples_every": max(1, epochs // 10)}


def _filters(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A filter bank for each halving that leaves at least two pixels of the longer side, to four at most."""
    halvings = max(1, min(4, int(math.log2(max(shape[:2]) / 2))))
    return (32, 64, 128, 128)[:halvings]
