"""Extended resource claims are made, undone, left over and deleted, and counted."""

import asyncio
import copy
import re

import pytest
from prometheus_client import generate_latest
from scheduling_cluster import RESOURCE, Cluster, extended, running

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.process.runtime import level_of
from kubeskew.scheduler.configuration import read

pytestmark = pytest.mark.looptime

WITHOUT_FIT = read(
    b"{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
    b"profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]}"
)


async def test_extended_resource_comes_from_dra():
    """The scheduler makes the claim, and the pod's status names it."""
    async with running(await extended()) as cluster:
        await cluster.pod(requests={"cpu": "1", RESOURCE: "1"})
        await cluster.node_of()

        (claim,) = await cluster.claims()
        status = (await cluster.read())["status"]["extendedResourceClaimStatus"]
        assert claim["metadata"]["name"].startswith("p0-extended-resources-")
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert status == {
            "requestMappings": [
                {"containerName": "c", "resourceName": RESOURCE, "requestName": "container-0-request-1"}
            ],
            "resourceClaimName": claim["metadata"]["name"],
        }
        text = generate_latest(cluster.registry).decode()
        assert 'scheduler_resourceclaim_creates_total{status="success"} 1.0' in text


async def test_device_plugin_resource_needs_no_claim():
    """On a node whose device plugin has the resource, nothing of DRA happens."""
    cluster = Cluster()
    await cluster.node(**{RESOURCE: "1"})
    await cluster.device_class(extendedResourceName=RESOURCE)
    async with running(cluster):
        await cluster.pod(requests={RESOURCE: "1"})

        assert await cluster.node_of() == "n0"
        assert await cluster.claims() == []


async def test_class_that_comes_later_helps():
    """A pod that found no resource is tried again when a class with its name appears."""
    cluster = Cluster()
    await cluster.node(devices=1)
    async with running(cluster):
        await cluster.pod(requests={RESOURCE: "1"})
        await cluster.message()
        await cluster.device_class(extendedResourceName=RESOURCE)

        assert await cluster.node_of() == "n0"


async def test_a_device_plugin_that_comes_later_helps():
    """A pod that found no device of DRA is tried again when a node's plugin has some: no claim is made."""
    cluster = Cluster()
    await cluster.node()
    await cluster.device_class(extendedResourceName=RESOURCE)
    async with running(cluster):
        await cluster.pod(requests={RESOURCE: "1"})
        assert "1 cannot allocate all claims" in (await cluster.message())[1]
        node = copy.deepcopy(await cluster.client.get(NODES, "n0", ""))
        node["status"]["allocatable"][RESOURCE] = "1"
        await cluster.client.update(NODES, node, subresource="status")

        assert await cluster.node_of() == "n0"
        assert await cluster.claims() == []


async def test_devices_are_shared_between_claims_and_extended_resources():
    """Two devices serve one claim and one extended resource, not two."""
    async with running(await extended()) as cluster:
        await cluster.claim()
        await cluster.pod("claiming", resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])
        await cluster.pod("extended", requests={RESOURCE: "1"})
        await cluster.node_of("claiming")
        await cluster.node_of("extended")
        await cluster.pod("late", requests={RESOURCE: "1"})

        assert (await cluster.message("late"))[1].startswith(
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: "
        )


_CALLS = [
    pytest.param("POST", "/resourceclaims", id="create-claim"),
    pytest.param("PUT", "/resourceclaims/", id="add-finalizer"),
    pytest.param("PUT", "/status", id="write-allocation"),
    pytest.param("PATCH", "/pods/p0/status", id="patch-pod"),
    pytest.param("POST", "/binding", id="bind"),
]


