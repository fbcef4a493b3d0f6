"""What `segma evaluate` measures of a run: the error and what belongs to it, FID and its relatives, editing scores."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import segma
from segma import draw, files, plots, run_data, runs
from segma.baselines import AnyModel, classifies
from segma.data.arrays import Data, some_rows
from segma.errors import InputError
from segma.metrics import editing, fid
from segma.metrics.accuracy import evaluate
from segma.model import Model
from segma.step import rows_per_step, steps_in_all

SAMPLES = 10_000  # of the FID protocol; fewer are measured against as few real images, and marked
ENOUGH = 5000  # training rows, measured for want of others
OPTIONAL = ("fid", "interpolation_fid", "reconstruction_fid", "kid", "per_class_fid", "interpolation_fid_at", "editing")


def scores(
    run: runs.Run,
    model: AnyModel,
    data_dir: Path | None = None,
    inception: Path | None = None,
    samples: int | None = None,
    with_editing: bool = False,
    progress: Callable | None = None,
    samples_alone: bool = False,
) -> dict:
    """The numbers of a run, each with its protocol; FID where `samples` says how many images to generate for it, and
    with editing scores also along interpolations; `samples_alone` leaves out all FIDs but that of samples.

    What an earlier call measured of the same weights is kept.
    """
    if with_editing and not (isinstance(model, Model) and classifies(run.config)):
        raise InputError(f"--editing: {run.path} is of the model {run.config.model} without one Gaussian per class")
    whole = run_data.whole_data(run, data_dir, progress)
    few = run_data.load(run, whole=whole)
    if with_editing and not len(few.x_test):
        raise InputError(f"--editing: {few.name} has no test split to measure on; train with one, or --set holdout=0.2")
    results = basic(run, few, model)
    if samples is not None:
        place = run_data.data_place(run, data_dir)
        rows = samples if samples < SAMPLES else None
        along = fid.ALONG if with_editing else ()
        found = fid.scores(model, few, inception, place, samples, 0, progress, rows, along, samples_alone)
        results |= _each_with_protocol(found)
        if with_editing:
            picture = plots.interpolation(results["interpolation_fid_at"])
            runs.keep(run, "interpolation.png", draw.png(picture))
    if with_editing and isinstance(model, Model):
        results["editing"] = editing.scores(model, run_data.with_all_labels(run, whole))
        runs.keep(run, "editing.png", draw.png(plots.editing(results["editing"])))
    return results


def basic(run: runs.Run, few: Data, model: AnyModel) -> dict:
    """What takes no option to measure, with what options measured of the same weights before."""
    return earlier(run) | alone(run, few, model)


def earlier(run: runs.Run) -> dict:
    """What results.json has of the options' scores, if they are of the weights that are there now."""
    try:
        old = files.read_json(run.path / "results.json")
        same = old["protocol"]["steps"] == runs.steps_done(run)
    except (InputError, KeyError, TypeError):
        return {}
    return {name: old[name] for name in OPTIONAL if same and name in old}


def _each_with_protocol(found: dict) -> dict:
    protocol = found.pop("protocol")
    found["per_class_fid"] = {"test": found["per_class_fid"]}
    return {name: values | {"protocol": protocol} for name, values in found.items()}


def alone(run: runs.Run, few: Data, model: AnyModel) -> dict:
    """The numbers of a run on its test split, or on the held-out rows, with the protocol that produced them.

    Where there are neither they are of training rows: all but the error, which would be of labels it was taught.
    """
    config, x, y = run.config, few.x_test, few.y_test
    split = "validation" if config.holdout else "test" if len(x) else "train"
    if split == "train":
        x = few.x_train[some_rows(len(few.x_train), ENOUGH)]
        y = np.full(len(x), -1)
    found = evaluate(model, x, y, config, len(few.x_train))
    steps = runs.steps_done(run)
    if config.train_weights and found["confusion"] is not None:
        found["class_shares"] = model.class_weights.tolist()
    return {
        "validation_error" if config.holdout else "test_error": found.pop("error"),
        **found,
        "classes": list(run.classes),
        "protocol": {
            "data": few.name,
            "split": f"{split}, {len(x)} rows",
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
