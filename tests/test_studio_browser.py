"""The studio as a person uses it: headless Chromium goes through every view, and no request may leave this computer."""

import base64
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("segma.studio", reason="the studio is not there")
pytest.importorskip("gradio", reason="the studio needs Gradio: pip install 'segma[studio]'")
playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'segma[test]'")

from segma import runs
from segma.studio import view
from studio_run import fitted, serving, trained
from test_studio import BAD, NAMES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if not CHROMIUM:
    pytest.skip("needs a browser: apt-get install chromium", allow_module_level=True)

expect, Page = playwright.expect, playwright.Page
WAIT = 20_000  # milliseconds; a busy machine is slow


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two runs in a folder of their own: the second is a copy to switch to."""
    run = trained(tmp_path_factory.mktemp("runs") / "digits-1")
    shutil.copytree(run, run.with_name("other"))
    return run


@pytest.fixture(scope="module")
def address(run) -> Iterator[str]:
    with serving(run) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address) -> Iterator[Page]:
    """The studio, loaded; requests to other hosts are stopped, and fail the test, as errors in the page do."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    page, foreign, wrong = context.new_page(), [], []

    def gate(route) -> None:
        inside = route.request.url.startswith(address)
        if not inside:
            foreign.append(route.request.url)
        route.continue_() if inside else route.abort()

    context.route(re.compile("^https?:|^wss?:"), gate)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.set_default_timeout(WAIT)
    page.goto(address)
    page.wait_for_selector("#stage img.now")
    page.wait_for_selector("#towards-5")
    yield page
    context.close()
    assert not foreign
    assert not wrong


def pixels(page: Page, where: str = "#stage img.now") -> np.ndarray:
    """What an <img> holds, at the model's resolution."""
    source = page.locator(where).first.get_attribute("src")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.split("base64,")[1]))).convert("L")).astype(int)


def posterior(page: Page) -> dict[str, float]:
    rows = page.locator("#bars li").all_inner_texts()
    parts = [re.split(r"\s+", row.strip().replace("\xa0", " ")) for row in rows]
    return {part[0]: float(part[1]) for part in parts}


