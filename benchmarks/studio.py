"""The web studio: from a slider's move to the new picture, one person and ten at once.

    python benchmarks/studio.py        about two minutes

A studio in a process of its own shows a model of each recipe (untrained: that is as fast). A move is one request over
HTTP: edit the code, decode it, classify it, answer with picture, bars and marker. In the browser, headless Chromium
where there is one, it counts until the new picture is on the page. Ten people move sliders at the same time, each 30
times, without a pause.
"""

import contextlib
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import torch
from timing import machine, report, table

from segma import runs
from segma.data.arrays import Data
from segma.data.celeba import CLASSES
from segma.launch import new_model
from segma.recipes import recipe

DEVICES = ("cpu",)
MOVES, PEOPLE, EACH = 200, 10, 30
SHOWN = {  # data: shape, classes, training rows that the recipe is chosen by
    "digits": ((8, 8, 1), tuple("0123456789"), 1297),
    "mnist": ((28, 28, 1), tuple("0123456789"), 60000),
    "celeba": ((64, 64, 3), CLASSES, 162770),
}
IN_PAGE = """() => {
    window.spent = [];
    const shown = () => document.querySelector('#stage img.now').src;
    let began = 0, before = shown();
    document.addEventListener('input', () => { began ||= performance.now(); }, true);
    new MutationObserver(() => {
        if (!began || shown() === before) return;
        spent.push(performance.now() - began); began = 0; before = shown();
    }).observe(document.body, {childList: true, subtree: true, attributes: true, characterData: true});
}"""


def untrained(name: str, folder: Path) -> Path:
    shape, classes, rows = SHOWN[name]
    x, y = np.zeros((len(classes), *shape), np.uint8), np.arange(len(classes))
    few = Data(name, x, y, x[:0], y[:0], classes)
    config = recipe("best", name, shape, rows, len(classes))
    run = runs.create(folder / name, config, runs.describe(few, None, "str"))
    model = new_model(few, config)
    with torch.no_grad():  # untrained, all codes decode to nearly the same grey: no new picture to wait for
        [*model.decoder.parameters()][-2].mul_(30)
    runs.save_model(run, model, 0)
    return run.path


@contextlib.contextmanager
def serving(run: Path) -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, "-m", "segma", "studio", str(run), "--no-browser", "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.send_signal(signal.SIGTERM)


def person(address: str, number: int, moves: int) -> tuple[list[float], int]:
    """The seconds of each move of one person's slider, and how many failed."""
    with httpx.Client(base_url=f"{address}gradio_api/", timeout=60) as client:
        config, spent, failed = client.get(f"{address}config").json(), [], 0
        session = f"person{number}"
        load = next(d["id"] for d in config["dependencies"] if any(event == "load" for _, event in d["targets"]))
        change = next(d for d in config["dependencies"] if d["api_name"] == "change")
        named = {c["id"]: c for c in config["components"]}
        run = next(c["props"]["value"] for c in config["components"] if c["props"].get("elem_id") == "run")
        client.post("queue/join", json={"data": [run], "fn_index": load, "session_hash": session})
        with client.stream("GET", "queue/data", params={"session_hash": session}) as answer:
            assert any('"process_completed"' in line and '"success":true' in line for line in answer.iter_lines())
        values = [run, *(named[i]["props"].get("value") for i in change["inputs"][1:])]
        for i in range(moves):
            values[4] = ((7 * i + number) % 20 + 1) / 20
            began = time.perf_counter()
            body = {"data": values, "fn_index": change["id"], "session_hash": session, "trigger_id": None}
            answer = client.post("run/predict", json=body)
            spent.append(time.perf_counter() - began)
            failed += answer.status_code != 200 or "data:image/png" not in json.dumps(answer.json().get("data"))
        return spent, failed


def in_browser(address: str, moves: int) -> list[float]:
    """The seconds until the page shows the new picture; none where there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#stage img.now")
        page.wait_for_timeout(1000)
        page.evaluate(IN_PAGE)
        for i in range(moves):
            page.locator("#style input[type=range]").fill(str((7 * i % 20 + 1) / 10))  # moves every code
            page.wait_for_function(f"spent.length > {i}")
        spent = page.evaluate("spent")
        browser.close()
        return [value / 1000 for value in spent]


def summary(spent: list[float]) -> dict | None:
    if not spent:
        return None
    return {"median": statistics.median(spent), "p95": float(np.quantile(spent, 0.95)), "moves": len(spent)}


def measure(device: str = "cpu") -> dict:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in SHOWN:
            with serving(untrained(name, Path(folder) / name)) as address:
                person(address, 99, 10)  # warm
                one, failed = person(address, 0, MOVES)
                seen = in_browser(address, MOVES)
                began = time.perf_counter()
                with ThreadPoolExecutor(PEOPLE) as pool:
                    many = list(pool.map(lambda i: person(address, i, EACH), range(1, PEOPLE + 1)))
                found[name] = {
                    "one": summary(one),
                    "browser": summary(seen),
                    "ten": summary([value for spent, _ in many for value in spent]),
                    "seconds_ten": time.perf_counter() - began,
                    "failed": failed + sum(wrong for _, wrong in many),
                }
    return {"machine": machine(device), "models": found}


def page(result: dict) -> str:
    def shown(values: dict | None) -> str:
        return "no browser" if values is None else f"{1000 * values['median']:.0f} / {1000 * values['p95']:.0f} ms"

    rows = [
        [name, shown(found["one"]), shown(found["browser"]), shown(found["ten"]), str(found["failed"])]
        for name, found in result["models"].items()
    ]
    head = ["model", "HTTP, one person", "in the browser", f"HTTP, {PEOPLE} at once", "failed"]
    return report(
        result["machine"],
        table(head, rows),
        f"Median / 95th percentile of {MOVES} moves, for ten people of {PEOPLE * EACH}.",
        "The aim is a 95th percentile below 150 ms for one person, and no failure for ten.",
    )


if __name__ == "__main__":
    print(page(measure()))
