"""DynamicResources over a whole scheduling attempt: what it says, writes, waits for and takes back."""

import asyncio

import pytest
from scheduling_cluster import DRIVER, Cluster, running

from apimachinery.client.refs import pod_groups_ref
from apimachinery.errors import StatusError
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.errors import SearchTimeout
from scheduler.configuration.settings import ProfileSettings, SchedulerSettings
from scheduler.framework.profile import ProfileError

pytestmark = pytest.mark.looptime

CLAIM = [{"name": "x", "resourceClaimName": "c0"}]
RESULT = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
ELSEWHERE = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
        ]
    },
}
PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def _settings(**args):
    return SchedulerSettings((ProfileSettings(arguments={"DynamicResources": args}),))


async def _cluster(version="1.36", devices=1, *, settings=None, **gates):
    cluster = Cluster(version, settings=settings, **gates)
    await cluster.node(devices=devices)
    await cluster.device_class()
    return cluster


async def _bound(cluster, name="p0"):
    assert await cluster.node_of(name) == "n0"


async def _claim(cluster):
    (claim,) = await cluster.claims()
    return claim


async def _allocation(cluster):
    return (await _claim(cluster))["status"].get("allocation")


async def _until(condition):
    """Wait, in virtual time, for what no watch tells."""
    while not await condition():  # noqa: ASYNC110 - the loop's time is virtual
        await asyncio.sleep(0.1)


