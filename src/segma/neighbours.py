"""What the rows most like a row are taken for: on many plain pictures a better teacher of its views than itself.

Alike are rows of which the layer before the codes makes much the same. The codes themselves come too late for that:
they lie in a class already. Every row keeps what its neighbours said until they are asked again. Not in the paper.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

FIRST = 0.1  # part of the steps before they are asked first: until then a row is what it is taken for itself
EVERY = 0.025  # part of the steps between two times
OWN = 0.5  # what a row's own class counts among them: it decides where they do not
CHUNK = 2**27  # distances at a time


def due(step: int, last: int) -> bool:
    """Whether they are asked before this step."""
    since = step - round(FIRST * last)
    return since >= 0 and since % max(1, round(EVERY * last)) == 0


@torch.no_grad()
def ask(model: Any, x: Tensor | np.ndarray, y: Int[Tensor, " n"], most: int, size: int = 5000) -> Int[Tensor, " n"]:
    """Of raw rows x, the class that so many neighbours say, or the row's label where y has one."""
    parts, labels, k = [], y.clone(), len(model.class_weights)
    training = model.training
    model.eval()
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        raw = x[rows] if isinstance(x, Tensor) else torch.from_numpy(np.array(x[rows]))
        seen, z = model.look(model.prepare(raw.to(y.device)))
        labels[rows] = torch.where(y[rows] < 0, model.mixture.log_joint(z).argmax(dim=1), y[rows])
        parts.append(seen.float())
    model.train(training)
    said = votes(labels, nearest(torch.cat(parts), most), k).argmax(dim=1)
    return torch.where(y < 0, said, y)


def nearest(features: Float[Tensor, "n size"], most: int) -> Int[Tensor, "n most"]:
    """The numbers of the rows nearest to each, without itself."""
    n, found = len(features), []
    features = features - features.mean(dim=0)
    squares = features.square().sum(dim=1)
    for start in range(0, n, rows := max(1, CHUNK // n)):
        some = features[start : start + rows]
        apart = torch.addmm(squares, some, features.T, alpha=-2)  # less each row's own square
        apart.diagonal(start).fill_(torch.inf)
        found.append(apart.topk(min(most, n - 1), dim=1, largest=False).indices)
    return torch.cat(found)


def votes(y: Int[Tensor, " n"], near: Int[Tensor, "n most"], k: int) -> Float[Tensor, "n k"]:
    """How many neighbours of each row are in each class, and its own class a little."""
    each = F.one_hot(y, k).float()
    return OWN * each + sum(each[column] for column in near.T)
