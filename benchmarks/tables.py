"""Tables with few labels: python benchmarks/tables.py [--seeds 20]     some five minutes on a CPU

Three of scikit-learn's own, ten labels a class, the other training rows unlabelled, a quarter of the rows to test on;
`SeGMA().fit` with no setting given. Beside it scikit-learn's logistic regression, which has the labelled rows alone,
and LabelSpreading, on the same rows, standardised. Mean test error over the seeds, which choose rows and labels; and
how far samples are off: the mean of 1,000 samples of a class from that of its rows, in deviations of the column,
averaged over columns and classes.
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from segma import SeGMA

LABELLED = 10  # of each class
DATA = {"wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris}


def scores(x: np.ndarray, truth: np.ndarray, seed: int) -> list[float]:
    order = np.random.default_rng(seed).permutation(len(x))
    test, train = order[: len(x) // 4], order[len(x) // 4 :]
    y = np.full(len(train), -1)
    for label in np.unique(truth):
        rows = np.flatnonzero(truth[train] == label)[:LABELLED]
        y[rows] = label
    known = y >= 0
    fitted = [
        SeGMA(random_state=seed, device="cpu").fit(x[train], y),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[train][known], y[known]),
        make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", n_neighbors=7)).fit(x[train], y),
    ]
    return [float(np.mean(model.predict(x[test]) != truth[test])) for model in fitted] + [off(fitted[0], x, truth)]


def off(model: SeGMA, x: np.ndarray, truth: np.ndarray) -> float:
    made = [model.sample(1000, label=label).mean(axis=0) for label in model.classes_]
    real = [x[truth == label].mean(axis=0) for label in model.classes_]
    return float((np.abs(np.array(made) - real) / x.std(axis=0)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    print(f"{'':16} segma  logistic regression  LabelSpreading  segma's samples off by")
    for name, load in DATA.items():
        own, logistic, spreading, away = np.mean(
            [scores(*load(return_X_y=True), seed) for seed in range(args.seeds)], axis=0
        )
        print(f"{name:16} {own:5.1%} {logistic:20.1%} {spreading:15.1%} {away:23.2f}", flush=True)


if __name__ == "__main__":
    main()
