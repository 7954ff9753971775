"""PodTopologySpread: even numbers of pods in every domain; and ImageLocality, which scores next to it."""

import pytest
from plugin_bench import Bench, pod

from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.plugins.image_locality import ImageLocality, normalized
from kubeskew.scheduler.plugins.podtopologyspread import PodTopologySpread

SKEWED = "node(s) didn't match pod topology spread constraints"
LABEL_MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
APP = {"app": "x"}


def _constraint(key="zone", skew=1, when="DoNotSchedule", **rest):
    selector = {"labelSelector": {"matchLabels": APP}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, **selector, **rest}


def _bench(version="1.36", *, zones=("a", "a", "b"), counts=(1, 1, 0), objects=None, **gates):
    """Nodes n0 … in these zones, with so many pods each."""
    bench = Bench(version, objects, **gates)
    for index, (zone, count) in enumerate(zip(zones, counts, strict=True)):
        labels = {"zone": zone, "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": f"n{index}"}
        bench.node(f"n{index}", **(labels if zone else {}))
        for number in range(count):
            bench.running(f"n{index}", f"p{index}-{number}", labels=APP)
    return bench


def _said(bench, *constraints, args=None, **spec):
    plugin = PodTopologySpread(bench.handle, args or {})
    made = pod(labels=APP, topologySpreadConstraints=[*constraints], **spec)
    return tuple(bench.filtered(plugin, made).values())


@pytest.mark.parametrize(
    ("zones", "counts", "constraint", "said"),
    [
        pytest.param("aab", (1, 1, 0), _constraint(), (SKEWED, SKEWED, ""), id="zone"),
        pytest.param("aab", (1, 1, 0), _constraint(skew=3), ("", "", ""), id="wide"),
        pytest.param("aab", (1, 1, 0), _constraint("host"), (SKEWED, SKEWED, ""), id="host"),
        pytest.param(("a", "b", ""), (0, 0, 0), _constraint(), ("", "", LABEL_MISSING), id="no-label"),
        pytest.param("ab", (1, 1), _constraint(minDomains=3), (SKEWED, SKEWED), id="min-domains"),
        pytest.param("ab", (0, 1), _constraint(minDomains=3), ("", SKEWED), id="min-domains-free"),
    ],
)
def test_skew(zones, counts, constraint, said):
    """The number in a domain, with the pod itself, less the smallest one, is at most the skew."""
    assert _said(_bench(zones=zones, counts=counts), constraint) == said


def test_two_constraints_must_both_hold():
    """Zones and hosts at once."""
    bench = _bench(zones="aabb", counts=(1, 0, 1, 1))

    assert _said(bench, _constraint(), _constraint("host")) == (SKEWED, "", SKEWED, SKEWED)


def test_pods_that_do_not_count():
    """Pods of other namespaces and those on their way out do not count."""
    bench = _bench(counts=(0, 0, 0))
    bench.running("n0", "elsewhere", labels=APP, namespace="other")
    bench.running("n0", "leaving", labels=APP, deleted=True)

    assert _said(bench, _constraint()) == ("", "", "")


@pytest.mark.parametrize(
    ("version", "said"), [("1.36", ("", "", "")), ("1.26", (SKEWED, SKEWED, ""))], ids=["new", "old"]
)
def test_match_label_keys(version, said):
    """From 1.27 on only the pods of the same revision count."""
    bench = _bench(version)
    plugin = PodTopologySpread(bench.handle, {})
    constraint = _constraint(matchLabelKeys=["revision"])
    made = pod(labels={**APP, "revision": "2"}, topologySpreadConstraints=[constraint])

    assert tuple(bench.filtered(plugin, made).values()) == said


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        pytest.param(_constraint(), ("", ""), id="honoured"),
        pytest.param(_constraint(nodeAffinityPolicy="Ignore"), (SKEWED, ""), id="ignored"),
    ],
)
def test_nodes_that_the_pod_cannot_use(constraint, said):
    """Domains that the node selector excludes count only if the policy says so."""
    bench = _bench(zones="ab", counts=(1, 0))

    assert _said(bench, constraint, nodeSelector={"host": "n0"}) == said


def test_tainted_nodes():
    """Tainted nodes are domains unless the policy honours taints."""
    bench = _bench(zones="a", counts=(1,))
    bench.node("tainted", zone="b", taints=[{"key": "k", "effect": "NoSchedule"}])

    assert _said(bench, _constraint()) == (SKEWED, "")
    assert _said(bench, _constraint(nodeTaintsPolicy="Honor")) == ("", "")


