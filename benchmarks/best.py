"""The recipe `best` of a data set as docs/results.md has it: its label seeds, or each of its parts left out once.

    python benchmarks/best.py mnist --seeds 5 --beside 5 --out DIR         one row for each label seed, and their mean
    python benchmarks/best.py mnist --left-out --beside 5 --out DIR        seed 0; rows are what LEFT_OUT names

Every row is a run in DIR, trained by `segma train` and measured by `segma evaluate --fid`, so many beside each other
(on a GPU CUDA's MPS lets them share it). The same command again goes on: what is done stays done, what was stopped is
resumed. --seconds stops it gently after so long.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

COLUMNS = ("test_error", "fid", "interpolation_fid", "reconstruction_fid", "reconstruction_error")
LEFT_OUT = {  # what stands in the recipe instead of the paper's, and how to do without it
    "mnist": {
        "nothing": "",
        "the critic": "critic=0",
        "consistency of views": "kappa=0",
        "convolutions": "network=mlp hidden=1024x1024",
        "mild shifts": "views=pen",
        "bent strokes": "views=affine",
        "the mean as the start": "start_at_mean=false",
        "averaged weights": "average=0",
        "means apart at the start": "mean_distance=1",
        "a falling rate": "schedule=constant",
        "a rate of 1e-3": "learning_rate=0.0003",
        "unlabelled rows alone for reconstruction and distance": "all_rows=true",
        "few labelled rows in a batch": "labelled_share=0.5",
        "a net without batch norm": "network=blocks hidden=",
    }
}


class Commands:
    """segma's commands, several at a time, until they are told to stop."""

    def __init__(self) -> None:
        self.stopped, self.alive = threading.Event(), set()

    def run(self, *words: str, log: Path) -> bool:
        """Whether the command could be started and ended well; what it prints is added to a file."""
        if self.stopped.is_set():
            return False
        with log.open("a") as text:
            process = subprocess.Popen([sys.executable, "-m", "segma", *words], stdout=text, stderr=subprocess.STDOUT)
            self.alive.add(process)
            if self.stopped.is_set():  # between the question above and now
                process.send_signal(signal.SIGINT)
            status = process.wait()
        self.alive.discard(process)
        return status == 0

    def stop(self) -> None:
        self.stopped.set()
        for process in list(self.alive):
            process.send_signal(signal.SIGINT)


def row(commands: Commands, name: str, seed: int, settings: str, run: Path, fid: bool) -> dict | None:
    """What `segma evaluate` measured of one run, which is trained first if need be; None if it has not come so far."""
    log, sets = run.with_suffix(".txt"), [word for pair in settings.split() for word in ("--set", pair)]
    words = ["resume", str(run)] if run.exists() else ["train", name, "--seed", str(seed), *sets, "--out", str(run)]
    if not found(run) and not commands.run(*words, log=log):
        return None
    if fid and "fid" not in found(run) and not commands.run("evaluate", str(run), "--fid", log=log):
        return None
    return found(run)


def found(run: Path) -> dict:
    return json.loads((run / "results.json").read_text()) if (run / "results.json").exists() else {}


def numbers(results: dict) -> list[float]:
    """Those of COLUMNS, FIDs against the test split; NaN for what was not measured."""
    values = (results.get(name, np.nan) for name in COLUMNS)
    return [value["test"] if isinstance(value, dict) else value for value in values]


def line(name: str, values: list[float]) -> str:
    cells = [f"{values[0]:.2%}", *(f"{value:.2f}" for value in values[1:])]
    return f"| {' | '.join([name, *('-' if 'nan' in cell else cell for cell in cells)])} |"


def main(commands: Commands) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--set", default="", metavar="'KEY=VALUE ...'", help="over the recipe, in all rows")
    parser.add_argument("--no-fid", dest="fid", action="store_false")
    parser.add_argument("--beside", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, help="stop after so long; the same command goes on")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.left_out and args.data not in LEFT_OUT:
        parser.error(f"--left-out {args.data}: allowed is {', '.join(LEFT_OUT)}")
    parts = LEFT_OUT[args.data] if args.left_out else {str(seed): "" for seed in range(args.seeds)}
    args.out.mkdir(parents=True, exist_ok=True)
    clock = threading.Timer(args.seconds or 0, commands.stop)
    if args.seconds:
        clock.start()
    with ThreadPoolExecutor(args.beside) as pool:
        waiting = {
            name: pool.submit(
                *(row, commands, args.data, 0 if args.left_out else int(name), f"{settings} {args.set}"),
                *(args.out / name.replace(" ", "-"), args.fid),
            )
            for name, settings in parts.items()
        }
        rows = {name: numbers(task.result() or {}) for name, task in waiting.items()}
    clock.cancel()
    print(f"| {'left out' if args.left_out else 'label seed'} | {' | '.join(COLUMNS)} |".replace("_", " "))
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name, values in rows.items():
        print(line(name, values))
    if not args.left_out:
        table = np.array(list(rows.values()))
        print(line("mean", table.mean(axis=0)))
        print(line("standard deviation", table.std(axis=0, ddof=min(1, len(table) - 1))))


if __name__ == "__main__":
    commands = Commands()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: commands.stop())
    main(commands)
