"""Large data: folders decoded once into a memory map, through kills and in company; .npz mapped where they lie."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from data_files import save_picture, write_folder
from segma import data
from segma.data import arrays, folder, prepared
from segma.data.arrays import Data, fingerprint, from_npz, images_or_table, read_npz
from segma.errors import InputError, RunFailed
from test_data_bad import (  # noqa: F401 - once more, here with arrays that are mapped
    refused,
    test_a_changed_byte_is_an_input_error_or_nothing,
    test_npz,
    test_npz_that_are_none,
)

FOUR = 4 * 8 * 6 * 3  # bytes: a chunk of four of the small RGB pictures, or twelve grey ones


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(arrays, "LARGE", 0)
    monkeypatch.setattr(prepared, "CHUNK", FOUR)


@pytest.fixture
def looked_at(monkeypatch) -> list[str]:
    """The names of the pictures that were decoded."""
    seen, attempt = [], prepared.attempt
    monkeypatch.setattr(prepared, "attempt", lambda name, **options: seen.append(name) or attempt(name, **options))
    return seen


def same(one: Data, two: Data) -> bool:
    for split in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(one, split), getattr(two, split), strict=True)
    return (one.name, one.classes, fingerprint(one)) == (two.name, two.classes, fingerprint(two))


def made(keep: Path) -> list[Path]:
    return sorted((keep / "prepared").glob("*/x.npy"))


def state(root: Path) -> dict[Path, tuple]:
    """Of all that is there: the reading changes the time of the last reading and no more."""
    found = {path: path.stat() for path in root.rglob("*")}
    return {path: (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in found.items()}


# ---- the same as in memory


@pytest.mark.parametrize(
    "channels",
    ["3" * 30, "1" * 30, "1" * 14 + "3" * 16, "1" * 29 + "3", "3" + "1" * 29, "13" * 15, "1" * 12 + "3" * 18],
)
@pytest.mark.parametrize("image_size", [None, 5])
def test_the_same_as_in_memory_and_decoded_once(tmp_path, channels, image_size, looked_at):
    root, keep = write_folder(tmp_path / "mine", channels), tmp_path / "keep"
    before = state(root)
    expected, told = folder.load(root, image_size), []
    first = data.load(root, keep, image_size, progress=lambda items, n, text: told.append((n, text)) or items)
    assert isinstance(first.x_train, np.memmap)
    assert isinstance(first.x_test, np.memmap)
    assert same(first, expected)
    assert told == [(30, "preparing mine")]
    whole = np.load(made(keep)[0], mmap_mode="r")  # of use to others as well
    np.testing.assert_array_equal(whole, np.concatenate([expected.x_train, expected.x_test]), strict=True)
    assert sorted(looked_at) == sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    assert same(data.load(str(root), keep, image_size), expected)
    assert len(looked_at) == 30
    assert {path.name for path in made(keep)[0].parent.iterdir()} == {"x.npy", "log.jsonl", "made_from.json", "lock"}
    assert state(root) == before


def test_a_small_folder_is_read_into_memory(tmp_path, monkeypatch):
    root = write_folder(tmp_path / "mine", "3" * 9)
    monkeypatch.setattr(arrays, "LARGE", 9 * 8 * 6 * 3)
    assert not isinstance(data.load(root, tmp_path / "keep").x_train, np.memmap)
    assert not (tmp_path / "keep").exists()
    monkeypatch.setattr(arrays, "LARGE", 9 * 8 * 6 * 3 - 1)
    assert isinstance(data.load(root, tmp_path / "keep").x_train, np.memmap)


def test_files_are_in_the_order_of_their_paths(tmp_path):
    names = [
        "a.png",
        "a/b.png",
        "a/B.png",
        "a-b/c.png",
        "ab.PNG",
        "a b/c.png",
        "a/b/c.png",
        "Z.png",
        "ü/x.png",
        "a.b.png",
    ]
    for name in names:
        save_picture(tmp_path / name, 1)
    assert folder.pictures_below(tmp_path) == [
        path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path / name for name in names)
    ]
    (tmp_path / "labels.csv").write_text("file,label\nZ.png,x\n./a/b.png,y\n")
    listed = folder._listing(tmp_path)
    assert [name for name, _ in listed] == folder.pictures_below(tmp_path)
    assert [pair for pair in listed if pair[1]] == [("Z.png", "x"), ("a/b.png", "y")]


def test_other_labels_need_no_decoding(tmp_path, looked_at):
    for i in range(6):
        save_picture(tmp_path / "mine" / f"{i}.png", i)
    table = tmp_path / "mine" / "labels.csv"
    table.write_text("file,label\n0.png,a\n1.png,b\n")
    assert data.load(tmp_path / "mine", tmp_path).y_train.tolist() == [0, 1, -1, -1, -1, -1]
    table.write_text("file,label\n0.png,a\n5.png,b\n")
    assert data.load(tmp_path / "mine", tmp_path).y_train.tolist() == [0, -1, -1, -1, -1, 1]
    assert len(looked_at) == 6


def test_a_changed_folder_is_prepared_anew(tmp_path, looked_at, monkeypatch):
    root, keep = write_folder(tmp_path / "mine", "1" * 9), tmp_path / "keep"
    one = root / "train" / "1" / "0004.png"

    def again(**options: object) -> int:
        """How many pictures a further call decodes."""
        looked_at.clear()
        assert same(data.load(root, keep, **options), folder.load(root, **options))
        return len(looked_at)

    def changes() -> object:
        yield
        yield os.utime(one, ns=(1, 1))
        yield save_picture(one, 7)
        yield save_picture(root / "train" / "1" / "new.png", 7)
        yield one.unlink()
        yield (root / "train" / "0" / "0000.png").rename(root / "train" / "1" / "0000.png")
        yield monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 10**6)

    for number, _ in enumerate(changes(), start=1):
        files = len(list(root.rglob("*.png")))
        assert (again(), again()) == (files, 0), number
    assert (again(image_size=4), again(image_size=4), again()) == (files, 0, 0)
    assert len(made(keep)) == number + 1
    assert {json.loads((path.parent / "made_from.json").read_text())["folder"] for path in made(keep)} == {str(root)}


def test_a_new_name_can_mean_a_new_order(tmp_path):
    root = tmp_path / "mine"
    for label, name, grey in (("0", "a", 1), ("0", "b", 2), ("1", "c", 3)):
        os.utime(save_picture(root / label / f"{name}.bmp", grey), ns=(1, 1))  # all of one size, too
    assert data.load(root, tmp_path).x_train[:, 0, 0, 0].tolist() == [1, 2, 3]
    (root / "0" / "a.bmp").rename(root / "0" / "z.bmp")
    assert data.load(root, tmp_path).x_train[:, 0, 0, 0].tolist() == [2, 1, 3]


# ---- killed, and in company

CHILD = """
import json, os, sys, time
from segma import data
from segma.data import arrays, prepared
root, keep, after, number, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
arrays.LARGE, prepared.CHUNK, count, texts = 0, FOUR, [], []
attempt = prepared.attempt
def slow(name, **options):
    count.append(name)
    time.sleep(seconds)
    return attempt(name, **options)
