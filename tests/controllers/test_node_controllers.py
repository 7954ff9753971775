"""Silent nodes, their taints, and the pods that leave them; in virtual time."""

import asyncio

import pytest

from kubeskew.apimachinery.client.refs import EVENTS, LEASES, NODES, PODS
from kubeskew.apimachinery.clock import micro_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.nodelifecycle import health
from kubeskew.controllers.nodelifecycle.eviction import TaintEvictionController
from kubeskew.controllers.nodelifecycle.health import NodeLifecycleController
from kubeskew.controllers.nodettl import ANNOTATION, NodeTTLController
from kubeskew.controllers.podgc import PodGarbageCollector

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

NOW = "2026-01-01T00:00:00Z"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def node(name="n", ready="True", **spec):
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "conditions": [
                {"type": "Ready", "status": ready, "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}
            ]
        },
    }


def pod(name="p", *tolerations, node_name="n"):
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"nodeName": node_name, "tolerations": list(tolerations)},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}],
        },
    }


async def renew(cluster, name):
    """The node's kubelet reports that it is well."""
    heartbeat = {"lastHeartbeatTime": timestamp(cluster.environment.clock.now())}
    found = await cluster.client.get(NODES, name)
    (ready,) = (condition for condition in found["status"]["conditions"] if condition["type"] == "Ready")
    status = {"conditions": [{**ready, **heartbeat, "status": "True"}]}
    await cluster.client.update(NODES, {**found, "status": status}, "status")


def keys(found):
    return {(taint["key"], taint["effect"]) for taint in found["spec"].get("taints") or ()}


def taint(key, effect="NoExecute"):
    return {"key": key, "effect": effect}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(node(), set(), id="ready"),
        pytest.param(
            node(ready="False"), {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}, id="not-ready"
        ),
        pytest.param(
            node(ready="Unknown"), {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}, id="unknown"
        ),
        pytest.param(
            node(unschedulable=True), {("node.kubernetes.io/unschedulable", "NoSchedule")}, id="cordoned"
        ),
        pytest.param(
            node(taints=[taint(NOT_READY, "NoSchedule"), taint("mine")]),
            {("mine", "NoExecute")},
            id="recovered",
        ),
        pytest.param(
            node(taints=[taint(NOT_READY, "PreferNoSchedule")]),
            {(NOT_READY, "PreferNoSchedule")},
            id="by-hand",
        ),
    ],
)
async def test_taints_follow_conditions(found, expected):
    """Ours come and go with the conditions, others' stay."""
    wanted = health.wanted_taints(found, NOW)

    assert {(one["key"], one["effect"]) for one in wanted} == expected
    assert health.wanted_taints({**found, "spec": {**found["spec"], "taints": wanted}}, "later") == wanted


@pytest.mark.parametrize(
    ("tolerations", "left"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([{"key": "a", "operator": "Exists"}], None, id="for-ever"),
        pytest.param([{"key": "a", "operator": "Exists", "tolerationSeconds": 30}], 30, id="for-a-while"),
        pytest.param([{"key": "a", "operator": "Exists", "tolerationSeconds": -1}], 0, id="negative"),
        pytest.param([{"operator": "Exists"}], None, id="everything"),
        pytest.param([{"key": "a", "value": "x"}], 0, id="other-value"),
        pytest.param([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], 0, id="other-effect"),
    ],
)
async def test_tolerations_limit_the_stay(tolerations, left):
    """Zero, some or infinite seconds."""
    assert health.seconds_left(pod("p", *tolerations), [taint("a")]) == left


