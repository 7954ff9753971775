"""Sets the defaults of ResourceClaim objects.

Source: pkg/apis/resource/v1alpha2/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)


def _amount(request: Object) -> None:
    fill(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        fill(request, count=1)


def _tolerations(request: Object) -> None:
    for toleration in each(request, "tolerations"):
        fill(toleration, operator="Equal")


def default_claim_spec(spec: Object, *, inline: bool, rules: DRAFeatures) -> None:
    """`inline`: the exact request's fields stand in the request itself (v1beta1, v1alpha3)."""
    for request in each(spec.get("devices") or {}, "requests"):
        subrequests = each(request, "firstAvailable")
        exact = request if inline else request.get("exactly")
        if exact is not None and not (
            inline and rules.alternatives and (subrequests or not request.get("deviceClassName"))
        ):
            _amount(exact)
            if rules.admin_access_default:
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


def claim(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(obj, "spec"), inline=False, rules=ctx.features.devices)
    _status(obj)


def inline_claim(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(obj, "spec"), inline=True, rules=ctx.features.devices)
    _status(obj)


def classic_claim(obj: Object, _: DefaultingContext) -> None:
    """Sets when the driver allocates (v1alpha1, v1alpha2)."""
    fill(struct(obj, "spec"), allocationMode="WaitForFirstConsumer")
