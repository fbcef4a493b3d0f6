"""What FID compares: the images a model makes, the features of images, and a file that keeps those of the real ones."""

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from segma import files
from segma.baselines import AnyModel
from segma.data.arrays import Progress
from segma.draw import to_uint8
from segma.errors import InputError, RunFailed
from segma.model import Model, decode_rows, encode_rows

SIZE, WIDTH = 299, 2048
PROTOCOL = 1  # counts up when the same images would give other features

Arrays = dict[str, np.ndarray]


def features(
    net: nn.Module,
    images: np.ndarray,
    progress: Progress | None = None,
    batch: int | None = None,
    text: str = "features",
) -> np.ndarray:
    """Pool features (n, 2048), float32, of images (n, h, w, c): uint8, or float in 0..1, which are rounded to uint8."""
    if images.ndim != 4 or images.shape[3] not in (1, 3) or (images.dtype != np.uint8 and images.dtype.kind != "f"):
        raise InputError(f"images of {images.dtype} {images.shape}, allowed: (n, h, w, 1 or 3), uint8 or float in 0..1")
    batch = batch or (256 if next(net.parameters()).is_cuda else 16)
    starts = range(0, len(images), batch)
    found = np.empty((len(images), WIDTH), dtype=np.float32)
    for i in progress(starts, len(starts), text) if progress else starts:
        part = images[i : i + batch]
        found[i : i + batch] = pooled(net, part if part.dtype == np.uint8 else to_uint8(part)).cpu()
    return found


@torch.inference_mode()
def pooled(net: nn.Module, images: np.ndarray) -> Tensor:
    """What the FID's graph does: resize, (x - 128) / 128, the network, the mean over its last 8x8 places.

    On a GPU convolutions round to tf32's 10 bits, as PyTorch's do unless told otherwise: that is faster, and moves an
    FID by a thousandth of itself (docs/results.md).
    """
    x = torch.tensor(images, device=next(net.parameters()).device).permute(0, 3, 1, 2).float()
    x = ((resized(x) - 128) / 128).expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        return net(x).mean(dim=(2, 3))
    finally:
        torch.backends.cudnn.allow_tf32 = before


def resized(x: Tensor, size: int = SIZE) -> Tensor:
    """Bilinear as TensorFlow 1 had it: pixel i of the result is at i * h / size of the source, whose last row repeats.

    It has neither antialiasing nor half-pixel centres; torch's `interpolate` has the latter, and its FIDs differ.
    """
    for axis in (3, 2):
        place = torch.arange(size, device=x.device, dtype=x.dtype) * (x.shape[axis] / size)
        low = place.long()
        high = (low + 1).clamp(max=x.shape[axis] - 1)
        t = (place - low).view(-1, *[1] * (3 - axis))
        x = torch.lerp(x.index_select(axis, low), x.index_select(axis, high), t)
    return x


@dataclass(frozen=True, eq=False)
class Statistics:
    """Mean (d,), covariance (d, d; divided by n - 1) and number of samples, in float64; `device` computes with them."""

    mean: np.ndarray
    covariance: np.ndarray
    n: int
    device: str = "cpu"

    @cached_property
    def factor(self) -> Float[Tensor, "r d"]:
        """F, F^T F = covariance, r its rank: eigenvalues that may be nothing but rounding are left out."""
        values, vectors = torch.linalg.eigh(on(self.device, self.covariance))
        own = values > values[-1] * len(values) * torch.finfo(torch.float64).eps
        return values[own].sqrt()[:, None] * vectors[:, own].T


