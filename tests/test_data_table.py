"""Tables as .csv: what is read, against numpy's own reader, and what is refused."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segma import data
from segma.data import table
from segma.errors import InputError

FLOATS = st.floats(-1e30, 1e30)


@pytest.fixture
def file(tmp_path):
    def write(text: str, encoding: str = "utf-8"):
        (tmp_path / "t.csv").write_bytes(text.encode(encoding))
        return tmp_path / "t.csv"

    return write


@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(FLOATS, min_size=d, max_size=d), min_size=1, max_size=5)))
def test_numbers_are_those_that_numpy_reads(tmp_path_factory, rows):
    text = io.StringIO()
    csv.writer(text).writerows([[f"c{i}" for i in range(len(rows[0]))], *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text.getvalue())
    columns, x, labels = table.read(path)
    assert (columns, labels) == (tuple(f"c{i}" for i in range(len(rows[0]))), None)
    np.testing.assert_array_equal(x, np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2))


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_as_a_spreadsheet_writes_it(file, between):
    """A byte-order mark, quotes, spaces, empty lines, Windows' ends of lines; commas, semicolons or tabs."""
    text = '\ufeffa|label| b\r\n1|"dog, big"|2\r\n\r\n3||4\r\n5| cat |6e0\r\n|||\r\n'
    loaded = data.load(file(text.replace("|||", between * 2).replace("|", between)))
    assert (loaded.name, loaded.columns, loaded.classes) == ("t", ("a", "b"), ("cat", "dog, big"))
    assert loaded.x_train.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert loaded.y_train.tolist() == [1, -1, 0]
    assert len(loaded.x_test) == len(loaded.y_test) == 0


