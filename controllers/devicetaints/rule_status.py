"""Keeps the status of taint rules up to date, with a least time between two writes.

Source: pkg/controller/devicetainteviction (maybeUpdateRuleStatus), 1.36.
"""

from collections import Counter
from collections.abc import Callable

from kubeskew.apimachinery.client.refs import taint_rules_ref
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.devicetaints.evictions import NO_EXECUTE
from kubeskew.controllers.devicetaints.rule_conditions import IN_PROGRESS, Counts, condition_of
from kubeskew.controllers.framework.base import ControllerContext

_SECONDS = 10.0
Concerned = Callable[[Object], tuple[list[Object], int, int]]


class RuleStatus:
    """Counts the pods evicted because of each rule."""

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
        """Writes the condition if it is due and differs; returns the seconds to wait if it is not due yet."""
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
        """Counts affected pods and devices, only if the condition shows them."""
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
