"""The hash of a simulation's log is of all that was written."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubeskew.apiserver.storage.memory_log import MemoryRecords
from kubeskew.apiserver.storage.records import Author, Event, Key, Verb
from kubeskew.simulation.runs import digest

KEY, AUTHOR = (
    Key("pods", "default", "a"),
    Author("system:kube-scheduler", "kube-scheduler", "1.36", "1.36", "r"),
)
TIME = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = Event(7, Verb.UPDATE, KEY, "uid", b'{"a": 1}', 6, b'{"a": 0}', AUTHOR, TIME, 5)


def hashed(*events: Event) -> str:
    """Returns the hash of a log with these events."""
    records = MemoryRecords()
    records.events += events
    return digest(records)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("revision", 8),
        ("verb", Verb.DELETE),
        ("key", Key("pods", "default", "b")),
        ("uid", "other"),
        ("value", b'{"a": 2}'),
        ("previous", 5),
        ("author", AUTHOR._replace(component_version="1.35")),
        ("time", datetime(2026, 1, 2, tzinfo=UTC)),
        ("created", 6),
    ],
)
def test_an_event_that_differs_gives_another_hash(field: str, value: Any):
    """Every field counts but the value before, which is that of an earlier event."""
    assert hashed(EVENT) == hashed(EVENT._replace())
    assert hashed(EVENT._replace(**{field: value})) != hashed(EVENT)


def test_the_end_of_a_value_counts():
    """Two values are not those that the same bytes would be if they were divided elsewhere."""
    one, other = (EVENT._replace(value=b"ab"), EVENT._replace(value=b"c"))
    assert hashed(one, other) != hashed(EVENT._replace(value=b"a"), EVENT._replace(value=b"bc"))
