"""Addresses and node ports that services ask for."""

import asyncio

import pytest
from server_in_process import Caller

NO_PORT = "provided port is not in the valid range. The range of valid ports is 30000-32767"
TAKEN = "failed to allocate IP 10.96.7.7: provided IP is already allocated"
OUTSIDE = (
    "failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. "
    "The range of valid IPs is 10.96.0.0/12"
)
SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec) -> dict:
    ports = [{"port": 80, **({"nodePort": spec.pop("node_port")} if "node_port" in spec else {})}]
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
            f'spec.clusterIPs: Invalid value: ["1.2.3.4"]: {OUTSIDE}',
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


async def test_creates_at_the_same_moment(server, api: Caller):
    """What one service is about to have no other gets, and who asks for it is refused; a failure frees it."""
    server.services.world.entropy.random = lambda: 0.5
    several = [api.post(SERVICES, service(f"s-{n}", type="NodePort")) for n in range(8)]
    wanted = {"type": "NodePort", "node_port": 30555, "clusterIP": "10.96.9.9"}
    same = [api.post(SERVICES, service(f"w-{n}", **wanted)) for n in range(3)]
    answers = await asyncio.gather(*several, *same)

    made = [one.body["spec"] for one in answers if one.status == 201]
    assert len(made) == 9
    assert len({spec["clusterIP"] for spec in made}) == 9
    assert len({spec["ports"][0]["nodePort"] for spec in made}) == 9
    assert [one.status for one in answers[8:]] == [201, 422, 422]
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
