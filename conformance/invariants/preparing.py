"""Compares when containers ran with when drivers had their claims prepared, as both have recorded it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.clock import micro_timestamp
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.aspects import results
from kubeskew.conformance.evidence.nodes import DriverCall, NodeRecords
from kubeskew.conformance.invariants.cluster import place_of, uid_of

_NEVER = "9999"  # after every time


@dataclass(frozen=True, slots=True)
class _Use:
    """A claim that was reserved for a pod, and a driver of its devices."""

    claim: str  # namespace and name
    uid: str
    driver: str


class PreparedWhileUsed:
    """Says which containers ran while a claim of their pod was not prepared on their node.

    Which claims a pod has is what they were reserved for; of drivers that have recorded nothing on a node, or
    that need no call for a claim, nothing is said; nor of times that are closer than the clocks of drivers
    and kubelets may differ.
    """

    def __init__(self, clock_skew: timedelta) -> None:
        self._skew = clock_skew
        self._uses: defaultdict[str, dict[_Use, None]] = defaultdict(dict)  # by pod's uid

    def see(self, claim: ObjectView) -> None:
        """Takes note of a claim as it was written."""
        namespace, name = place_of(claim)
        for consumer in reserved_for(claim):
            for result in results(claim):
                use = _Use(f"{namespace}/{name}", uid_of(claim), str(result.get("driver")))
                self._uses[str(consumer.get("uid"))][use] = None

    def disturbances(self, records: NodeRecords, names: Mapping[str, str]) -> Iterator[str]:
        """Yields what containers were without, each claim of a container once; `names` are pods' by uid."""
        calls: defaultdict[tuple[str, str, str], list[DriverCall]] = defaultdict(list)
        for call in records.calls:
            if not call.error:
                calls[call.node, call.driver, f"{call.namespace}/{call.name}"].append(call)
        ends = {event.id: event.time for event in records.containers if event.what != "started"}
        for event in records.containers:
            if event.what != "started":
                continue
            for use in self._uses.get(event.pod_uid) or ():
                told = calls[event.node, use.driver, use.claim]
                if wrong := self._wrong(use, told, event.time, ends.get(event.id, "")):
                    place = f"container {event.container} of {names.get(event.pod_uid, event.pod_uid)}"
                    yield f"{place}, on node {event.node} since {event.time}, {wrong}"

    def _wrong(self, use: _Use, told: list[DriverCall], begin: str, end: str) -> str:
        """Returns what was wrong with a claim of a container that ran so long, given the calls for claims of
        its name; empty if it may have been prepared all the time."""
        mine, claim = [call for call in told if call.uid == use.uid], f"ResourceClaim {use.claim}"
        early, late = self._moved(begin, -1), self._moved(begin, 1)  # the bounds of when it began
        before = [call for call in mine if call.time <= late]
        if told and told[0].time <= early and not before:
            return f"was started when driver {use.driver} had prepared a former {claim} only"
        if before and before[-1].unprepares and before[-1].time <= early:
            return f"was started when driver {use.driver} had unprepared {claim}, at {before[-1].time}"
        last = self._moved(end, -1) if end else _NEVER
        lost = next((call.time for call in mine if call.unprepares and late < call.time < last), "")
        return lost and f"ran when driver {use.driver} unprepared {claim}, at {lost}"

    def _moved(self, time: str, direction: int) -> str:
        """Returns a time as it may have been by another clock."""
        if not self._skew:
            return time
        return micro_timestamp(datetime.fromisoformat(time) + direction * self._skew)
