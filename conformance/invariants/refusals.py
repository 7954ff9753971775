"""Finds in a component's log what the authorizer refused it."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.invariants.cluster import STARTED
from kubeskew.conformance.invariants.tolerance import USUAL

Span = tuple[datetime, datetime]

_SETTLING = timedelta(seconds=10)  # how long it may take until roles that are written have effect
_SERVER = "system:apiserver"
_RBAC = ".rbac.authorization.k8s.io"
# The authorizer's words, not those of admission. Names of objects may be drawn, and are left out.
_FORBIDDEN = re.compile(
    r'forbidden: (User ".*?" cannot \S+ (?:path ".*?"|resource ".*?" in API group ".*?" '
    r'(?:in the namespace ".*?"|at the cluster scope)))'
)
_OF_NODES = frozenset({"pods", "resourceslices.resource.k8s.io", "noderesourceslices.resource.k8s.io"})
# The node authorizer's words: a node may read what its pods use, and write its slices, as long as they are
# there.
_UNRELATED = re.compile(r"no relationship found between node '(\S+)' and this object")


def refused(text: str, starting: Sequence[Span], ended: Mapping[str, Sequence[Span]]) -> list[str]:
    """Returns what a component's log says was forbidden, each once and sorted: `User "…" cannot list …`.

    What was refused while an API server was `starting` is left out: the default roles were on their way. So
    is what was of the node, or of one of its pods, and has just `ended`: its kubelet did not know yet.
    """
    found: set[str] = set()
    for line in text.splitlines():
        refusal = _FORBIDDEN.search(line)
        if refusal is None or refusal[1] in found:
            continue
        time = datetime.fromisoformat(line.partition(" ")[0])
        unrelated = _UNRELATED.search(line)
        excused = (*starting, *(ended.get(unrelated[1], ()) if unrelated else ()))
        if not any(begin < time < end for begin, end in excused):
            found.add(refusal[1])
    return sorted(found)


def starts_of_servers(log: Sequence[Logged]) -> list[Span]:
    """Returns, of each start of an API server, from when to when the default roles may not be there yet.

    It says that it has started when it is ready, so that some come before; on a slow machine its last role
    is written long after.
    """
    found: list[Span] = []
    for entry in log:
        if _is_server_start(entry):
            time = datetime.fromisoformat(entry.time)
            found.append((time - _SETTLING, time + _SETTLING))
        elif found and _is_default_role(entry):
            begin, end = found[-1]
            found[-1] = begin, max(end, datetime.fromisoformat(entry.time) + _SETTLING)
    return found


def ends_on_nodes(log: Sequence[Logged]) -> dict[str, list[Span]]:
    """Returns by node, for each of its pods and resource slices that was deleted, from when to when its
    kubelet may not know."""
    found: dict[str, list[Span]] = {}
    for entry in log:
        if isinstance(entry, Write) and entry.verb == "delete" and entry.resource in _OF_NODES:
            spec, time = entry.value.get("spec") or {}, datetime.fromisoformat(entry.time)
            node = spec.get("nodeName") or entry.value.get("nodeName")  # up to 1.30 slices have no spec
            if node:
                span = (time - USUAL.cache_lag, time + USUAL.cache_lag)  # clocks may differ
                found.setdefault(str(node), []).append(span)
    return found


def _is_server_start(entry: Logged) -> bool:
    if not isinstance(entry, ComponentChange):
        return False
    return entry.what == STARTED and kind_of(entry.component) == "apiserver"


def _is_default_role(entry: Logged) -> bool:
    return isinstance(entry, Write) and entry.user == _SERVER and entry.resource.endswith(_RBAC)