@pytest.mark.parametrize(
    ("labels", "classes", "y"),
    [
        (["10", "9", ""], ("9", "10"), [1, 0, -1]),  # in the order of numbers
        (["10.0", "9.0", ""], ("9", "10"), [1, 0, -1]),  # as pandas writes whole numbers with gaps
        (["10", "9", "-1"], ("9", "10"), [1, 0, -1]),
        (["10", "9b", ""], ("10", "9b"), [0, 1, -1]),
        (["cat", "ant", "-1"], ("ant", "cat"), [1, 0, -1]),
        (["1", "1.0", "-1.0", "ant"], ("1", "ant"), [0, 0, -1, 1]),
        (["1.5", "1.0", "-1", "ant"], ("1", "1.5", "ant"), [1, 0, -1, 2]),
        (["1.5", "0.5", ""], ("0.5", "1.5"), [1, 0, -1]),
    ],
)
def test_labels_are_numbers_if_all_are(file, labels, classes, y):
    loaded = data.load(file("x,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels))))
    assert loaded.classes == classes
    assert loaded.y_train.tolist() == y


def test_codes_with_underscores_or_many_digits_are_names(file):
    """Python reads 1_0 as 10, and a float has no more than 53 bits: neither may merge or rename a class."""
    for codes in (["1_0", "1_1", "10_0"], ["12345678901234567890", "12345678901234567891"], ["9007199254740993", "7"]):
        loaded = data.load(file("x,label\n" + "".join(f"{i},{code}\n" for i, code in enumerate(codes))))
        assert set(loaded.classes) == set(codes)
    assert data.load(file("x,label\n1,0.5\n2,1.5\n3,-1\n")).y_train.tolist() == [0, 1, -1]
    with pytest.raises(InputError, match="line 3, column x: '1_5'"):
        data.load(file("x,label\n1,a\n1_5,b\n"))


def test_a_table_by_any_ending(tmp_path):
    for name, between in (("A.CSV", ","), ("b.tsv", "\t")):
        (tmp_path / name).write_text("x,label\n1,a\n2,b\n".replace(",", between))
        assert data.load(tmp_path / name).classes == ("a", "b")


def test_label_in_capitals_is_the_label_unless_it_is_a_column(file):
    loaded = data.load(file("a,Label\n1,x\n2,\n3,y\n"))
    assert (loaded.columns, loaded.classes, loaded.y_train.tolist()) == (("a",), ("x", "y"), [0, -1, 1])
    assert table.read(file("a,Label\n1,5\n"), ("Label", "a")).x.tolist() == [[5, 1]]


def test_columns_by_name(file):
    """In the order asked for, whatever else there is, also where names are numbers; without names, as they stand."""
    path = file("2,0,who,1\n1,2,ann,3\n")
    assert table.read(path, ("0", "1", "2")).x.tolist() == [[2, 3, 1]]
    assert table.read(file("1,0\n5,6\n"), ("0", "1")).x.tolist() == [[6, 5]]
    assert table.read(file("1,2\n5,6\n"), ("a", "b")).x.tolist() == [[1, 2], [5, 6]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        ("a,label\n", "0 samples, at least 2 needed"),
        ("1,2\n3,4\n", "one must be called label"),
        ("a,b\n1,2\n3,4\n", "the columns a, b; one must be called label"),
        ("a,kind\n1,cat\n3,dog\n", "line 2, column kind: 'cat'; labels are in a column called label"),
        ("a;b;label\n1,5;2;x\n2,5;3;y\n", "line 2, column a: '1,5'; numbers have a decimal point"),
        (",a,label\n0,1,x\n1,2,y\n", "columns '', 'a', 'label', allowed: a name for each"),
        ("a,a,label\n0,1,x\n1,2,y\n", "allowed: a name for each, all different"),
        ("1,,3\n4,5,6\n", "columns '1', '', '3', allowed: a name for each"),  # a row with a gap, not names
        ("1,two,3\n4,5,6\n", "1, two, 3 in its first line, allowed: names of columns, or numbers"),
        ("a,label\n1,x\n2\n", "line 3 has 1 cells, the first one 2"),
        ("a,town,label\n1,2,x\n\n2,Rome,y\n", "line 4, column town: 'Rome'"),
        ("a,b,label\n1,2,x\n2,,y\n", "line 3, column b: ''; fill gaps in"),
        ("a,b,label\n1,2,x\n2,nan,y\n", "line 3, column b: 'nan'; fill gaps in"),
        ("a,kind\n1,\n3,dog\n", "leave their lines out; if it has the labels, call it label"),
        ("a,label\n1,x\ninf,y\n", "line 3, column a: 'inf'; leave the column out"),
        ("a,label\n1,x\n1e200,y\n", "1 values are NaN, infinite or too large for float32, the first in row 1"),
        ("a,Label,LABEL\n1,x,y\n1,y,x\n", "column Label: 'x'; labels are in a column called label"),
        ("a,label\n" + "".join(f"{i},{i / 7}\n" for i in range(20)), "label: numbers to predict, as 0.142857, and not"),
        ("a,label\n1,x\n2,x\n", "1 classes (x), at least 2 needed"),
        ("label\nx\ny\n", "shape (2, 0)"),
    ],
)
def test_what_is_refused(file, text, said):
    with pytest.raises(InputError) as refusal:
        data.load(file(text))
    assert said in str(refusal.value)
    assert "t.csv" in str(refusal.value)


@pytest.mark.parametrize(("word", "noted"), [("NA", True), ("unknown", True), ("nab", False), ("", False)])
def test_what_other_programs_write_where_there_is_no_label_is_a_class_and_said(file, recwarn, word, noted):
    path = file(f"a,label\n1,x\n2,y\n3,{word}\n")
    loaded = data.load(path)
    assert loaded.classes == tuple(sorted({"x", "y", word} - {""}))
    said = [str(warning.message) for warning in recwarn]
    assert said == ([f"{path}: {word!r} counts as a class; where a label is not known, leave it empty"] * noted)


def test_digits_that_are_lost_are_told(file, recwarn):
    """Moments of one minute, in seconds since 1970: float32 has two of these; years and whole days it keeps."""
    rows = "".join(f"{1_700_000_000 + i},{2000 + i},{19_000 + i / 86_400},{'ab'[i % 2]}\n" for i in range(0, 60, 3))
    data.load(path := file("moment,year,day,label\n" + rows))
    said = [str(warning.message) for warning in recwarn]
    assert [text.split(" varies")[0] for text in said] == [
        f"{path}: column moment (1700000000 to 1700000057)",
        f"{path}: column day (19000 to 19000.0006597)",
    ]


def test_bytes_that_are_no_text(file):
    with pytest.raises(InputError, match=r"not a table of numbers as \.csv \(it is no text in UTF-8; "):
        data.load(file("ä,label\n1,x\n", "latin-1"))
    path = file("a,label\n1,x\n")
    path.write_bytes(b"a,label\n" + b"x" * 200_000 + b",y\n")  # longer than csv allows a cell to be
    with pytest.raises(InputError, match="not a table of numbers"):
        data.load(path)
