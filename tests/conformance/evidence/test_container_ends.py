"""The ends of containers in the records of a runtime."""

import orjson

from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.node_files import node_records
from kubeskew.kubelet.node.config import NodeLayout


def _entry(second, event, container, ends_at=None):
    """A line of the runtime's log."""
    at = f"2026-01-01T00:00:{second:02}.000000Z"
    named = {"podUID": "u", "container": "c", "id": container, "cdiDevices": []}
    end = None if ends_at is None else f"2026-01-01T00:00:{ends_at:02}.000000Z"
    return {"time": at, "event": event, **named, "endsAt": end}


def test_ends_that_were_known_at_the_start(tmp_path):
    """A container exits when its start says so, unless it was stopped before."""
    directory = StateDir(tmp_path)
    log = NodeLayout.under(directory.kubelet_root(), "n").runtime / "events.jsonl"
    log.parent.mkdir(parents=True)
    entries = [
        _entry(1, "started", "a", 5),
        _entry(2, "started", "b", 9),
        _entry(3, "started", "c"),
        _entry(4, "stopped", "b", 4),
        _entry(6, "stopped", "c", 6),
    ]
    log.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    found = [(event.time[17:19], event.what, event.id) for event in node_records(directory).containers]
    assert found == [
        ("01", "started", "a"), ("02", "started", "b"), ("03", "started", "c"), ("04", "stopped", "b"),
        ("05", "exited", "a"), ("06", "stopped", "c"),
    ]  # fmt: skip
