"""A path between two codes that keeps to where the mixture has mass: the shortest one if empty space counts as long.

    ds = sqrt(1 + gap(z)^2) |dz|,    gap(z) = max(0, min(log p(a), log p(b)) - log p(z))

Codes at least as likely as the less likely end are all alike; below that a step is longer the more nats are missing.
So where the straight line is nowhere less likely than both its ends, it is the path, as between any two codes of a
single Gaussian; across a gap the path bends to where the gap is least, or goes by way of another component.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from segma.mixture import Mixture

SEGMENTS = 64  # of the path that is relaxed, whatever the number of codes asked for
ROUNDS = 200  # at most; most pairs need some fifty
TINY = 1e-8  # the gain of a round, relative, or the step tried in vain, at which a path is at rest
PAIRS = 1024  # at a time, for memory


def path(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], steps: int, target: Mixture) -> Float[Tensor, "n steps d"]:
    """`steps` codes from a to b, both ends included, at equal Euclidean distances along the path.

    Euclidean and not by ds: equal steps in the codes are about equal changes of what is decoded, where equal steps by
    ds would spend most of them in the empty space that the path is to avoid.
    """
    target = Mixture(*(part.detach().double() for part in (target.weights, target.means, target.variances)))
    parts = [_path(*pair, steps, target) for pair in zip(a.double().split(PAIRS), b.double().split(PAIRS), strict=True)]
    out = torch.cat(parts).to(a.dtype)
    out[:, 0], out[:, -1] = a, b
    line = torch.lerp(a[:, None], b[:, None], torch.linspace(0, 1, steps, dtype=a.dtype, device=a.device)[:, None])
    return torch.where(out.isfinite(), out, line)  # codes whose squares overflow


def _path(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], steps: int, target: Mixture) -> Float[Tensor, "n steps d"]:
    backwards = _after(a, b)[:, None]  # each pair in one order, so that from b to a is from a to b to the last bit
    a, b = torch.where(backwards, b, a), torch.where(backwards, a, b)
    level = torch.minimum(log_density(a, target), log_density(b, target))
    line, detour = relax(torch.cat(_starts(a, b, level, target)), level.repeat(2), target).chunk(2)
    shorter = length(detour, level, target) < (1 - 1e-6) * length(line, level, target)
    out = resample(torch.where(shorter[:, None, None], detour, line), steps)
    return torch.where(backwards[:, None], out.flip(1), out)


def _after(a: Float[Tensor, "n d"], b: Float[Tensor, "n d"]) -> Bool[Tensor, " n"]:
    """Whether a comes after b, by the first coordinate in which they differ."""
    first = (a != b).int().argmax(dim=1, keepdim=True)
    return (a > b).gather(1, first)[:, 0]


def log_density(z: Float[Tensor, "*n d"], target: Mixture) -> Float[Tensor, "*n"]:
    return target.log_joint(z.reshape(-1, target.d)).logsumexp(dim=1).reshape(z.shape[:-1])


def _pieces(
    line: Float[Tensor, "n m d"], level: Float[Tensor, " n"], target: Mixture
) -> tuple[Float[Tensor, "n m-1"], Float[Tensor, "n m-1"]]:
    """Of each segment, ds / |dz| at its middle and its Euclidean length."""
    middle = (line[:, 1:] + line[:, :-1]) / 2
    gap = (level[:, None] - log_density(middle, target)).clamp(min=0)
    return (1 + gap.square()).sqrt(), torch.linalg.vector_norm(line.diff(dim=1), dim=2)


def length(line: Float[Tensor, "n m d"], level: Float[Tensor, " n"], target: Mixture) -> Float[Tensor, " n"]:
    """The integral of ds along each path, by the middles of its segments."""
    factor, size = _pieces(line, level, target)
    return (factor * size).sum(dim=1)


def _starts(
    a: Float[Tensor, "n d"], b: Float[Tensor, "n d"], level: Float[Tensor, " n"], target: Mixture
) -> tuple[Float[Tensor, "n m d"], Float[Tensor, "n m d"]]:
    """The straight line, and the shortest by way of a single mean: relaxing alone would not jump over a component."""

    def via(mean: Float[Tensor, "n d"]) -> Float[Tensor, "n m d"]:
        return resample(torch.stack([a, mean, b], dim=1), SEGMENTS + 1)

    lengths = torch.stack([length(via(mean.expand_as(a)), level, target) for mean in target.means])
    return via((a + b) / 2), via(target.means[lengths.nan_to_num(torch.inf).argmin(dim=0)])


def relax(line: Float[Tensor, "n m d"], level: Float[Tensor, " n"], target: Mixture) -> Float[Tensor, "n m d"]:
    """Each path made shorter, round by round, between its fixed ends; what would make it longer is not done.

    The points are pushed down the slope of the length, each held to its neighbours by springs, so that a push moves the
    path around it and not the one point; then they are put at equal distances again.
    """
    line, best, step = line.clone(), length(line, level, target), torch.ones_like(level)
    moving = torch.arange(len(line), device=line.device)
    for _ in range(ROUNDS):
        now, low = line[moving].requires_grad_(), level[moving]
        with torch.enable_grad():
            factor, size = _pieces(now, low, target)
            (slope,) = torch.autograd.grad((factor * size).sum(), now)
        now = now.detach()
        push = chain(slope[:, 1:-1], (size / factor).detach())
        now[:, 1:-1] -= step[moving, None, None] * push
        now = resample(now, line.shape[1])
        found = length(now, low, target)
        shorter = found < best[moving]  # not where it is NaN
        gain = torch.where(shorter, 1 - found / best[moving], step[moving])
        line[moving[shorter]], best[moving[shorter]] = now[shorter], found[shorter]
        step[moving] *= torch.where(shorter, 1.2, 0.5)
        moving = moving[gain > TINY]
        if not len(moving):
            break
    return line


def chain(push: Float[Tensor, "n m d"], give: Float[Tensor, "n m+1"]) -> Float[Tensor, "n m d"]:
    """How far the points of a chain of springs between fixed ends move when pushed; `give` is 1 / stiffness of each.

    The Green's function of a chain: point i moves by sum_j min(r_i, r_j) (1 - max(r_i, r_j) / r) push_j, where r_i is
    the give up to point i and r that of the whole chain.
    """
    far = give.cumsum(dim=1)[:, :, None]
    before, share = far[:, :-1], far[:, :-1] / far[:, -1:].clamp(min=1e-300)
    right = ((1 - share) * push).flip(1).cumsum(dim=1).flip(1)
    return (1 - share) * (before * push).cumsum(dim=1) + before * (right - (1 - share) * push)


def resample(line: Float[Tensor, "n m d"], count: int) -> Float[Tensor, "n count d"]:
    """`count` points at equal distances along each path, its ends among them."""
    size = torch.linalg.vector_norm(line.diff(dim=1), dim=2)
    far = torch.nn.functional.pad(size.cumsum(dim=1), (1, 0))
    at = far[:, -1:] * torch.linspace(0, 1, count, dtype=line.dtype, device=line.device)
    after = torch.searchsorted(far, at).clamp(1, line.shape[1] - 1)
    share = (at - far.gather(1, after - 1)) / size.gather(1, after - 1).clamp(min=1e-30)
    rows = torch.arange(len(line), device=line.device)[:, None]
    return torch.lerp(line[rows, after - 1], line[rows, after], share.clamp(0, 1)[..., None])
