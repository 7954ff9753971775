"""Preparing a pod's claims: the order of the checks, the wording of errors, what is remembered."""

import pytest
from managed_claims import DRIVER, pod

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.plugin import ClaimFailed, PluginError
from kubeskew.kubelet.features import KubeletFeatures

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_a_claim_is_prepared_once_and_checkpointed(make):
    """The driver is called once for all claims of a pod, and not again for a second pod."""
    node = make()
    await node.claim("a", "p", "q")
    await node.claim("b", "p")
    await node.manager.prepare(pod("a", "b"))
    await node.manager.prepare(pod("a", "b"))
    await node.manager.prepare(pod("a", uid="q"))

    assert node.plugin.prepare_calls == [["a", "b"]]
    assert node.store.users() == {"a": {"p", "q"}, "b": {"p"}}


async def test_a_restarted_manager_asks_the_driver_again(make):
    """A restarted manager asks the driver to prepare again, as the checkpoint does not record it."""
    node = make()
    await node.claim("a", "p")
    await node.manager.prepare(pod("a"))
    node.cache.load()
    for info in node.cache.infos():
        info.prepared = False
    await node.manager.prepare(pod("a"))

    assert node.plugin.prepare_calls == [["a"], ["a"]]


@pytest.mark.parametrize(("minor", "times"), [(36, 2), (37, 1)])
async def test_a_claim_that_is_prepared_once_more_has_its_devices(make, minor, times):
    """A second answer takes the place of the first; kubelets with bug 140274 add it."""
    node = make(minor)
    await node.claim("a", "p")
    await node.manager.prepare(pod("a"))
    (info,) = node.cache.infos()
    once = list(info.devices[DRIVER])
    info.prepared = False
    await node.manager.prepare(pod("a"))

    assert info.devices == {DRIVER: once * times}


ERRORS = {
    "no claim": 'fetch ResourceClaim missing: resourceclaims.resource.k8s.io "missing" not found',
    "not reserved": "pod pod (p) is not allowed to use ResourceClaim foreign ({uid})",
    "no driver": "DRA driver other.example.com is not registered",
}


@pytest.mark.parametrize("case", ERRORS)
async def test_a_pod_that_may_not_run_leaves_nothing_behind(make, case):
    """From 1.34 all claims are looked at before the first is remembered.

    No driver is called, nothing stored.
    """
    node = make()
    await node.claim("good", "p")
    found = await node.claim("foreign", "someone", driver=DRIVER)
    await node.claim("elsewhere", "p", driver="other.example.com")
    bad = {"no claim": "missing", "not reserved": "foreign", "no driver": "elsewhere"}[case]
    text = await node.prepare_error("good", bad)

    assert text == "prepare dynamic resources: " + ERRORS[case].format(uid=found["metadata"]["uid"])
    assert node.store.writes == 0
    assert node.plugin.prepare_calls == []


async def test_up_to_1_33_the_claims_before_the_bad_one_are_remembered(make):
    """Older managers check and remember claim by claim, in older words."""
    node = make(33, gates={"DynamicResourceAllocation": True})
    await node.claim("good", "p")
    foreign = await node.claim("foreign", "someone")
    text = await node.prepare_error("good", "foreign")

    uid = foreign["metadata"]["uid"]
    assert text == f"pod pod(p) is not allowed to use resource claim foreign({uid})"
    assert node.store.users() == {"good": {"p"}}
    assert node.plugin.prepare_calls == []


async def test_an_old_claim_of_the_same_name_blocks_a_new_one(make):
    """From 1.34 a claim that replaced one still in use is not prepared."""
    node = make()
    await node.claim("a", "p")
    node.cache.add(ClaimInfo("default", "a", "old-uid", {"gone"}, {DRIVER: []}))
    text = await node.prepare_error("a")

    assert text == (
        "prepare dynamic resources: old ResourceClaim with same name a and different UID old-uid "
        "still exists (previous pod force-deleted?!)"
    )


async def test_a_template_claim_must_be_the_pods_own(make):
    """A claim from a template that belongs to another pod is refused; one not made yet is waited for."""
    node = make()
    await node.claim("made", "p", owner="someone")
    asked = pod(templates=["t"])
    with pytest.raises(DeviceError, match="ResourceClaim not created yet"):
        await node.manager.prepare(asked)
    asked["status"]["resourceClaimStatuses"] = [{"name": "t", "resourceClaimName": "made"}]
    with pytest.raises(DeviceError, match=r"was not created for pod default/pod \(pod is not owner\)"):
        await node.manager.prepare(asked)
    asked["status"]["resourceClaimStatuses"] = [{"name": "t"}]
    await node.manager.prepare(asked)

    assert node.store.writes == 0


