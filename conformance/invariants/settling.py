"""Judges whether controllers settle: I15 controllers-settle."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.invariants.cluster import Change, Cluster, Place
from kubeskew.conformance.invariants.invariant import Evidence

# Renewed for ever, whatever happens.
_HEARTBEATS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io"})
_COMPONENTS = ("kube-", "kubelet/", "kubelet ")
# So often an object may come back to a state that it had, or be written without anything from outside.
_RETURNS = 5
_WRITES = 200


class ControllersSettle:
    """I15: with no new input from outside every controller reaches a fixed point.

    An object that tallies others (a quota, a Deployment that is rolled) comes back to a state as these come
    and go: only a state that comes back while nothing is made or deleted counts.
    """

    code = "I15"
    name = "controllers-settle"

    def __init__(self) -> None:
        self._writes: defaultdict[tuple[str, Place], int] = defaultdict(int)
        self._states: defaultdict[tuple[str, Place], dict[bytes, int]] = defaultdict(lambda: defaultdict(int))
        # What was written since an object's states were forgotten, until that may matter: states are dear.
        self._values: defaultdict[tuple[str, Place], list[Any]] = defaultdict(list)
        self._changes = 0  # objects that were made or deleted
        self._seen_at: dict[tuple[str, Place], int] = {}  # of these, when an object was last written

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        write = change.write
        if is_heartbeat(write):
            return
        key = (write.resource, (write.namespace, write.name))
        if not write.by.startswith(_COMPONENTS):
            self._writes.clear()
            self._states.clear()
            self._values.clear()
            return
        self._changes += write.verb != "update"
        self._writes[key] += 1
        if self._seen_at.get(key) != self._changes:
            self._seen_at[key] = self._changes
            self._states.pop(key, None)
            self._values.pop(key, None)
        self._values[key].append(write.value)
        if self._has_come_back(key):
            yield f"{change.text} has come back to the same state {_RETURNS} times without input"
        elif self._writes[key] == _WRITES:
            yield f"{change.text} was written {_WRITES} times, with no input from outside"

    def _has_come_back(self, key: tuple[str, Place]) -> bool:
        """Returns whether an object has just come back to a state once too often, by way of others."""
        if key not in self._states and len(self._values[key]) <= _RETURNS + 1:
            return False  # so many writes are of one state, or none has come back as often
        states, state = self._states[key], b""
        for value in self._values.pop(key):
            state = sha256(orjson.dumps(_settled(value), option=orjson.OPT_SORT_KEYS)).digest()
            states[state] += 1
        return states[state] == _RETURNS + 1 and len(states) > 1

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        yield from ()


def is_heartbeat(write: Write) -> bool:
    """Returns whether a write is one of those that go on for ever: leases, events, the status of nodes."""
    by_kubelet = write.resource == "nodes" and write.by.startswith("kubelet")
    return by_kubelet or write.resource in _HEARTBEATS


def _settled(obj: Any) -> Any:
    """Returns an object without what grows with every write: times, versions, managed fields."""
    if isinstance(obj, Mapping):
        return {
            key: _settled(value)
            for key, value in obj.items()
            if key not in {"managedFields", "resourceVersion", "generation", "observedGeneration"}
            and not key.endswith(("Time", "Timestamp"))
        }
    return [_settled(each) for each in obj] if isinstance(obj, list) else obj