def changed(page: Page, before: np.ndarray, where: str = "#stage img.now") -> np.ndarray:
    """Wait until the picture is another."""
    for _ in range(WAIT // 50):
        now = pixels(page, where)
        if now.shape != before.shape or (now != before).any():
            return now
        page.wait_for_timeout(50)
    raise AssertionError("the picture has not changed")


def slide(page: Page, name: str, value: float) -> None:
    page.locator(f"#{name} input[type=range]").fill(str(value))


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def picture_file(folder: Path, x: np.ndarray, name: str = "mine.png") -> Path:
    Image.fromarray(x).save(folder / name)
    return folder / name


def own_digit() -> np.ndarray:
    """A seven, larger than the model's pictures and not square."""
    x = np.zeros((64, 80), np.uint8)
    x[10:18, 24:56], x[18:56, 40:50] = 255, 255
    return x


def test_open_edit_undo_and_compare(page, tmp_path):
    # upload
    before = pixels(page)
    page.locator("#upload input[type=file]").set_input_files(picture_file(tmp_path, own_digit()))
    expect(page.locator("#given")).to_contain_text("mine.png: 80 x 64 grey, centre cut, resized to 8 x 8")
    first = changed(page, before)
    assert first.shape == (8, 8)
    seen, again = pixels(page, "#given img"), pixels(page, "#given figure:nth-child(2) img")
    expected = np.asarray(Image.fromarray(own_digit()[:, 8:72]).resize((8, 8), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(seen - expected).max() <= 1
    assert np.array_equal(again, first)

    # a slider changes the pixels and moves the posterior; another adds to it
    was = posterior(page)
    assert sum(was.values()) == pytest.approx(100, abs=1)
    goal = "2" if max(was, key=was.get) != "2" else "6"
    slide(page, f"towards-{goal}", 1)
    second = changed(page, first)
    now = posterior(page)
    assert now[goal] > was[goal] + 20
    tab(page, "Intensity")
    slide(page, "intensity-8", 0.6)
    third = changed(page, second)
    slide(page, "style", 0.2)
    fourth = changed(page, third)

    # back and forth
    page.locator("#undo").click()
    assert np.array_equal(changed(page, fourth), third)
    expect(page.locator("#style input[type=number]")).to_have_value("1")
    page.locator("#undo").click()
    assert np.array_equal(changed(page, third), second)
    assert posterior(page) == now
    page.locator("#redo").click()
    assert np.array_equal(changed(page, second), third)
    page.locator("#reset").click()
    assert np.array_equal(changed(page, third), first)
    tab(page, "Towards a class")
    expect(page.locator(f"#towards-{goal} input[type=number]")).to_have_value("0")
    page.locator("#undo").click()
    assert np.array_equal(changed(page, first), third)

    # compare: hold, with the mouse and with a key, and swipe
    given = page.locator("#stage img.before")
    clip = "element => getComputedStyle(element).clipPath"
    assert given.evaluate(clip).startswith("inset(0px 100%") or "calc" in given.evaluate(clip)
    page.locator("#hold").hover()
    page.mouse.down()
    assert given.evaluate(clip) == "none"
    page.mouse.up()
    assert given.evaluate(clip) != "none"
    page.locator("#hold").focus()
    page.keyboard.down("Space")
    assert given.evaluate(clip) == "none"
    page.keyboard.up("Space")
    assert given.evaluate(clip) != "none"
    slide(page, "swipe", 40)
    page.wait_for_function("getComputedStyle(document.querySelector('#stage img.before')).clipPath.includes('60%')")
    assert np.array_equal(pixels(page, "#stage img.before"), seen)
    page.locator("#another").click()  # another picture is shown whole
    expect(page.locator("#swipe input[type=number]")).to_have_value("0")
    page.wait_for_function("getComputedStyle(document.querySelector('#stage img.before')).clipPath.includes('100%')")


def test_a_test_picture_a_pasted_and_a_drawn_one(page):
    before = pixels(page)
    page.locator("#row input").fill("12")
    page.locator("#row input").press("Enter")
    expect(page.locator("#given")).to_contain_text("row 12 of the test split, labelled")
    twelfth = changed(page, before)
    page.locator("#another").click()
    changed(page, twelfth)

    shown = pixels(page)
    page.evaluate(
        """async () => {
            const canvas = Object.assign(document.createElement("canvas"), {width: 40, height: 40});
            const pen = canvas.getContext("2d"); pen.fillStyle = "white"; pen.fillRect(18, 4, 6, 32);
            const blob = await new Promise((done) => canvas.toBlob(done));
            const clip = new DataTransfer(); clip.items.add(new File([blob], "clip.png", {type: "image/png"}));
            document.dispatchEvent(new ClipboardEvent("paste", {clipboardData: clip}));
        }"""
    )
    expect(page.locator("#given")).to_contain_text("clip.png: 40 x 40")
    shown = changed(page, shown)

    page.get_by_text("Draw one").click()
    box = page.locator("#canvas canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"]
    page.mouse.move(x, y + 0.15 * box["height"])
    page.mouse.down()
    page.mouse.move(x, y + 0.85 * box["height"], steps=8)
    page.mouse.up()
    expect(page.locator("#given")).to_contain_text("drawing.png: 280 x 280 colour, resized to 8 x 8")
    drawn = pixels(page, "#given img")
    assert drawn[2:6, 3:5].min() > 120  # a light stroke down the middle
    assert drawn[:, [0, 7]].max() < 30
    changed(page, shown)


def test_the_slider_of_the_own_class_is_locked(page):
    """And the lock moves with the picture, and with nothing else."""

    def own() -> str:
        locked = page.locator("#controls .lever:has(input[type=range]:disabled):visible label")
        expect(locked).to_have_count(1)
        return locked.inner_text().strip()

    labels = []
    for row in (0, 1, 5, 12):
        before = pixels(page, "#given img")
        page.locator("#row input").fill(str(row))
        page.locator("#row input").press("Enter")
        if row:
            changed(page, before, "#given img")
        taken = max(posterior(page), key=posterior(page).get)
        expect(page.locator(f"#towards-{taken} input[type=range]")).to_be_disabled()
        labels.append(own())
        assert labels[-1] == f"{taken} (its own)"
        goal = "2" if taken != "2" else "6"
        shown = pixels(page)
        slide(page, f"towards-{goal}", 1)
        there = changed(page, shown)
        assert own() == labels[-1]
        page.locator("#reset").click()
        changed(page, there)
        assert own() == labels[-1]
    assert len(set(labels)) > 1


def test_a_long_drag_is_one_step_to_undo(page):
    before = pixels(page)
    box = page.locator("#towards-5 input[type=range]").bounding_box()
    x, y = box["x"] + 8, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for i in range(6):
        page.mouse.move(x + (i + 1) / 8 * (box["width"] - 16), y)
        page.wait_for_timeout(1200)
    page.mouse.up()
    page.locator("#undo").click()
    for _ in range(WAIT // 50):
        if np.array_equal(pixels(page), before):
            break
        page.wait_for_timeout(50)
    assert np.array_equal(pixels(page), before)
    expect(page.locator("#undo")).to_be_disabled()


def test_what_a_picture_is_taken_for_again_is_said_where_it_is_seen(page):
    tab(page, "Map")
    page.wait_for_timeout(300)
    box = page.locator("#map svg").bounding_box()
    for x, y in np.random.default_rng(0).uniform(0.02, 0.98, (40, 2)):
        before = pixels(page)
        page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        changed(page, before)
        if said := page.locator("#bars .again").inner_text():
            break
    assert re.fullmatch(r"Read again from the picture: \d, \d+ %", said)
    lines = [page.locator(f"#bars {part}").bounding_box() for part in (".again", ".bars")]
    assert lines[0]["y"] + lines[0]["height"] <= lines[1]["y"]
    assert lines[1]["y"] + lines[1]["height"] <= 800  # ten classes, all of them


def test_a_list_of_choices_closes_when_the_keyboard_leaves_it(page):
    choices = page.get_by_role("listbox")
    for leave in ("Tab", "Escape"):
        page.locator("#run input").focus()
        expect(choices).to_have_count(1)
        page.keyboard.press(leave)
        expect(choices).to_have_count(0)
        page.keyboard.press("Tab")
        page.wait_for_timeout(300)
        expect(choices).to_have_count(0)
    page.locator("#run input").click()
    page.get_by_role("option", name="other", exact=True).click()
    expect(page.locator("#run input")).to_have_value("other")
    expect(choices).to_have_count(0)


def test_the_map_is_clicked_dragged_and_walked(page):
    before, was = pixels(page), posterior(page)
    goal = "2" if max(was, key=was.get) != "2" else "6"
    slide(page, f"towards-{goal}", 0.4)
    slid = changed(page, before)
    tab(page, "Map")
    page.wait_for_timeout(300)
    ring = page.locator("#map svg > circle").nth(int(goal)).bounding_box()
    marker, box = page.locator("#marker svg"), page.locator("#map svg").bounding_box()

    # a click into a circle: that class, as by its slider, and one step to undo
    page.evaluate(
        "window.sent = []; window.fetch = new Proxy(fetch, {apply: (f, _, a) => (sent.push(a[0] + ''), f(...a))})"
    )
    page.mouse.click(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    clicked = changed(page, slid)
    page.wait_for_timeout(300)
    assert posterior(page)[goal] > 90
    expect(page.locator(f"#towards-{goal} input[type=number]")).to_have_value("1")
    assert len([address for address in page.evaluate("sent") if "predict" in address or "join" in address]) == 1
    page.locator("#undo").click()
    assert np.array_equal(changed(page, clicked), slid)
    expect(page.locator(f"#towards-{goal} input[type=number]")).to_have_value("0.4")

    # a click outside all circles, a drag and a key: on the plane
    def at() -> tuple[float, float]:
        return tuple(float(marker.get_attribute(f"data-{axis}")) for axis in "xy")

    page.mouse.click(box["x"] + 3, box["y"] + 3)
    moved = changed(page, slid)
    assert at() == pytest.approx((3 / box["width"], 3 / box["height"]), abs=0.02)
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.9 * box["height"], steps=6)
    page.mouse.up()
    changed(page, moved)
    expect(marker).to_have_attribute("data-x", re.compile(r"^0\.(19|20)"))
    expect(page.locator(f"#towards-{goal} input[type=number]")).to_have_value("0.4")
    dragged = pixels(page)
    page.locator("#map svg").focus()
    page.keyboard.press("ArrowRight")
    expect(marker).to_have_attribute("data-x", re.compile(r"^0\.(22|23)"))
    changed(page, dragged)


def test_names_on_the_map_stay_inside_and_apart(page):
    """As the browser lays them out, names of wide letters among them."""
    centres = np.array([[0.0, 0.0], [0.4, 0.1], [0.6, -0.1], [9.0, 5.0], [9.0, 5.1], [4.0, 9.0], [4.2, 9.0]])
    names = [
        "Egyptian fruit bat, male",
        "Egyptian fruit bat, female",
        "MMMMMM WWWWWW mmm",
        "yellow star",
        "yellow square",
    ]
    drawn = view.latent_map(np.empty((0, 2)), np.empty(0, int), centres, np.full(7, 0.3), [*names, "circle", "ring"])
    boxes = page.evaluate(
        """(drawn) => {
            const place = document.body.appendChild(document.createElement("div"));
            place.className = "gradio-container"; place.style.width = "400px"; place.innerHTML = drawn;
            const boxes = [...place.querySelectorAll("text")].map((text) => text.getBBox());
            return boxes.map((box) => [box.x, box.y, box.width, box.height]);
        }""",
        drawn,
    )
    for i, (x, y, w, h) in enumerate(boxes):
        assert min(x, y) >= 0
        assert max(x + w, y + h) <= 100
        for u, v, w2, h2 in boxes[:i]:
            assert x + w <= u or u + w2 <= x or abs(y + h / 2 - v - h2 / 2) > 0.7 * h


def test_a_number_beyond_a_sliders_limits_is_cut_and_an_empty_one_ignored(page):
    before = pixels(page)
    box = page.locator("#towards-5 input[type=number]")
    box.fill("5")
    box.press("Tab")
    expect(box).to_have_value("1")
    there = changed(page, before)
    box.fill("")
    page.wait_for_timeout(300)
    assert np.array_equal(pixels(page), there)
    box.press("Tab")
    expect(box).to_have_value("1")
    box.fill("-3")
    box.press("Enter")
    expect(box).to_have_value("0")
    assert np.array_equal(changed(page, there), before)
    tab(page, "Interpolate")
    steps = page.locator("#steps input[type=number]")
    steps.click()
    steps.press("Control+a")
    steps.press_sequentially("12")  # 1 alone is too few: it is left until typing ends
    steps.press("Tab")
    expect(steps).to_have_value("12")
    steps.fill("1")
    steps.press("Tab")
    expect(steps).to_have_value("3")
    steps.fill("12")
    page.locator("button#interpolate").click()
    expect(page.locator("#strip figure")).to_have_count(12)
    expect(page.locator(".toast-body")).to_have_count(0)


def test_a_negative_is_said_and_inverted(page, tmp_path):
    expect(page.locator("#invert")).to_be_hidden()
    page.locator("#upload input[type=file]").set_input_files(picture_file(tmp_path, 255 - own_digit()))
    expect(page.locator(".toast-body").first).to_contain_text("mine.png: a negative")
    expect(page.locator("#given")).to_contain_text("mine.png: 80 x 64")
    given = pixels(page, "#given img")
    page.locator("#invert").click()
    expect(page.locator("#given")).to_contain_text("mine-inverted.png")
    assert np.array_equal(changed(page, given, "#given img"), 255 - given)
    expect(page.locator("#invert")).to_be_hidden()
    tab(page, "Export")
    expect(page.locator("#files a", has_text="mine-inverted.png")).to_have_count(1)


def test_a_picture_of_one_colour_is_said(page, tmp_path):
    page.locator("#upload input[type=file]").set_input_files(picture_file(tmp_path, np.full((20, 20), 255, np.uint8)))
    expect(page.locator(".toast-body").first).to_contain_text("mine.png: of one colour only")
    expect(page.locator("#given")).to_contain_text("of one colour only")
    expect(page.locator("#invert")).to_be_hidden()


def test_programs_name_a_file_that_is_in_the_list(page, tmp_path):
    """Gradio drops letters of a name."""
    before = pixels(page)
    page.locator("#upload input[type=file]").set_input_files(picture_file(tmp_path, own_digit(), "my [7] & co.jpg"))
    opened = changed(page, before)
    slide(page, "towards-2", 0.5)
    changed(page, opened)
    tab(page, "Export")
    expect(page.locator("#files a")).to_have_count(5)
    name = page.locator("#files a").last.inner_text()
    assert name.endswith(".png")
    expect(page.locator("#python")).to_contain_text(f"{name!r}]).x)  # download it from the list above")
    expect(page.locator("#shell")).to_contain_text(f"# {name}: download it from the list above")


def test_a_file_dropped_anywhere_is_opened(page):
    kept = page.evaluate(
        """async () => {
            const canvas = Object.assign(document.createElement("canvas"), {width: 40, height: 40});
            const blob = await new Promise((done) => canvas.toBlob(done));
            const moved = new DataTransfer(); moved.items.add(new File([blob], "fell.png", {type: "image/png"}));
            const options = {bubbles: true, cancelable: true, dataTransfer: moved};
            const events = ["dragover", "drop"].map((name) => new DragEvent(name, options));
            return events.map((event) => document.querySelector("#bars").dispatchEvent(event));
        }"""
    )
    assert kept == [False, False]  # the browser's own way with it, which leaves the page, is prevented
    expect(page.locator("#given")).to_contain_text("fell.png: 40 x 40")


def test_interpolate(page):
    tab(page, "Interpolate")
    page.locator("#take-start").click()
    expect(page.locator("#start")).to_contain_text("test:0")
    tab(page, "Edit")
    page.locator("#row input").fill("40")
    page.locator("#row input").press("Enter")
    expect(page.locator("#given")).to_contain_text("row 40")
    tab(page, "Interpolate")
    page.locator("#take-end").click()
    expect(page.locator("#end")).to_contain_text("test:40")
    expect(page.locator("#way-python")).to_be_hidden()
    page.locator("button#interpolate").click()
    expect(page.locator("#strip figure")).to_have_count(9)
    frames = [pixels(page, f"#strip figure:nth-child({i}) img") for i in (1, 5, 9)]
    assert (frames[0] != frames[1]).any()
    assert (frames[1] != frames[2]).any()
    film = page.locator("#strip img.film").get_attribute("src")
    with Image.open(io.BytesIO(base64.b64decode(film.split("base64,")[1]))) as opened:
        assert opened.n_frames == 16
    page.get_by_label("along the density").check()
    page.locator("button#interpolate").click()
    expect(page.locator("#way-shell")).to_contain_text("--path density")
    expect(page.locator("#way-shell")).to_contain_text("test:0 test:40 --steps 9")


def test_a_way_that_is_shown_is_that_of_the_ends_and_settings_shown(page):
    tab(page, "Interpolate")
    page.wait_for_timeout(400)  # no hand is there before the tab is
    slide(page, "steps", 5)
    page.get_by_label("along the density").check()
    page.wait_for_timeout(500)
    expect(page.locator("#strip figure")).to_have_count(0)  # nobody has asked for one
    page.locator("button#interpolate").click()
    expect(page.locator("#strip figure")).to_have_count(5)
    slide(page, "steps", 7)
    expect(page.locator("#strip figure")).to_have_count(7)
    page.get_by_label("straight line").check()
    expect(page.locator("#way-shell")).to_contain_text("test:0 test:1 --steps 7 --path linear")
    for end, row in (("start", 40), ("end", 41)):
        tab(page, "Edit")
        page.locator("#row input").fill(str(row))
        page.locator("#row input").press("Enter")
        expect(page.locator("#given")).to_contain_text(f"row {row}")
        slide(page, "towards-2", 0.5)
        given = pixels(page, "#given img")
        tab(page, "Interpolate")
        page.get_by_role("button", name=re.compile(f"^{end}.*the open picture, as given$", re.IGNORECASE)).click()
        expect(page.locator(f"#{end}")).to_contain_text(f"test:{row}")
        assert np.array_equal(pixels(page, f"#{end} img"), given)
        expect(page.locator("#strip")).to_be_empty()
        for program in ("#way-python", "#way-shell"):
            expect(page.locator(program)).to_be_hidden()
        page.locator("button#interpolate").click()
        expect(page.locator("#strip figure")).to_have_count(7)
    expect(page.locator("#way-shell")).to_contain_text("test:40 test:41 --steps 7 --path linear")


def test_generate_and_edit_a_sample(page):
    before = pixels(page)
    tab(page, "Generate")
    expect(page.locator("#samples button")).to_have_count(16)
    one = pixels(page, "#samples img")
    page.locator("#seed input").fill("5")
    page.locator("#seed input").press("Tab")
    two = changed(page, one, "#samples img")
    slide(page, "spread", 0)
    alike = changed(page, two, "#samples img")
    assert np.array_equal(alike, pixels(page, "#samples button:nth-child(16) img"))
    slide(page, "spread", 1.5)
    changed(page, alike, "#samples img")
    page.locator("#label input").click()
    page.get_by_role("option", name="4", exact=True).click()
    expect(page.locator("#samples-shell")).to_contain_text("--label 4 -n 16 --seed 5 --spread 1.5")
    page.wait_for_timeout(500)
    chosen = pixels(page, "#samples button:nth-child(3) img")
    page.locator("#samples button").nth(2).click()
    expect(page.locator("#given")).to_contain_text("generated: '4', number 3 of seed 5, spread 1.5")
    expect(page.get_by_role("tab", name="Edit", exact=True)).to_have_attribute("aria-selected", "true")
    assert np.array_equal(pixels(page, "#given img"), chosen)
    edited = changed(page, before)
    assert np.array_equal(edited, pixels(page, "#given figure:nth-child(2) img"))
    assert 0 < np.abs(edited - chosen).mean() < 40
    expect(page.get_by_text("from the code that the model finds for it, which gives it back")).to_have_count(1)

    # a click that comes before the gallery has followed the controls opens what was clicked
    tab(page, "Generate")
    expect(page.locator("#samples button")).to_have_count(16)
    page.wait_for_timeout(500)
    clicked = pixels(page, "#samples button:nth-child(6) img")
    page.evaluate(
        """() => {
            const seed = document.querySelector("#seed input");
            seed.value = "6"; seed.dispatchEvent(new Event("input", {bubbles: true}));
            document.querySelectorAll("#samples button")[5].click();
        }"""
    )
    expect(page.locator("#given")).to_contain_text("number 6 of seed 5, spread 1.5")
    assert np.array_equal(pixels(page, "#given img"), clicked)


def test_what_the_model_is(page):
    tab(page, "Model")
    for name in ("close", "curves"):
        expect(page.locator(f"#{name} img")).to_be_visible()
        assert page.locator(f"#{name} img").evaluate("image => image.naturalWidth") > 300
    expect(page.locator("#results")).to_contain_text(re.compile("not measured yet"))


def test_export(page, tmp_path, run):
    before = pixels(page)
    slide(page, "towards-5", 0.6)
    shown = changed(page, before)
    tab(page, "Export")
    expect(page.locator("#files a")).to_have_count(4)

    def saved(name: str) -> Path:
        with page.expect_download() as waiting:
            page.locator("#files a", has_text=re.compile(f"^{re.escape(name)}$")).click()
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
        return tmp_path / name

    with Image.open(saved("picture.png")) as picture:
        assert np.array_equal(np.asarray(picture).astype(int), shown)
    with Image.open(saved("path.gif")) as film:
        assert film.n_frames == 20
    content = json.loads(saved("code.json").read_text())
    assert content["edit"]["towards"] == {"5": 0.6}
    expect(page.locator("#shell")).to_contain_text(f"segma transfer {run} test:0 --to 5 --steps 6 --out transfer.png")
    expect(page.locator("#python")).to_contain_text("model.edit(x, towards={5: 0.6})")


@pytest.mark.parametrize("name", ["huge.png", "text.png", "short.png", "bomb.png", "heavy.png"])
def test_a_bad_upload_gets_a_message_and_the_page_lives(page, tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name][0])
    before = pixels(page)
    page.locator("#upload input[type=file]").set_input_files(tmp_path / name)
    expect(page.locator(".toast-body").first).to_be_visible()
    said = page.locator(".toast-body").first.inner_text()
    assert name in said or "size" in said.lower()
    assert np.array_equal(pixels(page), before)
    slide(page, "towards-2", 1)
    changed(page, before)


def test_after_a_bad_upload_a_good_one_opens(page, tmp_path):
    (tmp_path / "text.png").write_bytes(BAD["text.png"][0])
    before = pixels(page)
    page.locator("#upload input[type=file]").set_input_files(tmp_path / "text.png")
    expect(page.locator(".toast-body").first).to_be_visible()
    page.locator("#upload input[type=file]").set_input_files(picture_file(tmp_path, own_digit()))
    expect(page.locator("#given")).to_contain_text("mine.png")
    changed(page, before)


def test_another_run_is_chosen(page):
    before = pixels(page)
    slide(page, "towards-5", 1)
    changed(page, before)
    page.locator("#run input").click()
    page.get_by_role("option", name="other", exact=True).click()
    expect(page.locator("#towards-5 input[type=number]")).to_have_value("0")
    expect(page.locator("#undo")).to_be_disabled()
    tab(page, "Generate")
    expect(page.locator("#samples-shell")).to_contain_text("other --label 0")
    page.reload()  # stays with it
    expect(page.locator("#run input")).to_have_value("other")
    slide(page, "towards-5", 1)
    changed(page, before)
    tab(page, "Export")
    expect(page.locator("#shell")).to_contain_text("other test:0 --to 5")
    page.goto(f"{page.url.partition('?')[0]}?run=gone")
    expect(page.locator(".toast-body").first).to_contain_text("run gone: allowed are digits-1, other")
    expect(page.locator("#run input")).to_have_value("digits-1")
    slide(page, "towards-5", 1)
    changed(page, before)


def test_a_damaged_run_leaves_the_open_one_as_it_is(page, run):
    """It is damaged after the studio has listed it, as a run is that is deleted or being copied."""
    broken = run.with_name("broken")
    shutil.copytree(run, broken)
    try:
        page.reload()  # a run that came later is listed
        page.wait_for_selector("#stage img.now")
        page.wait_for_selector("#towards-5")
        page.wait_for_timeout(500)
        before = pixels(page)
        (broken / "model.safetensors").write_bytes(b"no model")
        page.locator("#run input").click()
        page.get_by_role("option", name="broken", exact=True).click()
        expect(page.locator(".toast-body").first).to_contain_text("broken")
        expect(page.locator("#run input")).to_have_value("digits-1")
        expect(page).to_have_url(re.compile("run=digits-1$"))  # should it be loaded again
        slide(page, "towards-5", 1)
        changed(page, before)
        tab(page, "Export")
        expect(page.locator("#shell")).to_contain_text("digits-1 test:0 --to 5")
    finally:
        shutil.rmtree(broken)


def test_runs_that_come_later_are_listed_and_an_unfinished_one_says_so(page, run):
    """One with attributes, where none had any when the studio was started."""
    came = [fitted(run.with_name("faces"), NAMES), Path(shutil.copytree(run, run.with_name("stopped")))]
    try:
        stopped = runs.read(came[1])
        runs.save_model(stopped, runs.load_model(stopped), 53)
        page.reload()
        page.wait_for_selector("#towards-5")
        page.wait_for_timeout(500)
        page.locator("#run input").click()
        page.get_by_role("option", name="faces", exact=True).click()
        expect(page.get_by_role("tab", name="Attributes", exact=True)).to_have_attribute("aria-selected", "true")
        expect(page.locator("#attribute-1")).to_contain_text("sad \N{LEFT RIGHT ARROW} smiling")
        expect(page.locator("#attribute-2")).to_have_count(0)
        expect(page.locator("#about")).not_to_contain_text("has trained")
        before = pixels(page)
        slide(page, "attribute-1", 1)
        changed(page, before)
        page.locator("#run input").click()
        page.get_by_role("option", name="stopped", exact=True).click()
        expect(page.locator("#about")).to_contain_text(f"It has trained 53 of its {runs.steps_to_do(stopped)} steps")
    finally:
        for path in came:
            shutil.rmtree(path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_focused_and_what_is_written_can_be_seen(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.reload()
    page.wait_for_selector("#stage img.now")
    slider = page.locator("#towards-5 input[type=range]")
    ring = """element => {
        const style = getComputedStyle(element);
        return element.matches(":focus") && style.outlineStyle === "solid" ? parseFloat(style.outlineWidth) : 0;
    }"""
    assert slider.evaluate(ring) == 0
    page.locator("#towards-5 input[type=number]").focus()
    page.keyboard.press("Tab")
    assert slider.evaluate(ring) >= 2
    drawn = Image.open(io.BytesIO(page.locator("#towards-4 input[type=range]").screenshot())).convert("RGB")
    ground = luminance(str(drawn.getpixel((drawn.width - 1, 0))))
    seen = [contrast(ground, luminance(str(colour))) for _, colour in drawn.getcolors(10**6)]
    assert max(seen) >= 3  # the thumb: the slider is at 0, so that its track is pale
    tab(page, "Export")
    expect(page.locator("#python .cm-line span").first).to_be_visible()
    inks = page.locator("#python .cm-editor").evaluate(
        """editor => [...editor.querySelectorAll(".cm-line, .cm-line span, .cm-gutterElement")].map(getComputedStyle)
            .map((style) => [style.color, style.filter.match(/brightness\\((.*)\\)/)?.[1] ?? "1"])"""
    )
    paper = luminance(page.locator("#python").evaluate("element => getComputedStyle(element).backgroundColor"))
    assert len(inks) > 30
    for ink, factor in inks:
        assert contrast(paper, luminance(ink, float(factor))) >= 4.5, ink


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_circle_of_the_map_is_seen(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.reload()
    page.wait_for_selector("#towards-5")
    tab(page, "Map")
    page.wait_for_timeout(300)
    paper = luminance(page.locator("#map svg").evaluate("element => getComputedStyle(element).backgroundColor"))
    inks = page.evaluate(
        "[...document.querySelectorAll('#map svg > circle')].map((ring) => getComputedStyle(ring).stroke)"
    )
    assert len(set(inks)) == 10
    assert min(contrast(paper, luminance(ink)) for ink in inks) > 1.8


def luminance(colour: str, factor: float = 1.0) -> float:
    """Of rgb(r, g, b), as WCAG 2 defines it."""
    rgb = factor * np.array([float(part) for part in re.findall(r"[\d.]+", colour)][:3]) / 255
    linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def contrast(one: float, other: float) -> float:
    """Of two luminances."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_every_control_is_reached_by_keyboard_and_named(page):
    slider = page.get_by_label("range slider for 5").first
    before = pixels(page)
    slider.focus()
    page.keyboard.press("End")
    changed(page, before)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, a, svg[tabindex]')]
            .filter((e) => e.offsetParent !== null && e.type !== 'file')
            .filter((e) => !(e.innerText?.trim() || e.getAttribute('aria-label') || e.title || e.labels?.length
                || e.closest('label')))
            .map((e) => e.outerHTML.slice(0, 160))"""
    )
    assert unnamed == []


def test_on_a_telephone_the_sliders_come_before_the_bars(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    top = {name: page.locator(f"#{name}").bounding_box()["y"] for name in ("stage", "towards-0", "bars", "given")}
    assert sorted(top, key=top.get) == list(top)
    assert top["towards-0"] - top["stage"] < 500


def test_white_pictures_have_an_edge(page):
    for name in ("Edit", "Interpolate", "Generate"):
        tab(page, name)
        if name == "Interpolate":
            page.locator("button#interpolate").click()
            page.wait_for_selector("#strip .film")
        page.wait_for_timeout(300)
        edges = page.evaluate(
            """() => [...document.querySelectorAll(".pixels, .film")].filter((image) => image.offsetParent)
                .map((image) => getComputedStyle(image.closest(".stage") ?? image).borderTopWidth)"""
        )
        assert edges
        assert set(edges) == {"1px"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_nothing_is_wider_than_the_window(page, size, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for name in ("Edit", "Interpolate", "Generate", "Model", "Export"):
        tab(page, name)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], name