prepared.attempt = slow
def progress(items, n, text):
    texts.append(text)
    print(text, flush=True)
    for i, item in enumerate(items):
        if i == after and n:
            os.kill(os.getpid(), number)
        yield item
found = data.load(root, keep, progress=progress)
assert "torch" not in sys.modules
print(json.dumps([arrays.fingerprint(found), len(count), texts]))
""".replace("FOUR", str(FOUR))


def child(
    root: Path, keep: Path, kill_after: int = -1, number: int = signal.SIGKILL, seconds: float = 0.0
) -> subprocess.Popen:
    """A process that prepares, and gives itself this signal when it has so many pictures."""
    arguments = [sys.executable, "-c", CHILD, str(root), str(keep), str(kill_after), str(int(number)), str(seconds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("channels", "kept"), [("3" * 40, 20), ("1" * 40, 12), ("1" * 17 + "3" * 23, 12)])
def test_after_a_kill_only_what_is_missing_is_decoded(tmp_path, channels, kept, looked_at):
    root, keep = write_folder(tmp_path / "mine", channels), tmp_path / "keep"
    process = child(root, keep, kill_after=23)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert made(keep) == []
    told = []
    found = data.load(root, keep, progress=lambda items, n, text: told.append((n, text)) or items)
    assert told == [(40 - kept, f"preparing mine, {kept} of 40 done before")]
    assert len(looked_at) == 40 - kept
    assert same(found, folder.load(root))


@pytest.mark.parametrize("channels", ["3" * 13, "1" * 13 + "3" * 4, "1" * 20])
def test_stopped_at_any_write(tmp_path, channels, monkeypatch):
    """Stopped in, before and after each write in turn, with what was on its way there or not."""
    root = write_folder(tmp_path / "mine", channels)
    expected, fsync, calls = folder.load(root), os.fsync, []

    def stop_at(number: int, cut: int) -> object:
        def stopping(handle: int) -> None:
            fsync(handle)
            calls.append(handle)
            if len(calls) == number:
                os.ftruncate(handle, max(0, os.fstat(handle).st_size - cut))
                raise KeyboardInterrupt

        return stopping

    number, stops = 1, 0
    while True:
        for cut in (0, 1, 10):
            keep = tmp_path / f"keep-{number}-{cut}"
            calls.clear()
            monkeypatch.setattr(os, "fsync", stop_at(number, cut))
            try:
                data.load(root, keep)
            except KeyboardInterrupt:
                stops += 1
                assert made(keep) == []
            monkeypatch.setattr(os, "fsync", fsync)
            assert same(data.load(root, keep), expected)
        if len(calls) < number:
            break
        number += 1
    assert stops >= 12


def test_a_part_or_a_line_that_is_gone_costs_time_only(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "1" * 17 + "3" * 23), tmp_path / "keep"
    child(root, keep, kill_after=35).communicate()
    (log,) = keep.glob("prepared/*/log.jsonl")
    whole, expected = tmp_path / "whole", folder.load(root)
    shutil.copytree(keep, whole)

    def spoil_and_load(spoil: object) -> None:
        shutil.rmtree(keep)
        shutil.copytree(whole, keep)
        spoil()
        assert same(data.load(root, keep), expected)

    for part in ("x1.part", "x3.part"):
        spoil_and_load(lambda part=part: log.with_name(part).unlink())
        spoil_and_load(lambda part=part: os.truncate(log.with_name(part), 50))
    spoil_and_load(log.unlink)
    spoil_and_load(lambda: log.write_bytes(log.read_bytes().replace(b"{", b"\0", 2)))
    spoil_and_load(lambda: os.truncate(log, log.stat().st_size - 5))


def test_two_at_once_share_the_work(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 40), tmp_path / "keep"
    both = [child(root, keep, seconds=0.02) for _ in range(2)]
    found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert {digest for digest, _, _ in found} == {fingerprint(folder.load(root))}
    assert sum(count for _, count, _ in found) == 40
    assert len(made(keep)) == 1


def test_one_that_waits_takes_over_from_one_that_is_killed(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 40), tmp_path / "keep"
    first = child(root, keep, kill_after=23, number=signal.SIGSTOP)
    os.waitpid(first.pid, os.WUNTRACED)
    second = child(root, keep)
    assert second.stdout.readline() == "waiting for another process that prepares mine\n"
    first.kill()
    first.communicate()
    digest, count, texts = json.loads(second.communicate()[0].splitlines()[-1])
    assert digest == fingerprint(folder.load(root))
    assert count == 20
    assert texts[1:] == ["preparing mine, 20 of 40 done before"]


# ---- broken pictures


def spoiled(root: Path) -> Path:
    """Of 30 grey ones seven broken: one in the first chunk, five in a row, and the first in the test split."""
    write_folder(root, "1" * 30)
    for i, content in enumerate([b"junk", b"", b"\x89PNG\r\n\x1a\n", b"junk", b"GIF89a", b"junk", b"junk"]):
        number = (0, 12, 13, 14, 15, 16, 20)[i]
        (path,) = root.rglob(f"{number:04d}.png")
        path.write_bytes(content)
    return root


def test_broken_pictures_are_named_as_in_memory(tmp_path, looked_at):
    root, keep = spoiled(tmp_path / "mine"), tmp_path / "keep"
    with pytest.raises(InputError, match="7 broken pictures") as expected:
        folder.load(root)
    assert f"pictures: {root}/train/0/0000.png: not a picture; {root}/train/1/0012.png: " in str(expected.value)
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            data.load(root, keep)
        assert str(caught.value) == str(expected.value)
    with pytest.warns(UserWarning, match="skipped 7 broken") as skipped:
        in_memory = folder.load(root, skip_broken=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="skipped 7 broken") as seen:
            assert same(data.load(root, keep, skip_broken=True), in_memory)
        assert str(seen[0].message) == str(skipped[0].message)
    assert len(looked_at) == 30  # in the first of the four calls


def test_broken_pictures_are_remembered_through_a_kill(tmp_path):
    root, keep = spoiled(tmp_path / "mine"), tmp_path / "keep"
    child(root, keep, kill_after=26).communicate()
    with pytest.warns(UserWarning, match="skipped 7 broken"):
        found = data.load(root, keep, skip_broken=True)
    with pytest.warns(UserWarning, match="skipped 7 broken"):
        assert same(found, folder.load(root, skip_broken=True))


def test_nothing_but_broken_pictures(tmp_path):
    root = write_folder(tmp_path / "mine", "1" * 9)
    one = root / "train" / "0" / "0000.png"
    for path in root.rglob("*.png"):
        if path != one:
            path.write_bytes(b"junk")
    with pytest.warns(UserWarning, match="skipped 8"), refused("no picture of class '1'"):
        data.load(root, tmp_path, skip_broken=True)
    whole = one.read_bytes()
    one.write_bytes(whole[:40])  # a header, and no more
    with pytest.warns(UserWarning, match="skipped 9"), refused(root, "none of its 9 pictures"):
        data.load(root, tmp_path, skip_broken=True)


def test_one_that_could_not_be_opened_is_not_left_out_for_ever(tmp_path, monkeypatch, looked_at):
    root, keep = write_folder(tmp_path / "mine", "3" * 9), tmp_path / "keep"
    (root / "train" / "0" / "0001.png").write_bytes(b"junk")
    shut, open_ = root / "train" / "1" / "0004.png", PIL.Image.open

    def refuse(path: Path) -> object:
        if path == shut:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_(path)

    monkeypatch.setattr(PIL.Image, "open", refuse)
    for decoded in (9, 1, 1):  # it alone is tried again
        looked_at.clear()
        with pytest.warns(UserWarning, match=r"skipped 2 .*0001.png: not a picture; .*0004.png: .*Permission denied"):
            assert len(data.load(root, keep, skip_broken=True).x_train) == 4
        assert len(looked_at) == decoded
    monkeypatch.setattr(PIL.Image, "open", open_)

    def stopped(items: object, n: int, text: str) -> object:
        yield from [item for item, _ in zip(items, range(5), strict=False)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # also when it is made anew
        data.load(root, keep, progress=stopped)
    for _ in range(2):
        looked_at.clear()
        with pytest.warns(UserWarning, match="skipped 1 broken"):
            found = data.load(root, keep, skip_broken=True)
    assert looked_at == []
    with pytest.warns(UserWarning, match="skipped 1 broken"):
        assert same(found, folder.load(root, skip_broken=True))


@pytest.mark.parametrize("place", [1, 5, 20, 29])
def test_mixed_sizes_name_two_files(tmp_path, place):
    root, keep = write_folder(tmp_path / "mine", "3" * 30), tmp_path / "keep"
    (odd,) = root.rglob(f"{place:04d}.png")
    save_picture(odd, 1, size=(9, 6))
    (root / "train" / "0" / "0000.png").write_bytes(b"junk")  # not the first to be named
    try:
        folder.load(root)
    except InputError as error:
        expected = str(error)
    child(root, keep, kill_after=place).communicate()  # the first may have been read in an earlier call
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            data.load(root, keep)
        assert str(caught.value) == expected
        assert "9 x 6" in expected
    assert list(keep.glob("prepared/*/*.part")) == []  # what can never be whole does not fill the disk


# ---- where it cannot be kept


def test_a_place_that_cannot_be_written(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 9), tmp_path / "keep"
    for in_the_way in (keep, keep / "prepared"):
        in_the_way.parent.mkdir(exist_ok=True)
        in_the_way.write_text("in the way")
        with pytest.raises(RunFailed, match="cannot keep the decoded pictures in") as caught:
            data.load(root, keep)
        assert str(keep / "prepared") in str(caught.value)
        assert "\n" not in str(caught.value)
        in_the_way.unlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_place(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 9), tmp_path / "keep"
    keep.mkdir()
    keep.chmod(0o500)
    with pytest.raises(RunFailed, match="Permission denied"):
        data.load(root, keep)
    keep.chmod(0o700)
    found = data.load(root, keep)
    for path in [*keep.rglob("*"), keep]:
        path.chmod(0o500)
    assert same(data.load(root, keep), found)  # what is whole needs no writing


def test_a_disk_that_fills_up(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 40), tmp_path / "keep"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
    failing = limit + CHILD.replace("found =", "try: found =").replace(
        "\nassert", "\nexcept Exception as error: print(type(error).__name__, error); sys.exit(1)\nassert"
    )
    run = subprocess.run(
        [sys.executable, "-c", failing, str(root), str(keep), "-1", "9", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stdout.splitlines()[-1]
    assert last.startswith(f"RunFailed cannot keep the decoded pictures in {keep / 'prepared'}"), run.stderr
    assert os.strerror(errno.EFBIG) in last
    told = []
    found = data.load(root, keep, progress=lambda items, n, text: told.append(n) or items)
    assert told == [24]  # 16 of them went into 3000 bytes
    assert same(found, folder.load(root))


def test_a_disk_without_room_for_all(tmp_path, monkeypatch, looked_at):
    root = write_folder(tmp_path / "mine", "3" * 9)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 9 * 8 * 6 * 3 - 1))
    with pytest.raises(RunFailed, match=r"GB needed for the decoded pictures, 0.0 GB free"):
        data.load(root, tmp_path / "keep")
    assert looked_at == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 9 * 8 * 6 * 3))
    assert len(data.load(root, tmp_path / "keep").x_train) == 6


def test_what_was_kept_is_damaged(tmp_path):
    root, keep = write_folder(tmp_path / "mine", "3" * 9), tmp_path / "keep"
    data.load(root, keep)
    (x,) = made(keep)
    for name, size in (("x.npy", 1000), ("x.npy", 60), ("x.npy", 0), ("log.jsonl", 30), ("log.jsonl", 0)):
        shutil.copytree(x.parent, tmp_path / "whole")
        os.truncate(x.with_name(name), size)
        with refused(x.parent, "damaged", "remove it"):
            data.load(root, keep)
        shutil.rmtree(x.parent)
        (tmp_path / "whole").rename(x.parent)
    shutil.rmtree(x.parent)
    assert same(data.load(root, keep), folder.load(root))


# ---- .npz

FORMS = {
    "uint8 images": np.random.default_rng(0).integers(0, 256, (7, 5, 4, 3), dtype=np.uint8),
    "grey images": np.random.default_rng(0).integers(0, 256, (7, 5, 4), dtype=np.uint8),
    "float images": np.random.default_rng(0).random((7, 5, 4, 1), dtype=np.float32),
    "a table": np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32),
}
OTHERS = {
    "big-endian": FORMS["a table"].astype(">f4"),
    "big-endian, columns first": np.asfortranarray(FORMS["a table"].astype(">f8")),
    "doubles": FORMS["a table"].astype(np.float64),
    "bits": FORMS["uint8 images"] > 99,
    "integers": FORMS["uint8 images"].astype(">i4"),
}


def both_ways(path: Path, monkeypatch) -> tuple[Data, Data]:
    mapped = from_npz(path)
    monkeypatch.setattr(arrays, "LARGE", 1 << 40)
    read = from_npz(path)
    monkeypatch.setattr(arrays, "LARGE", 0)
    assert not isinstance(read.x_train, np.memmap)
    return mapped, read


@pytest.mark.parametrize("x", [*FORMS.values(), *map(np.asfortranarray, FORMS.values())])
def test_a_mapped_npz_is_as_one_that_is_read(tmp_path, x, monkeypatch):
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(7) % 2, x_test=x[::2], y_test=np.arange(4) % 2)
    mapped, read = both_ways(tmp_path / "a.npz", monkeypatch)
    assert same(mapped, read)
    assert isinstance(mapped.x_train, np.memmap)
    assert isinstance(mapped.x_test, np.memmap)
    assert mapped.x_train.strides == read.x_train.strides
    assert np.shares_memory(images_or_table(mapped.x_train, "x"), mapped.x_train)
    mapped.x_train[0] = 0  # a private copy
    assert same(from_npz(tmp_path / "a.npz"), read)


@pytest.mark.parametrize("x", OTHERS.values(), ids=OTHERS)
def test_a_mapped_npz_of_another_form_is_converted(tmp_path, x, monkeypatch):
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(7) % 2)
    assert isinstance(read_npz(tmp_path / "a.npz", ("x_train",))["x_train"], np.memmap)
    mapped, read = both_ways(tmp_path / "a.npz", monkeypatch)
    assert same(mapped, read)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_npz_that_another_program_wrote(tmp_path, version, compression, monkeypatch):
    path, x = tmp_path / "a.npz", FORMS["a table"]
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("notes.txt", "of no interest")
        for name, values in (("x_train", x), ("y_train", np.arange(7) % 2)):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, values, version)
            archive.writestr(f"{name}.npy", buffer.getvalue())
    mapped, read = both_ways(path, monkeypatch)
    assert same(mapped, read)
    assert isinstance(mapped.x_train, np.memmap) == (compression == zipfile.ZIP_STORED and version != (3, 0))


@pytest.mark.parametrize(
    ("descr", "shape", "reason"),
    [("|O", (9, 1000), "pickle"), ("<f8", (9, 2000), "not a whole .npz"), ("<f8", (-9, 1000), "not a whole .npz")],
)
def test_an_npz_whose_header_lies(tmp_path, descr, shape, reason):
    buffer, labels = io.BytesIO(), io.BytesIO()
    np.save(labels, np.arange(9) % 2)
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x_train.npy", buffer.getvalue() + bytes(9 * 1000 * 8))
        archive.writestr("y_train.npy", labels.getvalue())
        archive.writestr("zeros", bytes(9 * 1000 * 8))  # where an x_train twice as long would end
    with refused(tmp_path / "a.npz", reason):
        from_npz(tmp_path / "a.npz")


def test_an_npz_with_a_changed_byte_far_inside(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.zeros((7, 100, 100), np.uint8), y_train=np.arange(7) % 2)
    with (tmp_path / "a.npz").open("r+b") as file:
        file.seek(50_000)
        file.write(b"\1")
    with refused(tmp_path / "a.npz", "not a whole .npz", "CRC"):
        from_npz(tmp_path / "a.npz")


def test_a_small_npz_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez(path, x_train=FORMS["a table"], y_train=np.arange(7) % 2)
    monkeypatch.undo()
    assert not isinstance(from_npz(path).x_train, np.memmap)
    size = zipfile.ZipFile(path).getinfo("x_train.npy").file_size
    for limit, mapped in ((size, True), (size + 1, False)):
        monkeypatch.setattr(arrays, "LARGE", limit)
        assert isinstance(from_npz(path).x_train, np.memmap) == mapped


# ---- memory


def test_a_map_may_be_larger_than_memory(tmp_path):
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        everything += 1024 * int(line.split()[1]) if line.startswith("SwapTotal") else 0
    rows = 2 * everything // 1000
    with (tmp_path / "x").open("wb") as file:
        file.truncate(5 + rows * 1000)  # with nothing in it, it takes no room on the disk
        file.seek(5 + (rows - 1) * 1000)
        file.write(b"\7")
    with (tmp_path / "x").open("rb") as file:
        x = arrays.mapped(file, np.dtype(np.uint8), (rows, 10, 10, 10), 5)
    assert x[[0, -1]].sum() == x[-1, 0, 0, 0] == 7
    assert isinstance(x[5:][..., None], np.memmap)
    x[-1] = 1
    with (tmp_path / "x").open("rb") as file:
        file.seek(-1000, os.SEEK_END)
        assert file.read(2) == b"\7\0"
    (tmp_path / "x").unlink()


MEASURE = """
import re, sys
import numpy as np
from segma import data
from segma.data import arrays
def peak():  # of this program alone: the ru_maxrss of a child begins with what its parent had
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
import PIL.Image, zipfile
arrays.LARGE, before = int(sys.argv[3]), peak()
found = data.load(sys.argv[1], sys.argv[2])
assert found.x_train[[0, 5, -1]].shape[0] == 3
print(peak() - before)
"""


def megabytes(path: Path, keep: Path, limit: int) -> float:
    """By how much the peak of a new process grows when it opens these data and takes some rows."""
    arguments = [sys.executable, "-c", MEASURE, str(path), str(keep), str(limit)]
    return float(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def test_an_npz_need_not_fit_into_memory(tmp_path):
    path = tmp_path / "large.npz"
    x = np.full((20_000, 128, 128), 255, np.uint8)  # 328 MB
    np.savez(path, x_train=x, y_train=np.arange(20_000) % 2)
    assert megabytes(path, tmp_path, 1 << 40) > 300
    assert megabytes(path, tmp_path, 1 << 28) < 60
    path.unlink()


def test_a_folder_need_not_fit_into_memory(tmp_path):
    root = tmp_path / "mine"
    one = save_picture(root / "a" / "0000.png", np.zeros((1000, 1000, 3), np.uint8))
    save_picture(root / "b" / "0000.png", np.zeros((1000, 1000, 3), np.uint8))
    for i in range(1, 120):  # 363 MB
        os.link(one, root / "a" / f"{i:04d}.png")
    in_memory = megabytes(root, tmp_path, 1 << 40)
    preparing = megabytes(root, tmp_path, 1 << 28)
    (x,) = made(tmp_path)
    x.unlink()
    assert in_memory > 340
    assert preparing < 200
