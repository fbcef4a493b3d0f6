"""The two ways a user's work can go wrong; every other exception is a bug of ours."""


class InputError(ValueError):
    """A wrong call or wrong data: the message names the value and what is allowed. The command line exits with 2."""


class RunFailed(RuntimeError):
    """A job that could not go on: the message says why and what is safe. The command line exits with 1.

    `resumable` says whether the same run may succeed when it is resumed, as after a full disk.
    """

    def __init__(self, message: str, resumable: bool = True) -> None:
        super().__init__(message)
        self.resumable = resumable
