"""Endpoints and slices follow the pods that a service selects."""

import pytest
from workloads import events_of

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.endpoints.controller import EndpointsController
from kubeskew.controllers.endpoints.services import ANNOTATION
from kubeskew.controllers.endpointslice import EndpointSliceController
from kubeskew.controllers.endpointslicemirroring import EndpointSliceMirroringController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


def service(**spec):
    ports = [{"name": "http", "port": 80, "targetPort": "web"}, {"port": 81, "name": "plain"}]
    return {
        "metadata": {"name": "s", "namespace": "ns", "labels": {"l": "m"}},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


def pod(name, ip, *, ready=True, port=8080, phase="Running"):
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}],
        },
        "status": {
            "phase": phase,
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


@pytest.fixture
async def serving(cluster):
    """All three controllers run."""
    await start(cluster)
    return cluster


async def start(cluster):
    """All three run, and pods have a node."""
    await cluster.client.create(NODES, {"metadata": {"name": "n"}, "spec": {}})
    await cluster.start(EndpointsController, EndpointSliceController, EndpointSliceMirroringController)


async def endpoints(cluster):
    return await cluster.client.get(ENDPOINTS, "s", "ns")


async def slices(cluster):
    return (await cluster.client.list(ENDPOINT_SLICES, "ns"))["items"]


@pytest.mark.parametrize(("version", "panics"), [("1.33.12", True), ("1.33.13", False), ("1.32", False)])
async def test_a_service_that_old_servers_stored_ends_some_controllers(make_cluster, version, panics):
    """A selector without IP families, as before 1.20, is an index out of range for them (139236)."""
    cluster = make_cluster(Version.parse(version))
    (controller,) = await cluster.start(EndpointsController)
    ended = []
    controller._panic = ended.append
    await cluster.client.create(SERVICES, service())
    await cluster.quiet(1)

    assert list(map(str, ended)) == ["runtime error: index out of range [0] with length 0"] * panics


async def test_ready_and_other_pods_are_distinguished(serving):
    """Named ports are looked up in the pod; ended pods are left out."""
    await serving.client.create(SERVICES, service())
    made = await serving.client.create(PODS, pod("a", "10.0.0.1"))
    await serving.client.create(PODS, pod("b", "10.0.0.2", ready=False))
    await serving.client.create(PODS, pod("c", "10.0.0.3", phase="Succeeded"))
    await serving.quiet(1)
    found = await endpoints(serving)
    (one,) = found["subsets"]
    reference = {"kind": "Pod", "namespace": "ns", "name": "a", "uid": made["metadata"]["uid"]}

    own = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert found["metadata"]["labels"] == {"l": "m", **own}
    assert one["addresses"] == [{"ip": "10.0.0.1", "nodeName": "n", "targetRef": reference}]
    assert [address["ip"] for address in one["notReadyAddresses"]] == ["10.0.0.2"]
    assert one["ports"] == [
        {"name": "http", "port": 8080, "protocol": "TCP"},
        {"name": "plain", "port": 81, "protocol": "TCP"},
    ]

    (slice_,) = await slices(serving)

    assert slice_["metadata"]["labels"] == {
        "l": "m",
        "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert slice_["metadata"]["ownerReferences"][0]["name"] == "s"
    assert {end["addresses"][0]: end["conditions"] for end in slice_["endpoints"]} == {
        "10.0.0.1": {"ready": True, "serving": True, "terminating": False},
        "10.0.0.2": {"ready": False, "serving": False, "terminating": False},
    }


async def test_pods_with_other_ports_are_in_other_subsets(serving):
    """One subset for the ports that all have and one for each other, but one slice per set of ports."""
    await serving.client.create(SERVICES, service())
    await serving.client.create(PODS, pod("a", "10.0.0.1"))
    await serving.client.create(PODS, pod("b", "10.0.0.2", port=9090))
    await serving.quiet(1)

    found = (await endpoints(serving))["subsets"]
    offered = {tuple(address["ip"] for address in subset["addresses"]): subset["ports"] for subset in found}

    assert {ips: [port["port"] for port in ports] for ips, ports in offered.items()} == {
        ("10.0.0.1",): [8080],
        ("10.0.0.2",): [9090],
        ("10.0.0.1", "10.0.0.2"): [81],
    }
    assert len(await slices(serving)) == 2


async def test_labels_of_a_headless_service_are_its_own(serving):
    """A service that is not headless has no such Endpoints and slices, though it has the label."""
    labels = {"service.kubernetes.io/headless": "", "l": "m"}
    labelled = service()
    labelled["metadata"]["labels"] = labels
    await serving.client.create(SERVICES, labelled)
    await serving.quiet(1)
    (slice_,) = await slices(serving)

    for found in (await endpoints(serving), slice_):
        assert found["metadata"]["labels"].keys() & labels.keys() == {"l"}


async def test_subsets_of_the_same_addresses_are_mirrored_once(serving):
    """Each port comes once, as upstream repacks them, and not ready trumps ready."""
    await serving.client.create(SERVICES, service(selector=None))
    one = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "a", "port": 80, "protocol": "TCP"}]}
    other = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "b", "port": 81, "protocol": "TCP"}]}
    late = {"notReadyAddresses": [{"ip": "10.1.2.3"}], "ports": one["ports"]}
    made = await serving.client.create(ENDPOINTS, {**by_hand(), "subsets": [one, other]})
    await serving.quiet(1)
    (slice_,) = await slices(serving)
    assert sorted(port["name"] for port in slice_["ports"]) == ["a", "b"]

    await serving.client.update(ENDPOINTS, {**made, "subsets": [one, late]})
    await serving.quiet(1)
    (slice_,) = await slices(serving)
    assert slice_["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": False}}]


