"""Preemption: who has to leave for whom, and what they get to know; the whole scheduler in virtual time."""

import asyncio

import pytest
from scheduling_cluster import Cluster, running

from kubeskew.apimachinery.client.refs import EVENTS_V1, POD_DISRUPTION_BUDGETS, PODS
from kubeskew.scheduler import preemption
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.preemption import Candidate, by_budget

pytestmark = pytest.mark.looptime


def _pod(name, priority=0, started=None, **labels):
    return PodInfo(
        {
            "metadata": {"namespace": "default", "name": name, "uid": name, "labels": labels},
            "spec": {"priority": priority, "containers": []},
            "status": {"startTime": started} if started else {},
        }
    )


async def _occupied(cluster, *priorities, node="n0", **spec):
    """One pod per priority on the node, each with a quarter of its cpu."""
    for index, priority in enumerate(priorities):
        name = f"{node}-{index}"
        await cluster.pod(name, {"cpu": "1"}, nodeName=node, priority=priority, **spec)


async def test_victim_leaves_and_preemptor_takes_its_place():
    """The victim is informed why and deleted; the preemptor is promised the node and comes to it."""
    async with running(Cluster()) as cluster:
        await cluster.node()
        await _occupied(cluster, 5, 1, 7, 9)
        preemptor = await cluster.pod("high", {"cpu": "1"}, priority=10)

        assert await cluster.node_of("high") == "n0"
        names = [pod["metadata"]["name"] for pod in (await cluster.client.list(PODS))["items"]]
        assert sorted(names) == ["high", "n0-0", "n0-2", "n0-3"]
        await asyncio.sleep(1)
        assert await cluster.events("Preempted") == [
            f"Preempted by pod {preemptor['metadata']['uid']} on node n0"
        ]
        assert await cluster.events("FailedScheduling") == ["0/1 nodes are available: 1 Insufficient cpu."]
        assert "scheduler_preemption_attempts_total 1.0" in cluster.metrics()
        assert "scheduler_preemption_victims_sum 1.0" in cluster.metrics()


@pytest.mark.parametrize(("version", "related"), [("1.35", "high"), ("1.36", None)])
async def test_the_event_of_a_victim(version, related):
    """Until 1.35 the preemptor is the related object; 1.36 has a wrapper there, which no reference names."""
    async with running(Cluster(version)) as cluster:
        await cluster.node()
        await _occupied(cluster, 5, 1, 7, 9)
        await cluster.pod("high", {"cpu": "1"}, priority=10)
        assert await cluster.node_of("high") == "n0"
        await asyncio.sleep(1)

        listed = (await cluster.client.list(EVENTS_V1))["items"]
        (event,) = (each for each in listed if each["reason"] == "Preempted")
        assert (event.get("related") or {}).get("name") == related


@pytest.mark.parametrize("background", [True, False])
async def test_victim_that_needs_time_keeps_the_node_promised(background):
    """Until the victim is gone, its condition says why it goes, and nobody of less priority gets its room."""
    async with running(Cluster(SchedulerAsyncPreemption=background)) as cluster:
        await cluster.node()
        await _occupied(cluster, 1, finalizers=["example.com/slow"])
        await cluster.pod("high", {"cpu": "4"}, priority=10)
        await asyncio.sleep(1)

        victim, high = await cluster.read("n0-0"), await cluster.read("high")
        (condition,) = victim["status"]["conditions"]
        assert victim["metadata"]["deletionTimestamp"]
        assert condition["type"] == "DisruptionTarget"
        assert condition["reason"] == "PreemptionByScheduler"
        assert condition["message"] == ("default-scheduler: preempting to accommodate a higher priority pod")
        assert high["status"]["nominatedNodeName"] == "n0"
        await cluster.pod("low", {"cpu": "2"}, priority=3)
        assert (await cluster.message("low"))[1] == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Insufficient cpu."
        )

        victim["metadata"]["finalizers"] = []
        await cluster.client.update(PODS, victim)
        assert await cluster.node_of("high") == "n0"


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_victim_that_is_gone_before_it_is_evicted_leaves_its_preemptor_waiting(leaves):
    """Its deletion comes in the attempt, when preemption has not begun; nothing happens when it ends."""
    async with running(Cluster("1.36", bugs={"k8s-141694": leaves})) as cluster:
        await cluster.node()
        await _occupied(cluster, 1)
        (profile,) = cluster.service.scheduler.profiles.values()
        post_filter = profile.run_post_filters

        async def late(*arguments):
            if (await cluster.client.list(PODS))["items"][1:]:
                await cluster.client.delete(PODS, "n0-0", "default", grace_period=0)
                await asyncio.sleep(0.1)
            return await post_filter(*arguments)

        def with_victim(*arguments):
            nodes = arguments[-1]
            return late(*arguments[:-1], [node.clone() for node in nodes])

        profile.run_post_filters = with_victim
        await cluster.pod("high", {"cpu": "4"}, priority=10)
        await asyncio.sleep(60)
        high = await cluster.read("high")

        assert ("nodeName" in high["spec"]) is not leaves


