"""Usage comes to a number of replicas, and limits say how fast; cases after upstream's algorithm."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from kubeskew.apimachinery.clock import timestamp
from kubeskew.controllers.autoscaling import replicas
from kubeskew.controllers.autoscaling.controller import History, unserved
from kubeskew.controllers.autoscaling.metrics_client import MetricError, PodMetric
from kubeskew.controllers.autoscaling.replicas import Proposal, Tolerances

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(seconds=15)
USUAL = Tolerances()


def pod(name, *, phase="Running", ready="True", age=3600, since=3600, request="1", going=False, **spec):
    metadata = {"name": name} | ({"deletionTimestamp": timestamp(NOW)} if going else {})
    condition = {
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": timestamp(NOW - timedelta(seconds=since)),
    }
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": request}}}], **spec},
        "status": {
            "phase": phase,
            "startTime": timestamp(NOW - timedelta(seconds=age)),
            "conditions": [condition],
        },
    }


def measured(**values):
    return {name: PodMetric(value, NOW, WINDOW) for name, value in values.items()}


def by_utilization(pods, metrics, target=50, resource="cpu", tolerances=USUAL, **options):
    groups = replicas.grouped(pods, metrics, resource, NOW)
    requests = partial(replicas.requests_of, pods, "", resource, pod_level=options.get("pod_level", False))
    return replicas.by_utilization(len(pods), target, metrics, pods, requests, groups, tolerances)


A, B, C = pod("a"), pod("b"), pod("c")


@pytest.mark.parametrize(
    ("pods", "metrics", "expected"),
    [
        ([A, B], measured(a=1000, b=1000), Proposal(4, 100, 1000)),
        ([A, B], measured(a=540, b=540), Proposal(2, 54, 540)),  # within a tenth of the target
        ([A, B], measured(a=560, b=560), Proposal(3, 56, 560)),
        ([A, B], measured(a=100, b=100), Proposal(1, 10, 100)),
        # a pod without metrics counts as 0 on the way up, as its request on the way down
        ([A, B, C], measured(a=1000, b=1000), Proposal(4, 100, 1000)),
        ([A, B, C], measured(a=100, b=100), Proposal(3, 10, 100)),
        # a pod that is not ready, or waits, counts as 0 on the way up and not at all on the way down
        ([A, B, pod("c", ready="False", age=60)], measured(a=1000, b=1000, c=1000), Proposal(4, 100, 1000)),
        ([A, B, pod("c", phase="Pending")], measured(a=1000, b=1000), Proposal(4, 100, 1000)),
        ([A, B, pod("c", phase="Pending")], measured(a=100, b=100), Proposal(1, 10, 100)),
        # one that was never ready, and one that was and is not any more
        ([A, B, pod("c", ready="False", since=3590)], measured(a=500, b=500, c=9000), Proposal(3, 50, 500)),
        ([A, B, pod("c", ready="False", since=60)], measured(a=500, b=500, c=2000), Proposal(6, 100, 1000)),
        # of one that has just become ready the metric is not of its work yet
        ([A, B, pod("c", age=60, since=5)], measured(a=1000, b=1000, c=0), Proposal(4, 100, 1000)),
        # one that ends is nobody's
        ([A, B, pod("c", going=True)], measured(a=1000, b=1000, c=1), Proposal(4, 100, 1000)),
        ([A, B, pod("c", phase="Failed")], measured(a=1000, b=1000, c=1), Proposal(4, 100, 1000)),
    ],
)  # fmt: skip
def test_replicas_by_utilization(pods, metrics, expected):
    """Usage above the target adds replicas, below it takes some away; who is unknown never turns the way."""
    assert by_utilization(pods, metrics) == expected


def test_missing_pods_of_a_target_above_the_request():
    """On the way down a pod without metrics counts as its target, where that is more than it requests."""
    assert by_utilization([A, B], measured(a=1000), target=200) == Proposal(2, 100, 1000)


NO_PODS = "no pods returned by selector while calculating replica count"
NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
NO_REQUEST = "missing request for cpu in container c of Pod a"


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([], NO_PODS),
        ([pod("a", phase="Pending")], NO_METRICS),
        ([pod("a", containers=[{"name": "c"}])], NO_REQUEST),
    ],
)
def test_why_nothing_can_be_computed(pods, why):
    """The texts are upstream's."""
    with pytest.raises(MetricError) as raised:
        by_utilization(pods, measured(a=1))
    assert str(raised.value) == why


@pytest.mark.parametrize(("pod_level", "expected"), [(True, 20), (False, 100)])
def test_requests_of_the_pod_itself(pod_level, expected):
    """With PodLevelResources the request of the pod counts, otherwise those of its containers."""
    pods = [pod("a", resources={"requests": {"cpu": "5"}})]
    assert by_utilization(pods, measured(a=1000), pod_level=pod_level).utilization == expected


def test_sidecars_count_with_the_containers():
    """A restartable init container is measured, and so is its request."""
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
    assert by_utilization([pod("a", initContainers=[sidecar])], measured(a=1000)).utilization == 25


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": 200, "b": 200}, Proposal(4, None, 200)),
        ({"a": 105, "b": 105}, Proposal(2, None, 105)),
        ({"a": 200}, Proposal(2, None, 200)),  # b: 0 makes it just the target
        ({"a": 50}, Proposal(2, None, 50)),  # b: the target; 75 for each is still two replicas
    ],
)
def test_replicas_by_value(values, expected):
    """A target in thousandths for each pod needs no requests."""
    pods, metrics = [A, B], measured(**values)
    groups = replicas.grouped(pods, metrics, "memory", NOW)
    assert replicas.by_value(2, 100, metrics, pods, groups, Tolerances()) == expected


