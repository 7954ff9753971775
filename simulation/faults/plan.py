"""Plans of faults for one simulation, as data: made before it begins, printed, kept in a file, played again.

    {"seed": 7, "faults": [
      {"id": "crash-1", "component": "scheduler", "nth": 3, "crash": "after", "back": "2s"},
      {"id": "latency-1", "latency": {"usual": "2ms", "rare": "80ms", "share": 0.05}}
    ]}

A fault is written as the scenario operation `fault` writes it (apimachinery/faults/syntax.py), or has one
of the effects that only a simulation can have, on messages, order, clocks and processes:

    latency: {usual: 2ms, rare: 80ms, share: 0.05}
                                     the seconds of messages to and from API servers: evenly up to `usual`, a
                                     `share` of them from there up to `rare`; of a component, or of all
    order: processes                 which process runs next is drawn; each does its work in its own order
    clockJump: 30s                   the component's clock goes ahead, with a minus behind
    kill: true                       SIGKILL
    switches: {refusePrepare: true}  of a component driver/NAME; on `nodes`, or on all of its own

`clockJump`, `kill` and `switches` have `at`; latency, order, clockJump and switches may have `for`. The keys
of every fault:

    at: 3s                           it is set so long after the faults begin; without, at once
    back: 2s                         what it kills is started again after so long; without, when faults end

Draws while a fault is played depend on the plan's seed and the fault's own name: another fault, more or less,
shifts none of them.

Components count their calls and events in every run with a plan, whether it disturbs them or not. Only a
component with a fault counts, and events only one with a fault of events. So each has faults that never fire.
They are there in all runs, so that a run with faults goes as the one in which calls were counted, up to the
first that fires; but a fault that is set shifts by microseconds which component comes first, so that a number
may be another call's all the same.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.faults import fault as component_faults
from kubeskew.apimachinery.faults.keys import EFFECTS as COMPONENT_EFFECTS
from kubeskew.apimachinery.faults.keys import FaultError, duration, text
from kubeskew.apimachinery.faults.syntax import TIMINGS, check_component, read
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apimachinery.known_names import did_you_mean, kind_of
from kubeskew.kubelet.drivers import switches

SIMULATION_EFFECTS = ("latency", "order", "clockJump", "kill", "switches")
_BY_TIME = ("clockJump", "kill", "switches")  # they have no call to wait for
_LASTING = ("latency", "order", "clockJump", "switches")
_WITHOUT_COMPONENT = ("latency", "order")
_PROCESSES = "processes"
EFFECTS = (*COMPONENT_EFFECTS, *SIMULATION_EFFECTS)
_OWN = ("at", "back")  # keys of a plan's faults that a scenario's do not have
_WHEN = (*_OWN[:1], *(key for key in TIMINGS if key != "seed"))
CALLING = ("controller-manager", "scheduler", "kubelet", "driver", "driver-controller")
WATCHING = ("controller-manager", "scheduler", "kubelet")
_NOWHERE = {"resource": "pods", "name": "of-no-name"}
_COUNTS = (
    ("calls", CALLING, {"verb": "delete", **_NOWHERE, "answer": 500}),
    ("events", WATCHING, {"event": "DELETED", **_NOWHERE, "drop": "connection"}),
)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds are evenly distributed up to `usual`, with the probability `share` up to `rare`."""

    usual: float
    rare: float
    share: float

    def of(self, chance: float) -> float:
        """`chance` is a number in [0, 1)."""
        if chance < self.share:
            return self.usual + (self.rare - self.usual) * chance / self.share
        return self.usual * (chance - self.share) / (1.0 - self.share)


def check_effect(effect: str, body: Mapping[str, Any]) -> None:
    """Raises FaultError."""
    known = {"id", effect, "component", *(("nodes",) if effect == "switches" else ())}
    known |= {"at", "for"} if effect in _LASTING else {"at", "back"}
    if wrong := [key for key in body if key not in known]:
        raise FaultError(f"{wrong[0]}: cannot be combined with {effect}; it takes {', '.join(sorted(known))}")
    if effect in _BY_TIME and "at" not in body:
        raise FaultError(f"{effect}: expected `at`, the time after the start of the faults, such as 3s")
    if effect not in _WITHOUT_COMPONENT and "component" not in body:
        raise FaultError(f"{effect}: expected a component")
    if effect == "order" and "component" in body:
        raise FaultError("component: an order is of all processes; leave it out")
    _CHECKS[effect](body)


