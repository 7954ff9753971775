"""Rules of ResourceClaim and ResourceClaimTemplate specs, in the shape of v1.

Source: pkg/apis/resource/validation/validation.go, 1.34 to 1.37; older minors by their version's limits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apimachinery.cel.device_features import DeviceFeatures
from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, index, invalid, required
from apiserver.registry.validation import devices

MAX_SUBREQUESTS = 8
EXACTLY_SINCE = 33  # before, the fields of an exact request stood in the request itself
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_CONSTRAINT = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the version and the gates change."""

    minor: int
    distinct_attribute: bool  # gate DRAConsumableCapacity
    list_attributes: bool = False  # gate DRAListTypeAttributes

    def selectors(self, *, stored: bool) -> DeviceFeatures:
        """What expressions of selectors may use; `stored`: they were accepted before."""
        return DeviceFeatures(self.distinct_attribute, self.list_attributes, stored, self.minor)

    @property
    def exactly(self) -> str:
        """The field of an exact request in paths, empty where it is the request itself."""
        return "exactly" if self.minor >= EXACTLY_SINCE else ""


def claim_spec_errors(spec: Object, path: str, rules: ClaimRules, *, stored: bool) -> list[FieldError]:
    """Faults of a claim's spec; `stored`: it was accepted before."""
    claim = spec.get("devices") or {}
    at = child(path, "devices")
    requests = claim.get("requests") or []
    names = request_names(requests)

    def request(item: Object, where: str) -> Iterator[FieldError]:
        return _request(item, where, rules, stored=stored)

    def constraint(item: Object, where: str) -> Iterator[FieldError]:
        return _constraint(item, where, names, rules)

    def config(item: Object, where: str) -> Iterator[FieldError]:
        yield from references(item, where, names)
        yield from devices.opaque(item, where, stored=stored)

    return [
        *devices.unique(
            requests, devices.MAX_REQUESTS, request, child(at, "requests"), lambda one: one.get("name") or ""
        ),
        *devices.each(
            claim.get("constraints"), devices.MAX_CONSTRAINTS, constraint, child(at, "constraints")
        ),
        *devices.each(claim.get("config"), devices.MAX_CONFIGS, config, child(at, "config")),
    ]


def request_names(requests: list[Object]) -> set[str]:
    """`name` and `name/subrequest` of all requests."""
    found = set()
    for request in requests:
        name = request.get("name") or ""
        found.add(name)
        found.update(f"{name}/{sub.get('name') or ''}" for sub in request.get("firstAvailable") or [])
    return found


def references(item: Object, path: str, names: set[str]) -> Iterator[FieldError]:
    """The `requests` of a constraint or configuration."""
    rule = devices.request_reference(names)
    yield from devices.unique(
        item.get("requests"), devices.MAX_REQUESTS, rule, child(path, "requests"), str, field=""
    )


def _request(request: Object, path: str, rules: ClaimRules, *, stored: bool) -> Iterator[FieldError]:
    yield from devices.label(request.get("name") or "", child(path, "name"))
    subrequests, exact = request.get("firstAvailable"), request.get("exactly")

    def subrequest(item: Object, where: str) -> Iterator[FieldError]:
        yield from devices.label(item.get("name") or "", child(where, "name"))
        yield from _exact(item, where, rules, stored=stored)

    if subrequests:
        yield from devices.unique(
            subrequests,
            MAX_SUBREQUESTS,
            subrequest,
            child(path, "firstAvailable"),
            lambda one: one.get("name") or "",
        )
    if exact is not None:
        at = child(path, rules.exactly) if rules.exactly else path
        yield from _exact(exact, at, rules, stored=stored)
    if exact is None and not subrequests:
        if rules.exactly:
            yield required(path, _ONE_OF)
        else:
            yield required(child(path, "deviceClassName"))
    elif exact is not None and subrequests:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")


def _exact(request: Object, path: str, rules: ClaimRules, *, stored: bool) -> Iterator[FieldError]:
    yield from devices.class_name(request.get("deviceClassName") or "", child(path, "deviceClassName"))
    yield from devices.selectors(
        request.get("selectors"), child(path, "selectors"), rules.selectors(stored=stored)
    )
    yield from devices.allocation_mode(request.get("allocationMode") or "", request.get("count") or 0, path)
    yield from devices.each(
        request.get("tolerations"),
        devices.MAX_TOLERATIONS,
        devices.toleration(devices.effects_of(rules.minor)),
        child(path, "tolerations"),
    )
    for name in sorted((request.get("capacity") or {}).get("requests") or {}):
        at = f"{path}.capacity.requests[{name}]"
        yield from devices.qualified(name, at)


def _constraint(item: Object, path: str, names: set[str], rules: ClaimRules) -> Iterator[FieldError]:
    yield from references(item, path, names)
    match, distinct = item.get("matchAttribute"), item.get("distinctAttribute")
    if match is not None:
        yield from devices.fully_qualified(match, child(path, "matchAttribute"))
    elif rules.distinct_attribute and distinct is not None:
        yield from devices.fully_qualified(distinct, child(path, "distinctAttribute"))
    elif rules.distinct_attribute:
        yield required(path, _CONSTRAINT)  # upstream's text, though none is set
    else:
        yield required(child(path, "matchAttribute"))


def admin_access_errors(spec: Object, path: str, rules: ClaimRules, label: str) -> list[FieldError]:
    """For a namespace without the label: every request that wants administrative access."""
    text = f"admin access to devices requires the `{label}: true` label on the containing namespace"
    found = []
    for position, request in enumerate((spec.get("devices") or {}).get("requests") or []):
        if (request.get("exactly") or {}).get("adminAccess"):
            at = index(child(child(path, "devices"), "requests"), position)
            at = child(at, rules.exactly) if rules.exactly else at
            found.append(forbidden(child(at, "adminAccess"), text))
    return found
