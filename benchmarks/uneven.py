"""Digits whose classes are not equally many, while their labels are: python benchmarks/uneven.py [--seeds 4]

Ten labels of each class. Of three classes there are some 130 images, of the others 25; the seed chooses which. Error on
the images without a label and on the test split, whose classes are even; segma with no setting given, with the labels'
shares held fast, and scikit-learn's LabelSpreading. A minute or two a seed on a CPU.
"""

import argparse

import numpy as np
from sklearn.semi_supervised import LabelSpreading

from segma import SeGMA
from segma.data import digits

LABELLED, MANY, FEW = 10, 3, 25


def uneven(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an uneven choice, and which of them keep their label."""
    rows = [rng.permutation(np.flatnonzero(y == k)) for k in range(10)]
    many = rng.permutation(10)[:MANY]
    rows = [r if k in many else r[:FEW] for k, r in enumerate(rows)]
    return np.concatenate(rows), np.concatenate([np.arange(len(r)) < LABELLED for r in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args()
    data, errors = digits.load(None), []
    flat, flat_test = (x.reshape(len(x), -1) / 255 for x in (data.x_train, data.x_test))
    print("unlabelled / test     segma    shares held fast      LabelSpreading")
    for seed in range(args.seeds):
        rows, known = uneven(data.y_train, np.random.default_rng(seed))
        x, truth = data.x_train[rows], data.y_train[rows]
        y = np.where(known, truth, -1)
        models = [SeGMA(random_state=seed, device="cpu", settings=s).fit(x, y) for s in ({}, {"train_weights": False})]
        other = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100).fit(flat[rows], y)
        said = [(m.predict(x), m.predict(data.x_test)) for m in models]
        said.append((other.transduction_, other.predict(flat_test)))
        errors.append([[np.mean(a[~known] != truth[~known]), np.mean(b != data.y_test)] for a, b in said])
        print(f"seed {seed}", *(f"{a:12.1%} / {b:5.1%}" for a, b in errors[-1]), flush=True)
    print("mean  ", *(f"{a:12.1%} / {b:5.1%}" for a, b in np.mean(errors, axis=0)))


if __name__ == "__main__":
    main()
