"""Where data come from: the directory, what is missing, what it holds, and fetching it."""

import functools
import gzip
import hashlib
import http.server
import json
import threading
from pathlib import Path

import numpy as np
import pytest

from data_files import idx, write_celeba, write_mnist, write_svhn
from segma import data
from segma.data import mnist, sources
from segma.data.arrays import fingerprint
from segma.errors import InputError, RunFailed


def test_data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("SEGMA_DATA", str(tmp_path))
    assert data.directory() == tmp_path
    assert data.directory("there") == Path("there")
    write_mnist(tmp_path)
    assert data.load("mnist").name == "mnist"
    assert data.load("mnist", data_dir=str(tmp_path)).name == "mnist"
    monkeypatch.delenv("SEGMA_DATA")
    assert data.directory() == Path.home() / ".cache" / "segma"


def test_listing_says_what_is_missing(tmp_path):
    status = {row["name"]: row for row in sources.listing(tmp_path)}
    assert list(status) == list(data.NAMED)
    assert status["digits"]["status"] == "ready"
    assert status["mnist"]["status"] == "missing files"
    assert status["svhn"]["missing"] == ["train_32x32.mat", "test_32x32.mat"]
    write_mnist(tmp_path)
    write_svhn(tmp_path, "train", 10)
    write_celeba(tmp_path)
    status = {row["name"]: row for row in sources.listing(tmp_path)}
    assert status["mnist"]["status"] == status["celeba"]["status"] == "ready"
    assert status["svhn"]["missing"] == ["test_32x32.mat"]
    assert status["svhn"]["folder"] == str(tmp_path / "svhn")


def test_check_counts(tmp_path):
    write_mnist(tmp_path)
    found = json.loads(json.dumps(sources.check("mnist", tmp_path)))
    assert found["train"] == {"n": 30, "unlabelled": 0, "classes": {str(c): 3 for c in range(10)}}
    assert found["test"]["n"] == 20
    assert found["shape"] == [28, 28, 1]
    assert found["kind"] == "image"
    assert found["originals"] == dict.fromkeys(mnist.ORIGINALS, False)
    assert found["fingerprint"] == fingerprint(mnist.load(tmp_path))
    np.savez(tmp_path / "mine.npz", x_train=np.eye(3), y_train=[1, -1, 0])
    found = sources.check(str(tmp_path / "mine.npz"))
    assert found["train"] == {"n": 3, "unlabelled": 1, "classes": {"0": 1, "1": 1}}
    assert found["test"]["n"] == 0


@pytest.fixture
def owners(tmp_path, monkeypatch):
    """A server of tiny files on this machine in the place of the owners', whose digests are taken for the true ones."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    arrays = write_mnist(tmp_path / "owner")
    handler = functools.partial(Quiet, directory=tmp_path / "owner" / "mnist")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setitem(sources.URLS, "mnist", (base, sources.URLS["mnist"][1]))
    for key, values in arrays.items():
        digest = hashlib.sha256(idx(values)).hexdigest()
        monkeypatch.setitem(mnist.ORIGINALS, f"{key}-idx{values.ndim}-ubyte", digest)
    yield tmp_path / "owner" / "mnist"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("owners")
def test_fetch_takes_what_is_missing_and_touches_nothing_else(tmp_path):
    mine = tmp_path / "mine"
    (mine / "mnist").mkdir(parents=True)
    own = mine / "mnist" / "t10k-labels.idx1-ubyte"
    own.write_bytes(idx(np.arange(20) % 10))
    seen = []
    fetched = sources.fetch("mnist", mine, lambda items, total, text: seen.append((total, text)) or items)
    assert [p.name for p in fetched] == [f"{name}.gz" for name in list(mnist.ORIGINALS)[:3]]
    assert [text for _, text in seen] == [p.name for p in fetched]
    assert all(total == 1 for total, _ in seen)
    assert own.read_bytes() == idx(np.arange(20) % 10)
    assert sorted(p.name for p in (mine / "mnist").iterdir()) == sorted([own.name, *(p.name for p in fetched)])
    assert all(sources.check("mnist", mine)["originals"].values())
    assert sources.fetch("mnist", mine) == []
    assert sources.fetch("digits", mine) == []


@pytest.mark.usefixtures("owners")
def test_the_network_of_fid_is_fetched_into_the_data_directory_itself(tmp_path, monkeypatch):
    (name,), served = sources.INCEPTION, tmp_path / "owner" / "mnist"
    monkeypatch.setitem(sources.URLS, "inception", (sources.URLS["mnist"][0], [name]))
    (served / name).write_bytes(b"weights")
    with pytest.raises(RunFailed, match="not the owners' file"):
        sources.fetch("inception", tmp_path / "mine")
    monkeypatch.setitem(sources.INCEPTION, name, hashlib.sha256(b"weights").hexdigest())
    assert sources.fetch("inception", tmp_path / "mine") == [tmp_path / "mine" / name]
    assert sources.fetch("inception", tmp_path / "mine") == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "inception-2015-12-05-fp16.npz").touch()
    assert sources.fetch("inception", tmp_path / "other") == []
    with pytest.raises(InputError, match=r"allowed: digits, .*, inception"):
        sources.fetch("inceptoin", tmp_path)


@pytest.mark.parametrize("spoil", [lambda content: content[:-20], lambda _: gzip.compress(b"another"), lambda _: b""])
def test_fetching_another_file(tmp_path, owners, spoil):
    theirs = owners / "train-images-idx3-ubyte.gz"
    theirs.write_bytes(spoil(theirs.read_bytes()))
    with pytest.raises(RunFailed, match=r"train-images-idx3-ubyte\.gz"):
        sources.fetch("mnist", tmp_path / "mine")
    assert not (tmp_path / "mine" / "mnist" / theirs.name).exists()
    theirs.unlink()
    with pytest.raises(RunFailed, match=r"404.* put train-images-idx3-ubyte.gz, .* into "):
        sources.fetch("mnist", tmp_path / "mine")
    with pytest.raises(RunFailed, match="404"):
        sources.fetch("mnist", tmp_path / "nothing")
    assert not (tmp_path / "nothing" / "mnist").exists()
