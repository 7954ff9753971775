"""Containers get the devices of their pod's claims."""

import pytest
from managed_claims import DRIVER, pod

from kubeskew.kubelet.device_managers import DeviceError

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        pytest.param([{"name": "entry-a", "request": "req"}], ["a-req"], id="one request"),
        pytest.param([{"name": "entry-a"}], ["a-req", "a-other"], id="the whole claim"),
        pytest.param([], [], id="not used by this container"),
    ],
)
async def test_a_container_gets_the_devices_it_names(make, uses, expected):
    """CDI devices go to the containers that list the claim, by request."""
    node = make()
    await node.claim("a", "p")
    asked = pod("a", uses=uses)
    await node.manager.prepare(asked)
    devices = node.manager.for_container(asked, asked["spec"]["containers"][0])

    assert devices.cdi_ids == [f"{DRIVER}/claim={name}" for name in expected]


@pytest.mark.parametrize("gate", [True, False])
async def test_extended_resources_come_by_container_and_resource(make, gate):
    """With the gate the mappings of the pod's status count, for resources the container asks for.

    Else nothing.
    """
    node = make(gates={"DRAExtendedResource": gate})
    await node.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    other = {"containerName": "main", "resourceName": "example.com/nic", "requestName": "other"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping, other]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1", "cpu": "1"})
    await node.manager.prepare(asked)
    devices = node.manager.for_container(asked, asked["spec"]["containers"][0])

    assert devices.cdi_ids == ([f"{DRIVER}/claim=a-req"] if gate else [])
    assert node.plugin.prepare_calls == ([["a"]] if gate else [])
    await node.manager.unprepare(asked)
    assert node.plugin.unprepare_calls == ([["a"]] if gate else [])


async def test_only_containers_that_ask_get_extended_resources(make):
    """One container of several; an ephemeral one has no part in the pod's devices. All of them need the claim
    to be prepared, though."""
    node = make()
    await node.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1"})
    others = [{"name": "debug"}, {"name": "side", "resources": {"requests": {"example.com/gpu": "1"}}}]
    for container in others:
        with pytest.raises(DeviceError, match="unable to get claim info for claim a in namespace default"):
            node.manager.for_container(asked, container)
    await node.manager.prepare(asked)
    assert [node.manager.for_container(asked, other).cdi_ids for other in others] == [[], []]


async def test_a_container_that_restarts_without_the_gate_has_no_extended_resources(make):
    """KEP-5004 says that it keeps its CDI devices; upstream's GetResources is behind the gate. What is
    prepared stays so, and a kubelet with the gate finds it again."""
    before = make(gates={"DRAExtendedResource": True})
    await before.claim("a", "p")
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    extended = {"resourceClaimName": "a", "requestMappings": [mapping]}
    asked = pod(extended=extended, requests={"example.com/gpu": "1"})
    await before.manager.prepare(asked)
    for gate, ids in ((False, []), (True, [f"{DRIVER}/claim=a-req"])):
        before.manager._extended = gate
        assert before.manager.for_container(asked, asked["spec"]["containers"][0]).cdi_ids == ids
    assert before.plugin.unprepare_calls == []


@pytest.mark.parametrize(
    ("minor", "ordinary", "extended"),
    [
        (
            33,
            "locked cache operation: unable to get claim info for claim a in namespace default",
            "locked cache operation: unable to get claim info for claim a in namespace default",
        ),
        (
            36,
            "internal error: unable to get claim info for ResourceClaim a",
            "unable to get claim info for claim a in namespace default",
        ),
        (
            37,
            "internal error: unable to get claim info for ResourceClaim a in namespace default",
            "internal error: unable to get claim info for ResourceClaim a in namespace default",
        ),
    ],
)
async def test_a_claim_that_nobody_prepared_fails_the_container(make, minor, ordinary, extended):
    """In the words of each release, which 1.34 to 1.36 have two of."""
    node = make(minor)
    node.manager._extended = True
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "req"}
    status = {"resourceClaimName": "a", "requestMappings": [mapping]}
    for asked, text in (
        (pod("a", uses=[{"name": "entry-a"}]), ordinary),
        (pod(extended=status, requests={"example.com/gpu": "1"}), extended),
    ):
        with pytest.raises(DeviceError) as caught:
            node.manager.for_container(asked, asked["spec"]["containers"][0])
        assert str(caught.value) == text
