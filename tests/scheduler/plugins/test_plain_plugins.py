"""The filters and scores of plain pods, by table; and what makes a valid profile."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices, DeviceID
from kubeskew.scheduler.allocator.device_totals import DeviceTotals
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import EventResource
from kubeskew.scheduler.framework.extended_resource_cache import IndexedExtendedResources
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, pod_requests
from kubeskew.scheduler.framework.profile import Profile, ProfileError
from kubeskew.scheduler.framework.status import Code, Diagnosis, failed, unschedulable
from kubeskew.scheduler.placement import NodeSampler
from kubeskew.scheduler.plugins.node_affinity import NodeAffinity, named_nodes
from kubeskew.scheduler.plugins.node_name import NodeName
from kubeskew.scheduler.plugins.node_ports import NodePorts
from kubeskew.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kubeskew.scheduler.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from kubeskew.scheduler.plugins.noderesources.fit import NodeResourcesFit
from kubeskew.scheduler.plugins.priority_sort import PrioritySort
from kubeskew.scheduler.plugins.taint_toleration import TaintToleration


def _features(minor=36):
    version = Version(minor)
    return SchedulerFeatures.of(FeatureGates(version))


def _pod(name="p", requests=None, **spec):
    container = {"name": "c", "resources": {"requests": requests or {}}}
    return PodInfo(
        {
            "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
            "spec": {"containers": [container], **spec},
        }
    )


def _node(name="n", allocatable=None, labels=None, taints=(), pods=(), **spec):
    info = NodeInfo(name)
    resources = {"cpu": "4", "memory": "8Gi", "pods": "2", **(allocatable or {})}
    info.set_node(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"taints": [*taints], **spec},
            "status": {"allocatable": resources},
        }
    )
    for pod in pods:
        info.add_pod(pod)
    return info


def _run(plugin, pod, node):
    """PreFilter (where there is one) and Filter."""
    state = CycleState()
    if hasattr(plugin, "pre_filter"):
        result = plugin.pre_filter(state, pod, [node])
        if not result.status.is_success:
            return result.status
    return plugin.filter(state, pod, node)


_TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
_ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
_REQUIRED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _ZONE}}
_HOST_PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]


@pytest.mark.parametrize(
    ("plugin", "pod", "node", "reasons"),
    [
        pytest.param(NodeName(), _pod(nodeName="n"), _node(), (), id="name"),
        pytest.param(
            NodeName(),
            _pod(nodeName="x"),
            _node(),
            ("node(s) didn't match the requested node name",),
            id="other-name",
        ),
        pytest.param(
            NodeUnschedulable(),
            _pod(),
            _node(unschedulable=True),
            ("node(s) were unschedulable",),
            id="cordoned",
        ),
        pytest.param(
            NodeUnschedulable(),
            _pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            _node(unschedulable=True),
            (),
            id="cordoned-tolerated",
        ),
        pytest.param(
            TaintToleration(_features()),
            _pod(),
            _node(taints=[_TAINT]),
            ("node(s) had untolerated taint(s)",),
            id="taint",
        ),
        pytest.param(
            TaintToleration(_features(33)),
            _pod(),
            _node(taints=[_TAINT]),
            ("node(s) had untolerated taint {k: v}",),
            id="taint-named-before-1.34.2",
        ),
        pytest.param(
            TaintToleration(_features()),
            _pod(tolerations=[{"key": "k", "value": "v"}]),
            _node(taints=[_TAINT]),
            (),
            id="taint-tolerated",
        ),
        pytest.param(
            NodeAffinity(),
            _pod(nodeSelector={"zone": "a"}),
            _node(labels={"zone": "b"}),
            ("node(s) didn't match Pod's node affinity/selector",),
            id="selector",
        ),
        pytest.param(
            NodeAffinity(), _pod(affinity=_REQUIRED), _node(labels={"zone": "a"}), (), id="affinity"
        ),
        pytest.param(
            NodePorts(),
            _pod("q", containers=_HOST_PORT),
            _node(pods=[_pod(containers=_HOST_PORT)]),
            ("node(s) didn't have free ports for the requested pod ports",),
            id="port",
        ),
        pytest.param(
            NodeResourcesFit(None),
            _pod("q", {"cpu": "3", "memory": "1Gi"}),
            _node(pods=[_pod(requests={"cpu": "2"})]),
            ("Insufficient cpu",),
            id="cpu",
        ),
        pytest.param(
            NodeResourcesFit(None),
            _pod("q", {"example.com/gpu": "1"}),
            _node(pods=[_pod("a"), _pod("b")]),
            ("Too many pods", "Insufficient example.com/gpu"),
            id="pods-and-extended",
        ),
    ],
)
def test_filter(plugin, pod, node, reasons):
    """A filter says why a pod does not fit, in upstream's words."""
    status = _run(plugin, pod, node)

    assert status.reasons == reasons
    assert status.is_rejected is bool(reasons)


