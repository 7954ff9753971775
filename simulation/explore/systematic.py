"""Plans of one disturbance each, at every write and every delivery of a run without faults.

Three patterns, as Sieve has them (Sun et al., OSDI 2022): a component dies between two of its writes, or gets
no answer to one that is done (intermediate state); it sees the state of a while ago (stale state); it never
sees a state that was there (unobserved state). Besides, a write is lost on its way or refused, and a watch
stands still for longer than components wait for it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kubeskew.apimachinery.faults.fault import PERIODIC, PLUGIN_CALLS, WRITES
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.simulation.faults.plan import CALLING, WATCHING, Kind, Plan, fault_of
from kubeskew.simulation.faults.plan_generator import Calls

_EVENT = " event of "
_HURT = (*WRITES, *PLUGIN_CALLS)
_BACK = "1s"  # after which a component that died is there again
_STALE = "5s"
_SLOW = "5s"
_BLIND = "400s"  # longer than the five minutes after which controllers expect nothing any more
_REFUSED = 500
# Objects that every namespace has, and reports of others: no workload waits for them.
_ASIDE = ("configmaps", "events", "namespaces", "serviceaccounts")
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
        """Sites of other numbers, and of other nodes, may be of the same kind."""
        return f"{kind_of(self.component)} {self.verb} {self.resource} {self.delivery}"


def sites(calls: Calls) -> Iterator[Site]:
    """Sites are each write, each call of a driver and each delivery of a run, by component and kind of
    call."""
    for component in sorted(calls):
        kind = kind_of(component)
        for call, count in sorted(calls[component].items()):
            verb, delivery, resource = call.partition(_EVENT)
            if not delivery:
                verb, _, resource = call.partition(" ")
            if resource.partition("/")[0] in PERIODIC or verb in ("ERROR", "BOOKMARK"):
                continue
            if kind in (WATCHING if delivery else CALLING) and (delivery or verb in _HURT):
                yield from (
                    Site(component, verb, resource, number, bool(delivery)) for number in range(1, count + 1)
                )


def plans(calls: Calls, kinds: Sequence[Kind]) -> list[Plan]:
    """Plans of all sites have faults of these kinds alone.

    First comes one of each pattern at each kind of call, then a second one, and so on: what a component does
    a hundred times is not tried a hundred times before something else is tried once. In each such round
    components and patterns take turns, and of one component's kinds of calls the rarest comes first, which
    fewest other plans meet. Resources that workloads do not need come after all else.
    """
    needed: dict[str, dict[str, list[Plan]]] = {}
    aside: dict[str, dict[str, list[Plan]]] = {}
    for site in _spread(sites(calls)):
        streams = aside if site.resource.partition("/")[0] in _ASIDE else needed
        for pattern, plan in _plans(site):
            if all(fault.kind in kinds for fault in plan.faults):
                stream = streams.setdefault(f"{pattern} {kind_of(site.component)}", {})
                stream.setdefault(site.kind, []).append(plan)
    return [*_in_rounds(needed), *_in_rounds(aside)]


def _spread(found: Iterable[Site]) -> list[Site]:
    """Sites of each kind are spread over the run as soon as may be.

    The last one comes first, for nothing of its kind mends what it leaves behind; then the first, on which
    most depends; then those in the middle of what is left between. Nodes take turns, and begin at different
    ends. Of deletions that are delivered the first comes first: what they free, something later needs.
    """
    kinds: dict[str, dict[str, list[Site]]] = {}
    for site in found:
        kinds.setdefault(site.kind, {}).setdefault(site.component, []).append(site)
    ordered: list[Site] = []
    for components in kinds.values():
        spread = [[same[place] for place in _bisecting(len(same))] for same in components.values()]
        for node, same in enumerate(spread):
            frees = same[0].delivery and same[0].verb == "DELETED"
            if (node % 2 == 1) != frees:
                same[:2] = reversed(same[:2])
        ordered += [site for turn in zip_longest(*spread) for site in turn if site is not None]
    return ordered


def _bisecting(count: int) -> list[int]:
    """Numbers below `count`: the last, the first, and then again and again the middle of the widest gap."""
    places = [count - 1, 0] if count > 1 else [0]
    gaps = deque([(0, count - 1)])
    while gaps:
        low, high = gaps.popleft()
        middle = (low + high) // 2
        if middle > low:
            places.append(middle)
            gaps += [(low, middle), (middle, high)]
    return places


def _in_rounds(streams: Mapping[str, Mapping[str, list[Plan]]]) -> list[Plan]:
    """Streams have their plans by kind of call: a round takes one of each kind."""
    ordered: list[Plan] = []
    sorted_streams = [sorted(kinds.values(), key=len) for kinds in streams.values()]
    most = max((len(each) for stream in sorted_streams for each in stream), default=0)
    for number in range(most):
        left = [[each[number] for each in stream if number < len(each)] for stream in sorted_streams]
        ordered += [plan for turn in zip_longest(*left) for plan in turn if plan is not None]
    return ordered


def _plans(site: Site) -> Iterator[tuple[str, Plan]]:
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
        else:
            yield _plan("slow", {**write, "delay": _SLOW})
        return
    event = {**at, "event": site.verb}
    listing = {"component": site.component, "resource": site.resource, "verb": "list", "delay": _AWAY}
    yield _plan("stale", {**event, "stale": _STALE})
    yield _plan("blind", {**event, "stale": _BLIND})
    yield _plan("unobserved", {**event, "answer": 410}, listing)


def _plan(pattern: str, *bodies: Mapping[str, Any]) -> tuple[str, Plan]:
    faults = (fault_of({"id": f"{pattern}-{number}", **body}) for number, body in enumerate(bodies, 1))
    return pattern, Plan(0, tuple(faults))
