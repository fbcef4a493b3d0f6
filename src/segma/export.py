"""A trained run in the forms that others take: ONNX for other languages and for browsers, a folder for a model hub."""

import importlib.util
import json
import logging
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

import segma
from segma import apply, draw, files, report, runs
from segma.clouds import Clouds
from segma.errors import InputError, RunFailed, near
from segma.mixture import Mixture
from segma.model import Model

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
SAME = 1e-3  # what an ONNX file may be off by, of numbers around 1; float32 alone is some 1e-6
TEXTS = Path(__file__).parent / "exported"  # the README of each format
Files = dict[str, bytes]


def export(run: runs.Run, form: str, out: Path) -> list[str]:
    """Write a format's files into a new folder; returns what there is to say of them."""
    if form not in FORMATS:
        raise InputError(f"--format {form}: {near(form, FORMATS)}")
    if out.exists():
        raise InputError(f"--out {out} exists; nothing is overwritten, choose another name")
    made, notes = FORMATS[form](run)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
            whole = Path(scratch) / out.name  # all files or none: half an export would be in the way of the next
            for name, content in made.items():
                files.write(whole / name, content)
            whole.rename(out)
    except OSError as problem:
        raise RunFailed(f"cannot write {out}: {problem.strerror}") from problem
    return notes


class Reader(nn.Module):
    """Raw samples to their codes and their class probabilities."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, " n *raw"]) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n k"]]:
        z = self.model.encode(self.model.prepare(x))
        return z, self.model.mixture.posterior(z)


class Painter(nn.Module):
    """Codes to raw samples."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n *raw"]:
        return self.model.restore(self.model.decode(z))


def as_onnx(run: runs.Run) -> tuple[Files, list[str]]:
    """encoder.onnx and decoder.onnx, each checked against PyTorch, and in model.json what edits and samples need."""
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise InputError(
            f"--format onnx needs {', '.join(missing)}: pip install -c constraints.txt '.[export]' in a clone of segma"
        )
    model = runs.load_mixture(run)
    model.lower = False  # float32 throughout: what takes the files need not have bfloat16
    with torch.no_grad():
        x = Painter(model)(model.means)
        encoder, first = _graph(Reader(model).eval(), x, "x", ("z", "posterior"))
        decoder, second = _graph(Painter(model).eval(), model.means.detach(), "z", ("x_hat",))
    text = (TEXTS / "onnx.md").read_text()
    made = {
        "encoder.onnx": encoder,
        "decoder.onnx": decoder,
        "model.json": (json.dumps(numbers(run, model), indent=2) + "\n").encode(),
        "README.md": Template(text).substitute(facts(run)).encode(),
    }
    return made, [f"onnxruntime gives what PyTorch gives, to {max(first, second):.0e}"]


def _graph(net: nn.Module, given: Tensor, name: str, results: tuple[str, ...]) -> tuple[bytes, float]:
    """A network as ONNX for any number of rows, and by how much its results differ from PyTorch's."""
    import onnxruntime

    with _quiet():
        rows = ({0: torch.export.Dim("n")},)
        program = torch.onnx.export(
            net, (given,), input_names=[name], output_names=results, dynamic_shapes=rows, dynamo=True, verbose=False
        )
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # the lines of code it came from, with this machine's paths
    content = proto.SerializeToString()
    found = onnxruntime.InferenceSession(content).run(None, {name: given.numpy()})
    wanted = net(given)
    pairs = zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True)
    off = max(float((torch.from_numpy(a) - b).abs().max() / b.abs().max().clamp(min=1)) for a, b in pairs)
    if not off < SAME:  # NaN is not
        raise RunFailed(f"the ONNX file of the {type(net).__name__} is off by {off:.1g}: nothing was written")
    return content, off


@contextmanager
def _quiet() -> Generator[None]:
    """Without the exporter's own remarks, which are about packages that segma does not use."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def numbers(run: runs.Run, model: Model) -> dict[str, Any]:
    """What is not in the networks: the classes, the form of a sample, the mixture, and the Gaussians that samples of a
    class come from: `means` plus `factors` times standard normal noise, each with its share in `weights`."""
    mixture, clouds = model.mixture, model.clouds or round_ones(model.mixture)
    sigmas = mixture.variances.sqrt()
    drawn = {
        "weights": clouds.weights,
        "means": mixture.means[:, None] + sigmas[:, None, None] * clouds.means,
        "factors": sigmas[:, None, None, None] * clouds.factors,
    }
    form = {"kind": "image", "range": [0, 1]} if model.is_image else {"kind": "table", "columns": run.heads}
    return {
        "classes": run.classes,
        "x": {"shape": run.shape, **form},
        "mixture": {name: part.tolist() for name, part in vars(mixture).items()},
        "samples": {name: part.tolist() for name, part in drawn.items()},
        "segma": segma.__version__,
    }


def round_ones(mixture: Mixture) -> Clouds:
    """The components themselves, as clouds."""
    one = mixture.means.new_ones(mixture.k, 1)
    return Clouds(one, 0 * mixture.means[:, None], torch.eye(mixture.d).expand(mixture.k, 1, -1, -1))


def for_hub(run: runs.Run) -> tuple[Files, list[str]]:
    """The run itself, without this machine's paths and what only training needs, with a model card and samples."""
    model = runs.load_mixture(run)
    about = files.read_json(run.path / "config.json")
    about["settings"]["data"] = Path(run.config.data).name
    if run.data["where"] is not None:  # None: fitted on arrays, which are nowhere
        about["data"]["where"] = ""
    tensors, metadata = runs.read_weights(run)
    made = {
        "config.json": (json.dumps(about, indent=2) + "\n").encode(),
        "model.safetensors": files.as_safetensors(tensors, metadata),
        "README.md": Template((TEXTS / "hub.md").read_text()).substitute(facts(run)).encode(),
    }
    if model.is_image:
        x = apply.class_samples(model, 10, 0)
        made["samples.png"] = draw.png(draw.grid(x, run.classes))
    for name in ("labels.json", "log.jsonl", "results.json"):
        if (run.path / name).exists():
            made[name] = (run.path / name).read_bytes()
    return made, ["the licence is yours to choose: name it at the top of README.md"]


def facts(run: runs.Run) -> dict[str, str]:
    """What the READMEs say of a run."""
    image = len(run.shape) == 3
    return {
        "name": run.path.resolve().name,
        "data": Path(run.config.data).name,
        "rows": f"{run.data['rows'][0]:,}",
        "classes": ", ".join(run.classes),
        "k": str(len(run.classes)),
        "d": str(run.config.latent_dim),
        "shape": ", ".join(map(str, run.shape)),
        "form": "images in 0..1, height x width x channels" if image else "rows of a table, in its own units",
        "task": "image-classification" if image else "tabular-classification",
        "picture": "![Samples, a row per class](samples.png)\n\n" if image else "",
        "measured": _measured(run.path / "results.json"),
        "segma": segma.__version__,
    }


def _measured(results: Path) -> str:
    unknown = "Its error was not measured"
    if not results.exists():
        return unknown
    with files.as_written(results):
        found = files.read_json(results)
        return unknown if found.get("test_error", found.get("validation_error")) is None else report.error(found)


FORMATS = {"onnx": as_onnx, "hub": for_hub}
