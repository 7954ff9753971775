"""The report's page in a browser: filters, keys, a cell's details, on a phone and by the hundred."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubeskew.conformance.evidence.components import ComponentRun
from kubeskew.conformance.evidence.lives import LifeEvent, PodLife
from kubeskew.conformance.evidence.nodes import DriverCall
from kubeskew.conformance.report import Repeating, Run, write
from kubeskew.conformance.results import CellResult, OperationResult, StepResult

pytestmark = pytest.mark.people


def at(second: float) -> str:
    return f"2026-01-01T00:00:{second:09.6f}Z"


def cell(name: str, found: str = "") -> CellResult:
    """A cell with an upgrade, a pod and a driver's call; it fails if something is `found`."""
    look = OperationResult("look", "assert", 0.5, "a <b>Pod</b>" if found else "", found)
    result = CellResult(
        name, "s/a", {}, [StepResult("it looks", [look], since=at(1), until=at(3))], 4.0, seed=3
    )
    result.began, result.ended = at(0), at(4)
    result.components = [
        ComponentRun("scheduler", "1.35", "DRAExtendedResource=true", at(0), at(2), "killed"),
        ComponentRun("scheduler", "1.36", "DRAExtendedResource=false", at(2.5)),
    ]
    result.pods = [PodLife("ns", "web", "u", "node-1", [LifeEvent(5, at(1), "created", "kubectl")])]
    result.calls = [DriverCall(at(1.5), "node-1", "gpu.example.com", "NodePrepareResources", "ns", "c", "u")]
    result.logs = {"scheduler": "a line\nanother"} if found else {}
    return result


def report(folder: Path, *cells: CellResult) -> str:
    again = Repeating(["kubeskew", "matrix"], {})
    write(Run("mine", datetime(2026, 1, 1, tzinfo=UTC), cells, repeating=again), folder)
    return (folder / "index.html").as_uri()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return report(tmp_path, cell("s/a/1.35-1.36"), cell("s/a/1.36", "no <i>Pod</i>"), cell("s/a/1.37"))


def chips(tab: Any) -> list[str]:
    return [each.get_attribute("title").partition(":")[0] for each in tab.locator(".chip:visible").all()]


def test_counts_and_words_filter(tab: Any, url: str):
    """A click on a count leaves its cells, words leave those with them, and the address brings both back."""
    tab.goto(url)
    assert chips(tab) == ["s/a/1.35-1.36", "s/a/1.36", "s/a/1.37"]
    tab.click("button[data-result=failed]")
    assert chips(tab) == ["s/a/1.36"]
    tab.click("button[data-result=failed]")
    tab.fill("#search", "1.36")
    assert chips(tab) == ["s/a/1.35-1.36", "s/a/1.36"]
    tab.click("button[data-result=passed]")
    assert chips(tab) == ["s/a/1.35-1.36"]
    tab.goto("about:blank")
    tab.goto(f"{url}#words=1.36&only=passed")
    assert chips(tab) == ["s/a/1.35-1.36"]
    assert tab.locator("#shown").inner_text() == "1 of 3 shown"


def test_a_cell_shows_all_that_is_known(tab: Any, url: str):
    """Failure, command, lanes with full labels, expected next to found, and logs; texts are no markup."""
    tab.goto(url)
    tab.click(".chip.failed")
    tab.wait_for_selector("#opened h1")
    text = tab.locator("#opened").inner_text()

    assert "✗ failed s/a/1.36" in text
    assert "kubeskew matrix s/a --only s/a/1.36 --simulate --seed 3" in text
    assert "1: 1.35 DRAExtendedResource=true · 0.00 s to 2.00 s · ✗ killed" in text
    assert "2: 1.36 DRAExtendedResource=false · 2.50 s to the end" in text
    assert "ns/web on node-1" in text
    assert tab.locator(".sides pre").all_inner_texts() == ["a <b>Pod</b>", "no <i>Pod</i>"]
    left, right = (each.bounding_box() for each in tab.locator(".sides > div").all())
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    tab.click("summary:has-text('scheduler: 2 lines')")
    tab.wait_for_selector("details pre:visible:has-text('another')")
    tab.click("summary:has-text('Calls and lives')")
    tab.wait_for_selector("#opened td:has-text('NodePrepareResources')")


def test_keys_lead_from_cell_to_cell(tab: Any, url: str):
    """`j` and `k` go on and back, Escape to all cells, `/` to the words; links can be reached by Tab."""
    tab.goto(url)
    for key, shown in (("j", "s/a/1.35-1.36"), ("j", "s/a/1.36"), ("k", "s/a/1.35-1.36")):
        tab.keyboard.press(key)
        tab.wait_for_selector(f"#opened h1:has-text('{shown}')")
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".chip:visible")
    tab.keyboard.press("/")
    tab.keyboard.type("1.37")
    assert chips(tab) == ["s/a/1.37"]
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")  # over what failed, to the grid
    assert tab.evaluate("document.activeElement.className") == "chip passed"
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#opened h1:has-text('s/a/1.37')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_on_a_phone(tab: Any, url: str, scheme: str):
    """At 390 pixels neither the grid nor a cell is wider than the screen, light or dark."""
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.emulate_media(color_scheme=scheme)
    tab.goto(url)
    for hash_ in ("", "#cell=s/a/1.36"):
        tab.goto(url + hash_)
        tab.wait_for_selector("#opened h1" if hash_ else ".chip")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)"
    )


def test_it_reads_without_colour_and_prints(tab: Any, url: str):
    """Each result has a sign of its own, and on paper the legend shows them; controls are left out."""
    tab.goto(url)
    signs = {each.get_attribute("class"): each.inner_text()[0] for each in tab.locator(".chip").all()}
    assert signs == {"chip passed": "✓", "chip failed": "✗"}
    tab.emulate_media(media="print")
    assert "✓ passed: 2" in tab.locator(".legend").inner_text()
    assert tab.locator("#search").is_hidden()


def test_hundreds_of_cells_open_with_few_elements(tab: Any, tmp_path: Path):
    """Of 600 cells only the grid is drawn at first; details come when a cell is opened."""
    url = report(tmp_path, *(cell(f"s/a/{number}/1.36") for number in range(600)))
    tab.goto(url)
    elements = tab.evaluate("document.querySelectorAll('*').length")
    assert (
        len(json.loads((tmp_path / "report.json").read_text())["cells"])
        == tab.locator(".chip").count()
        == 600
    )
    assert elements < 10 * 600
    tab.goto(f"{url}#cell=s/a/599/1.36")
    tab.wait_for_selector("#opened h1:has-text('s/a/599/1.36')")
