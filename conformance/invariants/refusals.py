"""Finds in a component's log what the authorizer refused it."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.invariants.cluster import STARTED

Span = tuple[datetime, datetime]

_SETTLING = timedelta(seconds=10)  # how long it may take until roles that are written have effect
_SERVER = "system:apiserver"
_RBAC = ".rbac.authorization.k8s.io"
# The authorizer's words, not those of admission. Names of objects may be drawn, and are left out.
_FORBIDDEN = re.compile(
    r'forbidden: (User ".*?" cannot \S+ (?:path ".*?"|resource ".*?" in API group ".*?" '
    r'(?:in the namespace ".*?"|at the cluster scope)))'
)


def refused(text: str, starting: Sequence[Span]) -> list[str]:
    """Returns what a component's log says was forbidden, each once and sorted: `User "…" cannot list …`.

    What was refused while an API server was `starting` is left out: the default roles were on their way.
    """
    found: set[str] = set()
    for line in text.splitlines():
        refusal = _FORBIDDEN.search(line)
        if refusal is None or refusal[1] in found:
            continue
        time = datetime.fromisoformat(line.partition(" ")[0])
        if not any(begin < time < end for begin, end in starting):
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


def _is_server_start(entry: Logged) -> bool:
    if not isinstance(entry, ComponentChange):
        return False
    return entry.what == STARTED and kind_of(entry.component) == "apiserver"


def _is_default_role(entry: Logged) -> bool:
    return isinstance(entry, Write) and entry.user == _SERVER and entry.resource.endswith(_RBAC)
