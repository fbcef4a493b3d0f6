"""Hiding labels and holding rows out: by their shares, and at random within a class."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segma.data.labels import hide, hold_out, shares


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.data())
def test_shares_are_largest_remainders_with_one_each(counts, draw):
    n = draw.draw(st.integers(len(counts), sum(counts)))
    take = shares(np.array(counts), n)
    quota = [n * c / sum(counts) for c in counts]
    assert take.sum() == n
    assert (take >= 1).all()
    assert (take <= counts).all()
    if min(quota) >= 1:  # the textbook method: floors, then one more in the order of the remainders
        expected = [n * c // sum(counts) for c in counts]
        remainders = [(-(n * c % sum(counts)), i) for i, c in enumerate(counts)]
        for _, i in sorted(remainders)[: n - sum(expected)]:
            expected[i] += 1
        assert take.tolist() == expected
    else:  # none above its quota but those raised to one
        assert all(t < q + 1 or t == 1 for t, q in zip(take, quota, strict=True))


def test_shares_of_small_classes_come_from_the_large():
    assert shares(np.array([1, 1, 1, 10]), 4).tolist() == [1, 1, 1, 1]
    assert shares(np.array([1, 20, 1, 30]), 8).tolist() == [1, 2, 1, 4]


def test_hide_keeps_a_stratified_subset():
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 0, 1, 2], size=3000, p=[0.2, 0.5, 0.2, 0.1])
    before = y.copy()
    hidden, kept = hide(y, 100, 5, "abc")
    assert (y == before).all()
    assert len(kept) == 100
    assert (np.diff(kept) > 0).all()
    assert (hidden[kept] == y[kept]).all()
    assert (hidden[kept] >= 0).all()
    assert (np.delete(hidden, kept) == -1).all()
    counts = Counter(y[y >= 0].tolist())
    for c in range(3):
        assert abs((y[kept] == c).sum() - 100 * counts[c] / sum(counts.values())) < 1
    assert (hide(y, 100, 5, "abc")[1] == kept).all()
    assert (hide(y, 100, 6, "abc")[1] != kept).any()
    everything, rows = hide(y, None, 0, "abc")
    assert (everything == y).all()
    assert (rows == np.flatnonzero(y >= 0)).all()
    assert (hide(y, len(rows), 0, "abc")[0] == y).all()


def test_hide_is_uniform_within_a_class():
    """Class 0 has 5 rows of which 2 are kept: each of the 10 pairs in a tenth of the draws (chi squared, 9 degrees)."""
    y = np.array([0, 1, 0, 1, -1, 0, 1, 0, 1, 0, 1])
    pairs = Counter(tuple(kept[y[kept] == 0].tolist()) for kept in (hide(y, 4, seed, "ab")[1] for seed in range(3000)))
    assert len(pairs) == 10
    assert sum((count - 300) ** 2 / 300 for count in pairs.values()) < 33.7  # p = 1e-4
    # and the choice in one class says nothing about the choice in another
    both = Counter(
        tuple((kept == row).any() for row in (0, 1)) for kept in (hide(y, 4, s, "ab")[1] for s in range(3000))
    )
    share = sum(v for k, v in both.items() if k[0]) / 3000, sum(v for k, v in both.items() if k[1]) / 3000
    assert abs(both[True, True] / 3000 - share[0] * share[1]) < 4 * 0.25 / 3000**0.5


def test_fewer_labels_are_part_of_more():
    y = np.arange(1000) % 10
    assert set(hide(y, 20, 3, "0123456789")[1]) < set(hide(y, 100, 3, "0123456789")[1])


@given(st.floats(0.01, 0.99), st.integers(0, 9))
def test_hold_out_takes_the_fraction_of_each_class(fraction, seed):
    y = np.repeat([-1, 0, 1, 3], [7, 2, 10, 31])
    mask = hold_out(y, fraction, seed)
    assert mask.dtype == bool
    assert mask.shape == y.shape
    assert not mask[y == -1].any()
    for c, n in ((0, 2), (1, 10), (3, 31)):
        assert 1 <= mask[y == c].sum() < n
        assert mask[y == c].sum() == min(max(int(fraction * n + 0.5), 1), n - 1)
    assert (hold_out(y, fraction, seed) == mask).all()
