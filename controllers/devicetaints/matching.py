"""Matches devices against taint rules, with the selectors that each minor has.

Until 1.34 a rule may also name a class and selectors, and counts only for devices that are published
(upstream puts its taint into slices); since 1.35 it names driver, pool and device. A rule without a selector
selects every device until 1.34, and none since 1.35. Source:
k8s.io/dynamic-resource-allocation/resourceslice/tracker, 1.34, and pkg/controller/devicetainteviction, 1.36.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.devicetaints.features import DeviceTaintFeatures
from kubeskew.controllers.framework.device_pools import Pool, selects


class RuleMatcher:
    """Matches devices against rules; `device_class` returns a class by its name."""

    def __init__(self, features: DeviceTaintFeatures, device_class: Callable[[str], Object | None]) -> None:
        self._features = features
        self._class = device_class

    def matches(self, rule: Object, pool: Pool, name: str, device: Object | None) -> bool:
        """Returns whether the rule selects a device; `device` is as published, None if it is not."""
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
        """Yields the expressions that must hold; None if the class does not exist."""
        if selector.get("deviceClassName"):
            found = self._class(selector["deviceClassName"])
            if found is None:
                yield None
                return
            yield from _expressions(found["spec"].get("selectors"))
        yield from _expressions(selector.get("selectors"))

    def _holds(self, expression: str, pool: Pool, device: Object) -> bool:
        """Returns whether an expression holds; one that fails does not."""
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
