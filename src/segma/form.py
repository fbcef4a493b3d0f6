"""What every model has: how raw rows become what its networks see, and how what they make becomes rows again."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from segma.data.values import blocks
from segma.errors import InputError


class Form(nn.Module):
    """`shape` is that of one raw sample: (h, w, c) for images, (features,) for tables; `inner` that of what the
    networks see.

    Raw images are uint8 in 0..255 or float in 0..1; raw tables are in the user's units. `prepare` brings them to what
    the networks see (float (c, h, w) in 0..1; standardised columns), `restore` brings reconstructions back to
    0..1 images (h, w, c) and to the user's units.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.is_image = len(shape) == 3
        self.inner = (shape[2], shape[0], shape[1]) if self.is_image else shape
        self.shift: Tensor
        self.scale: Tensor
        if not self.is_image:
            self.register_buffer("shift", torch.zeros(shape))
            self.register_buffer("scale", torch.ones(shape))

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def set_scale(self, x: np.ndarray, names: Sequence[str] = ()) -> None:
        """Standardise tables by the columns of x; a constant column is only shifted, and a warning names it."""
        mean = sum(part.sum(axis=0, dtype=np.float64) for part in blocks(x)) / len(x)
        deviation = np.sqrt(sum(np.square(part - mean).sum(axis=0) for part in blocks(x)) / len(x))
        constant = deviation <= 1e-7 * np.max([np.abs(part).max(axis=0) for part in blocks(x)], axis=0)
        if constant.all():
            raise InputError(f"all {len(constant)} features are constant: there is nothing to learn")
        if constant.any():
            where = [names[i] if len(names) else str(i) for i in np.flatnonzero(constant)]
            said = ", ".join(where[:5]) + (", ..." if len(where) > 5 else "")
            what = (
                "constant features carry nothing: columns"
                if len(where) > 1
                else "constant feature carries nothing: column"
            )
            warnings.warn(f"{len(where)} {what} {said}", stacklevel=2)
        self.shift.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(np.where(constant, 1.0, deviation)))

    def prepare(self, x: Tensor) -> Float[Tensor, " n *shape"]:
        if not self.is_image:
            return (x.to(self.dtype) - self.shift) / self.scale
        x = x.permute(0, 3, 1, 2)
        return x.to(self.dtype) / 255 if x.dtype == torch.uint8 else x.to(self.dtype)

    def restore(self, x_hat: Float[Tensor, " n *shape"]) -> Float[Tensor, " n *raw"]:
        return x_hat.permute(0, 2, 3, 1) if self.is_image else x_hat * self.scale + self.shift
