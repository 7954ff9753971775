"""Computes the time and the rules by which users of devices are evicted, over claims, slices and taint rules
with the selectors that each minor has, and reports the evictions that a rule causes in its status (1.35 and
later).

Until 1.34 a rule may also name a class and selectors, and counts only for devices that are published
(upstream puts its taint into slices); since 1.35 it names driver, pool and device. A rule without a selector
selects every device until 1.34, and none since 1.35.

Sources: k8s.io/kubernetes/pkg/controller/devicetainteviction, 1.33 … 1.37; pkg/controller/devicetainteviction
(maybeUpdateRuleStatus), 1.36, with its wording; k8s.io/dynamic-resource-allocation/resourceslice/tracker,
1.34; pkg/controller/devicetainteviction, 1.36.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.client.refs import taint_rules_ref
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import tolerates
from kubeskew.controllers.devicetaints.features import DeviceTaintFeatures
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.framework.device_pools import Pool, selects

NO_EXECUTE = "NoExecute"
IN_PROGRESS = "EvictionInProgress"
_ONCE = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule "
    "to trigger an update."
)
_SECONDS = 10.0
Concerned = Callable[[Object], tuple[list[Object], int, int]]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A slice's own taints have no rules; others have the uids of theirs."""

    when: datetime
    rules: frozenset[str]


def devices_of(slices: Iterable[Object]) -> dict[str, Object]:
    """Only slices of the pool's newest generation count."""
    listed = list(slices)
    newest = max((slice_["spec"]["pool"].get("generation") or 0 for slice_ in listed), default=0)
    found: dict[str, Object] = {}
    for slice_ in listed:
        if (slice_["spec"]["pool"].get("generation") or 0) == newest:
            for device in slice_["spec"].get("devices") or ():
                found.setdefault(device["name"], device.get("basic") or device)
    return found


def tainted(devices: Mapping[str, Object]) -> dict[str, list[Object]]:
    found = {name: [*_no_execute(device)] for name, device in devices.items()}
    return {name: taints for name, taints in found.items() if taints}


def _no_execute(device: Object) -> Iterator[Object]:
    return (taint for taint in device.get("taints") or () if taint.get("effect") == NO_EXECUTE)


def eviction_time(taint: Object, tolerations: Iterable[Object]) -> datetime | None:
    """None if the taint is tolerated for ever.

    As upstream, a toleration must name NoExecute; one of every effect does not count.
    """
    seconds: int | None = None
    for toleration in tolerations:
        if toleration.get("effect") != NO_EXECUTE or not tolerates(toleration, taint):
            continue
        if toleration.get("tolerationSeconds") is None:
            return None
        patience = max(0, toleration["tolerationSeconds"])
        seconds = patience if seconds is None else min(seconds, patience)
    added = taint.get("timeAdded")
    return parse_timestamp(added) + timedelta(seconds=seconds or 0) if added else None


