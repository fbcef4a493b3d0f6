"""Gaussians fitted to codes: draws have the moments of the codes, the mixture and its posteriors stay."""

import numpy as np
import pytest
import torch

from segma import launch, runs, sweep
from segma.config import Config
from segma.gaussians import fit_to_codes, gaussian
from segma.model import Model
from test_sweep import SMALL, pictures  # noqa: F401

COVARIANCES = [[[2.0, 1.2], [1.2, 1.0]], [[0.3, 0.0], [0.0, 3.0]]]
CENTRES = [[1.0, 0.5], [40.0, -1.0]]


def identity(variances=(1.0, 1.0), **settings) -> Model:
    """Codes are rows: two classes in the plane, the second with a component of another width."""
    model = Model(Config(hidden=(), latent_dim=2, mean_distance=40.0, samples_from="codes", **settings), (2,), 2)
    with torch.no_grad():
        model.means.copy_(torch.tensor([[0.0, 0.0], [40.0, 0.0]]))
        model.log_variances.copy_(torch.tensor(variances).log())
        for net in (model.encoder, model.decoder):
            for layer in net.modules():
                if isinstance(layer, torch.nn.Linear):
                    layer.weight.copy_(torch.eye(2))
    return model


def rows(n: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = [rng.multivariate_normal(m, c, n) for m, c in zip(CENTRES, COVARIANCES, strict=True)]
    return rng.permutation(np.concatenate(parts)).astype(np.float32)


@pytest.mark.parametrize("variances", [(1.0, 1.0), (4.0, 0.25)])
def test_draws_have_the_moments_of_the_codes(variances):
    model, x = identity(variances), rows()
    before = model.classify(model.prepare(torch.from_numpy(x)))
    fit_to_codes(model, x)
    for k, (centre, covariance) in enumerate(zip(CENTRES, COVARIANCES, strict=True)):
        z = model.draw(torch.full((20_000,), k), torch.Generator().manual_seed(1)).detach().numpy()
        np.testing.assert_allclose(z.mean(axis=0), centre, atol=0.08)
        np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.12)
        narrow = model.draw(torch.full((2000,), k), torch.Generator().manual_seed(1), spread=0.0).detach().numpy()
        np.testing.assert_allclose(narrow, np.tile(z.mean(axis=0), (2000, 1)), atol=0.05)
    assert torch.equal(model.classify(model.prepare(torch.from_numpy(x))), before)


def test_a_class_without_codes_keeps_its_component():
    model, x = identity(), rows()
    fit_to_codes(model, x[x[:, 0] < 20])
    assert torch.equal(model.factors[1], torch.eye(2))
    assert torch.equal(model.offsets[1], torch.zeros(2))


def test_few_codes_move_it_little_and_many_wholly():
    z = 3 * torch.randn(2, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    _, few = gaussian(z)
    torch.linalg.cholesky(few @ few.T)  # positive definite, though two rows span a line
    z = 3 * torch.randn(50_000, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    centre, many = gaussian(z)
    torch.testing.assert_close(many @ many.T, torch.cov(z.T), rtol=0, atol=0.02)
    torch.testing.assert_close(centre, z.mean(dim=0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_run_ends_with_them_alone_and_in_a_stack(pictures, tmp_path, average):  # noqa: F811
    settings = SMALL | {"samples_from": "codes", "average": average}
    job = launch.start(str(pictures), "paper", settings, tmp_path / "run", device="cpu")
    for _ in launch.train(job):
        pass
    model = runs.load_model(runs.read(tmp_path / "run"))
    fitted = {name: value.clone() for name, value in model.named_buffers()}
    fit_to_codes(model, job.data.x_train)
    for name in ("offsets", "factors"):
        torch.testing.assert_close(fitted[name], getattr(model, name), rtol=1e-4, atol=1e-5)
        assert fitted[name].abs().max() > 0.01
    assert not torch.equal(fitted["factors"][0], torch.eye(4))
    jobs = sweep.open_jobs(str(pictures), sweep.grid(["alpha=5,1"]), "paper", settings, tmp_path / "s", device="cpu")
    for _ in sweep.train(jobs):
        pass
    beside = runs.load_model(runs.read(tmp_path / "s" / "alpha=5"))
    torch.testing.assert_close(beside.factors, model.factors, rtol=2e-2, atol=2e-2)
