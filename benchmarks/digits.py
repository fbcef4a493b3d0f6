"""Digits from 100 labels, five label seeds: `segma train digits` beside scikit-learn's LabelSpreading, same splits.

python benchmarks/digits.py       prints the table in docs/results.md; about three minutes on two CPU cores
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.semi_supervised import LabelSpreading

from segma import run_data, runs
from segma.data.arrays import Data


def segma(seed: int, out: Path) -> tuple[float, float]:
    """Test error and seconds of the command, start-up included."""
    began = time.perf_counter()
    words = ["train", "digits", "--seed", str(seed), "--out", str(out), "--device", "cpu"]
    subprocess.run([sys.executable, "-m", "segma", *words], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    return json.loads((out / "results.json").read_text())["test_error"], seconds


def spreading(data: Data, **settings) -> float:
    """Test error of LabelSpreading from the same labels; it trains on the training images, and then sees the test's."""
    flat = [x.reshape(len(x), -1) / 255 for x in (data.x_train, data.x_test)]
    model = LabelSpreading(**settings, max_iter=100).fit(flat[0], data.y_train)
    return float(np.mean(model.predict(flat[1]) != data.y_test))


if __name__ == "__main__":
    rows = []
    print("seed   segma   seconds   LabelSpreading: knn 7   rbf 20")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(5):
            run = Path(folder) / str(seed)
            error, seconds = segma(seed, run)
            data = run_data.load(runs.read(run))
            knn, rbf = spreading(data, kernel="knn", n_neighbors=7), spreading(data, kernel="rbf", gamma=20)
            rows.append((error, seconds, knn, rbf))
            print(f"{seed:4d}  {error:6.2%}  {seconds:7.1f}   {knn:19.2%}  {rbf:7.2%}", flush=True)
    for name, row in (("mean", np.mean(rows, axis=0)), ("std", np.std(rows, axis=0, ddof=1))):
        print(f"{name:4}  {row[0]:6.2%}  {row[1]:7.1f}   {row[2]:19.2%}  {row[3]:7.2%}")
