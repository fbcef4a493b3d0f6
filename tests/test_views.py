"""Random views: what they may change, and what they may not."""

import pytest
import torch

from segma.data.views import NONE, VIEWS, View, change


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("shape", [(6, 1, 8, 8), (6, 3, 12, 9)])
def test_images_stay_images(name, shape):
    for view in VIEWS[name]:
        out = change(torch.rand(shape), view, generator())
        assert out.shape == shape
        assert 0 <= out.min() <= out.max() <= 1


def test_no_view_changes_nothing_and_a_seed_repeats():
    x = torch.rand(5, 3, 8, 8)
    assert torch.equal(change(x, NONE, generator()), x)
    strong = VIEWS["street"].strong
    assert torch.equal(change(x, strong, generator(1)), change(x, strong, generator(1)))
    assert not torch.equal(change(x, strong, generator(1)), change(x, strong, generator(2)))


def test_shift_moves_whole_pixels_where_it_should():
    """A shift of 1/8 either way on 8 pixels moves a dot by at most one pixel and keeps its mass inside."""
    x = torch.zeros(200, 1, 8, 8)
    x[:, :, 4, 4] = 1
    out = change(x, View(shift=1 / 8), generator())
    place = torch.arange(8.0)
    column = (out.sum(dim=(1, 2)) * place).sum(dim=1)
    row = (out.sum(dim=(1, 3)) * place).sum(dim=1)
    torch.testing.assert_close(out.sum(dim=(1, 2, 3)), torch.ones(200))
    for found in (row, column):
        assert 3 - 1e-4 <= found.min() < 3.1
        assert 4.9 < found.max() <= 5 + 1e-4


def test_flip_mirrors_half_of_them():
    x = torch.rand(300, 1, 6, 6)
    out = change(x, View(flip=True), generator())
    mirrored = torch.isclose(out, x.flip(3), atol=1e-5).flatten(1).all(dim=1)
    same = torch.isclose(out, x, atol=1e-5).flatten(1).all(dim=1)
    assert (mirrored ^ same).all()
    assert 100 < mirrored.sum() < 200


def test_invert_happens_as_often_as_it_should():
    x = torch.full((2000, 1, 4, 4), 0.2)
    out = change(x, View(invert=0.25), generator())
    assert (out[:, 0, 0, 0] > 0.5).float().mean().item() == pytest.approx(0.25, abs=0.04)


def test_a_hole_has_its_side():
    x = torch.ones(50, 1, 40, 40)
    grey = change(x, View(hole=0.25), generator()) == 0.5
    inside = grey.flatten(1).sum(dim=1)
    assert inside.max().item() == pytest.approx(100, abs=25)  # 10 x 10, cut off at the border


def test_bending_moves_places_by_no_more_than_it_may():
    """A dot stays within a tenth of the side of where it was; dots far from each other go their own ways."""
    x = torch.zeros(300, 1, 40, 40)
    x[:, :, 8:11, 8:11] = x[:, :, 30:33, 30:33] = 1
    out, place = change(x, View(bend=0.1), generator()), torch.arange(40.0)
    moved = []
    for part, centre in ((out[:, 0, :20, :20], 9.0), (out[:, 0, 20:, 20:], 11.0)):
        for axis in (1, 2):
            along = part.sum(dim=axis)
            moved.append((along * place[:20]).sum(dim=1) / along.sum(dim=1) - centre)
    moved = torch.stack(moved)
    assert moved.abs().max() < 4.5
    assert moved.abs().mean(dim=1).min() > 0.8
    assert moved.corrcoef().triu(1).abs().max() < 0.25


def test_noise_on_tables_has_its_deviation():
    out = change(torch.zeros(4000, 5), VIEWS["noise"].strong, generator())
    assert out.std().item() == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize(("h", "w"), [(33, 65), (65, 33)])
def test_what_is_turned_is_not_stretched_and_a_hole_is_square_where_sides_differ(h, w):
    down, across = torch.arange(h) - (h - 1) / 2, torch.arange(w) - (w - 1) / 2
    disc = ((down[:, None] ** 2 + across**2) < 10**2).float().expand(20, 1, h, w)
    out = change(disc, View(rotate=90), generator())
    assert (out - disc).abs().sum(dim=(1, 2, 3)).max() < 0.1 * disc[0].sum()
    grey = change(torch.ones(50, 1, h, w), View(hole=0.25), generator())[:, 0] == 0.5
    assert grey.any(dim=2).sum(dim=1).max().item() == pytest.approx(0.25 * 33, abs=1)
    assert grey.any(dim=1).sum(dim=1).max().item() == pytest.approx(0.25 * 33, abs=1)


def test_rotation_is_rigid():
    """Turned by at most 20 degrees, a centred disc is still the same disc."""
    axis = torch.linspace(-1, 1, 33)
    disc = ((axis[:, None] ** 2 + axis**2) < 0.4).float().expand(20, 1, 33, 33)
    out = change(disc, View(rotate=20), generator())
    assert (out - disc).abs().mean() < 0.02
    bar = ((axis[:, None].abs() < 0.1) & (axis.abs() < 0.8)).float().expand(20, 1, 33, 33)
    assert (change(bar, View(rotate=20), generator()) - bar).abs().mean() > 0.02


@pytest.mark.parametrize("name", ["affine", "pen", "centred", "street", "noise"])
def test_several_generators_draw_as_each_alone(name):
    x = torch.rand(6, 5) if name == "noise" else torch.rand(6, 3, 8, 8)
    strong = VIEWS[name].strong
    together = change(x, strong, generator(1), generator(2))
    alone = [change(x[:3], strong, generator(1)), change(x[3:], strong, generator(2))]
    torch.testing.assert_close(together, torch.cat(alone))
