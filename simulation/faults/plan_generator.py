"""Draws plans of faults from seeds.

Each run draws a subset of the kinds of faults, and then faults of these kinds (swarm testing; Groce and
others, ISSTA 2012): with every kind in every run some would hide the effects of others. Each kind has a
stream of numbers of its own.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.clock import repeatable
from kubeskew.apimachinery.faults.fault import PERIODIC, PLUGIN_CALLS, PLUGINS
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.cluster import config, creation
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.faults.plan import Fault, Kind, Plan, fault_of
from kubeskew.simulation.machine import CountedPorts

_KIND_SHARE = 0.3  # of the kinds a run draws
# Most runs have some: where messages take no time, and machines take turns, little can come between.
_SHARES = {Kind.LATENCY: 0.8, Kind.ORDER: 0.6}
_FAULTS_MAX = 3  # of one kind
_LONG_SHARE = 0.15  # of watches that stand still: for longer than anybody waits
# Of so many writes or events the n-th is drawn where a component's own numbers are not known.
_CALLS_MAX = {"driver": 4, "driver-controller": 10, "scheduler": 30, "kubelet": 30}
_CALLS_MAX_ELSE = 60

Calls = Mapping[str, Mapping[str, int]]  # component → kind of call → how often


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cell's cluster, for drawing faults. `calls` are of a run without faults, where there was one: then
    writes and events are drawn from those that there are. `seconds` are the scenario's duration in it."""

    components: tuple[str, ...]
    calls: Calls = field(default_factory=dict)
    seconds: float = 1.0  # virtual

    def of(self, *kinds: str) -> Sequence[str]:
        """Components come in the order of the cluster's."""
        return [name for name in self.components if kind_of(name) in kinds]


def describe(cell: Cell) -> ClusterDescription:
    spec = config.parse(dict(cell.cluster()), "the scenario's cluster")
    return ClusterDescription(tuple(creation.plan(spec, CountedPorts()).components()))


def draw(seed: int, cluster: ClusterDescription, kinds: Sequence[Kind] = tuple(Kind)) -> Plan:
    """A seed always gives the same plan, with faults of these kinds only.

    It is empty if the cluster has nothing that could have one.
    """
    possible = [kind for kind in kinds if _targets(kind, cluster)]
    drawn = [
        kind for kind in possible if _stream(seed, kind, "swarm").random() < _SHARES.get(kind, _KIND_SHARE)
    ]
    if possible and not drawn:
        drawn = [_stream(seed, "one", "swarm").choice(possible)]
    return Plan(seed, tuple(fault for kind in drawn for fault in _faults(seed, kind, cluster)))


def _stream(seed: int, kind: str, purpose: str) -> random.Random:
    return repeatable(f"{seed} {kind} {purpose}")


def _targets(kind: Kind, cluster: ClusterDescription) -> Sequence[str]:
    """One empty name stands for a fault of the whole cluster."""
    if kind in (Kind.LATENCY, Kind.ORDER):
        return ("",)
    return cluster.of(*_TARGETS.get(kind, _CLIENTS))


def _faults(seed: int, kind: Kind, cluster: ClusterDescription) -> Sequence[Fault]:
    targets = _targets(kind, cluster)
    single = kind in (Kind.LATENCY, Kind.ORDER)
    count = 1 if single else _stream(seed, kind, "count").randint(1, _FAULTS_MAX)
    found = []
    for number in range(1, count + 1):
        chance = _stream(seed, kind, f"fault {number}")
        target = chance.choice(targets)
        body = {"id": f"{kind}-{number}", **({"component": target} if target else {})}
        found.append(fault_of({**body, **_DRAW[kind](_Chance(chance, target, cluster))}))
    return found


