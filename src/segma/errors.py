"""The two ways a user's work can go wrong; every other exception is a bug of ours."""

import difflib
from collections.abc import Iterable


def allowed(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}? Allowed are {', '.join(names)}" if near else f"allowed are {', '.join(names)}"


class InputError(ValueError):
    """A wrong call or wrong data: the message names the value and what is allowed. The command line exits with 2."""


class RunFailed(RuntimeError):
    """A job that could not go on: the message says why and what is safe. The command line exits with 1.

    `resumable` says whether the same run may succeed when it is resumed, as after a full disk.
    """

    def __init__(self, message: str, resumable: bool = True) -> None:
        super().__init__(message)
        self.resumable = resumable
