"""Files as they are kept: each written whole or not at all, tensors without pickle, what is damaged named."""

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from segma.errors import InputError, RunFailed


def write_json(path: Path, value: object) -> None:
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write(path: Path, content: bytes) -> None:
    """Whole or not at all: a reader, or a run killed at any moment, finds the old file or the new one."""
    # a name of its own: two that write the same file at once, as two evaluations their reference, do not mix
    part = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as problem:
        with suppress(OSError):
            part.unlink()
        no_folder = path.parent.exists() and not path.parent.is_dir()
        why = f"{path.parent} is a file, no folder" if no_folder else problem.strerror
        raise RunFailed(f"cannot write {path}: {why}; what was saved before is intact") from problem


def read_json(path: Path) -> dict:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} is damaged: {problem}") from problem
    with as_written(path):
        return {**found}


@contextmanager
def as_written(path: Path) -> Generator[None]:
    """Where what a file holds is used: if it is not what segma writes into such a file, that is said."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise InputError(f"{path} is damaged: not what segma writes") from problem


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    write(path, as_safetensors(tensors, metadata))


def as_safetensors(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """The content of such a file."""
    # copies, since some are views of one vector, which the format refuses
    alone = {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
    return to_bytes(alone, metadata)


def read_tensors(path: Path, hint: str, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, str]]:
    with _tensors(path, hint, device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def read_metadata(path: Path, hint: str) -> dict[str, str]:
    """What a file of tensors says of itself; they stay on disk."""
    with _tensors(path, hint, "cpu") as file:
        return file.metadata() or {}


@contextmanager
def _tensors(path: Path, hint: str, device: str) -> Generator[Any]:
    if not path.is_file():
        raise InputError(f"{path} is missing: {hint}")
    try:
        with safe_open(path, framework="pt", device=device) as file:
            yield file
    except (SafetensorError, OSError) as problem:
        raise InputError(f"{path} is damaged ({problem}): put a copy in its place, or train again") from problem
