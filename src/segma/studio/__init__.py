"""The web studio: a local page on which a person opens an image, changes what it is, and watches it change."""

import importlib.util
import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from segma.errors import InputError

HERE = Path(__file__).parent


@contextmanager
def served(run: Path, host: str = "127.0.0.1", port: int | None = None, browser: bool = False) -> Generator[str]:
    """The studio's address while it runs; its temporary files are its own and go with it."""
    with private_folder():
        library()
        import gradio as gr

        from segma.studio import app, uploads

        blocks = app.page(run)
        blocks.queue(default_concurrency_limit=8)
        sans, mono = gr.themes.Font("system-ui"), gr.themes.Font("ui-monospace")
        theme = gr.themes.Default(
            primary_hue="blue", font=[sans, gr.themes.Font("sans-serif")], font_mono=[mono, gr.themes.Font("monospace")]
        )
        try:
            _, address, _ = blocks.launch(
                server_name=host,
                server_port=port,
                inbrowser=browser,
                prevent_thread_lock=True,
                quiet=True,
                share=False,
                ssr_mode=False,
                pwa=False,
                mcp_server=False,
                enable_monitoring=False,
                run_history=False,
                footer_links=[],
                max_file_size=uploads.LARGEST,
                theme=theme,
                css_paths=HERE / "style.css",
                head=f"<script>{(HERE / 'page.js').read_text()}</script>",
            )
        except OSError as problem:
            raise InputError(f"cannot serve at {host}:{port or 'any port'}: {problem}") from problem
        try:
            yield address
        finally:
            blocks.close(verbose=False)


def library() -> None:
    """Whether Gradio is there, and, told before it is imported (which takes seconds), that nothing leaves this
    computer."""
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    if importlib.util.find_spec("gradio") is None:
        raise InputError("the studio needs Gradio: pip install 'segma[studio]'")


@contextmanager
def private_folder() -> Generator[Path]:
    """Where Gradio keeps what is uploaded: readable by nobody else, removed at the end."""
    before = os.environ.get("GRADIO_TEMP_DIR")
    folder = Path(tempfile.mkdtemp(prefix="segma-studio-"))
    os.environ["GRADIO_TEMP_DIR"] = str(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            del os.environ["GRADIO_TEMP_DIR"]
        else:
            os.environ["GRADIO_TEMP_DIR"] = before


def check_place(host: str, port: int | None) -> None:
    """Whether one can serve there, before anything is loaded."""
    if port is not None and port > 65535:
        raise InputError(f"--port {port}: allowed is 1 to 65535")
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)
    except OSError:
        raise InputError(f"--host {host}: no such address") from None
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as problem:
            where = f"--host {host}" if port is None else f"--port {port}"
            raise InputError(f"{where}: cannot serve there ({problem.strerror}); choose another") from None


def serve(run: Path, host: str, port: int | None, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, or until the process is asked to end."""
    print("opening the studio ...", file=sys.stderr, flush=True)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with served(run, host, port, browser) as address:
        say(f"studio: {address}  (Ctrl-C ends it)")
        for line in in_reach(host, address):
            say(line)
        over.wait()


def in_reach(host: str, address: str) -> list[str]:
    """What to say where others than this computer can open the page."""
    (*_, found), *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    place = ipaddress.ip_address(str(found[0]).partition("%")[0])
    if place.is_loopback:
        return []
    name = socket.gethostname() if place.is_unspecified else host
    here = f"http://{f'[{name}]' if ':' in name else name}:{urlsplit(address).port}"
    return [f"other computers in the network can open it at {here} and do all that you can: there is no password"]