@pytest.mark.parametrize(("minor", "grace"), [(31, 40), (36, 50)])
async def test_a_silent_node_becomes_unknown(make_cluster, minor, grace):
    """After the release's grace period: conditions Unknown, taints unreachable, its pods not ready."""
    cluster = make_cluster(Version(minor))
    await cluster.client.create(NODES, node())
    await cluster.client.create(NODES, node(name="other"))
    await cluster.client.create(PODS, pod())
    await cluster.start(NodeLifecycleController)
    await asyncio.sleep(grace - 5)
    await renew(cluster, "other")

    assert keys(await cluster.client.get(NODES, "n")) == set()

    await asyncio.sleep(15)
    found = await cluster.client.get(NODES, "n")
    ready = find_condition(found, "Ready")

    assert (ready["status"], ready["reason"], ready["message"]) == (
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert find_condition(found, "MemoryPressure")["reason"] == "NodeStatusNeverUpdated"
    assert keys(found) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert find_condition(await cluster.client.get(PODS, "p", "ns"), "Ready")["status"] == "False"


async def test_pods_of_a_node_that_returned_are_not_marked(cluster):
    """A pod that could not be marked as not ready during its node's silence stays ready afterwards."""
    await cluster.client.create(NODES, node())
    await cluster.client.create(PODS, pod())
    await cluster.start(NodeLifecycleController)
    conflict = StatusError(409, "Conflict", "changed")
    cluster.server.outage = lambda request: conflict if "/pods/p/status" in request.target else None
    await asyncio.sleep(72)

    assert find_condition(await cluster.client.get(NODES, "n"), "Ready")["status"] == "Unknown"

    await renew(cluster, "n")
    cluster.server.outage = None
    await asyncio.sleep(6)

    assert find_condition(await cluster.client.get(PODS, "p", "ns"), "Ready")["status"] == "True"


async def test_nobody_is_evicted_while_no_node_is_ready(cluster):
    """No node is tainted NoExecute while none is ready; once one returns, the others are tainted."""
    for name in ("n", "other"):
        await cluster.client.create(NODES, node(name=name))
    await cluster.start(NodeLifecycleController)
    await asyncio.sleep(70)

    assert keys(await cluster.client.get(NODES, "n")) == {(UNREACHABLE, "NoSchedule")}

    await renew(cluster, "other")
    await asyncio.sleep(6)

    assert keys(await cluster.client.get(NODES, "n")) == {
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
    }


async def test_a_kubelet_that_reports_itself_not_ready_keeps_its_pods_conditions(cluster):
    """Only the pods of a node that fell silent are marked."""
    await cluster.client.create(NODES, node())
    await cluster.client.create(PODS, pod())
    await cluster.start(NodeLifecycleController)
    found = await cluster.client.get(NODES, "n")
    await cluster.client.update(NODES, {**found, "status": node(ready="False")["status"]}, "status")
    await asyncio.sleep(6)

    assert keys(await cluster.client.get(NODES, "n")) == {(NOT_READY, "NoSchedule")}
    assert find_condition(await cluster.client.get(PODS, "p", "ns"), "Ready")["status"] == "True"


async def test_coming_and_going_nodes_are_reported(cluster):
    """RegisteredNode when the controller first sees a node, RemovingNode when it is gone."""
    await cluster.client.create(NODES, node())
    await cluster.start(NodeLifecycleController)
    await asyncio.sleep(6)
    await cluster.client.delete(NODES, "n")
    await asyncio.sleep(6)
    events = (await cluster.client.list(EVENTS))["items"]

    assert [(event["reason"], event["message"]) for event in events] == [
        ("RegisteredNode", "Node n event: Registered Node n in Controller"),
        ("RemovingNode", "Node n event: Removing Node n from Controller"),
    ]
    assert {event["source"]["component"] for event in events} == {"node-controller"}


async def test_a_lease_keeps_a_node_alive(cluster):
    """Renewing the lease is enough, and a node that returns loses its taints."""
    await cluster.client.create(NODES, node())
    lease = await cluster.client.create(
        LEASES, {"metadata": {"name": "n", "namespace": "kube-node-lease"}, "spec": {}}
    )
    await cluster.start(NodeLifecycleController)
    for _ in range(12):
        await asyncio.sleep(10)
        lease["spec"] = {"renewTime": micro_timestamp(cluster.environment.clock.now())}
        lease = await cluster.client.update(LEASES, lease)

    assert keys(await cluster.client.get(NODES, "n")) == set()

    await asyncio.sleep(70)
    found = await cluster.client.get(NODES, "n")

    assert keys(found) == {(UNREACHABLE, "NoSchedule")}

    await cluster.client.update(NODES, {**found, "status": node()["status"]}, "status")
    await cluster.quiet()

    assert keys(await cluster.client.get(NODES, "n")) == set()


async def remaining(cluster):
    return sorted(obj["metadata"]["name"] for obj in (await cluster.client.list(PODS, "ns"))["items"])


async def test_pods_leave_a_tainted_node_when_their_time_is_up(cluster):
    """At once, after tolerationSeconds, or never."""
    patient = {"key": "gone", "operator": "Exists", "tolerationSeconds": 60}
    await cluster.client.create(NODES, node())
    await cluster.client.create(PODS, pod("at-once"))
    await cluster.client.create(PODS, pod("later", patient))
    await cluster.client.create(PODS, pod("never", {"operator": "Exists"}))
    await cluster.start(TaintEvictionController)
    await cluster.client.patch(NODES, "n", "", {"spec": {"taints": [taint("gone")]}})
    await asyncio.sleep(1)

    assert await remaining(cluster) == ["later", "never"]

    await asyncio.sleep(60)

    assert await remaining(cluster) == ["never"]

    events = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert {(event["reason"], event["message"]) for event in events} == {
        ("TaintManagerEviction", "Marking for deletion Pod ns/at-once"),
        ("TaintManagerEviction", "Marking for deletion Pod ns/later"),
    }


@pytest.mark.parametrize(("version", "observed"), [("1.33", None), ("1.34", 1)])
async def test_the_condition_of_an_evicted_pod_has_its_generation(make_cluster, version, observed):
    """With PodObservedGenerationTracking DisruptionTarget says which generation of the pod it is about."""
    cluster = make_cluster(Version.parse(version))
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.client.create(NODES, node(taints=[taint("gone")]))
    await cluster.client.create(PODS, held)
    await cluster.start(TaintEvictionController)
    await asyncio.sleep(1)

    condition = find_condition(await cluster.client.get(PODS, "held", "ns"), "DisruptionTarget")
    assert condition["reason"] == "DeletionByTaintManager"
    assert condition.get("observedGeneration") == observed


async def test_a_pod_that_is_being_deleted_is_evicted_too(cluster):
    """A taint marks it, once, whatever else changes."""
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.client.create(NODES, node())
    await cluster.client.create(PODS, held)
    await cluster.client.delete(PODS, "held", "ns")
    await cluster.start(TaintEvictionController)
    await cluster.client.patch(NODES, "n", "", {"spec": {"taints": [taint("gone")]}})
    await asyncio.sleep(1)
    await cluster.client.patch(PODS, "held", "ns", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(1)

    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]
    assert (event["message"], event["count"]) == ("Marking for deletion Pod ns/held", 1)
    assert find_condition(await cluster.client.get(PODS, "held", "ns"), "DisruptionTarget") is not None


async def test_a_taint_that_goes_in_time_saves_the_pods(cluster):
    """The deletion that was due is cancelled, and an event says so."""
    patient = {"key": "gone", "operator": "Exists", "tolerationSeconds": 60}
    await cluster.client.create(NODES, node(taints=[taint("gone")]))
    await cluster.client.create(PODS, pod("later", patient))
    await cluster.start(TaintEvictionController)
    await asyncio.sleep(30)
    await cluster.client.patch(NODES, "n", "", {"spec": {"taints": None}})
    await asyncio.sleep(60)
    (event,) = (await cluster.client.list(EVENTS, "ns"))["items"]

    assert await remaining(cluster) == ["later"]
    assert event["message"] == "Cancelling deletion of Pod ns/later"


@pytest.mark.parametrize(
    ("node_name", "ready", "tainted", "collected"),
    [
        ("", "True", False, True),
        ("n", "False", True, True),
        ("n", "True", True, False),
        ("n", "False", False, False),
    ],
)
async def test_pods_that_nobody_would_end_are_collected(cluster, node_name, ready, tainted, collected):
    """A pod that is being deleted is marked failed if it has no node, or one that is out of service."""
    taints = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}] if tainted else []
    held = pod("held", node_name=node_name)
    held["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.client.create(NODES, node(ready=ready, taints=taints))
    await cluster.client.create(PODS, held)
    await cluster.client.delete(PODS, "held", "ns")
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(30)

    status = (await cluster.client.get(PODS, "held", "ns"))["status"]
    assert (status.get("phase") == "Failed") is collected


async def test_pods_of_a_deleted_node_are_collected_after_the_quarantine(cluster):
    """Marked failed and removed, but not while the node may come back."""
    await cluster.client.create(NODES, node())
    await cluster.client.create(PODS, pod("stays"))
    await cluster.client.create(PODS, pod("goes", node_name="gone"))
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(30)

    assert await remaining(cluster) == ["goes", "stays"]

    await asyncio.sleep(35)

    assert await remaining(cluster) == ["stays"]


@pytest.mark.parametrize(("version", "marked"), [("1.26.0", True), ("1.26.2", False), ("1.36", False)])
async def test_a_pod_that_has_ended_is_collected_as_it_is(make_cluster, version, marked):
    """A node that goes disrupts no pod that has ended; controllers with bug 115056 say so all the same."""
    cluster = make_cluster(Version.parse(version))
    ended = pod("ended", node_name="gone")
    ended["status"]["phase"] = "Succeeded"
    ended["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.client.create(PODS, ended)
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(70)

    left = await cluster.client.get(PODS, "ended", "ns")
    kinds = [condition["type"] for condition in left["status"]["conditions"]]
    assert left["metadata"]["deletionTimestamp"]
    assert left["status"]["phase"] == "Succeeded"
    assert ("DisruptionTarget" in kinds) is marked


async def test_a_pod_that_stays_is_collected_again_after_another_quarantine(cluster):
    """A node that is gone is looked up again when it has been missing for 40 seconds more."""
    held = pod("held", node_name="gone")
    held["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.client.create(PODS, held)
    deletions = []

    def note(request):
        if request.method == "DELETE":
            deletions.append(asyncio.get_running_loop().time())

    cluster.server.outage = note
    began = asyncio.get_running_loop().time()
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(130)

    assert [round(time - began) for time in deletions] == [40, 80, 120]


async def test_a_node_unknown_to_the_informer_is_looked_up(cluster):
    """The server has the last word before a pod is removed."""
    await cluster.client.create(PODS, pod("p", node_name="late"))
    lookups = []

    def hide(request):
        if request.target.endswith("/nodes/late"):
            lookups.append(request)
        return StatusError(500, "InternalError", "no") if lookups and request.method == "DELETE" else None

    cluster.server.outage = hide
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(70)

    assert lookups


async def test_nodes_learn_how_long_secrets_may_be_kept(cluster):
    """Not at all in a small cluster, a quarter of a minute beyond a hundred nodes, at their next change."""
    for number in range(100):
        await cluster.client.create(NODES, node(f"n{number}"))
    await cluster.start(NodeTTLController)

    async def ttl_is(seconds):
        items = (await cluster.client.list(NODES))["items"]
        found = {(item["metadata"].get("annotations") or {}).get(ANNOTATION) for item in items}
        return found == {seconds}

    await cluster.until(lambda: ttl_is("0"))
    await cluster.client.create(NODES, node("n100"))
    for number in range(100):
        body = {"metadata": {"labels": {"seen": "1"}}}
        await cluster.client.patch(NODES, f"n{number}", "", body)
    await cluster.until(lambda: ttl_is("15"))


@pytest.mark.parametrize(
    ("version", "content_type"),
    [
        ("1.28.3", "application/apply-patch+yaml"),
        ("1.28.4", "application/strategic-merge-patch+json"),
    ],
)
async def test_the_end_of_a_collected_pod_is_applied_up_to_a_patch_release(
    make_cluster, version, content_type
):
    """The garbage collector of 1.28.3 applies phase and condition, that of 1.28.4 patches them."""
    cluster = make_cluster(Version.parse(version))
    written = []

    def note(request):
        if "/pods/goes/status" in request.target:
            written.append(request.headers["Content-Type"])

    cluster.server.outage = note
    await cluster.client.create(PODS, pod("goes", node_name="gone"))
    await cluster.start(PodGarbageCollector)
    await asyncio.sleep(65)

    assert written[:1] == [content_type]
