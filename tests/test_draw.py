"""Pictures and plots: their sizes, what stands where, and that the names are there."""

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, squareform

from segma import draw, plots
from segma.data.celeba import CLASSES
from segma.errors import InputError


def tiles(rows: int, columns: int, channels: int = 1, side: int = 8) -> np.ndarray:
    """Images of one value each, a different one in each place, all of them darker than the ink of names."""
    values = np.arange(rows * columns, dtype=np.uint8).reshape(rows, columns) + 1
    return np.broadcast_to(values[:, :, None, None, None], (rows, columns, side, side, channels)).copy()


def where(picture: Image.Image, value: int) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of the pixels of one grey value, which must fill that box."""
    found = (np.asarray(picture) == value).all(axis=2)
    down, across = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    assert found[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
    return across[0], down[0], across[-1] + 1, down[-1] + 1


def is_blank(picture: Image.Image, box: tuple[int, int, int, int]) -> bool:
    return (np.asarray(picture.crop(box)) == 255).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_grid_has_each_image_in_its_place(channels):
    picture = draw.grid(tiles(3, 4, channels))
    assert picture.size == (4 * 50 + 2, 3 * 50 + 2)
    for i in range(3):
        for j in range(4):
            assert where(picture, 4 * i + j + 1) == (2 + 50 * j, 2 + 50 * i, 50 + 50 * j, 50 + 50 * i)


def test_a_grid_keeps_colours_and_large_images():
    image = np.random.default_rng(0).integers(0, 255, (1, 1, 64, 32, 3), dtype=np.uint8)
    picture = draw.grid(image)
    assert picture.size == (36, 68)
    assert np.array_equal(np.asarray(picture)[2:-2, 2:-2], image[0, 0])


def test_rows_are_named_on_the_left():
    plain, named = draw.grid(tiles(2, 3)), draw.grid(tiles(2, 3), ["one", "a longer name"])
    margin = named.width - plain.width
    assert margin > 60
    assert np.array_equal(np.asarray(named)[:, margin:], np.asarray(plain))
    for top in (2, 52):
        assert not is_blank(named, (0, top, margin, top + 48))


@pytest.mark.parametrize("name", ["Ünï", "Łódź", "Ωμέγα", "Жук", "→"])
def test_names_are_written_in_their_own_letters(name):
    """None is the box that stands for a letter the font has not: no letter looks as one that nobody has."""
    images = np.zeros((1, 1, 8, 8, 1), np.uint8)
    boxes = np.asarray(draw.grid(images, ["\uffff" * len(name)]))
    for letter in name:
        one, box = (np.asarray(draw.grid(images, [text])) for text in (letter, "\uffff"))
        assert one.shape != box.shape or (one != box).any(), letter
    assert boxes.shape[1] > 50  # they are drawn, not left out


def test_a_sheet_of_what_was_made_alone_has_its_names_and_heads():
    made, heads = tiles(2, 3), ["t = 0", "0.5", "1"]
    alone, beside = draw.sheet([], made, heads), draw.sheet([tiles(2, 1)[:, 0]], made, ["given", *heads])
    first = beside.width - alone.width
    assert np.array_equal(np.asarray(alone)[draw.HEAD :], np.asarray(beside)[draw.HEAD :, first:])
    assert (np.asarray(alone) != draw.MARK).any(axis=2).all()  # nothing is framed
    named = draw.sheet([], made, heads, ["a name", "b"])
    assert not is_blank(named, (0, draw.HEAD, named.width - alone.width, named.height))


@pytest.mark.parametrize("ends", [1, 2])
def test_a_sheet_frames_what_was_given_and_heads_its_columns(ends):
    made = tiles(3, 5)
    given = [
        np.full((3, 8, 8, 1), 40 + i, np.uint8) + np.arange(0, 30, 10, dtype=np.uint8)[:, None, None, None]
        for i in range(ends)
    ]
    heads = ["given", "t = 0", "0.25", "0.5", "0.75", "1", "given"][: 5 + ends]
    picture = draw.sheet(given, made, heads)
    assert picture.height == draw.HEAD + 3 * 50 + 2
    tops = [draw.HEAD + 2 + 50 * i for i in range(3)]
    for i in range(3):
        boxes = [where(picture, 40 + 10 * i), *(where(picture, 5 * i + j + 1) for j in range(5))]
        boxes += [where(picture, 41 + 10 * i)] if ends == 2 else []
        assert [box[1] for box in boxes] == [tops[i]] * len(boxes)
        assert all(a[2] <= b[0] for a, b in itertools.pairwise(boxes))  # from left to right
        for number, box in enumerate(boxes):
            frame = np.asarray(picture)[box[1] - 1, box[0] : box[2]]
            is_given = number in (0, 6)
            assert (frame == (draw.MARK if is_given else draw.PAPER)).all()
            assert not is_blank(picture, (box[0], 0, box[2], draw.HEAD))  # its head is above it
    assert boxes[-1][2] == picture.width - 2


def test_a_sheet_with_names_is_the_same_behind_a_margin():
    given, made, heads = [tiles(2, 1)[:, 0] + 100], tiles(2, 3), ["given", "t = 0", "0.5", "1"]
    plain, named = draw.sheet(given, made, heads), draw.sheet(given, made, heads, ["a name", "b"])
    margin = named.width - plain.width
    assert margin > 30
    assert np.array_equal(np.asarray(named)[draw.HEAD :, margin:], np.asarray(plain)[draw.HEAD :])
    assert is_blank(named, (0, 0, margin - 10, draw.HEAD))


@pytest.mark.parametrize(("columns", "side"), [(60, 8), (60, 48), (11, 48)])
def test_heads_that_do_not_fit_are_left_out_instead_of_written_over_each_other(monkeypatch, columns, side):
    written, text = [], ImageDraw.ImageDraw.text

    def record(pen, at, words, font, **rest):
        half = font.getlength(words) / 2
        written.append((at[0] - half, at[0] + half, words))
        text(pen, at, words, font=font, **rest)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", record)
    made, heads = tiles(1, columns, side=8), ["given", *(f"{i / columns:.3f}" for i in range(columns))]
    picture = draw.sheet([made[:, 0]], made, heads, side=side)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(written))
    assert written[0][2] == "given"
    assert 0 <= written[0][0] < written[-1][1] <= picture.width
    assert len(written) == 1 + columns if side == 48 else 5 < len(written) < 30


def test_frames_go_there_and_back():
    made, heads = tiles(3, 4), [f"t = {i}" for i in range(4)]
    shown = draw.frames(made, heads)
    assert len(shown) == 6
    assert {frame.size for frame in shown} == {(3 * 130 + 2, 130 + 2 + draw.HEAD)}
    for frame, column in zip(shown, [0, 1, 2, 3, 2, 1], strict=True):
        for i in range(3):
            assert where(frame, 4 * i + column + 1) == (2 + 130 * i, draw.HEAD + 2, 130 + 130 * i, draw.HEAD + 130)
        assert not is_blank(frame, (0, 0, frame.width, draw.HEAD))
    with Image.open(io.BytesIO(draw.gif(shown, 150))) as film:
        assert (film.n_frames, film.info["loop"], film.info["duration"]) == (6, 0, 150)
        film.seek(2)
        assert np.abs(np.asarray(film.convert("RGB")).astype(int) - np.asarray(shown[2])).max() < 40
    assert len(draw.frames(made[:, :2], heads[:2])) == 2


def test_names_of_files(tmp_path):
    draw.check_name(tmp_path / "a.PNG")
    (tmp_path / "b.png").touch()
    for path, words, message in (
        (tmp_path / "a.jpg", {}, "--out .*a.jpg: the name must end in .png or .gif"),
        (tmp_path / "a.gif", {"allowed": (".png",), "option": "--map"}, "--map .*a.gif: the name must end in .png"),
        (tmp_path / "b.png", {}, "--out .*b.png exists; nothing is overwritten"),
    ):
        with pytest.raises(InputError, match=message):
            draw.check_name(path, **words)


# ---- plots, looked at before they become pixels


@pytest.fixture
def figure(monkeypatch):
    """Calls a plot and gives its figure."""

    def call(plot, *words) -> Figure:
        with monkeypatch.context() as patch:
            patch.setattr(plots, "_image", lambda figure: figure)
            return plot(*words)

    return call


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_similarity_has_every_distance_under_its_names(figure):
    means = np.random.default_rng(0).normal(size=(6, 4))
    names, distances = list("abcdef"), cdist(means, means)
    tree, cells = figure(plots.similarity, distances, names).axes
    assert labels(cells.xaxis) == labels(cells.yaxis)
    order = [names.index(name) for name in labels(cells.yaxis)]
    assert sorted(order) == list(range(6))
    shown = np.array(texts(cells)).reshape(6, 6)
    for i in range(6):
        for j in range(6):
            assert shown[i, j] == ("" if i == j else f"{distances[order[i], order[j]]:.1f}")
    # The tree: two classes that join first are neighbours, and it branches where average linkage says.
    joined = linkage(squareform(distances), "average")
    pair = {int(i) for i in joined[0, :2]}
    assert abs(order.index(min(pair)) - order.index(max(pair))) == 1
    heights = sorted(line.get_xdata().max() for line in tree.lines)
    np.testing.assert_allclose(heights, joined[:, 2])
    groups = fcluster(joined, 3, "maxclust")[order]
    assert (np.diff(groups) != 0).sum() == 2  # each group in one piece
    low, high = sorted(tree.get_xlim())
    assert low < joined[0, 2] < joined[-1, 2] < high
    assert tree.get_ylim() == (60, 0)  # the leaves at 5, 15, ... stand beside the rows 0, 1, ...


def test_classes_that_lie_all_alike_look_it(figure):
    """8.0 is not bright beside another 8.0 that is dark, nor does the tree's axis make mountains of them."""
    near, far = 7.9 + 0.1 * np.eye(4)[[1, 0, 3, 2]], np.array([8.0, 4.0])[np.eye(4, dtype=int)[[1, 0, 3, 2]]]
    spans, reaches = [], []
    for distances in (near, far):
        tree, cells = figure(plots.similarity, distances * (1 - np.eye(4)), list("abcd")).axes
        shades = cells.images[0].norm(distances[~np.eye(4, dtype=bool)])
        spans.append(float(shades.max() - shades.min()))
        heights = [line.get_xdata().max() for line in tree.lines]
        reaches.append((max(heights) - min(heights)) / abs(np.subtract(*tree.get_xlim())))
    assert spans[0] < 0.1 < 0.99 < spans[1]
    assert reaches[0] < 0.1 < 0.7 < reaches[1]


