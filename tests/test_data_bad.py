"""Bad data: each mistake is an InputError, in one line, that names the value and what is allowed."""

import gzip
import os
import pickle
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from data_files import idx, save_picture, write_celeba, write_mnist, write_svhn
from segma import data
from segma.data import celeba, folder, mnist, sources, svhn
from segma.data.arrays import encode_labels, from_npz, images_or_table
from segma.data.labels import hide, hold_out
from segma.data.pictures import picture
from segma.errors import InputError, RunFailed


@contextmanager
def refused(*pieces: object, error: type[Exception] = InputError) -> Iterator[None]:
    """Expects an InputError of one line that holds every one of these pieces of text."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for piece in pieces:
        assert str(piece) in message


# ---- arrays

IMAGES = np.zeros((6, 4, 4))


@pytest.mark.parametrize(
    ("x", "pieces"),
    [
        (np.zeros((1, 4, 4), np.uint8), ("1 samples", "at least 2")),
        (np.zeros((0, 4)), ("0 samples", "at least 2")),
        (np.zeros(5), ("(5,)", "(n, features)", "(n, h, w)")),
        (np.zeros((2, 3, 4, 3, 1)), ("(2, 3, 4, 3, 1)",)),
        (np.zeros((5, 0)), ("(5, 0)",)),
        (np.array([["a", "b"]] * 2), ("<U1", "numbers")),
        (np.array([[1, None]] * 2), ("object", "numbers")),
        (np.zeros((3, 2), complex), ("complex128",)),
        ([[1, 2], [3]], ("different lengths",)),
        (np.zeros((3, 4, 4, 4), np.uint8), ("4 channels", "RGBA", "1 or 3")),
        (np.zeros((3, 5, 5, 2), np.uint8), ("2 channels", "1 or 3")),
        (np.zeros((5, 3, 8, 8), np.uint8), ("8 channels", "x.transpose(0, 2, 3, 1)")),
        (IMAGES + 256, ("256..256", "0..1")),
        (IMAGES.astype(int) - 1, ("-1..-1", "0..255")),
        (IMAGES.astype(int) + 256, ("256..256", "0..255")),
        (IMAGES + 200.5, ("200.5..200.5", "0..1", "divide by 255")),
        (IMAGES - 0.5, ("-0.5..-0.5", "(x + 1) / 2")),
        (np.array([[0, 1e39], [0, 0]]), ("1 values", "float32", "row 0")),
    ],
)
def test_arrays_of_the_wrong_form(x, pieces):
    with refused("mine", *pieces):
        images_or_table(x, "mine")


def test_rounding_beyond_white_is_white():
    x = IMAGES + 0.5
    x[0, 0, 0], x[1, 0, 0] = 1 + 1e-7, -1e-9
    found = images_or_table(x, "x")[..., 0]
    assert (found.min(), found.max()) == (0, 1)
    assert np.abs(found - x).max() < 1e-6


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(9, 3), (9, 3, 2)])
def test_values_that_are_not_finite(value, shape):
    x = np.zeros(shape, np.float32)
    x[4, 0], x[7, 1] = value, value
    with refused(f"{x[4, 0].size + x[7, 1].size} values", "NaN", "row 4"):
        images_or_table(x, "x")


def test_all_blocks_of_a_memory_map_are_looked_at(tmp_path):
    rows = 3 * (1 << 24) // 4000  # three blocks
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (rows, 1000))
    x[rows - 1, 5] = np.nan
    with refused("1 values", f"row {rows - 1}"):
        images_or_table(x, "x")


@pytest.mark.parametrize(
    ("y", "classes", "pieces"),
    [
        ([0, 1, 5, 7], ("a", "b"), ("outside the classes", "5, 7", "0..1", "-1")),
        ([0, 1, 2], ("a", "b"), ("outside the classes: 2",)),
        ([0, -2, 1], ("a", "b"), ("outside the classes", "-2")),
        (["a", "b", "moth"], ("a", "b"), ("outside the classes", "moth", "a, b")),
        ([0, 0, -1], None, ("1 classes", "at least 2")),
        ([-1, -1], None, ("no sample has a label", "of each class")),
        (["", "x"], None, ("1 classes (x)",)),
        ([0, 0], ("only",), ("1 classes (only)",)),
        ([0, 1], ("a", "a"), ("'a', 'a'", "distinct")),
        (np.array([0, 0.5, 1]), None, ("0.5", "row 1", "integers")),
        (np.array([0, 1e300]), None, ("1e+300",)),
        ([0, object(), 1], None, ("object", "integers", "strings")),
        (["a", 3, "b"], None, ("object",)),
        ([[0], [1]], None, ("(2, 1)", "(n,)")),
        (np.array([1j, 2]), None, ("complex128",)),
    ],
)
def test_labels(y, classes, pieces):
    with refused("mine", *pieces) if "distinct" not in pieces else refused(*pieces):
        encode_labels(y, classes, "mine")


def test_hiding_labels():
    y = np.repeat([0, 1, 2, -1], 5)
    with refused("2 labels", "3 classes"):
        hide(y, 2, 0, ("a", "b", "c"))
    with refused("16 labels", "15 rows"):
        hide(y, 16, 0, ("a", "b", "c"))
    for n in (None, 10):
        with refused("'dog'", "no labelled row"):
            hide(np.where(y == 1, -1, y), n, 0, ("cat", "dog", "eel"))


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_holding_out_all_or_nothing(fraction):
    with refused(fraction, "between 0 and 1"):
        hold_out(np.array([0, 0, 1, 1]), fraction, 0)


def test_holding_out_the_only_row_of_a_class():
    with refused("class number 1", "one labelled row"):
        hold_out(np.array([0, 0, 1, -1]), 0.5, 0)
    with refused("no labelled row"):
        hold_out(np.array([-1, -1]), 0.5, 0)


# ---- .npz

GOOD = {"x_train": np.eye(4), "y_train": [0, 1, 0, 1], "x_test": np.eye(4)[:2], "y_test": [0, 1]}


@pytest.mark.parametrize(
    ("changes", "pieces"),
    [
        ({"x_train": None}, ("no x_train", "it holds y_train, x_test, y_test")),
        ({"y_test": None}, ("both or neither",)),
        ({"x_test": None}, ("both or neither",)),
        ({"x_test": np.array(3.0)}, ("x_test", "shape ()")),
        ({"y_train": [0, 1, 0]}, ("4 rows in x_train but 3 in y_train",)),
        ({"y_test": [0]}, ("2 rows in x_test but 1 in y_test",)),
        ({"x_test": np.eye(2)}, ("x_train and x_test differ", "(4,)", "(2,)")),
        ({"x_test": np.zeros((2, 4, 4))}, ("x_train and x_test differ", "(4, 4, 1)")),
        ({"y_test": [0, 2]}, ("y_test", "outside the classes: 2")),
        ({"y_train": [0, 1, 0, 3], "classes": ["a", "b"]}, ("y_train", "outside the classes: 3")),
        ({"classes": [["a", "b"]]}, ("classes", "(1, 2)")),
        ({"classes": [0.5, 1]}, ("classes", "float64")),
        ({"x_train": np.array([[1, None]] * 4)}, ("pickle", "refused")),
        ({"y_train": np.array(["a", "b", "a", None])}, ("pickle", "refused")),
        ({"x_train": np.eye(4) * np.nan}, ("x_train", "NaN")),
        ({"x_train": np.eye(1, 4), "y_train": [0]}, ("x_train", "1 samples")),
    ],
)
def test_npz(tmp_path, changes, pieces):
    path = tmp_path / "mine.npz"
    np.savez(path, **{k: v for k, v in (GOOD | changes).items() if v is not None})
    with refused(path, *pieces):
        from_npz(path)


def test_npz_that_are_none(tmp_path):
    whole, other = tmp_path / "whole.npz", tmp_path / "other.npz"
    np.savez(whole, **GOOD)
    content = whole.read_bytes()
    with refused(other, "no such file"):
        data.load(other)
    for bad in (b"", b"PK", b"no archive", pickle.dumps(GOOD)):
        other.write_bytes(bad)
        with refused(other, "not an .npz"):
            data.load(other)
    for bad in (content[:300], content[: len(content) // 2], content[:-30]):
        other.write_bytes(bad)
        with refused(other, "not a whole .npz"):
            data.load(other)
    middle = content.index(np.eye(4).tobytes()) + 3
    other.write_bytes(content[:middle] + b"\xff" + content[middle + 1 :])
    with refused(other, "not a whole .npz", "CRC"):
        data.load(other)
    np.save(tmp_path / "lone.npy", np.eye(3))
    (tmp_path / "lone.npy").rename(other)
    with refused(other, "not an .npz"):
        data.load(other)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_is_an_input_error_or_nothing(tmp_path, place, value):
    whole, other = tmp_path / "whole.npz", tmp_path / "changed.npz"
    np.savez(whole, **GOOD)
    content = bytearray(whole.read_bytes())
    content[place % len(content)] = value
    other.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = str(other)
        try:
            from_npz(other)
        except InputError as error:
            message = str(error)
    assert str(other) in message
    assert "\n" not in message


# ---- the named data sets


def test_mnist_files(tmp_path):
    with refused(tmp_path / "mnist" / "train-images-idx3-ubyte", "no such file", "segma data fetch mnist"):
        mnist.load(tmp_path)
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    inside = gzip.decompress(whole)

    def with_content(content: bytes, *pieces: object) -> None:
        path.write_bytes(content)
        with refused(path, *pieces):
            mnist.load(tmp_path)
        path.write_bytes(whole)

    with_content(whole[:1000], "truncated or damaged gzip")
    with_content(whole[:500] + b"\xff\x00\xff" + whole[503:], "truncated or damaged gzip")
    with_content(gzip.compress(inside[:-1]), f"{len(inside) - 1} bytes", "(20, 28, 28)", f"means {len(inside)}")
    with_content(gzip.compress(inside + b"x"), f"{len(inside) + 1} bytes")
    with_content(gzip.compress(inside[:9]), "9 bytes", "truncated")
    with_content(b"", "starts with nothing", "00 00 08 03")
    with_content(gzip.compress(b"\0\0\x0d\3" + inside[4:]), "starts with 00 00 0d 03", "expected 00 00 08 03")
    with_content(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3)), "truncated")

    labels = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.zeros(19))))
    with refused(tmp_path / "mnist", "20 images but 19 labels", "t10k"):
        mnist.load(tmp_path)
    labels.write_bytes(gzip.compress(idx(np.full(20, 11))))
    with refused("label 11", "0..9"):
        mnist.load(tmp_path)
    labels.write_bytes(inside)
    with refused(labels, "expected 00 00 08 01"):
        mnist.load(tmp_path)


def test_svhn_files(tmp_path):
    from scipy.io import savemat

    with refused(tmp_path / "svhn" / "train_32x32.mat", "no such file"):
        svhn.load(tmp_path)
    x, y = write_svhn(tmp_path, "train", 12)
    write_svhn(tmp_path, "test", 12)
    with refused(tmp_path / "svhn" / "extra_32x32.mat", "no such file"):
        svhn.load(tmp_path, extra=True)
    path = tmp_path / "svhn" / "test_32x32.mat"
    whole = path.read_bytes()
    for bad in (b"", b"\0" * 200, b"text " * 100, whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(bad)
        with refused(path):
            svhn.load(tmp_path)
    for changes, pieces in [
        ({"X": x[:28]}, ("uint8 (28, 32, 3, 12)", "expected uint8 (32, 32, 3, n)")),
        ({"X": x.astype(float)}, ("float64",)),
        ({"y": y[:5]}, ("12 images", "5 labels")),
        ({"y": y - 1}, ("0, 1, 2", "1..10")),
        ({"y": y + 0.5}, ("1.5, 2.5", "1..10")),
        ({"y": np.array([f"n{i}" for i in range(12)], dtype=object)}, ("1..10",)),
    ]:
        savemat(path, {"X": x, "y": y} | changes)
        with refused(path, *pieces):
            svhn.load(tmp_path)
    savemat(path, {"Z": x})
    with refused(path, "expected uint8 (32, 32, 3, n)"):
        svhn.load(tmp_path)


def test_celeba_lists(tmp_path):
    with refused(tmp_path / "celeba", "celeba-64.npz", "img_align_celeba", "list_attr_celeba.txt"):
        celeba.load(tmp_path)
    write_celeba(tmp_path)
    attributes, partition = (tmp_path / "celeba" / name for name in celeba.FILES[1:])
    for path, change, pieces in [
        (attributes, lambda text: "\n".join(text.splitlines()[:-2]), ("announces 12", "lists 10")),
        (attributes, lambda text: text.replace("Male", "Mole"), ("Male and Smiling",)),
        (attributes, lambda _: "", ("Male and Smiling",)),
        (attributes, lambda text: text.replace("000007.jpg ", "000007.jpg 1 "), ("000007.jpg",)),
        (partition, lambda text: text.replace("000002.jpg 0", "000002.jpg 3"), ("000002.jpg 3", "0, 1 or 2")),
        (partition, lambda _: "", ("0 train", "0 test")),
    ]:
        whole = path.read_text()
        path.write_text(change(whole))
        with refused(path, *pieces):
            celeba.load(tmp_path)
        path.write_text(whole)
    attributes.write_text(re.sub(r"000001\.jpg", "999999.jpg", attributes.read_text()))
    with refused("000001.jpg", "list_eval_partition.txt"):
        celeba.load(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "pieces"),
    [
        (lambda path: path.unlink(), ("no such file",)),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), ()),
        (lambda path: path.write_bytes(b"no picture"), ("not a picture",)),
        (lambda path: Image.new("RGB", (178, 100)).save(path), ("178 x 100", "140 x 140")),
    ],
)
def test_celeba_pictures(tmp_path, spoil, pieces):
    write_celeba(tmp_path)
    path = tmp_path / "celeba" / "img_align_celeba" / "000010.jpg"  # in the test part: the train part is done by then
    whole = path.read_bytes()
    spoil(path)
    with refused(path, *pieces):
        celeba.load(tmp_path)
    assert list((tmp_path / "celeba" / "celeba-64-cache").iterdir()) == []  # nothing half done is left
    path.write_bytes(whole)
    assert len(celeba.load(tmp_path).x_test) == 3


def test_celeba_cache_that_is_damaged_or_cannot_be_written(tmp_path):
    write_celeba(tmp_path)
    cache = tmp_path / "celeba" / "celeba-64-cache"
    cache.write_text("in the way")
    with refused(cache, "cannot keep the decoded pictures"):
        celeba.load(tmp_path)
    cache.unlink()
    celeba.load(tmp_path)
    (x_test,) = cache.glob("*/x_test.npy")
    os.truncate(x_test, 1000)
    with refused(x_test.parent, "remove it"):
        celeba.load(tmp_path)


def test_celeba_npz(tmp_path):
    path = tmp_path / "celeba" / "celeba-64.npz"
    path.parent.mkdir()
    x, attributes = np.zeros((2, 64, 64, 3), np.uint8), np.zeros((2, 2), np.uint8)
    good = {"x_train": x, "attributes_train": attributes, "x_test": x, "attributes_test": attributes}
    good["attribute_names"] = np.array(["Male", "Smiling"])
    for changes, pieces in [
        ({"attribute_names": np.array(["Male", "Bald"])}, ("Male, Bald",)),
        ({"x_test": x[:, :32]}, ("x_test", "(2, 32, 64, 3)")),
        ({"x_train": x / 255}, ("x_train", "float64")),
        ({"attributes_test": attributes[:1]}, ("attributes_test", "(1, 2)")),
        ({"attributes_train": attributes + 2}, ("attributes_train", "0 and 1")),
    ]:
        np.savez(path, **(good | changes))
        with refused(path, *pieces):
            celeba.load(tmp_path)
    path.write_bytes(path.read_bytes()[:2000])
    with refused(path, "not a whole .npz"):
        celeba.load(tmp_path)


# ---- folders


def two_classes(root: Path) -> Path:
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        save_picture(root / name, 100)
    return root


def test_mixed_sizes_name_two_files(tmp_path):
    other = save_picture(two_classes(tmp_path) / "b" / "2.png", 1, size=(9, 6))
    with refused(tmp_path / "a" / "1.png", "8 x 6", other, "9 x 6", "--set image_size=64"):
        folder.load(tmp_path)
    assert folder.load(tmp_path, image_size=4).x_train.shape == (4, 4, 4, 1)


def test_broken_pictures_are_named_and_skipped_only_when_asked(tmp_path):
    root = two_classes(tmp_path)
    values = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    cut = save_picture(root / "b" / "cut.jpg", values)
    cut.write_bytes(cut.read_bytes()[:2000])
    for i in range(6):
        (root / "a" / f"junk{i}.png").write_bytes(b"junk")
    (root / "a" / "empty.png").write_bytes(b"")
    with refused("8 broken", root / "a" / "empty.png", root / "a" / "junk0.png", "--set skip_broken=true"):
        folder.load(root)
    with pytest.raises(InputError) as caught:
        folder.load(root)
    assert "junk3" in str(caught.value)
    assert "junk4" not in str(caught.value)
    with pytest.warns(UserWarning, match="skipped 8 broken") as seen:
        d = folder.load(root, skip_broken=True)
    assert all(name in str(seen[0].message) for name in ("empty.png", "junk5.png", "cut.jpg"))
    assert len(d.x_train) == 3
    assert d.y_train.tolist() == [0, 0, 1]

    (root / "b" / "1.png").write_bytes(b"junk")
    with pytest.warns(UserWarning, match="skipped 9"), refused("class 'b'"):
        folder.load(root, skip_broken=True)


def test_pictures_too_large_to_decode_count_as_broken(tmp_path, monkeypatch):
    large = save_picture(two_classes(tmp_path) / "b" / "large.png", 1, size=(30, 30))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with refused("1 broken", large, "decompression bomb"):
        folder.load(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own, where it would go on
        with refused("1 broken", large, "30 x 30", "600"):
            folder.load(tmp_path)


def test_pictures_of_more_than_sixteen_bits(tmp_path):
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "float.tif")
    with refused(tmp_path / "float.tif", "float"):
        picture(tmp_path / "float.tif")
    Image.fromarray(np.full((4, 4), 70_000, np.int32)).save(tmp_path / "int.tif")
    with refused(tmp_path / "int.tif", "70000"):
        picture(tmp_path / "int.tif")


def test_folders_of_the_wrong_form(tmp_path):
    with refused(tmp_path / "nowhere", "no such folder"):
        folder.load(tmp_path / "nowhere")
    with refused(tmp_path, "no pictures", ".png"):
        folder.load(tmp_path)
    root = two_classes(tmp_path)
    for size in (0, -1, "64"):
        with refused("image_size", repr(size)):
            folder.load(root, image_size=size)
    (root / "c").mkdir()
    (root / "c" / "notes.txt").write_text("")
    with refused(root / "c", "no pictures in this class folder"):
        folder.load(root)
    save_picture(root / "c" / "1.png", 1)
    (root / "unlabeled").mkdir()
    assert len(folder.load(root).x_train) == 4  # no unlabelled pictures is no mistake
    loose = save_picture(root / "loose.png", 1)
    with refused(loose, "outside the class folders"):
        folder.load(root)
    loose.unlink()
    (root / "c").rename(root / "-1")
    with refused("-1", "unlabeled/"):
        folder.load(root)
    (root / "-1").rename(root / "test")
    with refused("test/ without train/"):
        folder.load(root)


def test_folders_with_too_little(tmp_path):
    save_picture(tmp_path / "one" / "a" / "1.png", 1)
    with refused("pictures of one class (a)", "at least 2"):
        folder.load(tmp_path / "one")
    save_picture(tmp_path / "none" / "unlabeled" / "1.png", 1)
    with refused("pictures of no class"):
        folder.load(tmp_path / "none")
    two_classes(tmp_path / "split" / "train")
    save_picture(tmp_path / "split" / "test" / "moth" / "1.png", 1)
    with refused("split/test: moth: no picture in train/ is of that; its classes: a, b"):
        folder.load(tmp_path / "split")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("file:label\na/1.png:x\n", ("file:label", "allowed: file,label")),
        ("", ("allowed: file,label",)),
        ("file,label\na/1.png\n", ("line 2", "not a file and a label")),
        ("file,label\na/1.png,x\na/9.png,y\n", ("line 3", "no file a/9.png")),
        ("file,label\na/1.png,x\n./a/1.png,y\n", ("line 3", "listed twice")),
        ("file,label\n../secret.png,x\n", ("line 2", "../secret.png", "outside")),
        ("file,label\n/etc/passwd,x\n", ("line 2", "/etc/passwd", "outside")),
        ("file,label\na/1.png,x\n", ("one class (x)",)),
        ("file,label\na/1.png,-1\nb/1.png,x\n", ("one class (x)",)),
        (b"file,label\na/1.png,\xff\n", ("UTF-8",)),
    ],
)
def test_labels_csv(tmp_path, text, pieces):
    two_classes(tmp_path)
    (tmp_path / "labels.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(tmp_path, *pieces):
        folder.load(tmp_path)


def test_links_that_lead_round_are_refused(tmp_path):
    two_classes(tmp_path)
    (tmp_path / "b" / "more").mkdir()
    (tmp_path / "b" / "more" / "loop").symlink_to(tmp_path / "a")
    assert len(folder.load(tmp_path).x_train) == 5  # a link elsewhere is followed
    for to in (tmp_path, tmp_path / "b", tmp_path / "b" / "more"):
        (tmp_path / "b" / "more" / "loop").unlink()
        (tmp_path / "b" / "more" / "loop").symlink_to(to)
        with refused(tmp_path, "loop", "a link to a folder that it lies in"):
            folder.load(tmp_path)


def test_a_folder_called_as_no_label(tmp_path):
    two_classes(tmp_path)
    (tmp_path / "a").rename(tmp_path / "-1")
    with refused(tmp_path, "a class named -1", "unlabeled/"):
        folder.load(tmp_path)


# ---- names and sources


def test_names_of_nothing(tmp_path):
    with refused("'mnits'", "no such file, folder or data set", "did you mean 'mnist'?"):
        data.load("mnits")
    with refused("'zzzzzz'", "digits, mnist, svhn, celeba, an .npz, a .csv, a folder of pictures"):
        data.load("zzzzzz")
    with refused("data ''"):  # not the folder where one is
        data.load("")
    (tmp_path / "table.txt").write_text("1,2")
    with refused(tmp_path / "table.txt", ".npz", ".csv"):
        data.load(tmp_path / "table.txt")
    with refused("image_size=64", "digits", "folders"):
        data.load("digits", image_size=64)
    with refused("skip_broken=True", "digits", "folders"):
        data.load("digits", skip_broken=True)


def test_fetching_what_cannot_be_fetched(tmp_path, monkeypatch):
    with refused("celeba", "img_align_celeba", "list_eval_partition.txt", tmp_path / "celeba"):
        sources.fetch("celeba", tmp_path)
    with refused("'mnits'", "digits, mnist, svhn, celeba"):
        sources.fetch("mnits", tmp_path)
    monkeypatch.setitem(sources.URLS, "svhn", ("http://127.0.0.1:9/", sources.URLS["svhn"][1]))
    pieces = ("cannot download", "train_32x32.mat, test_32x32.mat", "http://127.0.0.1:9/", tmp_path / "svhn")
    with refused(*pieces, error=RunFailed):  # a job that failed, not a wrong call
        sources.fetch("svhn", tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.suffix != ".part"] == []
