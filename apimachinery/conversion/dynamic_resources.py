"""Converts resource.k8s.io v1alpha3 and v1beta1 to the shape of v1 (and v1beta2), and back.

In the old shape a request holds the fields of `exactly` itself and a device is wrapped in `basic`; in
v1alpha3 a capacity is a plain quantity.

Source: pkg/apis/resource/v1beta1/conversion.go, 1.34 to 1.36.
"""

from kubeskew.apimachinery.objects import Object

_GROUP = "resource.k8s.io"
_EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)


def _requests(spec: Object) -> list[Object]:
    return (spec.get("devices") or {}).get("requests") or []


def spec_to_v1(spec: Object) -> None:
    """Moves the fields of requests into `exactly`; a request without any of them gets none."""
    for request in _requests(spec):
        exact = {name: request.pop(name) for name in _EXACT if name in request}
        if any(value or isinstance(value, bool | dict | list) for value in exact.values()):
            request["exactly"] = exact


def spec_from_v1(spec: Object) -> None:
    for request in _requests(spec):
        request.update(request.pop("exactly", None) or {})


def claim_to_v1(obj: Object) -> None:
    spec_to_v1(obj.get("spec") or {})


def claim_from_v1(obj: Object) -> None:
    spec_from_v1(obj.get("spec") or {})


def template_to_v1(obj: Object) -> None:
    spec_to_v1((obj.get("spec") or {}).get("spec") or {})


def template_from_v1(obj: Object) -> None:
    spec_from_v1((obj.get("spec") or {}).get("spec") or {})


def _devices(obj: Object) -> list[Object]:
    return (obj.get("spec") or {}).get("devices") or []


def slice_to_v1(obj: Object) -> None:
    for device in _devices(obj):
        device.update(device.pop("basic", None) or {})
        _drop_empty(device, "attributes", "capacity")


def _drop_empty(holder: Object, *names: str) -> None:
    for name in names:
        if not holder.get(name, True):
            del holder[name]


def slice_from_v1(obj: Object) -> None:
    """Wraps devices in `basic`, always; as upstream, an empty node name and a false `allNodes` are lost."""
    _drop_empty(obj.get("spec") or {}, "nodeName", "allNodes")
    for device in _devices(obj):
        _drop_empty(device, "attributes", "capacity")
        basic = {name: device.pop(name) for name in list(device) if name != "name"}
        device["basic"] = basic


def slice_alpha_to_v1(obj: Object) -> None:
    """Converts v1alpha3, where capacities are plain quantities."""
    slice_to_v1(obj)
    for device in _devices(obj):
        for name, amount in (device.get("capacity") or {}).items():
            if not isinstance(amount, dict):
                device["capacity"][name] = {"value": amount}


def slice_alpha_from_v1(obj: Object) -> None:
    slice_from_v1(obj)
    for device in _devices(obj):
        capacity = device["basic"].get("capacity") or {}
        for name, amount in capacity.items():
            if isinstance(amount, dict):
                capacity[name] = amount.get("value") or "0"


CONVERTERS = {
    **{
        (_GROUP, version, "ResourceClaim"): (claim_to_v1, claim_from_v1)
        for version in ("v1alpha3", "v1beta1")
    },
    **{
        (_GROUP, version, "ResourceClaimTemplate"): (template_to_v1, template_from_v1)
        for version in ("v1alpha3", "v1beta1")
    },
    (_GROUP, "v1beta1", "ResourceSlice"): (slice_to_v1, slice_from_v1),
    (_GROUP, "v1alpha3", "ResourceSlice"): (slice_alpha_to_v1, slice_alpha_from_v1),
}
