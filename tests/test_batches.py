"""The streams of row numbers: what a pass holds, shares, and entering anywhere."""

from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from segma.data.batches import interleaved, shuffled, stream


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.integers(1, 25), st.integers(0, 40))
def test_every_pass_shows_every_row_once_and_any_step_can_be_entered(n, size, start):
    batches = list(islice(stream(shuffled(n), size, (7, 1)), start + 12))
    assert all(len(batch) == size for batch in batches)
    flat = np.concatenate(batches)
    for i in range(len(flat) // n):
        assert sorted(flat[i * n : (i + 1) * n]) == list(range(n))
    entered = list(islice(stream(shuffled(n), size, (7, 1), start=start * size), 12))
    np.testing.assert_array_equal(entered, batches[start:])


def test_passes_and_seeds_differ():
    a, b = islice(stream(shuffled(50), 50, (0, 1)), 2)
    assert (a != b).any()
    assert (next(stream(shuffled(50), 50, (1, 1))) != a).any()
    assert (next(stream(shuffled(50), 50, (0, 2))) != a).any()


def test_labelled_rows_come_by_class_share_and_each_once_a_pass():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, -1], [60, 30, 10, 200])
    rng.shuffle(y)
    flat = np.concatenate(list(islice(stream(interleaved(y), 20, (3, 2)), 50)))
    assert (y[flat] >= 0).all()
    for i in range(10):
        assert len(set(flat[100 * i : 100 * (i + 1)])) == 100
    for batch in flat.reshape(-1, 20):
        counts = np.bincount(y[batch], minlength=3)
        assert np.abs(counts - [12, 6, 2]).max() <= 2, counts


def test_labels_fewer_than_a_batch_are_repeated():
    y = np.array([-1, 0, -1, 1])
    batch = next(stream(interleaved(y), 10, (0, 2)))
    assert sorted(batch) == [1] * 5 + [3] * 5
