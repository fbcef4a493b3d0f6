"""Tiny data sets in their owners' layouts, made on the spot, and what they must read as."""

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image

ATTRIBUTES = ("Bald", "Male", "Pale_Skin", "Smiling", "Young")


def idx(values: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return header + values.astype(np.uint8).tobytes()


def write_mnist(root: Path, spelling: str = "{0}-idx{1}-ubyte.gz", n: int = 30) -> dict[str, np.ndarray]:
    folder, arrays = root / "mnist", {}
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for split, m in (("train", n), ("t10k", 20)):
        arrays[f"{split}-images"] = rng.integers(0, 256, (m, 28, 28))
        arrays[f"{split}-labels"] = np.arange(m) % 10
    for key, values in arrays.items():
        path = folder / spelling.format(key, values.ndim)
        path.write_bytes(gzip.compress(idx(values)) if path.suffix == ".gz" else idx(values))
    return arrays


def write_svhn(root: Path, split: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X as (32, 32, 3, n) and y as (n, 1) in 1..10, as in the file."""
    from scipy.io import savemat

    (root / "svhn").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
    y = (np.arange(n, dtype=np.uint8) % 10 + 1)[:, None]
    savemat(root / "svhn" / f"{split}_32x32.mat", {"X": x, "y": y})
    return x, y


def write_celeba(root: Path, n: int = 12) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, int]]:
    """Pictures, classes and parts by file name. PNG inside, so that the pixels are known exactly."""
    folder = root / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True)
    rng = np.random.default_rng(2)
    pictures, classes, parts, lines = {}, {}, {}, [str(n), " ".join(ATTRIBUTES) + " "]
    for i in range(n):
        name = f"{i + 1:06d}.jpg"
        bits = rng.integers(0, 2, len(ATTRIBUTES))
        bits[1], bits[3] = i % 4 // 2, i % 2
        pictures[name] = rng.integers(0, 256, (218, 178, 3), dtype=np.uint8)
        classes[name], parts[name] = i % 4, (0, 0, 1, 2)[i * 4 // n]
        Image.fromarray(pictures[name]).save(folder / "img_align_celeba" / name, format="PNG")
        lines.append(f"{name} " + " ".join(f"{2 * b - 1:2d}" for b in bits))
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} {part}\n" for name, part in parts.items()))
    return pictures, classes, parts


def save_picture(path: Path, values: np.ndarray | int, size: tuple[int, int] = (8, 6), mode: str | None = None) -> Path:
    """Saves an array, or one colour in (width, height) = size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(values, np.ndarray):
        values = np.full(size[::-1], values, np.uint8)
    image = Image.fromarray(values)
    (image.convert(mode) if mode else image).save(path)
    return path


def write_folder(root: Path, channels: str, size: tuple[int, int] = (8, 6)) -> Path:
    """A picture of random values for each of `channels`, "1" or "3", in the order in which a folder is read: the first
    third of class 0, the next of class 1, and the last is the test split, of class 1."""
    rng = np.random.default_rng(3)
    for i, c in enumerate(channels):
        place = ("train/0", "train/1", "test/1")[3 * i // len(channels)]
        values = rng.integers(0, 256, (*size[::-1], 3)[: 3 if c == "3" else 2], dtype=np.uint8)
        save_picture(root / place / f"{i:04d}.png", values)
    return root


def resized(values: np.ndarray, h: int, w: int) -> np.ndarray:
    """Bilinear with a triangle as wide as the scale, along each axis: the textbook form of what Pillow does."""

    def weights(n: int, side: int) -> np.ndarray:
        centres = (np.arange(side)[:, None] + 0.5) * n / side
        triangles = np.maximum(0, 1 - np.abs(np.arange(n) + 0.5 - centres) / max(n / side, 1))
        return triangles / triangles.sum(1, keepdims=True)

    rows = np.tensordot(weights(values.shape[0], h), values.astype(float), 1)
    return np.tensordot(weights(values.shape[1], w), rows, (1, 1)).swapaxes(0, 1)
