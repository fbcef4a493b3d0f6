"""Folders of pictures: every layout, every kind of picture, in an order that can be repeated."""

import threading
import time

import numpy as np
import pytest
from PIL import Image

from data_files import resized, save_picture
from segma import data
from segma.data import folder
from segma.data.pictures import in_order, picture


def test_folder_with_a_sub_folder_per_class(tmp_path):
    for label, name, grey in [("cat", "b.png", 1), ("cat", "a.PNG", 2), ("cat", "sub/c.png", 3), ("ant", "z.png", 4)]:
        save_picture(tmp_path / label / name, grey)
    save_picture(tmp_path / "unlabeled" / "u.png", 5)
    save_picture(tmp_path / "unlabellEd" / "v.png", 6)
    save_picture(tmp_path / ".hidden" / "h.png", 7)
    save_picture(tmp_path / "cat" / ".h.png", 8)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "README.md").write_text("nor this")
    d = data.load(str(tmp_path))
    assert (d.name, d.classes, d.shape, d.x_train.dtype) == (tmp_path.name, ("ant", "cat"), (6, 8, 1), np.uint8)
    assert d.x_train[:, 0, 0, 0].tolist() == [4, 2, 1, 3, 5, 6]
    assert d.y_train.tolist() == [0, 1, 1, 1, -1, -1]
    assert len(d.x_test) == len(d.y_test) == 0


def test_integer_classes_are_in_order_of_value(tmp_path):
    for name in ("10", "9", "100"):
        save_picture(tmp_path / name / "a.png", int(name))
    assert folder.load(tmp_path).classes == ("9", "10", "100")


def test_folder_with_labels_csv(tmp_path):
    for i, name in enumerate(["a.png", "b.png", "deep/c.png", "d.png", "e.png"]):
        save_picture(tmp_path / name, i)
    rows = '\ufefffile,label,note\r\nd.png,dog,x\r\n./b.png, cat,x\r\ndeep/c.png,"dog",x\r\na.png,,x\r\ne.png,-1,x\r\n'
    (tmp_path / "labels.csv").write_bytes(rows.encode())
    d = folder.load(tmp_path)
    assert d.x_train[:, 0, 0, 0].tolist() == [0, 1, 3, 2, 4]  # a, b, d, deep/c, e
    assert [d.classes[c] if c >= 0 else "" for c in d.y_train] == ["", "cat", "dog", "dog", ""]
    (tmp_path / "labels.csv").write_text("file;label\na.png;cat\nb.png;dog\nd.png;NA\n")
    with pytest.warns(UserWarning, match="'NA' counts as a class"):
        assert folder.load(tmp_path).classes == ("NA", "cat", "dog")


def test_folder_with_train_and_test(tmp_path):
    for split, shift in (("train", 0), ("test", 100)):
        for i, label in enumerate(["0", "1"]):
            save_picture(tmp_path / split / label / "a.png", shift + i)
    save_picture(tmp_path / "unlabeled" / "u.png", 9)
    d = folder.load(tmp_path)
    assert d.x_train[:, 0, 0, 0].tolist() == [0, 1, 9]
    assert d.y_train.tolist() == [0, 1, -1]
    assert d.x_test[:, 0, 0, 0].tolist() == [100, 101]
    assert d.y_test.tolist() == [0, 1]

    for name in ("train", "test", "unlabeled"):  # in two steps: some systems' names have no case
        (tmp_path / name).rename(tmp_path / "moving")
        (tmp_path / "moving").rename(tmp_path / name.replace("eled", "elled").capitalize())
    again = folder.load(tmp_path)
    np.testing.assert_array_equal(again.x_train, d.x_train)
    np.testing.assert_array_equal(again.y_train, d.y_train)
    np.testing.assert_array_equal(again.x_test, d.x_test)

    save_picture(tmp_path / "valid" / "0" / "a.png", 3)
    with pytest.warns(UserWarning, match="passed over beside train/ and test/: valid"):
        assert len(folder.load(tmp_path).x_train) == 3


def test_what_a_zip_file_leaves_is_no_class(tmp_path):
    for name in ("a", "b", "__MACOSX"):
        save_picture(tmp_path / name / "1.png", 5)
    assert folder.load(tmp_path).classes == ("a", "b")


