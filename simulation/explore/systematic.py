"""Makes plans of one disturbance each, at every write and every delivery of a run without faults.

Three patterns, as Sieve has them (Sun et al., OSDI 2022): a component dies between two of its writes, or does
not hear of one that is done (intermediate state); it sees the state of a while ago (stale state); it never
sees a state that was there (unobserved state). Beside them a write that is lost on its way or refused, and a
watch that stands still for so long that waiting for it is given up.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kubeskew.apimachinery.component_names import kind_of
from kubeskew.apimachinery.faults.calls import PLUGIN_CALLS, WRITES
from kubeskew.apimachinery.faults.fault import PERIODIC
from kubeskew.simulation.faults.drawing import Calls
from kubeskew.simulation.faults.plan import Kind, Plan, fault_of

_WRITING = ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller")
_WATCHING = ("controller-manager", "scheduler", "kubelet")
_EVENT = " event of "
_HURT = (*WRITES, *PLUGIN_CALLS)
_BACK = "1s"  # after which a component that died is there again
_STALE = "5s"
_BLIND = "400s"  # longer than the five minutes after which controllers expect nothing any more
_REFUSED = 500
_AWAY = "3s"


@dataclass(frozen=True, slots=True)
class Site:
    """The n-th call of one kind that a component makes, or the n-th event that it is delivered."""

    component: str
    verb: str  # or the type of an event
    resource: str
    number: int
    delivery: bool = False

    @property
    def kind(self) -> str:
        """Returns what it has in common with sites of other numbers, and of other nodes."""
        return f"{kind_of(self.component)} {self.verb} {self.resource} {self.delivery}"


def sites(calls: Calls) -> Iterator[Site]:
    """Yields each write, each call of a driver and each delivery of a run, by component and kind of call."""
    for component in sorted(calls):
        kind = kind_of(component)
        for call, count in sorted(calls[component].items()):
            verb, delivery, resource = call.partition(_EVENT)
            if not delivery:
                verb, _, resource = call.partition(" ")
            if resource.partition("/")[0] in PERIODIC or verb in ("ERROR", "BOOKMARK"):
                continue
            if kind in (_WATCHING if delivery else _WRITING) and (delivery or verb in _HURT):
                yield from (
                    Site(component, verb, resource, number, bool(delivery)) for number in range(1, count + 1)
                )


def plans(calls: Calls, kinds: Sequence[Kind]) -> list[Plan]:
    """Returns the plans of all sites with faults of these kinds alone.

    First comes one of each pattern at each kind of call, then a second one, and so on: what a component does
    a hundred times is not tried a hundred times before something else is tried once.
    """
    groups: dict[str, list[Plan]] = {}
    for site in sites(calls):
        for pattern, plan in _plans(site):
            if all(fault.kind in kinds for fault in plan.faults):
                groups.setdefault(f"{pattern} {site.kind}", []).append(plan)
    mixed = [*groups.values()]
    chance = random.Random(0)  # noqa: S311 - the same every time on purpose
    chance.shuffle(mixed)
    for group in mixed:
        chance.shuffle(group)
    turns = zip_longest(*mixed)
    return [plan for turn in turns for plan in turn if plan is not None]


def _plans(site: Site) -> Iterator[tuple[str, Plan]]:
    """Yields the patterns at a site."""
    at = {"component": site.component, "resource": site.resource, "nth": site.number}
    if site.verb in PLUGIN_CALLS:
        del at["resource"]
    if not site.delivery:
        write = {**at, "verb": site.verb}
        yield _plan("intermediate", {**write, "crash": "after", "back": _BACK})
        yield _plan("unanswered", {**write, "drop": "answer"})
        yield _plan("unsent", {**write, "drop": "request"})
        if site.verb in WRITES:
            yield _plan("refused", {**write, "answer": _REFUSED, "times": 1})
        return
    event = {**at, "event": site.verb}
    listing = {"component": site.component, "resource": site.resource, "verb": "list", "delay": _AWAY}
    yield _plan("stale", {**event, "stale": _STALE})
    yield _plan("blind", {**event, "stale": _BLIND})
    yield _plan("unobserved", {**event, "answer": 410}, listing)


def _plan(pattern: str, *bodies: Mapping[str, Any]) -> tuple[str, Plan]:
    faults = (fault_of({"id": f"{pattern}-{number}", **body}) for number, body in enumerate(bodies, 1))
    return pattern, Plan(0, tuple(faults))
