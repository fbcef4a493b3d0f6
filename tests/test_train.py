"""The loop: hidden labels stay hidden, resuming is exact, what is not finite stops it, and it learns."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from segma import critic, fast, launch, neighbours, run_data, train
from segma.config import Config
from segma.cramer_wold import silverman, squared_distance
from segma.data.arrays import Data
from segma.data.views import VIEWS as VIEWS_OF
from segma.data.views import Kind, View
from segma.errors import RunFailed
from segma.mixture import Mixture
from segma.model import Model
from segma.state import State
from segma.step import Scales, batch_terms, encoder_inputs, follow, rate, rows_per_step, steps_in_all
from segma.train import fit

SMALL = Config(hidden=(16,), latent_dim=4, batch_size=20, epochs=3, learning_rate=1e-3, mean_distance=3.0)
VIEWS = dataclasses.replace(SMALL, views="affine", kappa=5.0, confidence=0.4, all_rows=False, average=0.9)
NORM = dataclasses.replace(VIEWS, network="residual", filters=(4,), hidden=())
CRITIC = dataclasses.replace(NORM, critic=2.0, likeness=3.0, average=0.8)
ASKED = dataclasses.replace(VIEWS, neighbours=4)
SHARES = dataclasses.replace(VIEWS, train_weights=True)


def toy(n: int = 60, labelled: int = 12, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Pictures of three classes: bright rows at different heights. Also the labels that are hidden."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 3)
    x = rng.integers(0, 80, (n, 6, 6, 1), dtype=np.uint8)
    for row, label in zip(x, truth, strict=True):
        row[2 * label : 2 * label + 2] += 150
    y = np.where(np.arange(n) < labelled, truth, -1)
    return torch.from_numpy(x), torch.from_numpy(y), truth


def run(config: Config, x, y, state=None, upto: int | None = None) -> State:
    if state is None:
        data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
        state = State.start(launch.new_model(data, config), config)
    for step in fit(state, x, y, config):
        if step.number == upto:
            break
    return state


def numbers(config: Config, gamma: float) -> Scales:
    return Scales(gamma, config.alpha, config.beta, config.kappa, config.confidence, config.likeness, config.critic)


def same(a: State, b: State) -> bool:
    one, two = a.tensors(), b.tensors()
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_it_learns():
    x, y, truth = toy()
    model = run(dataclasses.replace(SMALL, epochs=60), x, y).result.eval()
    guess = model.mixture.posterior(model.encode(model.prepare(x))).argmax(dim=1).numpy()
    assert (guess == truth).mean() > 0.95


def test_dark_pictures_are_drawn():
    """Thin white bars on black, with what is recommended for them: a decoder that starts grey ends black."""
    rng, x = np.random.default_rng(0), np.zeros((200, 16, 16, 1), np.uint8)
    for i, at in enumerate(rng.integers(2, 12, 200)):
        x[i, at : at + 2, 3:-3] = 255
        x[i] = x[i] if i % 2 else x[i].swapaxes(0, 1)
    y = np.where(np.arange(200) < 20, np.arange(200) % 2, -1)
    data = Data("bars", x, y, x[:0], y[:0], ("a", "b"))
    config = launch.config_for("bars", data, "best", {"precision": "float32"})
    state = State.start(launch.new_model(data, config), config)
    for step in fit(state, torch.from_numpy(x), torch.from_numpy(y), config):
        if step.number == 80:
            break
    assert step.values()["reconstruction"] < 0.5 * (x / 255).var(axis=0).sum()


@pytest.mark.parametrize(
    "config", [SMALL, VIEWS, NORM, CRITIC, ASKED], ids=["paper", "views", "norm", "critic", "neighbours"]
)
def test_a_hidden_label_never_reaches_a_loss(config):
    """Rows without a label may carry any truth: training reads y only where it is kept."""
    x, y, truth = toy()
    whole = Data("toy", x.numpy(), truth.astype(np.int64), x.numpy()[:0], truth[:0].astype(np.int64), ("a", "b", "c"))
    kept = np.flatnonzero(y.numpy() >= 0)
    wrong = truth.copy().astype(np.int64)
    wrong[kept.max() + 1 :] = (wrong[kept.max() + 1 :] + 1) % 3
    results = []
    for labels in (whole.y_train, wrong):
        few = run_data.with_rows(dataclasses.replace(whole, y_train=labels), kept, np.empty(0, int))
        results.append(run(config, torch.from_numpy(few.x_train), torch.from_numpy(few.y_train)))
    assert same(*results)


def test_labels_do_matter_where_they_are_kept():
    x, y, _ = toy()
    other = torch.where(y >= 0, (y + 1) % 3, y)
    assert not same(run(SMALL, x, y), run(SMALL, x, other))


@pytest.mark.parametrize(
    "config",
    [SMALL, VIEWS, NORM, CRITIC, SHARES, ASKED],
    ids=["paper", "views", "norm", "critic", "shares", "neighbours"],
)
@pytest.mark.parametrize("at", [1, 8, 17])
def test_stopped_and_resumed_is_never_stopped_bit_for_bit(config, at, monkeypatch):
    monkeypatch.setattr(neighbours, "EVERY", 0.4)  # so that what they said last is remembered
    x, y, _ = toy()
    whole = run(config, x, y)
    first = run(config, x, y, upto=at)
    assert first.step == at
    second = State.start(run(dataclasses.replace(config, seed=9, epochs=1), x, y).model, config)
    second.load({name: value.clone() for name, value in first.tensors().items()}, first.step)
    assert same(run(config, x, y, second), whole)
    assert second.step == whole.step == steps_in_all(config, len(x))


def test_every_seed_and_step_has_views_of_its_own(monkeypatch):
    """A CPU's generator takes 32 bits of its seed, which must not be the step's alone."""
    x, y, _ = toy()
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(train, "encoder_inputs", lambda *given: seen.append(encoder_inputs(*given)) or seen[-1])
    monkeypatch.setattr(train, "row_numbers", lambda *_: itertools.repeat(np.arange(20)[None]))
    for seed in range(3):
        run(dataclasses.replace(VIEWS, seed=seed), x, y, upto=3)
    assert len({tuple(inputs.flatten().tolist()) for inputs in seen}) == len(seen) == 9


def test_every_row_is_seen_once_an_epoch(monkeypatch):
    """And labelled rows are labelled: watched where the batch enters the terms."""
    x, y, _ = toy()
    x[:, 0, 0, 0] = torch.arange(60, dtype=torch.uint8)
    seen, known = [], []

    def watch(model, x_batch, y_batch, u, *rest):
        numbers = (x_batch[:, 0, 0, 0] * 255).round().long()
        seen.append(numbers[:u])
        known.append(torch.equal(y[numbers[u:]], y_batch) and bool((y_batch >= 0).all()))
        return batch_terms(model, x_batch, y_batch, u, *rest)

    monkeypatch.setattr(fast, "batch_terms", watch)
    run(SMALL, x, y)
    assert all(known)
    rows = torch.cat(seen)
    assert len(rows) == 180
    for epoch in rows.split(60):
        assert sorted(epoch.tolist()) == list(range(60))


@pytest.mark.parametrize("all_rows", [True, False])
def test_terms_of_a_batch_are_definition_1(all_rows):
    """Reconstruction and distance over all rows (or the unlabelled), cross-entropy over the labelled: by hand."""
    config = dataclasses.replace(SMALL, all_rows=all_rows)
    x, y, _ = toy()
    model = run(config, x, y).model
    batch, labels = model.prepare(x[:20]), y[:10]
    gamma = silverman(20 / 3)
    terms = batch_terms(model, torch.cat([batch[10:], batch[:10]]), labels, 10, numbers(config, gamma), config)
    plain = torch.cat([batch[10:], batch[:10]]) if all_rows else batch[10:]
    z = model.encode(plain)
    error = sum((plain[i] - model.decode(z)[i]).square().sum() for i in range(len(plain))) / len(plain)
    d2 = squared_distance(Mixture.from_points(z), model.mixture, gamma)
    posterior = model.mixture.posterior(model.encode(batch[:10]))
    ce = -sum(posterior[i, labels[i]].log() for i in range(10)) / 10
    for found, expected in zip(terms, (error, d2.log(), ce, *torch.zeros(4)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_terms_of_a_batch_with_views(monkeypatch):
    """With a weak view that is the picture and a strong one that is its negative, everything is known."""
    monkeypatch.setitem(VIEWS_OF, "affine", Kind(View(), View(invert=1.0)))
    x, y, _ = toy()
    model = run(VIEWS, x, y).model
    batch, labels = model.prepare(x[:20]), y[:10]
    inputs = encoder_inputs(torch.cat([batch[10:], batch[:10]])[None], 10, VIEWS, [torch.Generator()])[0]
    terms = batch_terms(model, inputs, labels, 10, numbers(VIEWS, 0.3), VIEWS)
    plain, negative, target = batch[10:], 1 - batch, model.mixture
    z = model.encode(plain)
    posterior, guess = target.posterior(z).max(dim=1)
    taught = target.posterior(model.encode(negative[10:]))
    agreement = -sum(taught[i, guess[i]].log() for i in range(10) if posterior[i] > VIEWS.confidence) / 10
    assert (posterior > VIEWS.confidence).any()
    views = target.posterior(model.encode(torch.cat([batch[:10], negative[:10]])))
    ce = -sum(views[i, labels[i % 10]].log() for i in range(20)) / 20
    error = (plain - model.decode(z)).square().sum() / 10
    d2 = squared_distance(Mixture.from_points(z), target, 0.3)
    for found, expected in zip(terms, (error, d2.log(), ce, agreement, *torch.zeros(3)), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    said = torch.tensor([0, 1, 2, -1, -1, 2, 2, 0, -1, 1])  # by neighbours, where they were asked
    heard = batch_terms(model, inputs, labels, 10, numbers(VIEWS, 0.3), VIEWS, None, None, said)
    classes = [guess[i] if said[i] < 0 else said[i] for i in range(10)]
    sure = [said[i] >= 0 or posterior[i] > VIEWS.confidence for i in range(10)]
    agreement = -sum(taught[i, classes[i]].log() for i in range(10) if sure[i]) / 10
    torch.testing.assert_close(heard, terms._replace(consistency=agreement), rtol=1e-4, atol=1e-5)
    assert abs(heard.consistency - terms.consistency) > 1e-3


@pytest.mark.parametrize("all_rows", [False, True])
@pytest.mark.parametrize("likeness", [0.0, 3.0])
def test_terms_of_a_batch_with_a_critic(all_rows, likeness):
    """It judges what is drawn of other codes; or reconstructions, each of which it compares with its own picture."""
    config = dataclasses.replace(CRITIC, all_rows=all_rows, likeness=likeness)
    x, y, _ = toy()
    model = run(config, x, y).model.eval()
    inputs, draws = torch.rand(50, 1, 6, 6), critic.draw(10, model.means, model.inner, torch.Generator().manual_seed(0))
    inputs = inputs if all_rows else inputs[10:]
    terms = batch_terms(model, inputs, y[:10], 10, numbers(config, 0.3), config, None, draws)
    plain = inputs[: 20 if all_rows else 10]
    z = model.encode(plain)
    drawn = model.decode(z)
    judged = drawn[:10] if likeness else model.decode(critic.codes_to_judge(z[:10], model.mixture, draws))
    (seen, _), (again, scores) = model.criticise(plain[:10]), model.criticise(judged)
    unlike = critic.unlikeness(seen, again) if likeness else torch.tensor(0.0)
    unreal = -scores.sigmoid().log().mean()
    wrong = critic.opinions(model.criticise, plain[:10], judged, draws, False)[2]
    for found, value in zip((terms.unlike, terms.unreal, terms.criticism), (unlike, unreal, wrong), strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(terms.reconstruction, (plain - drawn).square().sum() / len(plain), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("all_rows", [False, True])
def test_faces_are_mirrored_before_they_are_drawn(all_rows):
    """Half of the plain rows; with other views they come first as they are."""
    x = torch.rand(1, 60, 1, 6, 6)
    config = dataclasses.replace(VIEWS, views="face", all_rows=all_rows)
    plain = 60 if all_rows else 40
    rows = encoder_inputs(x, 40, config, [torch.Generator().manual_seed(0)])[0, :plain]
    mirrored, same = (
        torch.isclose(rows, other, atol=1e-5).flatten(1).all(dim=1) for other in (x[0, :plain].flip(3), x[0, :plain])
    )
    assert (mirrored ^ same).all()
    assert plain / 4 < mirrored.sum() < plain * 3 / 4
    assert encoder_inputs(x, 40, config, [torch.Generator()]).shape[1] == plain + 20 + 20 + 40
    photo = dataclasses.replace(config, views="photo")
    assert torch.equal(encoder_inputs(x, 40, photo, [torch.Generator()])[:, :plain], x[:, :plain])


def test_the_loss_is_the_weighted_sum():
    x, y, _ = toy()
    config = dataclasses.replace(VIEWS, alpha=2.0, beta=7.0, kappa=3.0, confidence=0.35)
    data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
    state = State.start(launch.new_model(data, config), config)
    for step in fit(state, x, y, config):
        v = step.values()
        expected = v["reconstruction"] + 2 * v["log_distance"] + 7 * v["cross_entropy"] + 3 * v["consistency"]
        assert v["loss"] == pytest.approx(expected, rel=1e-5)
    assert v["consistency"] > 0


def test_gamma_is_from_the_rows_that_enter_the_distance(monkeypatch):
    x, y, _ = toy()
    used = []

    def watch(model, x_batch, y_batch, u, scales, *rest):
        used.append(scales.gamma)
        return batch_terms(model, x_batch, y_batch, u, scales, *rest)

    monkeypatch.setattr(fast, "batch_terms", watch)
    run(SMALL, x, y, upto=1)
    run(dataclasses.replace(SMALL, all_rows=False, gamma_scale=2.0), x, y, upto=1)
    assert used == pytest.approx([(4 / (3 * 20 / 3)) ** 0.4, 2 * (4 / (3 * 10 / 3)) ** 0.4])


@pytest.mark.parametrize(("term", "field"), [("reconstruction", 0), ("log_distance", 1), ("cross_entropy", 2)])
def test_a_term_that_is_not_finite_stops_and_is_named(monkeypatch, term, field):
    x, y, _ = toy()
    count = iter(range(100))

    def poison(*args):
        terms = batch_terms(*args)
        return terms._replace(**{term: terms[field] * math.nan}) if next(count) == 4 else terms

    monkeypatch.setattr(fast, "batch_terms", poison)
    with pytest.raises(RunFailed, match=f"step 5: the {term.replace('_', ' ')} is nan"):
        run(SMALL, x, y)


def test_a_gradient_that_is_not_finite_is_named(monkeypatch):
    x, y, _ = toy()

    def poison(model, *args):
        terms = batch_terms(model, *args)
        zero = (model.means - model.means.detach()).square().sum()
        return terms._replace(reconstruction=terms.reconstruction + zero.sqrt())  # sqrt at 0: value 0, slope infinite

    monkeypatch.setattr(fast, "batch_terms", poison)
    with pytest.raises(RunFailed, match="step 1: the gradient is nan"):
        run(SMALL, x, y)


@pytest.mark.parametrize(("norm", "value"), [(5.0, 1.0), (5.0, 0.01), (0.0, 0.1), (5.0, 0.0)])
def test_clipping_as_the_authors_do_it(norm, value):
    """Global norm first, then each value; 0 switches either off. Compared on the gradients of a first step."""
    x, y, _ = toy()
    config = dataclasses.replace(SMALL, beta=1000.0, clip_norm=norm, clip_value=value)
    state = run(config, x, y, upto=1)
    clipped = torch.cat([p.grad.flatten() for p in state.optimizer.param_groups[0]["params"]])
    free = run(dataclasses.replace(config, clip_norm=0.0, clip_value=0.0), x, y, upto=1)
    expected = torch.cat([p.grad.flatten() for p in free.optimizer.param_groups[0]["params"]])
    assert expected.norm() > 5
    expected = expected * 5 / expected.norm() if norm else expected
    expected = expected.clamp(-value, value) if value else expected
    torch.testing.assert_close(clipped, expected, rtol=1e-4, atol=1e-6)


def test_averaged_weights():
    """The first averages are plain means of the weights so far, later ones decay."""
    x, y, _ = toy()
    config = dataclasses.replace(SMALL, average=0.75)
    data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
    state = State.start(launch.new_model(data, config), config)
    expected = None
    for step in fit(state, x, y, config):
        weight = state.model.means.detach().clone()
        share = max(1 / step.number, 0.25)
        expected = weight if expected is None else expected + share * (weight - expected)
        torch.testing.assert_close(state.average.means, expected)
    assert state.result is state.average


def test_rates():
    constant = Config(learning_rate=2.0, warmup=3)
    assert [rate(i, 100, constant) for i in (0, 1, 3, 50)] == [0.5, 1.0, 2.0, 2.0]
    cosine = Config(learning_rate=2.0, schedule="cosine")
    assert [rate(i, 100, cosine) for i in (0, 50, 100)] == pytest.approx([2.0, 1.0, 0.0])


def test_data_smaller_than_a_batch_keep_the_proportion():
    config = Config(batch_size=200, labelled_share=0.25)
    assert rows_per_step(config, 10**6) == (150, 50)
    assert rows_per_step(config, 30) == (30, 10)
    assert rows_per_step(config, 2) == (2, 1)


def test_trained_weights_and_variances_move_only_when_asked():
    x, y, _ = toy()
    fixed = run(SMALL, x, y).model
    moved = run(dataclasses.replace(SMALL, train_weights=True, train_variances=True), x, y).model
    assert fixed.mixture.variances.tolist() == [1, 1, 1]
    assert not torch.equal(moved.mixture.variances, torch.ones(3))
    assert not torch.equal(moved.mixture.weights, fixed.mixture.weights)
    assert moved.mixture.weights.sum().item() == pytest.approx(1)


def test_shares_follow_what_codes_are_taken_for_were_all_classes_as_likely():
    model = Model(Config(hidden=(8,), latent_dim=3, mean_distance=2.0), (4,), 3)
    labelled, before = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.2, 0.3])
    model.set_weights(labelled)
    model.log_weights.copy_(torch.from_numpy(before).log())
    z = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    densities = np.array([multivariate_normal(mean).pdf(z) for mean in model.means.detach().numpy()]).T
    counted = (densities / densities.sum(axis=1, keepdims=True)).mean(axis=0)
    follow(model, z, 0.25)
    np.testing.assert_allclose(
        model.class_weights, 0.99 * before + 0.01 * (0.75 * counted + 0.25 * labelled), rtol=1e-6
    )


def test_the_labels_say_in_the_shares_fades_with_the_steps(monkeypatch):
    x, y, _ = toy()
    heard = []
    monkeypatch.setattr("segma.step.follow", lambda model, z, say: heard.append(float(say)))
    run(dataclasses.replace(SMALL, train_weights=True), x, y)
    last = len(heard)
    np.testing.assert_allclose(heard, [max(0, 0.5 - step / last) for step in range(last)], atol=1e-6)


@pytest.mark.parametrize("config", [SMALL, VIEWS, ASKED], ids=["paper", "views", "neighbours"])
def test_rows_read_ahead_from_disk_train_as_rows_in_memory(config, tmp_path):
    x, y, _ = toy()
    np.save(tmp_path / "x.npy", x.numpy())
    data = Data("toy", x.numpy(), y.numpy(), x.numpy()[:0], y.numpy()[:0], ("a", "b", "c"))
    state = State.start(launch.new_model(data, config), config)
    for _ in fit(state, np.load(tmp_path / "x.npy", mmap_mode="r"), y, config):
        pass
    assert same(state, run(config, x, y))
