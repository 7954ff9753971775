import pytest
from service_tables import endpoint, endpoint_slice, service

from kubeskew.kubelet.containers.host.network.endpoints import (
    Affinity,
    Endpoint,
    endpoints_of,
    service_ports,
    usable,
)

READY, SERVING, NEITHER = "10.244.1.1", "10.244.1.2", "10.244.1.3"
USABLE = {
    "ready ones": ([endpoint(READY, ready=True), endpoint(NEITHER, ready=False)], None, [READY]),
    "unknown is ready": ([endpoint(READY)], None, [READY]),
    "not those that terminate": (
        [endpoint(READY), endpoint(SERVING, ready=False, serving=True, terminating=True)],
        None,
        [READY],
    ),
    "those that terminate if there are no others": (
        [
            endpoint(NEITHER, ready=False, serving=False, terminating=True),
            endpoint(SERVING, ready=False, serving=True, terminating=True),
        ],
        None,
        [SERVING],
    ),
    "not those that are not ready, but serve": ([endpoint(NEITHER, ready=False, serving=True)], None, []),
    "those of a node": ([endpoint(READY), endpoint(SERVING, node="node-2")], "node-2", [SERVING]),
    "those of a node that terminate": (
        [endpoint(READY), endpoint(SERVING, node="n2", ready=False, serving=True, terminating=True)],
        "n2",
        [SERVING],
    ),
    "none of a node": ([endpoint(READY)], "node-3", []),
}


@pytest.mark.parametrize("case", USABLE)
def test_usable_endpoints(case: str) -> None:
    """Connections go to ready endpoints, or to serving ones that terminate if none is ready."""
    endpoints, node, expected = USABLE[case]
    found = endpoints_of([endpoint_slice("web", *endpoints)], "http", "TCP")
    assert [one.host for one in usable(found, local_to=node)] == expected


def test_endpoints_of_several_slices() -> None:
    """A service port has the endpoints of all slices with its port's name and protocol, in order; of two
    with one address the one that does not terminate counts.
    """
    slices = [
        endpoint_slice("web", endpoint("10.244.1.9"), endpoint("10.244.1.2", ready=False, terminating=True)),
        endpoint_slice("web", endpoint("10.244.1.2"), {"addresses": []}),
        endpoint_slice("web", endpoint("10.244.1.2", ready=False, terminating=True)),
        endpoint_slice("web", endpoint("10.244.1.3"), port_name="other"),
        endpoint_slice("web", endpoint("10.244.1.4"), protocol="UDP"),
        {**endpoint_slice("web", endpoint("fd00::1")), "addressType": "IPv6"},
    ]
    found = endpoints_of(slices, "http", "TCP")
    assert found == [Endpoint("10.244.1.2", 8080, "node-1"), Endpoint("10.244.1.9", 8080, "node-1")]


PORTS = {
    "a cluster IP": (service("web"), [("10.96.7.7", 80, 0, (), 0)]),
    "headless": (service("web", "None"), []),
    "an external name": (service("web", "", type="ExternalName"), []),
    "of another family": (service("web", "fd00::1"), []),
    "a node port": (
        service("web", ports=[{"port": 80, "nodePort": 30080, "protocol": "UDP"}]),
        [("10.96.7.7", 80, 30080, (), 0)],
    ),
    "SCTP": (service("web", ports=[{"port": 80, "protocol": "SCTP"}]), []),
    "external addresses": (
        service("web", externalIPs=["192.0.2.1", "fd00::1"])
        | {
            "status": {
                "loadBalancer": {"ingress": [{"ip": "192.0.2.2"}, {"ip": "192.0.2.3", "ipMode": "Proxy"}]}
            }
        },
        [("10.96.7.7", 80, 0, ("192.0.2.1", "192.0.2.2"), 0)],
    ),
    "affinity": (service("web", sessionAffinity="ClientIP"), [("10.96.7.7", 80, 0, (), 10800)]),
    "affinity for a time": (
        service(
            "web",
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 9}},
        ),
        [("10.96.7.7", 80, 0, (), 9)],
    ),
}


@pytest.mark.parametrize("case", PORTS)
def test_ports_of_services(case: str) -> None:
    """Each port of a service with a cluster IP is served, at its addresses and for its affinity."""
    given, expected = PORTS[case]
    found = [
        (port.cluster_ip, port.port, port.node_port, port.external_ips, port.affinity_seconds)
        for port in service_ports(given)
    ]
    assert found == expected


def test_another_proxy() -> None:
    """Services with a proxy of their own are left to it."""
    labelled = service("web")
    labelled["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "other"}
    assert [*service_ports(labelled)] == []


def test_affinity() -> None:
    """A client keeps its endpoint for so long after its last connection, while the endpoint can be used."""
    first, second = Endpoint("10.244.1.1", 80), Endpoint("10.244.1.2", 80)
    affinity = Affinity(10)
    assert affinity.choose("a", [first, second], 0, 0.0) == first
    assert affinity.choose("b", [first, second], 1, 1.0) == second
    assert affinity.choose("a", [first, second], 1, 9.0) == first
    assert affinity.choose("a", [first, second], 1, 18.0) == first
    assert affinity.choose("b", [first, second], 0, 18.0) == first
    assert affinity.choose("a", [second], 0, 19.0) == second
    assert affinity.choose("a", [first, second], 0, 30.0) == first
    assert Affinity(0).choose("a", [first, second], 3, 0.0) == second
