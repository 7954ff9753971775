"""ResourceClaim and ResourceClaimTemplate: the rules of their specs, in the shape of v1.

Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.devices import toleration_errors

MAX_SUBREQUESTS = 8
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_CONSTRAINT = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


def claim_spec_errors(spec: Object, path: str, rules: DRAFeatures, *, stored: bool) -> list[FieldError]:
    """`stored`: the spec was accepted before."""
    claim = spec.get("devices") or {}
    at = child(path, "devices")
    requests = claim.get("requests") or []
    names = request_names(requests)

    def request(item: Object, where: str) -> Iterator[FieldError]:
        return _request(item, where, rules, stored=stored)

    def constraint(item: Object, where: str) -> Iterator[FieldError]:
        return _constraint(item, where, names, rules)

    def config(item: Object, where: str) -> Iterator[FieldError]:
        yield from references(item, where, names, rules)
        yield from devices.opaque(item, where, rules, stored=stored)

    most, at_requests = devices.MAX_REQUESTS, child(at, "requests")
    return [
        *devices.unique(requests, most, request, at_requests, rules, lambda one: one.get("name") or ""),
        *devices.each(
            claim.get("constraints"), devices.MAX_CONSTRAINTS, constraint, child(at, "constraints"), rules
        ),
        *devices.each(claim.get("config"), devices.MAX_CONFIGS, config, child(at, "config"), rules),
    ]


def request_names(requests: list[Object]) -> set[str]:
    found = set()
    for request in requests:
        name = request.get("name") or ""
        found.add(name)
        found.update(f"{name}/{sub.get('name') or ''}" for sub in request.get("firstAvailable") or [])
    return found


def references(item: Object, path: str, names: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    rule, at = devices.request_reference(names), child(path, "requests")
    yield from devices.unique(item.get("requests"), devices.MAX_REQUESTS, rule, at, rules, str, "")


def _request(request: Object, path: str, rules: DRAFeatures, *, stored: bool) -> Iterator[FieldError]:
    yield from devices.label(request.get("name") or "", child(path, "name"))
    subrequests, exact = request.get("firstAvailable"), request.get("exactly")
    if not rules.exactly:
        yield from _exact(exact or {}, path, rules, stored=stored)
    elif exact is None and not subrequests:
        yield required(path, _ONE_OF)
    elif exact is not None and subrequests:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
        if rules.checks_several_kinds:
            yield from _exact(exact, child(path, rules.exactly), rules, stored=stored)
            yield from _alternatives(subrequests, child(path, "firstAvailable"), rules, stored=stored)
    elif exact is not None:
        yield from _exact(exact, child(path, rules.exactly), rules, stored=stored)
    else:
        yield from _alternatives(subrequests or [], child(path, "firstAvailable"), rules, stored=stored)


def _alternatives(
    subrequests: list[Object], path: str, rules: DRAFeatures, *, stored: bool
) -> Iterator[FieldError]:
    def subrequest(item: Object, where: str) -> Iterator[FieldError]:
        yield from devices.label(item.get("name") or "", child(where, "name"))
        yield from _exact(item, where, rules, stored=stored)

    yield from devices.unique(
        subrequests, MAX_SUBREQUESTS, subrequest, path, rules, lambda one: one.get("name") or ""
    )


def _exact(request: Object, path: str, rules: DRAFeatures, *, stored: bool) -> Iterator[FieldError]:
    yield from devices.class_name(request.get("deviceClassName") or "", child(path, "deviceClassName"))
    yield from devices.selectors(request.get("selectors"), child(path, "selectors"), rules, stored=stored)
    yield from devices.allocation_mode(request.get("allocationMode") or "", request.get("count") or 0, path)
    yield from toleration_errors(request.get("tolerations"), child(path, "tolerations"), rules)


def _constraint(item: Object, path: str, names: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    yield from references(item, path, names, rules)
    match, distinct = item.get("matchAttribute"), item.get("distinctAttribute")
    if match is not None:
        yield from devices.fully_qualified(match, child(path, "matchAttribute"), rules)
    elif distinct is not None:
        yield from devices.fully_qualified(distinct, child(path, "distinctAttribute"), rules)
    elif rules.consumable_capacity:
        yield required(path, _CONSTRAINT)  # upstream's text, though none is set
    else:
        yield required(child(path, "matchAttribute"))


def admin_access_errors(spec: Object, label: str) -> list[FieldError]:
    """Refuses, in a namespace without the label, the first request that wants administrative access.

    The path is that of a claim in its oldest shape, for templates and newer shapes too.
    """
    for position, request in enumerate((spec.get("devices") or {}).get("requests") or []):
        if (request.get("exactly") or {}).get("adminAccess"):
            at = child(index("spec.devices.requests", position), "adminAccess")
            return [forbidden(at, admin_access_text(label))]
    return []


def admin_access_text(label: str) -> str:
    return f"admin access to devices requires the `{label}: true` label on the containing namespace"
