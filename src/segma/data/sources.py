"""Where the named data sets and the FID network come from: what is there, whether it is the owners', fetching it."""

import contextlib
import hashlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from segma.data import NAMED, celeba, load, mnist, svhn
from segma.data import directory as place
from segma.data.arrays import Data, Progress, fingerprint
from segma.errors import InputError, RunFailed

ABOUT = {
    "digits": "1,797 handwritten digits, 8 x 8 grey, inside scikit-learn",
    "mnist": "60,000 + 10,000 handwritten digits, 28 x 28 grey",
    "svhn": "73,257 + 26,032 house-number digits, 32 x 32 RGB; 531,131 more in extra_32x32.mat",
    "celeba": "aligned faces, 64 x 64 RGB, in four classes: male or not, smiling or not",
}
INCEPTION = {  # the weights of the FID authors' TensorFlow graph inception-2015-12-05.tgz, and their sha256
    "pt_inception-2015-12-05-6726825d.pth": "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
}
URLS = {
    "mnist": ("https://ossci-datasets.s3.amazonaws.com/mnist/", [f"{name}.gz" for name in mnist.ORIGINALS]),
    "svhn": ("http://ufldl.stanford.edu/housenumbers/", ["train_32x32.mat", "test_32x32.mat"]),
    "inception": ("https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/", list(INCEPTION)),
}
CELEBA_PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


def listing(data_dir: Path | str | None = None) -> list[dict]:
    """Each named data set: what it is, where its files go, and which of them are missing."""
    rows = []
    for name in NAMED:
        gone = _missing(name, place(data_dir) / name)
        where = "" if name == "digits" else str(place(data_dir) / name)
        status = "missing files" if gone else "ready"
        rows.append({"name": name, "about": ABOUT[name], "folder": where, "status": status, "missing": gone})
    return rows


def inception_files(data_dir: Path) -> list[Path]:
    """The FID network's weights in the data directory: as they are fetched, or as an .npz of the same."""
    return [*sorted(data_dir.glob("inception-2015-12-05*.npz")), *sorted(data_dir.glob("pt_inception-2015-12-05*.pth"))]


def _missing(name: str, folder: Path) -> list[str]:
    if name == "inception":
        return [] if inception_files(folder) else list(INCEPTION)
    if name == "mnist":
        return [file for file in mnist.ORIGINALS if mnist.find(folder, file) is None]
    if name == "svhn":
        return [file for file in URLS["svhn"][1] if not (folder / file).is_file()]
    if name == "celeba" and not (folder / "celeba-64.npz").is_file():
        return [file for file in celeba.FILES if not (folder / file).exists()]
    return []


def check(
    name: str,
    data_dir: Path | str | None = None,
    progress: Progress | None = None,
    image_size: int | None = None,
    skip_broken: bool = False,
) -> dict:
    """Loads it, and says what it holds. `originals` has, for each file whose digest is known, whether it is the
    owners' (for MNIST once unpacked: the gzip around it may differ)."""
    data = load(name, data_dir, image_size, skip_broken, progress)
    found = {
        "name": data.name,
        "kind": data.kind,
        "shape": list(data.shape),
        "dtype": str(data.x_train.dtype),
        "classes": list(data.classes),
        "train": counts(data.y_train, data),
        "test": counts(data.y_test, data),
        "fingerprint": fingerprint(data),
    }
    known = _known_files(name, place(data_dir) / str(name))
    if known:
        found["originals"] = {file: _is_original(name, file, path) for file, path in known.items()}
    return found


def as_text(found: dict) -> str:
    """What `check` found, for reading."""
    size = "x".join(map(str, found["shape"]))
    rows = f"images of {size}" if found["kind"] == "image" else f"rows of {size} numbers"
    lines = [f"{found['name']}: {rows}, {found['dtype']}", ""]
    names = [*found["classes"], "unlabelled", "in all"]
    wide = max(map(len, names))
    lines.append(f"{'class':{wide}} {'train':>9} {'test':>9}")
    splits = [[*part["classes"].values(), part["unlabelled"], part["n"]] for part in (found["train"], found["test"])]
    lines += [f"{name:{wide}} {a:9,} {b:9,}" for name, a, b in zip(names, *splits, strict=True)]
    originals = [f"{file}: {'' if own else 'not '}the owners' file" for file, own in found.get("originals", {}).items()]
    return "\n".join([*lines, "", *originals, f"fingerprint: {found['fingerprint']}"])


def counts(y: np.ndarray, data: Data) -> dict:
    """How many rows there are, without a label and of each class."""
    unlabelled, *labelled = np.bincount(y + 1, minlength=len(data.classes) + 1).tolist()
    return {"n": len(y), "unlabelled": unlabelled, "classes": dict(zip(data.classes, labelled, strict=True))}


def _known_files(name: str, folder: Path) -> dict[str, Path]:
    """The files that are there and whose digest is known."""
    if name == "mnist":
        return {file: path for file in mnist.ORIGINALS if (path := mnist.find(folder, file))}
    if name == "svhn":
        return {file: path for file in svhn.ORIGINALS if (path := folder / file).is_file()}
    return {}


def _is_original(name: str, file: str, path: Path) -> bool:
    if name == "mnist":
        return hashlib.sha256(mnist.unpacked(path)).hexdigest() == mnist.ORIGINALS[file]
    kind, known = ("md5", svhn.ORIGINALS) if name == "svhn" else ("sha256", INCEPTION)
    with path.open("rb") as content:
        return hashlib.file_digest(content, kind).hexdigest() == known[file]


def fetch(name: str, data_dir: Path | str | None = None, progress: Progress | None = None) -> list[Path]:
    """Downloads what is missing of a data set, or of the FID network, `inception`, and returns those files. A file that
    is there is never touched; a new one has its name only once it is whole and the owners' own."""
    allowed = (*NAMED, "inception")
    if name not in allowed:
        raise InputError(f"data {name!r}, allowed: {', '.join(allowed)}")
    folder = place(data_dir) / ("" if name == "inception" else name)
    missing = _missing(name, folder)
    if not missing:
        return []
    if name not in URLS:
        wanted = ", ".join(celeba.FILES)
        raise InputError(f"{name} cannot be fetched by a script: from {CELEBA_PAGE} put {wanted} into {folder}")
    base, files = URLS[name]
    wanted = [file for file in files if file.removesuffix(".gz") in missing]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_download(name, base + file, folder / file, progress) for file in wanted]
    except (OSError, HTTPException) as error:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty: a folder says that there are data
        raise RunFailed(
            f"{name}: cannot download ({error}); put {', '.join(wanted)} from {base} into {folder}"
        ) from error


def _download(name: str, url: str, path: Path, progress: Progress | None) -> Path:
    part = path.with_name(path.name + ".part")
    with urlopen(url, timeout=60) as response, part.open("wb") as file:
        size = int(response.headers.get("Content-Length") or 0)
        chunks: Iterator[bytes] = iter(lambda: response.read(1 << 20), b"")
        for chunk in progress(chunks, -(-size >> 20), path.name) if progress else chunks:
            file.write(chunk)
    if size and part.stat().st_size != size:
        raise OSError(f"{part.stat().st_size} of {size} bytes of {url} came")
    own = False
    with contextlib.suppress(InputError):  # a damaged gzip has no digest
        own = _is_original(name, path.name.removesuffix(".gz"), part)
    if not own:
        raise RunFailed(f"{url}: not the owners' file, by its digest; it is left at {part}")
    return part.rename(path)
