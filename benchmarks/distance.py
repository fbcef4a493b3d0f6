"""Time and peak memory of the Cramer-Wold distance with its gradient against n, d = 20: ours, naive, a sampled MMD.

    python benchmarks/distance.py                  on a GPU half a minute, on two CPU cores about two minutes
    python benchmarks/distance.py cpu ours 4096    one of them alone, as JSON

The naive one is the same formula over the dense kernel of all pairs, in float64 as ours. The sampled MMD is what one
does without a closed form: as many draws from the mixture as there are codes, three dense kernels, in float32.
Every measurement on the CPU is a process of its own, so that its peak memory is its own (read from Linux's /proc).
"""

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import plain
import torch
from timing import machine, report, seconds, table
from torch import Tensor

from segma.cramer_wold import silverman, squared_distance
from segma.mixture import Mixture

DEVICES = ("cpu", "cuda")
D, K, TIMES = 20, 10, 5
SIZES = [256 * 2**i for i in range(9)]
LARGEST = {  # on a CPU minutes or all of the memory lie beyond, on a GPU what does not fit says so
    "cpu": {"ours": 16384, "naive": 8192, "sampled": 8192},
    "cuda": {"ours": 65536, "naive": 65536, "sampled": 65536},
}


def ours(z: Tensor, target: Mixture, gamma: float) -> Tensor:
    return squared_distance(Mixture.from_points(z), target, gamma)


Way = Callable[[Tensor, Mixture, float], Tensor]
WAYS: dict[str, Way] = {"ours": ours, "naive": plain.naive, "sampled": plain.sampled}


def once(way: str, n: int, device: str) -> Callable[[], float]:
    """log d^2 of n codes and its gradient, by one of WAYS; returns d^2."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, D, generator=generator).to(device).requires_grad_()
    target = Mixture(*(x.to(device) for x in (torch.full((K,), 1 / K), torch.eye(K, D), torch.ones(K))))

    def run() -> float:
        z.grad = None
        d2 = WAYS[way](z, target, silverman(n / K))
        d2.log().backward()
        return d2.item()

    return run


def one(way: str, n: int, device: str) -> dict:
    """Seconds (the median of a few), peak MiB beyond what was there before, and d^2."""
    once(way, 64, device)()  # libraries load, threads start
    run = once(way, n, device)
    before = reset_peak(device)
    value = run()
    peak = (peak_bytes(device) - before) / 2**20
    first = seconds(run, 1, device)
    again = [first] if first > 2 else [seconds(run, max(1, int(0.05 / first)), device) for _ in range(TIMES)]
    return {"seconds": statistics.median(again), "mib": peak, "value": value}


def reset_peak(device: str) -> int:
    """Forget the peak; returns the bytes in use."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak_bytes(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else status("VmHWM")


def status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def alone(way: str, n: int) -> dict:
    words = [sys.executable, __file__, "cpu", way, str(n)]
    done = subprocess.run(words, stdout=subprocess.PIPE)
    if done.returncode == -9:  # the system's answer to too much memory
        raise MemoryError
    done.check_returncode()
    return json.loads(done.stdout)


def measure(device: str = "cuda" if torch.cuda.is_available() else "cpu") -> dict:
    found: dict[str, dict[str, dict | None]] = {way: {} for way in WAYS}
    for n in (n for n in SIZES if n <= max(LARGEST[device].values())):
        for way in (way for way in WAYS if n <= LARGEST[device][way]):
            try:
                found[way][str(n)] = alone(way, n) if device == "cpu" else one(way, n, device)
            except (MemoryError, torch.OutOfMemoryError):
                found[way][str(n)] = None
            if device == "cuda":
                torch.cuda.empty_cache()
        print(f"  n = {n:,}", flush=True)
    slopes = {key: {way: slope(values, key) for way, values in found.items()} for key in ("seconds", "mib")}
    return {"machine": machine(device), "d": D, "classes": K, "seed": 0, "ways": found, "slopes": slopes}


def slope(values: dict[str, dict | None], key: str) -> float:
    """Of log time or memory over log n, over the four largest n: the exponent of the growth."""
    points = [(math.log(int(n)), math.log(value[key])) for n, value in values.items() if value][-4:]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0])


def page(result: dict) -> str:
    ways, slopes, device = result["ways"], result["slopes"], result["machine"]["device"]
    rows = [[f"{n:,}", *(cell(ways[w].get(str(n)), str(n) in ways[w]) for w in WAYS)] for n in SIZES]
    rows = [row for row in rows if any(text != "-" for text in row[1:])]
    both = [n for n, value in ways["naive"].items() if value]
    off = max(abs(ways["ours"][n]["value"] / ways["naive"][n]["value"] - 1) for n in both)
    shares = [ways["ours"][n]["seconds"] / ways["naive"][n]["seconds"] for n in both]
    memory = [ways[way][both[-1]]["mib"] for way in ("ours", "naive")]
    time, room = (", ".join(f"n^{slopes[key][way]:.2f}" for way in WAYS) for key in ("seconds", "mib"))
    missing = "-: not tried, the dense ones would take gigabytes" if device == "cpu" else "out of memory: on this GPU"
    return report(
        result["machine"],
        table(["n", "segma", "naive, all pairs at once", "sampled MMD, float32"], rows),
        f"segma takes {shares[0]:.2f} of the naive one's time at n = {both[0]} and {shares[-1]:.2f} at n = {both[-1]},",
        f"there in {memory[0]:,.0f} MiB against {memory[1]:,.0f}; the two values of d^2 differ by {off:.0e} at most",
        f"(relative). Over the four largest n time grows as {time}, memory as {room}, in the order of the",
        f"columns. Peak memory is what the call took beyond its inputs. ({missing}.)",
    )


def cell(value: dict | None, tried: bool) -> str:
    if value is None:
        return "out of memory" if tried else "-"
    return f"{value['seconds'] * 1e3:,.2f} ms, {value['mib']:,.0f} MiB"


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]), sys.argv[1])))
    else:
        print(page(measure()))
