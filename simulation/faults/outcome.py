"""The outcome of a plan of faults: plain data, and the tolerance of its judgement.

The points of a control plane that a run has reached show where it was hurt and in which order events came.
The tolerance is the lag and skew that a plan allows the components of its run.

A read depends on the store, the version and the gates, and never on a server's memory. Upstream's decodes,
prunes, defaults and converts what it reads from storage at each read, or once for its watch cache. So the
answers of an API server are compared with those of one that has just started over the same log.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import orjson

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.keys import duration
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.conformance.invariants.controllers import is_heartbeat
from kubeskew.conformance.invariants.invariant import USUAL, Tolerance, Violation
from kubeskew.simulation.faults.plan import Fault, Kind, Plan, read_jump, read_latency

_FIRED = "fault-fired"
_CUT_OFF = (Kind.OUTAGE, Kind.PARTITION, Kind.HALF_OPEN)
Read = Mapping[tuple[str, str], tuple[str, bytes]]  # by (path of a list, uid): (resourceVersion, JSON)


@dataclass(slots=True)
class Played:
    """Results of a plan in one simulation.

    `calls` are counted of components that had a fault of their own, by kind of call. `points` are those that
    the run has reached, each a text `GROUP: POINT`.
    """

    plan: Plan
    fired: dict[str, int] = field(default_factory=dict)  # by the name of the fault: how often
    violations: list[Violation] = field(default_factory=list)
    healed_because: str = ""
    healed_at: float = 0.0  # virtual seconds
    settled: bool = False  # nothing moved any more in the end
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    points: tuple[str, ...] = ()
    log: Sequence[Logged] = ()
    notes: list[str] = field(default_factory=list)  # failed judgements and healings

    @property
    def unfired(self) -> list[Fault]:
        return [fault for fault in self.plan.faults if not self.fired.get(fault.name)]


def points_of(log: Sequence[Logged], plan: Plan) -> Sequence[str]:
    """Each point comes once, in the order in which they were reached."""
    return [*dict.fromkeys([*_hurt(log, plan), *_orders(log)])]


def _hurt(log: Sequence[Logged], plan: Plan) -> Iterator[str]:
    """Points of faults read `crash: scheduler after update resourceclaims/status`."""
    faults = {fault.name: fault for fault in plan.faults}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what != _FIRED:
            continue
        name, _, rest = entry.detail.partition(": ")
        fault = faults.get(name)
        if fault is not None:
            effect, _, call = rest.partition(": ")
            met = " ".join(call.split(" (call ")[0].split(" ")[: _words(call)])
            place = effect.removeprefix(f"{fault.kind} ")
            yield f"{fault.kind}: {kind_of(entry.component)} {place} {met}".rstrip()


def _words(call: str) -> int:
    """Words behind this number name the object, not the kind of call."""
    return 4 if " event of " in call else 3 if call.startswith("commit: ") else 2


def _orders(log: Sequence[Logged]) -> Iterator[str]:
    """Points of order read `order: pods: kube-scheduler update > kubelet update`."""
    last: dict[tuple[str, str, str], str] = {}
    for entry in log:
        if not isinstance(entry, Write) or is_heartbeat(entry):
            continue
        place = entry.resource, entry.namespace, entry.name
        writer = kind_of(entry.by.partition(" ")[0])
        step = f"{writer} {entry.verb}"
        if place in last:
            yield f"order: {entry.resource}: {last[place]} > {step}"
        last[place] = step


def tolerance_of(plan: Plan) -> Tolerance:
    """Clocks may differ and caches may be behind by at most all faults together."""
    skew = sum(abs(read_jump(fault.parameters[fault.effect])) for fault in plan.faults if _is_jump(fault))
    lag = sum(seconds for fault in plan.faults for seconds in _lags(fault))
    return Tolerance(timedelta(seconds=skew), USUAL.cache_lag + timedelta(seconds=lag))


def longest_of(fault: Fault) -> float:
    """Seconds by which a component's view may be behind because of a fault."""
    return max(_lags(fault), default=0.0)


def _is_jump(fault: Fault) -> bool:
    return fault.kind is Kind.CLOCK


def _lags(fault: Fault) -> Iterator[float]:
    """Each part of a fault may delay a component's view."""
    if fault.kind in _CUT_OFF:
        yield fault.seconds("for")
    for key in ("stale", "delay"):
        value = fault.parameters.get(key)
        longest = value.get("max") if isinstance(value, Mapping) else value
        if longest is not None:
            yield duration(longest, key)
    if fault.kind is Kind.LATENCY:
        yield read_latency(fault.parameters[fault.effect]).rare


async def read_differences(client: APIClient, restart: Callable[[], Awaitable[None]]) -> list[str]:
    before = await _read_all(client)
    await restart()
    after = await _read_all(client)
    return [
        f"{path}: object {uid} at resourceVersion {version} read {was.decode()}, and "
        f"{after[path, uid][1].decode()} from a server that has just started"
        for (path, uid), (version, was) in before.items()
        if (path, uid) in after and after[path, uid][0] == version and after[path, uid][1] != was
    ]


async def _read_all(client: APIClient) -> Read:
    """Every version that is served counts; lists that fail are left out."""
    found: dict[tuple[str, str], tuple[str, bytes]] = {}
    for path in await _list_paths(client):
        try:
            items = (await client.request("GET", path)).get("items") or ()
        except StatusError:
            continue
        for item in items:
            metadata = item["metadata"]
            if "uid" in metadata:
                read = metadata.get("resourceVersion", ""), orjson.dumps(item)
                found[path, metadata["uid"]] = read
    return found


async def _list_paths(client: APIClient) -> list[str]:
    groups = (await client.request("GET", "/apis"))["groups"]
    versions = [f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"]]
    paths = []
    for version in ["/api/v1", *versions]:
        try:
            resources = (await client.request("GET", version))["resources"]
        except StatusError:  # of an extension server that does not answer
            continue
        paths += [f"{version}/{each['name']}" for each in resources if "list" in each["verbs"]]
    return paths
