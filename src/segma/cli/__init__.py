"""The command line: each command a few lines over the library, which is imported only when a command runs."""

import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from segma import __version__
from segma.cli import datasets, measuring, training, using
from segma.errors import InputError, RunFailed

COMMANDS = (
    *(training.train, training.resume, training.sweep, measuring.evaluate, measuring.reproduce),
    *(using.classify, using.sample, using.interpolate, using.transfer, using.intensify),
    *(measuring.similarity, using.studio, using.export),
)
INTERRUPTED = 130  # what the command-line library makes of Ctrl-C
DATA_COMMANDS = {"list": datasets.listing, "check": datasets.check, "fetch": datasets.fetch}

app = typer.Typer(
    help="Learn from many samples and few labels with one editable latent space.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List, check or fetch data sets.")
app.add_typer(data_app, name="data")
for command in COMMANDS:
    app.command()(command)
for name, command in DATA_COMMANDS.items():
    data_app.command(name)(command)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _whole(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    pass


def main() -> NoReturn:
    """Run a command; a user's mistake is one line on stderr and exit status 2, a failed job 1."""
    if sys.argv[1:] in ([], ["data"]):
        sys.argv.append("--help")
    warnings.showwarning = _note  # ty: ignore[invalid-assignment]
    try:
        status = app(standalone_mode=False) or 0
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(status)
    except InputError as problem:
        _fail(str(problem), 2)
    except RunFailed as problem:
        _fail(str(problem), 1)
    except KeyboardInterrupt:
        _fail("stopped", 1)
    except OSError as problem:
        _fail(f"{problem.filename or 'a file'}: {problem.strerror or problem}", 1)
    except Exception as problem:
        message = getattr(problem, "format_message", None)  # the command-line library's own: a wrong option, say
        if message is None and _is_of_memory(problem):
            _fail("out of memory; a smaller batch_size, narrower hidden or filters, or smaller pictures take less", 1)
        if message is None:
            raise
        _fail(message().rstrip(".") + _hint(message(), sys.argv[1]), 2)


def _is_of_memory(problem: Exception) -> bool:
    words = ("can't allocate memory", "out of memory")  # PyTorch's, on a CPU and on a GPU
    return isinstance(problem, MemoryError) or any(said in str(problem) for said in words)


def _hint(message: str, command: str) -> str:
    """What is not in the command-line library's own messages, and often meant."""
    if message.startswith("No such option") and command in ("train", "sweep"):
        return "; settings are --set NAME=VALUE, as --set alpha=5"
    if message.startswith("No such option") and command == "resume":
        return "; a run goes on as it began: other settings are for another run"
    return "; segma --help lists them" if message.startswith("No such command") else ""


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code it came from."""
    print(f"segma: note: {message}", file=sys.stderr)


def _fail(message: str, status: int) -> NoReturn:
    print("segma: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
