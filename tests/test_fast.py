"""The fast step against the plain one: step by step on the CPU, where it needs no graph, and by its losses on a GPU."""

import dataclasses

import pytest
import torch

from segma import critic, fast, launch, layers, model, neighbours, train, vectors
from segma.config import Config
from segma.data.arrays import Data
from segma.model import has_bfloat16
from segma.objective import Terms
from segma.state import State
from segma.step import Batch, batch_terms, encoder_inputs, rows_per_step, scales, update
from segma.vectors import adam, lay_out
from test_train import CRITIC, NORM, SMALL, VIEWS, toy

CLIPPED = dataclasses.replace(SMALL, clip_norm=2.0, clip_value=0.05, average=0.9, beta=100.0)
STRIDED = dataclasses.replace(CLIPPED, network="strided", filters=(4, 8), hidden=(12,), train_variances=True)
CONFIGS = {
    "paper": SMALL,
    "clipped": CLIPPED,
    "views": VIEWS,
    "norm": NORM,
    "norm in the decoder": dataclasses.replace(NORM, network="deep"),
    "strided": STRIDED,
    "shares": dataclasses.replace(STRIDED, train_weights=True),
    "neighbours": dataclasses.replace(VIEWS, neighbours=5),
    "critic": dataclasses.replace(CRITIC, likeness=0.0),
    "likeness": CRITIC,
}


def start(config: Config, device: str = "cpu") -> tuple[State, torch.Tensor, torch.Tensor]:
    x, y, _ = toy()
    data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
    return State.start(launch.new_model(data, config).to(device), config), x.to(device), y.to(device)


def both(config: Config, steps: int = 12):
    """Yields what each of the two steps reports, and the two states, after every step."""
    (quick, x, y), (plain, _, _) = start(config), start(config)
    u, m = rows_per_step(config, len(x))
    weights = scales(config, len(x), 3)
    for state in (quick, plain):
        state.model.double().train()
        if state.average:
            state.average.double()
    rng = torch.Generator()

    def batch(state: State):
        rows = torch.cat([torch.arange(i, i + u) % len(x), torch.arange(i, i + m) % 12])
        inputs = encoder_inputs(state.model.prepare(x[rows])[None], u, config, [rng.manual_seed(i)])[0]
        draws = critic.draw(u, state.model.means, state.model.inner, rng) if config.critic else None
        if config.neighbours and i == 4:
            state.said = neighbours.ask(state.model, x, y, config.neighbours)
        return Batch(inputs, y[rows[u:]], draws, None if state.said is None else state.said[rows[:u]])

    step, _ = fast.fast_step(quick, lambda: batch(quick), u, weights, config)
    for i in range(steps):  # noqa: B007 (batch reads it)
        one = step()
        inputs, labels, *more = batch(plain)
        two = update(plain, batch_terms(plain.model, inputs, labels, u, weights, config, None, *more), config)
        yield one, two, quick, plain


@pytest.mark.parametrize("name", CONFIGS)
def test_step_by_step_it_is_the_plain_one(name, monkeypatch):
    """Terms, loss, gradient norm, weights, moments, averages, batch statistics: all, after each of twelve steps."""
    monkeypatch.setattr(vectors, "PIECE", 100)  # so that these small nets are updated in several
    for one, two, quick, plain in both(CONFIGS[name]):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)
        mine, theirs = quick.tensors(), plain.tensors()
        assert mine.keys() == theirs.keys()
        for key in theirs:
            torch.testing.assert_close(
                mine[key], theirs[key], rtol=1e-5, atol=1e-6, msg=lambda m, key=key: f"{key}: {m}"
            )


def test_every_norm_takes_its_relu_along():
    net = start(NORM)[0].model
    found = layers.norms_with_relu(net, lambda function: function)
    kinds = [type(layer).__name__ for layer in found]
    assert kinds == ["BatchNorm2d", "ReLU"] * 3 * len(NORM.filters)


