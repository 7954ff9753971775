"""Lists the stretches of time in which a component ran at one version and one set of gates."""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeskew.conformance.evidence.log import FAULT, ComponentChange, Logged

STARTED = "started"


@dataclass(slots=True)
class Stretch:
    """A component at one version and gate set; `until` is empty while it runs, `ended` says how it ended."""

    component: str
    version: str
    gates: str
    since: str
    until: str = ""
    ended: str = ""


def stretches(log: Iterable[Logged]) -> list[Stretch]:
    """In the order in which they began."""
    found: list[Stretch] = []
    running: dict[str, Stretch] = {}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what.startswith(FAULT):
            continue
        before = running.pop(entry.component, None)
        if before is not None:
            before.until, before.ended = entry.time, "" if entry.what == STARTED else entry.what
        if entry.what == STARTED:
            running[entry.component] = Stretch(entry.component, entry.version, entry.gates, entry.time)
            found.append(running[entry.component])
    return found