def on(device: str, x: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(device, torch.float64)


def statistics(batches: Iterable[np.ndarray], device: str = "cpu") -> Statistics:
    """Of features (n, d) that come batch by batch: sums of x and x x^T about the first batch's mean."""
    n, centre, total, square = 0, torch.zeros(0), torch.zeros(0), torch.zeros(0)
    for batch in filter(len, batches):
        x = on(device, batch)
        if not n:
            centre, total, square = x.mean(dim=0), x.new_zeros(x.shape[1]), x.new_zeros(x.shape[1], x.shape[1])
        x = x - centre
        n += len(x)
        total += x.sum(dim=0)
        square += x.T @ x
    if n < 2:
        raise InputError(f"{n} samples, but a covariance needs at least 2")
    mean = total / n
    covariance = (square - n * torch.outer(mean, mean)) / (n - 1)
    return Statistics((centre + mean).cpu().numpy(), covariance.cpu().numpy(), n, device)


def blocks(x: np.ndarray, size: int = 4096) -> Iterator[np.ndarray]:
    return (x[i : i + size] for i in range(0, len(x), size))


@torch.no_grad()
def sampled(model: AnyModel, n: int, seed: int, size: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """n new images, uint8, and their classes: a class by its weight, then a sample of it."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.multinomial(model.class_weights.detach().cpu(), n, replacement=True, generator=generator)
    if isinstance(model, Model):  # all codes at once, so that they do not depend on `size`
        return decoded(model, model.draw(y, generator), size), y.numpy()
    generator = torch.Generator(model.device).manual_seed(seed)  # a rival draws where it computes
    parts = (model.generate(part.to(model.device), generator) for part in y.split(size))
    return np.concatenate([to_uint8(model.restore(part).cpu().numpy()) for part in parts]), y.numpy()


def reconstructed(model: AnyModel, x: np.ndarray, size: int = 1000) -> np.ndarray:
    """Images encoded and decoded, uint8."""
    return decoded(model, encode_rows(model, x, size), size)


def interpolated(model: AnyModel, x: np.ndarray, n: int, seed: int, size: int = 1000) -> np.ndarray:
    """n times: two random images, one uniform point on the segment between their codes, decoded (paper, Table 3)."""
    generator = torch.Generator().manual_seed(seed)
    a, b = pairs(encode_rows(model, x, size), n, generator)
    t = torch.rand(n, 1, generator=generator).to(a)
    return decoded(model, torch.lerp(a, b, t), size)


def interpolated_at(model: AnyModel, x: np.ndarray, t: float, n: int, seed: int, size: int = 1000) -> np.ndarray:
    """The same pairs as `interpolated`, all at t: 0 and 1 are reconstructions."""
    a, b = pairs(encode_rows(model, x, size), n, torch.Generator().manual_seed(seed))
    return decoded(model, torch.lerp(a, b, t), size)


def pairs(z: Tensor, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """n times two different codes, any two equally likely; an image may be in several pairs."""
    if len(z) < 2:
        raise InputError(f"{len(z)} images, but a pair needs two")
    first = torch.randint(len(z), (n,), generator=generator)
    step = torch.randint(1, len(z), (n,), generator=generator)
    return z[first], z[(first + step) % len(z)]


def decoded(model: AnyModel, z: Tensor, size: int) -> np.ndarray:
    """Codes as uint8 images, batch by batch."""
    return np.concatenate([to_uint8(decode_rows(model, part)) for part in z.detach().split(size)])


def cached(folder: Path, key: dict, make: Callable[[], Arrays]) -> Arrays:
    """The arrays that `make` gave for this key, from a file named by it; a damaged file is made anew."""
    text = json.dumps(key, sort_keys=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"
    found = _read(path, text)
    if found is None:
        found, file = make(), io.BytesIO()
        kept = found | {"key": np.array(text), "seal": np.array(_seal(found, text))}
        np.savez(file, **kept)  # ty: ignore[invalid-argument-type]
        try:
            files.write(path, file.getvalue())
        except (RunFailed, OSError) as problem:
            warnings.warn(f"the reference features are not kept for the next time: {problem}", stacklevel=2)
    return found


def _read(path: Path, text: str) -> Arrays | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        del found["key"]  # for people who wonder what the file is; the seal knows it too
        seal = str(found.pop("seal"))
    except Exception:  # numpy, zipfile and zlib each have their own for a file that is missing or damaged
        return None
    return found if seal == _seal(found, text) else None


def _seal(arrays: Arrays, text: str) -> str:
    """A digest of all the arrays with their names and shapes, and of the key."""
    whole = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        whole.update(f"\0{name} {arrays[name].dtype.str} {arrays[name].shape}\0".encode())
        whole.update(arrays[name].tobytes())
    return whole.hexdigest()
