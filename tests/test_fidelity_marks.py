"""The marks of docs/fidelity.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
MARKS = {"later", "by design", "memory", "preview", "unknown", "\u2013"}
MOST_FROM_MEMORY = 20
OLD = re.compile(r"(up to )?1\.(2[6-9]|30)\b[^,]*(, 1\.(2[6-9]|30)\b[^,]*)*")


def rows() -> list[list[str]]:
    """Cells of each row of a table with marks: what, releases, why, mark."""
    lines = PAGE.read_text().splitlines()
    cells = [
        re.split(r"(?<!\\) \| ", line.strip().strip("|").strip()) for line in lines if line.startswith("| ")
    ]
    return [found for found in cells if found[-1] in MARKS]


def test_only_rows_of_old_releases_are_from_memory():
    """A row about 1.31 or later says what it was checked against; those of 1.37 are a preview."""
    found = [row for row in rows() if row[-1] == "memory"]

    assert len(found) <= MOST_FROM_MEMORY
    assert [row[0] for row in found if not any(OLD.fullmatch(cell) for cell in row[1:-1])] == []