@pytest.mark.parametrize("k", [2, 4, 40])
def test_similarity_of_few_and_many(k):
    means = np.random.default_rng(0).normal(size=(k, 3))
    picture = plots.similarity(cdist(means, means), CLASSES[:k] if k < 5 else [f"class {i}" for i in range(k)])
    assert 300 < picture.width < 4000
    assert plots.similarity(np.zeros((k, k)), list(map(str, range(k)))).width > 200


def test_long_names_are_cut_and_many_stand_upright(figure):
    long, many = ["a" * 200, "b\nc", "d"], [f"k{i}" for i in range(60)]
    _, cells = figure(plots.similarity, 1 - np.eye(3), long).axes
    assert sorted(labels(cells.yaxis)) == ["a" * 27 + "…", "b c", "d"]
    assert [label.get_rotation() for label in cells.get_xticklabels()] == [90] * 3
    _, cells, _ = figure(plots.similarity, 1 - np.eye(60), many).axes  # without numbers the colours are told
    assert {label.get_rotation() for label in cells.get_xticklabels()} == {90}
    _, cells = figure(plots.similarity, 1 - np.eye(10), list("0123456789")).axes
    assert {label.get_rotation() for label in cells.get_xticklabels()} == {0}
    assert draw.grid(np.zeros((1, 1, 8, 8, 1), np.uint8), ["a" * 200]).width < 500
    both = "not male, not smiling → male, smiling"  # a row of a transfer
    assert draw.short(both, 40) == both


