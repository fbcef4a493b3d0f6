"""Settings of a recipe compared without test labels: python tools/compare.py DATA "key=value ..." "..."

    python tools/compare.py digits --seeds 4 "" "critic=5 average=0.995"

Each argument is a set of settings over the recipe; "" is the recipe itself. For each and for every label seed a model
is trained with as many rows held out as there are labels. A line says:

    held out   the error on these rows, mean over the seeds
    disagree   how often two models of different label seeds disagree on training images: needs no labels at all,
               and with many images it tells apart what a hundred held-out labels cannot
    fid        of samples, reconstructions and interpolations against training images (with --fid N images)

and what the last model's terms were. Nothing is kept.
"""

import argparse
import itertools
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np
import torch

from segma import data, draw, launch, runs
from segma.apply import class_samples
from segma.config import Config, assignments
from segma.data.arrays import Data, some_rows
from segma.metrics import fid, inception
from segma.metrics.features import blocks, features, interpolated, reconstructed, sampled, statistics
from segma.model import Model, classify_rows, settle
from segma.record import Job
from segma.step import steps_in_all
from segma.train import fit

JUDGED = 20_000  # training images on which models are compared


def trained(whole: Data, config: Config, folder: Path, device: str) -> tuple[Job, dict[str, float], float]:
    """The job after its training, the last step's terms, and the seconds it took."""
    job = launch.begin(whole, config, folder, None, device)
    x, y = launch.place(job.data.x_train, device), torch.from_numpy(job.data.y_train).to(device)
    began = time.monotonic()
    (last,) = deque(fit(job.state, x, y, config), maxlen=1)
    settle(job.state.result.eval(), job.data.x_train, config.clouds)
    return job, last.values(), time.monotonic() - began


def config_of(whole: Data, name: str, settings: dict, seed: int, args: argparse.Namespace) -> Config:
    """The recipe with these settings, as many rows held out as there are labels, and so many steps."""
    config = launch.config_for(name, whole, args.recipe, settings)
    n, labels = len(whole.x_train), config.labels or int((whole.y_train >= 0).sum())
    more = {"holdout": settings.get("holdout", labels / n), "seed": seed, "samples_every": 10**6}
    if args.steps:
        more["epochs"] = max(1, round(config.epochs * args.steps / steps_in_all(config, n)))
    return launch.config_for(name, whole, args.recipe, settings | more)


class Fid:
    """The distances of a model's images from training images; made once, since the reference takes a while."""

    def __init__(self, x: np.ndarray, n: int, device: str) -> None:
        self.net, self.device, self.n = inception.load(inception.find(None, data.data_dir()), device), device, n
        self.x, self.real = x[some_rows(len(x), n)], self.of(x[some_rows(len(x), max(n, JUDGED))])

    def of(self, images: np.ndarray) -> fid.Statistics:
        return statistics(blocks(features(self.net, images)), self.device)

    def scores(self, model: Model) -> str:
        made = {"fid": sampled(model, self.n, 0)[0], "reconstructions": reconstructed(model, self.x)}
        made["interpolations"] = interpolated(model, self.x, self.n, 0)
        return "  ".join(f"{name} {fid.frechet(self.real, self.of(images)):.2f}" for name, images in made.items())


def line(name: str, number: int, whole: Data, settings: dict, args: argparse.Namespace, judge: Fid | None) -> str:
    wrong, opinions, seconds, terms, model = [], [], 0.0, {}, None
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as folder:
            config = config_of(whole, name, settings, seed, args)
            job, terms, took = trained(whole, config, Path(folder) / "run", args.device)
        model, seconds = job.state.result.eval(), seconds + took
        wrong.append(np.mean(classify_rows(model, job.data.x_test).argmax(dim=1).cpu().numpy() != job.data.y_test))
        opinions.append(classify_rows(model, whole.x_train[:JUDGED]).argmax(dim=1).cpu().numpy())
    apart = [np.mean(a != b) for a, b in itertools.combinations(opinions, 2)]
    parts = [f"held out {np.mean(wrong):6.2%}"]
    parts += [f"disagree {np.mean(apart):6.2%}"] if apart else []
    parts += [judge.scores(model)] if judge and model else []
    if args.pictures and model:
        runs.write(args.pictures / f"{name}-{number}.png", draw.png(draw.grid(class_samples(model, 10, seed=0))))
    told = ("reconstruction", "log_distance", "consistency", "unlike", "unreal", "criticism")
    parts += [f"{key} {terms[key]:.3g}" for key in told]
    return "  ".join([*parts, f"{seconds / args.seeds:.0f} s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--recipe", choices=("best", "paper"), default="best")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of each model; else the recipe's")
    parser.add_argument("--fid", type=int, metavar="N", help="images to generate for it")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where samples of each go")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    args.device = launch.choose_device(args.device)
    whole = launch.read_data(args.data, {}, None, None)
    judge = Fid(whole.x_train, args.fid, args.device) if args.fid else None
    for number, text in enumerate(args.settings):
        print(f"{text or 'the recipe'}\n    ", end="", flush=True)
        try:
            print(line(args.data, number, whole, assignments(text.split()), args, judge), flush=True)
        except Exception as problem:  # one that fails leaves the others alone
            print(f"failed: {problem!r}", flush=True)


if __name__ == "__main__":
    main()
