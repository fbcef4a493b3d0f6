"""A user's case: a folder of pictures in five classes, ten labels each, 400 unlabelled; `segma train FOLDER` alone.

    python benchmarks/own_folder.py [mnist] [svhn] [shapes] [--seeds 3]     some minutes per run on two CPU cores

The pictures are files: digits 0 to 4 of MNIST (grey, 28x28) and SVHN (colour, 32x32), of which the data directory must
have the files, and drawn shapes (colour, 64x64). Beside it, scikit-learn's LabelSpreading and logistic regression on
the same pixels and labels, and what share of the variance segma's decoder misses; 100 test pictures per class are in
the folder's test/, and no one trains on them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from segma import data

CLASSES, LABELLED, UNLABELLED, TEST = 5, 10, 400, 100
SHAPES = ("disc", "square", "triangle", "cross", "ring")


def pictures(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training pictures, the labelled first, class by class; and test pictures."""
    rng = np.random.default_rng(seed)
    if name == "shapes":
        y_train = np.concatenate([np.repeat(np.arange(CLASSES), LABELLED), rng.integers(CLASSES, size=UNLABELLED)])
        y_test = np.repeat(np.arange(CLASSES), TEST)
        x_train, x_test = (np.stack([shape(SHAPES[i], rng) for i in y]) for y in (y_train, y_test))
        return x_train, y_train, x_test, y_test
    whole = data.load(name)
    order = rng.permutation(np.flatnonzero(whole.y_train < CLASSES))
    labelled = np.concatenate([order[whole.y_train[order] == i][:LABELLED] for i in range(CLASSES)])
    rows = np.concatenate([labelled, order[~np.isin(order, labelled)][:UNLABELLED]])
    test = np.concatenate([np.flatnonzero(whole.y_test == i)[:TEST] for i in range(CLASSES)])
    return whole.x_train[rows], whole.y_train[rows], whole.x_test[test], whole.y_test[test]


def shape(name: str, rng: np.random.Generator, side: int = 64) -> np.ndarray:
    """One of a random colour, size and place."""
    image = Image.new("RGB", (side, side), tuple(rng.integers(0, 120, 3).tolist()))
    pen, ink = ImageDraw.Draw(image), tuple(rng.integers(140, 256, 3).tolist())
    x, y, s = (int(v) for v in (*rng.integers(18, 46, 2), rng.integers(9, 17)))
    box = [x - s, y - s, x + s, y + s]
    match name:
        case "disc":
            pen.ellipse(box, fill=ink)
        case "square":
            pen.rectangle(box, fill=ink)
        case "triangle":
            pen.polygon([(x, y - s), (x - s, y + s), (x + s, y + s)], fill=ink)
        case "cross":
            pen.line([x - s, y - s, x + s, y + s], fill=ink, width=5)
            pen.line([x - s, y + s, x + s, y - s], fill=ink, width=5)
        case "ring":
            pen.ellipse(box, outline=ink, width=4)
    return np.asarray(image)


def write(folder: Path, x: np.ndarray, y: np.ndarray, labelled: int) -> None:
    """A file for each picture, in its class's folder or, after so many, in unlabeled/."""
    for i, (picture, label) in enumerate(zip(x, y, strict=True)):
        place = folder / (f"class-{label}" if i < labelled else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.squeeze()).save(place / f"{i:04d}.png")


def segma(folder: Path, seed: int, out: Path) -> tuple[float, float, float]:
    """Test error, reconstruction error as a share of the mean picture's, seconds of the command, start-up included."""
    began = time.perf_counter()
    words = ["train", str(folder), "--seed", str(seed), "--out", str(out), "--device", "cpu"]
    subprocess.run([sys.executable, "-m", "segma", *words], check=True, capture_output=True)
    found = json.loads((out / "results.json").read_text())
    return found["test_error"], found["reconstruction_share"], time.perf_counter() - began


def measure(name: str, seed: int, folder: Path) -> list[float]:
    x, y, x_test, y_test = pictures(name, seed)
    known = LABELLED * CLASSES
    write(folder / "pictures" / "train", x, y, known)
    write(folder / "pictures" / "test", x_test, y_test, len(y_test))
    error, share, seconds = segma(folder / "pictures", seed, folder / "run")
    flat, flat_test = (rows.reshape(len(rows), -1) / 255 for rows in (x, x_test))
    hidden = np.where(np.arange(len(y)) < known, y, -1)
    others = [
        LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100).fit(flat, hidden),
        LogisticRegression(max_iter=1000).fit(flat[:known], y[:known]),
    ]
    return [error, *(float(np.mean(other.predict(flat_test) != y_test)) for other in others), share, seconds]


def line(name: str, what: str, values: list[float]) -> str:
    own, spreading, logistic, share, seconds = values
    return f"{name:8} {what:>4} {own:7.1%} {spreading:15.1%} {logistic:20.1%} {share:16.0%} {seconds:9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["mnist", "svhn", "shapes"])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print(f"{'':8} seed   segma  LabelSpreading  logistic regression  not reconstructed  seconds of segma train")
    for name in args.names:
        rows = []
        for seed in range(args.seeds):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(name, seed, Path(folder)))
            print(line(name, str(seed), rows[-1]), flush=True)
        print(line(name, "mean", np.mean(rows, axis=0).tolist()), flush=True)


if __name__ == "__main__":
    main()
