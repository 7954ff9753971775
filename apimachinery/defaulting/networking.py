"""Defaults of networking.k8s.io and discovery.k8s.io.

Source: pkg/apis/networking/v1/defaults.go, about 1.33; field documentation of discovery.
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


def network_policy(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    for rule in each(spec, "ingress", "egress"):
        for port in each(rule, "ports"):
            fill_null(port, protocol="TCP")
    fill(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def ingress_class(obj: Object, _: DefaultingContext) -> None:
    parameters = struct(obj, "spec").get("parameters")
    if parameters is not None:
        fill_null(parameters, scope="Cluster")


def endpoint_slice(obj: Object, _: DefaultingContext) -> None:
    for port in each(obj, "ports"):
        fill_null(port, name="", protocol="TCP")


DEFAULTERS: dict[str, Defaulter] = {
    "io.k8s.api.networking.v1.NetworkPolicy": network_policy,
    "io.k8s.api.networking.v1.IngressClass": ingress_class,
    "io.k8s.api.discovery.v1.EndpointSlice": endpoint_slice,
}
