"""From the name of a data set to a finished run folder: start, train, go on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from segma import data, distributed, files, run_data, runs
from segma.baselines import AnyModel, build
from segma.config import Config, check_names, override
from segma.data.arrays import Data
from segma.errors import InputError
from segma.model import Model
from segma.recipes import recipe
from segma.record import Job, Progress, recorded
from segma.state import State
from segma.train import fit

READING = ("image_size", "skip_broken")  # settings that say how data are read


def start(
    name: str,
    recipe_name: str = "best",
    settings: dict | None = None,
    out: Path | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    progress: Callable | None = None,
) -> Job:
    """A new run on a named data set or a path; `settings` go over the recipe's."""
    settings, device = settings or {}, choose_device(device)
    check_settings(settings)
    if out is not None and distributed.rank() == 0:
        runs.check_free(out)
    whole = read_data(name, settings, data_dir, progress)
    return begin(whole, config_for(name, whole, recipe_name, settings), out or free_name(whole.name), data_dir, device)


def check_settings(settings: dict) -> None:
    check_names(settings)
    for key in ("data", "recipe"):
        if key in settings:
            raise InputError(
                f"--set {key}={settings[key]}: this one is not a setting to change but what `train` is given"
            )


def read_data(name: str, settings: dict, data_dir: Path | None, progress: Callable | None) -> Data:
    """The data set, read as those settings say that are about reading."""
    first = override(Config(), {key: value for key, value in settings.items() if key in READING})
    return data.load(name, data_dir, first.image_size, first.skip_broken, progress)


def config_for(name: str, whole: Data, recipe_name: str, settings: dict) -> Config:
    known = name if name in data.NAMED else str(Path(name).expanduser().resolve())
    model = str(settings.get("model", "segma"))
    config = recipe(recipe_name, known, whole.shape, len(whole.x_train), len(whole.classes), model)
    return override(config, settings)


def begin(whole: Data, config: Config, path: Path, data_dir: Path | None, device: str) -> Job:
    """A new run folder, its labels chosen and its model ready to train."""
    kept, held_out = run_data.choose_rows(whole, config)
    few = run_data.with_rows(whole, kept, held_out)
    state = State.start(new_model(few, config).to(device), config)
    labels = "int" if all(_is_whole(name) for name in whole.classes) else "str"
    about = runs.describe(whole, str(data.directory(data_dir).resolve()), labels)
    if distributed.rank() > 0:  # the first process keeps the folder
        return Job(runs.Run(path, config, about), few, state, device)
    run = runs.create(path, config, about)
    files.write_json(path / "labels.json", {"kept": kept.tolist(), "held_out": held_out.tolist()})
    return Job(run, few, state, device)


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and str(int(name)) == name


def resume(
    path: Path,
    data_dir: Path | None = None,
    device: str = "auto",
    progress: Callable | None = None,
    whole: Data | None = None,
) -> Job:
    """Go on with a run from its last checkpoint, exactly; `whole` are its data, if they have been read already."""
    run = runs.read(path)
    if not runs.has_checkpoint(run) and runs.has_model(run):
        raise InputError(f"{path} holds a trained model but no checkpoint: it can be used, not resumed")
    few = run_data.load(run, data_dir, progress, whole)
    device = choose_device(device)
    state = State.start(new_model(few, run.config).to(device), run.config)
    if runs.has_checkpoint(run):
        tensors, step = runs.read_checkpoint(run, device)
        try:
            state.load(tensors, step)
        except (RuntimeError, KeyError, ValueError) as problem:
            where = run.path / runs.CHECKPOINT
            raise InputError(f"{where} does not fit config.json: other shapes or names") from problem
    return Job(run, few, state, device)


def new_model(few: Data, config: Config) -> AnyModel:
    """An untrained model for these data: p_k from the kept labels, columns standardised, the first pictures' colour."""
    model = build(config, few.shape, len(few.classes))
    counts = np.bincount(few.y_train[few.y_train >= 0], minlength=len(few.classes))
    if not isinstance(model, Model):
        model.class_weights.copy_(torch.from_numpy(counts / counts.sum()))
    elif len(model.class_weights) == len(counts):
        model.set_weights(counts / counts.sum())
    if few.kind == "table":
        model.set_scale(few.x_train, few.columns)
    elif config.start_at_mean and isinstance(model, Model):
        model.start_at_mean(few.x_train)
    return model


def choose_device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device {name!r}: allowed are auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda': this machine has no GPU that PyTorch can use; allowed are auto, cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def free_name(name: str, folder: Path = Path("runs")) -> Path:
    """runs/NAME-1, or the first number that is free."""
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    return folder / f"{name}-{number}"


def train(job: Job, stop: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
    """Train to the end, or until `stop()`: log, pictures and checkpoints go to the run folder, steps to the caller.

    Ends with a checkpoint, except when a step fails: then the last good one stays.
    """
    x, y = place(job.data.x_train, job.device), torch.from_numpy(job.data.y_train).to(job.device)
    with distributed.together(), recorded(job) as record:
        for step in fit(job.state, x, y, job.run.config):
            halt = distributed.anywhere(stop())
            yield record.after(step, halt)
            if halt:
                return


def place(x: np.ndarray, device: str) -> torch.Tensor | np.ndarray:
    """Rows where a step finds them: on the device, unless they are on disk or too many; then they are read ahead."""
    if device == "cpu":
        return x if isinstance(x, np.memmap) else torch.from_numpy(x)
    return torch.from_numpy(x).to(device) if x.nbytes < torch.cuda.mem_get_info()[0] / 2 else x
