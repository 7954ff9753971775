"""Answers of API servers that have a known bug, and of those that have it no more."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies"
CONTAINER = {"name": "c", "image": "i"}


@contextlib.asynccontextmanager
async def running(version: str, **options: object) -> AsyncIterator[Caller]:
    """Yields the administrator of a server of that release."""
    server = await open_server(Version.parse(version), **options)
    try:
        yield Caller(server)
    finally:
        await close_server(server)


@pytest.mark.parametrize(("version", "status"), [("1.28.10", 500), ("1.28.11", 200), ("1.31", 200)])
async def test_a_table_of_pods_with_an_unknown_init_container(version: str, status: int):
    """A status of an init container that the pod does not have is shown, or ends the request (124906)."""
    async with running(version) as api:
        await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}})
        other = {**CONTAINER, "name": "other", "imageID": "", "ready": False, "restartCount": 0, "state": {}}
        await api.patch(f"{PODS}/p/status", {"status": {"initContainerStatuses": [other]}})
        found = await api.get(PODS, accept=TABLE)

        assert found.status == status
        if status == 500:
            assert found.body["message"].startswith("This request caused apiserver to panic")
        else:
            assert found.body["rows"][0]["cells"][:3] == ["p", "0/1", "Init:0/0"]


@pytest.mark.parametrize(("version", "status"), [("1.26", 422), ("1.33", 422), ("1.34", 201)])
async def test_a_cron_job_with_a_condition_without_status(version: str, status: int):
    """A condition of a failure policy means True; before 131525 was fixed a CronJob had to say so."""
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job = {"spec": {"podFailurePolicy": policy, "template": template}}
    body = {"metadata": {"name": "c"}, "spec": {"schedule": "@yearly", "jobTemplate": job}}
    async with running(version) as api:
        made = await api.post("/apis/batch/v1/namespaces/default/cronjobs", body)

        assert made.status == status
        if status == 201:
            rules = made.body["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
            assert rules[0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


@pytest.mark.parametrize(("version", "there"), [("1.30.3", False), ("1.30.4", True), ("1.31", True)])
async def test_an_empty_list_of_policies(version: str, there: bool):
    """Clients look for its items, which releases with bug 126146 leave out, in any form of JSON."""
    chosen = {"api/beta": True}
    async with running(version, runtime_config=chosen) as api:
        plain = (await api.get(f"{POLICIES}?labelSelector=a=b")).body
        pretty = (await api.get(f"{POLICIES}?labelSelector=a=b&pretty=true")).body

        assert plain == pretty
        assert plain.get("items", "none") == ([] if there else "none")


@pytest.mark.parametrize(("version", "status"), [("1.34", 500), ("1.36", 500), ("1.37", 422)])
async def test_a_range_with_a_step_of_zero(version: str, status: int):
    """A slice with such a range is refused; servers with bug 139698 divide by the step before."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "0"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": capacity}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    async with running(version, gates={"DRAConsumableCapacity": True}) as api:
        made = await api.post(
            "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}, "spec": spec}
        )

        assert made.status == status


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize(("any_value", "status"), [(True, 201), (False, 422)])
async def test_values_in_selectors_of_a_devices_nodes(any_value: bool, status: int, several: bool):
    """Bug 128932 decides which values they may have, regardless of what 141212 lets them have of terms."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["no label!"]}]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "d", "nodeSelector": {"nodeSelectorTerms": [term]}}
    spec = {"driver": "d.example.com", "pool": pool, "perDeviceNodeSelection": True, "devices": [device]}
    gates, bugs = {"DRAPartitionableDevices": True}, {"k8s-128932": any_value, "k8s-141212": several}
    async with running("1.34", gates=gates, bugs=bugs) as api:
        made = await api.post(
            "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}, "spec": spec}
        )

        assert made.status == status, made.body