@pytest.mark.parametrize(
    ("version", "in_endpoints", "in_slices"),
    [("1.34", "gabhedci", "hacgibed"), ("1.36", "gechabdi", "ihbgdcae")],
)
async def test_ports_are_sorted_by_their_hashes(make_cluster, version, in_endpoints, in_slices):
    """The orders in which real controllers put these ports; the hash is another one since 1.35."""
    serving = make_cluster(Version.parse(version))
    await start(serving)
    numbers = {"a": 80, "c": 82, "d": 83, "e": 84, "h": 80}
    ports = [{"name": name, "port": port} for name, port in numbers.items()]
    ports += [{"name": "b", "port": 81, "targetPort": 9000, "protocol": "UDP"}]
    ports += [{"name": "g", "port": 86, "appProtocol": "http"}, {"name": "i", "port": 88, "protocol": "SCTP"}]
    await serving.client.create(SERVICES, service(ports=ports, ipFamilies=["IPv4"]))
    await serving.client.create(PODS, pod("a", "10.0.0.1"))
    await serving.quiet(1)
    (one,) = (await endpoints(serving))["subsets"]

    assert "".join(port["name"] for port in one["ports"]) == in_endpoints
    (slice_,) = await slices(serving)
    assert "".join(port["name"] for port in slice_["ports"]) == in_slices
    assert next(port for port in one["ports"] if port["name"] == "g") == {
        "name": "g",
        "port": 86,
        "protocol": "TCP",
        "appProtocol": "http",
    }


@pytest.mark.parametrize(("subdomain", "hostname"), [("s", "h"), ("other", None)])
async def test_a_hostname_counts_in_the_pods_subdomain_alone(serving, subdomain, hostname):
    """A service names only the pods that say they are in it."""
    one = pod("a", "10.0.0.1")
    one["spec"] |= {"hostname": "h", "subdomain": subdomain}
    await serving.client.create(SERVICES, service())
    await serving.client.create(PODS, one)
    await serving.quiet(1)
    (address,) = (await endpoints(serving))["subsets"][0]["addresses"]
    ((endpoint,),) = [found["endpoints"] for found in await slices(serving)]

    assert (address.get("hostname"), endpoint.get("hostname")) == (hostname, hostname)


async def test_large_services_are_sliced(serving):
    """At most 100 endpoints per slice; emptied slices go, the last stays."""
    for number in range(150):
        await serving.client.create(PODS, pod(f"p{number}", f"10.0.1.{number}"))
    await serving.client.create(SERVICES, service())
    await serving.quiet(1)

    assert sorted(len(slice_["endpoints"]) for slice_ in await slices(serving)) == [50, 100]

    await serving.client.delete_collection(PODS, "ns")
    await serving.quiet(1)

    assert [slice_["endpoints"] for slice_ in await slices(serving)] == [[]]


