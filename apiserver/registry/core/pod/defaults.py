"""Sets the defaults of Pod objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.amounts import HUGEPAGES
from kubeskew.apiserver.registry.shared.podtemplate.defaults import default_host_ports, pod_spec


def pod(obj: Object, ctx: DefaultingContext) -> None:
    """Sets defaults of pods alone, not of templates: requests follow limits, host ports follow container
    ports."""
    spec = struct(obj, "spec")
    pod_spec(spec, ctx)
    if ctx.features.pods.lifts_grace and spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # as upstream's conversion does, both ways
    fill_null(spec, enableServiceLinks=True)
    for container in each(spec, "containers", "initContainers"):
        _requests_from_limits(container)
    if spec.get("hostNetwork"):
        default_host_ports(spec)
    if ctx.features.pods.pod_resources:
        _pod_level_requests(spec)
    if obj.get("status"):
        _addresses(obj["status"])


def _addresses(status: Object) -> None:
    """Makes `podIP` and `podIPs` agree as upstream's conversion does: `podIP` wins where they differ."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and many[0].get("ip"):
        status["podIP"] = many[0]["ip"]


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pod_level_requests(spec: Object) -> None:
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for name, limit in limits.items():
        if name in requests or not (name in _AT_POD_LEVEL or name.startswith(HUGEPAGES)):
            continue
        asked = [
            container["resources"]["requests"][name]
            for container in each(spec, "containers")
            if name in ((container.get("resources") or {}).get("requests") or {})
        ]
        requests[name] = _sum(asked) if asked else limit
    if requests:
        resources["requests"] = requests


_AT_POD_LEVEL = ("cpu", "memory")


def _sum(texts: list[str]) -> str:
    total = Quantity.parse(texts[0])
    for text in texts[1:]:
        total = total + Quantity.parse(text)
    return total.canonical()