# -- before any node is looked at


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.32", " no new claims to deallocate, "),
        ("1.33", " "),
        ("1.34", " no new claims to deallocate, "),
        ("1.36", " no new claims to deallocate, "),
        ("1.37", " "),
    ],
)
async def test_what_is_said_of_pods_without_claims(version, reason):
    """PostFilter had something to say about claims in some releases."""
    cluster = await _cluster(version, DynamicResourceAllocation=True)
    async with running(cluster):
        await cluster.pod(requests={"cpu": "100"})

        said = (await cluster.message())[1]
        assert said.startswith(f"0/1 nodes are available: 1 Insufficient cpu.{reason}preemption: 0/1")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            {"firstAvailable": [{"name": "a", "deviceClassName": "none"}]},
            "request r/a: device class none does not exist",
        ),
        ({}, "resource claim default/c0, request r: unknown request type"),
    ],
)
async def test_requests_that_nobody_can_serve(request_, reason):
    """Classes of alternatives are named with them; a request of a newer kind is refused."""
    cluster = await _cluster()
    await cluster.claim(requests=[{"name": "r", **request_}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        said = (await cluster.message())[1]
        assert said == f"0/1 nodes are available: {reason}. no new claims to deallocate, {PREEMPTION}"


async def test_alternatives_need_their_gate():
    """With DRAPrioritizedList off, such claims are not allocated."""
    cluster = await _cluster(DRAPrioritizedList=False)
    await cluster.claim(requests=[{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        assert (
            "resource claim default/c0, request r: has subrequests, "
            "but the DRAPrioritizedList feature is disabled"
        ) in (await cluster.message())[1]


async def test_an_empty_class_name_is_an_error():
    """It cannot come from an API server of now; the attempt fails."""
    cluster = await _cluster()
    await cluster.claim(requests=[{"name": "r", "exactly": {"deviceClassName": ""}}])
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        assert await cluster.message() == (
            "SchedulerError",
            'running PreFilter plugin "DynamicResources": request r: unsupported request type',
        )


async def test_a_claim_with_all_its_users_is_in_use():
    """256 pods may use a claim; the next waits until one of them is done."""
    cluster = await _cluster()
    await cluster.claim()
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(256)]
    await cluster.set_claim_status(allocation={"devices": {"results": [RESULT]}}, reservedFor=users)
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        assert "0/1 nodes are available: resourceclaim in use." in (await cluster.message())[1]

        await cluster.set_claim_status(reservedFor=users[1:])
        await _bound(cluster)


async def test_two_pods_share_a_claim():
    """The second waits while the first one's allocation is being written, then both have it."""
    cluster = await _cluster()
    await cluster.claim()
    async with running(cluster):
        await cluster.pod("p0", resourceClaims=CLAIM)
        await cluster.pod("p1", resourceClaims=CLAIM)
        await _bound(cluster, "p0")
        await _bound(cluster, "p1")

        status = (await _claim(cluster))["status"]
        assert [each["name"] for each in status["reservedFor"]] == ["p0", "p1"]


async def test_without_the_feature_claims_are_not_looked_at():
    """The plugin is not there then: pods go to nodes whatever they claim."""
    cluster = await _cluster("1.33")
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await _bound(cluster)


# -- on the nodes


@pytest.mark.parametrize(("version", "is_error"), [("1.35", False), ("1.36", True)])
async def test_a_search_without_time_is_told(version, is_error, monkeypatch):
    """A search that takes too long is given up; since 1.36 that is an error."""

    def find(self, node, claims, timer):
        raise SearchTimeout

    monkeypatch.setattr(Allocator, "find", find)
    cluster = await _cluster(version)
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)

        reason, text = await cluster.message()
    if is_error:
        expected = 'running "DynamicResources" filter plugin: node n0: timed out trying to allocate devices'
        assert (reason, text) == ("SchedulerError", expected)
    else:
        assert reason == "Unschedulable"
        assert "1 timed out trying to allocate devices. still not schedulable, " in text


async def test_a_claim_elsewhere_is_given_up():
    """A claim that nobody uses is deallocated if its devices keep a pod from every node."""
    cluster = await _cluster()
    await cluster.claim()
    await cluster.set_claim_status(
        allocation=ELSEWHERE, devices=[{"driver": DRIVER, "pool": "n0", "device": "gpu-0"}]
    )
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        assert (await cluster.message())[1] == (
            "0/1 nodes are available: 1 resourceclaim not available on the node. "
            f"deallocation of ResourceClaim completed, {PREEMPTION}"
        )
        await _bound(cluster)

        status = (await _claim(cluster))["status"]
        assert status["allocation"]["devices"]["results"] == [RESULT]
        assert "devices" not in status


async def test_a_claim_that_others_use_is_not_given_up():
    """The pod waits; from 1.37 on nothing more is said about it."""
    for version, more in (("1.36", "still not schedulable, "), ("1.37", "")):
        cluster = await _cluster(version)
        await cluster.claim()
        await cluster.set_claim_status(
            allocation=ELSEWHERE, reservedFor=[{"resource": "pods", "name": "o", "uid": "o"}]
        )
        async with running(cluster):
            await cluster.pod(resourceClaims=CLAIM)

            said = (await cluster.message())[1]
            expected = (
                f"0/1 nodes are available: 1 resourceclaim not available on the node. {more}{PREEMPTION}"
            )
            assert said == expected


async def test_evaluations_are_counted():
    """Each plugin is counted where it had something to say: per attempt, and per node."""
    cluster = await _cluster()
    await cluster.node("other")
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM)
        await _bound(cluster)

    text = cluster.metrics()
    for point, number in (("PreFilter", 1), ("Filter", 2)):
        labels = f'extension_point="{point}",plugin="DynamicResources",profile="default-scheduler"'
        assert f"scheduler_plugin_evaluation_total{{{labels}}} {number}.0" in text
    assert 'extension_point="Score",plugin="DynamicResources"' not in text


# -- alternatives


@pytest.mark.parametrize(("version", "expected"), [("1.35", {"good"}), ("1.34", {"good", "n0"})])
async def test_the_node_with_the_better_alternative_is_preferred(version, expected):
    """Since 1.35 nodes are scored by which alternatives they serve."""
    cluster = await _cluster(version, devices=8)
    await cluster.node("good", devices=8)
    parts = [
        {
            "name": name,
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        }
        for name in ("first", "second")
    ]
    await cluster.client.update(
        cluster.refs.slices,
        {
            **(await cluster.client.get(cluster.refs.slices, "good", "")),
            "spec": {
                "driver": DRIVER,
                "nodeName": "good",
                "pool": {"name": "good", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{i}", "attributes": {"best": {"bool": True}}} for i in range(8)],
            },
        },
    )
    best = f"'best' in device.attributes['{DRIVER}']"
    parts[0]["selectors"] = [{"cel": {"expression": best}}]
    used = set()
    async with running(cluster):
        for number in range(6):
            await cluster.claim(f"c{number}", requests=[{"name": "r", "firstAvailable": parts}])
            reference = [{"name": "x", "resourceClaimName": f"c{number}"}]
            await cluster.pod(f"p{number}", resourceClaims=reference)
            used.add(await cluster.node_of(f"p{number}"))
    assert used == expected


# -- writing


CALLS = [
    ("PUT", "/resourceclaims/c0", "add finalizer to claim default/c0: out of order"),
    ("PUT", "/c0/status", "add allocation and reservation to claim default/c0: out of order"),
]


@pytest.mark.parametrize(("method", "path", "text"), CALLS)
async def test_refused_writes_are_told_and_repeated(method, path, text):
    """A write that fails gives the devices back; the next attempt succeeds."""
    cluster = await _cluster()
    await cluster.claim()
    async with running(cluster):
        cluster.fail(method, path)
        await cluster.pod(resourceClaims=CLAIM)

        assert await cluster.message() == (
            "SchedulerError",
            f'running PreBind plugin "DynamicResources": {text}',
        )
        await _bound(cluster)
        assert len((await _claim(cluster))["status"]["reservedFor"]) == 1
        assert not cluster.service.dynamic.claims.pending_uids


async def test_a_failed_binding_takes_the_reservation_back():
    """The allocation stays, for the next attempt."""
    cluster = await _cluster()
    await cluster.claim()
    async with running(cluster):
        cluster.fail("POST", "/binding", times=2)
        await cluster.pod(resourceClaims=CLAIM)
        await cluster.message()
        await asyncio.sleep(0.1)

        status = (await _claim(cluster))["status"]
        assert status["reservedFor"] == []
        assert status["allocation"]["devices"]["results"] == [RESULT]
        await _bound(cluster)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"status": {"allocation": {"devices": {"results": [RESULT]}}}},
            "claim default/c0 got allocated elsewhere in the meantime",
        ),
        ({"deleted": True}, "claim default/c0 got deleted in the meantime"),
    ],
)
async def test_another_scheduler_was_faster(changed, text):
    """A conflict makes the scheduler look again, and find that there is nothing left to write."""
    cluster = await _cluster(devices=2)
    await cluster.claim(finalizers=["example.com/keep"])
    other = cluster.server.client()

    async def interfere():
        if changed.get("deleted"):
            await other.delete(cluster.refs.claims, "c0", "default")
        else:
            claim = await other.get(cluster.refs.claims, "c0", "default")
            await other.update(cluster.refs.claims, {**claim, **changed}, "status")

    pending = []

    def outage(request):
        if request.method == "PUT" and not pending:
            pending.append(asyncio.create_task(interfere()))
            return StatusError(409, "Conflict", "the object has been modified")
        return None

    async with running(cluster):
        cluster.server.outage = outage
        await cluster.pod(resourceClaims=CLAIM)

        said = await cluster.message()
    assert said == ("SchedulerError", f'running PreBind plugin "DynamicResources": {text}')


