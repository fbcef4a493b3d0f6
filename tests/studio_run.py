"""The run that the studio's tests show, and a studio that shows it, in a process of its own as users have it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from segma import launch


def trained(out: Path) -> Path:
    """Digits, a small net, a few seconds of training."""
    job = launch.start("digits", settings={"epochs": 20, "hidden": "32", "filters": "16"}, out=out, device="cpu")
    for _ in launch.train(job):
        pass
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
