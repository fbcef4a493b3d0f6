"""The tools of those who look for recipes and ship models, and the plain step that benchmarks compare with."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from segma import critic, files, launch, runs
from segma.config import assignments, override
from segma.model import Model
from segma.recipes import recipe
from segma.state import State
from segma.step import batch_terms, update
from test_rivals import npz  # noqa: F401
from test_train import SMALL, numbers

ROOT = Path(__file__).parent.parent


def tool(name: str, folder: str = "tools"):
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_compared_and_one_that_fails_leaves_the_others(npz, monkeypatch, capsys):  # noqa: F811
    small = "filters=4 hidden=8 batch_size=20 labels=12"
    words = [str(npz), "--device", "cpu", "--steps", "60", small, "alpha=x", f"{small} alpha=50"]
    monkeypatch.setattr(sys, "argv", ["compare.py", *words])
    tool("compare").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0:6:2] == [words[-3], words[-2], words[-1]]
    assert "wanted is a number" in lines[3]
    for line in (lines[1], lines[5]):
        parts = line.split()
        assert parts[:2] == ["held", "out"]
        assert float(parts[parts.index("disagree") + 1].rstrip("%")) <= 100
    assert lines[1] != lines[5]
    assert lines[6].startswith("gain")  # of the third over the first; the second failed
    assert lines[6].endswith(words[-1])
    assert len(lines) == 7


def test_the_gain_is_the_difference_of_the_errors_by_few_labels():
    """With labels for all that differ it is exact; with few it is right on average."""
    compare, rng = tool("compare"), np.random.default_rng(0)
    truth = rng.integers(0, 3, 4000)
    opinions = np.where(rng.random((3, 2, 4000)) < np.array([0.04, 0.02, 0.05])[:, None, None], (truth + 1) % 3, truth)
    expected = (opinions[0] != truth).mean(axis=1) - (opinions != truth).mean(axis=2)
    assert compare.gains(opinions, truth, 4000) == pytest.approx(expected)
    few = np.array(
        [compare.gains(opinions[:, :, order], truth[order], 40) for order in map(rng.permutation, [4000] * 300)]
    )
    assert (few[:, 1:].std(axis=0) > 0.001).all()
    assert (np.abs(few.mean(axis=0) - expected) <= 4 * few.std(axis=0) / 300**0.5).all()


def test_the_recipe_s_seeds_are_measured_once_and_gone_on_with(npz, tmp_path, monkeypatch, capsys):  # noqa: F811
    """What `segma train` kept, as a table; asked again it starts nothing, and of what was stopped it goes on."""
    best = tool("best", "benchmarks")
    words = [str(npz), "--seeds", "2", "--set", "epochs=1 filters=4 hidden=8", "--no-fid", "--out", str(tmp_path / "s")]
    monkeypatch.setattr(sys, "argv", ["best.py", *words, "--beside", "2"])
    assert best.main(best.Commands()) == 0
    first = capsys.readouterr().out
    errors = [files.read_json(tmp_path / "s" / seed / "results.json")["test_error"] for seed in "01"]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in first.splitlines()]
    assert [row[:2] for row in cells[2:4]] == [[seed, f"{e:.2%}"] for seed, e in zip("01", errors, strict=True)]
    assert cells[4][1] == f"{np.mean(errors):.2%}"
    started = []
    monkeypatch.setattr(best.Commands, "run", lambda self, *words, log: started.append(words[:2]))
    assert (best.main(best.Commands()), capsys.readouterr().out, started) == (0, first, [])
    (tmp_path / "s" / "1" / "results.json").unlink()
    assert best.main(best.Commands()) == 1  # since what stands in for segma does nothing
    assert started == [("resume", str(tmp_path / "s" / "1"))]
    assert "| 1 | - | - |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "epohs=1"], "did you mean 'epochs'?"),
        (["--seeds", "0"], "--seeds: 0: wanted is a whole number"),
        (["--beside", "0"], "--beside: 0: wanted is a whole number"),
        (["--left-out"], "allowed is mnist"),
        (["--set", "epochs=2"], "made with other settings"),
    ],
)
def test_wrong_calls_train_nothing(npz, tmp_path, monkeypatch, capsys, words, said):  # noqa: F811
    best = tool("best", "benchmarks")
    launch.start(str(npz), settings={"epochs": 1, "seed": 0}, out=tmp_path / "0", device="cpu")
    monkeypatch.setattr(sys, "argv", ["best.py", str(npz), "--no-fid", "--out", str(tmp_path), *words])
    monkeypatch.setattr(best.Commands, "run", lambda *_, **__: pytest.fail("it trains"))
    with pytest.raises(SystemExit) as status:
        best.main(best.Commands())
    assert (status.value.code, said in capsys.readouterr().err) == (2, True)


def test_what_is_left_out_of_a_recipe_is_in_it():
    """Each part changes the recipe, and to settings that there are."""
    for data, parts in tool("best", "benchmarks").LEFT_OUT.items():
        config = recipe("best", data, (28, 28, 1), 60_000, 10)
        changed = [override(config, assignments(settings.split())) for settings in parts.values()]
        assert changed[0] == config
        assert len(set(changed)) == len(parts)


def test_a_shipped_run_is_half_the_size_and_says_nothing_of_its_maker(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "TRAINED", tmp_path)
    source = Path(runs.__file__).parent / "trained" / "digits"
    tool("ship").ship(source, "again")
    assert list(runs.come_along()) == ["again"]
    old, new = (files.read_tensors(place / "model.safetensors", "")[0] for place in (source, tmp_path / "again"))
    assert all(np.array_equal(old[key], new[key]) for key in old)
    assert files.read_json(tmp_path / "again" / "config.json")["data"]["where"] == ""
    error = files.read_json(tmp_path / "again" / "results.json")["test_error"]
    assert error == pytest.approx(files.read_json(source / "results.json")["test_error"], abs=0.005)


@pytest.mark.parametrize("settings", [{}, {"critic": 2.0}, {"critic": 2.0, "likeness": 3.0}])
def test_what_benchmarks_compare_with_takes_the_same_steps(settings):
    """Written plainly, and weight for weight the same after three steps."""
    config = dataclasses.replace(SMALL, network="strided", filters=(4,), phi="paper", clip_norm=50.0, **settings)
    ours, other = (Model(config, (6, 6, 1), 3).double().train() for _ in range(2))
    state, generator = State.start(ours, config), torch.Generator().manual_seed(0)
    batches = [(torch.rand(20, 1, 6, 6, dtype=torch.float64), torch.arange(10) % 3) for _ in range(3)]
    loop = tool("plain", "benchmarks").train(other, batches, config, 0.3)
    for (x, y), _ in zip(batches, loop, strict=True):
        draws = critic.draw(10, ours.means, ours.inner, generator) if config.critic else None
        update(state, batch_terms(ours, x, y, 10, numbers(config, 0.3), config, None, draws), config)
    for a, b in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)