async def test_preemptor_waits_for_a_terminating_victim():
    """Another attempt while the victim is on its way out evicts nobody else."""
    async with running(Cluster()) as cluster:
        await cluster.node()
        await _occupied(cluster, 1, 2, finalizers=["example.com/slow"])
        await cluster.pod("high", {"cpu": "3"}, priority=10)
        await asyncio.sleep(3)
        await cluster.node("too-small", cpu="1")  # makes the scheduler try again
        await asyncio.sleep(5)

        going = [
            pod["metadata"]["name"]
            for pod in (await cluster.client.list(PODS))["items"]
            if pod["metadata"].get("deletionTimestamp")
        ]
        assert going == ["n0-0"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"preemptionPolicy": "Never"}, "not eligible due to preemptionPolicy=Never.", id="never"
        ),
        pytest.param(
            {"priority": 1},
            "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="no-victims",
        ),
    ],
)
async def test_why_preemption_does_not_help(spec, text):
    """Upstream's words for pods that must not or cannot preempt."""
    async with running(Cluster(DRAExtendedResource=False)) as cluster:
        await cluster.node()
        await cluster.node("small", cpu="1")
        await _occupied(cluster, 5, 5, 5)
        await cluster.pod("high", {"cpu": "3"}, **{"priority": 10, **spec})

        assert (await cluster.message("high"))[1] == (
            f"0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: {text}"
        )


async def test_budget_is_spared_if_another_node_will_do():
    """A node whose victims violate no disruption budget is taken, regardless of what else it costs."""
    async with running(Cluster()) as cluster:
        await cluster.node("n0")
        await cluster.node("n1")
        await _occupied(cluster, 1, 1, 1, 1, node="n0", labels={"app": "db"})
        await _occupied(cluster, 5, 5, 5, 5, node="n1")
        budget = {
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        }
        await cluster.client.create(POD_DISRUPTION_BUDGETS, budget)
        await asyncio.sleep(1)
        await cluster.pod("high", {"cpu": "1"}, priority=10)

        assert await cluster.node_of("high") == "n1"


async def test_lower_promises_are_withdrawn():
    """A pod nominated to a node loses the nomination to a pod of higher priority."""
    async with running(Cluster(SchedulerAsyncPreemption=False)) as cluster:
        await cluster.node()
        await _occupied(cluster, 1, finalizers=["example.com/slow"])
        await cluster.pod("middle", {"cpu": "4"}, priority=10)
        await asyncio.sleep(1)
        assert (await cluster.read("middle"))["status"]["nominatedNodeName"] == "n0"
        await cluster.pod("high", {"cpu": "4"}, priority=20)
        await asyncio.sleep(1)

        assert (await cluster.read("high"))["status"]["nominatedNodeName"] == "n0"
        assert "nominatedNodeName" not in (await cluster.read("middle"))["status"]


@pytest.mark.parametrize(
    ("forgets_empty", "selector", "violating"),
    [
        (True, {}, []),
        (False, {}, ["a", "bare"]),
        (True, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, []),
        (False, {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, ["bare"]),
    ],
)
def test_empty_selectors_and_pods_without_labels(forgets_empty, selector, violating):
    """By bug 141785 a budget with an empty selector protects no pod, and none protects one without labels."""
    budget = {"metadata": {"namespace": "default"}, "spec": {"selector": selector}}
    found, _ = by_budget([_pod("a", app="a"), _pod("bare")], [budget], forgets_empty=forgets_empty)

    assert [pod.name for pod in found] == violating


def test_violations_are_counted_in_order():
    """A budget that allows one disruption is violated by the second pod; pods in its books do not count."""
    budget = {
        "metadata": {"namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}},
    }
    pods = [_pod("gone", app="a"), _pod("x", app="a"), _pod("y", app="a"), _pod("z", app="b"), _pod("bare")]
    violating, others = by_budget(pods, [budget], forgets_empty=False)

    assert [pod.name for pod in violating] == ["y"]
    assert [pod.name for pod in others] == ["gone", "x", "z", "bare"]


_OLD, _NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(([_pod("x", 9)], 0), ([_pod("y", 1)], 1), id="violations"),
        pytest.param(([_pod("x", 1)] * 3, 0), ([_pod("y", 2)], 0), id="highest-priority"),
        pytest.param(([_pod("x", 5), _pod("x", 1)], 0), ([_pod("y", 5), _pod("y", 2)], 0), id="sum"),
        pytest.param(([_pod("x", 5)], 0), ([_pod("y", 5), _pod("y", -(2**31))], 0), id="number"),
        pytest.param(([_pod("x", 5, _NEW)], 0), ([_pod("y", 5, _OLD)], 0), id="latest-start"),
        pytest.param(([_pod("x", 5, _OLD)], 0), ([_pod("y", 5, _OLD)], 0), id="first"),
    ],
)
def test_best_candidate(a, b):
    """The criteria, one after the other."""
    better, worse = Candidate("a", *a), Candidate("b", *b)

    assert preemption.best([better, worse]).node == "a"
    if preemption.cost(better) != preemption.cost(worse):
        assert preemption.best([worse, better]).node == "a"


@pytest.mark.parametrize(("nodes", "wanted"), [(3, 3), (100, 100), (500, 100), (5000, 500)])
def test_large_clusters_are_not_tried_whole(nodes, wanted):
    """Ten percent of the nodes, a hundred at least."""
    assert preemption.enough(nodes) == wanted


def test_dry_run_stops_with_enough_candidates():
    """A dry run begins at the offset, and needs one candidate without violations to stop."""
    nodes = [NodeInfo(f"n{number}") for number in range(5)]
    tried = []

    def attempt(node):
        tried.append(node.name)
        return Candidate(node.name, [_pod("x")], violations=0 if node.name == "n0" else 1)

    found, _ = preemption.dry_run(nodes, 3, 2, attempt)

    assert tried == ["n3", "n4", "n0"]
    assert [each.node for each in found] == ["n0", "n3", "n4"]
