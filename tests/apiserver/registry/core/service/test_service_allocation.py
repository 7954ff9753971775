"""Addresses and node ports that services ask for."""

import asyncio

import pytest
from server_in_process import Caller

NO_PORT = "provided port is not in the valid range. The range of valid ports is 30000-32767"
TAKEN = "failed to allocate IP 10.96.7.7: provided IP is already allocated"
OUTSIDE = "failed to allocate IP {0}: the provided network does not match the current range"
NOT_IN_RANGE = (
    "failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. "
    "The range of valid IPs is 10.96.0.0/16"
)
SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec) -> dict:
    ports = spec.pop("ports", None) or [{"port": 80}]
    if "node_port" in spec:
        ports[0]["nodePort"] = spec.pop("node_port")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": ports, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"type": "NodePort", "node_port": 30001},
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
        (
            {"type": "LoadBalancer", "node_port": 80},
            f"spec.ports[0].nodePort: Invalid value: 80: {NO_PORT}",
        ),
        (
            {"clusterIP": "10.96.7.7"},
            f'spec.clusterIPs: Invalid value: ["10.96.7.7"]: {TAKEN}',
        ),
        (
            {"clusterIP": "1.2.3.4"},
            f'spec.clusterIPs: Invalid value: ["1.2.3.4"]: {OUTSIDE.format("1.2.3.4")}',
        ),
        (
            {"clusterIP": "10.96.0.0"},
            f'spec.clusterIPs: Invalid value: ["10.96.0.0"]: {OUTSIDE.format("10.96.0.0")}',
        ),
        (
            {"type": "NodePort", "node_port": 30001, "sessionAffinity": "Bogus"},
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
    ],
)
async def test_what_is_taken_or_out_of_range_is_refused(api: Caller, spec: dict, why: str):
    """422 with the allocator's words; what asks for nothing gets something else."""
    first = service("first", type="NodePort", node_port=30001, clusterIP="10.96.7.7")
    assert (await api.post(SERVICES, first)).status == 201
    refused = await api.post(SERVICES, service("second", **spec))

    assert refused.status == 422
    assert refused.body["message"] == f'Service "second" is invalid: {why}'
    assert (await api.post(SERVICES, service("second", type="NodePort"))).status == 201


async def test_a_dry_run_takes_nothing(api: Caller):
    """A dry run allocates no address and no port, so it accepts values that a create would refuse."""
    assert (await api.post(SERVICES, service("first", clusterIP="10.96.7.7"))).status == 201
    dry = f"{SERVICES}?dryRun=All"
    made = await api.post(dry, service("dry", type="NodePort"))
    taken = await api.post(dry, service("dry", clusterIP="10.96.7.7"))
    outside = await api.post(dry, service("dry", clusterIP="1.2.3.4"))

    assert made.body["spec"]["clusterIP"] == "10.96.0.0"
    assert made.body["spec"]["ports"][0]["nodePort"] == 32768
    assert taken.status == 201
    assert NOT_IN_RANGE in outside.body["message"]


async def test_node_ports_of_several_ports(api: Caller):
    """Protocols of one port share one, which stays with the port's name, and goes with the type."""
    ports = [{"name": name, "port": 53, "protocol": name.upper()} for name in ("tcp", "udp")]
    made = await api.post(SERVICES, service("dns", type="NodePort", ports=ports))
    (first, second) = (port["nodePort"] for port in made.body["spec"]["ports"])
    assert first == second

    moved = service("dns", type="NodePort", ports=[{"name": "tcp", "port": 5353}])
    assert (await api.put(f"{SERVICES}/dns", moved)).body["spec"]["ports"][0]["nodePort"] == first
    twice = [{"name": name, "port": number, "nodePort": first} for name, number in (("a", 1), ("b", 2))]
    refused = await api.put(f"{SERVICES}/dns", service("dns", type="NodePort", ports=twice))
    assert (refused.status, refused.body["message"]) == (500, f"duplicate nodePort: {{TCP {first}}}")
    plain = await api.patch(f"{SERVICES}/dns", {"spec": {"type": "ClusterIP"}})
    assert "nodePort" not in plain.body["spec"]["ports"][0]


async def test_the_status_of_a_balancer_goes_with_its_type(api: Caller):
    """A service that is a balancer no more loses its status, health check's port and policy; a health check's
    port that another has is answered with a 500.
    """
    balancer = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    await api.post(SERVICES, service("lb", **balancer, healthCheckNodePort=30123))
    second = await api.post(SERVICES, service("other", **balancer, healthCheckNodePort=30123))
    why = "failed to allocate requested HealthCheck NodePort 30123: provided port is already allocated"
    assert (second.status, second.body["message"]) == (500, f"Internal error occurred: {why}")
    await api.patch(f"{SERVICES}/lb/status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}})
    plain = await api.patch(f"{SERVICES}/lb", {"spec": {"type": "ClusterIP"}})

    assert plain.body["status"] == {"loadBalancer": {}}
    assert not plain.body["spec"].keys() & {"healthCheckNodePort", "externalTrafficPolicy"}


async def test_creates_at_the_same_moment(server, api: Caller):
    """Services created at once share no address or port, and a failed create frees what it took."""
    server.services.environment.entropy.random = lambda: 0.5
    several = [api.post(SERVICES, service(f"s-{n}", type="NodePort")) for n in range(8)]
    wanted = {"type": "NodePort", "node_port": 30555, "clusterIP": "10.96.9.9"}
    same = [api.post(SERVICES, service(f"w-{n}", **wanted)) for n in range(3)]
    answers = await asyncio.gather(*several, *same)

    made = [answer.body["spec"] for answer in answers if answer.status == 201]
    assert len(made) == 9
    assert len({spec["clusterIP"] for spec in made}) == 9
    assert len({spec["ports"][0]["nodePort"] for spec in made}) == 9
    assert [answer.status for answer in answers[8:]] == [201, 422, 422]
    free = {"type": "NodePort", "node_port": 30777}
    tried = await api.post(f"{SERVICES}?dryRun=All", service("dry", **free))
    assert (tried.status, (await api.post(SERVICES, service("real", **free))).status) == (201, 201)


async def test_a_service_keeps_its_own(api: Caller):
    """An update does not collide with what the service has; headless and external ones have nothing."""
    made = await api.post(SERVICES, service("own", type="NodePort", node_port=30002))
    again = await api.put(f"{SERVICES}/own", {**made.body, "metadata": {"name": "own", "labels": {"a": "b"}}})
    assert again.status == 200
    for name in ("one", "two"):
        assert (await api.post(SERVICES, service(f"headless-{name}", clusterIP="None"))).status == 201
        outside = service(f"outside-{name}", type="ExternalName", externalName="a.b")
        assert (await api.post(SERVICES, outside)).status == 201


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "SingleStack", ["IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4"]),
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", ["IPv4"]),
    ],
)
async def test_families_of_a_service(api: Caller, spec: dict, policy: str, families: list[str]):
    """A headless service without a selector has both families, on a cluster of one too, and keeps them."""
    made = await api.post(SERVICES, service("a", **spec))
    shown = {name: made.body["spec"][name] for name in ("ipFamilyPolicy", "ipFamilies")}
    assert shown == {"ipFamilyPolicy": policy, "ipFamilies": families}

    again = await api.put(f"{SERVICES}/a", service("a", **{**spec, "ipFamilies": families}))
    assert again.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]
    assert {name: again.body["spec"][name] for name in shown} == shown