@pytest.mark.parametrize(("method", "path"), _CALLS)
async def test_failed_call_leaks_nothing(method, path):
    """Whichever write fails once: the pod is bound in the end, with one claim and one device in use."""
    async with running(await extended()) as cluster:
        cluster.fail(method, path)
        await cluster.pod(requests={RESOURCE: "1"})
        await cluster.node_of()

        (claim,) = await cluster.claims()
        status = (await cluster.read())["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
        assert len(cluster.service.dynamic.claims.allocated.devices) == 1
        assert set(cluster.service.dynamic.claims.pending_uids) == set()


@pytest.mark.parametrize(("method", "path"), _CALLS)
async def test_call_that_never_succeeds_leaks_nothing(method, path):
    """A pod that cannot be bound leaves no device behind, and no claim but one that goes with the pod.

    Such a claim stays if its finalizers cannot be written: it is updated before it is deleted.
    """
    async with running(await extended()) as cluster:
        cluster.fail(method, path, times=10**6)
        await cluster.pod(requests={RESOURCE: "1"})
        await asyncio.sleep(60)
        cluster.server.outage = None
        await cluster.client.delete(PODS, "p0", "default")
        await asyncio.sleep(30)

        left = await cluster.claims()
        assert left == [] or (method, path) == ("PUT", "/resourceclaims/")
        assert all(claim["metadata"]["ownerReferences"][0]["name"] == "p0" for claim in left)
        assert set(cluster.service.dynamic.claims.allocated.devices) == set()
        assert set(cluster.service.dynamic.claims.pending_uids) == set()


async def test_a_device_is_taken_before_its_claim_is_written():
    """While PreBind writes the claim, nobody else gets what Reserve took in memory, and other pods go on."""
    async with running(await extended()) as cluster:
        send, written = cluster.connection.create, asyncio.Event()

        async def create(ref, obj, *args, **options):
            if ref == cluster.refs.claims:
                await written.wait()
            return await send(ref, obj, *args, **options)

        cluster.connection.create = create
        await cluster.pod("first", requests={RESOURCE: "2"})
        await cluster.pod("second", requests={RESOURCE: "1"})
        await cluster.pod("plain", requests={"cpu": "1"})

        assert "1 cannot allocate all claims" in (await cluster.message("second"))[1]
        assert await cluster.node_of("plain") == "n0"
        assert "nodeName" not in (await cluster.read("first"))["spec"]
        assert await cluster.claims() == []
        written.set()
        assert await cluster.node_of("first") == "n0"


@pytest.mark.parametrize(("version", "flush"), [("1.36", True), ("1.37", False)])
async def test_leftover_claim_is_deleted_in_the_next_attempt(version, flush):
    """A claim left by a failed clean-up is found by its owner in the next attempt, and deleted.

    Up to 1.36 no deletion of a claim is an event: the pod goes on with the next flush of waiting pods.
    """
    began = asyncio.get_running_loop().time()
    async with running(await extended(version)) as cluster:
        failures = {"/binding": 1, "PUT": 1}

        def outage(request):
            if request.target.endswith("/binding") and failures["/binding"]:
                failures["/binding"] -= 1
                return StatusError(500, "InternalError", "out of order")
            if not failures["/binding"] and request.method in ("PUT", "DELETE") and failures["PUT"]:
                failures["PUT"] -= 1
                return StatusError(500, "InternalError", "still out of order")
            return None

        cluster.server.outage = outage
        await cluster.pod(requests={RESOURCE: "1"})
        await cluster.node_of()

        assert failures == {"/binding": 0, "PUT": 0}
        assert (asyncio.get_running_loop().time() - began > 300) is flush
        assert f"scheduler_pod_scheduled_after_flush_total {float(flush)}" in cluster.metrics()
        assert 'scheduler_goroutines{operation="binding"} 0.0' in cluster.metrics()
        assert len(await cluster.claims()) == 1
        assert len(cluster.service.dynamic.claims.allocated.devices) == 1


async def test_a_deletion_that_fails_leaves_the_pod_waiting():
    """PostFilter cannot delete the leftover: the pod is informed, and waits for an event, as upstream.

    KEP-5004 promises an error and a requeue; upstream's schedulingAlgorithm logs the error only.
    """
    async with running(await extended()) as cluster:
        failing = {"/binding", "PUT", "DELETE"}

        def outage(request):
            bind = request.target.endswith("/binding")
            if bind and "/binding" in failing:
                failing.discard("/binding")
                return StatusError(500, "InternalError", "out of order")
            if (
                "/binding" not in failing
                and request.method in failing
                and "/resourceclaims/" in request.target
            ):
                return StatusError(500, "InternalError", "still out of order")
            return None

        cluster.server.outage = outage
        await cluster.pod(requests={RESOURCE: "1"})
        await asyncio.sleep(30)
        reason, message = await cluster.message()
        (claim,) = await cluster.claims()
        name = f"default/{claim['metadata']['name']}"
        assert reason == "Unschedulable"
        assert message.startswith(
            "0/1 nodes are available: 1 cannot schedule extended resource claim. "
            f"update resourceclaim {name}: still out of order"
        )
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in cluster.metrics()

        failing.clear()
        await asyncio.sleep(400)  # the flush of pods that wait for long
        assert await cluster.node_of() == "n0"
        (claim,) = await cluster.claims()
        status = (await cluster.read())["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]


@pytest.mark.parametrize(
    ("version", "method", "path", "times", "text"),
    [
        ("1.36", "POST", "/resourceclaims", 1, "create claim for extended resources default/"),
        ("1.34", "POST", "/resourceclaims", 1, "create claim for extended resources "),
        ("1.36", "PUT", "/resourceclaims/", 1, "add finalizer to claim default/p0-extended-resources-*"),
        (
            "1.36", "PUT", "/status", 1,
            "add allocation and reservation to claim default/p0-extended-resources-*",
        ),
        ("1.36", "PATCH", "/pods/p0/status", 4, "update pod default/p0 ExtendedResourceClaimStatus"),
    ],
)  # fmt: skip
async def test_what_is_reported_when_a_write_fails(version, method, path, times, text):
    """An error of PreBind: an event says what failed, in upstream's words, and the pod is tried again; the
    server's own errors with the status of a pod are forgiven three times."""
    async with running(await extended(version, DRAExtendedResource=True)) as cluster:
        cluster.fail(method, path, times)
        await cluster.pod(requests={RESOURCE: "1"})
        await cluster.node_of()
        await asyncio.sleep(5)

        (event,) = await cluster.events("FailedScheduling")
        expected = f'running PreBind plugin "DynamicResources": {text}: out of order'
        assert re.sub("resources-[a-z0-9]{5}", "resources-*", event) == expected


async def test_an_answer_that_gets_lost_undoes_the_claim():
    """The binding is stored but its answer lost: as upstream the scheduler takes the claim back, and the pod
    is on its node with a status that names no claim any more, until somebody deletes it."""
    async with running(await extended()) as cluster:
        send = cluster.connection.create

        async def create(ref, obj, *args, **options):
            answer = await send(ref, obj, *args, **options)
            if options.get("subresource") == "binding":
                raise ConnectionResetError("gone")
            return answer

        cluster.connection.create = create
        await cluster.pod(requests={RESOURCE: "1"})
        assert await cluster.node_of() == "n0"
        await asyncio.sleep(60)

        assert await cluster.claims() == []
        assert "extendedResourceClaimStatus" in (await cluster.read())["status"]
        assert set(cluster.service.dynamic.claims.allocated.devices) == set()


async def test_a_claim_next_to_resources_of_a_plugin_cannot_be_bound():
    """Upstream's bug: with a claim of its own, a pod whose extended resources all come from a device plugin
    gets an extended resource claim without requests, which no pod's status can map."""
    cluster = Cluster()
    await cluster.node(devices=2, **{RESOURCE: "1"})
    await cluster.device_class(extendedResourceName=RESOURCE)
    await cluster.claim()
    async with running(cluster):
        claims = [{"name": "x", "resourceClaimName": "c0"}]
        await cluster.pod(requests={RESOURCE: "1"}, resourceClaims=claims)
        await asyncio.sleep(10)

        reason, message = await cluster.message()
        assert reason == "SchedulerError"
        assert message.endswith(
            "nil or empty request mappings, no update of pod default/p0 ExtendedResourceClaimStatus"
        )
        await cluster.client.delete(PODS, "p0", "default")
        await asyncio.sleep(30)
        assert [claim["metadata"]["name"] for claim in await cluster.claims()] == ["c0"]


async def test_a_claim_and_extended_resources_from_dra_go_together():
    """Both claims are allocated on one node, and the pod's status names the extended resource claim."""
    async with running(await extended()) as cluster:
        await cluster.claim()
        await cluster.pod(requests={RESOURCE: "1"}, resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])

        assert await cluster.node_of() == "n0"
        assert len(cluster.service.dynamic.claims.allocated.devices) == 2


@pytest.mark.parametrize(
    ("version", "requests", "text"),
    [
        pytest.param(
            "1.36",
            {RESOURCE: "1", "example.com/unknown": "1"},
            "1 Insufficient example.com/unknown",
            id="no-class-for-another",
        ),
        pytest.param("1.36", {RESOURCE: "33"}, "number of requested devices 33 exceeds", id="too-many"),
        pytest.param("1.36", {RESOURCE: "3"}, "1 cannot allocate all claims. still not", id="not-there"),
    ],
)
async def test_why_an_extended_resource_cannot_be_had(version, requests, text):
    """The pod's condition says it, and no claim is made."""
    async with running(await extended(version, DRAExtendedResource=True)) as cluster:
        await cluster.pod(requests=requests)

        assert text in (await cluster.message())[1]
        assert await cluster.claims() == []
        assert "resourceclaim_creates" not in cluster.metrics().replace("# HELP", "").replace(
            "# TYPE", ""
        ) or ("creates_total{" not in cluster.metrics())


async def test_at_verbosity_5_the_log_says_why(caplog):
    """The plugin logs its reason for each node, and the scheduler at level 2 the whole message."""
    caplog.set_level(level_of(5))
    async with running(await extended("1.36", DRAExtendedResource=True)) as cluster:
        await cluster.pod(requests={RESOURCE: "3"})
        message = (await cluster.message())[1]

    lines = [text for text in caplog.messages if text.startswith('"pod unschedulable"')]
    where = 'logger="FilterWithNominatedPods.Filter.DynamicResources" pod="default/p0" node="n0"'
    claims = 'resourceclaims=["default/<extended-resources>"]'
    assert set(lines) == {f'"pod unschedulable" {where} {claims} reason="cannot allocate all claims"'}
    assert any(
        text.startswith('"Status after running PostFilter plugins for pod"') for text in caplog.messages
    )
    assert f'"Unable to schedule pod; no fit; waiting" pod="default/p0" err="{message}"' in caplog.messages


@pytest.mark.parametrize(
    ("settings", "requests", "fields_logged"),
    [
        pytest.param(
            None,
            {RESOURCE: "3"},
            'resourceclaims=["default/<extended-resources>"] reason="cannot allocate all claims"',
            id="not-there",
        ),
        pytest.param(
            WITHOUT_FIT,
            {RESOURCE: "1", "example.com/unknown": "1"},
            'resource="example.com/unknown" reason="cannot fit resource"',
            id="not-backed",
        ),
    ],
)
async def test_without_contextual_logging_the_log_names_no_logger(settings, requests, fields_logged, caplog):
    """The plugin says the same of a node, without the logger's name."""
    caplog.set_level(level_of(5))
    gates = {"DRAExtendedResource": True, "ContextualLogging": False}
    async with running(await extended("1.36", settings=settings, **gates)) as cluster:
        await cluster.pod(requests=requests)
        await cluster.message()

    assert f'"pod unschedulable" pod="default/p0" node="n0" {fields_logged}' in caplog.messages


async def test_at_verbosity_5_the_log_says_that_devices_are_too_many(caplog):
    """More devices than a claim may have are an error of the plugin, logged at level 5 and by the
    scheduler."""
    caplog.set_level(level_of(5))
    async with running(await extended("1.36", DRAExtendedResource=True)) as cluster:
        await cluster.pod(requests={RESOURCE: "33"})
        await cluster.message()

    limit = "number of requested devices 33 exceeds the claim limit of 32"
    lines = [text for text in caplog.messages if limit in text]
    assert lines[0].startswith('"dynamic resource plugin failed" err="')
    where = 'logger="FilterWithNominatedPods.Filter.DynamicResources" pod="default/p0" node="n0"'
    assert lines[0].endswith(f' {where} resourceclaims=["default/<extended-resources>"]')
    assert lines[1].startswith('"Error scheduling pod; retrying" err="')
    assert lines[1].endswith('" logger="UnhandledError" pod="default/p0"')


async def test_the_log_says_which_write_failed(caplog):
    """At any verbosity the scheduler logs an error; at level 5 the plugin says the same before."""
    caplog.set_level(level_of(5))
    async with running(await extended("1.36", DRAExtendedResource=True)) as cluster:
        cluster.fail("POST", "/resourceclaims")
        await cluster.pod(requests={RESOURCE: "1"})
        assert await cluster.node_of() == "n0"

    failure = "create claim for extended resources default/: "
    assert any("dynamic resource plugin failed" in text and failure in text for text in caplog.messages)
    [error] = [record for record in caplog.records if "Error scheduling pod; retrying" in record.message]
    assert error.levelname == "ERROR"
    assert failure in error.message


@pytest.mark.parametrize(
    ("version", "gate", "series"),
    [
        ("1.34", True, None),
        ("1.35", True, 'scheduler_resourceclaim_creates_total{status="success"} 1.0'),
        (
            "1.37",
            True,
            '_creates_total{admin_access="false",owner_api_group="",owner_api_kind="Pod",status="success"}',
        ),
        ("1.36", False, None),
    ],
)
async def test_claims_are_counted_under_the_name_of_the_release(version, gate, series):
    """1.35 began to count, 1.37 shares the name with the controller manager; the gate must be on."""
    async with running(await extended(version, DRAExtendedResource=gate)) as cluster:
        await cluster.pod(requests={RESOURCE: "1"})
        await (cluster.node_of() if gate else cluster.message())

        if series is None:
            assert "resourceclaim_creates" not in cluster.metrics()
        else:
            assert series in cluster.metrics()


async def test_the_first_release_runs_pods_with_implicit_names_without_devices():
    """1.34 leaves the implicit name to DRA, which does not look at it: the pod is bound without a claim."""
    cluster = Cluster("1.34", DRAExtendedResource=True)
    await cluster.node(devices=1)
    await cluster.device_class()
    async with running(cluster):
        await cluster.pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})

        assert await cluster.node_of() == "n0"
        assert await cluster.claims() == []


