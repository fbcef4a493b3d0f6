"""How well edits work, in numbers: what a judge says of transferred samples, what of their style survives, how far
intensity goes before samples leave the data. The judge is a classifier of its own, trained on all labels there are."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from segma import latent
from segma.data.arrays import Data
from segma.errors import InputError
from segma.model import Model, encode_rows

Judge = Callable[[Tensor], Tensor]  # prepared samples (n, ...) to scores (n, k)
ALPHAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
STEPS = 11  # points of t along a transfer


def train_judge(model: Model, x: np.ndarray, y: np.ndarray, seed: int = 0, steps: int = 1500) -> Judge:
    """A small network, trained on the labelled rows alone; all it shares with the model is how rows are prepared."""
    known = np.flatnonzero(y >= 0)
    if len(known) < 2 or len(np.unique(y[known])) < 2:
        raise InputError("editing scores need labels of two classes at least, to train their judge on")
    device, k = model.means.device, model.means.shape[0]
    rows = torch.from_numpy(known)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        sample = model.prepare(torch.from_numpy(x[:1]).to(device))
        judge = _judge_network(sample.shape[1:], k).to(device)
        adam = torch.optim.Adam(judge.parameters(), lr=1e-3)
        for _ in range(steps):
            some = rows[torch.randint(len(rows), (128,))].numpy()
            scores = judge(model.prepare(torch.from_numpy(x[some]).to(device)))
            adam.zero_grad()
            F.cross_entropy(scores, torch.from_numpy(y[some]).to(device)).backward()
            adam.step()
    return judge.eval().requires_grad_(False)


def _judge_network(shape: Sequence[int], k: int) -> nn.Module:
    if len(shape) == 1:
        return nn.Sequential(nn.Linear(shape[0], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, k))
    c, h, w = shape
    channels = [c, 32, 64, 128][: 2 + (min(h, w) >= 8) + (min(h, w) >= 16)]
    layers: list[nn.Module] = []
    for a, b in pairwise(channels):
        layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
        h, w = -(-h // 2), -(-w // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels[-1] * h * w, 128), nn.ReLU(), nn.Linear(128, k))


@torch.no_grad()
def judge_error(judge: Judge, model: Model, x: np.ndarray, y: np.ndarray, size: int = 1000) -> float:
    """The judge's own error on labelled rows: nothing it says is better than that."""
    rows = np.flatnonzero(y >= 0)
    wrong = 0
    for i in range(0, len(rows), size):
        part = rows[i : i + size]
        guess = judge(model.prepare(torch.from_numpy(x[part]).to(model.means.device))).argmax(dim=1).cpu().numpy()
        wrong += int((guess != y[part]).sum())
    return wrong / len(rows)


@torch.no_grad()
def transfer_scores(model: Model, judge: Judge, z: Float[Tensor, "n d"]) -> dict:
    """Over all samples and all other classes, what a transfer from the class of the posterior to another one does.

    reached: the share that the judge assigns to the target at t = 1. steady: the share along which the posterior of the
    target never falls as t goes from 0 to 1. style_kept, image_kept: 1 - |there and back - before|^2 / |spread|^2, for
    codes relative to their mean and for decoded images relative to the mean image of the class; 1 is all of it, 0 none.
    along: at each t, the share that the judge assigns to the target, and the mean of the target's posterior.
    """
    mixture = model.mixture
    source, k = mixture.posterior(z).argmax(dim=1), mixture.k
    style, image = z - mixture.means[source], model.decode(z)
    centre = torch.stack([_mean(image[source == c], image[0]) for c in range(k)])[source]
    steady, style_lost, image_lost = [], [], []
    path = torch.linspace(0, 1, STEPS, dtype=z.dtype).tolist()
    judged, posterior = ([[] for _ in path] for _ in range(2))
    for shift in range(1, k):
        target = (source + shift) % k
        there = image
        for i, t in enumerate(path):
            moved = latent.transfer(z, source, target, mixture, t)
            there = model.decode(moved)
            judged[i].append(judge(there).argmax(dim=1) == target)
            posterior[i].append(mixture.posterior(moved).gather(1, target[:, None])[:, 0])
        odds = torch.stack([column[-1] for column in posterior], dim=1)
        steady.append((odds.diff(dim=1) >= -1e-6).all(dim=1))
        back = latent.transfer(model.encode(there), target, source, mixture, 1.0)
        style_lost.append((back - z).square().sum(dim=1))
        image_lost.append((model.decode(back) - image).flatten(1).square().sum(dim=1))
    spread = style.square().sum(dim=1).mean()
    image_spread = (image - centre).flatten(1).square().sum(dim=1).mean()
    return {
        "reached": _share(judged[-1]),
        "steady": _share(steady),
        "style_kept": 1 - float(torch.cat(style_lost).mean() / spread),
        "image_kept": 1 - float(torch.cat(image_lost).mean() / image_spread),
        "along": {"t": path, "judged": [*map(_share, judged)], "posterior": [*map(_share, posterior)]},
    }


