"""Writes a table of docs/invariants.md from docstrings: `python hack/documents/invariants_page.py`."""

import inspect
import re
from pathlib import Path

from kubeskew.conformance.invariants.catalogue import invariants

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
_TABLE = re.compile(r"(?<=conformance/invariants\. -->\n)(.*)(?=<!-- end of the table -->)", re.DOTALL)


def page() -> str:
    """Replaces the table in the page as it is."""
    rows = ["", "| code | name | what must hold |", "| --- | --- | --- |"]
    for each in invariants():
        said = " ".join((inspect.getdoc(each) or "").partition("\n\n")[0].split())
        held = said.removeprefix(f"{each.code}: ").removeprefix(f"{each.code} ")
        rows.append(f"| {each.code} | {each.name} | {held[:1].upper()}{held[1:]} |")
    return _TABLE.sub(lambda _: "\n".join([*rows, "", ""]), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
