"""Daemon sets: one pod per node, rolling over, with and without surge; in virtual time."""

import copy

import pytest
from workloads import events_of, pods_by_name, template, workload

from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.daemonset import controller
from kubeskew.controllers.daemonset.controller import DaemonSetController, PodClassifier, limits

NOW = parse_timestamp("2026-01-01T00:10:00Z")


def daemon_set(rolling=None, **spec):
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1, "maxSurge": 0}}
    made = workload(DAEMON_SETS, "agent", **{"updateStrategy": strategy, **spec})
    made["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1"}
    return made


def node(name, *, taints=(), **labels):
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}, "status": {}}


def pod(name, text, *, ready=True, node_name="n1", created="2026-01-01T00:00:00Z", deleted=False):
    status = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:01:00Z"}
    metadata = {"name": name, "labels": {"controller-revision-hash": text}, "creationTimestamp": created}
    if deleted:
        metadata["deletionTimestamp"] = created
    return {
        "metadata": metadata,
        "spec": {"nodeName": node_name},
        "status": {"phase": "Running", "conditions": [status]},
    }


def names(found):
    return [one["metadata"]["name"] for one in found]


TAINT = {"key": "k", "value": "v"}


@pytest.mark.parametrize(
    ("spec", "on", "expected"),
    [
        ({}, node("a"), (True, True)),
        ({"nodeName": "b"}, node("a"), (False, False)),
        ({"nodeSelector": {"disk": "ssd"}}, node("a"), (False, False)),
        ({"nodeSelector": {"disk": "ssd"}}, node("a", disk="ssd"), (True, True)),
        ({}, node("a", taints=[{**TAINT, "effect": "NoSchedule"}]), (False, True)),
        ({}, node("a", taints=[{**TAINT, "effect": "NoExecute"}]), (False, False)),
        ({}, node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), (True, True)),
        (
            {"tolerations": [{"operator": "Exists"}]},
            node("a", taints=[{**TAINT, "effect": "NoExecute"}]),
            (True, True),
        ),
        (
            {},
            node("a", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            (True, True),
        ),
        (
            {},
            node("a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
            (True, True),
        ),
        (
            {},
            node("a", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
            (False, True),
        ),
    ],
)
def test_where_a_daemon_belongs(spec, on, expected):
    """The node's name, labels and taints decide whether a daemon may start there and may go on."""
    assert controller.belongs(daemon_set(template=template(**spec)), on) == expected


@pytest.mark.parametrize(
    ("rolling", "desired", "expected"),
    [
        ({"maxUnavailable": 1, "maxSurge": 0}, 10, (0, 1)),
        ({"maxUnavailable": "25%", "maxSurge": 0}, 10, (0, 3)),
        ({"maxUnavailable": 0, "maxSurge": "10%"}, 5, (1, 0)),
        ({"maxUnavailable": 0, "maxSurge": 0}, 5, (0, 1)),
    ],
)
def test_limits_are_shares_of_the_nodes(rolling, desired, expected):
    """Percentages round up; both zero means one."""
    assert limits(daemon_set(rolling), desired) == expected


@pytest.mark.parametrize(
    ("on_nodes", "limit", "expected"),
    [
        ({"a": [pod("o1", "old")], "b": [pod("o2", "old")]}, 1, ["o1"]),
        ({"a": [pod("o1", "old")], "b": [pod("n", "new", ready=False)]}, 1, []),
        ({"a": [pod("o1", "old", ready=False)], "b": [pod("o2", "old")]}, 1, ["o1"]),
        ({"a": [pod("o1", "old", deleted=True)], "b": [pod("o2", "old")]}, 2, ["o2"]),
        ({"a": [pod("o1", "old"), pod("n1", "new")], "b": [pod("o2", "old")]}, 1, []),
        ({"a": [pod("n", "new")], "b": [pod("o2", "old")]}, 1, ["o2"]),
    ],
)
def test_what_is_replaced(on_nodes, limit, expected):
    """Pods that are not available go first and use up what may be missing."""
    assert names(PodClassifier(daemon_set(), "new", NOW).replace(on_nodes, limit).pods) == expected


@pytest.mark.parametrize(
    ("on_nodes", "nodes", "gone"),
    [
        ({"a": [pod("o1", "old")], "b": [pod("o2", "old")]}, ["a"], []),
        ({"a": [pod("o1", "old", ready=False)], "b": [pod("o2", "old")]}, ["a", "b"], []),
        ({"a": [pod("o1", "old"), pod("n1", "new", ready=False)], "b": [pod("o2", "old")]}, [], []),
        ({"a": [pod("o1", "old"), pod("n1", "new")], "b": [pod("o2", "old")]}, ["b"], ["o1"]),
        ({"a": [pod("o1", "old", ready=False), pod("n1", "new", ready=False)]}, [], []),
        ({"off": [pod("o1", "old")], "b": [pod("n2", "new")]}, [], ["o1"]),
        ({"off": [pod("o1", "old")], "b": [pod("n2", "new", ready=False)]}, [], []),
        ({"off": [pod("o1", "old", ready=False)], "b": [pod("n2", "new")]}, [], ["o1"]),
    ],
)
def test_what_surges(on_nodes, nodes, gone):
    """New pods next to available old ones, up to the limit; the old one goes when the new is available."""
    classifier = PodClassifier(daemon_set({"maxSurge": 1, "maxUnavailable": 0}), "new", NOW)
    plan = classifier.surge(on_nodes, 1, lambda node: node != "off", sum(node != "off" for node in on_nodes))

    assert (plan.nodes, names(plan.pods)) == (nodes, gone)


@pytest.mark.parametrize(
    ("rolling", "running", "expected"),
    [
        (None, [pod("b", "new", created="2026-01-01T00:00:02Z"), pod("a", "new")], ["b"]),
        ({"maxSurge": 1}, [pod("o", "old"), pod("n", "new", ready=False)], []),
        ({"maxSurge": 1}, [pod("o", "old", ready=False), pod("n", "new", ready=False)], ["o"]),
        ({"maxSurge": 1}, [pod("o", "old"), pod("n", "new"), pod("n2", "new")], ["n2", "o"]),
    ],
)
def test_which_of_several_pods_on_a_node_go(rolling, running, expected):
    """The oldest stays; with surge one of each template may stay for a while."""
    assert names(PodClassifier(daemon_set(rolling), "new", NOW).excess(running)) == expected


def test_a_pod_is_pinned_by_affinity():
    """The default scheduler places it; other terms of required affinity give way."""
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"x": 1}}}}
    made = controller.pinned_to(controller.pod_template(daemon_set(template=template(**spec)), "h"), "n1")

    assert controller.target_node(made) == "n1"
    assert made["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "h",
        "pod-template-generation": "1",
    }
    assert len(made["spec"]["tolerations"]) == 6


