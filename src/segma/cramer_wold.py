"""The Cramer-Wold distance: project two mixtures on a line, smooth by N(0, gamma), take the L2 distance of the
densities, average over all lines. For mixtures of spherical Gaussians that is a closed form in one function, phi:

    <N(a, s I), N(b, t I)>_gamma = (2 pi v)^(-1/2) phi_d(|a - b|^2 / (2 v)),   v = s + t + 2 gamma        (eq. cwprod)
    d^2(p, q) = <p, p> + <q, q> - 2 <p, q>                                             (eqs. CW_Gauss_Data, CW-GMM)
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from segma.mixture import Mixture, squared_distances

PAPER_FROM = 10  # the paper states its approximation of phi for d >= 10
BLOCK = {"cpu": 2**18, "cuda": 2**22}  # entries of the kernel held at once: a CPU's cache, a GPU's breadth
Pair = tuple[Tensor, Tensor]


def phi_paper(s: Float[Tensor, "*shape"], d: int) -> Pair:
    """The paper's approximation, (1 + 4s / (2d - 3))^(-1/2): 2.3 % off at worst for d = 10, 31 % for d = 2."""
    c = 4 / (2 * d - 3)
    value = (1 + c * s).rsqrt()
    return value, -c / 2 * value * value * value


def phi_exact(s: Float[Tensor, "*shape"], d: int) -> Pair:
    """1F1(1/2; d/2; -s), the mean of exp(-s v_1^2) over the unit sphere of R^d."""
    if d == 1:
        value = (-s).exp()
        return value, -value
    # With w = 1 / (1 + 2s/d) the ratio f = phi / sqrt(w) is nearly flat on w in 0..1: cubic pieces give it to 1e-11.
    w, pieces = 1 / (1 + 2 / d * s), _pieces(d, s.dtype, s.device)
    at = w * len(pieces)
    cell = at.long().clamp(0, len(pieces) - 1)  # of NaN too: it must come out, not stop here
    t = at - cell
    c0, c1, c2, c3 = pieces[cell].unbind(dim=-1)
    f, df = c0 + t * (c1 + t * (c2 + t * c3)), len(pieces) * (c1 + t * (2 * c2 + t * 3 * c3))
    root = w.sqrt()
    return f * root, -2 / d * w * root * (df * w + f / 2)  # dw/ds = -(2/d) w^2


@lru_cache(maxsize=32)
def _pieces(d: int, dtype: torch.dtype, device: torch.device, cells: int = 4096) -> Float[Tensor, "cells 4"]:
    """Cubic Hermite coefficients of f(w) = phi / sqrt(w), w = 1 / (1 + 2s/d), from Gauss-Legendre quadrature.

    phi(s) = E exp(-s t^2) and phi'(s) = -E t^2 exp(-s t^2), where t = cos(theta) with density ~ sin(theta)^(d - 2).
    """
    nodes, mass = np.polynomial.legendre.leggauss(512)
    theta = (nodes + 1) * np.pi / 4
    mass = mass * np.exp((d - 2) * np.log(np.sin(theta)))
    mass /= mass.sum()
    square = np.cos(theta) ** 2
    w = np.arange(1, cells + 1) / cells
    s = d / 2 * (1 / w - 1)
    kernel = np.exp(-s[:, None] * square)
    value, slope = kernel @ mass, -(kernel * square) @ mass
    f = value / np.sqrt(w)
    df = -slope * d / 2 * w**-2.5 - f / (2 * w)
    # w = 0 is s = infinity, where phi ~ Gamma(d/2) / Gamma((d - 1)/2) s^(-1/2) (1 + (3 - d) / (4 s))
    end = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2)) / math.sqrt(d / 2)
    f, df = np.append(end, f), np.append(end * 3 / (2 * d), df)
    h = 1 / cells
    f0, f1, m0, m1 = f[:-1], f[1:], h * df[:-1], h * df[1:]
    pieces = np.stack([f0, m0, 3 * (f1 - f0) - 2 * m0 - m1, 2 * (f0 - f1) + m0 + m1], axis=1)
    return torch.tensor(pieces, dtype=dtype, device=device)


def phi_auto(s: Float[Tensor, "*shape"], d: int) -> Pair:
    """The paper's form where the paper states it, d >= 10 (its alpha belongs to it), the exact one below."""
    return phi_paper(s, d) if d >= PAPER_FROM else phi_exact(s, d)


FORMS = {"auto": phi_auto, "paper": phi_paper, "exact": phi_exact}  # each gives phi and its derivative


def phi(s: Float[Tensor, "*shape"], d: int, form: str = "auto") -> Float[Tensor, "*shape"]:
    """phi_d(s), s >= 0, by the named form."""
    _check_form(form, d)
    return _Phi.apply(s, d, form)