def test_the_map_has_codes_components_and_names(figure):
    rng = np.random.default_rng(0)
    centres, sigmas, y = np.array([[0.0, 0], [5, 1], [0, 8]]), np.array([1.0, 2.0, 0.5]), np.arange(30) % 4 - 1
    points = rng.normal(size=(30, 2))
    (plot,) = figure(plots.latent_map, points, y, centres, sigmas, ["ant", "bee", "cat"], [0.7, 0.2]).axes
    assert texts(plot) == ["ant", "bee", "cat"]
    np.testing.assert_allclose([circle.center for circle in plot.patches], centres)
    np.testing.assert_allclose([circle.radius for circle in plot.patches], sigmas)
    (dots,) = plot.collections
    np.testing.assert_allclose(dots.get_offsets(), points)
    shade = dots.get_facecolors()[:, :3]
    for i in range(3):
        np.testing.assert_allclose(shade[y == i], np.tile(plot.patches[i].get_edgecolor()[:3], ((y == i).sum(), 1)))
    assert np.ptp(shade[y == -1]) == 0  # grey
    assert "70%" in plot.get_xlabel()
    assert "20%" in plot.get_ylabel()
    for low, high, axis in ((*plot.get_xlim(), 0), (*plot.get_ylim(), 1)):  # all of it is in view
        assert low <= (centres[:, axis] - sigmas).min() <= (centres[:, axis] + sigmas).max() <= high
    for k in (1, 15, 50):
        some = rng.normal(size=(k, 2))
        assert plots.latent_map(np.empty((0, 2)), np.empty(0, int), some, np.ones(k), list(map(str, range(k))), [1, 0])


