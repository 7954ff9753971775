"""One minor's facts in the tables that cover all minors."""

from pathlib import Path
from typing import Any

import pytest

from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.releases.catalogue.inputs import Inputs
from kubeskew.releases.catalogue.minor_facts import (
    with_gates,
    with_group_order,
    with_groups,
    with_resources,
    with_values,
)
from kubeskew.releases.catalogue.resources import minors

INPUTS = Inputs(Path(__file__).parents[3] / "hack" / "catalogue" / "facts")


def row(
    resource: str, span: str = "", *, version: str = "v1", group: str = "apps", verbs: Any = "std"
) -> Any:
    made = {"group": group, "version": version, "resource": resource, "verbs": verbs}
    return made | ({"minors": span} if span else {})


TABLE = [row("a", "1.28-"), row("b", "1.28-1.35"), row("c", "1.30-", group="batch")]


@pytest.mark.parametrize(
    ("minor", "newest", "served", "expected"),
    [
        (37, 37, [row("a"), row("c", group="batch")], TABLE),
        (
            38,
            38,
            [row("a"), row("new"), row("d", version="v2")],
            [
                row("a", "1.28-"), row("b", "1.28-1.35"), row("new", "1.38-"),
                row("d", "1.38-", version="v2"), row("c", "1.30-1.37", group="batch"),
            ],
        ),
        (
            33,
            37,
            [row("a"), row("b", verbs=["get"]), row("c", group="batch")],
            [
                row("a", "1.28-"), row("b", "1.28-1.32"), row("b", "1.33-1.33", verbs=["get"]),
                row("b", "1.34-1.35"), row("c", "1.30-", group="batch"),
            ],
        ),
        (36, 37, [row("a"), row("b"), row("c", group="batch")], [TABLE[0], row("b", "1.28-1.36"), TABLE[2]]),
    ],
    ids=["the same", "a new minor", "another verb in one minor", "served for longer"],
)  # fmt: skip
def test_resources_of_a_minor(minor: int, newest: int, served: list[Any], expected: list[Any]) -> None:
    """A minor's resources replace what was said of that minor, and change nothing of the others."""
    assert with_resources(TABLE, served, minor, newest) == expected


@pytest.mark.parametrize("minor", range(28, NEWEST_MINOR + 1))
def test_what_the_table_says_already_changes_nothing(minor: int) -> None:
    """The resources that the committed table has of a minor, put into it again, give the same table."""
    rows = INPUTS.table("discovery")["resources"]
    served = [
        {key: one[key] for key in one if key != "minors"}
        for one in rows
        if minor in range(minors(one["minors"], NEWEST_MINOR)[0], minors(one["minors"], NEWEST_MINOR)[1] + 1)
    ]

    assert with_resources(rows, reversed(served), minor, NEWEST_MINOR) == rows


def test_gates_of_a_minor() -> None:
    """A minor's gates replace what was said of that minor, but for those that are kept as they are."""
    spans = {"A": [[33, 36, "Alpha", 0, 0]], "B": [[33, 36, "Beta", 1, 0]], "Gone": [[35, 35, "GA", 1, 1]]}

    made = with_gates(spans, {"A": ("Beta", 1, 0), "B": ("GA", 1, 1), "New": ("Alpha", 0, 0)}, 35, ["B"])

    assert made == {
        "A": [[33, 34, "Alpha", 0, 0], [35, 35, "Beta", 1, 0], [36, 36, "Alpha", 0, 0]],
        "B": [[33, 36, "Beta", 1, 0]],
        "New": [[35, 35, "Alpha", 0, 0]],
    }


def test_values_of_a_minor() -> None:
    """A minor's values replace what was said of that minor, and what it lacks goes there."""
    spans = {"A": [[35, 37, ["X"]]], "B": [[35, 37, ["X", "Y"]]]}

    assert with_values(spans, {"A": ["X", "Z"], "C": ["A"]}, 36) == {
        "A": [[35, 35, ["X"]], [36, 36, ["X", "Z"]], [37, 37, ["X"]]],
        "B": [[35, 35, ["X", "Y"]], [37, 37, ["X", "Y"]]],
        "C": [[36, 36, ["A"]]],
    }


def test_groups_keep_their_neighbours() -> None:
    """Groups come in the newest minor's order, and one that it lacks follows the one that it followed."""
    assert with_groups(["a", "old", "b"], ["b", "new", "a"]) == ["b", "new", "a", "old"]


def test_order_of_groups_is_a_minors_own() -> None:
    """A minor whose groups come in another order changes no other minor's."""
    orders = {"1.30-1.31": ["a", "b"], "1.32-": ["b", "a"]}

    assert with_group_order(orders, ["a", "b"], 31, 33) == orders
    assert with_group_order(orders, ["b", "a"], 31, 33) == {"1.30-1.30": ["a", "b"], "1.31-": ["b", "a"]}
    assert with_group_order(orders, ["b", "c"], 34, 34) == {
        "1.30-1.31": ["a", "b"],
        "1.32-1.33": ["b", "a"],
        "1.34-": ["b", "a", "c"],
    }