@pytest.mark.parametrize("version", ["1.34", "1.35"])
async def test_extended_resources_in_alpha(version):
    """With the gate on, the releases before 1.36 do it too."""
    async with running(await extended(version, DRAExtendedResource=True)) as cluster:
        await cluster.pod(requests={RESOURCE: "1"})

        assert await cluster.node_of() == "n0"
        (claim,) = await cluster.claims()
        assert ("blockOwnerDeletion" in claim["metadata"]["ownerReferences"][0]) is (version == "1.34")


@pytest.mark.parametrize(("version", "fits"), [("1.34", False), ("1.35", True)])
async def test_one_resource_from_a_plugin_and_one_from_dra(version, fits):
    """Each comes from where the node has it; 1.34 asks DRA for both, so that the pod does not fit."""
    cluster = Cluster(version, DRAExtendedResource=True)
    await cluster.node(devices=1, **{"example.com/nic": "1"})
    await cluster.device_class(extendedResourceName=RESOURCE)
    await cluster.device_class("nic", extendedResourceName="example.com/nic", selectors=[])
    async with running(cluster):
        await cluster.pod(requests={RESOURCE: "1", "example.com/nic": "1"})

        if fits:
            assert await cluster.node_of() == "n0"
            (claim,) = await cluster.claims()
            assert [request["name"] for request in claim["spec"]["devices"]["requests"]] == [
                "container-0-request-0"
            ]
        else:
            assert "1 cannot allocate all claims" in (await cluster.message())[1]
