"""Rules of core, apps and batch: what is wrong with an object, where, in which words and order."""

from functools import cache
from typing import Any

import pytest
import yaml
from recorded import DATA
from rule_checks import Rules, merged

ROWS = yaml.safe_load((DATA / "core-rules.yaml").read_text())


@cache
def rules(kind: str, minor: int = 36) -> Rules:
    return Rules(ROWS["bases"][kind]["group"], kind, minor)


def whole(kind: str, row: dict[str, Any]) -> Any:
    return merged(ROWS["bases"][kind]["object"], row.get("object") or {})


def _new() -> list[Any]:
    return [
        pytest.param(kind, row, id=f"{kind}-{number}")
        for kind, rows in ROWS["new"].items()
        for number, row in enumerate(rows)
    ]


def _numbered(part: str) -> list[Any]:
    return [pytest.param(row, id=f"{row['kind']}-{number}") for number, row in enumerate(ROWS[part])]


@pytest.mark.parametrize(("kind", "row"), _new())
def test_a_new_object(kind: str, row: dict[str, Any]) -> None:
    """Each error of a new object is reported."""
    assert rules(kind).errors(whole(kind, row)) == row["errors"]


@pytest.mark.parametrize("kind", ROWS["bases"])
def test_the_plain_object_is_right(kind: str) -> None:
    """The valid object that the rows start from has no errors at any minor."""
    for minor in (28, 31, 33, 34, 35, 36):
        assert rules(kind, minor).errors(ROWS["bases"][kind]["object"]) == []


@pytest.mark.parametrize("row", _numbered("changes"))
def test_a_change(row: dict[str, Any]) -> None:
    """A change of an immutable field is refused with a message that begins as upstream's."""
    kind = row["kind"]
    errors = rules(kind).change_errors(whole(kind, row), row["change"], row.get("status"))

    assert len(errors) == len(row["errors"])
    for error, start in zip(errors, row["errors"], strict=True):
        assert error.startswith(start)


@pytest.mark.parametrize("row", _numbered("statuses"))
def test_a_status(row: dict[str, Any]) -> None:
    """A status with forbidden values or changes is refused."""
    kind = row["kind"]
    assert rules(kind).status_errors(whole(kind, {}), row["new"], row["old"]) == row["errors"]


@pytest.mark.parametrize("row", _numbered("warnings"))
def test_warnings(row: dict[str, Any]) -> None:
    """An object that is valid but doubtful gets a warning."""
    kind = row["kind"]
    assert rules(kind).warnings(whole(kind, row)) == row["warnings"]
