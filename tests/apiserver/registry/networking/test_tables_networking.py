"""Rows of services, endpoints and networking.k8s.io: an object in, cells out."""

from typing import Any

import pytest
from table_rows import row, table

BALANCED = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}, {"ip": "9.9.9.9"}]}}}
ADDRESSES = [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]
DEFAULT = {"ingressclass.kubernetes.io/is-default-class": "true"}


def service(kind: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, **spec}}


def rules(*hosts: str) -> dict[str, Any]:
    return {"spec": {"rules": [{"host": host} if host else {} for host in hosts]}}


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "v1 Service",
        service("ClusterIP", clusterIPs=["10.0.0.1", "fd00::1"], selector={"b": "2", "a": "1"},
                ports=[{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]),
        {"Type": "ClusterIP", "Cluster-IP": "10.0.0.1", "External-IP": "<none>",
         "Port(s)": "80/TCP,53:30053/UDP", "Selector": "a=1,b=2"},
    ),
    ("v1 Service", service("NodePort", externalIPs=["1.1.1.1", "2.2.2.2"]),
     {"External-IP": "1.1.1.1,2.2.2.2"}),
    ("v1 Service", service("LoadBalancer"), {"External-IP": "<pending>"}),
    (
        "v1 Service",
        {**service("LoadBalancer", externalIPs=["1.1.1.1"]), **BALANCED},
        {"External-IP": "9.9.9.9,lb.example.com,1.1.1.1"},
    ),
    (
        "v1 Service",
        service("ExternalName", externalName="example.com"),
        {"Cluster-IP": "<none>", "External-IP": "example.com", "Port(s)": "<none>", "Selector": "<none>"},
    ),
    ("v1 Service", {}, {"External-IP": "<unknown>"}),
    ("v1 Endpoints", {}, {"Endpoints": "<none>"}),
    ("v1 Endpoints", {"subsets": [{"addresses": ADDRESSES}]}, {"Endpoints": "10.0.0.1,10.0.0.2"}),
    (
        "v1 Endpoints",
        {"subsets": [{"addresses": [*ADDRESSES, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]},
        {"Endpoints": "10.0.0.1:80,10.0.0.2:80,[fd00::1]:80"},
    ),
    (
        "v1 Endpoints",
        {"subsets": [{"addresses": ADDRESSES, "ports": [{"port": 80}, {"port": 81}, {"port": 82}]}]},
        {"Endpoints": "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 3 more..."},
    ),
    ("v1 Endpoints", {"subsets": [{"notReadyAddresses": ADDRESSES}]}, {"Endpoints": ""}),
    (
        "discovery.k8s.io/v1 EndpointSlice",
        {"addressType": "IPv4", "ports": [{"port": 80, "name": "a"}, {"name": "b"}, {}],
         "endpoints": [{"addresses": ["1.1.1.1", "2.2.2.2"]}, {"addresses": ["3.3.3.3", "4.4.4.4"]}]},
        {"AddressType": "IPv4", "Ports": "80,b,*", "Endpoints": "1.1.1.1,2.2.2.2,3.3.3.3 + 1 more..."},
    ),
    ("discovery.k8s.io/v1 EndpointSlice", {}, {"Ports": "<unset>", "Endpoints": "<unset>"}),
    (
        "networking.k8s.io/v1 Ingress",
        {**rules("a", "", "b"), **BALANCED},
        {"Class": "<none>", "Hosts": "a,b", "Address": "9.9.9.9,lb.example.com", "Ports": "80"},
    ),
    (
        "networking.k8s.io/v1 Ingress",
        {"spec": {"ingressClassName": "n", "tls": [{}]}},
        {"Class": "n", "Hosts": "*", "Address": "", "Ports": "80, 443"},
    ),
    ("networking.k8s.io/v1 Ingress", rules("a", "b", "", "c"), {"Hosts": "a,b,c"}),
    ("networking.k8s.io/v1 Ingress", rules("a", "", "b", "c", "", "d"), {"Hosts": "a,b,c + 3 more..."}),
    (
        "networking.k8s.io/v1 IngressClass",
        {"metadata": {"annotations": DEFAULT},
         "spec": {"controller": "c", "parameters": {"apiGroup": "g.io", "kind": "K", "name": "n"}}},
        {"Name": "x (default)", "Controller": "c", "Parameters": "K.g.io/n"},
    ),
    ("networking.k8s.io/v1 IngressClass", {}, {"Name": "x", "Parameters": "<none>"}),
    (
        "networking.k8s.io/v1 NetworkPolicy",
        {"spec": {"podSelector": {"matchLabels": {"a": "1"}}}},
        {"Pod-Selector": "a=1"},
    ),
    ("networking.k8s.io/v1 NetworkPolicy", {"spec": {"podSelector": {}}}, {"Pod-Selector": "<none>"}),
    ("networking.k8s.io/v1 ServiceCIDR", {"spec": {"cidrs": ["10.0.0.0/16", "fd00::/112"]}},
     {"CIDRs": "10.0.0.0/16,fd00::/112"}),
    (
        "networking.k8s.io/v1 IPAddress",
        {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}},
        {"ParentRef": "services/default/s"},
    ),
    (
        "networking.k8s.io/v1 IPAddress",
        {"spec": {"parentRef": {"group": "G.io", "resource": "things", "name": "s"}}},
        {"ParentRef": "things.g.io/s"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("of", "obj", "cells"), CASES)
def test_cells(of: str, obj: dict, cells: dict):
    """The cells named are these."""
    printed = row(of, obj)
    assert {name: printed[name] for name in cells} == cells


def test_an_address_has_a_cell_too_many():
    """Upstream prints an age that has no column."""
    made = table("networking.k8s.io/v1", "IPAddress", {})
    assert len(made["columnDefinitions"]) == 2
    assert made["rows"][0]["cells"] == ["x", "<none>", "5m"]


def test_ranges_of_1_28():
    """An alpha that is gone."""
    spec = {"perNodeHostBits": 8, "ipv4": "10.0.0.0/8"}
    printed = row("networking.k8s.io/v1alpha1 ClusterCIDR", {"spec": spec}, minor=28)
    assert printed == {
        "Name": "x", "PerNodeHostBits": "8", "IPv4": "10.0.0.0/8", "IPv6": "<none>", "Age": "5m",
        "NodeSelector": "<none>",
    }  # fmt: skip


def test_node_selectors_of_ranges_of_1_28():
    """Expressions stand there as Go prints a list of structs."""
    requirements = [{"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "Exists"}]
    terms = [{"matchExpressions": requirements}, {"matchFields": requirements[1:]}]
    obj = {"spec": {"nodeSelector": {"nodeSelectorTerms": terms}}}

    printed = row("networking.k8s.io/v1alpha1 ClusterCIDR", obj, minor=28)
    expressions = "MatchExpressions: [{a In [b c]} {d Exists []}]"
    assert printed["NodeSelector"] == f"{expressions},MatchFields: [{{d Exists []}}]"
