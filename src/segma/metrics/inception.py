"""The Inception network of the FID and its weights file.

It is the TensorFlow graph of 2015-12-05: Szegedy et al., Rethinking the Inception Architecture (2015), with average
pools that do not count their padding, a max pool in the last block, and batch norm of eps 0.001 without a scale, which
is folded into the convolutions here. What the graph does to images before is in features.py.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from segma import data
from segma.data import sources
from segma.data.arrays import read_npz
from segma.errors import InputError

KNOWN = {
    "183b853983b5051e86b894999e8d2f8a2b0793441e855e33afeccfb9efd58385",  # in float16, the file behind our numbers
    *sources.INCEPTION.values(),
}
SOURCE = f"pytorch-fid's {', '.join(sources.INCEPTION)}, or an .npz of that state dict"
WANTED = f"`segma data fetch inception`, or --inception FILE: {SOURCE}"
EPS = 1e-3  # of the graph's batch norm


class Layer(NamedTuple):
    """A convolution with its ReLU, by its name in the weights file."""

    name: str
    width: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    pad: bool = True  # to the same size


Step = Layer | list[Layer] | Callable[[Tensor], Tensor]  # a list is a fork: its layers side by side
Branches = list[list[Step]]
AVERAGE = partial(functional.avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=False)
LARGEST = partial(functional.max_pool2d, kernel_size=3, stride=1, padding=1)
HALVE = partial(functional.max_pool2d, kernel_size=3, stride=2)


class Convolution(nn.Conv2d):
    def __init__(self, c: int, layer: Layer) -> None:
        padding = (layer.kernel[0] // 2, layer.kernel[1] // 2) if layer.pad else 0
        super().__init__(c, layer.width, layer.kernel, layer.stride, padding)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu_()


class Block(nn.Module):
    """Branches side by side, each a chain of steps; what they give is concatenated in this order."""

    def __init__(self, c: int, branches: Branches) -> None:
        super().__init__()
        self.branches, self.width = branches, 0
        for steps in branches:
            width = c
            for step in steps:
                layers = [step] if isinstance(step, Layer) else step if isinstance(step, list) else []
                for layer in layers:
                    self.add_module(layer.name, Convolution(width, layer))
                width = sum(layer.width for layer in layers) or width
            self.width += width

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([reduce(self._step, steps, x) for steps in self.branches], dim=1)

    def _step(self, x: Tensor, step: Step) -> Tensor:
        if isinstance(step, list):
            return torch.cat([self._step(x, layer) for layer in step], dim=1)
        return self.get_submodule(step.name)(x) if isinstance(step, Layer) else step(x)


FULL, FLAT, TALL = (3, 3), (1, 7), (7, 1)
STEM: Branches = [
    [
        Layer("Conv2d_1a_3x3", 32, FULL, stride=2, pad=False),  # 149 x 149
        Layer("Conv2d_2a_3x3", 32, FULL, pad=False),  # 147
        Layer("Conv2d_2b_3x3", 64, FULL),
        HALVE,  # 73
        Layer("Conv2d_3b_1x1", 80),
        Layer("Conv2d_4a_3x3", 192, FULL, pad=False),  # 71
        HALVE,  # 35
    ]
]


def wide(pool: int) -> Branches:
    return [
        [Layer("branch1x1", 64)],
        [Layer("branch5x5_1", 48), Layer("branch5x5_2", 64, (5, 5))],
        [Layer("branch3x3dbl_1", 64), Layer("branch3x3dbl_2", 96, FULL), Layer("branch3x3dbl_3", 96, FULL)],
        [AVERAGE, Layer("branch_pool", pool)],
    ]


TO_17: Branches = [
    [Layer("branch3x3", 384, FULL, stride=2, pad=False)],
    [Layer("branch3x3dbl_1", 64), Layer("branch3x3dbl_2", 96, FULL), Layer("branch3x3dbl_3", 96, FULL, 2, pad=False)],
    [HALVE],
]


def factorised(c: int) -> Branches:
    """7x7 as 1x7 and 7x1, inside c channels wide."""
    twice = [("_1", c, (1, 1)), ("_2", c, TALL), ("_3", c, FLAT), ("_4", c, TALL), ("_5", 192, FLAT)]
    return [
        [Layer("branch1x1", 192)],
        [Layer("branch7x7_1", c), Layer("branch7x7_2", c, FLAT), Layer("branch7x7_3", 192, TALL)],
        [Layer(f"branch7x7dbl{place}", width, kernel) for place, width, kernel in twice],
        [AVERAGE, Layer("branch_pool", 192)],
    ]


TO_8: Branches = [
    [Layer("branch3x3_1", 192), Layer("branch3x3_2", 320, FULL, stride=2, pad=False)],
    [
        *(Layer("branch7x7x3_1", 192), Layer("branch7x7x3_2", 192, FLAT), Layer("branch7x7x3_3", 192, TALL)),
        Layer("branch7x7x3_4", 192, FULL, stride=2, pad=False),
    ],
    [HALVE],
]


def forked(pool: Callable[[Tensor], Tensor]) -> Branches:
    """3x3 as 1x3 beside 3x1."""
    once, twice = (
        [Layer(f"{name}a", 384, (1, 3)), Layer(f"{name}b", 384, (3, 1))] for name in ("branch3x3_2", "branch3x3dbl_3")
    )
    return [
        [Layer("branch1x1", 320)],
        [Layer("branch3x3_1", 384), once],
        [Layer("branch3x3dbl_1", 448), Layer("branch3x3dbl_2", 384, FULL), twice],
        [pool, Layer("branch_pool", 192)],
    ]


BLOCKS = {
    "stem": STEM,
    **{f"Mixed_5{place}": wide(c) for place, c in zip("bcd", (32, 64, 64), strict=True)},
    "Mixed_6a": TO_17,
    **{f"Mixed_6{place}": factorised(c) for place, c in zip("bcde", (128, 160, 160, 192), strict=True)},
    "Mixed_7a": TO_8,
    "Mixed_7b": forked(AVERAGE),
    "Mixed_7c": forked(LARGEST),
}


def network() -> nn.Sequential:
    """From (n, 3, 299, 299) in -1..1 to (n, 2048, 8, 8); its weights are still to be loaded."""
    net, c = nn.Sequential(), 3
    for name, branches in BLOCKS.items():
        block = Block(c, branches)
        net.add_module(name, block)
        c = block.width
    return net


def find(given: Path | None, data_dir: Path) -> Path:
    """The weights file: as given, else the one in the folder given; else in the data directory, or in the usual one."""
    if given is not None and not given.is_dir():
        if not given.is_file():
            raise InputError(f"{given}: no such file; {WANTED}")
        return given
    folders = [data_dir, data.directory(None)] if given is None else [given]
    folder, found = next(((at, files) for at in folders if (files := sources.inception_files(at))), (folders[0], []))
    if not found:
        raise InputError(f"{folder} has no weights of the FID network; {WANTED}")
    if len(found) > 1:
        raise InputError(f"{folder} holds {', '.join(path.name for path in found)}: choose one with --inception FILE")
    return found[0]


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(path: Path, device: torch.device | str = "cpu") -> nn.Module:
    """The network with the weights of a file, a .pth or an .npz, by the names of pytorch-fid's; any float dtype."""
    net = network()
    layers = {name.removeprefix("stem."): layer for name, layer in net.named_modules() if isinstance(layer, nn.Conv2d)}
    shapes = {name: shape for layer in layers for name, shape in _shapes(layer, layers[layer]).items()}
    optional = [f"{name}.bn.weight" for name in layers]  # 1 in this graph, and so left out of small files
    if (suffix := Path(path).suffix) not in (".pth", ".npz"):
        raise InputError(f"{path}: no weights by its name; wanted is {SOURCE}")
    read = _read_pth if suffix == ".pth" else partial(read_npz, required=())
    arrays = read(path, optional=(*shapes, *optional))
    missing = [name for name in shapes if name not in arrays]
    if missing:
        more = f" nor {len(missing) - 1} more of the {len(shapes)} needed" if len(missing) > 1 else ""
        raise InputError(f"{path}: no {missing[0]}{more}; it should be {SOURCE}")
    for name, array in arrays.items():
        needed = shapes.get(name) or shapes[name.replace("weight", "bias")]
        if array.shape != needed or array.dtype.kind != "f":
            raise InputError(f"{path}: {name} is {array.dtype} {array.shape}, needed is a float {needed}")
        if not np.isfinite(array).all() or (name.endswith("running_var") and (array < 0).any()):
            raise InputError(
                f"{path}: {name} has values that no such network has (infinite, NaN or a variance below 0)"
            )
    with torch.no_grad():
        for name, layer in layers.items():
            weight, bias = _folded(arrays, name)
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
    net = net.requires_grad_(False).eval().to(device)
    return net.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]


def _read_pth(path: Path, optional: Sequence[str]) -> dict[str, np.ndarray]:
    """The named tensors of a state dict as PyTorch saves it; objects that are no tensors are refused."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensors[name].numpy() for name in optional if name in tensors}
    except Exception as error:  # pickle, zipfile and PyTorch each have their own for another file
        raise InputError(f"{path}: not a whole state dict of PyTorch; it should be {SOURCE}") from error


def _shapes(name: str, layer: nn.Conv2d) -> dict[str, tuple[int, ...]]:
    norm = {f"{name}.bn.{part}": (layer.out_channels,) for part in ("bias", "running_mean", "running_var")}
    return {f"{name}.conv.weight": tuple(layer.weight.shape), **norm}


def _folded(arrays: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Convolution, then batch norm, as one convolution with a bias: in float64."""
    weight, shift, mean, variance = (
        arrays[f"{name}.{part}"].astype(np.float64)
        for part in ("conv.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    )
    scale = arrays.get(f"{name}.bn.weight", 1.0) / np.sqrt(variance + EPS)
    return weight * scale[:, None, None, None], shift - mean * scale
