"""Pods are evicted when their devices get a taint that they do not tolerate, and taint rules report it."""

import pytest
from prometheus_client import generate_latest

from kubeskew.apimachinery.client.refs import EVENTS, PODS, dra_refs, taint_rules_ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.devicetaints.controller import DeviceTaintEvictionController
from kubeskew.controllers.devicetaints.evictions import Counts, condition_of, eviction_time

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

V36 = Version(36)
REFS, RULES = dra_refs(V36), taint_rules_ref(V36)
GATES = {"DRADeviceTaintRules": True}
START = "2026-01-01T00:00:00Z"
TAINT = {"key": "broken", "effect": "NoExecute", "timeAdded": START}
ONE_POD = "1 pod needs to be evicted in 1 namespace."


def slice_(*taints, generation=1, name="s"):
    device = {"name": "gpu-0", "taints": list(taints)} if taints else {"name": "gpu-0"}
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": "d", "pool": pool, "devices": [device]}}


def rule(effect="NoExecute", name="rule", selector=None):
    taint = {**TAINT, "effect": effect}
    spec = {"deviceSelector": {"driver": "d"} if selector is None else selector, "taint": taint}
    return {"metadata": {"name": name, "generation": 1}, "spec": spec}


async def add_user(cluster, *tolerations, refs=REFS, name="p", extended=False):
    """A running pod with an allocated claim, that of its extended resources if it has them."""
    pod = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"nodeName": "n", "resourceClaims": [{"name": "c", "resourceClaimName": name}]},
    }
    if extended:
        pod["spec"].pop("resourceClaims")
        pod["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": name}}
    made = await cluster.client.create(PODS, pod)
    result = {"request": "r", "driver": "d", "pool": "pool", "device": "gpu-0", "tolerations": [*tolerations]}
    user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    claim = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]},
    }
    if extended:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
        claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await cluster.client.create(refs.claims, claim)
    return made


async def is_gone(cluster, name="p"):
    try:
        await cluster.client.get(PODS, name, "ns")
    except StatusError as error:
        return error.code == 404
    return False


async def condition(cluster, name="rule", ref=RULES):
    found = await cluster.client.get(ref, name)
    return next(iter((found.get("status") or {}).get("conditions") or ()), None)


async def messages(cluster):
    return [obj["message"] for obj in (await cluster.client.list(EVENTS, "ns"))["items"]]


async def test_a_taint_of_a_slice_evicts(make_cluster):
    """With a condition, an event and metrics."""
    cluster = make_cluster(V36)
    await add_user(cluster)
    await cluster.client.create(REFS.slices, slice_())
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()
    assert not await is_gone(cluster)
    marked = []
    current = await cluster.client.get(REFS.slices, "s")
    await cluster.client.update(REFS.slices, {**current, "spec": slice_(TAINT)["spec"]})
    async for kind, pod in cluster.client.watch(PODS, resource_version="0"):
        marked = pod.get("status", {}).get("conditions") or marked
        if kind == "DELETED":
            break
    await cluster.quiet()

    assert {**marked[0], "lastTransitionTime": ""} == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": "",
    }
    assert await messages(cluster) == ["Marking for deletion"]
    text = generate_latest(cluster.context.registry).decode()
    assert "device_taint_eviction_controller_pod_deletions_total 1.0" in text
    assert "device_taint_eviction_controller_pod_deletion_duration_seconds_count 1.0" in text


@pytest.mark.parametrize(("version", "events"), [(Version(34), 1), (Version(35), 2)])
async def test_events_of_several_pods(make_cluster, version, events):
    """Each pod that is evicted gets an event; up to 1.34 only the first of a controller does."""
    cluster, refs = make_cluster(version), dra_refs(version)
    await add_user(cluster, refs=refs)
    await add_user(cluster, refs=refs, name="q")
    await cluster.client.create(refs.slices, slice_(TAINT))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()

    assert await is_gone(cluster, "p")
    assert await is_gone(cluster, "q")
    assert await messages(cluster) == ["Marking for deletion"] * events


