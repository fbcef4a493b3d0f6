"""The recipe `best` of a data set as docs/results.md has it: its label seeds, or each of its parts left out once.

    python benchmarks/best.py mnist --seeds 5 --beside 5 --out DIR         one row for each label seed, and their mean
    python benchmarks/best.py mnist --left-out --beside 5 --out DIR        seed 0; one row for each part; of MNIST alone

Every row is a run in DIR, trained by `segma train` and measured by `segma evaluate --fid`, so many beside each other
(on a GPU CUDA's MPS lets them share it); what they print is in a .txt beside each. The same command again goes on: what
is done stays done, what was stopped is resumed.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from segma import data, launch, runs
from segma.config import assignments
from segma.errors import InputError
from segma.metrics import inception

COLUMNS = ("test_error", "reconstruction_error", "fid", "interpolation_fid", "reconstruction_fid")
LEFT_OUT = {  # what stands in the recipe instead of the paper's, and how to do without it
    "mnist": {
        "nothing": "",
        "the critic": "critic=0",
        "consistency of views": "kappa=0",
        "what neighbours say": "neighbours=0",
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
        say(f"segma {' '.join(words)}")
        with log.open("a") as text:
            # a session of its own: Ctrl-C comes from here, once, and not from the terminal as well
            process = subprocess.Popen(
                [sys.executable, "-m", "segma", *words], stdout=text, stderr=subprocess.STDOUT, start_new_session=True
            )
            self.alive.add(process)
            if self.stopped.is_set():  # between the question above and now
                process.send_signal(signal.SIGINT)
            status = process.wait()
        self.alive.discard(process)
        if status and not self.stopped.is_set():
            last = log.read_text().strip().rpartition("\n")[2]
            say(f"failed: segma {' '.join(words)}: {last or f'status {status}'}")
        return status == 0

    def stop(self) -> None:
        self.stopped.set()
        for process in list(self.alive):
            process.send_signal(signal.SIGINT)


class Row(NamedTuple):
    """A run of the table: how it is trained, and where it is."""

    name: str
    seed: int
    settings: str
    path: Path


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rows(args: argparse.Namespace) -> list[Row]:
    """Those that are wanted. Settings, data, FID's weights and runs that are there are looked at before anything
    trains."""
    if args.fid:
        inception.find(None, data.directory())
    parts = LEFT_OUT[args.data] if args.left_out else {str(seed): "" for seed in range(args.seeds)}
    whole = launch.read_data(args.data, {}, None, None)
    wanted = []
    for name, part in parts.items():
        row = Row(name, 0 if args.left_out else int(name), f"{part} {args.set}", args.out / name.replace(" ", "-"))
        settings = assignments(row.settings.split()) | {"seed": row.seed}
        launch.check_settings(settings)
        config = launch.config_for(args.data, whole, "best", settings)
        if row.path.exists() and runs.read(row.path).config != config:
            raise InputError(f"{row.path} was made with other settings: choose another --out")
        wanted.append(row)
    return wanted


def measure(commands: Commands, name: str, row: Row, fid: bool) -> bool:
    """Train a run, if need be, and measure it; whether all of that is done."""
    path, log = str(row.path), row.path.with_suffix(".txt")
    sets = [word for pair in row.settings.split() for word in ("--set", pair)]
    train = ["resume", path] if row.path.exists() else ["train", name, "--seed", str(row.seed), *sets, "--out", path]
    if not found(row.path) and not commands.run(*train, log=log):
        return False
    return not fid or "fid" in found(row.path) or commands.run("evaluate", path, "--fid", log=log)


def found(path: Path) -> dict:
    return json.loads((path / "results.json").read_text()) if (path / "results.json").exists() else {}


def numbers(results: dict, columns: Sequence[str]) -> list[float]:
    """FIDs are against the test split; NaN is what was not measured."""
    values = (results.get(name, np.nan) for name in columns)
    return [value["test"] if isinstance(value, dict) else value for value in values]


def line(name: str, values: Sequence[float]) -> str:
    cells = [f"{values[0]:.2%}", *(f"{value:.2f}" for value in values[1:])]
    return f"| {' | '.join([name, *('-' if 'nan' in cell else cell for cell in cells)])} |"


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: wanted is a whole number, 1 or more")
    return int(text)


def main(commands: Commands) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="as `segma train` takes it")
    parser.add_argument("--seeds", type=at_least_one, default=5, metavar="N", help="label seeds, from 0; else 5")
    parser.add_argument("--left-out", action="store_true", help="each part of the recipe left out, instead of seeds")
    parser.add_argument("--set", default="", metavar="'KEY=VALUE ...'", help="over the recipe, in all rows")
    parser.add_argument("--no-fid", dest="fid", action="store_false", help="errors alone")
    parser.add_argument("--beside", type=at_least_one, default=1, metavar="N", help="runs at once; else 1")
    parser.add_argument("--seconds", type=float, help="stop after so long; the same command goes on")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the runs are")
    args = parser.parse_args()
    if args.left_out and args.data not in LEFT_OUT:
        parser.error(f"--left-out {args.data}: allowed is {', '.join(LEFT_OUT)}")
    try:
        wanted = rows(args)
    except InputError as problem:
        parser.error(str(problem))
    args.out.mkdir(parents=True, exist_ok=True)
    clock = threading.Timer(args.seconds or 0, commands.stop)
    if args.seconds:
        clock.start()
    with ThreadPoolExecutor(args.beside) as pool:
        done = list(pool.map(lambda row: measure(commands, args.data, row, args.fid), wanted))
    clock.cancel()
    columns = COLUMNS if args.fid else COLUMNS[:2]
    print(f"| {'left out' if args.left_out else 'label seed'} | {' | '.join(columns)} |".replace("_", " "))
    print("|---" * (len(columns) + 1) + "|")
    table = np.array([numbers(found(row.path), columns) for row in wanted])
    for row, values in zip(wanted, table, strict=True):
        print(line(row.name, values))
    if not args.left_out and len(table) > 1:
        print(line("mean", table.mean(axis=0)))
        print(line("standard deviation", table.std(axis=0, ddof=1)))
    if commands.stopped.is_set() and not all(done):
        say("stopped; the same command goes on")
    return 0 if all(done) else 1


if __name__ == "__main__":
    commands = Commands()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: commands.stop())
    sys.exit(main(commands))