ANSWERS = {
    "failed": (ClaimFailed("broken"), "NodePrepareResources failed for ResourceClaim a: broken"),
    "skipped": ("skip", "NodePrepareResources skipped 1 ResourceClaims"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_drivers_refusal_is_reported_and_the_use_remembered(make, case):
    """After the driver was called the claim stays in the checkpoint, to be unprepared later."""
    node = make()
    await node.claim("a", "p")
    answer, text = ANSWERS[case]
    node.plugin.answer = lambda claim: answer

    assert await node.prepare_error("a") == f"prepare dynamic resources: {text}"
    assert node.store.users() == {"a": {"p"}}


async def test_a_broken_connection_and_unknown_answers_are_reported(make):
    """Failures of the call as a whole, and answers for claims nobody asked about."""
    node = make()
    await node.claim("a", "p")
    node.plugin.failure = PluginError("connection refused")
    assert await node.prepare_error("a") == (
        "prepare dynamic resources: NodePrepareResources: connection refused"
    )
    node.plugin.failure, node.plugin.extra = None, {"strange": []}
    assert await node.prepare_error("a") == (
        "prepare dynamic resources: NodePrepareResources returned result for unknown claim UID strange"
    )


@pytest.mark.parametrize(("minor", "failed"), [(31, "true"), (33, "false"), (34, "false"), (36, "true")])
async def test_operations_are_measured(make, minor, failed):
    """dra_operations_duration_seconds shows operation and outcome, from 1.32 to 1.35 the wrong way round."""
    node = make(minor)
    await node.claim("a", "p")
    await node.manager.prepare(pod("a"))
    await node.manager.prepare(pod("a"))
    await node.prepare_error("missing")
    registry = node.metrics.dra_operations_duration

    counts = {
        (sample.labels["operation_name"], sample.labels["is_error"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    }
    assert counts == {("PrepareResources", "false"): 2, ("PrepareResources", "true"): 1} | (
        {} if failed == "true" else {("PrepareResources", "false"): 1, ("PrepareResources", "true"): 2}
    )


@pytest.mark.parametrize("gate", [True, False])
async def test_a_group_shares_its_claim(make, gate):
    """A claim of the pod's group, reserved for the group, is as good as the pod's own; with the gate."""
    node = make(gates={"DRAWorkloadResourceClaims": gate, "GenericWorkload": True})
    group = {"kind": "PodGroup", "name": "g", "uid": "x", "controller": True}
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}
    results = [{"driver": DRIVER, "request": "req"}]
    claim = {
        "metadata": {"name": "a", "namespace": "default", "ownerReferences": [group]},
        "status": {"reservedFor": [user], "allocation": {"devices": {"results": results}}},
    }
    await node.client.create(node.refs.claims, claim)
    asked = pod(templates=("of-group",))
    asked["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    asked["status"] = {"resourceClaimStatuses": [{"name": "of-group", "resourceClaimName": "a"}]}
    if gate:
        await node.manager.prepare(asked)
        assert node.plugin.prepare_calls == [["a"]]
    else:
        with pytest.raises(DeviceError, match="pod is not owner"):
            await node.manager.prepare(asked)


async def skipping_claim(node, name, *operations):
    results = [{"driver": DRIVER, "request": "req", "skipNodeOperations": list(operations)}]
    user = {"resource": "pods", "name": "p", "uid": "p"}
    claim = {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"reservedFor": [user], "allocation": {"devices": {"results": results}}},
    }
    await node.client.create(node.refs.claims, claim)


SKIPS = {"DRAOptionalNodeOperations": True}


@pytest.mark.parametrize(
    ("operations", "prepares", "unprepares"),
    [(("*",), 0, 0), (("NodeUnprepareResources",), 1, 0), ((), 1, 1), (("SomethingElse",), 1, 1)],
)
async def test_a_driver_is_not_called_for_what_its_devices_do_without(make, operations, prepares, unprepares):
    """With the gate, one without anything on the node need not even be registered."""
    node = make(37, gates=SKIPS)
    await skipping_claim(node, "a", *operations)
    if not prepares:
        node.plugins.deregister(node.plugin)
    await node.manager.prepare(pod("a"))
    await node.manager.unprepare(pod("a"))
    assert (len(node.plugin.prepare_calls), len(node.plugin.unprepare_calls)) == (prepares, unprepares)
    assert node.store.users() == {}


@pytest.mark.parametrize(("minor", "refused"), [(37, True), (36, False)])
async def test_without_the_gate_such_a_claim_is_refused(make, minor, refused):
    """By kubelets that know the field; older ones call the driver."""
    node = make(minor)
    await skipping_claim(node, "a", "*")
    if refused:
        assert await node.prepare_error("a") == (
            "prepare dynamic resources: ResourceClaim a: "
            "DRAOptionalNodeOperations feature gate is disabled on kubelet"
        )
    else:
        await node.manager.prepare(pod("a"))
        assert node.plugin.prepare_calls == [["a"]]


async def test_only_prepared_claims_count_as_in_use(make):
    """By driver and in all; after a restart those of running pods count again once they are asked for."""
    node = make()
    await node.claim("a", "p")
    await node.claim("b", "p")
    await node.manager.prepare(pod("a"))
    node.plugin.failure = PluginError("connection refused")
    await node.prepare_error("b")
    counts = {
        sample.labels["driver_name"]: sample.value
        for metric in node.metrics._claims_in_use.collect()
        for sample in metric.samples
    }
    assert counts == {DRIVER: 1, "<any>": 1}


@pytest.mark.parametrize(
    ("version", "inverted"),
    [
        ("1.33", ("PrepareResources",)),
        ("1.34", ("PrepareResources", "UnprepareResources")),
        ("1.35", ("PrepareResources", "UnprepareResources")),
        ("1.36", ()),
    ],
)
async def test_operations_that_are_counted_the_wrong_way_round(version, inverted):
    """Up to 1.33 preparing alone, then both, none since 1.36 (135227)."""
    parsed = Version.parse(version)

    assert KubeletFeatures.of(FeatureGates(parsed)).dra_faults.inverts_errors == inverted