@pytest.mark.parametrize("bug", [True, False])
async def test_a_pod_with_extended_resources_is_evicted(make_cluster, bug):
    """Its claim stands in its status alone, where it is overlooked up to 1.37 (142289)."""
    cluster = make_cluster(V36, bugs={"k8s-142289": bug})
    await add_user(cluster, extended=True)
    await cluster.client.create(REFS.slices, slice_(TAINT))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()

    assert await is_gone(cluster) is not bug


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0),
        ([{"operator": "Exists", "effect": "NoExecute"}], None),
        ([{"operator": "Exists"}], 0),
        ([{"key": "other", "operator": "Exists", "effect": "NoExecute"}], 0),
        ([{"key": "broken", "effect": "NoExecute", "tolerationSeconds": 60}], 60),
        ([{"key": "broken", "effect": "NoExecute", "tolerationSeconds": -1}], 0),
        (
            [
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
                {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
            ],
            30,
        ),
    ],
)
async def test_tolerations(tolerations, seconds):
    """Upstream wants the effect named; of several patiences the shortest counts."""
    when = eviction_time(TAINT, tolerations)
    added = eviction_time(TAINT, [])
    assert (None if when is None else (when - added).total_seconds()) == seconds


async def test_eviction_waits_and_may_be_called_off(make_cluster):
    """A tolerated taint evicts only after the tolerated seconds, and a taint removed in time never."""
    cluster = make_cluster(V36)
    patient = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
    await add_user(cluster, patient)
    made = await cluster.client.create(REFS.slices, slice_(TAINT))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet(50)
    assert not await is_gone(cluster)
    await cluster.client.update(REFS.slices, {**made, "spec": slice_()["spec"]})
    await cluster.quiet(100)
    assert not await is_gone(cluster)
    assert await messages(cluster) == ["Cancelling deletion"]


async def test_only_the_newest_generation_counts(make_cluster):
    """An older slice of the pool with a taint is out of date."""
    cluster = make_cluster(V36)
    await add_user(cluster)
    await cluster.client.create(REFS.slices, slice_(TAINT))
    await cluster.client.create(REFS.slices, slice_(generation=2, name="t"))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()
    assert not await is_gone(cluster)
    await cluster.client.delete(REFS.slices, "t")
    await cluster.until(lambda: is_gone(cluster))


async def test_rules_evict_and_say_so(make_cluster):
    """The status says first what is to come, then what was done; it is written at most every ten seconds."""
    cluster = make_cluster(V36, gates=GATES)
    patient = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    await add_user(cluster, patient)
    await cluster.start(DeviceTaintEvictionController)
    await cluster.client.create(RULES, rule())
    first = await cluster.until(lambda: condition(cluster))

    assert (first["type"], first["status"], first["reason"]) == (
        "EvictionInProgress", "True", "PodsPendingEviction"
    )  # fmt: skip
    assert first["message"] == ONE_POD
    assert first["observedGeneration"] == 1

    await cluster.until(lambda: is_gone(cluster))
    await cluster.quiet(25)
    last = await condition(cluster)

    assert (last["status"], last["reason"]) == ("False", "Completed")
    assert last["message"] == "1 pod evicted since starting the controller."


async def test_without_its_gate_a_rule_does_nothing(make_cluster):
    """Without its gate a rule neither evicts nor gets a status."""
    cluster = make_cluster(V36)
    await add_user(cluster)
    await cluster.client.create(RULES, rule())
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet(30)
    assert not await is_gone(cluster)
    assert await condition(cluster) is None


async def test_the_effect_none_only_reports(make_cluster):
    """A rule with the effect None evicts nothing but reports the evictions that NoExecute would cause."""
    cluster = make_cluster(V36, gates=GATES)
    await add_user(cluster)
    await cluster.client.create(REFS.slices, slice_())
    await cluster.start(DeviceTaintEvictionController)
    await cluster.client.create(RULES, rule("None"))
    found = await cluster.until(lambda: condition(cluster))

    assert (found["status"], found["reason"]) == ("False", "NoEffect")
    assert found["message"] == (
        "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if "
        "the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule "
        "to trigger an update."
    )
    assert not await is_gone(cluster)


