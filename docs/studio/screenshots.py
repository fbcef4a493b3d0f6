"""The pictures of docs/studio.md: a studio is started for a run and photographed, view by view.

    python docs/studio/screenshots.py RUN NAME [--generated]      writes NAME-edit.png, NAME-phone.png, ... here

With --generated no picture of the data is shown: all starts from samples, as it must where the data are photographs of
people. Needs Chromium. Pictures that exist are replaced.
"""

import argparse
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--generated", action="store_true")
    given = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, "-m", "segma", "studio", given.run, "--no-browser", "--port", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as studio, sync_playwright() as driver:
        assert studio.stdout
        address = studio.stdout.readline().split()[1]
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        views = {"edit": (1280, 800, "light"), "phone": (390, 844, "light"), "dark": (1280, 800, "dark")}
        for view, (w, h, scheme) in views.items():
            page = browser.new_page(viewport={"width": w, "height": h}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_selector("#stage img.now")
            start(page, given.generated, 11)
            edit(page)
            if view == "phone":
                page.locator("#controls").scroll_into_view_if_needed()
                page.evaluate("document.querySelector('#controls').scrollIntoView(); scrollBy(0, -215)")
            save(page, f"{given.name}-{'map' if view == 'dark' else view}.png", map_tab=view == "dark")
            if view == "edit":
                others(page, given.name, given.generated)
        browser.close()
        studio.send_signal(signal.SIGTERM)


def start(page: Page, generated: bool, place: int) -> None:
    """Open a picture: a row of the test split, or a sample."""
    if not generated:
        page.locator("#row input").fill(str(place))
        page.locator("#row input").press("Enter")
    else:
        page.get_by_role("tab", name="Generate", exact=True).click()
        page.wait_for_selector("#samples button")
        page.locator("#samples button").nth(place).click()
    page.wait_for_timeout(1000)


def edit(page: Page) -> None:
    """Half way somewhere: along the last attribute where there are attributes, else towards a class."""
    lever = page.locator("#controls input[type=range]:visible")
    lever.last.fill("0.9") if page.locator("#attribute-0").count() else lever.nth(5).fill("0.6")
    page.wait_for_timeout(700)


def save(page: Page, name: str, map_tab: bool = False) -> None:
    if map_tab:
        page.get_by_role("tab", name="Map", exact=True).click()
    page.wait_for_timeout(800)
    page.screenshot(path=HERE / name)


def others(page: Page, name: str, generated: bool) -> None:
    def tab(title: str) -> None:
        page.get_by_role("tab", name=title, exact=True).click()
        page.wait_for_timeout(600)

    tab("Export")
    save(page, f"{name}-take.png")
    tab("Interpolate")
    page.locator("#take-start").click()
    tab("Edit")
    start(page, generated, 6)
    tab("Interpolate")
    page.locator("#take-end").click()
    page.locator("button#interpolate").click()
    page.wait_for_selector("#strip figure")
    save(page, f"{name}-interpolate.png")
    tab("Generate")
    save(page, f"{name}-generate.png")
    tab("Model")
    page.wait_for_selector("#curves img", timeout=60_000)
    save(page, f"{name}-look.png")


if __name__ == "__main__":
    main()
