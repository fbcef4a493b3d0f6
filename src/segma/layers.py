"""Layers as the fast step computes them: dense ones whose weights' gradients nothing waits for, batch norms that take
their ReLU along."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segma.model import Model

Forwards = dict[nn.Module, Callable[[Tensor], Tensor]]


def dense_parameters(model: Model) -> set[Tensor]:
    return {p for layer in model.modules() if isinstance(layer, nn.Linear) for p in layer.parameters()}


def codes_bias(model: Model) -> list[Tensor]:
    """Kept in float32, so that the codes come out so."""
    return [layer.bias for layer in list(model.encoder.children())[-1:] if isinstance(layer, nn.Linear)]


class Beside:
    """Work for which the main line does not wait until `join`: each piece gets a stream of its own.

    It names what it reads: memory that the main line frees would be reused while a stream still reads it.
    """

    def __init__(self, cuda: bool) -> None:
        self.cuda = cuda  # a CPU does one thing after another
        self.streams: list[torch.cuda.Stream] = []
        self.held: list[tuple[Tensor | None, ...]] = []
        self.anchor = torch.zeros((), requires_grad=True)  # ties these gradients to the backward pass

    @contextmanager
    def __call__(self, *read: Tensor | None) -> Generator[None]:
        if not self.cuda:
            yield
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        self.streams.append(stream)
        self.held.append(read)
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
        self.streams.clear()
        self.held.clear()


@dataclass(frozen=True, eq=False)
class Dense:
    """A dense layer of one model, or of a stack (then all have a dimension more): what it reads, and where the
    gradients go. A bias of higher precision than the weights makes an output of that precision."""

    weight: Tensor
    bias: Tensor
    weight_place: Tensor
    bias_place: Tensor
    relu: bool
    beside: Beside
    finish: Callable[[Tensor, Tensor, bool], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        return _Dense.apply(x.to(self.weight.dtype), self.beside.anchor, self)


@contextmanager
def replaced(forwards: Forwards) -> Generator[None]:
    """Within, layers compute as told here."""
    for layer, forward in forwards.items():
        layer.__dict__["forward"] = forward  # on the instance, over the class's
    try:
        yield
    finally:
        for layer in forwards:
            del layer.__dict__["forward"]


def dense_aside(
    model: Model, low: dict[Tensor, Tensor], places: dict[Tensor, Tensor], beside: Beside, compiled: Callable
) -> Forwards:
    """Dense layers that read the weights of `low` and leave their gradients in `places` to `beside`."""
    found: Forwards = {}
    for layer, relu in _with_relu(model, nn.Linear):
        w, b = layer.weight, layer.bias
        found[layer] = Dense(low[w], low[b], places[w], places[b], relu is not None, beside, compiled(finish))
        found |= {relu: _as_it_is} if relu else {}
    return found


def norms_with_relu(model: Model, compiled: Callable) -> Forwards:
    """Batch norms that take a ReLU along: compiled as one (SVHN's step on an H200: 3,183 us, else 3,982)."""
    found: Forwards = {}
    for layer, relu in _with_relu(model, nn.BatchNorm2d):
        if relu:
            found |= {layer: partial(_normalised, layer, compiled(norm_relu)), relu: _as_it_is}
    return found


def _with_relu(model: Model, kind: type[nn.Module]) -> Iterator[tuple[Any, nn.Module | None]]:
    """The model's layers of a kind, each with the ReLU that follows it, if one does."""
    nets = ([part for part in net.modules() if not list(part.children())] for net in (model.encoder, model.decoder))
    order = [layer for net in nets for layer in (*net, nn.Identity())]
    for layer, after in pairwise(order):
        if isinstance(layer, kind):
            yield layer, after if isinstance(after, nn.ReLU) else None


def _normalised(layer: nn.BatchNorm2d, way: Callable[..., Tensor], x: Tensor) -> Tensor:
    if layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
    return way(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, layer.momentum, layer.eps)


def norm_relu(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, momentum: float, eps: float
) -> Tensor:
    return F.batch_norm(x, mean, variance, weight, bias, True, momentum, eps).relu()


def _as_it_is(x: Tensor) -> Tensor:
    return x


def finish(out: Tensor, bias: Tensor, relu: bool) -> Tensor:
    out = out + bias.unsqueeze(-2)
    return out.relu() if relu else out


def _product(a: Tensor, b: Tensor, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    """Of matrices or stacks of them, with all the digits that `dtype` has; on a CPU, a product that is put somewhere, a
    gradient, has those of its factors: it would take twice as long."""
    product = torch.mm if a.ndim == 2 else torch.bmm
    if a.is_cuda and a.dtype != dtype:
        return product(a, b, out_dtype=dtype) if out is None else product(a, b, out_dtype=dtype, out=out)
    if out is None:
        return product(a.to(dtype), b.to(dtype))
    return product(a, b, out=out) if a.dtype == dtype else out.copy_(product(a, b))


class _Dense(torch.autograd.Function):
    """x W^T + b, and a ReLU where one follows; the gradients of W and b go to their places, on streams of their own."""

    @staticmethod
    def forward(x: Tensor, _: Tensor, layer: Dense) -> Tensor:
        weight, bias, relu = layer.weight, layer.bias, layer.relu
        with torch.autocast(x.device.type, enabled=False):  # the weights have the precision that is wanted
            if x.ndim == 2 and weight.dtype == bias.dtype:
                return (torch._addmm_activation if relu else torch.addmm)(bias, x, weight.T)
            return layer.finish(_product(x, weight.mT, bias.dtype), bias, relu)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, _, ctx.layer = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,), (x, out), layer = grads, ctx.saved_tensors, ctx.layer
        grad = torch.ops.aten.threshold_backward(grad, out, 0) if layer.relu else grad
        low = grad.to(x.dtype)
        with layer.beside(low, x):
            _product(low.mT, x, layer.weight_place.dtype, layer.weight_place)
        with layer.beside(grad):
            torch.sum(grad, dim=-2, dtype=layer.bias_place.dtype, out=layer.bias_place)
        return _product(low, layer.weight, x.dtype) if ctx.needs_input_grad[0] else None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Tensor, int]:
        return _Dense.apply(inputs[0].movedim(in_dims[0], 0), *inputs[1:]), 0