async def nodes_of(cluster):
    found = await pods_by_name(cluster)
    return sorted(controller.target_node(one) for one in found.values())


async def status_of(cluster):
    return (await cluster.client.get(DAEMON_SETS, "agent", "ns"))["status"]


@pytest.fixture
async def running(cluster):
    """Three nodes, and pods become ready."""
    for name in ("n1", "n2", "n3"):
        await cluster.client.create(NODES, node(name, disk="ssd"))
    await cluster.start(DaemonSetController)
    cluster.run_pods()
    return cluster


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_every_node_gets_a_pod(running):
    """New nodes too; nodes that no longer match lose theirs."""
    spec = {"nodeSelector": {"disk": "ssd"}}
    await running.client.create(DAEMON_SETS, daemon_set(template=template(**spec)))
    await running.quiet(1)
    await running.client.create(NODES, node("n4", disk="ssd"))
    await running.client.patch(NODES, "n1", "", {"metadata": {"labels": {"disk": "hdd"}}})
    await running.quiet(1)

    assert await nodes_of(running) == ["n2", "n3", "n4"]
    assert await status_of(running) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
        "numberUnavailable": 0,
        "observedGeneration": 1,
    }


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(("version", "misscheduled"), [("1.32", 1), ("1.33", 0)])
async def test_a_taint_that_evicts_nobody(make_cluster, version, misscheduled):
    """From 1.33 a set takes no notice of a taint that its running pod may stay with, until its next sync."""
    cluster = make_cluster(Version.parse(version))
    await cluster.client.create(NODES, node("n1"))
    await cluster.start(DaemonSetController)
    cluster.run_pods()
    await cluster.client.create(DAEMON_SETS, daemon_set())
    await cluster.quiet(1)
    (made,) = (await cluster.client.list(PODS, "ns"))["items"]
    made["spec"]["nodeName"] = "n1"
    await cluster.client.update(PODS, made)
    await cluster.quiet(1)
    taint = {"key": "bad", "effect": "NoSchedule"}
    await cluster.client.patch(NODES, "n1", "", {"spec": {"taints": [taint]}})
    await cluster.quiet(1)

    assert (await status_of(cluster))["numberMisscheduled"] == misscheduled


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    "rolling", [{"maxUnavailable": 1, "maxSurge": 0}, {"maxUnavailable": 0, "maxSurge": 1}]
)
async def test_a_new_template_rolls_over_the_nodes(running, rolling):
    """All nodes end with one new pod, and the old revision is kept."""
    await running.client.create(DAEMON_SETS, daemon_set(rolling))
    await running.quiet(1)
    before = set(await pods_by_name(running))
    changed = {"spec": {"template": template("img:2")}}
    changed["metadata"] = {"annotations": {"deprecated.daemonset.template.generation": "2"}}
    await running.client.patch(DAEMON_SETS, "agent", "ns", changed)
    await running.quiet(3)
    after = await pods_by_name(running)
    revisions = (await running.client.list(CONTROLLER_REVISIONS, "ns"))["items"]

    assert not before & set(after)
    assert await nodes_of(running) == ["n1", "n2", "n3"]
    assert (await status_of(running))["updatedNumberScheduled"] == 3
    assert sorted(revision["revision"] for revision in revisions) == [1, 2]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_failed_pod_is_replaced_with_patience(running):
    """An event each time; the second in a row waits."""
    await running.client.create(DAEMON_SETS, daemon_set(template=template(nodeSelector={})))
    await running.quiet(1)
    for _ in range(2):
        one = copy.deepcopy(next(iter((await pods_by_name(running)).values())))
        one["status"]["phase"] = "Failed"
        await running.client.update(PODS, one, "status")
        await running.quiet(0.3)
    await running.quiet(3)
    reasons = [reason for _, reason, _ in await events_of(running, running.controllers[0])]

    assert reasons.count("FailedDaemonPod") == 2
    assert await nodes_of(running) == ["n1", "n2", "n3"]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_on_delete_waits_for_people(running):
    """Only pods that somebody deletes come back new."""
    await running.client.create(DAEMON_SETS, daemon_set(updateStrategy={"type": "OnDelete"}))
    await running.quiet(1)
    await running.client.patch(DAEMON_SETS, "agent", "ns", {
        "spec": {"template": template("img:2")},
        "metadata": {"annotations": {"deprecated.daemonset.template.generation": "2"}},
    })  # fmt: skip
    await running.quiet(1)

    assert (await status_of(running))["updatedNumberScheduled"] == 0

    await running.client.delete(PODS, next(iter(await pods_by_name(running))), "ns")
    await running.quiet(1)

    assert (await status_of(running))["updatedNumberScheduled"] == 1


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_revision_that_is_deleted_comes_back(running):
    """So does the owner of one that has lost it."""
    await running.client.create(DAEMON_SETS, daemon_set())
    await running.quiet(1)

    async def revision():
        (found,) = (await running.client.list(CONTROLLER_REVISIONS))["items"]
        return found

    first = await revision()
    await running.client.delete(
        CONTROLLER_REVISIONS, first["metadata"]["name"], first["metadata"]["namespace"]
    )
    await running.quiet(1)
    second = await revision()
    await running.client.update(
        CONTROLLER_REVISIONS, {**second, "metadata": {**second["metadata"], "ownerReferences": []}}
    )
    await running.quiet(1)

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert (await revision())["metadata"]["ownerReferences"][0]["name"] == "agent"
