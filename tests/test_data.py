"""Reading data: a user's arrays, the owners' layouts, and the real files where they are."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import resized, write_celeba, write_mnist, write_svhn
from segma import data
from segma.data import celeba, digits, mnist, sources, svhn
from segma.data.arrays import Data, encode_labels, fingerprint, from_npz, images_or_table

# ---- arrays


def test_importing_is_cheap():
    code = "import sys, segma.data; print([m for m in ('torch', 'scipy', 'sklearn', 'PIL') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given", "shape", "dtype"),
    [
        (np.arange(12).reshape(3, 4), (3, 4), np.float32),
        (np.ones((3, 4), bool), (3, 4), np.float32),
        (np.full((2, 5, 6), 255, np.int64), (2, 5, 6, 1), np.uint8),
        (np.full((2, 5, 6, 3), 7, np.uint8), (2, 5, 6, 3), np.uint8),
        (np.full((2, 5, 6, 1), 0.5), (2, 5, 6, 1), np.float32),
        (np.full((2, 5, 6), 1, np.float16), (2, 5, 6, 1), np.float32),
    ],
)
def test_arrays_are_brought_into_form(given, shape, dtype):
    x = images_or_table(given, "x")
    assert x.shape == shape
    assert x.dtype == dtype
    assert (x.reshape(given.shape) == given).all()


def test_a_bool_image_is_black_and_white():
    assert images_or_table(np.array([[[True, False]]] * 2), "x").ravel().tolist() == [255, 0, 255, 0]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_memory_maps_stay_memory_maps(tmp_path, dtype):
    np.save(tmp_path / "x.npy", np.ones((4, 5, 5), dtype))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    x = images_or_table(mapped, "x")
    assert isinstance(x, np.memmap)
    assert np.shares_memory(x, mapped)


labels_and_classes = st.lists(st.sampled_from([-1, 0, 3, 7, 12]), min_size=1, max_size=30)


@given(labels_and_classes.filter(lambda y: len(set(y) - {-1}) >= 2))
def test_encode_labels_agrees_with_a_loop(y):
    names = sorted(set(y) - {-1})
    expected = [names.index(v) if v != -1 else -1 for v in y]
    as_strings = np.array([str(v) if v != -1 else "" for v in y])
    padded = [f"{v:02d}" for v in names]
    for given_y in (y, np.array(y), np.array(y, dtype=float), np.array(y, dtype=object)):
        codes, classes = encode_labels(given_y)
        assert codes.tolist() == expected
        assert codes.dtype == np.int64
        assert classes == tuple(map(str, names))
    codes, classes = encode_labels(as_strings, [str(v) for v in names])
    assert codes.tolist() == expected
    assert classes == tuple(map(str, names))
    codes, classes = encode_labels(["" if v == -1 else f"{v:02d}" for v in y])
    assert codes.tolist() == expected
    assert classes == tuple(padded)
    assert encode_labels(codes, padded)[0].tolist() == expected


def test_minus_one_among_strings_is_unlabelled():
    for y in (["cat", -1, "dog"], np.array(["cat", -1, "dog"], dtype=object)):
        codes, classes = encode_labels(y)
        assert codes.tolist() == [0, -1, 1]
        assert classes == ("cat", "dog")


def test_npz(tmp_path):
    x = 10 * np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=[7, 3, -1, 9], x_test=x[:3], y_test=[9, -1, 3])
    d = data.load(tmp_path / "mine.npz")
    assert (d.name, d.kind, d.shape, d.classes) == ("mine", "image", (3, 2, 1), ("3", "7", "9"))
    assert d.y_train.tolist() == [1, 0, -1, 2]
    assert d.y_test.tolist() == [2, -1, 0]
    assert (d.x_train[..., 0] == x).all()
    assert (d.x_test[..., 0] == x[:3]).all()

    np.savez(tmp_path / "named.npz", x_train=np.eye(3), y_train=[1, -1, 0], classes=["no", "yes", "maybe"])
    d = from_npz(tmp_path / "named.npz")
    assert (d.kind, d.shape, d.classes) == ("table", (3,), ("no", "yes", "maybe"))
    assert d.y_train.tolist() == [1, -1, 0]
    assert d.x_test.shape == (0, 3)
    assert d.y_test.shape == (0,)

    np.savez(tmp_path / "gaps.npz", x_train=np.eye(4), y_train=[1, np.nan, 0, np.nan])
    assert from_npz(tmp_path / "gaps.npz").y_train.tolist() == [1, -1, 0, -1]

    np.savez(tmp_path / "words.npz", x_train=np.eye(3), y_train=["b", "", "a"], x_test=np.eye(3)[:1], y_test=["b"])
    d = from_npz(tmp_path / "words.npz")
    assert d.classes == ("a", "b")
    assert d.y_train.tolist() == [1, -1, 0]
    assert d.y_test.tolist() == [1]


@pytest.mark.parametrize(("high", "told"), [(16, True), (31, True), (32, False), (0, False)])
def test_pictures_of_another_range_than_bytes_are_told(tmp_path, recwarn, high, told):
    x = np.zeros((4, 3, 3), np.uint8)
    x[-1, 0, 0] = high
    np.savez(tmp_path / "dark.npz", x_train=x, y_train=[0, 1, 0, 1])
    data.load(tmp_path / "dark.npz")
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == told
    assert all(f"dark.npz: x_train: whole numbers up to {high} count as 0 to 255" in line for line in said)


def small(n: int = 5, **changes: object) -> Data:
    x = np.arange(n * 4, dtype=np.float32).reshape(n, 4)
    y = np.arange(n) % 2
    values = {"name": "a", "x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2], "classes": ("p", "q")}
    return Data(**(values | changes))


def test_fingerprint_is_of_the_content():
    base = small()
    assert (
        fingerprint(base) == "48d029201543342e9308f2add436532189d604104a2d804f2fec8339b37806b4"
    )  # and so the same in every process
    assert fingerprint(small(name="b")) == fingerprint(base)
    mapped = small(x_train=np.asfortranarray(base.x_train))
    assert fingerprint(mapped) == fingerprint(base)
    x, y = base.x_train.copy(), base.y_train.copy()
    x[-1, -1] += 1
    y[3] = -1
    others = [
        small(x_train=x),
        small(y_train=y),
        small(x_test=x[3:]),
        small(y_test=y[2:4]),
        small(classes=("p", "r")),
        small(x_train=base.x_train.reshape(5, 2, 2, 1), x_test=base.x_test.reshape(2, 2, 2, 1)),
        small(x_train=base.x_train.astype(np.float64)),
    ]
    assert len({fingerprint(d) for d in [base, *others]}) == 8


def test_fingerprint_looks_at_both_ends_of_many_rows():
    x = np.zeros((10_000, 2), np.float32)
    y = np.arange(10_000) % 2
    for row in (0, -1):
        changed = x.copy()
        changed[row] = 1
        assert fingerprint(small(x_train=changed, y_train=y)) != fingerprint(small(x_train=x, y_train=y))


# ---- the named data sets


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    d = digits.load(Path("anywhere"))
    assert (d.x_train.shape, d.x_test.shape, d.x_train.dtype) == ((1297, 8, 8, 1), (500, 8, 8, 1), np.uint8)
    bunch = load_digits()
    known = Counter((image.tobytes(), int(label)) for image, label in zip(bunch.images, bunch.target, strict=True))
    x, y = np.concatenate([d.x_train, d.x_test]), np.concatenate([d.y_train, d.y_test])
    back = np.round(x[..., 0] / 255 * 16)
    assert Counter((image.tobytes(), int(label)) for image, label in zip(back, y, strict=True)) == known
    assert x.max() == 255
    for c, count in Counter(y.tolist()).items():
        assert abs((d.y_test == c).sum() - 500 * count / 1797) < 1
    # the split is part of every number reported on it: it may never change
    assert hashlib.sha256(d.y_test.tobytes() + d.x_test.tobytes()).hexdigest()[:16] == "938c44b77d850025"


@pytest.mark.parametrize(
    "spelling", ["{0}-idx{1}-ubyte.gz", "{0}-idx{1}-ubyte", "{0}.idx{1}-ubyte", "{0}.idx{1}-ubyte.gz"]
)
def test_mnist(tmp_path, spelling):
    arrays = write_mnist(tmp_path, spelling)
    d = mnist.load(tmp_path)
    assert (d.x_train[..., 0] == arrays["train-images"]).all()
    assert (d.y_train == arrays["train-labels"]).all()
    assert (d.x_test[..., 0] == arrays["t10k-images"]).all()
    assert (d.y_test == arrays["t10k-labels"]).all()
    assert d.shape == (28, 28, 1)
    assert d.x_train.dtype == np.uint8
    assert d.y_train.dtype == np.int64
    assert d.x_train.flags.writeable
    assert d.classes == tuple("0123456789")


def test_svhn(tmp_path):
    x, y = write_svhn(tmp_path, "train", 23)
    write_svhn(tmp_path, "test", 11, seed=1)
    d = svhn.load(tmp_path)
    assert d.x_train.shape == (23, 32, 32, 3)
    assert d.x_train.flags.c_contiguous
    assert d.x_test.shape == (11, 32, 32, 3)
    for i in (0, 9, 22):
        assert (d.x_train[i] == x[:, :, :, i]).all()
        assert d.classes[d.y_train[i]] == str(y[i, 0])[-1]  # "10" -> "0"

    more, _ = write_svhn(tmp_path, "extra", 5, seed=2)
    with_extra = svhn.load(tmp_path)
    assert len(with_extra.x_train) == len(with_extra.y_train) == 28
    assert (with_extra.x_train[23] == more[:, :, :, 0]).all()
    assert (with_extra.x_train[:23] == d.x_train).all()
    assert fingerprint(svhn.load(tmp_path, extra=False)) == fingerprint(d)


def test_celeba_in_the_owners_layout(tmp_path):
    pictures, classes, parts = write_celeba(tmp_path)
    d = celeba.load(tmp_path)
    assert isinstance(d.x_train, np.memmap)
    assert d.x_train.shape == (6, 64, 64, 3)
    assert d.x_test.shape == (3, 64, 64, 3)
    for part, x, y in ((0, d.x_train, d.y_train), (2, d.x_test, d.y_test)):
        names = [name for name in pictures if parts[name] == part]
        assert y.tolist() == [classes[name] for name in names]
        for image, name in zip(x, names, strict=True):
            expected = resized(pictures[name][39 : 39 + 140, 19 : 19 + 140], 64, 64)
            assert np.abs(image - expected).max() < 1.01  # Pillow rounds after each axis
    assert d.classes[2] == "male, not smiling"
    assert d.classes[1] == "not male, smiling"


def test_celeba_is_decoded_once(tmp_path):
    write_celeba(tmp_path)
    seen = []
    first = celeba.load(tmp_path, progress=lambda items, total, _: seen.append(total) or items)
    assert seen == [6, 3]
    cache = tmp_path / "celeba" / "celeba-64-cache"
    (only,) = cache.iterdir()  # nothing unfinished beside it
    assert json.loads((only / "made_from.json").read_text())["crop"] == 140
    (tmp_path / "celeba" / "img_align_celeba").rename(tmp_path / "elsewhere")
    assert fingerprint(celeba.load(tmp_path)) == fingerprint(first)

    (tmp_path / "elsewhere").rename(tmp_path / "celeba" / "img_align_celeba")
    partition = tmp_path / "celeba" / "list_eval_partition.txt"
    partition.write_text(partition.read_text().replace("000001.jpg 0", "000001.jpg 2"))
    assert celeba.load(tmp_path).x_train.shape[0] == 5  # another list, decoded anew, beside the first
    assert len(list(cache.iterdir())) == 2


def test_celeba_decoded_by_two_at_once(tmp_path):
    write_celeba(tmp_path)

    def another_is_quicker(items, total, _):
        if total == 3:
            celeba.load(tmp_path)
        return items

    d = celeba.load(tmp_path, progress=another_is_quicker)
    assert len(d.x_train) == 6
    assert len(list((tmp_path / "celeba" / "celeba-64-cache").iterdir())) == 1


def test_celeba_npz(tmp_path):
    (tmp_path / "celeba").mkdir()
    x = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    attributes = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]], np.uint8)
    names = ["Smiling", "Male", "Bald"]
    arrays = {f"{key}_{s}": v for s in ("train", "valid", "test") for key, v in (("x", x), ("attributes", attributes))}
    np.savez(tmp_path / "celeba" / "celeba-64.npz", attribute_names=names, **arrays)
    d = celeba.load(tmp_path)
    assert (d.x_train == x).all()
    assert (d.x_test == x).all()
    assert [d.classes[c] for c in d.y_train] == [
        "not male, not smiling",
        "male, not smiling",
        "not male, smiling",
        "male, smiling",
    ]


# ---- the real files, where they are


def real(name: str) -> Path:
    where = data.directory()
    if {row["name"]: row["status"] for row in sources.listing(where)}[name] != "ready":
        pytest.skip(f"no {name} under {where}; set SEGMA_DATA")
    return where


def test_real_mnist():
    where = real("mnist")
    found = sources.check("mnist", where)
    assert (found["train"]["n"], found["test"]["n"]) == (60_000, 10_000)
    assert all(found["originals"].values())
    assert found["train"]["classes"]["1"] == 6742
    assert found["test"]["classes"]["5"] == 892


def test_real_svhn():
    d = svhn.load(real("svhn"), extra=False)
    assert (d.x_train.shape, d.x_test.shape) == ((73_257, 32, 32, 3), (26_032, 32, 32, 3))
    assert np.bincount(d.y_train)[[0, 1]].tolist() == [4948, 13861]
    assert np.allclose(d.x_train[::10].mean((0, 1, 2)) / 255, [0.4377, 0.4438, 0.4728], atol=0.005)  # as published


def test_real_celeba():
    d = celeba.load(real("celeba"))
    assert d.shape == (64, 64, 3)
    assert set(np.unique(d.y_test)) == {0, 1, 2, 3}
    assert len(d.x_train) == len(d.y_train)


def test_real_celeba_pictures_are_cut_as_the_prepared_ones():
    where = real("celeba")
    sample, npz = where / "celeba-sample", where / "celeba" / "celeba-64.npz"
    if not sample.is_dir() or not npz.is_file():
        pytest.skip(f"no celeba-sample and celeba-64.npz under {where}")
    with np.load(npz) as archive:
        rows = {int(number): i for i, number in enumerate(archive["image_test"])}
        prepared = archive["x_test"]
    both = [p for p in sorted((sample / "img_align_celeba").iterdir()) if int(p.stem) in rows]
    if not both:
        pytest.skip("no picture in both")
    for path in both[:20]:
        cut = celeba.decode(path, celeba._cut).astype(float)
        assert ((cut - prepared[rows[int(path.stem)]]) ** 2).mean() < 255**2 / 10**3.0, path  # 30 dB: it was WebP