def read_latency(value: Any) -> Latency:
    """Raises FaultError."""
    if not isinstance(value, Mapping) or value.keys() != {"usual", "rare", "share"}:
        raise FaultError(f"latency: expected {{usual: 2ms, rare: 80ms, share: 0.05}}, found {value!r}")
    usual, rare = duration(value["usual"], "latency.usual"), duration(value["rare"], "latency.rare")
    share = value["share"]
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise FaultError(f"latency.share: expected a number from 0 to below 1, found {share!r}")
    if usual > rare:
        raise FaultError(f"latency: usual {value['usual']} is more than rare {value['rare']}")
    return Latency(usual, rare, float(share))


def read_jump(value: Any) -> float:
    """Seconds are negative for a clock that goes behind. Raises FaultError."""
    try:
        return parse_duration(value)
    except (ValueError, TypeError, AttributeError, IndexError):
        raise FaultError(f"clockJump: expected a duration such as 30s or -5s, found {value!r}") from None


def _check_latency(body: Mapping[str, Any]) -> None:
    read_latency(body["latency"])


def _check_order(body: Mapping[str, Any]) -> None:
    if body["order"] != _PROCESSES:
        raise FaultError(f"order: expected {_PROCESSES}, found {body['order']!r}")


def _check_jump(body: Mapping[str, Any]) -> None:
    read_jump(body["clockJump"])


def _check_kill(body: Mapping[str, Any]) -> None:
    if body["kill"] is not True:
        raise FaultError(f"kill: expected true, found {body['kill']!r}")


def _check_switches(body: Mapping[str, Any]) -> None:
    if not str(body["component"]).startswith("driver/"):
        raise FaultError(f"switches: expected a component driver/NAME, found {body['component']!r}")
    nodes = body.get("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise FaultError(f"nodes: expected a list of names, found {nodes!r}")
    if not isinstance(body["switches"], Mapping) or not body["switches"]:
        raise FaultError(f"switches: expected a mapping, found {body['switches']!r}")
    try:
        switches.parse(body["switches"])
    except switches.SwitchError as error:
        raise FaultError(f"switches: {error}") from error


_CHECKS = {
    "latency": _check_latency,
    "order": _check_order,
    "clockJump": _check_jump,
    "kill": _check_kill,
    "switches": _check_switches,
}


class PlanError(ValueError):
    """The plan cannot be played; the text has the place and the reason."""


class Kind(StrEnum):
    """Each run draws a few of these kinds of faults."""

    ERROR = "error"  # a request is answered with an error
    LOST_REQUEST = "lost-request"
    LOST_ANSWER = "lost-answer"
    SLOW = "slow"  # requests take longer
    LATE_EVENTS = "late-events"
    STALE_WATCH = "stale-watch"
    BROKEN_WATCH = "broken-watch"
    EXPIRED_WATCH = "expired-watch"  # 410
    CRASH = "crash"  # at a write or a delivery
    KILL = "kill"  # at a time
    OUTAGE = "outage"  # of an API server
    PARTITION = "partition"  # of a component from the API servers
    HALF_OPEN = "half-open"  # a component's connections are there, and carry nothing
    LOST_LEASE = "lost-lease"
    DRIVER = "driver"
    CLOCK = "clock"
    LATENCY = "latency"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan. `target` is a component, empty where all are meant.

    `when` has the keys of time or call, `parameters` those that select calls and the effect; together they
    are the written fault.
    """

    name: str
    kind: Kind
    target: str
    when: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        target = {"component": self.target} if self.target else {}
        return {"id": self.name, **target, **self.parameters, **self.when}

    @property
    def effect(self) -> str:
        return next(key for key in EFFECTS if key in self.parameters)

    @property
    def in_component(self) -> bool:
        """The component itself carries the fault out, in simulations as elsewhere."""
        return self.effect in COMPONENT_EFFECTS

    def seconds(self, key: str, default: float = 0.0) -> float:
        """The key is `at`, `for` or `back`."""
        value = self.when.get(key, self.parameters.get(key))
        return default if value is None else duration(value, key)

    def component_body(self, seed: int) -> dict[str, Any]:
        """The operation `fault` takes this body; the fault is optional there, so that it need not fire."""
        written = {key: value for key, value in self.as_json().items() if key not in _OWN}
        return {**written, "seed": self.parameters.get("seed", seed), "optional": True}

    def __str__(self) -> str:
        at = f"at {self.when['at']}: " if "at" in self.when else ""
        back = f", back after {self.parameters['back']}" if "back" in self.parameters else ""
        if self.in_component:
            return f"{self.name}: {at}{read(self.component_body(0))}{back}"
        lasting = f" for {self.when['for']}" if "for" in self.when else ""
        value = json.dumps(self.parameters[self.effect])
        return f"{self.name}: {at}{self.target or 'all'}: {self.effect} {value}{lasting}{back}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All faults of one simulation, and the seed of what is drawn while they are played."""

    seed: int = 0
    faults: tuple[Fault, ...] = ()

    def with_faults(self, faults: Sequence[Fault]) -> "Plan":
        """The other faults go on as they did among all."""
        return Plan(self.seed, tuple(faults))

    def as_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "faults": [fault.as_json() for fault in self.faults]}

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}", *(f"  {fault}" for fault in self.faults)])


