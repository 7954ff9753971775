"""Service and Endpoints: warnings. Source: pkg/api/service/warnings.go, 1.27 … 1.36."""

from collections.abc import Iterator

from kubeskew.apimachinery.field import index
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.addresses import (
    cidr_warnings,
    ip_warnings,
    old_cidr_warnings,
    old_ip_warnings,
)
from kubeskew.apiserver.service_features import ServiceFeatures

_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"


def service_warnings(service: Object, features: ServiceFeatures) -> list[str]:
    return list(_all(service, service["spec"], features)) if features.warnings else []


def _all(service: Object, spec: Object, features: ServiceFeatures) -> Iterator[str]:
    ip, cidr = ip_warnings, cidr_warnings
    if not features.address_wording:
        ip, cidr = old_ip_warnings, old_cidr_warnings
    if _HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    if spec.get("clusterIP") not in {None, "", "None"} and spec.get("type") != "ExternalName":
        for position, text in enumerate(spec.get("clusterIPs") or ()):
            yield from ip(index("spec.clusterIPs", position), text)
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    external = spec.get("externalIPs") or []
    if headless and features.headless_warnings:
        yield from _headless(spec, features)
    for position, text in enumerate(external):
        yield from ip(index("spec.externalIPs", position), text)
    by_name = spec.get("type") == "ExternalName"
    if external and not headless and not by_name and features.external_ips_deprecated:
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from ip("spec.loadBalancerIP", spec["loadBalancerIP"])
    for position, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr(index("spec.loadBalancerSourceRanges", position), text)
    if features.name_warnings:
        yield from _names(spec, by_name=by_name)
    if spec.get("trafficDistribution") == "PreferClose" and features.prefer_close_deprecated:
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _names(spec: Object, *, by_name: bool) -> Iterator[str]:
    if by_name and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if not by_name and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


def _headless(spec: Object, features: ServiceFeatures) -> Iterator[str]:
    if spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.get("externalIPs"):
        yield "spec.externalIPs is ignored for headless services"
    if spec.get("sessionAffinity") != "None" or features.warns_without_affinity:
        yield "spec.SessionAffinity is ignored for headless services"


def status_warnings(service: Object) -> list[str]:
    ingresses = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [
        text
        for position, ingress in enumerate(ingresses)
        if ingress.get("ip")
        for text in ip_warnings(f"status.loadBalancer.ingress[{position}].ip", ingress["ip"])
    ]


def endpoint_warnings(endpoints: Object) -> list[str]:
    return [
        text
        for number, subset in enumerate(endpoints.get("subsets") or ())
        for field in ("addresses", "notReadyAddresses")
        for position, address in enumerate(subset.get(field) or ())
        for text in ip_warnings(f"subsets[{number}].{field}[{position}].ip", address.get("ip") or "")
    ]
