"""How long a newcomer waits: a new process until help is printed, the library is imported, the first step is done.

    python benchmarks/cold_start.py        half a minute on a CPU, somewhat more on a GPU

`segma train digits` counts until its first step stands in the run's log. One such training warms the
machine's file cache first and is not counted: cold is the process, not the disk.
"""

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from timing import machine, ratio, report, table, take_turns

DEVICES = ("cpu", "cuda")
ROUNDS = 3
IMPORTS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import segma": ["-c", "import segma"],
    "from segma import SeGMA": ["-c", "from segma import SeGMA"],
    "segma --help": ["-m", "segma", "--help"],
}


def process(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_step(device: str) -> float:
    """`segma train digits` until a step is in log.jsonl; then it is killed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["train", "digits", "--device", device, "--out", str(out), "--set", "log_every=1"]
        began = time.perf_counter()
        with subprocess.Popen([sys.executable, "-m", "segma", *words], stderr=subprocess.PIPE, text=True) as training:
            log = out / "log.jsonl"
            while not (log.exists() and log.stat().st_size):
                if training.poll() is not None:
                    raise RuntimeError(f"segma {' '.join(words)}: {training.communicate()[1]}")
                time.sleep(0.005)
            spent = time.perf_counter() - began
            training.kill()
        return spent


def measure(device: str = "cuda" if torch.cuda.is_available() else "cpu") -> dict:
    runners: dict[str, Callable[[], float]] = {name: partial(process, words) for name, words in IMPORTS.items()}
    for where in dict.fromkeys(["cpu", device]):
        runners[f"segma train digits, first step ({where})"] = partial(first_step, where)
    first_step(device)
    found = take_turns(runners, ROUNDS)
    return {
        "machine": machine(device),
        "rounds": ROUNDS,
        "seed": 0,
        "seconds": {name: statistics.median(values) for name, values in found.items()},
        "over_torch": {name: ratio(found, name, "import torch") for name in found},
        "all": found,
    }


def page(result: dict) -> str:
    spent, over = result["seconds"], result["over_torch"]
    rows = [[f"`{name}`", f"{spent[name]:.2f} s", f"{over[name]:.2f}"] for name in spent]
    *_, first = spent
    beyond = max(1, math.ceil(1000 * (spent["import segma"] - spent["python"])))
    return report(
        result["machine"],
        table(["a new process", "wall time", "of `import torch`"], rows),
        f"`import segma` costs {beyond} ms at most beyond Python itself: torch is imported only by what needs it;",
        f"help takes {over['segma --help']:.2f} of the time of `import torch`. The estimator takes",
        f"{over['from segma import SeGMA']:.2f} times as long (scikit-learn and scipy come with it), the first",
        f"step {over[first]:.2f} times. Medians of {result['rounds']} rounds in turns; ratios are of one round.",
    )


if __name__ == "__main__":
    print(page(measure()))
