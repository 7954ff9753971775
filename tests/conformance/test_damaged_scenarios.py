"""Scenarios with something wrong anywhere in them: one line says what, and nothing else happens."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kubeskew.conformance import grammar
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.loader import parse
from kubeskew.conformance.matrix import bundled, check_cluster

JUNK = [
    *(
        None,
        True,
        0,
        7,
        -1,
        1.5,
        "",
        "x",
        "(",
        "()",
        "($nothing)",
        "($nothing.at.all)",
        "(a.b",
        "1.34",
        "(`1`)",
    ),
    *([], [1], ["x"], {}, {"x": 1}, [[]], [{}], [None], "($naming)", {"($version)": 1}),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of everything inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


def damage(documents: list[Any], draw: Random) -> None:
    """Takes something away, renames a key, or puts in what does not belong there."""
    depth = draw.choice([2, 3, 4, 5, 6, 8, 20])
    *path, key = draw.choice([place for place in places(documents) if len(place) <= depth])
    parent: Any = documents
    for part in path:
        parent = parent[part]
    way = draw.randrange(3) if isinstance(parent, dict) else 2
    if way == 0:
        del parent[key]
    elif way == 1:
        parent[f"{key}x"] = parent.pop(key)
    else:
        parent[key] = copy.deepcopy(draw.choice(JUNK))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_damaged_is_read_or_refused(seed: int):
    """Whatever a file says, it is a scenario or an error of one line that names the file."""
    draw = Random(seed)
    files = [(str(path), grammar.read(path)) for path in bundled().values()]
    refused: list[tuple[str, str]] = []
    for _ in range(40):
        source, documents = copy.deepcopy(draw.choice(files))
        damage(documents, draw)
        try:
            check_cluster(parse(documents, source))
        except ScenarioError as error:
            refused.append((source, str(error)))
    assert len(refused) > 10
    assert all(message.startswith(source) and "\n" not in message for source, message in refused)
