"""segma reproduce: cells are made once, failures are reported, the paper's numbers are the paper's."""

import dataclasses
import json
import re
import signal
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from segma import draw, launch, progress, reproduce, runs, stack
from segma.errors import InputError
from segma.reproduce import cells, page, tables
from segma.reproduce.paper import ROWS, TABLES, rows
from test_rivals import call, npz, segma  # noqa: F401

PAPER = Path(__file__).parents[2] / "shared" / "paper" / "segma.tex"


@pytest.fixture
def work(npz, tmp_path, monkeypatch):  # noqa: F811
    """A reproduction of a few steps on tiny pictures, without the FID network."""
    monkeypatch.setenv("SEGMA_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr(cells, "QUICK_STEPS", 6)
    monkeypatch.setattr(reproduce.figures, "GRID", {"alpha": ("1", "5"), "beta": ("1", "10")})
    monkeypatch.setattr(reproduce.figures, "DIMENSIONS", ("2", "3"))
    monkeypatch.setattr(reproduce.figures, "LABELS", ("6", "12"))
    lines: list[str] = []
    whole = launch.read_data(str(npz), {}, None, None)
    return cells.Work(
        str(npz), whole, 2, "quick", tmp_path / "out", None, "cpu", lambda steps, epochs: list(steps), lines.append
    )


def test_every_item_is_made_and_on_the_page(work):
    sections = reproduce.reproduce(list(reproduce.ITEMS), work)
    assert work.failed == {}
    assert len(sections) == len(reproduce.ITEMS)
    text, web = (work.out / "index.md").read_text(), (work.out / "index.html").read_text()
    for section in sections:
        assert section.title in text
        for caption, picture in section.pictures:
            assert caption in text
            assert (work.out / picture).read_bytes().startswith(b"\x89PNG")
            assert picture in text
            assert picture in web
    errors = next(section for section in sections if section.title.startswith("Table 2"))
    assert [line[0] for line in errors.table[1:]] == [ROWS[name].title for name in rows(TABLES["table2"].numbers, "x")]
    assert all(re.fullmatch(r"[\d.]+% ± [\d.]+%", line[2]) for line in errors.table[1:])
    assert any("not there" in note for note in sections[0].notes)  # no FID without its network


def test_figures_that_a_table_cannot_have_are_refused_before_anything_trains(work, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.where(np.arange(40) < 5, [0, 1] * 20, -1)
    np.savez(tmp_path / "t.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    whole = launch.read_data(str(tmp_path / "t.npz"), {}, None, None)
    work = dataclasses.replace(work, data=str(tmp_path / "t.npz"), whole=whole)
    wanted = ["figure-samples", "figure-interpolation", "figure-transfer", "figure-intensity", "figure-labels"]
    assert reproduce.reproduce(wanted, work) == []
    few = "t has 5 labels, this figure takes 6 or more"
    assert work.failed == dict.fromkeys(wanted[:4], "t is a table, and this is a figure of images") | {wanted[4]: few}
    assert not (work.out / "runs").exists()


def test_what_could_not_be_measured_is_refused_before_anything_trains(work):
    blind = dataclasses.replace(work, whole=dataclasses.replace(work.whole, x_test=work.whole.x_test[:0]))
    with pytest.raises(InputError, match="has no test split"):
        reproduce.reproduce(["table2"], blind)
    for items in (["table1"], ["table1", "table3"]):
        with pytest.raises(InputError, match=f"{', '.join(items)}: the FID network's weights are not there"):
            reproduce.reproduce(items, work)
    assert not work.out.exists()


def test_what_is_there_of_another_budget_is_refused_and_stays(work):
    few = dataclasses.replace(work, budget="8", seeds=1, only=("segma",))
    (before,) = reproduce.reproduce(["table2"], few)
    page = (work.out / "index.md").read_text()
    with pytest.raises(InputError, match="was made with other settings: another --out for another budget"):
        reproduce.reproduce(["table2"], dataclasses.replace(few, budget="12"))
    assert (work.out / "index.md").read_text() == page
    assert any("segma" in line[-1] and "%" in line[2] for line in before.table[1:])


def sizes(work, section: tables.Section) -> np.ndarray:
    """(pictures, 2): widths and heights, by PNG's header."""
    files = [work.out / file for _, file in section.pictures]
    return np.array([struct.unpack(">II", file.read_bytes()[16:24]) for file in files])


def test_test_images_stay_out_of_the_pictures_where_they_may_not_be_shown(work):
    full = sizes(work, reproduce.figures.interpolations(work))
    made = sizes(work, reproduce.figures.interpolations(dataclasses.replace(work, given=False)))
    assert (made[:, 0] < 0.9 * full[:, 0]).all()


def with_test_images(work, n: int) -> cells.Work:
    whole = dataclasses.replace(work.whole, x_test=work.whole.x_test[:n], y_test=work.whole.y_test[:n])
    return dataclasses.replace(work, whole=whole)


@pytest.mark.parametrize(("n", "pairs", "single"), [(30, 6, 6), (11, 5, 6), (5, 2, 5), (2, 1, 2)])
def test_strips_have_as_many_rows_as_there_are_test_images(work, n, pairs, single):
    work = with_test_images(work, n)
    for figure, shown in ((reproduce.figures.interpolations, pairs), (reproduce.figures.transfer, single)):
        height = draw.HEAD + draw.GAP + shown * (6 * 8 + draw.GAP)  # 8 pixels, six times as large
        assert sizes(work, figure(work))[:, 1].tolist() == [height] * 3


def test_too_few_test_images_for_a_strip_are_told_before_anything_trains(work):
    work = with_test_images(work, 1)
    assert reproduce.reproduce(["figure-interpolation"], work) == []
    few = "bars has too few test images (1), this figure takes 2 or more"
    assert work.failed == {"figure-interpolation": few}
    assert not (work.out / "runs").exists()


def test_what_is_finished_is_not_run_again(work, monkeypatch):
    first = cells.results("segma", work, 1, fid=False)
    monkeypatch.setattr(launch, "train", lambda *_: pytest.fail("trained again"))
    assert cells.results("segma", work, 1, fid=False) == first
    assert cells.told(work.out / "runs" / cells.name("segma", work, 0))["seconds"] > 0


def test_seeds_are_trained_at_once_as_if_alone(work, tmp_path):
    together = cells.results("segma", work, 3, fid=False)
    paths = cells.finished("segma", work)
    assert [cells.told(path)["together"] for path in paths] == [3, 3, 3]
    alone = dataclasses.replace(work, out=tmp_path / "alone")
    first = cells.results("segma", alone, 1, fid=False)[0]
    assert together[0]["reconstruction_error"] == pytest.approx(first["reconstruction_error"], rel=1e-4)
    assert together[0]["reconstruction_error"] != together[1]["reconstruction_error"]


def test_only_some_rows_are_trained_and_the_finished_others_are_shown(work):
    cells.results("adgm", work, 2, fid=False)
    section = tables.table("table2", dataclasses.replace(work, seeds=1, only=("segma",)))
    assert {line[0]: line[3] for line in section.table[1:]} == {"ADGM": "2", "SeGMA": "1"}
    assert not list((work.out / "runs").glob("*-m1m2-*"))
    assert all("--model adgm" in line[-1] for line in section.table[1:] if line[0] == "ADGM")


def poison(monkeypatch, *models: int) -> None:
    """From now on no step of these models of a stack is finite."""
    adam = stack.adam

    def poisoned(vectors, *rest):
        names = adam(vectors, *rest)
        names[list(models)] = torch.nan
        return names

    monkeypatch.setattr(stack, "adam", poisoned)


def test_one_of_a_stack_that_fails_is_left_out(work, monkeypatch):
    poison(monkeypatch, 1)
    assert len(cells.results("segma", work, 3, fid=False)) == 2
    assert work.failed == {cells.name("segma", work, 1): "a step was not finite"}


def test_a_model_that_has_not_trained_to_its_end_is_no_result_of_a_figure(work, monkeypatch):
    work, halts = dataclasses.replace(work, seeds=1), iter([False])
    reproduce.figures.labels(dataclasses.replace(work, stop=lambda: next(halts, True)))
    assert runs.steps_done(runs.read(work.out / "labels" / "labels=6")) == 2
    poison(monkeypatch, 0)
    _, failed, good = reproduce.figures.labels(work).table
    assert failed == ["6", "-", "-"]
    assert re.fullmatch(r"[\d.]+%", good[1])
    assert work.failed == {"labels=6": "a step was not finite"}


def test_a_figure_whose_models_all_fail_says_so(work, monkeypatch):
    poison(monkeypatch, 0, 1, 2, 3)
    assert reproduce.reproduce(["figure-labels"], work) == []
    assert work.failed["figure-labels"] == "none of its 4 models got to its end"


def test_shortened_trainings_say_of_how_many_steps(work):
    line = tables.table("table2", dataclasses.replace(work, seeds=1, only=("adgm",))).table[1]
    steps, of = (int(part.replace(",", "")) for part in line[4].split(" of "))
    assert steps <= 6 < of


def test_a_curve_that_ends_level_is_flat():
    log = [{"step": step, "loss": 5.0 / min(step, 50)} for step in range(1, 101)]
    assert reproduce.figures._late(log, "loss") == pytest.approx((0.1, 0.1))
    falling = [{"step": step, "loss": 100.0 - step} for step in range(1, 101)]
    assert reproduce.figures._late(falling, "loss") == pytest.approx((29.5, 9.5))
    once = [*falling[:-1], {"step": 100, "loss": 0.0, "error": 0.25}]  # looked at in the end alone
    assert reproduce.figures._late(once, "error") == pytest.approx((np.nan, 0.25), nan_ok=True)


def test_a_cell_that_was_stopped_goes_on(work):
    job = cells.opened("adgm", work, 0)
    for _ in launch.train(job, lambda: job.state.step >= 2):
        pass
    assert cells.results("adgm", work, 1, fid=False)[0]["protocol"]["steps"] == job.last


def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(work, monkeypatch):
    monkeypatch.setitem(ROWS, "adgm", ROWS["adgm"]._replace(settings={"model": "adgm", "hidden": ""}))  # no layers
    section = tables.table("table2", work)
    lines = {line[0]: line[2] for line in section.table[1:]}
    assert {name.split("-")[1] for name in work.failed} == {"adgm"}
    assert lines["ADGM"] == "failed"
    assert re.match(r"[\d.]+%", lines["SeGMA"])


def test_a_page_of_one_budget_is_not_overwritten_by_another(work):
    reproduce.reproduce(["figure-intensity"], work)
    page_before = (work.out / "index.md").read_text()
    with pytest.raises(InputError, match="--budget quick: choose another --out"):
        reproduce.reproduce(["table2"], dataclasses.replace(work, budget="3", failed={}))
    assert (work.out / "index.md").read_text() == page_before
    reproduce.reproduce(["figure-transfer"], work)  # of the same one, what was there stays
    text = (work.out / "index.md").read_text()
    assert text.index("## Smooth style transfer") < text.index("## Intensity of the class")
    for item in ("figure-intensity", "figure-transfer"):  # both calls made it, and both are named
        assert re.search(rf"`segma reproduce {item} --data .* --budget quick`: \d+ s on a CPU\.", text)


def test_another_budget_needs_another_folder(work):
    cells.results("segma", work, 1, fid=False)
    other = dataclasses.replace(work, budget="3", failed={})
    assert cells.results("segma", other, 1, fid=False) == []
    assert "other settings" in other.failed[cells.name("segma", work, 0)]


def test_commands_stand_beside_numbers_and_work(work, call, tmp_path):  # noqa: F811
    words = cells.command("m1m2", work, cells.settings_of("m1m2", work, 1)).split()
    assert words[:2] == ["segma", "train"]
    assert call(*words[1:], "--out", tmp_path / "again")[0] == 0
    cells.results("m1m2", work, 2, fid=False)
    mine, theirs = (
        json.loads((path / "config.json").read_text())["settings"]
        for path in (tmp_path / "again", work.out / "runs" / cells.name("m1m2", work, 1))
    )
    assert mine == theirs


CAPTIONS = {
    "fid": "FID scores on various datasets",
    "error": "Test errors on various datasets",
    "interpolation_fid": "FIDs of interpolations",
}
TABLE = r"\\begin\{table\}.*?\\caption\{(.*?) \(lower.*?\\begin\{tabular\}\{\w+\}(.*?)\\end\{tabular\}"


def printed(source: str) -> dict[str, dict[tuple[str, str], float]]:
    """The paper's tables by caption, their numbers by our title of the row and data; in brackets: convolutional."""
    source = re.sub(r"\\newmw\{([^{}]*)\}|\{\\bf ([^{}]*)\}", r"\1\2", source)
    source = source.replace(r"\our{}", "SeGMA").replace("Triple GAN", "Triple-GAN")
    found: dict[str, dict[tuple[str, str], float]] = {}
    for caption, body in re.findall(TABLE, source, re.DOTALL):
        blocks = [
            [[cell.strip() for cell in line.split("&")] for line in block.split(r"\\") if line.strip()]
            for block in body.split(r"\hline")
        ]
        (head,), *groups = filter(None, blocks)
        found[caption] = {}
        for group in groups:
            unsupervised = any("unsupervised" in line for line in group)
            for line in (dict(zip(head, line, strict=True)) for line in group):
                title = line["Model"] + (", unsupervised" if unsupervised and line["Model"] == "SeGMA" else "")
                for data in ("MNIST", "SVHN", "CelebA"):
                    numbers = re.findall(r"([\d.]+)(\\%)?", line[data])
                    for kind, (number, percent) in zip(("", ", convolutional"), numbers, strict=False):
                        found[caption][title + kind, data.lower()] = float(number) / (100 if percent else 1)
    return found


@pytest.mark.skipif(not PAPER.exists(), reason="needs the paper's source")
def test_the_numbers_are_the_papers():
    for table, (caption, numbers) in zip(TABLES.values(), printed(PAPER.read_text()).items(), strict=True):
        assert caption == CAPTIONS[table.score]
        ours = {(ROWS[row].title, data): x for row, line in table.numbers.items() for data, x in line.items()}
        assert ours == pytest.approx(numbers)


def test_a_users_own_data_have_the_rows_that_are_for_all():
    own = ["cwae", "unsupervised", "m1m2", "adgm", "segma", "segma-best"]
    assert rows(TABLES["table1"].numbers, "own.npz") == own
    assert rows(TABLES["table1"].numbers, "svhn") == [*own[:2], "triple-gan", *own[2:5], "segma-conv", "segma-best"]


def test_the_page_says_what_it_is_given():
    section = tables.Section("A <title>", [["a", "b"], ["`x < y`", "2"]], [("what it shows", "p.png")], ["a note"])
    text, web = page.as_markdown("T", ["intro"], [section]), page.as_html("T", ["intro"], [section])
    assert "| `x < y` | 2 |" in text
    assert "<code>x &lt; y</code>" in web
    assert "A &lt;title&gt;" in web
    assert "what it shows\n\n![what it shows](p.png)" in text
    assert 'src="p.png"' in web


def test_wrong_calls_are_one_line(call):  # noqa: F811
    for words, message in (
        (("reproduce", "table9"), "item 'table9': allowed are table1"),
        (("reproduce", "table1", "--only", "agdm"), "did you mean 'adgm'?"),
        (("reproduce", "table1", "--samples", "1"), "--samples 1"),
        (("reproduce", "table1", "--budget", "much"), "much"),
        (("reproduce", "table1", "--seeds", "0"), "--seeds 0"),
        (("reproduce", "table1", "--data", "none"), "none"),
    ):
        status, _, err = call(*words)
        assert status == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1


def test_a_measurement_stops_at_once_and_is_told(call, monkeypatch, tmp_path):  # noqa: F811
    """A training goes on to a checkpoint; what only measures is done again."""
    seen = []

    def reproduced(items, work):
        for item in work.progress(range(100), 100, "features"):
            seen.append(item)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(reproduce, "reproduce", reproduced)
    status, _, err = call("reproduce", "table1", "--out", tmp_path / "r")
    assert status == 1
    assert seen == [0]
    assert f"go on with the same command and --out {tmp_path / 'r'}" in err


def test_without_a_terminal_long_work_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    assert list(progress.bar(range(4), 4, "features")) == [0, 1, 2, 3]
    assert "features: 50%, 0:00:00 left" in capsys.readouterr().err
    assert list(progress.bar(range(3), 0, "waiting")) == [0, 1, 2]  # for so long as it takes
    assert "waiting: 2\n" in capsys.readouterr().err


def test_a_folder_of_something_else_is_left_alone(work):
    (work.out / "cats").mkdir(parents=True)
    with pytest.raises(InputError, match="is not a reproduction, it has cats in it"):
        reproduce.reproduce(["table2"], work)
    assert [path.name for path in work.out.iterdir()] == ["cats"]


def test_a_folder_belongs_to_its_first_call_even_if_that_was_stopped(work):
    stopped = dataclasses.replace(work, stop=lambda: True)
    reproduce.reproduce(["table2"], stopped)
    with pytest.raises(InputError, match="--budget quick: choose another --out"):
        reproduce.reproduce(["table2"], dataclasses.replace(work, budget="3", failed={}))
    reproduce.reproduce(["figure-intensity"], work)
    assert work.failed == {}


@pytest.fixture
def in_front():
    """As in a terminal: a shell has what it starts in the background ignore Ctrl-C, tests included."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_front")
def test_either_signal_stops_gently_and_the_next_of_any_kind_at_once(capsys):
    with progress.interruptible() as interrupted:
        signal.raise_signal(signal.SIGTERM)
        assert interrupted.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().err.count("once more") == 1