@pytest.mark.parametrize(
    ("asked", "code"), [("3", Code.UNSCHEDULABLE), ("5", Code.UNRESOLVABLE)], ids=["others", "never"]
)
def test_lack_of_resources_is_resolvable_by_preemption(asked, code):
    """Preemption can help if the node is large enough when it is empty."""
    node = _node(pods=[_pod(requests={"cpu": "2"})])

    assert _run(NodeResourcesFit(None), _pod("q", {"cpu": asked}), node).code is code


@pytest.mark.parametrize(
    ("allocatable", "fits"),
    [
        pytest.param({}, True, id="dra"),
        pytest.param({"example.com/gpu": "0"}, True, id="dra-after-a-removed-device-plugin"),
        pytest.param({"example.com/gpu": "1"}, False, id="device-plugin-with-too-few"),
    ],
)
def test_extended_resources_are_left_to_dra(allocatable, fits):
    """A resource with a device class is DRA's business, except on a node whose device plugin has some."""
    extended = IndexedExtendedResources()
    extended.set_class(
        None, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    )
    pod = _pod(requests={"example.com/gpu": "2"})

    assert _run(NodeResourcesFit(extended), pod, _node(allocatable=allocatable)).is_success is fits


def _allocatable(**resources):
    return {"status": {"allocatable": {"pods": "9", "cpu": "4", **resources}}}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, _allocatable(), True, id="new"),
        pytest.param(None, _allocatable(cpu="1"), False, id="new-and-too-small"),
        pytest.param(_allocatable(cpu="3"), _allocatable(), True, id="more-cpu"),
        pytest.param(_allocatable(cpu="8"), _allocatable(), True, id="dra-may-have-more"),
        pytest.param(
            _allocatable(**{"example.com/gpu": "3"}),
            _allocatable(**{"example.com/gpu": "3"}),
            False,
            id="same",
        ),
        pytest.param(
            _allocatable(**{"example.com/gpu": "1"}),
            _allocatable(**{"example.com/gpu": "2"}),
            True,
            id="more",
        ),
        pytest.param(
            _allocatable(**{"example.com/gpu": "2"}),
            _allocatable(**{"example.com/gpu": "1"}),
            False,
            id="less",
        ),
    ],
)
def test_which_changes_of_a_node_help(old, new, helps):
    """A pod that lacked resources is tried again if the empty node suffices and has more of what it wants."""
    extended = IndexedExtendedResources()
    extended.set_class(
        None, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    )
    nodes = [
        each
        for each in NodeResourcesFit(extended).events_to_register()
        if each.event.resource is EventResource.NODE
    ]
    pod = _pod(requests={"cpu": "2", "example.com/gpu": "2"}).pod

    assert nodes[0].hint(pod, old, new) is helps


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [("1", False), ("2", False)]}, 3000, id="containers-add-up"),
        pytest.param({"initContainers": [("5", False)], "containers": [("1", False)]}, 5000, id="init-peak"),
        pytest.param(
            {"initContainers": [("1", True), ("3", False)], "containers": [("1", False)]},
            4000,
            id="sidecar-before-init",
        ),
        pytest.param(
            {"initContainers": [("3", False), ("1", True)], "containers": [("1", False)]},
            3000,
            id="sidecar-after-init",
        ),
    ],
)
def test_pod_requests(spec, expected):
    """Containers and sidecars add up; a short-lived init container counts while it runs."""
    made = {
        kind: [
            {"resources": {"requests": {"cpu": cpu}}} | ({"restartPolicy": "Always"} if sidecar else {})
            for cpu, sidecar in containers
        ]
        for kind, containers in spec.items()
    }

    assert pod_requests(made)["cpu"] == expected


def _requesting(**requests):
    return {"name": "c", "resources": {"requests": requests}}


def _info(spec):
    return PodInfo({"metadata": {"name": "p"}, "spec": spec})


