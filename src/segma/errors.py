"""The two ways a user's work can go wrong; every other exception is a bug of ours."""

import difflib
from collections.abc import Iterable

MANY = 30  # names that a message lists at most


def near(name: str, allowed: Iterable[str], others: str = "allowed are") -> str:
    """What might have been meant by a name that is not allowed: the end of a message about it."""
    lower = {other.lower(): other for other in allowed}
    match = difflib.get_close_matches(name.lower(), lower, n=1)
    if match and not _differ_in_number(name, match[0]):
        return f"did you mean {lower[match[0]]!r}?"
    names = list(lower.values())
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"{others} {', '.join(names[:MANY])}{more}"


def _differ_in_number(one: str, other: str) -> bool:
    """10 is no misspelt 1, and table9 no misspelt table3."""
    one, other = one.lower(), other.lower()
    return one != other and one.rstrip("0123456789") == other.rstrip("0123456789")


class InputError(ValueError):
    """A wrong call or wrong data: the message names the value and what is allowed. The command line exits with 2."""


class RunFailed(RuntimeError):
    """A job that could not go on: the message says why and what is safe. The command line exits with 1.

    `resumable` says whether the same run may succeed when it is resumed, as after a full disk.
    """

    def __init__(self, message: str, resumable: bool = True) -> None:
        super().__init__(message)
        self.resumable = resumable