class _Chance:
    """Draws the body of one fault: one method for each kind."""

    def __init__(self, stream: random.Random, target: str, cluster: ClusterDescription) -> None:
        self._stream = stream
        self._target = target
        self._cluster = cluster

    # -- when

    def _nth(self, calls: int = 0) -> int:
        """Each order of magnitude of the number is as likely as the others."""
        calls = calls or _CALLS_MAX.get(kind_of(self._target), _CALLS_MAX_ELSE)
        return min(calls, int(calls ** self._stream.random()) + self._stream.randrange(2))

    def _seconds(self, low: float, high: float) -> str:
        """Short durations are drawn more often."""
        return f"{1000 * low * (high / low) ** self._stream.random():.0f}ms"

    def _at(self) -> dict[str, Any]:
        return {"at": self._seconds(0.005, 2 * max(self._cluster.seconds, 0.1))}

    def _back(self) -> dict[str, Any]:
        return {"back": self._seconds(0.05, 20.0)}

    # -- which calls

    def _write(self) -> dict[str, Any]:
        return self._call("verb", _write_of) or {"verb": list(_WRITES), "nth": self._nth()}

    def _write_or_call(self) -> dict[str, Any]:
        return self._call("verb", _write_or_call_of) or self._write()

    def _event(self) -> dict[str, Any]:
        return self._call("event", _event_of) or {"event": "*", "nth": self._nth()}

    def _call(self, key: str, parse: "Parse") -> dict[str, Any]:
        """Calls of the run without faults are drawn from; the selector is empty if there are none."""
        calls = sorted(self._cluster.calls.get(self._target, {}).items())
        known = [(*found, count) for call, count in calls if (found := parse(call)) is not None]
        if not known:
            return {}
        verb, resource, count = self._stream.choice(known)
        where = {} if resource == PLUGINS else {"resource": resource}
        return {key: verb, **where, "nth": self._nth(count)}

    # -- what

    def error(self) -> dict[str, Any]:
        many = {"times": self._stream.randint(2, 6)} if self._stream.random() < 0.3 else {}
        write, code = self._write(), self._stream.choice(_CODES)
        return {**write, "answer": 500 if code == 409 and _creates(write) else code, **many}

    def lost_request(self) -> dict[str, Any]:
        return {**self._write_or_call(), "drop": "request"}

    def lost_answer(self) -> dict[str, Any]:
        return {**self._write_or_call(), "drop": "answer"}

    def slow(self) -> dict[str, Any]:
        return {**self._write_or_call(), "delay": self._seconds(0.05, 8.0)}

    def late_events(self) -> dict[str, Any]:
        longest = self._seconds(0.05, 5.0)
        some = {"event": "*", "probability": 0.2, "for": self._seconds(2.0, 20.0)}
        return {**some, "delay": {"min": "0s", "max": longest}}

    def stale(self) -> dict[str, Any]:
        long = self._stream.random() < _LONG_SHARE
        lasting = self._seconds(310.0, 700.0) if long else self._seconds(0.5, 15.0)
        return {**self._event(), "times": 1, "stale": lasting}

    def broken_watch(self) -> dict[str, Any]:
        return {**self._event(), "drop": "connection"}

    def expired_watch(self) -> dict[str, Any]:
        return {**self._event(), "answer": 410}

    def crash(self) -> dict[str, Any]:
        place = {"crash": self._stream.choice(("before", "after")), **self._back()}
        if kind_of(self._target) == "apiserver":
            return {"nth": self._nth(), **place}
        delivery = kind_of(self._target) in _WATCHING and self._stream.random() < 0.4
        return {**(self._event() if delivery else self._write_or_call()), **place}

    def kill(self) -> dict[str, Any]:
        return {"kill": True, **self._at(), **self._back()}

    def outage(self) -> dict[str, Any]:
        by_write = {"verb": list(_WRITES), "nth": self._nth(3 * _CALLS_MAX_ELSE)}
        begin = by_write if self._stream.random() < 0.5 else self._at()
        how = "hang" if self._stream.random() < 0.3 else "refuse"
        return {**begin, "outage": how, "for": self._seconds(0.2, 12.0)}

    def partition(self) -> dict[str, Any]:
        return {**self._write(), "outage": "refuse", "for": self._seconds(0.2, 25.0)}

    def half_open(self) -> dict[str, Any]:
        return {**self._write(), "outage": "hang", "for": self._seconds(0.2, 25.0)}

    def lost_lease(self) -> dict[str, Any]:
        return {"lostLease": True, "nth": self._nth(8), "for": self._seconds(11.0, 30.0)}

    def driver(self) -> dict[str, Any]:
        switch = self._stream.choice(_SWITCHES)
        return {"switches": dict(switch), **self._at(), "for": self._seconds(1.0, 15.0)}

    def clock(self) -> dict[str, Any]:
        sign = "-" if self._stream.random() < 0.5 else ""
        return {"clockJump": sign + self._seconds(0.2, 60.0), **self._at(), "for": self._seconds(1.0, 30.0)}

    def latency(self) -> dict[str, Any]:
        usual, rare = self._seconds(0.001, 0.02), self._seconds(0.05, 2.0)
        return {"latency": {"usual": usual, "rare": rare, "share": self._stream.choice((0.0, 0.01, 0.05))}}

    def order(self) -> dict[str, Any]:
        return {"order": "processes"}


