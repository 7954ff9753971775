"""Checks CSIDrivers.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    not_supported,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")

_MODES = ("Persistent", "Ephemeral")

_LEAST_TOKEN_SECONDS = 600

_MOST_TOKEN_SECONDS = 1 << 32

_LEAST_PERIOD = 10


def driver_errors(spec: Object) -> Iterator[FieldError]:
    """Checks the spec of a CSIDriver."""
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES)
    yield from _token_errors(spec.get("tokenRequests") or [], "spec.tokenRequests")
    for mode in spec.get("volumeLifecycleModes") or []:
        if mode not in _MODES:
            yield not_supported("spec.volumeLifecycleModes", mode, _MODES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _LEAST_PERIOD:
        text = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text)


def _token_errors(requests: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, request in enumerate(requests):
        at, audience = index(path, position), request.get("audience") or ""
        if audience in seen:
            yield duplicate(child(at, "audience"), audience)
            continue
        seen.add(audience)
        seconds, at = request.get("expirationSeconds"), child(at, "expirationSeconds")
        if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")


def driver_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (driver.get("spec") or {} for driver in (new, old))
    if after.get("attachRequired") != before.get("attachRequired"):
        yield invalid("spec.attachedRequired", after.get("attachRequired"), IMMUTABLE)
    if (after.get("volumeLifecycleModes") or []) != (before.get("volumeLifecycleModes") or []):
        yield invalid("spec.volumeLifecycleModes", after.get("volumeLifecycleModes"), IMMUTABLE)