def test_names_do_not_cover_each_other():
    centres = np.array([[0.0, 0], [0.1, 0], [0, 0.05], [9, 9], [0, 0]])
    widths = np.array([1.0, 1, 1, 1, 1])
    places = plots.apart(centres, widths, 0.5)
    np.testing.assert_allclose(places[3], [9, 9])
    np.testing.assert_allclose(places[:, 0], centres[:, 0])
    assert np.diff(np.sort(places[[0, 1, 2, 4], 1])).min() > 0.45
    np.testing.assert_allclose(places[[0, 1, 2, 4], 1].mean(), centres[[0, 1, 2, 4], 1].mean())


LOG = [
    {"step": 10 * i, "epoch": i / 2, "reconstruction": 5 / i, "log_distance": -i, "cross_entropy": 0.1 / i}
    | {"consistency": 0.0, "loss": 2.0 - i, "gradient": 1.0, "samples_per_second": 9}
    | ({"error": 0.5 / i} if i % 2 == 0 else {"error": None} if i == 1 else {})
    for i in range(1, 11)
]


def test_training_curves(figure):
    found = figure(plots.training_curves, LOG, "a run")
    assert found._suptitle.get_text() == "a run"
    shown = {plot.get_title(): plot for plot in found.axes if plot.get_visible()}
    assert list(shown) == ["reconstruction error", "log d²", "cross-entropy", "objective", "error, 5.00% at last"]
    x, y = shown["log d²"].lines[0].get_data()
    np.testing.assert_allclose(x, np.arange(1, 11) / 2)
    np.testing.assert_allclose(y, -np.arange(1, 11))
    x, y = shown["error, 5.00% at last"].lines[0].get_data()
    np.testing.assert_allclose(x, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(y, 0.5 / np.arange(2, 11, 2))
    assert plots.training_curves(LOG[:1]).width > 300
    with pytest.raises(InputError, match="the log is empty"):
        plots.training_curves([])


def test_a_heat_map_has_its_numbers(figure):
    values = np.array([[1.0, 2.0], [np.nan, 4.0]])
    (plot,) = figure(plots.heat_map, values, ["a", "b"], ["c", "d"], ("down", "across"), "title", "{:.1f}").axes
    assert texts(plot) == ["1.0", "2.0", "-", "4.0"]
    assert (labels(plot.yaxis), labels(plot.xaxis)) == (["a", "b"], ["c", "d"])
    assert (plot.get_ylabel(), plot.get_xlabel(), plot.get_title()) == ("down", "across", "title")


def test_numbers_of_a_heat_map_have_as_many_decimals(figure):
    words = (["a", "b"], ["c", "d"], ("down", "across"), "title", "{:.3g}")
    (plot,) = figure(plots.heat_map, np.array([[1.234, 10.6], [np.nan, 100.5]]), *words).axes
    assert texts(plot) == ["1.2", "10.6", "-", "100.5"]
    (plot,) = figure(plots.heat_map, np.array([[1234.0, 0], [0, 2345.6]]), *words).axes
    assert texts(plot) == ["1234", "0", "0", "2346"]
    for nothing in (np.nan, 0.0):
        assert len(texts(figure(plots.heat_map, np.full((2, 2), nothing), *words).axes[0])) == 4


@pytest.mark.parametrize("k", [1, 10, 20, 50])
def test_no_class_is_grey_and_none_looks_like_another(k):
    shades = plots.colours(k)[:, :3]
    assert shades.shape == (k, 3)
    assert (shades[np.ptp(shades, axis=1) < 0.1] < 0.2).all()  # black is no grey
    if k <= 20:
        assert (cdist(shades, shades) + np.eye(k)).min() > 0.09


def test_a_picture_alone_is_what_its_name_says():
    picture = plots.similarity(1 - np.eye(3), list("abc"))
    for name in ("a.png", "a.GIF"):
        with Image.open(io.BytesIO(draw.still(picture, Path(name)))) as image:
            assert image.format == name[2:].upper()
