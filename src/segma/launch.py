"""From the name of a data set to a finished run folder: start, go on, measure."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

import segma
from segma import data, distributed, files, runs
from segma.baselines import AnyModel, build
from segma.config import Config, check_names, override
from segma.data.arrays import Data
from segma.data.labels import hide, hold_out
from segma.errors import InputError
from segma.metrics.accuracy import evaluate
from segma.model import Model
from segma.recipes import recipe
from segma.record import Job, Progress, recorded
from segma.state import State
from segma.step import rows_per_step, steps_in_all
from segma.train import fit


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
    first = override(Config(), {key: value for key, value in settings.items() if key in ("image_size", "skip_broken")})
    return data.load(name, data_dir, first.image_size, first.skip_broken, progress)


def config_for(name: str, whole: Data, recipe_name: str, settings: dict) -> Config:
    known = name if name in data.NAMED else str(Path(name).expanduser().resolve())
    model = str(settings.get("model", "segma"))
    config = recipe(recipe_name, known, whole.shape, len(whole.x_train), len(whole.classes), model)
    return override(config, settings)


def begin(whole: Data, config: Config, path: Path, data_dir: Path | None, device: str) -> Job:
    """A new run folder, its labels chosen and its model ready to train."""
    kept, held_out = choose_rows(whole, config)
    few = with_rows(whole, kept, held_out)
    state = State.start(new_model(few, config).to(device), config)
    labels = "int" if all(name.isdecimal() and str(int(name)) == name for name in whole.classes) else "str"
    about = runs.describe(whole, str(data.data_dir(data_dir).resolve()), labels)
    if distributed.rank() > 0:  # the first process keeps the folder
        return Job(runs.Run(path, config, about), few, state, device)
    run = runs.create(path, config, about)
    files.write_json(path / "labels.json", {"kept": kept.tolist(), "held_out": held_out.tolist()})
    return Job(run, few, state, device)


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
    few = load_data(run, data_dir, progress, whole)
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


def load_data(
    run: runs.Run, data_dir: Path | None = None, progress: Callable | None = None, whole: Data | None = None
) -> Data:
    """The data of a run with the labels it kept; other data than it was trained on are an error."""
    whole = whole_data(run, data_dir, progress, whole)
    rows = files.read_json(run.path / "labels.json")
    return with_rows(whole, np.array(rows["kept"], dtype=int), np.array(rows["held_out"], dtype=int))


def with_all_labels(run: runs.Run, data_dir: Path | None = None, progress: Callable | None = None) -> Data:
    """The data of a run with every label there is: for judges of the model, never for the model."""
    whole = whole_data(run, data_dir, progress)
    held_out = np.array(files.read_json(run.path / "labels.json")["held_out"], dtype=int)
    return with_rows(whole, np.setdiff1d(np.flatnonzero(whole.y_train >= 0), held_out), held_out)


def whole_data(
    run: runs.Run, data_dir: Path | None = None, progress: Callable | None = None, whole: Data | None = None
) -> Data:
    """The data that a run was trained on, nothing hidden."""
    config = run.config
    if run.data["where"] is None:
        raise InputError(f"{run.path} was fitted on arrays in Python, which it does not keep: measure it there")
    if whole is None:
        place = data_place(run, data_dir)
        whole = data.load(_found(config.data, data_dir), place, config.image_size, config.skip_broken, progress)
    runs.check_same_data(run, whole)
    return whole


def _found(name: str, data_dir: Path | None) -> str:
    """A file or folder of one's own that is no longer where it was may be in the data directory that was given."""
    if name in data.NAMED or Path(name).exists():
        return name
    own = Path(name).name
    places = [data_dir / own, *([data_dir] if data_dir.name == own else [])] if data_dir else []
    found = next((place for place in places if place.exists()), None)
    if found is None:
        looked = f", nor is {places[0]} there" if places else ""
        raise InputError(f"{name}: no such file or folder{looked}; --data-dir FOLDER, if it lies there now as {own}")
    return str(found.resolve())


def data_place(run: runs.Run, data_dir: Path | None = None) -> Path:
    """As given, else where the run had its data; a run that came from another machine looks where this one has them."""
    here = Path(run.data["where"], run.config.data).exists()
    return data.data_dir(data_dir or (run.data["where"] if here else None))


def choose_rows(whole: Data, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """By the label seed: the training rows that keep their label, and those held out of training to measure on."""
    seed = config.seed if config.label_seed is None else config.label_seed
    if not config.holdout:
        return hide(whole.y_train, config.labels, seed, whole.classes)[1], np.empty(0, dtype=int)
    mask = hold_out(whole.y_train, config.holdout, seed)
    rows = np.flatnonzero(~mask)
    return rows[hide(whole.y_train[rows], config.labels, seed, whole.classes)[1]], np.flatnonzero(mask)


def with_rows(whole: Data, kept: np.ndarray, held_out: np.ndarray) -> Data:
    """The data with every label hidden but the kept ones; rows held out take the place of the test split."""
    y = np.full_like(whole.y_train, -1)
    y[kept] = whole.y_train[kept]
    if not len(held_out):
        return dataclasses.replace(whole, y_train=y)
    rest = np.setdiff1d(np.arange(len(y)), held_out)
    x, x_test, y_test = whole.x_train[rest], whole.x_train[held_out], whole.y_train[held_out]
    return dataclasses.replace(whole, x_train=x, y_train=y[rest], x_test=x_test, y_test=y_test)


def new_model(few: Data, config: Config) -> AnyModel:
    """An untrained model for these data: p_k from the kept labels, columns standardised, the first pictures' colour."""
    model = build(config, few.shape, len(few.classes))
    counts = np.bincount(few.y_train[few.y_train >= 0], minlength=len(few.classes))
    if not isinstance(model, Model):
        model.class_weights.copy_(torch.from_numpy(counts / counts.sum()))
    elif len(model.class_weights) == len(counts):
        model.set_weights(counts / counts.sum())
    if few.kind == "table":
        model.set_scale(few.x_train)
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


def measure(run: runs.Run, few: Data, model: AnyModel) -> dict:
    """The numbers of a run on its test split, or on the held-out rows, with the protocol that produced them."""
    split = "validation" if run.config.holdout else "test"
    if not len(few.x_test):
        raise InputError(f"{few.name} has no test split to measure on; train with one, or with --set holdout=0.2")
    found = evaluate(model, few.x_test, few.y_test, run.config, len(few.x_train))
    config, steps = run.config, runs.steps_done(run)
    if config.train_weights and found["confusion"] is not None:
        found["class_shares"] = model.class_weights.tolist()
    return {
        f"{split}_error": found.pop("error"),
        **found,
        "classes": list(run.classes),
        "protocol": {
            "data": few.name,
            "split": f"{split}, {len(few.x_test)} rows",
            "labels": int((few.y_train >= 0).sum()),
            "label_seed": config.seed if config.label_seed is None else config.label_seed,
            "seed": config.seed,
            "model": config.model,
            "recipe": config.recipe,
            "epochs": round(steps * rows_per_step(config, len(few.x_train))[0] / len(few.x_train), 2),
            "steps": steps,  # of the saved model, whether or not its training has ended
            "steps_in_all": steps_in_all(config, len(few.x_train)),
            "weights": "averaged" if config.average else "last",
            "device": model.device.type,
            "segma": segma.__version__,
        },
    }
