"""Networks and model: the paper's layer sizes, initial values, and getting raw samples in and out."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from segma.config import Config
from segma.errors import InputError
from segma.model import Model, decode_rows, encode_rows, initial_means
from segma.recipes import recipe

LAYERS = nn.Linear | nn.Conv2d | nn.ConvTranspose2d


def widths(network: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(layer.weight.shape) for layer in network.modules() if isinstance(layer, LAYERS)]


def test_the_papers_mnist_net():
    model = Model(recipe("paper", "mnist", (28, 28, 1), 60000, 10), (28, 28, 1), 10)
    assert widths(model.encoder) == [(1024, 784), (1024, 1024), (10, 1024)]
    assert widths(model.decoder) == [(1024, 10), (1024, 1024), (784, 1024)]


def test_the_papers_svhn_net():
    model = Model(recipe("paper", "svhn", (32, 32, 3), 604388, 10), (32, 32, 3), 10)
    assert [shape[0] for shape in widths(model.encoder)] == [786] * 5 + [20]
    assert [shape[0] for shape in widths(model.decoder)] == [786] * 5 + [3072]


def test_the_papers_celeba_net():
    """Appendix: 32, 32, 64, 64 filters of 4x4 at stride 2, dense 786-786-32; back 786-786-1024, 64, 32, 32, 3."""
    model = Model(recipe("paper", "celeba", (64, 64, 3), 162770, 4), (64, 64, 3), 4)
    assert [shape[0] for shape in widths(model.encoder)] == [32, 32, 64, 64, 786, 786, 32]
    up = [layer for layer in model.decoder.modules() if isinstance(layer, LAYERS)]
    assert [layer.out_features for layer in up[:3]] == [786, 786, 1024]
    assert [layer.out_channels for layer in up[3:]] == [64, 32, 32, 3]
    assert all(layer.kernel_size == (4, 4) and layer.stride == (2, 2) for layer in up[3:])


@pytest.mark.parametrize("additions", [1, 2])
@pytest.mark.parametrize("network", ["residual", "deep"])
def test_a_residual_net_written_out(network, additions):
    """Each halving normalised, then two 3x3 convolutions added to it; 8x8 pixels become 2x2. In `deep` a layer norm."""
    config = Config(network=network, filters=(4, 6), additions=additions, hidden=(), latent_dim=5)
    model, x = Model(config, (8, 8, 3), 2), torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    codes = model.encoder(x)
    weights = [layer.weight.detach() for layer in model.encoder.modules() if isinstance(layer, LAYERS)]
    each = 1 + 2 * additions
    assert [tuple(w.shape) for w in weights[: each + 1]] == [(4, 3, 4, 4), *[(4, 4, 3, 3)] * (each - 1), (6, 4, 4, 4)]

    def layer(x, weight, stride=1):
        x = F.conv2d(x, weight, stride=stride, padding=1)
        return ((x - x.mean((0, 2, 3), True)) / (x.var((0, 2, 3), correction=0, keepdim=True) + 1e-5).sqrt()).relu()

    for halve, *added in (weights[:each], weights[each : 2 * each]):
        x = layer(x, halve, stride=2)
        for first, second in zip(added[::2], added[1::2], strict=True):
            x = x + layer(layer(x, first), second)
    x = x.flatten(1)
    if network == "deep":
        x = (x - x.mean(1, True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(codes, x @ weights[-1].T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", ["mlp", "strided", "blocks", "residual", "deep"])
def test_a_decoder_starts_at_the_mean_colour(network):
    """Half of the pixels of one channel lit, a tenth of the other, nothing of the third."""
    x = np.zeros((40, 8, 8, 3), np.uint8)
    x[:, ::2, :, 0], x[:4, :, :, 1] = 255, 255
    model = Model(Config(network=network, filters=() if network == "mlp" else (4, 8), hidden=(16,)), (8, 8, 3), 2)
    model.start_at_mean(x)
    first = model.eval().decode(torch.zeros(1, 10)).mean(dim=(0, 2, 3)).tolist()
    assert first == pytest.approx([0.5, 0.1, 0.01], abs=1e-4)


@pytest.mark.parametrize("network", ["mlp", "strided", "blocks", "residual", "deep"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (13, 30, 3)])
def test_any_image_size_goes_in_and_comes_back(network, shape):
    config = Config(network=network, hidden=(16,), filters=(4, 8), latent_dim=5)
    model = Model(config, shape, 3).eval()
    x = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    z = model.encode(model.prepare(x))
    x_hat = model.restore(model.decode(z))
    assert z.shape == (2, 5)
    assert x_hat.shape == (2, *shape)
    assert 0 <= x_hat.min() <= x_hat.max() <= 1


def test_glorot_initialisation():
    model = Model(Config(hidden=(400, 300), latent_dim=10), (100,), 3)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            bound = math.sqrt(6 / (layer.in_features + layer.out_features))
            assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.02)
            assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
            assert not layer.bias.any()


def test_a_seed_fixes_the_weights_and_another_changes_them():
    one, same, other = (Model(Config(seed=seed, hidden=(8,)), (4,), 2).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["encoder.1.weight"], other["encoder.1.weight"])


@pytest.mark.parametrize(("k", "d"), [(2, 2), (10, 10), (4, 32), (3, 2), (11, 10), (2, 1)])
def test_means_start_at_the_chosen_distance(k, d):
    assert torch.pdist(initial_means(k, d, 2.5)).tolist() == pytest.approx([2.5] * (k * (k - 1) // 2), rel=1e-5)


@pytest.mark.parametrize(("k", "d"), [(10, 2), (5, 1), (20, 6)])
def test_more_means_than_fit_are_spread_with_a_warning(k, d):
    with pytest.warns(UserWarning, match=f"{k} classes in latent_dim = {d}"):
        means = initial_means(k, d, 3.0)
    assert torch.pdist(means).min().item() == pytest.approx(3.0, rel=1e-5)
    assert torch.pdist(means).max() < 3.0 * k


def test_mixture_weights_and_what_is_trained():
    model = Model(Config(hidden=(8,)), (4,), 3)
    model.set_weights(np.array([0.5, 0.2, 0.3]))
    assert model.mixture.weights.tolist() == pytest.approx([0.5, 0.2, 0.3])
    assert model.mixture.variances.tolist() == [1, 1, 1]
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert {"means"} <= trained
    assert not {"log_weights", "log_variances"} & trained
    assert Model(Config(hidden=(8,), train_variances=True), (4,), 3).log_variances.requires_grad


def test_images_are_scaled_to_0_1_and_channels_go_first():
    model = Model(Config(hidden=(8,)), (2, 3, 3), 2)
    x = torch.arange(18, dtype=torch.uint8).reshape(1, 2, 3, 3)
    out = model.prepare(x)
    assert out.shape == (1, 3, 2, 3)
    assert out[0, 1, 1, 2].item() == pytest.approx(x[0, 1, 2, 1].item() / 255)
    assert torch.equal(model.prepare(x.float() / 255), out)
    torch.testing.assert_close(model.restore(out) * 255, x.float())


def test_tables_are_standardised_inside():
    x = np.random.default_rng(0).normal([5, -3, 100], [2, 0.1, 30], (500, 3)).astype(np.float32)
    model = Model(Config(hidden=(8,)), (3,), 2)
    model.set_scale(x)
    inside = model.prepare(torch.from_numpy(x))
    torch.testing.assert_close(inside.mean(dim=0), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(inside.std(dim=0), torch.ones(3), atol=5e-3, rtol=0)
    torch.testing.assert_close(model.restore(inside), torch.from_numpy(x), rtol=1e-4, atol=1e-4)


def test_a_start_takes_some_rows_at_a_time(monkeypatch):
    """Prepared whole, pictures would take twelve times their memory; a table, in float64, three times its own."""
    model, seen = Model(Config(hidden=(8,)), (4, 4, 1), 2), []
    prepare = Model.prepare
    monkeypatch.setattr(Model, "prepare", lambda self, x: seen.append(len(x)) or prepare(self, x))
    model.start_at_mean(np.arange(12_000 * 16, dtype=np.uint8).reshape(-1, 4, 4, 1))
    assert sum(seen) == 10_000
    assert max(seen) <= 1000
    x = np.arange(2e7, dtype=np.float32).reshape(-1, 100)  # 80 MB
    tracemalloc.start()
    Model(Config(hidden=(8,)), (100,), 2).set_scale(x)
    assert tracemalloc.get_traced_memory()[1] < x.nbytes
    tracemalloc.stop()


def test_samples_of_a_class_come_from_its_component():
    model = Model(Config(hidden=(8,), latent_dim=4), (3,), 3).requires_grad_(False)
    model.means.copy_(torch.arange(12.0).reshape(3, 4))
    model.log_variances.copy_(torch.tensor([0.3, 1.0, 2.5]).log())
    y = torch.full((100_000,), 2)
    z, near, none = (model.draw(y, torch.Generator().manual_seed(1), spread) for spread in (1.0, 0.5, 0.0))
    torch.testing.assert_close(z.mean(dim=0), model.means[2], atol=0.03, rtol=0)
    assert z.var(dim=0).mean().item() == pytest.approx(2.5, rel=0.02)  # a deviation taken for a variance: 6.25
    torch.testing.assert_close(near - model.means[2], (z - model.means[2]) / 2)
    assert torch.equal(none, model.means[2].expand(100_000, -1))


def test_constant_features_are_named_and_all_of_them_are_an_error():
    x = np.ones((10, 3), np.float32)
    model = Model(Config(hidden=(8,)), (3,), 2)
    with pytest.raises(InputError, match="all 3 features are constant"):
        model.set_scale(x)
    x[:, 0] = np.arange(10)
    with pytest.warns(UserWarning, match="2 constant features carry nothing: columns 1, 2$"):
        model.set_scale(x)
    assert torch.isfinite(model.prepare(torch.from_numpy(x))).all()
    x[:, 1] = np.arange(10)
    with pytest.warns(UserWarning, match="1 constant feature carries nothing: column weight$"):
        model.set_scale(x, ("age", "height", "weight"))


def test_rows_by_batches_are_the_rows_at_once():
    model = Model(Config(hidden=(8,), latent_dim=4), (6, 6, 1), 2).eval()
    x = np.random.default_rng(0).integers(0, 256, (25, 6, 6, 1), dtype=np.uint8)
    z = encode_rows(model, x, size=7)
    torch.testing.assert_close(z, model.encode(model.prepare(torch.from_numpy(x))).detach())
    np.testing.assert_allclose(decode_rows(model, z, size=4), decode_rows(model, z), atol=1e-6)