async def test_what_was_begun_before_a_restart_is_finished():
    """A claim with the finalizer alone is allocated; one that is the pod's already is not written again."""
    cluster = await _cluster(devices=2)
    finalizer = "resource.kubernetes.io/delete-protection"
    await cluster.claim("c0", finalizers=[finalizer])
    await cluster.claim("c1", finalizers=[finalizer])
    both = [{"name": name, "resourceClaimName": name} for name in ("c0", "c1")]
    pod = await cluster.pod(resourceClaims=both)
    mine = {"resource": "pods", "name": "p0", "uid": pod["metadata"]["uid"]}
    await cluster.set_claim_status("c1", allocation={"devices": {"results": [RESULT]}}, reservedFor=[mine])
    cluster.server.requests.clear()
    async with running(cluster):
        await _bound(cluster)

    written = [each.target for each in cluster.server.requests if each.method == "PUT"]
    assert [each.rpartition("/resourceclaims/")[2] for each in written] == ["c0/status"]
    first, second = (each["status"] for each in await cluster.claims())
    assert first["allocation"]["devices"]["results"] == [{**RESULT, "device": "gpu-1"}]
    assert second["allocation"]["devices"]["results"] == [RESULT]


async def test_admin_access_takes_nothing():
    """Who looks after devices gets those that others have, and keeps them from nobody."""
    cluster = await _cluster()
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    await cluster.claim("c0", requests=[{"name": "r", "exactly": {**exactly, "adminAccess": True}}])
    await cluster.claim("c1")
    async with running(cluster):
        for name in ("c0", "c1"):
            await cluster.pod(name, resourceClaims=[{"name": "x", "resourceClaimName": name}])
            await _bound(cluster, name)

    results = [each["status"]["allocation"]["devices"]["results"] for each in await cluster.claims()]
    assert results == [[{**RESULT, "adminAccess": True}], [RESULT]]


