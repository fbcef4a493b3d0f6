"""Settings of a recipe compared without test labels: python tools/compare.py DATA "key=value ..." "..."

    python tools/compare.py digits --seeds 4 "" "critic=5 average=0.995"

Each argument is a set of settings over the recipe; "" is the recipe itself. For each and for every label seed a model
is trained with as many rows held out as there are labels. A line says:

    held out   the error on these rows, mean over the seeds
    disagree   how often two models of different label seeds disagree on training images: needs no labels at all,
               and with many images it tells apart what a hundred held-out labels cannot
    fid        of samples, reconstructions and interpolations against training images (with --fid N images)

and what the last model's terms were. At the end, where there are several sets:

    gain       by how much each errs less on these images than the first: the mean over the seeds, its standard error,
               and each seed's. Errors that all label seeds share are not seen by `disagree`; this sees them, by as many
               labels as a model trains with, all spent where models of one seed differ: on the other images nothing
               can be learned about it

Nothing is kept. With --beside N that many train at once, in processes of their own: small nets leave most of a GPU
idle, and CUDA's MPS lets it work for several processes at a time.
"""

import argparse
import itertools
import multiprocessing
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from segma import data, draw, files, launch
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
TOLD = ("reconstruction", "log_distance", "consistency", "unlike", "unreal", "criticism")


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
        self.net, self.device, self.n = inception.load(inception.find(None, data.directory()), device), device, n
        self.x, self.real = x[some_rows(len(x), n)], self.of(x[some_rows(len(x), max(n, JUDGED))])

    def of(self, images: np.ndarray) -> fid.Statistics:
        return statistics(blocks(features(self.net, images)), self.device)

    def scores(self, model: Model) -> str:
        made = {"fid": sampled(model, self.n, 0)[0], "reconstructions": reconstructed(model, self.x)}
        made["interpolations"] = interpolated(model, self.x, self.n, 0)
        return "  ".join(f"{name} {fid.frechet(self.real, self.of(images)):.2f}" for name, images in made.items())


class Result(NamedTuple):
    """Of one model: the error on held-out rows, what training images are taken for, and the rest in words."""

    error: float
    opinions: np.ndarray
    more: str
    seconds: float


@cache
def read(name: str) -> Data:
    return launch.read_data(name, {}, None, None)


@cache
def judge(name: str, n: int, device: str) -> Fid:
    return Fid(read(name).x_train, n, device)


def measured(number: int, seed: int, args: argparse.Namespace) -> Result:
    """Train and judge one model; of the last seed also its FIDs and pictures, if wanted."""
    whole, settings = read(args.data), assignments(args.settings[number].split())
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(whole, args.data, settings, seed, args)
        job, terms, took = trained(whole, config, Path(folder) / "run", args.device)
    model, parts = job.state.result.eval(), []
    wrong = classify_rows(model, job.data.x_test).argmax(dim=1).cpu().numpy() != job.data.y_test
    opinions = classify_rows(model, whole.x_train[:JUDGED]).argmax(dim=1).cpu().numpy()
    if seed == args.seeds - 1 and args.fid:
        parts.append(judge(args.data, args.fid, args.device).scores(model))
    if seed == args.seeds - 1 and args.pictures:
        place = args.pictures / f"{args.data}-{number}.png"
        files.write(place, draw.png(draw.grid(class_samples(model, 10, seed=0))))
    parts += [f"{key} {terms[key]:.3g}" for key in TOLD]
    return Result(float(np.mean(wrong)), opinions, "  ".join(parts), took)


def results(args: argparse.Namespace) -> Iterator[Result | Exception]:
    """Of every set of settings in turn, those of its seeds; one that fails leaves the others alone."""
    tasks = list(itertools.product(range(len(args.settings)), range(args.seeds), [args]))
    if args.beside == 1:
        yield from (_or_problem(measured, *task) for task in tasks)
        return
    with ProcessPoolExecutor(args.beside, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(measured, *task) for task in tasks]
        yield from (_or_problem(task.result) for task in waiting)


def _or_problem(function: Callable, *given: object) -> Result | Exception:
    try:
        return function(*given)
    except Exception as problem:
        return problem


def line(found: list[Result | Exception]) -> str:
    good = [result for result in found if isinstance(result, Result)]
    if len(good) < len(found):
        return f"failed: {next(result for result in found if isinstance(result, Exception))!r}"
    apart = [np.mean(a.opinions != b.opinions) for a, b in itertools.combinations(good, 2)]
    parts = [f"held out {np.mean([result.error for result in good]):6.2%}"]
    parts += [f"disagree {np.mean(apart):6.2%}"] if apart else []
    return "  ".join([*parts, good[-1].more, f"{np.mean([result.seconds for result in good]):.0f} s"])


def gains(opinions: np.ndarray, truth: np.ndarray, labels: int) -> np.ndarray:
    """By how much each set of settings errs less than the first, (sets, seeds). `opinions` are (sets, seeds, images);
    of each seed so many labels are looked at, of images that not all sets take for the same."""
    each = []
    for seed, found in enumerate(np.swapaxes(opinions, 0, 1)):
        differ = np.flatnonzero((found != found[0]).any(axis=0))
        looked = np.random.default_rng(seed).permutation(differ)[:labels]
        better = (found[:, looked] == truth[looked]).astype(int) - (found[0, looked] == truth[looked])
        each.append(better.sum(axis=1) * len(differ) / max(1, len(looked)) / len(truth))
    return np.stack(each, axis=1)


def compared(args: argparse.Namespace, found: dict[str, list[Result | Exception]]) -> Iterator[str]:
    """The last lines: the gain of each that did not fail over the first."""
    good = {text: rows for text, rows in found.items() if all(isinstance(row, Result) for row in rows)}
    if args.settings[0] not in good or len(good) < 2:
        return
    whole, opinions = read(args.data), np.array([[row.opinions for row in rows] for rows in good.values()])
    labels = config_of(whole, args.data, assignments(args.settings[0].split()), 0, args).labels
    truth = whole.y_train[:JUDGED]
    known = truth >= 0
    each = gains(opinions[:, :, known], truth[known], labels or int(known.sum()))
    for text, gain in zip(good, each, strict=True):
        if text != args.settings[0]:
            error = f" +- {gain.std(ddof=1) / len(gain) ** 0.5:.2%}" if len(gain) > 1 else ""
            yield f"gain {gain.mean():+.2%}{error} ({', '.join(f'{one:+.2%}' for one in gain)})  {text or 'the recipe'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--recipe", choices=("best", "paper"), default="best")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of each model; else the recipe's")
    parser.add_argument("--beside", type=int, default=1, metavar="N", help="models that train at once")
    parser.add_argument("--fid", type=int, metavar="N", help="images to generate for it")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where samples of each go")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    args.device = launch.choose_device(args.device)
    if args.fid:
        inception.find(None, data.directory())  # missing weights are known before anything trains
    done, found = results(args), {}
    for text in args.settings:
        print(f"{text or 'the recipe'}\n    ", end="", flush=True)
        found[text] = list(itertools.islice(done, args.seeds))
        print(line(found[text]), flush=True)
    for text in compared(args, found):
        print(text)


if __name__ == "__main__":
    main()
