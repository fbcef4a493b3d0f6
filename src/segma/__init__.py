"""SeGMA: one auto-encoder whose latent space is a Gaussian mixture, one component per class, from few labels."""

import os
from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["SeGMA", "__version__"]

# Threads that wait by spinning make training 30 times slower where other work runs; a short spin costs a tenth where
# none does. Read by PyTorch's threads when it is first imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from segma.estimator import SeGMA


def __getattr__(name: str) -> object:  # SeGMA pulls in torch and scikit-learn: only who asks for it pays
    if name == "SeGMA":
        from segma.estimator import SeGMA

        return SeGMA
    raise AttributeError(f"module 'segma' has no attribute {name!r}")