async def test_devices_that_were_given_back_are_found_again():
    """What nodes remember of a request ends when somebody gives a device back."""
    cluster = await _cluster()
    async with running(cluster):
        for number in range(2):
            await cluster.claim(f"c{number}")
            reference = [{"name": "x", "resourceClaimName": f"c{number}"}]
            await cluster.pod(f"p{number}", resourceClaims=reference)
        await _bound(cluster, "p0")
        assert "1 cannot allocate all claims. still not schedulable, " in (await cluster.message("p1"))[1]

        await cluster.set_claim_status("c0", allocation=None, reservedFor=None)
        await _bound(cluster, "p1")


# -- binding conditions

CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


async def _conditional(version="1.36", *, devices=1, settings=None, **gates):
    cluster = Cluster(version, settings=settings, **gates)
    await cluster.node()
    await cluster.device_class()
    made = [{"name": f"gpu-{i}", **CONDITIONS} for i in range(devices)]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": made}
    await cluster.client.create(cluster.refs.slices, {"metadata": {"name": "s"}, "spec": spec})
    await cluster.claim()
    return cluster


def _said(kind, *, device="gpu-0", **more):
    condition = {"type": kind, "status": "True", "reason": "Because", "message": "so", **more}
    return [{"driver": DRIVER, "pool": "n0", "device": device, "conditions": [condition]}]


async def _waiting(cluster):
    """A pod whose PreBind waits for its device."""
    await cluster.pod(resourceClaims=CLAIM)
    await _until(lambda: cluster.events("BindingConditionsPending"))


async def _given_up(cluster):
    """Wait until the scheduler has deallocated a claim."""

    async def seen():
        return any("deallocation of" in note for note in await cluster.events("FailedScheduling"))

    await _until(seen)


async def test_a_pod_is_bound_when_its_device_is_ready():
    """The claim is looked at every five seconds; how long it took is counted."""
    async with running(await _conditional()) as cluster:
        await _waiting(cluster)
        allocated = (await _claim(cluster))["status"]["allocation"]
        assert allocated["allocationTimestamp"]
        assert not (await cluster.read())["spec"].get("nodeName")
        await cluster.set_claim_status(devices=_said("ready"))
        await _bound(cluster)

        assert await cluster.events("BindingConditionsPending") == [
            "waiting for binding conditions for device on node n0"
        ]
        labels = f'driver="{DRIVER}",profile="default-scheduler",status="success"'
        assert f"scheduler_dra_bindingconditions_allocations_total{{{labels}}} 1.0" in cluster.metrics()
        seconds = f"scheduler_dra_bindingconditions_wait_duration_seconds_count{{{labels}}} 1.0"
        assert seconds in cluster.metrics()


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.35", 'claim c0 binding failed: reason=Because, message="so"'),
        ("1.36", 'device binding failed: claim=c0, reason=Because, message="so"'),
    ],
)
async def test_a_device_that_fails_is_given_up(version, text):
    """The pod gets another device, after the claim was deallocated."""
    gates = {"DRADeviceBindingConditions": True}
    async with running(await _conditional(version, devices=2, **gates)) as cluster:
        await _waiting(cluster)
        await cluster.set_claim_status(devices=_said("broken"))
        assert await cluster.message() == (
            "SchedulerError",
            f'running PreBind plugin "DynamicResources": {text}',
        )

        await _given_up(cluster)
        await _until(lambda: _allocation(cluster))
        assert "devices" not in (await _claim(cluster))["status"]
        await cluster.set_claim_status(devices=_said("ready"))
        await _bound(cluster)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.35", "device binding timeout"),
        ("1.36", "device binding timeout: context deadline exceeded"),
    ],
)
async def test_a_device_that_takes_too_long_is_given_up(version, text):
    """bindingTimeout counts; afterwards the claim is free for another try."""
    settings = _settings(bindingTimeout="12s")
    cluster = await _conditional(version, settings=settings, DRADeviceBindingConditions=True)
    async with running(cluster):
        await _waiting(cluster)
        said = f'running PreBind plugin "DynamicResources": {text}'
        assert await cluster.message() == ("SchedulerError", said)
        await _given_up(cluster)