@pytest.mark.parametrize(("version", "stuck"), [("1.28.11", False), ("1.28.12", True), ("1.28.15", False)])
async def test_truncated_endpoints_are_written_on(make_cluster, version, stuck):
    """At most 1000 addresses are published. Updates of truncated Endpoints that change nothing make the
    controller with 127417 take them for out of date, and it never updates them again.
    """
    cluster = make_cluster(Version.parse(version))
    await cluster.start(EndpointsController)
    for number in range(1002):
        await cluster.client.create(PODS, pod(f"p{number}", f"10.0.{number >> 8}.{number & 255}"))
    await cluster.client.create(SERVICES, service(ipFamilies=["IPv4"]))
    await cluster.quiet(1)
    found = await endpoints(cluster)
    assert len(found["subsets"][0]["addresses"]) == 1000
    assert found["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"] == "truncated"

    for value in "ab":  # the first of them takes the time of the last change away
        note = {"metadata": {"annotations": {"note": value}}}
        await cluster.client.patch(PODS, "p0", "ns", note)
        await cluster.quiet(1)
    for number in range(10):
        await cluster.client.delete(PODS, f"p{number}", "ns")
    await cluster.quiet(1)

    (subset,) = (await endpoints(cluster))["subsets"]
    assert len(subset["addresses"]) == (1000 if stuck else 992)


async def test_endpoints_that_are_truncated_from_now_on_say_so(cluster):
    """The pod that is one too many is left out, and an annotation says that some are."""
    await cluster.start(EndpointsController)
    await cluster.client.create(SERVICES, service(ipFamilies=["IPv4"]))
    for number in range(1000):
        await cluster.client.create(PODS, pod(f"p{number:04}", f"10.0.{number >> 8}.{number & 255}"))
    await cluster.quiet(1)
    before = await endpoints(cluster)
    await cluster.client.create(PODS, pod("p1000", "10.1.0.0"))
    await cluster.quiet(1)
    after = await endpoints(cluster)

    assert before["subsets"] == after["subsets"]
    mark = "endpoints.kubernetes.io/over-capacity"
    assert mark not in before["metadata"].get("annotations", {})
    assert after["metadata"]["annotations"][mark] == "truncated"


@pytest.mark.parametrize(("version", "lost"), [("1.31", False), ("1.28.11", True)])
async def test_a_pod_that_leaves_and_comes_back_is_published(make_cluster, version, lost):
    """The controller waits for what it wrote itself; with 125675 it compares with what was before that."""
    cluster = make_cluster(Version.parse(version))
    (controller,) = await cluster.start(EndpointsController)
    await cluster.client.create(PODS, pod("a", "10.0.0.1"))
    await cluster.client.create(SERVICES, service(ipFamilies=["IPv4"]))
    await cluster.quiet(1)
    before = await endpoints(cluster)
    shown = controller._endpoints.get
    controller._endpoints.get = lambda *key: before  # the watch of Endpoints is behind
    for label in ("other", "web"):
        await cluster.client.patch(PODS, "a", "ns", {"metadata": {"labels": {"app": label}}})
        await cluster.quiet(0.5)
    controller._endpoints.get = shown
    await cluster.quiet(5)

    assert bool((await endpoints(cluster)).get("subsets")) is not lost


async def test_services_without_selector_are_left_alone(serving):
    """Somebody else keeps their endpoints."""
    await serving.client.create(SERVICES, service(selector=None))
    await serving.client.create(PODS, pod("a", "10.0.0.1"))
    await serving.quiet(1)

    assert await slices(serving) == []
    assert (await serving.client.list(ENDPOINTS, "ns"))["items"] == []


async def test_endpoints_go_with_their_service(serving):
    """The endpoints are deleted, and come back if deleted by mistake."""
    await serving.client.create(SERVICES, service())
    await serving.quiet(1)
    await serving.client.delete(ENDPOINTS, "s", "ns")
    await serving.quiet(1)

    assert await endpoints(serving)

    await serving.client.delete(SERVICES, "s", "ns")
    await serving.quiet(1)

    assert (await serving.client.list(ENDPOINTS, "ns"))["items"] == []


async def test_what_set_off_a_change_is_reported(serving):
    """First the service's creation, then when a pod became ready; without a new time the annotation goes."""

    async def trigger_times():
        found = [await endpoints(serving), *await slices(serving)]
        return [(one["metadata"].get("annotations") or {}).get(ANNOTATION) for one in found]

    made = await serving.client.create(SERVICES, service())
    await serving.quiet(1)
    assert await trigger_times() == [made["metadata"]["creationTimestamp"]] * 2

    later = pod("a", "10.0.0.1")
    later["status"]["conditions"][0]["lastTransitionTime"] = "2100-01-01T00:00:00Z"
    await serving.client.create(PODS, later)
    await serving.quiet(1)
    assert await trigger_times() == ["2100-01-01T00:00:00Z"] * 2

    await serving.client.delete(PODS, "a", "ns")
    await serving.quiet(1)
    assert await trigger_times() == [None] * 2


def by_hand(**metadata):
    subset = {
        "addresses": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}, {"ip": "none"}],
        "notReadyAddresses": [{"ip": "10.1.2.4", "hostname": "h"}],
        "ports": [{"port": 80, "protocol": "TCP"}],
    }
    return {"metadata": {"name": "s", "namespace": "ns", **metadata}, "subsets": [subset]}


