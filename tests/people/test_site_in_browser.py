"""The site: it is built without a warning, and opens from the file system, without network, on any screen."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cli.main import COMMANDS
from kubeskew.conformance.grammar import OPERATIONS

pytestmark = [pytest.mark.people, pytest.mark.xdist_group("site")]

ROOT = Path(__file__).parents[2]
WIDTHS = (1400, 390)
# What a page has for others to come to: it loads nothing from there.
LINKS = re.compile(r'<(?:a|link rel="canonical")[^>]*>')


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it, in strict mode: a link that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_every_document_is_a_page(site: Path):
    """Nothing below docs/ is left out; the pages made of the code have every command, operation and key."""
    documents = (ROOT / "docs").rglob("*.md")
    names = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in documents}
    names = {path.with_name("index.html") if path.name == "README.html" else path for path in names}
    assert {name for name in names if not (site / name).exists()} == set()

    commands, operations = ((site / f"{name}.html").read_text() for name in ("commands", "operations"))
    assert {name for name in COMMANDS if f'<h2 id="kubeskew-{name}">' not in commands} == set()
    sections = {each.partition('"')[0]: each for each in operations.split('<h2 id="')[1:]}
    assert {
        (kind, key)
        for kind, shape in OPERATIONS.items()
        for key in shape.keys
        if not re.search(rf"\b{key}\b", sections.get(kind.lower(), ""))
    } == set()


def test_no_page_loads_anything_from_elsewhere(site: Path):
    """Fonts, scripts, styles and pictures are the site's own."""
    outside = re.compile(r'(?:src|href)="(?:https?:)?//[^"]+"|@import|url\((?:https?:)?//')
    found = {
        str(path.relative_to(site)): outside.findall(LINKS.sub("", path.read_text()))
        for path in [*site.rglob("*.html"), *(site / "assets").rglob("*.css")]
    }
    assert {name: urls for name, urls in found.items() if urls} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_the_screen(browser: Any, site: Path, scheme: str):
    """No page is wider than a phone's or a desk's screen, says anything on the console or asks for what is
    not a file."""
    context = browser.new_context(color_scheme=scheme)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(f"{tab.url}: {message.text}"))
    tab.on("pageerror", lambda error: complaints.append(f"{tab.url}: {error}"))
    tab.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:", "blob:")) or complaints.append(request.url),
    )
    wide = {}
    for page in sorted({*site.rglob("*.html")} - {site / "404.html"}):  # which is for servers
        tab.goto(page.as_uri())
        tab.wait_for_selector("h1:visible")
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            if (found := tab.evaluate("document.documentElement.scrollWidth")) > width:
                wide[page.name] = found
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    context.close()
    assert (wide, complaints, dark) == ({}, [], scheme == "dark")


def test_words_are_found_without_a_server(tab: Any, site: Path):
    """The search, from the file system, leads to the command that is looked for."""
    tab.goto((site / "index.html").as_uri())
    tab.click("label.md-search__icon[for=__search]:visible, .md-search__input:visible")
    tab.keyboard.type("NodePrepareResources")
    tab.wait_for_selector(".md-search-result__link")
    tab.click(".md-search-result__link >> nth=0")
    tab.wait_for_selector("h1:visible")
    assert tab.url.startswith(site.as_uri())
    assert "NodePrepareResources" in tab.locator("article").inner_text()