def test_train_and_test_with_one_labels_csv_beside_them(tmp_path):
    for i, name in enumerate(["train/a.png", "train/deep/b.png", "Test/c.png", "loose.png", "valid/d.png"]):
        save_picture(tmp_path / name, i)
    listed = "train/deep/b.png,dog\nloose.png,cat\nTest/c.png,cat\nvalid/d.png,cat\n"
    (tmp_path / "labels.csv").write_text(f"file,label\n{listed}")
    with pytest.warns(UserWarning, match=r"passed over beside train/ and test/: valid"):
        d = folder.load(tmp_path)
    assert d.x_train[:, 0, 0, 0].tolist() == [3, 0, 1]  # loose, a, b
    assert [d.classes[c] if c >= 0 else "" for c in d.y_train] == ["cat", "", "dog"]
    assert d.x_test[:, 0, 0, 0].tolist() == [2]
    assert [d.classes[c] for c in d.y_test] == ["cat"]


def test_one_colour_picture_makes_all_rgb(tmp_path):
    save_picture(tmp_path / "a" / "grey.png", 77)
    save_picture(tmp_path / "b" / "colour.png", np.full((6, 8, 3), [1, 2, 3], np.uint8))
    d = folder.load(tmp_path)
    assert d.shape == (6, 8, 3)
    assert d.x_train[:, 0, 0].tolist() == [[77, 77, 77], [1, 2, 3]]


def test_pictures_of_every_mode(tmp_path):
    def read(name: str, image: Image.Image, **options: object) -> np.ndarray:
        image.save(tmp_path / name, **options)
        return picture(tmp_path / name)

    half = np.full((4, 4, 4), [255, 0, 0, 0], np.uint8)
    half[:2, :, 3] = 255
    composed = read("rgba.png", Image.fromarray(half))
    assert composed[0, 0].tolist() == [255, 0, 0]
    assert composed[3, 3].tolist() == [255, 255, 255]
    la = Image.merge("LA", [Image.new("L", (2, 2), 10), Image.new("L", (2, 2), 128)])
    assert np.abs(read("la.png", la).astype(int) - (10 * 128 + 255 * 127) / 255).max() <= 1
    sixteen = np.array([[0, 257, 65535], [128, 129, 32896]], np.uint16)
    assert read("deep.png", Image.fromarray(sixteen)).tolist() == [[0, 1, 255], [0, 1, 128]]
    assert read("bits.png", Image.fromarray(np.array([[True, False]]))).tolist() == [[255, 0]]
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 9, 8, 7])
    assert read("palette.png", palette)[0, 0].tolist() == [9, 8, 7]
    assert read("palette-transparent.png", palette, transparency=1)[0, 0].tolist() == [255, 255, 255]
    assert read("l-transparent.png", Image.new("L", (2, 2), 5), transparency=5).tolist() == [[255, 255], [255, 255]]
    assert read("cmyk.tif", Image.new("CMYK", (2, 2), (0, 255, 255, 0)))[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("name", ["turned.jpg", "turned.png"])
def test_exif_rotation_is_applied(tmp_path, name):
    values = np.zeros((16, 24), np.uint8)
    values[:, :8] = 255  # bright at the left
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by a quarter, clockwise: bright at the top
    Image.fromarray(values).save(tmp_path / name, exif=exif, **({"quality": 100} if name.endswith("jpg") else {}))
    turned = picture(tmp_path / name)
    assert turned.shape == (24, 16)
    assert turned[:7].min() > 250
    assert turned[9:].max() < 5


def test_image_size_resizes_the_shortest_side_and_cuts_the_centre(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    save_picture(tmp_path / "a" / "wide.png", values)
    save_picture(tmp_path / "b" / "tall.png", values.transpose(1, 0, 2).copy())
    save_picture(tmp_path / "b" / "small.png", values[:8, :8].copy())
    d = folder.load(tmp_path, image_size=16)
    wide, small_one, tall = d.x_train
    assert np.abs(wide - resized(values, 16, 24)[:, 4:20]).max() < 1.01
    assert np.abs(tall - resized(values.transpose(1, 0, 2), 24, 16)[4:20]).max() < 1.01
    assert np.abs(small_one - resized(values[:8, :8], 16, 16)).max() < 1.01


def test_threads_keep_the_order():
    def slow(i: int) -> int:
        time.sleep(0.0005 * (i % 3))
        return i

    seen, before = [], threading.active_count()
    with in_order(slow, range(1100), lambda items, total, text: seen.append((total, text)) or items, "x") as results:
        assert list(results) == list(range(1100))
    assert seen == [(1100, "x")]
    with pytest.raises(ZeroDivisionError), in_order(slow, range(1100), None, "") as results:
        assert next(iter(results)) // 0
    assert threading.active_count() == before  # the threads end with the work, also when it fails
