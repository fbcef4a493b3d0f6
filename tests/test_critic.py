"""The critic: which codes it is shown, what its opinions are worth, and who learns from them."""

import dataclasses

import numpy as np
import pytest
import torch

from segma import critic, files, launch, runs
from segma.config import Config
from segma.critic import Draws
from segma.errors import InputError
from segma.mixture import Mixture
from segma.model import Model
from test_sweep import VIEWS, alone, pictures  # noqa: F401 (a fixture)
from test_train import NORM

SHAPE = (2, 6, 6)


def mixture() -> Mixture:
    means = torch.tensor([[0.0, 0.0, 9.0], [0.0, 9.0, 0.0]], requires_grad=True)
    return Mixture(torch.tensor([0.3, 0.7]), means, torch.tensor([1.0, 0.25]))


def test_half_of_the_codes_are_draws_from_where_the_data_are():
    """A third of the data in one component, the rest in the other: so are the draws, with these deviations."""
    target, n = mixture(), 12_000
    y = (torch.arange(n) % 3 > 0).long()
    z = (target.means[y] + torch.randn(n, 3)).requires_grad_()
    generator = torch.Generator().manual_seed(0)
    shown = critic.codes_to_judge(z, target, critic.draw(n, target.means, SHAPE, generator))
    assert not shown.requires_grad
    drawn, of = shown[: n // 2], y[: n // 2]
    for k, deviation in enumerate((1.0, 0.5)):
        some = drawn[of == k]
        torch.testing.assert_close(some.mean(dim=0), target.means[k].detach(), atol=0.06, rtol=0)
        torch.testing.assert_close(some.std(dim=0), torch.full((3,), deviation), atol=0.04, rtol=0)


def test_the_other_half_lies_between_codes():
    target, n = mixture(), 3000
    z = torch.randn(n, 3)
    shown = critic.codes_to_judge(z, target, critic.draw(n, target.means, SHAPE, torch.Generator().manual_seed(0)))
    between, end, start = shown[n // 2 :], z[n // 2 :], z[n // 2 - 1 : -1]
    way = ((between - end) * (start - end)).sum(dim=1) / (start - end).square().sum(dim=1)
    torch.testing.assert_close(between, torch.lerp(end, start, way[:, None]), atol=1e-4, rtol=0)
    assert (way < 1e-4).float().mean().item() == pytest.approx(1 / 3, abs=0.04)  # codes of the data themselves
    assert np.allclose(np.quantile(way, [0.5, 0.75, 0.999]), [0.25, 0.625, 1.0], atol=0.04)


def test_opinions_by_hand():
    """A linear critic: its losses with numpy, and the noise's share, which is the squared gradient's."""
    torch.manual_seed(0)
    weight = torch.randn(72, requires_grad=True)
    real, made = torch.rand(5000, *SHAPE), torch.rand(5000, *SHAPE).requires_grad_()

    def criticise(x, fixed=False):
        held = weight.detach() if fixed else weight
        return [x * held.view(SHAPE)], x.flatten(1) @ held

    draws = Draws(torch.empty(0), torch.empty(0), torch.randn(real.shape))
    unlike, unreal, wrong = critic.opinions(criticise, real, made, draws, True)
    assert critic.opinions(criticise, real, made, draws, False) == (0, unreal, wrong)
    assert unlike == critic.unlikeness(criticise(real)[0], criticise(made)[0])
    w, a, b = weight.detach().double().numpy(), *(x.detach().double().numpy().reshape(5000, -1) for x in (real, made))
    assert unreal.item() == pytest.approx(np.log1p(np.exp(-b @ w)).mean(), rel=1e-4)
    told_apart = np.log1p(np.exp(-a @ w)).mean() + np.log1p(np.exp(b @ w)).mean()
    assert wrong.item() == pytest.approx(told_apart + critic.CALM / 2 * (w @ w), rel=0.05)
    assert wrong.item() > told_apart * 1.05  # so much that it would be missed
    for learns, term in ((False, unlike), (False, unreal), (True, wrong)):
        grads = torch.autograd.grad(term, [weight, made], allow_unused=True, retain_graph=True)
        assert [grad is not None and grad.abs().max() > 0 for grad in grads] == [learns, not learns]


def test_only_the_critic_learns_from_its_mistakes():
    model = Model(dataclasses.replace(NORM, critic=1.0), (6, 6, 1), 3)
    x = torch.rand(4, 1, 6, 6)
    (seen, scores), (again, fixed) = model.criticise(x), model.criticise(x, fixed=True)
    assert all(part.requires_grad for part in (*seen, scores))
    assert not any(part.requires_grad for part in (*again, fixed))
    torch.testing.assert_close((again, fixed), ([part.detach() for part in seen], scores.detach()))


def test_unlikeness_by_hand():
    """Directions of what two layers see, with numpy; what is hardly seen hardly counts, and has no steep gradient."""
    rng = np.random.default_rng(0)
    real = [rng.normal(size=(4, c, h, h)) for c, h in ((3, 5), (6, 2))]
    drawn = [a + rng.normal(size=a.shape) for a in real]
    drawn[0][0] = 0.0

    def direction(a: np.ndarray, of: np.ndarray) -> np.ndarray:
        return a / np.sqrt((a**2).sum(axis=1, keepdims=True) + critic.FAINT * (of**2).sum(axis=1).mean())

    expected = sum(
        ((direction(a, a) - direction(b, a)) ** 2).sum(axis=1).mean() for a, b in zip(real, drawn, strict=True)
    )
    a, b = ([torch.from_numpy(layer).requires_grad_() for layer in seen] for seen in (real, drawn))
    value = critic.unlikeness(a, b)
    assert value.item() == pytest.approx(expected, rel=1e-12)
    assert critic.unlikeness(a, a).item() == 0
    (slope,) = torch.autograd.grad(value, b[:1])
    assert 0 < slope[0].abs().max() < 1  # at nothing at all, too


def test_a_critic_minds_a_blur_more_than_another_brightness():
    """Of the same squared error."""
    model = Model(dataclasses.replace(NORM, critic=1.0), (16, 16, 1), 3)
    x = torch.rand(50, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    blurred = torch.nn.functional.avg_pool2d(x, 3, 1, 1)
    brighter = x + (x - blurred).square().mean().sqrt()
    seen, scores = model.criticise(x, fixed=True)
    near, far = (critic.unlikeness(seen, model.criticise(other, fixed=True)[0]) for other in (brighter, blurred))
    assert far > 2 * near
    assert [layer.shape[1:] for layer in seen] == [(64, 8, 8), (128, 4, 4)]
    torch.testing.assert_close(scores, model.critic(x).flatten())


@pytest.mark.parametrize("shape", [(1, 4, 4), (1, 28, 28), (3, 64, 48), (1, 5, 40)])
def test_any_picture_gets_one_score(shape):
    assert critic.build(shape, 0)(torch.rand(3, *shape)).shape == (3, 1, 1, 1)


def test_tables_have_none_and_small_pictures_no_likeness():
    with pytest.raises(InputError, match=r"critic = 2\.0 is for images"):
        Model(Config(critic=2.0), (5,), 3)
    with pytest.raises(InputError, match=r"likeness = 1\.0 wants pictures of more than 4 pixels a side"):
        Model(Config(critic=2.0, likeness=1.0), (4, 9, 1), 3)


def test_a_run_keeps_its_model_without_the_critic(pictures, tmp_path):  # noqa: F811
    """But the checkpoint has it: training goes on with the one it had."""
    job = alone(pictures, VIEWS | {"critic": 1.0}, tmp_path / "run")
    kept, _ = files.read_tensors(job.run.path / "model.safetensors", "")
    assert not any("critic" in name for name in kept)
    tensors, _ = runs.read_checkpoint(job.run)
    assert any(name.startswith("model.critic.") for name in tensors)
    model = runs.load_model(runs.read(job.run.path))
    x = torch.from_numpy(job.data.x_test)
    trained = job.state.result.eval().encode(model.prepare(x).double())
    torch.testing.assert_close(model.encode(model.prepare(x)), trained.float(), rtol=1e-4, atol=1e-5)
    assert launch.resume(job.run.path, None, "cpu").state.model.critic is not None
