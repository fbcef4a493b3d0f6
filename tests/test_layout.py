"""What must hold across modules: imports point one way, importing is cheap, the README's program runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "segma"

# From the top down: a module may import only what stands below it (inside cli/, data/, studio/ also its neighbours).
ORDER = """
__main__ cli progress studio reproduce reproduce.figures reproduce.page reproduce.tables reproduce.cells
reproduce.paper estimator given sweep similarity edit export report measure inputs launch stack record apply metrics.fid
metrics.features metrics.inception run_data runs metrics.accuracy metrics.editing train neighbours rivals fast layers
vectors step state distributed plots draw latent density attributes baselines baselines.triple_gan baselines.triple_nets
baselines.adgm baselines.m1m2 baselines.gaussian model form clouds critic networks objective cramer_wold mixture
recipes rival_recipes data config files errors
""".split()


FOLDERS = ("cli", "data", "studio")  # whose modules stand together


def place(module: str) -> int:
    folder = module.split(".")[0]
    return ORDER.index(folder if folder in FOLDERS else module) if module else len(ORDER)


def imports(path: Path) -> set[str]:
    """The segma modules a file imports, wherever in it (the public names in __init__ are lazy and do not count)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "segma"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "segma":
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if is_module(name) else node.module for name in whole}
    return {name.removeprefix("segma").removeprefix(".") for name in found}


def is_module(name: str) -> bool:
    path = SOURCE.parent / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_point_down():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").strip(".")
        if module in ("", "metrics"):
            continue
        for other in imports(path):
            if place(other) < place(module) or (place(other) == place(module) and not module.startswith(FOLDERS)):
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_every_module_says_what_it_is():
    for path in SOURCE.rglob("*.py"):
        doc = ast.get_docstring(ast.parse(path.read_text()))
        assert doc, path
        assert doc.split("\n")[0].strip(), path


def loaded_by(code: str) -> set[str]:
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout
    return set(out.split())


def test_help_and_import_are_cheap():
    heavy = {"torch", "sklearn", "scipy", "PIL", "matplotlib"}
    assert not heavy & loaded_by("import segma")
    assert not heavy & loaded_by(
        "import sys, io, contextlib; sys.argv = ['segma', '--help']\nimport segma.cli\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): segma.cli.main()"
    )


def test_no_pickle_is_read():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert not re.search(r"torch\.load\((?![^)]*weights_only=True)", text), path
        assert "allow_pickle=True" not in text, path


def test_the_readmes_program_runs(tmp_path):
    """Every Python block of the README, in order, in one process."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(blocks)], cwd=tmp_path, check=True)


def anchors(page: Path) -> set[str]:
    """What links may name in a page, as GitHub makes it of its headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_in_the_docs_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for file, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
            if "://" not in file:
                target = page.parent / file if file else page
                assert target.exists(), f"{page.name}: {file}"
                assert not anchor or anchor in anchors(target), f"{page.name}: {file}#{anchor}"


def test_the_map_names_what_exists():
    """Every function and test in docs/paper_map.md is there."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    for name in re.findall(r"\btest_\w+(?!\w*\.py)\b", text):
        assert f"def {name}(" in tests or (ROOT / "tests" / f"{name}.py").exists(), name
    for module, name in re.findall(r"`(cramer_wold|objective|networks|model|latent|apply|train|step)\.(\w+)", text):
        source = (SOURCE / f"{module}.py").read_text()
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), f"{module}.{name}"
