"""Editing scores against cases whose answer is known: a linear model that loses nothing, and one that loses all."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from segma.config import Config
from segma.data.arrays import Data
from segma.errors import InputError
from segma.metrics import editing
from segma.model import Model

K, D = 3, 4


def linear_model(loss: float = 0.0) -> Model:
    """Codes are an orthogonal map of tables; decoding inverts it, but for `loss`, a shrinking to 0."""
    model = Model(Config(latent_dim=D, mean_distance=6.0, hidden=(8,)), (D,), K)
    turn = torch.linalg.qr(torch.randn(D, D, generator=torch.Generator().manual_seed(0))).Q
    model.encoder, model.decoder = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
    with torch.no_grad():
        model.encoder.weight.copy_(turn)
        model.decoder.weight.copy_(turn.T * (1 - loss))
    return model.eval()


def data(model: Model, n: int = 300) -> Data:
    """Rows drawn from the model's own mixture, near the means, with their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % K
    z = model.means.detach().numpy()[y] + 0.5 * rng.normal(size=(2 * n, D)).astype(np.float32)
    x = (z @ model.encoder.weight.detach().numpy()).astype(np.float32)
    return Data("toy", x[:n], y[:n], x[n:], y[n:], ("a", "b", "c"))


def by_posterior(model: Model):
    return lambda x: model.mixture.log_joint(model.encode(x))


def test_a_model_that_loses_nothing_scores_one_everywhere():
    model = linear_model()
    z = model.encode(torch.from_numpy(data(model).x_test))
    found = editing.transfer_scores(model, by_posterior(model), z)
    assert found["reached"] > 0.999
    assert found["steady"] > 0.999
    assert found["style_kept"] == pytest.approx(1, abs=1e-5)
    assert found["image_kept"] == pytest.approx(1, abs=1e-5)


def test_what_is_lost_is_what_the_decoder_loses():
    """With a decoder that shrinks by s, there and back is z -> s (z + m) - m, m the shift of means: known exactly."""
    loss = 0.2
    model = linear_model(loss)
    z = model.encode(torch.from_numpy(data(model).x_test)).detach()
    found = editing.transfer_scores(model, by_posterior(model), z)
    means = model.means.detach()
    source = model.mixture.posterior(z).argmax(dim=1)
    lost = []
    for shift in range(1, K):
        move = means[(source + shift) % K] - means[source]
        lost.append((((1 - loss) * (z + move) - move) - z).square().sum(dim=1))
    expected = 1 - torch.cat(lost).mean() / (z - means[source]).square().sum(dim=1).mean()
    assert found["style_kept"] == pytest.approx(float(expected), abs=1e-4)


def test_a_judge_that_sees_no_change_says_nothing_is_reached():
    model = linear_model()
    z = model.encode(torch.from_numpy(data(model).x_test))
    first = torch.eye(K)[model.mixture.posterior(z).argmax(dim=1)]
    assert editing.transfer_scores(model, lambda x: first, z)["reached"] == 0


def test_a_path_on_which_another_class_takes_over_is_not_steady():
    """Means at 0, 10, 20 on a line. From 4 towards class 1 one ends at 14, where class 2 has gained a little again; all
    the other ways (4 to 24, 0 to 10, 0 to 20) the target only gains."""
    model = linear_model()
    with torch.no_grad():
        model.means.copy_(torch.tensor([[0.0, 0, 0, 0], [10.0, 0, 0, 0], [20.0, 0, 0, 0]]))
    z = torch.tensor([[4.0, 0, 0, 0], [0.0, 0, 0, 0]])
    assert editing.transfer_scores(model, by_posterior(model), z)["steady"] == 0.75


def test_along_a_transfer_the_target_takes_over_half_way():
    """From its own mean, z is t of the way to the target: nearer to it, among all means, from t = 0.5 on."""
    model = linear_model()
    found = editing.transfer_scores(model, by_posterior(model), model.means.detach())["along"]
    means, pairs = model.means.detach(), [(i, j) for i in range(K) for j in range(K) if i != j]
    for t, posterior in zip(found["t"], found["posterior"], strict=True):
        odds = [model.mixture.posterior(((1 - t) * means[i] + t * means[j])[None])[0, j].item() for i, j in pairs]
        assert posterior == pytest.approx(np.mean(odds), abs=1e-5)
    assert found["judged"][:5] == [0] * 5
    assert found["judged"][6:] == [1] * 5


def test_intensity_leaves_the_data_when_it_must():
    model = linear_model()
    whole = data(model)
    z = model.encode(torch.from_numpy(whole.x_test))
    found = editing.intensity_scores(model, by_posterior(model), z, torch.from_numpy(whole.x_train))
    distances = [row["distance"] for row in found["rows"]]
    assert distances[0] == 1
    assert distances == sorted(distances)
    assert found["limit"] < 1  # means are 6 apart, the data 0.5 wide
    assert all(row["still_its_class"] > 0.99 for row in found["rows"])
    tiny = editing.intensity_scores(model, by_posterior(model), z, torch.from_numpy(whole.x_train), (0.0, 0.001))
    assert tiny["limit"] == 0.001
    back = editing.intensity_scores(model, by_posterior(model), z, torch.from_numpy(whole.x_train), (0.0, 2.0, 0.001))
    assert back["limit"] == 0  # who has left the data does not come back


def test_nearest_is_a_naive_loop():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, 5)), rng.normal(size=(11, 5))
    expected = [min(np.linalg.norm(x - y) for y in b) for x in a]
    found = editing.nearest(torch.from_numpy(a), torch.from_numpy(b), size=3)
    np.testing.assert_allclose(found.numpy(), expected)


def test_the_judge_learns_the_classes_and_is_the_same_again():
    model = linear_model()
    whole = data(model)
    one, two = (editing.train_judge(model, whole.x_train, whole.y_train, 0, 200) for _ in range(2))
    assert editing.judge_error(one, model, whole.x_test, whole.y_test) < 0.05
    x = torch.from_numpy(whole.x_test)
    torch.testing.assert_close(one(x), two(x))


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (32, 20, 3), (4, 5, 1)])
def test_the_judge_takes_images_of_any_size(shape):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = (rng.random((40, *shape)) * 100 + 100 * y.reshape(-1, 1, 1, 1)).astype(np.uint8)
    model = Model(Config(latent_dim=2, hidden=(8,)), shape, 2).eval()
    judge = editing.train_judge(model, x, y, 0, 30)
    assert judge(model.prepare(torch.from_numpy(x))).shape == (40, 2)


def test_all_of_it_with_its_protocol():
    model = linear_model()
    whole = data(model)
    found = editing.scores(model, whole, n=50)
    assert found["transfer"]["reached"] > 0.9
    assert found["protocol"]["rows"] == 50
    assert found["protocol"]["judge_error"] < 0.05
    unlabelled = dataclasses.replace(whole, y_train=np.full_like(whole.y_train, -1))
    with pytest.raises(InputError, match="labels of two classes"):
        editing.scores(model, unlabelled)
