"""The runs that the studio's tests show, and a studio that shows one, in a process of its own as users have it."""

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from segma import SeGMA, launch


def trained(out: Path) -> Path:
    """Digits, a small net, a few seconds of training."""
    job = launch.start("digits", settings={"epochs": 20, "hidden": "32", "filters": "16"}, out=out, device="cpu")
    for _ in launch.train(job):
        pass
    return out


def fitted(out: Path, names: Sequence[str]) -> Path:
    """Colour pictures of such classes, hardly trained, fitted in Python: without data."""
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 8, 8, 3)), np.array(names)[np.arange(40) % len(names)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SeGMA(5, epochs=2, settings={"hidden": "16", "filters": "8"}, random_state=0, device="cpu").fit(x, y).save(out)
    return out


@contextmanager
def serving(run: Path, **environment: str) -> Generator[str]:
    """`segma studio RUN`, until it says its address; at the end it is asked to stop, and must."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, "-m", "segma", "studio", str(run), "--no-browser", "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as process:
        assert process.stdout
        try:
            line = process.stdout.readline()
            assert line.startswith("studio: http://127.0.0.1:"), line
            yield line.split()[1]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, process.returncode
