"""Defaults of resource.k8s.io in all its versions.

Source: pkg/apis/resource/*/defaults.go, 1.36 (older versions from their field documentation).
"""

from kubeskew.apimachinery.defaulting.context import (
    Defaulter,
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apimachinery.errors import Object

_STATUS_REQUEST_LIMIT = 100


def _amount(request: Object) -> None:
    fill(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        fill(request, count=1)


def _tolerations(request: Object) -> None:
    for toleration in each(request, "tolerations"):
        fill(toleration, operator="Equal")


def _claim_spec(spec: Object, *, inline: bool, minor: int = 36) -> None:
    """`inline`: the exact request's fields stand in the request itself (v1beta1, v1alpha3)."""
    alternatives = minor >= 33  # which a request without a class may have
    for request in each(spec.get("devices") or {}, "requests"):
        subrequests = each(request, "firstAvailable")
        exact = request if inline else request.get("exactly")
        if exact is not None and not (
            inline and alternatives and (subrequests or not request.get("deviceClassName"))
        ):
            _amount(exact)
            if minor == 31:
                fill_null(exact, adminAccess=False)
        if exact is not None:
            _tolerations(exact)
        for subrequest in subrequests:
            _amount(subrequest)
            _tolerations(subrequest)


def _status(obj: Object) -> None:
    allocation = (obj.get("status") or {}).get("allocation") or {}
    for result in each(allocation.get("devices") or {}, "results"):
        _tolerations(result)


def claim(obj: Object, _: DefaultingContext) -> None:
    _claim_spec(struct(obj, "spec"), inline=False)
    _status(obj)


def template(obj: Object, _: DefaultingContext) -> None:
    _claim_spec(struct(struct(obj, "spec"), "spec"), inline=False)


def inline_claim(obj: Object, ctx: DefaultingContext) -> None:
    _claim_spec(struct(obj, "spec"), inline=True, minor=ctx.version.minor)
    _status(obj)


def inline_template(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(struct(obj, "spec"), "spec")
    _claim_spec(spec, inline=True, minor=ctx.version.minor)


def classic_claim(obj: Object, _: DefaultingContext) -> None:
    """v1alpha2: who allocates, and when."""
    fill(struct(obj, "spec"), allocationMode="WaitForFirstConsumer")


def classic_template(obj: Object, _: DefaultingContext) -> None:
    fill(struct(struct(obj, "spec"), "spec"), allocationMode="WaitForFirstConsumer")


def slice_(obj: Object, ctx: DefaultingContext) -> None:
    for device in each(struct(obj, "spec"), "devices"):
        inner = device.get("basic") or device
        for taint in each(inner, "taints"):
            fill_null(taint, timeAdded=ctx.timestamp)
        for mapping in (inner.get("nodeAllocatableResourceMappings") or {}).values():
            fill_null(mapping, allocationMultiplier="1")


def taint_rule(obj: Object, ctx: DefaultingContext) -> None:
    fill_null(struct(struct(obj, "spec"), "taint"), timeAdded=ctx.timestamp)


def status_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), limit=_STATUS_REQUEST_LIMIT)


def _of(versions: tuple[str, ...], kind: str, function: Defaulter) -> dict[str, Defaulter]:
    return {f"io.k8s.api.resource.{version}.{kind}": function for version in versions}


_FLAT, _INLINE, _CLASSIC = ("v1", "v1beta2"), ("v1beta1", "v1alpha3"), ("v1alpha2",)
_ALL = (*_FLAT, *_INLINE)

DEFAULTERS: dict[str, Defaulter] = {
    **_of(_FLAT, "ResourceClaim", claim),
    **_of(_FLAT, "ResourceClaimTemplate", template),
    **_of(_INLINE, "ResourceClaim", inline_claim),
    **_of(_INLINE, "ResourceClaimTemplate", inline_template),
    **_of(_CLASSIC, "ResourceClaim", classic_claim),
    **_of(_CLASSIC, "ResourceClaimTemplate", classic_template),
    **_of(_ALL, "ResourceSlice", slice_),
    **_of(("v1", "v1beta2", "v1alpha3"), "DeviceTaintRule", taint_rule),
    **_of(("v1alpha3",), "ResourcePoolStatusRequest", status_request),
}
