"""Two processes must do what one does: the same gradients, one folder, one message when one of them dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from segma import runs
from segma.errors import InputError
from segma.train import my_rows

HERE = Path(__file__).parent


def torchrun(processes: int, *words: object, **more) -> subprocess.Popen:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *map(str, words)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_two_processes_have_the_gradients_of_one(tmp_path):
    """On the joined batch, in float64, to 1e-10: the distance must be over the codes of both."""
    jobs = [torchrun(n, HERE / "worker.py", tmp_path / f"{n}.safetensors") for n in (1, 2)]
    for job in jobs:
        _, err = job.communicate()
        assert job.returncode == 0, err
    one, two = (load_file(tmp_path / f"{n}.safetensors") for n in (1, 2))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-10, atol=1e-12, msg=name)
    assert one["terms"][1] != 0
    assert any(name.startswith("grad.encoder") for name in one)


WORDS = ["--device", "cpu", "--set", "hidden=16", "--set", "network=mlp", "--set", "batch_size=20"]


def test_one_folder_from_two_processes_and_resume_with_one(tmp_path):
    out = tmp_path / "run"
    job = torchrun(2, "-m", "segma", "train", "digits", "--out", out, "--epochs", 3, *WORDS)
    stdout, stderr = job.communicate()
    assert job.returncode == 0, stderr
    assert stdout.count("test error") == 1
    steps = [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    config = json.loads((out / "config.json").read_text())
    config["settings"]["epochs"] = 4
    (out / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "segma", "resume", out, "--device", "cpu"], capture_output=True, text=True, check=True
    )
    assert "test error" in done.stdout
    assert runs.steps_done(runs.read(out)) == 4 * 1297 // 16 + 1


def test_a_killed_process_ends_the_job_and_the_checkpoint_is_usable(tmp_path):
    out = tmp_path / "run"
    words = ["--epochs", 100000, "--set", "checkpoint_seconds=0.2", *WORDS]
    job = torchrun(2, "-m", "segma", "train", "digits", "--out", out, *words)
    deadline = time.monotonic() + 60
    while not (out / runs.CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(workers[-1]), signal.SIGKILL)
    _, stderr = job.communicate(timeout=90)
    assert job.returncode != 0
    assert "segma: " in stderr
    assert "segma resume" in stderr
    tensors, step = runs.read_checkpoint(runs.read(out))
    assert step >= 1
    assert all(torch.isfinite(value).all() for value in tensors.values())


def test_parts_of_a_batch(monkeypatch):
    from segma import distributed

    monkeypatch.setattr(distributed, "size", lambda: 3)
    found = []
    for rank in range(3):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        found.append(my_rows(6, 3).tolist())
    assert found == [[0, 1, 6], [2, 3, 7], [4, 5, 8]]
    with pytest.raises(InputError, match="a batch of 7 \\+ 3 rows for 3 processes"):
        my_rows(7, 3)
