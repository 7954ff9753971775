"""The page of a report: the grid, and what is packed into it of each cell."""

import base64
import json
import re
import zlib
from typing import Any

from kubeskew.conformance.reporting.page import as_html, causes


def cell(name: str, scenario: str, result: str = "passed", failure: str = "", **more: Any) -> dict[str, Any]:
    step = {"result": result, "name": "one", "impossible": ""}
    return {
        "name": name, "scenario": scenario, "result": result, "failure": failure,
        "stepsRun": 1, "stepsNotRun": 0, "steps": [step], "programs": {}, "sideBySide": None, **more,
    }  # fmt: skip


def report(*cells: dict[str, Any]) -> dict[str, Any]:
    counts = dict.fromkeys(("passed", "expected", "failed", "notRun"), 0)
    for each in cells:
        counts[each["result"]] += 1
    return {
        **counts, "title": "mine", "started": "2026-01-01T00:00:00Z", "seconds": 1.0, "steps": counts,
        "failingSets": [], "command": None, "cells": list(cells), "sideBySide": None,
    }  # fmt: skip


def unpacked(page: str) -> list[dict[str, Any]]:
    """Returns the cells that a page holds, as its script reads them."""
    found = re.search(r'<script type="text/plain" id="details">\s*(.*?)\s*</script>', page, re.DOTALL)
    assert found is not None
    return [json.loads(zlib.decompress(base64.b64decode(line))) for line in found[1].split()]


def test_a_page_holds_its_cells_in_order():
    """Every cell is in the page whole, at the place that its link names."""
    cells = [cell("s/a/1.35", "s/a"), cell("s/a/1.36", "s/a", "failed", "</script><b>")]
    page = as_html(report(*cells))

    assert unpacked(page) == cells
    assert re.findall(r'data-number="(\d+)" title="([^:]*)', page) == [("0", "s/a/1.35"), ("1", "s/a/1.36")]
    assert "<b>" not in re.sub(r"<b>\d+</b>", "", page.partition("<script")[0])


def test_the_grid_has_a_column_for_each_path():
    """Scenarios are rows, paths of versions columns from old to new, other parameters names in the grid."""
    page = as_html(
        report(
            cell("s/a/x/1.35-1.36", "s/a"),
            cell("s/a/y/1.9", "s/a"),
            cell("s/b", "s/b", "expected"),
        )
    )
    columns = re.findall(r'<th scope="col">(.*?)</th>', page)
    rows = re.findall(r'<th scope="row">(.*?)</th>', page)
    chips = re.findall(r'class="path">(.*?)</span><span>(.*?)</span>', page)

    assert columns == ["scenario", "", "1.9", "1.35<br>→1.36"]
    assert rows == ["s/a", "s/b"]
    assert chips == [("1.9", "y"), ("1.35-1.36", "x"), ("", "")]


def test_failures_are_grouped_by_cause():
    """Cells that failed alike stand together, the most frequent cause first."""
    cells = [
        cell("a", "s", "failed", "rare"), cell("b", "s", "failed", "often"),
        cell("c", "s", "failed", "often"), cell("d", "s"),
    ]  # fmt: skip

    assert [(why, [each["name"] for each in those]) for why, those in causes(cells)] == [
        ("often", ["b", "c"]),
        ("rare", ["a"]),
    ]


def test_nothing_comes_from_elsewhere():
    """The page loads nothing: no link, image, script or style of another address."""
    page = as_html(report(cell("s/a", "s/a")))

    assert re.findall(r"""(?:src|href)=["'](?!#)|@import|url\(""", page) == []


def test_the_seconds_of_simulated_cells_are_reported_to_be_virtual():
    """A run of simulations takes other seconds than its cells; one with a cell on processes has real ones."""
    simulated, real = cell("s/a", "s/a", seed=0), cell("s/b", "s/b", seed=None)
    assert "1 cell, which took 1.0 s of virtual time;" in as_html(report(simulated))
    assert "2 cells, which took 1.0 s;" in as_html(report(simulated, real))