def test_tolerances_may_differ():
    """A behaviour's tolerance for one way does not count for the other."""
    up = measured(a=560, b=560)
    assert by_utilization([A, B], up, tolerances=Tolerances(0.1, 0.2)).replicas == 2
    assert by_utilization([A, B], up, tolerances=Tolerances(0.2, 0.1)).replicas == 3


# -- limits

LIMITS = {"minReplicas": 1, "maxReplicas": 20}
PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
UP = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [PODS, PERCENT]}
DOWN = {"selectPolicy": "Max", "policies": [PERCENT]}


def limited(history, current, wanted, seconds, behaviour=None):
    spec = {**LIMITS, **({"behavior": behaviour} if behaviour else {})}
    found = history.limit(spec, current, wanted, 1, NOW + timedelta(seconds=seconds))
    if found.replicas != current:
        moment = NOW + timedelta(seconds=seconds)
        history.scaled(behaviour, current, found.replicas, moment)
    return found.replicas, found.able[0], found.limit[0] if found.is_limited else ""


def test_the_rate_without_a_behaviour():
    """Replicas double at most, or come to four; there are never more than the most."""
    history = History()
    history.begin(1, NOW)
    assert limited(history, 1, 10, 0) == (4, "ReadyForNewScale", "ScaleUpLimit")
    assert limited(history, 4, 10, 15) == (8, "ReadyForNewScale", "ScaleUpLimit")
    assert limited(history, 8, 10, 30) == (10, "ReadyForNewScale", "")
    assert limited(history, 10, 40, 45) == (20, "ReadyForNewScale", "TooManyReplicas")


def test_fewer_replicas_have_to_be_wanted_for_five_minutes():
    """The highest recommendation of the last five minutes counts."""
    history = History()
    history.begin(6, NOW)
    assert limited(history, 6, 2, 15) == (6, "ScaleDownStabilized", "")
    assert limited(history, 6, 3, 300) == (6, "ScaleDownStabilized", "")
    assert limited(history, 6, 1, 301) == (3, "ScaleDownStabilized", "")
    assert limited(history, 3, 0, 700) == (1, "ReadyForNewScale", "TooFewReplicas")


@pytest.mark.parametrize(
    ("up", "expected"),
    [
        (UP, [6, 12, 20]),
        ({**UP, "selectPolicy": "Min"}, [4, 8, 12]),
        ({**UP, "selectPolicy": "Disabled"}, [2, 2, 2]),
        ({**UP, "policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]}, [5, 5, 5]),
        ({**UP, "stabilizationWindowSeconds": 20}, [2, 6, 12]),
    ],
)
def test_a_behaviour_says_how_fast_replicas_come(up, expected):
    """Policies allow the largest change, or the smallest; what was changed in their period counts."""
    history, size, sizes = History(), 2, []
    history.begin(size, NOW)
    for seconds in (15, 30, 45):
        size, *_ = limited(history, size, 20, seconds, {"scaleUp": up, "scaleDown": DOWN})
        sizes.append(size)
    assert sizes == expected


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        ({**DOWN, "stabilizationWindowSeconds": 0}, [1, 1, 1]),
        ({**DOWN, "stabilizationWindowSeconds": 40}, [10, 10, 1]),
        ({**DOWN, "stabilizationWindowSeconds": 0, "policies": [{**PERCENT, "value": 50}]}, [5, 2, 1]),
        ({**DOWN, "stabilizationWindowSeconds": 0, "policies": [{**PODS, "periodSeconds": 30}]}, [6, 6, 2]),
        ({**DOWN, "stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"}, [10, 10, 10]),
        (DOWN, [10, 10, 10]),  # the window is five minutes
    ],
)
def test_a_behaviour_says_how_fast_replicas_go(down, expected):
    """The same is so downwards, with five minutes of stabilization unless something else is said."""
    history, size, sizes = History(), 10, []
    history.begin(size, NOW)
    for seconds in (15, 30, 45):
        size, *_ = limited(history, size, 1, seconds, {"scaleUp": UP, "scaleDown": down})
        sizes.append(size)
    assert sizes == expected


UNREGISTERED = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)
NOT_FOUND = (
    "unable to fetch metrics from external metrics API: the server could not find the requested resource "
    "(get m.external.metrics.k8s.io)"
)
SELECTOR = (
    "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
)


@pytest.mark.parametrize(
    ("metric", "why", "summary"),
    [
        (
            {"type": "Pods", "pods": {"metric": {"name": "m"}}},
            f"unable to get metric m: {UNREGISTERED}",
            "failed to get pods metric value: {why}",
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m"},
                    "describedObject": {"kind": "Service", "name": "s"},
                    "target": {"averageValue": "1"},
                },
            },
            f"unable to get metric m: {UNREGISTERED} on Service ns/s",
            "failed to get object metric value: failed to get m object metric: {why}",
        ),
        (
            {"type": "External", "external": {"metric": {"name": "m"}, "target": {"value": "1"}}},
            f"unable to get external metric ns/m/nil: {NOT_FOUND}",
            "failed to get m external metric value: failed to get external metric m: {why}",
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"averageValue": "1"},
                },
            },
            f"unable to get external metric ns/m/{SELECTOR}: {NOT_FOUND}",
            "failed to get m external metric value: failed to get m external metric: {why}",
        ),
    ],
)
def test_metrics_that_no_server_has(metric, why, summary):
    """Metrics of pods, objects and the world outside fail in upstream's words where their API is missing."""
    _, *texts = unserved(metric, "ns")

    assert texts == [why, summary.format(why=why)]
