"""Devices that have to become ready before a pod may be bound to its node (KEP-5007).

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, 1.34 … 1.37.
"""

from collections.abc import Iterator
from datetime import datetime

from kubeskew.apimachinery.clock import later, parse_timestamp
from kubeskew.apimachinery.field import show
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.features import DynamicResourcesFeatures


class BindingError(Exception):
    """The devices of a claim will not become ready; the text is for people."""


class BindingTimeout(BindingError):  # noqa: N818 - as the others are called
    pass


def conditional(claim: ObjectView) -> Iterator[ObjectView]:
    """Selects the results of the claim's allocation that name binding conditions."""
    for result in ((allocation(claim) or {}).get("devices") or {}).get("results") or ():
        if result.get("bindingConditions"):
            yield result


class Readiness:
    def __init__(self, features: DynamicResourcesFeatures) -> None:
        self._seconds = features.binding_seconds
        self._prefixed = features.binding_error_prefix

    def is_ready(self, claim: ObjectView) -> bool:
        """All conditions must be true; raises BindingError if one reports that binding failed."""
        if allocation(claim) is None:
            return False
        for result in conditional(claim):
            conditions = _conditions(claim, result)
            if conditions is None:
                return False
            for name in result.get("bindingFailureConditions") or ():
                if _is_true(conditions.get(name)):
                    raise BindingError(self._failure(claim, conditions[name]))
            if not all(_is_true(conditions.get(name)) for name in result["bindingConditions"]):
                return False
        return True

    def _failure(self, claim: ObjectView, condition: ObjectView) -> str:
        name = claim["metadata"]["name"]
        text = show(condition.get("message") or "")
        said = f"reason={condition.get('reason') or ''}, message={text}"
        if self._prefixed:
            return f"device binding failed: claim={name}, {said}"
        return f"claim {name} binding failed: {said}"

    def is_overdue(self, claim: ObjectView, now: datetime) -> bool:
        """Time counts from the allocation's timestamp; a claim without binding conditions is never
        overdue."""
        since = (allocation(claim) or {}).get("allocationTimestamp")
        if since is None or next(conditional(claim), None) is None:
            return False
        return later(parse_timestamp(since), self._seconds) < now

    def overdue(self, claim: ObjectView) -> BindingTimeout:
        name = claim["metadata"]["name"]
        return BindingTimeout(
            f"device binding timeout: claim={name}" if self._prefixed else f"claim {name} binding timeout"
        )

    def expired(self) -> BindingTimeout:
        return BindingTimeout(
            "device binding timeout: context deadline exceeded"
            if self._prefixed
            else "device binding timeout"
        )

    def is_lost(self, claim: ObjectView, now: datetime) -> bool:
        """An allocated claim is given up if binding failed for a device, or takes too long."""
        try:
            return not self.is_ready(claim) and self.is_overdue(claim, now)
        except BindingError:
            return True


def _conditions(claim: ObjectView, result: ObjectView) -> dict[str, ObjectView] | None:
    """Keyed by type; None until the device's driver has reported any."""
    keys = ("driver", "pool", "device")
    for device in (claim.get("status") or {}).get("devices") or ():
        if all(device.get(key) == result.get(key) for key in keys):
            return {condition["type"]: condition for condition in device.get("conditions") or ()}
    return None


def _is_true(condition: ObjectView | None) -> bool:
    return condition is not None and condition.get("status") == "True"