@pytest.mark.skipif(not has_bfloat16("cpu"), reason="needs a CPU with instructions for bfloat16")
def test_in_bfloat16_it_is_nearly_the_plain_one():
    """The networks' products have 8 bits; the terms agree to about as many."""
    config = dataclasses.replace(CLIPPED, precision="bfloat16")
    (quick, x, y), (plain, _, _) = start(config), start(config)
    u, m = rows_per_step(config, len(x))
    weights, rows = scales(config, len(x), 3), torch.cat([torch.arange(u), torch.arange(m) % 12])
    step, _ = fast.fast_step(quick, lambda: Batch(quick.model.prepare(x[rows]), y[rows[u:]]), u, weights, config)
    for _ in range(5):
        one = step()
        two = update(
            plain, batch_terms(plain.model, plain.model.prepare(x[rows]), y[rows[u:]], u, weights, config), config
        )
        torch.testing.assert_close(one, two, rtol=3e-2, atol=3e-2)
    assert quick.model.means.dtype == torch.float32
    assert quick.model.precision == torch.bfloat16


def test_a_machine_without_bfloat16_takes_float32(monkeypatch):
    """Imitated it would be slower; the run's settings stay as they are."""
    monkeypatch.setattr(model, "has_bfloat16", lambda device: False)
    low, _, _ = start(dataclasses.replace(CLIPPED, precision="bfloat16"))
    high, x, _ = start(dataclasses.replace(CLIPPED, precision="float32"))
    assert torch.equal(low.model.encode(low.model.prepare(x)), high.model.encode(high.model.prepare(x)))


def test_a_state_goes_on_from_the_plain_to_the_fast_step_and_back():
    """What lay_out moves is still the state: saved from one and loaded into the other, training goes on the same."""
    *_, (_, _, quick, _) = both(CLIPPED, 5)
    saved = {name: value.clone() for name, value in quick.tensors().items()}
    other, _, _ = start(CLIPPED)
    other.model.double()
    other.average.double()
    other.load(saved, 5)
    laid = lay_out([other])
    assert laid.steps.item() == 5
    for key, value in other.tensors().items():
        torch.testing.assert_close(value, saved[key], msg=key)
    assert "forward" not in quick.model.encoder[1].__dict__  # the layers are themselves again


def test_a_loaded_optimiser_is_laid_out_as_its_weights():
    """A fused Adam of weights with channels last, as a GPU has them, takes no moments in another order."""
    state, _, _ = start(STRIDED)
    for p in state.optimizer.param_groups[0]["params"]:
        p.grad = torch.randn_like(p)
    state.optimizer.step()
    saved = {name: value.clone(memory_format=torch.contiguous_format) for name, value in state.tensors().items()}
    other, _, _ = start(STRIDED)
    other.model.to(memory_format=torch.channels_last)
    other.load(saved, 1)
    slots = other.optimizer.state
    weights = [p for p in other.optimizer.param_groups[0]["params"] if p.ndim == 4]
    assert weights
    for p in weights:
        assert slots[p]["exp_avg"].stride() == slots[p]["exp_avg_sq"].stride() == p.stride()
    for name, value in other.tensors().items():
        assert torch.equal(value, saved[name]), name


def test_lower_precision_follows_the_weights():
    state, _, _ = start(CLIPPED)
    rows = lay_out([state], torch.bfloat16)
    rows.gradients.normal_(generator=torch.Generator().manual_seed(0))
    before = rows.low.clone()
    terms, weights = Terms(*torch.zeros(len(Terms._fields))), scales(CLIPPED, 60, 3)
    adam(rows, terms, weights, torch.tensor(0.1), 0.9, 0.999, 1e-8, CLIPPED)
    assert not torch.equal(rows.low, before)
    assert torch.equal(rows.low, rows.weights.bfloat16())
    assert torch.equal(state.model.means.detach().flatten(), rows.weights[0, : state.model.means.numel()])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("steps", [1, 10**9], ids=["recorded", "compiled"])
def test_on_a_gpu_the_losses_are_those_of_the_plain_step(monkeypatch, name, steps):
    config = dataclasses.replace(CONFIGS[name], precision="float32", epochs=6)

    def losses() -> torch.Tensor:
        state, x, y = start(config, "cuda")
        return torch.stack([step.terms for step in train.fit(state, x, y, config)])

    monkeypatch.setattr(fast, "LONG", 0 if steps > 1 else 10**9)
    found = losses()

    def plain(state, batch, u, weights, config, *_):
        def step():
            inputs, labels, *more = batch()
            terms = batch_terms(state.model, inputs, labels, u, weights, config, None, *more)
            return update(state, terms, config)

        return step

    monkeypatch.setattr(fast, "capture", plain)
    torch.testing.assert_close(found, losses(), rtol=2e-2, atol=1e-3)