def _check_form(form: str, d: int) -> None:
    if form not in FORMS:
        raise ValueError(f"phi: form {form!r}, allowed are {', '.join(FORMS)}")
    if form == "paper" and d < 2:
        raise ValueError(f"phi: the paper's form needs d >= 2, not d = {d}; use form='exact'")


class _Phi(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, d: int, form: str) -> Tensor:
        value, slope = FORMS[form](s, d)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.saved_tensors[0], None, None


def inner(p: Mixture, q: Mixture, gamma: float, form: str = "auto") -> Float[Tensor, ""]:
    """Inner product of two mixtures, smoothed by gamma and averaged over all directions (eq. cwprod, bilinear).

    The definition, in float64 and in memory k_p k_q; training goes through `squared_distance`.
    """
    (w, a, s), (u, b, t) = ((m.weights.double(), m.means.double(), m.variances.double()) for m in (p, q))
    v = s[:, None] + t + 2 * gamma
    return w @ (phi(squared_distances(a, b) / (2 * v), p.d, form) * (2 * math.pi * v).rsqrt()) @ u


def squared_distance(p: Mixture, q: Mixture, gamma: float | Tensor, form: str = "auto") -> Float[Tensor, ""]:
    """d_gamma^2(p, q) = <p - q, p - q>: one form over the components of both, those of q with negative weights.

    float64 inside: it is a small difference of larger terms. Memory grows as k_p + k_q, with the gradient. Pairs i = j
    stay in the double sum: without them it can be negative and its log NaN.
    """
    w = torch.cat([p.weights, -q.weights]).double()
    a, s = torch.cat([p.means, q.means]).double(), torch.cat([p.variances, q.variances]).double()
    _check_form(form, p.d)
    return _Energy.apply(w, a, s, gamma, form)[0].to(p.means.dtype)


def _kernel(sq: Tensor, v: Tensor, d: int, form: str) -> tuple[Tensor, Tensor, Tensor]:
    """k = (2 pi v)^(-1/2) phi(sq / 2v), twice its derivative by sq, and minus twice that by v."""
    if form == "paper" or (form == "auto" and d >= PAPER_FROM):
        c = 2 / (2 * d - 3)
        q = torch.add(v, sq, alpha=c)  # with the paper's phi, k = (2 pi (v + c sq))^(-1/2): all from one root
        k = (2 * math.pi * q).rsqrt()
        spread = k / q
        return k, -c * spread, spread
    value, slope = phi_exact(sq / (2 * v), d)
    norm = (2 * math.pi * v).rsqrt()
    k, pull = value * norm, slope * norm / v
    return k, pull, (k + pull * sq) / v


class _Energy(torch.autograd.Function):
    """sum_ij w_i w_j k(|a_i - a_j|^2, s_i + s_j + 2 gamma), where k(x, v) = (2 pi v)^(-1/2) phi(x / 2v).

    The kernel goes by in blocks of rows; each leaves its part of the sum and of the gradient, which by symmetry is
    twice that of its rows. The backward pass only scales it.
    """

    generate_vmap_rule = True  # a sweep stacks models with torch.vmap

    @staticmethod
    def forward(w: Tensor, a: Tensor, s: Tensor, gamma: float | Tensor, form: str) -> tuple[Tensor, ...]:
        a, h = a - a.mean(dim=0), s + gamma  # centred: far from 0, |a|^2 + |b|^2 - 2ab loses digits
        norms, sides = a.square().sum(dim=1), torch.cat([a, torch.ones_like(a[:, :1])], dim=1)
        size, parts = max(1, BLOCK[a.device.type] // len(a)), []
        for start in range(0, len(a), size):
            rows = slice(start, start + size)
            v = h[rows, None] + h
            sq = (torch.addmm(norms, a[rows], a.T, alpha=-2) + norms[rows, None]).clamp(min=0)
            kernel, pull, spread = _kernel(sq, v, a.shape[1], form)
            parts.append((kernel @ w, (pull * w) @ sides, spread @ w))
        dw, drawn, ds = (torch.cat(part) if len(parts) > 1 else part[0] for part in zip(*parts, strict=True))
        da = drawn[:, -1:] * a - drawn[:, :-1]
        return w @ dw, 2 * dw, 2 * w[:, None] * da, -w * ds

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *(grads[0] * part for part in ctx.saved_tensors), None, None


def silverman(n_per_class: float) -> float:
    """Silverman's rule for the bandwidth, gamma = (4 / (3 N_c))^(2/5), N_c the samples per class in the batch."""
    return (4 / (3 * n_per_class)) ** 0.4