def _mean(images: Tensor, like: Tensor) -> Tensor:
    return images.mean(dim=0) if len(images) else torch.zeros_like(like)


def _share(parts: list[Tensor]) -> float:
    return float(torch.cat(parts).double().mean())


@torch.no_grad()
def intensity_scores(
    model: Model,
    judge: Judge,
    z: Float[Tensor, "n d"],
    near: Float[Tensor, "m features"],
    alphas: Sequence[float] = ALPHAS,
) -> dict:
    """Samples pushed away from a random other class by alpha: their distance to the nearest of the data `near`, over
    that at alpha = 0 (medians), and the share that the judge still assigns to their class. `limit` is the last alpha up
    to which the distance stays below the 95th percentile at alpha = 0: beyond it samples leave the data."""
    mixture = model.mixture
    source = mixture.posterior(z).argmax(dim=1)
    other = torch.randint(1, mixture.k, source.shape, generator=torch.Generator().manual_seed(0)).to(z.device)
    away = (source + other) % mixture.k
    rows, limit, base, border, inside = [], alphas[0], 0.0, 0.0, True
    for alpha in alphas:
        images = model.decode(latent.transfer(z, source, away, mixture, -alpha))
        gap = nearest(images.flatten(1), near)
        if alpha == alphas[0]:
            base, border = float(gap.median()), float(gap.quantile(0.95))
        inside = inside and float(gap.median()) <= border
        limit = alpha if inside else limit
        still = float((judge(images).argmax(dim=1) == source).double().mean())
        rows.append({"alpha": alpha, "distance": float(gap.median()) / max(base, 1e-12), "still_its_class": still})
    return {"rows": rows, "limit": limit}


def nearest(a: Float[Tensor, "n features"], b: Float[Tensor, "m features"], size: int = 1000) -> Float[Tensor, " n"]:
    """The Euclidean distance of each row of a to the nearest of b."""
    return torch.cat([torch.cdist(part, b).min(dim=1).values for part in a.split(size)])


def scores(model: Model, whole: Data, n: int = 500, seed: int = 0) -> dict:
    """All editing scores of a model on n random test rows; the labels of the training split are for the judge alone."""
    x_train, y_train, x_test, y_test = whole.x_train, whole.y_train, whole.x_test, whole.y_test
    rng = np.random.default_rng(seed)
    judge = train_judge(model, x_train, y_train, seed)
    rows = np.sort(rng.permutation(len(x_test))[:n])
    z = encode_rows(model, x_test[rows])
    if not torch.isfinite(z).all():
        raise InputError("the codes are not finite: this model cannot be measured")
    some = np.sort(rng.permutation(len(x_train))[:10_000])
    near = model.prepare(torch.from_numpy(x_train[some]).to(z.device)).flatten(1)
    return {
        "transfer": transfer_scores(model, judge, z),
        "intensity": intensity_scores(model, judge, z, near),
        "protocol": {
            "rows": len(rows),
            "seed": seed,
            "judge": f"a small network of its own, 1500 steps on {int((y_train >= 0).sum())} labels",
            "judge_error": judge_error(judge, model, x_test, y_test) if (y_test >= 0).any() else None,
            "nearest_of": len(some),
        },
    }
