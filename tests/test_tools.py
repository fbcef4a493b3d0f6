"""The tools of those who look for recipes and ship models."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from segma import runs
from test_rivals import npz  # noqa: F401

TOOLS = Path(__file__).parent.parent / "tools"


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_compared_and_one_that_fails_leaves_the_others(npz, monkeypatch, capsys):  # noqa: F811
    small = "filters=4 hidden=8 batch_size=20 labels=12"
    words = [str(npz), "--device", "cpu", "--steps", "60", small, "alpha=x", f"{small} alpha=50"]
    monkeypatch.setattr(sys, "argv", ["compare.py", *words])
    tool("compare").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0::2] == [words[-3], words[-2], words[-1]]
    assert "wanted is a number" in lines[3]
    for line in (lines[1], lines[5]):
        parts = line.split()
        assert parts[:2] == ["held", "out"]
        assert float(parts[parts.index("disagree") + 1].rstrip("%")) <= 100
    assert lines[1] != lines[5]


def test_a_shipped_run_is_half_the_size_and_says_nothing_of_its_maker(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "TRAINED", tmp_path)
    source = Path(runs.__file__).parent / "trained" / "digits"
    tool("ship").ship(source, "again")
    assert list(runs.come_along()) == ["again"]
    old, new = (runs.read_tensors(place / "model.safetensors", "")[0] for place in (source, tmp_path / "again"))
    assert all(np.array_equal(old[key], new[key]) for key in old)
    assert runs.read_json(tmp_path / "again" / "config.json")["data"]["where"] == ""
    error = runs.read_json(tmp_path / "again" / "results.json")["test_error"]
    assert error == pytest.approx(runs.read_json(source / "results.json")["test_error"], abs=0.005)
