import pytest
from service_tables import Tables, endpoint, endpoint_slice, service

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.network.service_ports import (
    CLUSTER,
    MACHINE,
    Listen,
    Node,
    node_of,
    ports_to_serve,
)

NODES = [Node("node-1", "127.9.8.7", 10250), Node("node-2", "127.9.8.8")]
KUBELET = Listen("node:node-1", "127.9.8.7", 10250, "TCP")
INSIDE = Listen(CLUSTER, "10.96.7.7", 80, "TCP")
FIRST, SECOND = ("10.244.1.1", 8080), ("10.244.2.2", 8080)
SLICE = endpoint_slice("web", endpoint(FIRST[0]), endpoint(SECOND[0], node="node-2"))
NODE_PORT = [{"name": "http", "port": 80, "nodePort": 30080}]


def _served(
    given: Object, *slices: Object, pods: list[Object] | None = None, **outside: tuple[str, int]
) -> dict[Listen, list[tuple[str, int]]]:
    tables = Tables([given], slices)
    of_machine = {f"ns/{name}": at for name, at in outside.items()}
    found = ports_to_serve([given], tables, pods or [], NODES, of_machine)
    return {
        listen: [one.at for one in target.candidates("node-2")]
        for listen, target in found.items()
        if listen != KUBELET
    }


def test_cluster_ip() -> None:
    """A service is served at its cluster IP, unless it has no endpoint: then connections are refused."""
    assert _served(service("web"), SLICE) == {INSIDE: [FIRST, SECOND]}
    assert _served(service("web")) == {}
    assert _served(service("web"), endpoint_slice("web", endpoint(FIRST[0], ready=False))) == {}


def test_node_ports() -> None:
    """A node port is served at every address of each node, outside at theirs and on the loopback."""
    both = [FIRST, SECOND]
    assert _served(service("web", ports=NODE_PORT), SLICE) == {
        INSIDE: both,
        Listen(MACHINE, "127.0.0.1", 30080, "TCP"): both,
        Listen("node:node-1", "", 30080, "TCP"): both,
        Listen(MACHINE, "127.9.8.7", 30080, "TCP"): both,
        Listen("node:node-2", "", 30080, "TCP"): both,
        Listen(MACHINE, "127.9.8.8", 30080, "TCP"): both,
    }


def test_external_addresses_of_a_service() -> None:
    """A service is served at its external addresses, but at none of pods, services and nodes."""
    given = service("web", externalIPs=["192.0.2.7", "10.244.1.9", "10.96.7.8", "127.9.8.8"])
    assert _served(given, SLICE).keys() == {INSIDE, Listen(CLUSTER, "192.0.2.7", 80, "TCP")}


def test_external_traffic_policy() -> None:
    """With Local, the port of a node leads to endpoints of that node alone, and is closed without one."""
    only = endpoint_slice("web", endpoint(SECOND[0], node="node-2"))
    assert _served(service("web", ports=NODE_PORT, externalTrafficPolicy="Local"), only) == {
        INSIDE: [SECOND],
        Listen(MACHINE, "127.0.0.1", 30080, "TCP"): [SECOND],
        Listen("node:node-2", "", 30080, "TCP"): [SECOND],
        Listen(MACHINE, "127.9.8.8", 30080, "TCP"): [SECOND],
    }


def test_internal_traffic_policy() -> None:
    """With Local, the cluster IP leads to endpoints of the client's node."""
    assert _served(service("web", internalTrafficPolicy="Local"), SLICE) == {INSIDE: [SECOND]}


def test_services_of_the_machine() -> None:
    """API servers, and services that the cluster's own processes stand behind, are outside."""
    servers = endpoint_slice("web", endpoint("127.0.0.1"))
    assert _served(service("web"), servers) == {INSIDE: [("127.0.0.1", 8080)]}
    assert _served(service("web"), web=("127.0.0.2", 4443)) == {INSIDE: [("127.0.0.2", 4443)]}
    for tables, outside in ((Tables([], [servers]), {}), (Tables([]), {"ns/web": ("127.0.0.2", 4443)})):
        found = ports_to_serve([service("web")], tables, [], [], outside)
        assert found[INSIDE].is_outside


def _pod(**changed: object) -> Object:
    ports = [{"containerPort": 80, "hostPort": 8000}]
    spec = {"nodeName": "node-1", "containers": [{"ports": ports}], **changed}
    return {"spec": spec, "status": {"podIP": FIRST[0], "phase": changed.get("phase", "Running")}}


OF_PODS = {
    "every address": (_pod(), {("node:node-1", ""), (MACHINE, "127.9.8.7")}),
    "one address": (
        _pod(containers=[{"ports": [{"containerPort": 80, "hostPort": 8000, "hostIP": "127.0.0.1"}]}]),
        {("node:node-1", "127.0.0.1")},
    ),
    "in the host's network": (_pod(hostNetwork=True), set()),
    "a pod that ended": (_pod(phase="Succeeded"), set()),
    "no host port": (_pod(containers=[{"ports": [{"containerPort": 80}]}]), set()),
    "a node that is gone": (_pod(nodeName="node-9"), set()),
}


@pytest.mark.parametrize("case", OF_PODS)
def test_host_ports(case: str) -> None:
    """A host port leads from the pod's node to the pod."""
    pod, places = OF_PODS[case]
    found = _served(service("web"), pods=[pod])
    assert found == {Listen(*place, 8000, "TCP"): [(FIRST[0], 80)] for place in places}


def test_kept_addresses_and_kubelets() -> None:
    """Addresses of others are left alone; a node's namespace has the port of its kubelet."""
    found = ports_to_serve([service("web")], Tables([], [SLICE]), [], NODES, {}, frozenset({"10.96.7.7"}))
    assert [*found] == [KUBELET]
    assert found[KUBELET].is_outside


def test_kubelets_at_other_ports() -> None:
    """Pods find a kubelet at the usual port, too, whichever it has on the machine."""
    found = ports_to_serve([], Tables([]), [], [Node("node-1", "127.9.8.7", 18050)], {})
    assert [*found] == [KUBELET._replace(port=18050), KUBELET]
    assert [*found.values()] == [found[KUBELET]] * 2
    assert found[KUBELET].endpoints[0].port == 18050


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "192.0.2.7"])
def test_nodes_with_addresses_of_the_machine(address: str) -> None:
    """Nothing is opened at an address that is no node's alone, nor do pods get to ports of the machine."""
    given, pods = service("web", ports=NODE_PORT), [_pod()]
    found = ports_to_serve([given], Tables([given], [SLICE]), pods, [Node("node-1", address, 22)], {})
    assert {listen for listen in found if listen.place == MACHINE} == {
        Listen(MACHINE, "127.0.0.1", 30080, "TCP")
    }
    assert not any(target.is_outside for target in found.values())


def test_nodes() -> None:
    """A node is joined by its internal address; one without an address is not."""
    status = {
        "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "127.1.2.3"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
    assert node_of({"metadata": {"name": "n"}, "status": status}) == Node("n", "127.1.2.3", 10250)
    assert node_of({"metadata": {"name": "n"}}) is None
