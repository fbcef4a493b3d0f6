"""SeGMA: one auto-encoder whose latent space is a Gaussian mixture, one component per class, from few labels."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["SeGMA", "__version__"]

if TYPE_CHECKING:
    from segma.estimator import SeGMA


def __getattr__(name: str) -> object:  # SeGMA pulls in torch and scikit-learn: only who asks for it pays
    if name == "SeGMA":
        from segma.estimator import SeGMA

        return SeGMA
    raise AttributeError(f"module 'segma' has no attribute {name!r}")
