"""Makes plans of one disturbance each, after every write and every delivery of a run without faults.

Three patterns, as Sieve has them (Sun et al., OSDI 2022): a component dies between two of its writes, or does
not hear of one that is done (intermediate state); it sees the state of a while ago (stale state); it never
sees a state that was there (unobserved state).
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.apimachinery.faults.calls import WRITES
from kubeskew.apimachinery.faults.fault import PERIODIC
from kubeskew.simulation.faults.drawing import Calls
from kubeskew.simulation.faults.plan import Kind, Plan, fault_of

_WRITING = ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller")
_WATCHING = ("controller-manager", "scheduler", "kubelet")
_EVENT = " event of "
_BACK = "1s"  # after which a component that died is there again
_STALE = "5s"
_AWAY = "3s"


@dataclass(frozen=True, slots=True)
class Site:
    """The n-th call of one kind that a component makes, or the n-th event that it is delivered."""

    component: str
    verb: str  # or the type of an event
    resource: str
    number: int
    delivery: bool = False


def sites(calls: Calls) -> Iterator[Site]:
    """Yields each write and each delivery of a run, by component and kind of call."""
    for component in sorted(calls):
        kind = kind_of(component)
        for call, count in sorted(calls[component].items()):
            verb, delivery, resource = call.partition(_EVENT)
            if not delivery:
                verb, _, resource = call.partition(" ")
            if resource.partition("/")[0] in PERIODIC or verb in ("ERROR", "BOOKMARK"):
                continue
            if kind in (_WATCHING if delivery else _WRITING) and (delivery or verb in WRITES):
                yield from (
                    Site(component, verb, resource, number, bool(delivery)) for number in range(1, count + 1)
                )


def plans(calls: Calls, kinds: Sequence[Kind]) -> list[Plan]:
    """Returns the plans of all sites with faults of these kinds alone; mixed, so that the first few of them
    reach many components."""
    made = [plan for site in sites(calls) for plan in _plans(site)]
    possible = [plan for plan in made if all(fault.kind in kinds for fault in plan.faults)]
    random.Random(0).shuffle(possible)  # noqa: S311 - the same every time on purpose
    return possible


def _plans(site: Site) -> Iterator[Plan]:
    at = {"component": site.component, "resource": site.resource, "nth": site.number}
    if not site.delivery:
        yield _plan("intermediate", {**at, "verb": site.verb, "crash": "after", "back": _BACK})
        yield _plan("unanswered", {**at, "verb": site.verb, "drop": "answer"})
        return
    event = {**at, "event": site.verb}
    listing = {"component": site.component, "resource": site.resource, "verb": "list", "delay": _AWAY}
    yield _plan("stale", {**event, "stale": _STALE})
    yield _plan("unobserved", {**event, "answer": 410}, listing)


def _plan(pattern: str, *bodies: Mapping[str, Any]) -> Plan:
    faults = (fault_of({"id": f"{pattern}-{number}", **body}) for number, body in enumerate(bodies, 1))
    return Plan(0, tuple(faults))