def test_removing_a_pod_helps():
    """A node passes the filter without one pod in preemption's copy of the state, not in the state itself."""
    bench, state = _bench(zones="ab", counts=(2, 1)), CycleState()
    plugin = PodTopologySpread(bench.handle, {})
    made = pod(labels=APP, topologySpreadConstraints=[_constraint()])
    plugin.pre_filter(state, made, bench.cache.nodes())
    node, copy = bench.cache.node("n0").clone(), state.clone()
    victim = next(iter(node.pods.values()))

    assert not plugin.filter(copy, made, node).is_success
    plugin.remove_pod(copy, made, victim, node)
    assert plugin.filter(copy, made, node).is_success
    assert not plugin.filter(state, made, node).is_success


def test_soft_constraints_score():
    """The fewer there are, the better; nodes without the key get nothing."""
    bench = _bench(zones=("a", "b", ""), counts=(3, 1, 0))
    plugin = PodTopologySpread(bench.handle, {})
    made = pod(labels=APP, topologySpreadConstraints=[_constraint(when="ScheduleAnyway")])

    assert bench.scored(plugin, made) == {"n0": 25, "n1": 100, "n2": 0}


_OWNER = {"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
_REPLICA_SET = {
    "metadata": {"namespace": "default", "name": "rs", "uid": "rs"},
    "spec": {"selector": {"matchLabels": APP}},
}
_SERVICE = {"metadata": {"namespace": "default", "name": "s"}, "spec": {"selector": APP}}


@pytest.mark.parametrize(
    ("objects", "owner", "spreads"),
    [
        pytest.param({"ReplicaSet": [_REPLICA_SET]}, _OWNER, True, id="controller"),
        pytest.param({"Service": [_SERVICE]}, None, True, id="service"),
        pytest.param({}, _OWNER, False, id="unknown-controller"),
        pytest.param({}, None, False, id="bare"),
    ],
)
def test_system_defaults_spread_siblings(objects, owner, spreads):
    """Pods of a service or a controller are spread softly, others not at all."""
    bench = _bench(objects=objects)
    scores = bench.scored(PodTopologySpread(bench.handle, {}), pod(labels=APP, owner=owner))

    assert (scores is not None and scores["n2"] > scores["n0"]) is spreads


def test_configured_defaults():
    """`defaultingType: List` replaces the system's constraints, hard ones included."""
    bench = _bench(objects={"Service": [_SERVICE]})
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    plugin = PodTopologySpread(bench.handle, {"defaultingType": "List", "defaultConstraints": [constraint]})

    assert tuple(bench.filtered(plugin, pod(labels=APP)).values()) == (SKEWED, SKEWED, "")


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, pod("a", labels=APP).pod, True, id="added"),
        pytest.param(pod("a", labels=APP).pod, None, True, id="deleted"),
        pytest.param(None, pod("a").pod, False, id="stranger"),
        pytest.param(pod("a").pod, pod("a", labels=APP).pod, True, id="relabelled"),
        pytest.param(None, pod("a", labels=APP, namespace="other").pod, False, id="elsewhere"),
    ],
)
def test_pod_hints(old, new, helps):
    """Only pods that the constraints are about wake a waiting pod."""
    hint = PodTopologySpread(_bench().handle, {}).events_to_register()[0].hint
    waiting = pod(labels=APP, topologySpreadConstraints=[_constraint()]).pod

    assert hint(waiting, old, new) is helps


_MB = 1024 * 1024


def test_images_that_are_there_already():
    """Large images count, the more so the more nodes have them; an image without tag is the latest."""
    bench = Bench()
    bench.node("large", images=[("app:latest", 511 * _MB)])
    bench.node("small", images=[("app:latest", 10 * _MB)])
    bench.node("none")
    plugin = ImageLocality(bench.handle)
    made = pod(containers=[{"name": "c", "image": "app"}])

    assert bench.scored(plugin, made) == {"large": 32, "small": 0, "none": 0}
    assert bench.scored(plugin, pod(containers=[{"name": "c", "image": "other"}])) is None
    bench.cache.remove_node("large")
    bench.cache.remove_node("small")
    assert bench.scored(plugin, made) is None
    assert normalized("registry:5000/app") == "registry:5000/app:latest"
