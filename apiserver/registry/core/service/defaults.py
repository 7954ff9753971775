"""Sets the defaults of Service objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)

CLIENT_IP_SECONDS = 10800

_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def service(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    _affinity(spec)
    for port in each(spec, "ports"):
        fill(port, protocol="TCP", targetPort=port.get("targetPort") or port.get("port") or 0)
    if spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in {"ClusterIP", *_WITH_NODE_PORTS}:
        fill_null(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill_null(spec, allocateLoadBalancerNodePorts=True)
        _ingress_modes(obj, ctx)


def _affinity(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = struct(spec, "sessionAffinityConfig")
        fill_null(struct(config, "clientIP"), timeoutSeconds=CLIENT_IP_SECONDS)


def _ingress_modes(obj: Object, ctx: DefaultingContext) -> None:
    if not ctx.features.services.ip_modes:
        return
    for ingress in each((obj.get("status") or {}).get("loadBalancer") or {}, "ingress"):
        if ingress.get("ip"):
            fill_null(ingress, ipMode="VIP")
