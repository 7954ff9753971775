"""Reads what can go wrong in a simulation alone: with its messages, its order, its clocks and its processes.

    latency: {usual: 2ms, rare: 80ms, share: 0.05}
                                     what messages to and from API servers take: evenly up to `usual`, a
                                     `share` of them from there up to `rare`; of a component, or of all
    order: processes                 which process runs next is drawn; each does its work in its own order
    clockJump: 30s                   the component's clock goes ahead, with a minus behind
    kill: true                       SIGKILL
    switches: {refusePrepare: true}  of a component driver/NAME; on `nodes`, or on all of its own

`clockJump`, `kill` and `switches` say `at`; latency, order, clockJump and switches may say `for`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.faults.reading_values import FaultError, duration
from kubeskew.apimachinery.go_durations import parse_duration
from kubeskew.kubelet.drivers import switches

EFFECTS = ("latency", "order", "clockJump", "kill", "switches")
_BY_TIME = ("clockJump", "kill", "switches")  # they have no call to wait for
_LASTING = ("latency", "order", "clockJump", "switches")
_WITHOUT_COMPONENT = ("latency", "order")
_PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of seconds: evenly up to `usual`, with the probability `share` up to `rare`."""

    usual: float
    rare: float
    share: float

    def of(self, chance: float) -> float:
        """Returns the seconds at a number in [0, 1)."""
        if chance < self.share:
            return self.usual + (self.rare - self.usual) * chance / self.share
        return self.usual * (chance - self.share) / (1.0 - self.share)


def check(effect: str, body: Mapping[str, Any]) -> None:
    """Checks the fault of an effect of this module. Raises FaultError."""
    known = {"id", effect, "component", *(("nodes",) if effect == "switches" else ())}
    known |= {"at", "for"} if effect in _LASTING else {"at", "back"}
    if wrong := [key for key in body if key not in known]:
        raise FaultError(f"{wrong[0]}: cannot stand beside {effect}; it takes {', '.join(sorted(known))}")
    if effect in _BY_TIME and "at" not in body:
        raise FaultError(f"{effect}: expected `at`, the time after the start of the faults, such as 3s")
    if effect not in _WITHOUT_COMPONENT and "component" not in body:
        raise FaultError(f"{effect}: expected a component")
    if effect == "order" and "component" in body:
        raise FaultError("component: an order is of all processes; leave it out")
    _CHECKS[effect](body)


def read_latency(value: Any) -> Latency:
    """Returns the distribution that a mapping describes. Raises FaultError."""
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
    """Returns the seconds that a clock goes ahead, or behind if they are negative. Raises FaultError."""
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
