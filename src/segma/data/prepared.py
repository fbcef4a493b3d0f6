"""Pictures decoded once into a memory-mapped file: they need not fit into memory, and a killed job goes on.

KEEP/prepared/ has a folder for every list of files in one state (names, sizes, times) and way of reading them. In it
are `x.npy`, all that could be read, in order; `log.jsonl`, how far it is and which were broken; `made_from.json`, for
people; `lock`. Until it is whole x.npy is `x1.part`, or `x3.part` from the first picture with colour on.
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from segma.data.arrays import Progress, mapped
from segma.data.pictures import Broken, Form, Sized, attempt, in_order, of_one_size
from segma.errors import InputError, RunFailed

READING = 1  # to be raised when `picture` gives other values for the same file
CHUNK = 1 << 26  # bytes decoded between two lines of the log: what a kill loses
HEADER = 128  # bytes of x.npy before its values: numpy fills up to a multiple of 64, and 64 are too few
Chunk = list[tuple[int, np.ndarray | Broken]]  # places in the list of files, and what was found there


class Done(NamedTuple):
    """What the log says."""

    files: int = 0
    first: Sized = None
    channels: int = 1
    broken: tuple[tuple[int, Broken], ...] = ()
    log_bytes: int = 0  # of its whole lines

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.files - len(self.broken), *(self.first[1] if self.first else (1, 1)), self.channels)


def prepared(
    keep: Path, root: Path, files: Sequence[str], image_size: int | None, form: Form, progress: Progress | None
) -> tuple[np.ndarray, list[tuple[int, Broken]]]:
    """The pictures root/files that can be read, as a memory map, and the places of those that cannot.

    `form` is what one is expected to be: too little room on the disk is an error before the work, not after it.
    """
    made_from = _made_from(root, image_size)
    folder = keep.absolute() / "prepared" / _digest(made_from, root, files)
    read = partial(attempt, root=root, image_size=image_size)
    try:
        if not _is_whole(folder, files, read):
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder, root, progress):
                if not _is_whole(folder, files, read):  # another process may have been quicker
                    (folder / "made_from.json").write_text(json.dumps(made_from, indent=2) + "\n")
                    _prepare(folder, root, files, read, form, progress)
        return _opened(folder, len(files))
    except OSError as problem:
        reason = f"{problem.strerror or problem}; what is there is kept, and the next call goes on"
        hint = "another place: --data-dir or SEGMA_DATA"
        raise RunFailed(f"cannot keep the decoded pictures in {folder}: {reason} ({hint})") from problem


def _made_from(root: Path, image_size: int | None) -> dict:
    import PIL.Image

    how = {"image_size": image_size, "pillow": PIL.__version__, "max_pixels": PIL.Image.MAX_IMAGE_PIXELS}
    return {"folder": str(root.resolve()), **how, "reading": READING}


def _digest(made_from: dict, root: Path, files: Sequence[str]) -> str:
    digest = hashlib.sha256(json.dumps(made_from).encode())
    for name in files:
        try:
            found = os.stat(f"{root}/{name}")
            state = f"{found.st_size} {found.st_mtime_ns}"
        except OSError:  # a link to nowhere: a broken picture
            state = ""
        digest.update(os.fsencode(f"\0{name}\0{state}"))
    return digest.hexdigest()[:16]


def _is_whole(folder: Path, files: Sequence[str], read: Callable) -> bool:
    """Whether x.npy is there, and no picture is left out of it that can be read by now."""
    if not (folder / "x.npy").exists():
        return False
    again = (files[place] for place, broken in _done(folder).broken if broken.may_pass)
    return all(isinstance(read(name), Broken) for name in again)


@contextmanager
def _alone(folder: Path, root: Path, progress: Progress | None) -> Generator[None]:
    """One process at a time; the others wait. The lock goes with the process, however it ends."""
    with (folder / "lock").open("w") as file:
        if not _locked(file):
            turns, text = iter(partial(_locked, file), True), f"waiting for another process that prepares {root.name}"
            for _ in progress(turns, 0, text) if progress else turns:
                time.sleep(0.2)
        yield


def _locked(file: IO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _done(folder: Path) -> Done:
    """What the log says, up to a line that a kill or a power cut has spoiled."""
    done, broken = Done(), []
    log = folder / "log.jsonl"
    for line in log.read_bytes().split(b"\n")[:-1] if log.exists() else ():
        try:
            said = json.loads(line)
        except ValueError:
            break
        broken += [(place, Broken(reason, may_pass)) for place, reason, may_pass in said["broken"]]
        first = said["first"] and (said["first"][0], tuple(said["first"][1]))
        done = Done(said["files"], first, said["channels"], (), done.log_bytes + len(line) + 1)
    return done._replace(broken=tuple(broken))


def _prepare(
    folder: Path, root: Path, files: Sequence[str], read: Callable, form: Form, progress: Progress | None
) -> None:
    (folder / "x.npy").unlink(missing_ok=True)  # it is there without a picture that can be read by now
    done = _done(folder)
    part = _part(folder, done)
    if not part.exists() or part.stat().st_size < HEADER + math.prod(done.shape):
        done = Done()
        _part(folder, done).touch()
    needed, free = (len(files) - done.files) * math.prod(form), shutil.disk_usage(folder).free
    if needed > free:
        raise RunFailed(f"{folder}: {needed / 1e9:.1f} GB needed for the decoded pictures, {free / 1e9:.1f} GB free")
    before = f", {done.files:,} of {len(files):,} done before" if done.files else ""
    with in_order(read, files[done.files :], progress, f"preparing {root.name}{before}") as results:
        pictures = of_one_size(results, root, files, done.files, done.first)
        try:
            while chunk := list(islice(pictures, max(1, CHUNK // math.prod(form)))):
                done = _append(folder, done, chunk)
        except InputError:  # of two sizes: these files will never be whole
            for useless in (*folder.glob("x?.part"), *folder.glob("log.jsonl")):
                useless.unlink()
            raise
    with _part(folder, done).open("r+b") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": done.shape}
        np.lib.format.write_array_header_1_0(file, header)
        os.fsync(file.fileno())
    _part(folder, done).rename(folder / "x.npy")
    (folder / "x1.part").unlink(missing_ok=True)


def _part(folder: Path, done: Done) -> Path:
    return folder / f"x{done.channels}.part"


def _append(folder: Path, done: Done, chunk: Chunk) -> Done:
    """Writes pictures after those that are done, then the line that says so: whenever this is killed, the log is true.

    Through an ordinary file: on a full disk that is an error, in a memory map it is a crash.
    """
    images = [(place, found) for place, found in chunk if isinstance(found, np.ndarray)]
    broken = [(place, found) for place, found in chunk if isinstance(found, Broken)]
    if images and not done.first:
        done = done._replace(first=(images[0][0], images[0][1].shape[:2]))
    if done.channels == 1 and any(image.ndim == 3 for _, image in images):
        done = _with_colour(folder, done)
    _write(
        _part(folder, done),
        HEADER + math.prod(done.shape),
        (np.broadcast_to(image.reshape(*image.shape[:2], -1), done.shape[1:]).tobytes() for _, image in images),
    )
    files = done.files + len(chunk)
    said = {"files": files, "first": done.first, "channels": done.channels, "broken": [(i, *b) for i, b in broken]}
    line = json.dumps(said).encode() + b"\n"
    _write(folder / "log.jsonl", done.log_bytes, [line])
    return Done(files, done.first, done.channels, (*done.broken, *broken), done.log_bytes + len(line))


def _write(path: Path, begin: int, pieces: Iterable[bytes]) -> None:
    """Puts them at `begin`, in the place of whatever a kill may have left there."""
    with path.open("ab") as file:
        file.truncate(begin)
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def _with_colour(folder: Path, done: Done) -> Done:
    """The first picture with colour makes all RGB: the grey ones before it are written anew, each value three times.
    The old file stays until all is done: should this be killed, the log still speaks of it."""
    coloured = done._replace(channels=3)
    with _part(folder, done).open("rb") as old, _part(folder, coloured).open("wb") as new:
        old.seek(HEADER)
        new.write(bytes(HEADER))
        while block := old.read(1 << 22):
            new.write(np.frombuffer(block, np.uint8).repeat(3).tobytes())
    return coloured


def _opened(folder: Path, n: int) -> tuple[np.ndarray, list[tuple[int, Broken]]]:
    done = _done(folder)
    with (folder / "x.npy").open("rb") as file:
        size, expected = os.fstat(file.fileno()).st_size, HEADER + math.prod(done.shape)
        if done.files != n or size != expected:
            found = f"log.jsonl speaks of {done.files} files and {expected} bytes, but there are {n} and {size}"
            raise InputError(f"{folder}: damaged ({found}); remove it and it is made anew")
        return mapped(file, np.dtype(np.uint8), done.shape, HEADER), list(done.broken)