@pytest.mark.parametrize(
    ("effect", "counts", "wanted"),
    [
        ("NoSchedule", Counts(), ("OtherEffect", "Eviction only happens for the NoExecute effect.")),
        ("NoExecute", Counts(), ("NotStarted", "")),
        (
            "NoExecute",
            Counts(pods=3, namespaces=2, evicted=2),
            (
                "PodsPendingEviction",
                (
                    "3 pods need to be evicted in 2 different namespaces. 2 pods evicted since starting the "
                    "controller."
                ),
            ),
        ),
    ],
)
async def test_what_conditions_say(effect, counts, wanted):
    """Per effect, and in the plural."""
    found = condition_of(rule(effect), counts)
    assert (found["reason"], found["message"]) == wanted


async def test_rules_of_older_minors_have_classes_and_selectors(make_cluster):
    """1.34: the rule counts for published devices that class and expressions select; it has no status."""
    v34 = Version(34)
    refs, ref = dra_refs(v34), taint_rules_ref(v34)
    cluster = make_cluster(v34, gates={"DRADeviceTaints": True})
    await add_user(cluster, refs=refs)
    await cluster.client.create(refs.slices, slice_())
    selector = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
    await cluster.client.create(ref, rule(selector=selector))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()
    assert not await is_gone(cluster)
    expression = {"cel": {"expression": "device.driver.startsWith('d')"}}
    spec = {"selectors": [expression]}
    await cluster.client.create(refs.device_classes, {"metadata": {"name": "gpu"}, "spec": spec})
    await cluster.until(lambda: is_gone(cluster))
    assert await condition(cluster, ref=ref) is None


@pytest.mark.parametrize(("minor", "evicted"), [(34, True), (35, False)])
async def test_a_rule_without_a_selector(make_cluster, minor, evicted):
    """Until 1.34 it selects every published device, since then none."""
    version = Version(minor)
    refs, gates = dra_refs(version), {"DRADeviceTaints": True} | (GATES if minor >= 35 else {})
    cluster = make_cluster(version, gates=gates)
    await add_user(cluster, refs=refs)
    await cluster.client.create(refs.slices, slice_())
    bare = rule()
    del bare["spec"]["deviceSelector"]
    await cluster.client.create(taint_rules_ref(version), bare)
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet()
    assert await is_gone(cluster) == evicted


async def test_a_pod_that_was_replaced_stays(make_cluster):
    """The eviction is meant for one pod, not for its name; a claim reserved for another is not its own."""
    cluster = make_cluster(V36)
    made = await add_user(cluster)
    await cluster.client.delete(PODS, "p", "ns")
    again = {**made, "metadata": {"name": "p", "namespace": "ns"}}
    await cluster.client.create(PODS, again)
    await cluster.client.create(REFS.slices, slice_(TAINT))
    await cluster.start(DeviceTaintEvictionController)
    await cluster.quiet(20)
    assert not await is_gone(cluster)


@pytest.mark.parametrize("generated", [False, True])
async def test_pods_of_a_group_that_holds_the_claim(make_cluster, generated):
    """With the gate of workloads' claims the whole group goes, also if its claim was made for the group."""
    gates = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True}
    cluster = make_cluster(V36, gates=gates)
    made = await add_user(cluster)
    spec = {**made["spec"], "schedulingGroup": {"podGroupName": "g"}}
    claim = await cluster.client.get(REFS.claims, "p", "ns")
    if generated:
        spec["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
        made["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "p"}]}
        owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "x"}
        claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        claim = await cluster.client.update(REFS.claims, claim)
    await cluster.client.update(PODS, {**made, "spec": spec})
    claim["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}
    ]
    await cluster.client.update(REFS.claims, claim, "status")
    await cluster.start(DeviceTaintEvictionController)
    await cluster.client.create(REFS.slices, slice_(TAINT))
    await cluster.until(lambda: is_gone(cluster))