def fault_of(body: Mapping[str, Any]) -> Fault:
    """Raises PlanError."""
    try:
        return _fault(body)
    except FaultError as error:
        named = f"fault {body['id']}: " if isinstance(body.get("id"), str) else ""
        raise PlanError(f"{named}{error}") from error


def _fault(body: Mapping[str, Any]) -> Fault:
    effects = [key for key in EFFECTS if key in body]
    if len(effects) != 1:
        found = " and ".join(effects) or f"none in {', '.join(map(str, body)) or 'an empty mapping'}"
        near = next((hint for key in body if (hint := did_you_mean(str(key), EFFECTS))), "")
        raise FaultError(f"expected one of {', '.join(EFFECTS)}, found {found}{near if not effects else ''}")
    (effect,) = effects
    name = text(body, "id")
    if not name:
        raise FaultError("id: expected a name, by which its draws are keyed")
    for key in _OWN:
        if key in body:
            duration(body[key], key)
    if "component" in body:
        check_component(body["component"])
    if effect in SIMULATION_EFFECTS:
        check_effect(effect, body)
        kind = _SIMULATED[effect]
    else:
        if "back" in body and effect != "crash":
            raise FaultError(f"back: cannot be combined with {effect}, which ends nothing")
        kind = _kind(read({key: value for key, value in body.items() if key not in _OWN}), effect)
    when = {key: body[key] for key in _WHEN if key in body}
    rest = {key: value for key, value in body.items() if key not in (*_WHEN, "id", "component")}
    return Fault(name, kind, body.get("component", ""), when, rest)


def _kind(fault: component_faults.Fault, key: str) -> Kind:
    """`key` is the effect's key in the plan."""
    effect, server = fault.effect, fault.component.startswith("apiserver")
    if key == "lostLease":
        return Kind.LOST_LEASE
    match effect.kind:
        case component_faults.Kind.ANSWER:
            return Kind.EXPIRED_WATCH if fault.where.verbs == ("watch",) else Kind.ERROR
        case component_faults.Kind.DROP:
            places = {"request": Kind.LOST_REQUEST, "answer": Kind.LOST_ANSWER}
            return places.get(effect.place, Kind.BROKEN_WATCH)
        case component_faults.Kind.DELAY:
            return Kind.LATE_EVENTS if fault.where.event else Kind.SLOW
        case component_faults.Kind.STALE:
            return Kind.STALE_WATCH
        case component_faults.Kind.CRASH:
            return Kind.CRASH
        case _:
            hangs = effect.place == "hang"
            return Kind.OUTAGE if server else Kind.HALF_OPEN if hangs else Kind.PARTITION


_SIMULATED = {
    "latency": Kind.LATENCY,
    "order": Kind.ORDER,
    "clockJump": Kind.CLOCK,
    "kill": Kind.KILL,
    "switches": Kind.DRIVER,
}


def plan_of(value: Any) -> Plan:
    """Raises PlanError."""
    if not isinstance(value, Mapping) or not isinstance(value.get("faults"), list):
        raise PlanError('expected {"seed": N, "faults": […]}')
    if unknown := [key for key in value if key not in ("seed", "faults")]:
        raise PlanError(f"unknown key {unknown[0]}; known are seed, faults")
    seed = value.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise PlanError(f"seed: expected a whole number, found {seed!r}")
    faults: dict[str, Fault] = {}
    for number, body in enumerate(value["faults"], 1):
        if not isinstance(body, Mapping):
            raise PlanError(f"fault {number}: expected a mapping, found {body!r}")
        fault = fault_of(body)
        if fault.name in faults:
            raise PlanError(f"fault {fault.name}: there are two of this name")
        faults[fault.name] = fault
    return Plan(seed, tuple(faults.values()))


def load(path: Path) -> Plan:
    """Raises PlanError with the file's name."""
    try:
        return plan_of(json.loads(path.read_text()))
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}") from error
    except (PlanError, ValueError) as error:  # ValueError: not JSON, or not even text
        raise PlanError(f"{path}: {error}") from error


def counting_faults(components: Iterable[str]) -> Iterator[Fault]:
    """Each of these faults never fires; with it a component counts its calls."""
    for component in components:
        for what, kinds, never in _COUNTS:
            if kind_of(component) in kinds:
                yield fault_of({"id": f"count-{what}-{component}", "component": component, **never})
