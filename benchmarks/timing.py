"""What every benchmark shares: the machine it ran on, turns that let all see the same machine, and a table."""

import platform
import statistics
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

import segma

ROOT = Path(__file__).parent.parent
K = TypeVar("K")


def machine(device: str) -> dict:
    """What a number depends on besides the code."""
    return {
        "device": device,
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "cpu": processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "segma": version(),
    }


def version() -> str:
    """The commit, -dirty if the code differs from it; the pages that benchmarks write do not count."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    commit = git("describe", "--always")
    return commit + "-dirty" * bool(git("status", "--porcelain", "src", "benchmarks")) if commit else segma.__version__


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return names[0].split(":")[1].strip() if names else platform.processor() or platform.machine()


def report(machine: dict, rows: str, *sentences: str) -> str:
    """What the page says of one result: the machine, the table, what it shows."""
    cpu = f"{machine['cpu']}, {machine['threads']} threads"
    where = f"{machine['gpu']} (host: {cpu})" if machine["gpu"] else cpu
    versions = f"Python {machine['python']}, torch {machine['torch']}, segma {machine['segma']}"
    text = textwrap.fill(" ".join(filter(None, sentences)), 120, break_long_words=False, break_on_hyphens=False)
    return f"{where}, {versions}\n\n{rows}\n\n{text}"


def take_turns(runners: dict[K, Callable[[], float]], rounds: int) -> dict[K, list[float]]:
    """What each runner measures, `rounds` times, one after another: a busy or a hot moment meets them all."""
    found: dict[K, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            found[name].append(run())
    return found


def ratio(found: dict[K, list[float]], a: K, b: K) -> float:
    """a over b, the median over the rounds of what both saw in the same one."""
    return statistics.median(x / y for x, y in zip(found[a], found[b], strict=True))


def seconds(work: Callable[[], object], times: int, device: str) -> float:
    """Mean seconds of one call; on a GPU, until its work is done."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - began) / times


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose source reads well too."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)
