"""Defaults of the core kinds other than pods.

Source: pkg/apis/core/v1/defaults.go, 1.36. What the REST storage of a service allocates is not a default.
"""

from kubeskew.apimachinery.defaulting.context import (
    Defaulter,
    DefaultingContext,
    each,
    fill,
    fill_null,
    struct,
)
from kubeskew.apimachinery.defaulting.pods import round_up, template, volume_source
from kubeskew.apimachinery.errors import Object

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
    # On by default since 1.30; removed from the tables once locked, so a newer minor means on.
    if ctx.version.minor < 32 and not ctx.gates.enabled("LoadBalancerIPMode"):
        return
    for ingress in each((obj.get("status") or {}).get("loadBalancer") or {}, "ingress"):
        if ingress.get("ip"):
            fill_null(ingress, ipMode="VIP")


def replication_controller(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        fill(spec, selector=dict(labels))
        fill(struct(obj, "metadata"), labels=dict(labels))
    fill_null(spec, replicas=1)
    if spec.get("template") is not None:
        template(spec, ctx)


def endpoints(obj: Object, _: DefaultingContext) -> None:
    for subset in each(obj, "subsets"):
        for port in each(subset, "ports"):
            fill(port, protocol="TCP")


def secret(obj: Object, _: DefaultingContext) -> None:
    fill(obj, type="Opaque")


def persistent_volume(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(struct(obj, "status"), phase="Pending")
    fill(spec, persistentVolumeReclaimPolicy="Retain")
    fill_null(spec, volumeMode="Filesystem")
    volume_source(spec)


def persistent_volume_claim(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "status"), phase="Pending")
    fill_null(struct(obj, "spec"), volumeMode="Filesystem")


def namespace(obj: Object, _: DefaultingContext) -> None:
    metadata = struct(obj, "metadata")
    if metadata.get("name"):
        struct(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    fill(struct(obj, "status"), phase="Active")


def node(obj: Object, _: DefaultingContext) -> None:
    status = struct(obj, "status")
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])


def limit_range(obj: Object, _: DefaultingContext) -> None:
    for item in each(struct(obj, "spec"), "limits"):
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        for name, amounts in (("default", default), ("defaultRequest", request)):
            if amounts:
                item[name] = amounts


def resource_quota(obj: Object, _: DefaultingContext) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    for amounts in (spec.get("hard"), status.get("hard"), status.get("used")):
        for name, text in (amounts or {}).items():
            if amounts is not None:
                amounts[name] = round_up(text)


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.core.v1.Service": service,
    "io.k8s.api.core.v1.ReplicationController": replication_controller,
    "io.k8s.api.core.v1.Endpoints": endpoints,
    "io.k8s.api.core.v1.Secret": secret,
    "io.k8s.api.core.v1.PersistentVolume": persistent_volume,
    "io.k8s.api.core.v1.PersistentVolumeClaim": persistent_volume_claim,
    "io.k8s.api.core.v1.Namespace": namespace,
    "io.k8s.api.core.v1.Node": node,
    "io.k8s.api.core.v1.LimitRange": limit_range,
    "io.k8s.api.core.v1.ResourceQuota": resource_quota,
}
