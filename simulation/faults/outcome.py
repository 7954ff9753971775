"""The outcome of a plan of faults: plain data of what came of it, and what judges it.

The points of a control plane that a run has reached show where it was hurt and in which order things came.
The tolerance is what a plan allows the components of its run.

A read depends on what is stored, the version and the gates, and never on what a server remembers. Upstream's
decodes, prunes, defaults and converts what it reads from storage at each read, or once for its watch cache.
So the answers of an API server are compared with those of one that has just started over the same log.
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
    """Holds what came of a plan in one simulation.

    `calls` are counted of components that had a fault of their own, by kind of call. `points` are what the
    run has reached, each a text `GROUP: POINT`.
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
    notes: list[str] = field(default_factory=list)  # what could not be judged or healed

    @property
    def unfired(self) -> list[Fault]:
        """Returns the faults that never fired, and so have shown nothing."""
        return [fault for fault in self.plan.faults if not self.fired.get(fault.name)]


def points_of(log: Sequence[Logged], plan: Plan) -> Sequence[str]:
    """Returns the points, each once, in the order in which they were reached."""
    return [*dict.fromkeys([*_hurt(log, plan), *_orders(log)])]


def _hurt(log: Sequence[Logged], plan: Plan) -> Iterator[str]:
    """Yields what each fault that fired met: `crash: scheduler after update resourceclaims/status`."""
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
    """Returns how many words of a call say its kind; what comes after them names the object."""
    return 4 if " event of " in call else 3 if call.startswith("commit: ") else 2


def _orders(log: Sequence[Logged]) -> Iterator[str]:
    """Yields who wrote an object after whom: `order: pods: kube-scheduler update > kubelet update`."""
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
    """Returns by how much clocks may differ and caches may be behind: at most by all faults together."""
    skew = sum(abs(read_jump(fault.parameters[fault.effect])) for fault in plan.faults if _is_jump(fault))
    lag = sum(seconds for fault in plan.faults for seconds in _lags(fault))
    return Tolerance(timedelta(seconds=skew), USUAL.cache_lag + timedelta(seconds=lag))


def longest_of(fault: Fault) -> float:
    """Returns for how many seconds what a component sees may be behind because of a fault."""
    return max(_lags(fault), default=0.0)


def _is_jump(fault: Fault) -> bool:
    return fault.kind is Kind.CLOCK


def _lags(fault: Fault) -> Iterator[float]:
    """Yields for how long what a component sees may be behind because of a fault."""
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
    """Returns which objects read otherwise after `restart` of their server, though nobody wrote them."""
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
    """Returns every object in every version that is served; lists that fail are left out."""
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
    """Returns the paths of all collections that can be listed."""
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
