"""Settings and recipes: what is typed, what is refused, and the paper's numbers."""

import dataclasses
import json
import math

import pytest

from segma.config import TYPES, Config, assignments, override
from segma.errors import InputError
from segma.networks import NETWORKS
from segma.recipes import recipe
from segma.step import rows_per_step, steps_in_all


def test_runs_of_before_are_read():
    """Settings that are gone, where they had no effect; one that had is named."""
    old = Config().to_json() | {"samples_from": "mixture", "teacher": False}
    assert Config.from_json(old) == Config()
    with pytest.raises(InputError, match="unknown setting 'teacher'"):
        Config.from_json(old | {"teacher": True})


def test_settings_survive_json():
    config = Config(hidden=(3, 4), filters=(2,), network="blocks", labels=7, learning_rate=1e-3, all_rows=False)
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        ("beta=3", "beta", 3.0),
        ("hidden=64,32", "hidden", (64, 32)),
        ("hidden=", "hidden", ()),
        ("labels=none", "labels", None),
        ("labels=20", "labels", 20),
        ("all_rows=false", "all_rows", False),
        ("train_weights=yes", "train_weights", True),
        ("learning_rate=1e-3", "learning_rate", 1e-3),
        ("data=a=b", "data", "a=b"),
    ],
)
def test_typed_settings(typed, name, value):
    found = getattr(override(Config(), assignments([typed])), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("betta=3", r"unknown setting 'betta': did you mean 'beta'\?"),
        ("zzz=3", "unknown setting 'zzz': allowed are data, labels"),
        ("beta", "wanted is KEY=VALUE"),
        ("beta=three", "beta = 'three': wanted is a number"),
        ("beta=nan", "beta = nan: allowed is 0 to"),
        ("epochs=2.5", "epochs = '2.5': wanted is a whole number"),
        ("epochs=0", "epochs = 0: allowed is 1 to"),
        ("hidden=a", "hidden = 'a': wanted is whole numbers"),
        ("hidden=0", "every width must be at least 1"),
        ("all_rows=maybe", "wanted is true or false"),
        ("network=rnn", "network = 'rnn': allowed are mlp, strided, blocks, residual, deep"),
        ("network=blocks", "needs filters"),
        ("model=gan", "model = 'gan': allowed are segma"),
        ("phi=best", "allowed are auto, paper, exact"),
        ("phi=paper latent_dim=1", "allowed for 1 are auto, exact"),
        ("learning_rate=-1", "learning_rate = -1.0: allowed is"),
        ("batch_size=1", "batch_size = 1: allowed is 2 to"),
        ("seed=-1", "seed = -1: allowed is 0 to"),
        ("clip_norm=inf", "clip_norm = inf: allowed is 0 to"),
        ("checkpoint_seconds=inf", "checkpoint_seconds = inf: allowed is 0 to"),  # JSON has no infinity
    ],
)
def test_wrong_settings_are_named(typed, message):
    with pytest.raises(InputError, match=message):
        override(Config(), assignments(typed.split()))


def test_a_setting_is_given_once():
    with pytest.raises(InputError, match=r"--set alpha=\.\.\. 2 times: give it once"):
        assignments(["alpha=1", "beta=2", "alpha=3"])


def test_every_setting_has_a_comment_that_says_what_it_is():
    import inspect

    lines = inspect.getsource(Config).splitlines()
    bare = [name for name in TYPES if not any(f"    {name}: " in line and "#" in line for line in lines)]
    themselves = {"model", "recipe", "latent_dim", "learning_rate", "checkpoint_seconds"}
    assert set(bare) == themselves  # these say it


def test_the_guide_lists_every_setting():
    from pathlib import Path

    guide = (Path(__file__).parents[1] / "docs" / "guide.md").read_text()
    assert [name for name in TYPES if f"| `{name}` |" not in guide] == []


def test_rows_of_a_batch():
    assert [(c.unlabelled_rows, c.labelled_rows) for c in (Config(), Config(batch_size=320, labelled_share=0.2))] == [
        (100, 100),
        (256, 64),
    ]
    extreme = [Config(labelled_share=share) for share in (0, 1)]
    assert [(c.unlabelled_rows, c.labelled_rows) for c in extreme] == [(199, 1), (1, 199)]


@pytest.mark.parametrize(
    ("data", "shape", "k", "labels", "batch", "d", "epochs"),
    [
        ("mnist", (28, 28, 1), 10, 100, 200, 10, 500),
        ("svhn", (32, 32, 3), 10, 1000, 2000, 20, 400),
        ("celeba", (64, 64, 3), 4, 1000, 512, 32, 500),
    ],
)
def test_the_paper_recipe(data, shape, k, labels, batch, d, epochs):
    c = recipe("paper", data, shape, 60000, k)
    assert (c.labels, c.batch_size, c.latent_dim, c.epochs) == (labels, batch, d, epochs)
    assert (c.alpha, c.beta, c.learning_rate, c.mean_distance) == (5, 10, 3e-4, 1)
    assert (c.labelled_share, c.clip_norm, c.clip_value) == (0.5, 5, 1)
    assert (c.all_rows, c.kappa, c.views, c.schedule, c.average) == (True, 0, "none", "constant", 0)
    assert (c.train_weights, c.train_variances, c.gamma_scale, c.phi) == (False, False, 1, "auto")


@pytest.mark.parametrize("name", ["best", "paper"])
@pytest.mark.parametrize("shape", [(1,), (3,), (500,), (8, 8, 1), (28, 28, 1), (40, 24, 1), (32, 32, 3), (100, 70, 3)])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (300, 5), (10**6, 30)])
def test_there_is_a_recipe_for_any_data(name, shape, n, k):
    config = recipe(name, "/somewhere/else", shape, n, k)
    inner = (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape
    if max(shape) <= 40:
        NETWORKS[config.network](config, inner)
    assert config.labels is None
    assert config.epochs >= 1


@pytest.mark.parametrize(
    ("shape", "steps"), [((13,), 2000), ((28, 28, 1), 2500), ((48, 48, 1), 1500), ((64, 64, 3), 1500)]
)
@pytest.mark.parametrize("n", [70, 450, 9000])
def test_any_amount_of_data_of_ones_own_gets_the_same_number_of_steps(shape, steps, n):
    config = recipe("best", "/somewhere/else", shape, n, 5)
    in_an_epoch = math.ceil(n / rows_per_step(config, n)[0])
    assert 0 <= steps_in_all(config, n) - steps <= in_an_epoch


def test_unknown_recipe():
    with pytest.raises(InputError, match="recipe 'worst': allowed are best, paper"):
        recipe("worst", "digits", (8, 8, 1), 10, 2)


def test_shape_and_size_decide_the_network():
    found = {
        (shape, n): recipe("best", "/a/folder", shape, n, 3).network
        for shape in [(13,), (28, 28, 1), (48, 48, 1), (32, 32, 3)]
        for n in (450, 20_000)
    }
    assert found == {
        ((13,), 450): "mlp",
        ((13,), 20_000): "mlp",
        ((28, 28, 1), 450): "strided",
        ((28, 28, 1), 20_000): "strided",
        ((48, 48, 1), 450): "deep",
        ((48, 48, 1), 20_000): "blocks",
        ((32, 32, 3), 450): "deep",
        ((32, 32, 3), 20_000): "blocks",
    }


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().alpha = 3  # ty: ignore
