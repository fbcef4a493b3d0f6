"""What neighbours say: scikit-learn finds the same, and training asks them when it should and takes their word."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from segma import neighbours
from segma.config import Config
from segma.model import Model
from test_train import ASKED, run, toy


@pytest.mark.parametrize("chunk", [10**9, 700], ids=["at once", "in parts"])
def test_nearest_are_those_of_scikit_learn(monkeypatch, chunk):
    monkeypatch.setattr(neighbours, "CHUNK", chunk)
    features = 100 + np.random.default_rng(0).normal(size=(200, 7)).astype(np.float32)
    found = neighbours.nearest(torch.from_numpy(features), 6).sort(dim=1).values
    expected = NearestNeighbors(n_neighbors=6).fit(features).kneighbors(return_distance=False)
    assert np.array_equal(found, np.sort(expected))


def test_few_rows_have_few_neighbours():
    assert neighbours.nearest(torch.rand(4, 2), 10).shape == (4, 3)


def test_the_class_that_most_are_in_and_ones_own_where_they_disagree():
    y, near = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([[1, 2, 3], [0, 2, 4], [0, 3, 4], [2, 0, 4], [0, 1, 3]])
    votes = neighbours.votes(y, near, 3)
    expected = np.stack([np.bincount(y[row], minlength=3) for row in near]) + 0.5 * np.eye(3)[y]
    assert np.array_equal(votes, expected)
    assert votes.argmax(dim=1).tolist() == [1, 0, 1, 1, 0]  # two against one; three that differ, so its own; ...


def test_they_say_what_a_classifier_of_the_same_features_says():
    """Of the rows without a label; labelled rows are what they are. The model is left in the mode it was in."""
    x, y, _ = toy(200, 30)
    model = run(ASKED, x, y, upto=1).model.train()
    said = neighbours.ask(model, x, y, 5, size=64)
    assert model.training
    model.eval()
    with torch.no_grad():
        prepared = model.prepare(x)
        features = model.encoder[1](model.encoder[0](prepared)).relu().numpy()  # flatten, dense, relu
        own = model.classify(prepared).argmax(dim=1)
    own = torch.where(y < 0, own, y).numpy()
    near = KNeighborsClassifier(5).fit(features, own).kneighbors(return_distance=False)  # without themselves
    votes = np.stack([np.bincount(own[row], minlength=3) for row in near]) + 0.5 * np.eye(3)[own]
    assert np.array_equal(said, np.where(y < 0, votes.argmax(axis=1), y))
    assert (said.numpy() != own).any()


def test_when_they_are_asked():
    asked = [step for step in range(1000) if neighbours.due(step, 1000)]
    assert asked == list(range(100, 1000, 25))
    assert [step for step in range(4) if neighbours.due(step, 4)] == [0, 1, 2, 3]


def test_training_takes_their_word(monkeypatch):
    """What they say of every row is in the state from then on, and other words make another model."""
    x, y, _ = toy()
    told = run(ASKED, x, y)
    assert ((told.said >= 0) & (told.said < 3)).all()
    assert torch.equal(told.said[y >= 0], y[y >= 0])
    monkeypatch.setattr(neighbours, "ask", lambda model, x, y, most: torch.zeros_like(y))
    other = run(ASKED, x, y)
    assert (other.said == 0).all()
    assert not torch.equal(told.model.means, other.model.means)


@pytest.mark.parametrize("network", ["mlp", "strided", "blocks", "residual", "deep"])
def test_what_is_looked_at_comes_right_before_the_codes(network):
    config = Config(network=network, filters=() if network == "mlp" else (4, 8), hidden=(12,), latent_dim=3)
    model = Model(config, (8, 8, 1), 2).eval()
    x = model.prepare(torch.randint(0, 255, (5, 8, 8, 1), dtype=torch.uint8))
    seen, z = model.look(x)
    assert seen.shape == (5, 12)
    assert torch.equal(z, model.encode(x))
    torch.testing.assert_close(torch.nn.functional.linear(seen, model.encoder[-1].weight, model.encoder[-1].bias), z)