def joined(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """The earliest time counts, with the rules of all evictions."""
    found = [eviction for eviction in evictions if eviction is not None]
    if not found:
        return None
    return Eviction(
        min(eviction.when for eviction in found), frozenset().union(*(eviction.rules for eviction in found))
    )


class RuleMatcher:
    """`device_class` looks a class up by its name."""

    def __init__(self, features: DeviceTaintFeatures, device_class: Callable[[str], Object | None]) -> None:
        self._features = features
        self._class = device_class

    def matches(self, rule: Object, pool: Pool, name: str, device: Object | None) -> bool:
        """`device` is as published, None if it is not."""
        if not self._features.rules_name_classes:
            return selects(rule, pool, name)
        if device is None:
            return False
        selector = rule["spec"].get("deviceSelector")
        if selector is None:
            return True
        selectors = list(self._selectors(selector))
        return selects(rule, pool, name) and all(
            selector is not None and self._holds(selector, pool, device) for selector in selectors
        )

    def _selectors(self, selector: Object) -> Iterator[str | None]:
        """All of these expressions must hold; None among them if the class does not exist."""
        if selector.get("deviceClassName"):
            found = self._class(selector["deviceClassName"])
            if found is None:
                yield None
                return
            yield from _expressions(found["spec"].get("selectors"))
        yield from _expressions(selector.get("selectors"))

    def _holds(self, expression: str, pool: Pool, device: Object) -> bool:
        # Rarely needed, and slow to import.
        from kubeskew.apimachinery.cel.devices import compile_selector, device_value
        from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError

        features = self._features.cel
        try:
            return compile_selector(expression, features).matches(device_value(pool.driver, device, features))
        except (CompileError, EvaluationError):
            return False


def _expressions(selectors: Any) -> Iterator[str]:
    return ((selector.get("cel") or {}).get("expression") or "" for selector in selectors or ())


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a rule's effects. Published and allocated devices are counted for the effect None only."""

    pods: int = 0  # pods that wait for their eviction, or would be evicted
    namespaces: int = 0  # namespaces of those pods
    evicted: int = 0  # evicted pods since the controller started
    published: int = 0
    allocated: int = 0


def condition_of(rule: Object, counts: Counts) -> Object:
    """lastTransitionTime is left to the caller."""
    effect = rule["spec"]["taint"]["effect"]
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        status, reason, message = _executed(counts)
    elif effect == "None":
        reason, message = "NoEffect", _simulated(counts)
    if counts.evicted:
        evicted = f"{_count(counts.evicted, 'pod')} evicted since starting the controller."
        message = f"{message} {evicted}" if message else evicted
    return {
        "type": IN_PROGRESS,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule["metadata"].get("generation") or 0,
    }


def _executed(counts: Counts) -> tuple[str, str, str]:
    if counts.pods:
        need = "1 pod needs" if counts.pods == 1 else f"{counts.pods} pods need"
        return "True", "PodsPendingEviction", f"{need} to be evicted in {_namespaces(counts)}."
    return "False", "Completed" if counts.evicted else "NotStarted", ""


def _simulated(counts: Counts) -> str:
    return " ".join(
        (
            f"{_count(counts.published, 'published device')} selected.",
            f"{_count(counts.allocated, 'allocated device')} selected.",
            f"{_count(counts.pods, 'pod')} would be evicted in {_namespaces(counts)}",
            _ONCE,
        )
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _namespaces(counts: Counts) -> str:
    return "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"


class RuleStatus:
    def __init__(self, context: ControllerContext, manager: str) -> None:
        self._client = context.client
        self._clock = context.environment.clock
        self._ref = taint_rules_ref(context.environment.version)
        self._manager = manager
        self._evicted: Counter[str] = Counter()  # by the rule's uid

    def evicted(self, rule: Object) -> None:
        self._evicted[rule["metadata"]["uid"]] += 1

    def forget(self, rule: Object) -> None:
        self._evicted.pop(rule["metadata"]["uid"], None)

    async def update(self, rule: Object, concerned: Concerned) -> float:
        """Writes the condition if it is due and differs; otherwise the seconds to wait are returned."""
        before = find_condition(rule, IN_PROGRESS) or {}
        if before and before.get("observedGeneration") == rule["metadata"].get("generation"):
            since = (self._clock.now() - parse_timestamp(before["lastTransitionTime"])).total_seconds()
            if since < _SECONDS:
                return _SECONDS - since
        condition = condition_of(rule, self._counts(rule, concerned))
        if {**condition, "lastTransitionTime": before.get("lastTransitionTime")} != before:
            await self._write(rule, condition)
        return 0.0

    def _counts(self, rule: Object, concerned: Concerned) -> Counts:
        """Pods and devices are counted only if the condition shows them."""
        metadata, effect = rule["metadata"], rule["spec"]["taint"].get("effect")
        evicted = self._evicted[metadata["uid"]]
        if effect not in (NO_EXECUTE, "None"):
            return Counts(evicted=evicted)
        users, published, allocated = concerned(rule)
        namespaces = len({pod["metadata"]["namespace"] for pod in users})
        return Counts(len(users), namespaces, evicted, published, allocated)

    async def _write(self, rule: Object, condition: Object) -> None:
        metadata = {"name": rule["metadata"]["name"], "uid": rule["metadata"]["uid"]}
        now = {"lastTransitionTime": timestamp(self._clock.now())}
        await self._client.apply(
            self._ref,
            {"metadata": metadata, "status": {"conditions": [{**condition, **now}]}},
            field_manager=self._manager,
            force=True,
            subresource="status",
        )
