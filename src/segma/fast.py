"""The fast step, on a GPU as one CUDA graph: what step.py does, to rounding, without its waits.

Auto-encoders of this size keep a GPU waiting for launches, and for small kernels that wait for one another. So the step
is recorded once and replayed; the codes' terms and the gradients of the dense layers' weights, for which nothing waits,
run beside the rest; and weights, gradients and Adam's moments lie in one vector each, so that clipping and Adam are a
handful of kernels, or two where the run is long enough to compile them; then a batch norm takes its ReLU along, too.
"""

import importlib.util
import shutil
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from segma.config import Config
from segma.layers import Beside, codes_bias, dense_aside, dense_parameters, norms_with_relu, replaced
from segma.state import State
from segma.step import Batch, Parts, Scales, batch_terms, blend, distance_term, label_terms, picture_term
from segma.vectors import Vectors, adam, lay_out, views

LONG = 20_000  # steps of a run that repay compiling, which takes some ten seconds the first time on a machine


def capture(
    state: State,
    batch: Callable[[], Batch],
    u: int,
    scales: Scales,
    config: Config,
    generator: torch.Generator,
    steps: int,
) -> Callable[[], Tensor]:
    """The step as a function that replays it and returns what step.NAMES lists, in a tensor that the next one reuses.

    `batch` draws from `generator`; a run of many `steps` is compiled where the machine has a compiler.
    """
    step, vectors = fast_step(state, batch, u, scales, config, compiler(steps))
    with products(config):
        return recorded(step, [state], vectors, [generator] if config.draws_each_step else [])


def fast_step(
    state: State,
    batch: Callable[[], Batch],
    u: int,
    scales: Scales,
    config: Config,
    compiled: Callable = lambda function: function,
) -> tuple[Callable[[], Tensor], Vectors]:
    """The step as a function: batch, terms, backward pass, clipping, Adam, averaged weights; and the vectors into which
    it has moved the state's numbers. A GPU records it, a CPU runs it."""
    group, vectors = state.optimizer.param_groups[0], lay_out([state], state.model.precision)
    beside = Beside(vectors.weights.is_cuda)
    parts = Parts(compiled(distance_term), compiled(label_terms), compiled(picture_term), beside)
    update = compiled(adam)
    weights = vectors.weights.new_tensor(scales.weights).unbind()
    read = vectors.weights if vectors.low is None else vectors.low
    low = dict(zip(group["params"], views(read[0], group["params"]), strict=True))
    low |= {p: p.detach() for p in codes_bias(state.model)}
    places = {p: p.grad for p in group["params"]}
    others = [p for p in group["params"] if p not in dense_parameters(state.model)]
    forwards = dense_aside(state.model, low, places, beside, compiled) | norms_with_relu(state.model, compiled)

    def step() -> Float[Tensor, " names"]:
        inputs, y, draws, said = batch()
        with replaced(forwards):
            terms = batch_terms(state.model, inputs, y, u, scales, config, parts, draws, said)
        felt = [(term, weight) for term, weight in zip(terms, weights, strict=True) if term.requires_grad]
        # One call for all terms: nothing has to wait for their sum.
        found = torch.autograd.grad(
            [term for term, _ in felt], [beside.anchor, *others], [weight for _, weight in felt], allow_unused=True
        )[1:]
        given = [(p.grad, grad) for p, grad in zip(others, found, strict=True) if grad is not None]
        torch._foreach_copy_([place for place, _ in given], [grad for _, grad in given])
        beside.join()
        names = update(vectors, terms, scales, group["lr"], *group["betas"], group["eps"], config)
        if state.average:
            blend(zip(state.average.buffers(), state.model.buffers(), strict=True), vectors.steps, config.average)
        return names

    return step, vectors


def compiler(steps: int) -> Callable:
    """What compiles a function, for a run of that many steps; short runs and bare machines leave it as it is."""
    able = bool(shutil.which("gcc") or shutil.which("clang")) and importlib.util.find_spec("triton") is not None
    if steps < LONG or not able:
        return lambda function: function
    # shapes of one function: every layer and model has its own
    torch._dynamo.config.recompile_limit = 1024  # ty: ignore[invalid-assignment]
    return partial(torch.compile, dynamic=False)


@contextmanager
def products(config: Config) -> Generator[None]:
    """While a step is recorded: float32 matrix products and convolutions with tf32's 10 bits, if the settings say so.

    What must be exact is computed in float64. The compiler's warnings, about its own ways, are not shown.
    """
    places = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = config.precision != "float32"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.allow_tf32 = value


def recorded(
    step: Callable[[], Tensor], states: list[State], vectors: Vectors | None, generators: list[torch.Generator]
) -> Callable[[], Tensor]:
    """A CUDA graph of the step. Its warm-up trains and draws, so states and generators are put back afterwards."""
    before = [{name: value.clone() for name, value in state.tensors().items()} for state in states]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for state, tensors in zip(states, before, strict=True):
            for name, value in state.tensors().items():
                value.copy_(tensors[name])
        if vectors and vectors.low is not None:
            vectors.low.copy_(vectors.weights)
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        names = step()
    for generator in generators:
        generator.manual_seed(generator.initial_seed())

    def replay(kept: object = (step, vectors)) -> Tensor:  # the graph reads memory that these own
        graph.replay()
        return names

    return replay