async def test_endpoints_by_hand_are_mirrored(serving):
    """One slice for each family, with the endpoints' labels; what is no address is reported and left out."""
    await serving.client.create(SERVICES, service(selector=None))
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "x"}
    await serving.client.create(ENDPOINTS, by_hand(labels={"own": "label"}, annotations=applied))
    await serving.quiet(1)
    found = {slice_["addressType"]: slice_ for slice_ in await slices(serving)}

    assert found.keys() == {"IPv4", "IPv6"}
    one = found["IPv4"]
    assert one["metadata"]["labels"] == {
        "own": "label",
        "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert one["metadata"]["annotations"] == {"kept": "x"}
    assert one["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert one["endpoints"] == [
        {"addresses": ["10.1.2.3"], "conditions": {"ready": True}},
        {"addresses": ["10.1.2.4"], "conditions": {"ready": False}, "hostname": "h"},
    ]


async def test_mirrors_follow(serving):
    """A slice changes with its endpoints; it goes when they are not to be mirrored, or selected, or gone."""
    await serving.client.create(SERVICES, service(selector=None))
    made = await serving.client.create(ENDPOINTS, by_hand())
    await serving.quiet(1)
    names = {slice_["addressType"]: slice_["metadata"]["name"] for slice_ in await slices(serving)}
    other = [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 81, "protocol": "TCP"}]}]
    made = await serving.client.update(ENDPOINTS, {**made, "subsets": other})
    await serving.quiet(1)
    (one,) = await slices(serving)
    assert (one["metadata"]["name"], one["ports"][0]["port"]) == (names["IPv4"], 81)
    assert one["metadata"]["generateName"] == "s-"

    made["subsets"][0]["addresses"] = [{"ip": "10.9.9.8"}]
    made = await serving.client.update(ENDPOINTS, made)
    await serving.quiet(1)
    (one,) = await slices(serving)
    assert "generateName" not in one["metadata"]  # a slice of the same ports is written anew

    skipping = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    await serving.client.update(ENDPOINTS, {**made, "metadata": {**made["metadata"], "labels": skipping}})
    await serving.quiet(1)
    assert await slices(serving) == []


async def test_a_pod_of_a_lost_node_is_left_out_of_slices(serving):
    """It is reported and tried again; a service that publishes all pods has it, too."""
    await serving.client.create(SERVICES, service())
    await serving.client.create(PODS, pod("a", "10.0.0.1"))
    lost = pod("b", "10.0.0.2")
    lost["spec"]["nodeName"] = "gone"
    await serving.client.create(PODS, lost)
    await serving.quiet(1)

    (one,) = await slices(serving)
    assert [end["addresses"] for end in one["endpoints"]] == [["10.0.0.1"]]
    controller = next(each for each in serving.controllers if isinstance(each, EndpointSliceController))
    assert (
        "Warning",
        "FailedToUpdateEndpointSlices",
        "skipping Pod b for Service ns/s: Node gone Not Found",
    ) in [
        (kind, reason, text.partition("ns/s: ")[2])
        for kind, reason, text in await events_of(serving, controller)
    ]

    made = await serving.client.get(SERVICES, "s", "ns")
    made["spec"]["publishNotReadyAddresses"] = True
    await serving.client.update(SERVICES, made)
    await serving.quiet(1)

    (one,) = await slices(serving)
    assert len(one["endpoints"]) == 2


@pytest.mark.parametrize(
    ("version", "in_slices", "in_endpoints"),
    [("1.31", [81], [81]), ("1.32", [81], [81, 8080]), ("1.33", [81, 8080], [81, 8080])],
)
async def test_named_ports_of_sidecars(make_cluster, version, in_slices, in_endpoints):
    """Endpoints have ports that a sidecar names unless there is bug 127976, slices unless there is 128850."""
    cluster = make_cluster(Version.parse(version))
    await start(cluster)
    await cluster.client.create(SERVICES, service(ipFamilies=["IPv4"]))
    one = pod("p", "10.0.0.1")
    ports = one["spec"]["containers"][0].pop("ports")
    one["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always", "ports": ports}]
    await cluster.client.create(PODS, one)
    await cluster.quiet(2)

    (slice_,) = await slices(cluster)
    assert sorted(port["port"] for port in slice_["ports"]) == in_slices
    (subset,) = (await endpoints(cluster))["subsets"]
    assert sorted(port["port"] for port in subset["ports"]) == in_endpoints