_SMALL = {"cpu": 100, "memory": 200 * 1024**2}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "a"}, {"name": "b"}]}, {"cpu": 200, "memory": 400 * 1024**2}),
        (
            {"containers": [_requesting(memory="64Mi")], "initContainers": [_requesting(cpu="1")]},
            {"cpu": 1000, "memory": 200 * 1024**2},
        ),
        ({"containers": [{"name": "a"}], "overhead": {"cpu": "50m"}}, {**_SMALL, "cpu": 150}),
        (
            {"containers": [{"name": "a"}, {"name": "b"}], "resources": {"requests": {"cpu": "1"}}},
            {"cpu": 1000, "memory": 400 * 1024**2},
        ),
        (
            {"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}},
            {"cpu": 1000, "memory": 1024**2},
        ),
    ],
)
def test_requests_for_scores(spec, expected):
    """Containers that request nothing count as small ones, unless the pod has requests of its own."""
    assert _info(spec).scored_requests == expected


def test_fit_scores_no_requests_of_the_pod_as_a_whole():
    """A pod's own requests count where it runs, and for balance, but not when its nodes are scored."""
    spec = {"containers": [_requesting(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "3"}}}
    whole, plain = _info(spec), _info({"containers": spec["containers"]})

    assert NodeResourcesFit(None).score(CycleState(), whole, _node()) == NodeResourcesFit(None).score(
        CycleState(), plain, _node()
    )
    assert whole.scored_requests["cpu"] == 3 * plain.scored_requests["cpu"]


def test_least_allocated_prefers_the_empty_node():
    """The emptier node scores higher, and so does the more evenly used one."""
    pod, empty, full = _pod("q", {"cpu": "1"}), _node(), _node(pods=[_pod(requests={"cpu": "3"})])

    fit, balanced = NodeResourcesFit(None), NodeResourcesBalancedAllocation(by_change=False)
    assert fit.score(CycleState(), pod, empty) > fit.score(CycleState(), pod, full)
    assert balanced.score(CycleState(), pod, empty) > balanced.score(CycleState(), pod, full)


def _slice(name, devices, **spec):
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": device} for device in devices]
    return {"metadata": {"name": name}, "spec": {"driver": "d", "pool": pool, "devices": listed, **spec}}


@pytest.mark.parametrize(
    ("strategy", "scores"),
    [("LeastAllocated", (75, 33)), ("MostAllocated", (25, 66))],
)
def test_devices_of_dra_count_for_scores(strategy, scores):
    """Of an extended resource that DRA backs, devices of the class and those in use make the score; what a
    device plugin has counts as ever."""
    version = Version(36)
    features = AllocatorFeatures.of(FeatureGates(version))
    book, slices, extended = AllocatedDevices(), SliceIndex(features), IndexedExtendedResources()
    selectors = [{"cel": {"expression": "device.driver == 'd'"}}]
    spec = {"extendedResourceName": "example.com/gpu", "selectors": selectors}
    extended.set_class(None, {"metadata": {"name": "gpu"}, "spec": spec})
    slices.set_slice(_slice("a", "wxyz", nodeName="n0"))
    slices.set_slice(_slice("b", "xyz", nodeName="n1"))
    slices.set_slice(_slice("c", "z", nodeName="n1", driver="other"))
    book.add(DeviceID("d", "b", "x"), None)
    totals = DeviceTotals(extended.class_for, slices, book.state, features.cel)
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "example.com/gpu", "weight": 1}]}}
    fit = NodeResourcesFit(extended, args, totals=totals)
    pod = _pod("q", {"example.com/gpu": "1"})

    nodes = [_node("n0"), _node("n1"), _node("n2")]
    assert tuple(fit.score(CycleState(), pod, node) for node in nodes) == (*scores, 0)
    plugged = _node("n0", allocatable={"example.com/gpu": "2"})
    assert fit.score(CycleState(), pod, plugged) == 50
    assert NodeResourcesFit(extended, args).score(CycleState(), pod, nodes[0]) == 0
    broken = {**spec, "selectors": [{"cel": {"expression": "device.attributes['x'].y == 1"}}]}
    extended.remove_class({"metadata": {"name": "gpu"}, "spec": spec})
    extended.set_class(None, {"metadata": {"name": "gpu"}, "spec": broken})
    assert totals.of("example.com/gpu", nodes[0]) == (0, 0)


