"""Lists the times in which a component ran at one version and one set of gates."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubeskew.apimachinery.component_names import DRIVER, kind_of
from kubeskew.conformance.evidence.log import BRANCHED, FAULT, ComponentChange, Logged

STARTED = "started"


@dataclass(slots=True)
class ComponentRun:
    """A component at one version and gate set; `until` is empty while it runs, `ended` says how it ended."""

    component: str
    version: str
    gates: str
    since: str
    until: str = ""
    ended: str = ""


def component_runs(log: Iterable[Logged]) -> list[ComponentRun]:
    """Returns the runs of components, in the order in which they began."""
    found: list[ComponentRun] = []
    running: dict[str, ComponentRun] = {}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what.startswith(FAULT):
            continue
        if entry.what in BRANCHED:
            for run in running.values():
                run.until, run.ended = entry.time, entry.what
            running.clear()
            continue
        before = running.pop(entry.component, None)
        if before is not None:
            before.until, before.ended = entry.time, "" if entry.what == STARTED else entry.what
        if entry.what == STARTED:
            running[entry.component] = ComponentRun(entry.component, entry.version, entry.gates, entry.time)
            found.append(running[entry.component])
    return found


def drivers_of(changes: Iterable[ComponentChange]) -> set[str]:
    """Returns the drivers of kubeskew's that ran on nodes."""
    started = [change.component for change in changes if change.what == STARTED]
    return {component.partition("/")[2] for component in started if kind_of(component) == DRIVER}


def version_at(changes: Iterable[ComponentChange], component: str, time: str) -> str:
    """Returns the version at which a component ran at a time, RFC 3339; empty if it never started.

    A node's clock may be behind the log's: what it dates before the first start was of the first version.
    """
    moment = datetime.fromisoformat(time)
    starts = [each for each in changes if (each.component, each.what) == (component, STARTED)]
    before = [each for each in starts if datetime.fromisoformat(each.time) <= moment]
    return next((each.version for each in (*before[-1:], *starts[:1])), "")


def with_version(log: Iterable[Logged], component: str) -> str:
    """Returns a component's name with the version that it last ran at, as far as the log tells."""
    versions = [run.version for run in component_runs(log) if run.component == component]
    return f"{component} {versions[-1]}" if versions else component
