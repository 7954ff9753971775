"""Switches that make a driver on one node fail, while it runs.

As the driver's file and the scenario operation `driver` write it; every key is optional:

    refusePrepare: text or true     each claim is answered with this error
    refuseUnprepare: text or true
    failCalls: text or true         both calls fail as a whole
    delay: 2s                       before each answer
    hang: true                      no answer until this is taken back
    garbage: claims | bytes         answers for claims nobody asked for, or bytes that are no message
    vanish: true                    the sockets are gone, as if the driver had died; its slices stay
    instances: [old, new]           sockets of several instances, as in a rolling update: they come in this
                                    order, and then those go that are not named any more
    devices: 4                      fewer or more devices, in a new generation of the pool
    generation: 7                   the pool's generation, if it is newer than what is published
    staleGeneration: true           slices of a new generation, next to the old ones
    incompletePool: true            the slices count one more than there is
    nodeResources: [{id: CardA, …}] other resources of semantic models than before
    counters: {CardA: {RAM: 5Gi}}   other counts of some of their counters
    newerModel: true                each of them has an attribute of a model that no kubelet knows
    prePartitioned: true            no counters: partitions in use, of what is not in use the largest device;
                                    they stay as they are until it is taken back
    health: {gpu-0: Unhealthy}      or {status: Unhealthy, message: text}
    taints: {gpu-1: [{key: example.com/broken, value: "", effect: NoExecute}]}
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.kubelet.drivers.node_resources import read_counters, read_resources

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m)")
_INSTANCE = re.compile(r"[a-z0-9-]{1,12}")  # part of a socket's path
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_EFFECTS = ("None", "NoSchedule", "NoExecute")


class SwitchError(ValueError):
    """A switch that does not exist, or has an invalid value."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health that the driver reports of a device; `status` is Healthy, Unhealthy or Unknown."""

    status: str = "Healthy"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of all switches; without any, the driver does its work."""

    refuse_prepare: str = ""
    refuse_unprepare: str = ""
    fail_calls: str = ""
    delay: float = 0.0  # seconds
    hang: bool = False
    garbage: str = ""
    vanish: bool = False
    instances: tuple[str, ...] = ("",)
    devices: int | None = None
    generation: int = 0
    stale_generation: bool = False
    incomplete_pool: bool = False
    pre_partitioned: bool = False
    node_resources: tuple[dict[str, Any], ...] | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    newer_model: bool = False
    health: Mapping[str, Health] = field(default_factory=dict)
    taints: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)


def parse(value: Mapping[str, Any]) -> Switches:
    """Null leaves a switch off. Raises SwitchError, with the key."""
    fields: dict[str, Any] = {}
    for key, given in value.items():
        if key not in SWITCHES:
            raise SwitchError(f"unknown switch {key}; known are {', '.join(SWITCHES)}")
        if given is not None:
            name, read = SWITCHES[key]
            try:
                fields[name] = read(given)
            except (ValueError, TypeError, KeyError) as error:
                raise SwitchError(f"{key}: {error}") from error
    return Switches(**fields)


def merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Null resets a switch."""
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def _text(default: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if isinstance(value, bool):
            return default if value else ""
        if not isinstance(value, str):
            raise ValueError(f"expected a text, or true, found {value!r}")
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {value!r}")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"expected a number, found {value!r}")
    return value


def seconds(value: Any) -> float:
    """Parses a duration such as 2s. Raises ValueError."""
    found = _DURATION.fullmatch(str(value))
    if found is None:
        raise ValueError(f"expected a duration such as 500ms or 2s, found {value!r}")
    return float(found["number"]) * _UNITS[found["unit"]]


def _instances(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(_INSTANCE.fullmatch(str(name)) for name in value):
        raise ValueError(f"expected a list of short names, found {value!r}")
    return tuple(map(str, value))


def _garbage(value: Any) -> str:
    if value not in ("claims", "bytes"):
        raise ValueError(f"expected claims or bytes, found {value!r}")
    return str(value)


def _health(value: Any) -> dict[str, Health]:
    found = {}
    for device, given in _mapping(value).items():
        entry = {"status": given} if isinstance(given, str) else _mapping(given)
        if entry.get("status") not in _HEALTH:
            raise ValueError(f"{device}: expected one of {', '.join(_HEALTH)}, found {given!r}")
        found[str(device)] = Health(entry["status"], str(entry.get("message") or ""))
    return found


def _taints(value: Any) -> dict[str, tuple[dict[str, Any], ...]]:
    found = {}
    for device, given in _mapping(value).items():
        taints = tuple(_mapping(taint) for taint in (given if isinstance(given, list) else [given]))
        for taint in taints:
            if not taint.get("key") or taint.get("effect") not in _EFFECTS:
                raise ValueError(f"{device}: a taint needs a key, and an effect of {', '.join(_EFFECTS)}")
        found[str(device)] = taints
    return found


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a mapping, found {value!r}")
    return {str(key): part for key, part in value.items()}


SWITCHES: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "refusePrepare": ("refuse_prepare", _text("simulated PrepareResources failure")),
    "refuseUnprepare": ("refuse_unprepare", _text("simulated UnprepareResources failure")),
    "failCalls": ("fail_calls", _text("simulated failure")),
    "delay": ("delay", seconds),
    "hang": ("hang", _flag),
    "garbage": ("garbage", _garbage),
    "vanish": ("vanish", _flag),
    "instances": ("instances", _instances),
    "devices": ("devices", _number),
    "generation": ("generation", _number),
    "staleGeneration": ("stale_generation", _flag),
    "incompletePool": ("incomplete_pool", _flag),
    "prePartitioned": ("pre_partitioned", _flag),
    "nodeResources": ("node_resources", read_resources),
    "counters": ("counters", read_counters),
    "newerModel": ("newer_model", _flag),
    "health": ("health", _health),
    "taints": ("taints", _taints),
}