def test_a_shared_device_counts_as_in_use_but_for_a_release_that_forgets_shares_without_capacity():
    """Of two shared devices 1.35 counts the one whose share takes capacity, 1.36 both."""
    counted = {}
    for minor in (35, 36):
        version = Version(minor)
        features = AllocatorFeatures.of(FeatureGates(version))
        book, slices, extended = AllocatedDevices(), SliceIndex(features), IndexedExtendedResources()
        made = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
        extended.set_class(None, made)
        slices.set_slice(_slice("a", "xyz", nodeName="n0"))
        book.add(DeviceID("d", "a", "x"), {})
        book.add(DeviceID("d", "a", "y"), {"memory": Quantity.parse("1Gi")})
        totals = DeviceTotals(
            extended.class_for,
            slices,
            book.state,
            features.cel,
            forgets_shares=features.totals_forget_shares,
        )
        counted[minor] = totals.of("example.com/gpu", _node("n0"))

    assert counted == {35: (3, 1), 36: (3, 2)}


@pytest.mark.parametrize(("by_change", "even", "uneven"), [(False, 100, 75), (True, 75, 62)])
def test_devices_of_dra_count_for_balance(by_change, even, uneven):
    """Half of the devices and half of the cpu in use are in balance; by change, keeping it is worth 75."""
    version = Version(36)
    features = AllocatorFeatures.of(FeatureGates(version))
    slices, extended = SliceIndex(features), IndexedExtendedResources()
    extended.set_class(
        None, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    )
    slices.set_slice(_slice("a", "xy", nodeName="n0"))
    totals = DeviceTotals(extended.class_for, slices, AllocatedDevices().state, features.cel)
    resources = [{"name": "cpu"}, {"name": "example.com/gpu"}]
    balanced = NodeResourcesBalancedAllocation({"resources": resources}, totals, by_change=by_change)

    pod = _pod("q", {"cpu": "2", "example.com/gpu": "1"})
    assert balanced.score(CycleState(), pod, _node("n0")) == even
    unbalanced = _pod("q", {"cpu": "2", "example.com/gpu": "2"})
    assert balanced.score(CycleState(), unbalanced, _node("n0")) == uneven


def test_soft_taints_lower_the_score():
    """A node with a PreferNoSchedule taint is the last choice."""
    plugin = TaintToleration(_features())
    tainted = _node("tainted", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    scores = {node.name: plugin.score(CycleState(), _pod(), node) for node in (tainted, _node("clean"))}

    plugin.normalize(scores)
    assert scores == {"tainted": 0, "clean": 100}


def test_preferred_affinity_is_weighed():
    """The node with the heavier matching terms gets the full score."""
    preference = {"weight": 5, "preference": _ZONE["nodeSelectorTerms"][0]}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    pod, plugin = _pod(affinity=affinity), NodeAffinity()
    nodes = (_node("a", labels={"zone": "a"}), _node("b"))
    scores = {node.name: plugin.score(CycleState(), pod, node) for node in nodes}

    plugin.normalize(scores)
    assert scores == {"a": 100, "b": 0}


def test_preferred_affinity_that_cannot_be_read():
    """Ends the attempt, other than a required one, which no node matches."""
    term = {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["many"]}]}
    preferred = [{"weight": 5, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    status = NodeAffinity().pre_score(CycleState(), _pod(affinity=affinity), ())

    assert status == failed(
        '[0].matchExpressions[0].values[0]: Invalid value: "many": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )


def test_daemon_pods_name_their_node():
    """Required terms that all name nodes limit the search to those."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}

    assert named_nodes(spec) == {"n1"}


def test_diagnosis_counts_reasons():
    """Reasons are counted over the nodes and sorted as text."""
    rejected = {
        "a": unschedulable("Insufficient cpu"),
        "b": unschedulable("Insufficient cpu", "Too many pods"),
    }
    diagnosis = Diagnosis(2, rejected, post_filter="preemption: no.")

    assert diagnosis.message() == (
        "0/2 nodes are available: 1 Too many pods, 2 Insufficient cpu. preemption: no."
    )


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        pytest.param([NodeName()], "only one queue sort plugin required", id="no-sort"),
        pytest.param([PrioritySort()], "at least one bind plugin is needed", id="no-bind"),
        pytest.param([PrioritySort(), PrioritySort()], "already registered", id="twice"),
    ],
)
def test_profile_is_checked_at_start(plugins, text):
    """A profile that cannot work is refused before the first pod."""
    with pytest.raises(ProfileError, match=text):
        Profile(plugins)


@pytest.mark.parametrize(("nodes", "wanted"), [(3, 3), (100, 100), (500, 230), (5000, 500), (10000, 500)])
def test_large_clusters_are_sampled(nodes, wanted):
    """Above a hundred nodes a part of the feasible ones is enough."""
    assert NodeSampler.wanted(nodes) == wanted