async def test_conditions_need_both_gates():
    """With DRAResourceClaimDeviceStatus off, devices with conditions are nobody's."""
    async with running(await _conditional(DRAResourceClaimDeviceStatus=False)) as cluster:
        await cluster.pod(resourceClaims=CLAIM)

        assert "1 cannot allocate all claims. still not schedulable, " in (await cluster.message())[1]


@pytest.mark.parametrize(
    ("version", "gates", "args", "text"),
    [
        ("1.36", {}, {"filterTimeout": "-1s"}, "filterTimeout: Invalid value: -1s: must be zero or positive"),
        (
            "1.36",
            {"DRASchedulerFilterTimeout": False},
            {"filterTimeout": "1s"},
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (
            "1.36",
            {},
            {"bindingTimeout": "1ms"},
            "bindingTimeout: Invalid value: 1ms: must be at least 1 second",
        ),
        (
            "1.35",
            {},
            {"bindingTimeout": "1m"},
            (
                "bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                "feature gate is disabled"
            ),
        ),
        ("1.34", {}, {"bindingTimeout": "1m"}, 'strict decoding error: unknown field "bindingTimeout"'),
    ],
)
def test_arguments_that_cannot_be(version, gates, args, text):
    """The scheduler does not start; an argument whose gate is off is an error, too."""
    with pytest.raises(ProfileError) as caught:
        Cluster(version, settings=_settings(**args), **gates)
    assert str(caught.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        f'initializing plugin "DynamicResources": {text}'
    )


# -- groups of pods

GROUPED = {"schedulingGroup": {"podGroupName": "g"}}


async def test_a_claim_of_a_group_is_reserved_for_the_group():
    """All pods of the group share one entry (DRAWorkloadResourceClaims)."""
    gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    cluster = await _cluster(**gates)
    ref = pod_groups_ref(cluster.version)
    group = {"metadata": {"name": "g"}, "spec": {"resourceClaims": CLAIM}}
    made = await cluster.client.create(ref, group, "default")
    await cluster.claim()
    async with running(cluster):
        for name in ("p0", "p1"):
            await cluster.pod(name, resourceClaims=CLAIM, **GROUPED)
            await _bound(cluster, name)

        assert (await _claim(cluster))["status"]["reservedFor"] == [
            {
                "apiGroup": "scheduling.k8s.io",
                "resource": "podgroups",
                "name": "g",
                "uid": made["metadata"]["uid"],
            }
        ]


async def test_without_the_gate_pods_of_a_group_stand_for_themselves():
    """Each has an entry of its own."""
    cluster = await _cluster()
    await cluster.claim()
    async with running(cluster):
        await cluster.pod(resourceClaims=CLAIM, **GROUPED)
        await _bound(cluster)

        (entry,) = (await _claim(cluster))["status"]["reservedFor"]
        assert (entry["resource"], entry["name"]) == ("pods", "p0")


@pytest.mark.parametrize(
    ("version", "who", "gates"),
    [
        ("1.35", "pod default/p0 (pod is not owner)", {}),
        ("1.36", "Pod default/p0 (Pod is not owner)", {}),
        (
            "1.36",
            "Pod default/p0 (neither Pod nor PodGroup g is the owner)",
            {"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
        ),
    ],
)
async def test_a_claim_made_for_another_pod(version, who, gates):
    """Nobody gets a claim that was generated for somebody else."""
    cluster = await _cluster(version, **gates)
    await cluster.claim()
    made = [{"name": "x", "resourceClaimTemplateName": "t"}]
    await cluster.pod(
        resourceClaims=made,
        status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c0"}]},
        **GROUPED,
    )
    async with running(cluster):
        await asyncio.sleep(1)
        assert cluster.service.queue.sizes["gated"] == 1

        (profile,) = cluster.service.scheduler.profiles.values()
        (plugin,) = [each for each in profile.plugins if each.name == "DynamicResources"]
        queued = next(iter(cluster.service.queue._waiting))
        said = plugin.pre_enqueue(queued.info)
    assert said.message == f"ResourceClaim default/c0 was not created for {who}"
