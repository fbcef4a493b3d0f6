"""A run is a folder: config.json, labels.json, model.safetensors, log.jsonl, checkpoint/, samples/, results.json.

Every file is written whole or not at all, nothing is deleted, and no pickle is read.
"""

import dataclasses
import fcntl
import json
import platform
import shlex
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import segma
from segma import files
from segma.baselines import AnyModel, build
from segma.clouds import Clouds
from segma.config import Config
from segma.data.arrays import Data, fingerprint
from segma.errors import InputError, near
from segma.model import Model
from segma.step import steps_in_all

CHECKPOINT = "checkpoint/last.safetensors"
NEEDED = "name", "where", "shape", "form", "classes", "labels", "rows", "fingerprint"  # of what is known of the data
TRAINED = Path(__file__).parent / "trained"  # runs that are part of the package


@dataclass(frozen=True)
class Run:
    """What config.json says: the settings and what is known of the data they were used on."""

    path: Path
    config: Config
    data: dict  # as `describe` gives it

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.data["classes"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a table, the names of its columns, if it has any; runs of before have none."""
        return tuple(self.data.get("columns", ()))

    @property
    def heads(self) -> tuple[str, ...]:
        """What the columns of a table are called in files that are written."""
        return self.columns or tuple(f"x{i}" for i in range(self.shape[0]))

    @property
    def called(self) -> str:
        """What one types for it: its path, or its name where it comes with segma."""
        return self.path.name if self.comes_along else str(self.path)

    @property
    def comes_along(self) -> bool:
        return self.path.parent == TRAINED

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data["shape"])


def create(path: Path, config: Config, about: dict) -> Run:
    """A new run folder with its config.json; a path that exists is never touched. `about` is from `describe`."""
    run = Run(path, config, about)
    check_free(path)
    try:
        path.mkdir(parents=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {path}: {problem.strerror}") from problem
    versions = {"segma": segma.__version__, "torch": torch.__version__, "python": platform.python_version()}
    files.write_json(path / "config.json", {"settings": config.to_json(), "data": run.data, "versions": versions})
    return run


def check_free(path: Path) -> None:
    if path.exists():
        hint = f", or go on with: segma resume {shlex.quote(str(path))}" if (path / "labels.json").exists() else ""
        raise InputError(f"{path} exists and is not overwritten: choose another name{hint}")


def describe(data: Data, where: str | None, labels: str) -> dict:
    """What a run keeps of its data: enough to use the model without them and to know them again."""
    grey = data.kind == "image" and data.shape[2] == 1
    return {
        "name": data.name,
        "where": where,  # the directory its files were read from
        "shape": list(data.shape),
        "form": {"ndim": data.x_train.ndim - grey, "dtype": str(data.x_train.dtype)},  # of the arrays users hand in
        "classes": list(data.classes),
        "columns": list(data.columns),  # the names of a table's, if it has any
        "labels": labels,  # what the classes' names are to Python: str, int, float or bool
        "rows": [len(data.x_train), len(data.x_test)],
        "fingerprint": fingerprint(data),
    }


def come_along() -> dict[str, Path]:
    """The trained models that are part of the package, by name."""
    return {path.parent.name: path.parent for path in sorted(TRAINED.glob("*/config.json"))}


def read(path: Path) -> Run:
    """The run in a folder or, where none is there, the one of that name that comes with segma."""
    path = path if (path / "config.json").exists() else come_along().get(str(path), path)
    if not path.exists():
        folders = dict.fromkeys((path.parent, Path("runs")))  # `segma train` puts runs in the second
        there = [str(other.parent) for folder in folders for other in sorted(folder.glob("*/config.json"))]
        meant = [str("runs" / path)] if ("runs" / path).exists() else []
        raise InputError(f"{path}: no such run; {near(str(path), meant or [*there, *come_along()], 'there are')}")
    if path.is_file():
        raise InputError(f"{path} is a file, and a run is a folder; the run is named first")
    if not (path / "config.json").is_file():
        raise InputError(f"{path} is not a run: it has no config.json; segma train makes one of data")
    written = path / "config.json"
    content = files.read_json(written)
    with files.as_written(written):
        settings, about = content["settings"], content["data"]
        if missing := [key for key in NEEDED if key not in about]:
            raise InputError(f"{written} is damaged: nothing of the data's {', '.join(missing)}")
        numbers, names = [*about["shape"], *about["rows"]], about["classes"]
        if not all(isinstance(n, int) for n in numbers) or not all(isinstance(name, str) for name in names):
            raise TypeError
        try:
            return Run(path, Config.from_json(settings), about)
        except InputError as problem:
            raise InputError(f"{written}: {problem}") from problem


def check_same_data(run: Run, data: Data) -> None:
    found = fingerprint(data)
    if found != run.data["fingerprint"]:
        raise InputError(
            f"{run.path} was trained on other data: the files of {run.config.data!r} have the fingerprint "
            f"{found[:12]}, the run has {run.data['fingerprint'][:12]}"
        )


def load_mixture(run: Run, device: str = "cpu") -> Model:
    """The trained model of a run whose codes are a mixture, one component per class: what edits need."""
    model = load_model(run, device)
    if not isinstance(model, Model) or model.mixture.k != len(run.classes):
        raise InputError(
            f"{run.path} is of the model {run.config.model}: this needs one Gaussian per class, as segma has"
        )
    return model


def load_model(run: Run, device: str = "cpu") -> AnyModel:
    """The trained model, ready to use: without its critic, which is of use only while it trains."""
    model = build(dataclasses.replace(run.config, critic=0.0), run.shape, len(run.classes))
    tensors, metadata = read_weights(run)
    done, last = _step_of(metadata, run), steps_to_do(run)
    if done < last:
        hint = f"if it was stopped, it goes on with: segma resume {shlex.quote(run.called)}"
        warnings.warn(f"{run.called} has trained {done} of its {last} steps; {hint}", stacklevel=2)
    clouds = {name.removeprefix("clouds."): tensors.pop(name) for name in list(tensors) if name.startswith("clouds.")}
    try:
        model.load_state_dict(tensors)
        if clouds and isinstance(model, Model):
            model.clouds = Clouds(**clouds)
    except (RuntimeError, TypeError) as problem:
        raise InputError(
            f"{run.path / 'model.safetensors'} does not fit config.json: other shapes or names"
        ) from problem
    return model.to(device).eval()


def save_model(run: Run, model: AnyModel, step: int) -> None:
    tensors = {name: value for name, value in model.state_dict().items() if not name.startswith("critic.")}
    if isinstance(model, Model) and model.clouds:
        tensors |= {f"clouds.{name}": value for name, value in vars(model.clouds).items()}
    files.write_tensors(run.path / "model.safetensors", tensors, {"step": str(step)})


def steps_done(run: Run) -> int:
    """How many steps the saved model has trained."""
    return _step_of(files.read_metadata(run.path / "model.safetensors", _untrained(run)), run)


def _step_of(metadata: dict[str, str], run: Run) -> int:
    with files.as_written(run.path / "model.safetensors"):
        return int(metadata["step"])


def steps_to_do(run: Run) -> int:
    """How many it trains from its start to its end."""
    return steps_in_all(run.config, rows_to_train(run))


def rows_to_train(run: Run) -> int:
    """How many there are, without those held out."""
    held_out = rows(run)[1] if (run.path / "labels.json").exists() else ()  # those fitted in Python have none
    return run.data["rows"][0] - len(held_out)


def rows(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The training rows that kept their label, and those held out to measure on."""
    found = files.read_json(run.path / "labels.json")
    with files.as_written(run.path / "labels.json"):
        return np.array(found["kept"], dtype=int), np.array(found["held_out"], dtype=int)


def read_weights(run: Run) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What model.safetensors holds, and what it says of itself."""
    return files.read_tensors(run.path / "model.safetensors", _untrained(run))


def _untrained(run: Run) -> str:
    return f"train first, or wait for the first checkpoint; if it was stopped: segma resume {shlex.quote(run.called)}"


def save_checkpoint(run: Run, tensors: dict[str, Tensor], step: int) -> None:
    files.write_tensors(run.path / CHECKPOINT, tensors, {"step": str(step)})


def read_checkpoint(run: Run, device: str = "cpu") -> tuple[dict[str, Tensor], int]:
    tensors, metadata = files.read_tensors(run.path / CHECKPOINT, "the run cannot be resumed", device)
    return tensors, int(metadata["step"])


def has_model(run: Run) -> bool:
    return (run.path / "model.safetensors").exists()


def has_checkpoint(run: Run) -> bool:
    return (run.path / CHECKPOINT).exists()


def keep(run: Run, name: str, content: bytes) -> None:
    """Into the run's folder; one that comes with segma stays as it is."""
    if not run.comes_along:
        files.write(run.path / name, content)


@contextmanager
def locked(run: Run) -> Generator[None]:
    """One training at a time in a folder; the lock goes with the process, however it ends."""
    with (run.path / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{run.path} is being trained by another process") from None
        yield


def cut_log(path: Path, step: int) -> None:
    """Drop the lines after `step`: a resumed run writes them again."""
    if path.exists():
        lines = [line for line in path.read_text().splitlines() if line and _step(line) <= step]
        files.write(path, "".join(line + "\n" for line in lines).encode())


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (json.JSONDecodeError, KeyError):  # the half-written last line of a killed run
        return float("inf")