Parse = Callable[[str], tuple[str, str] | None]


def _event_of(call: str) -> tuple[str, str] | None:
    """Type and resource come from a kind of call (`faults.calls.Call.kind`); None if it is no event."""
    kind, found, resource = call.partition(" event of ")
    return (kind, resource) if found and kind != "ERROR" else None


def _write_of(call: str) -> tuple[str, str] | None:
    """None if the call is no write, or one that is repeated for ever."""
    verb, _, resource = call.partition(" ")
    return (verb, resource) if verb in _WRITES and resource.partition("/")[0] not in PERIODIC else None


def _write_or_call_of(call: str) -> tuple[str, str] | None:
    """Calls of a kubelet to a driver count, too."""
    verb, _, resource = call.partition(" ")
    return (verb, resource) if verb in PLUGIN_CALLS else _write_of(call)


def _creates(write: Mapping[str, Any]) -> bool:
    """Creations are not answered with 409: no server answers that an object exists already which does not,
    and a controller that believes it waits for the object for ever."""
    return "create" in write["verb"] and "/" not in write.get("resource", "")


_WRITES = ("create", "update", "patch", "delete")
_CLIENTS = ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller")
_WATCHING = ("controller-manager", "scheduler", "kubelet")
_TARGETS: Mapping[Kind, Sequence[str]] = {
    Kind.STALE_WATCH: _WATCHING,
    Kind.LATE_EVENTS: _WATCHING,
    Kind.BROKEN_WATCH: _WATCHING,
    Kind.EXPIRED_WATCH: _WATCHING,
    Kind.CRASH: ("apiserver", *_CLIENTS),
    Kind.KILL: ("apiserver", *_CLIENTS),
    Kind.OUTAGE: ("apiserver",),
    Kind.LOST_LEASE: ("controller-manager", "scheduler"),
    Kind.DRIVER: ("driver",),
    Kind.CLOCK: ("apiserver", "controller-manager", "scheduler", "kubelet"),
}
_CODES = (409, 429, 500, 503, 504)
_SWITCHES: Sequence[Mapping[str, Any]] = (
    {"refusePrepare": True},
    {"refuseUnprepare": True},
    {"failCalls": True},
    {"delay": "3s"},
    {"hang": True},
    {"garbage": "claims"},
    {"garbage": "bytes"},
    {"vanish": True},
)
_DRAW: Mapping[Kind, Callable[[_Chance], dict[str, Any]]] = {
    Kind.ERROR: _Chance.error,
    Kind.LOST_REQUEST: _Chance.lost_request,
    Kind.LOST_ANSWER: _Chance.lost_answer,
    Kind.SLOW: _Chance.slow,
    Kind.LATE_EVENTS: _Chance.late_events,
    Kind.STALE_WATCH: _Chance.stale,
    Kind.BROKEN_WATCH: _Chance.broken_watch,
    Kind.EXPIRED_WATCH: _Chance.expired_watch,
    Kind.CRASH: _Chance.crash,
    Kind.KILL: _Chance.kill,
    Kind.OUTAGE: _Chance.outage,
    Kind.PARTITION: _Chance.partition,
    Kind.HALF_OPEN: _Chance.half_open,
    Kind.LOST_LEASE: _Chance.lost_lease,
    Kind.DRIVER: _Chance.driver,
    Kind.CLOCK: _Chance.clock,
    Kind.LATENCY: _Chance.latency,
    Kind.ORDER: _Chance.order,
}
