"""InterPodAffinity: near to some pods, away from others."""

import pytest
from plugin_bench import Bench, pod

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import EventResource
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.plugins.interpodaffinity import InterPodAffinity, hints

NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"


def _term(app, key="zone", **rest):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **rest}


def _near(*terms):
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def _far(*terms):
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def _preferred(kind, weight, term):
    weighted = {"weight": weight, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _bench(**objects):
    bench = Bench(objects=objects)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        bench.node(name, zone=zone)
    bench.node("nowhere")
    return bench


def _plugin(bench, **args):
    return InterPodAffinity(bench.handle, args)


@pytest.mark.parametrize(
    ("labels", "affinity", "said"),
    [
        pytest.param({}, _near(_term("db")), ("", "", NOT_NEAR, NOT_NEAR), id="near"),
        pytest.param({}, _near(_term("db", "host")), ("", NOT_NEAR, NOT_NEAR, NOT_NEAR), id="same-host"),
        pytest.param({}, _far(_term("db")), (TOO_NEAR, TOO_NEAR, "", ""), id="far"),
        pytest.param({"app": "x"}, _near(_term("x")), ("", "", "", NOT_NEAR), id="first-of-its-kind"),
        pytest.param({}, _near(_term("x")), (NOT_NEAR,) * 4, id="near-nobody"),
        pytest.param({}, _near(_term("db"), _term("x")), (NOT_NEAR,) * 4, id="all-terms-at-once"),
        pytest.param({}, _near(_term("db", namespaces=["other"])), (NOT_NEAR,) * 4, id="namespace"),
        pytest.param(
            {},
            _near(_term("db", namespaceSelector={"matchLabels": {"team": "t"}})),
            ("", "", NOT_NEAR, NOT_NEAR),
            id="namespace-selector",
        ),
        pytest.param(
            {}, _near(_term("db", namespaceSelector={})), ("", "", NOT_NEAR, NOT_NEAR), id="all-namespaces"
        ),
    ],
)
def test_required_terms(labels, affinity, said):
    """Filter passes or rejects each of four nodes, by the zone's pods and the required terms."""
    bench = _bench(Namespace=[{"metadata": {"name": "default", "labels": {"team": "t"}}}])
    bench.running("a1", "db", labels={"app": "db"})

    assert tuple(bench.filtered(_plugin(bench), pod(labels=labels, affinity=affinity)).values()) == said


def test_existing_pods_keep_others_away():
    """Anti-affinity works in both directions."""
    bench = _bench()
    bench.running("a1", "shy", affinity=_far(_term("x")))
    plugin = _plugin(bench)

    assert bench.filtered(plugin, pod(labels={"app": "y"})) == "Skip"
    assert bench.filtered(plugin, pod(labels={"app": "x"})) == {
        "a1": UNWANTED,
        "a2": UNWANTED,
        "b1": "",
        "nowhere": "",
    }


def test_pods_without_affinity_cost_nothing():
    """The plugin skips filtering and scoring if no pod has affinity."""
    bench = _bench()
    bench.running("a1", "db", labels={"app": "db"})
    plugin = _plugin(bench)

    assert bench.filtered(plugin, pod()) == "Skip"
    assert bench.scored(plugin, pod()) is None


@pytest.mark.parametrize("affinity", [_far(_term("db")), {}], ids=["own", "of-the-victim"])
def test_removing_a_pod_helps(affinity):
    """Preemption can try what happens without a pod, and put it back; the first state stays as it was."""
    bench, state = _bench(), CycleState()
    victim = bench.running("a1", "db", labels={"app": "db"}, affinity=_far(_term("x")))
    plugin, waiting = _plugin(bench), pod(labels={"app": "x"}, affinity=affinity)
    plugin.pre_filter(state, waiting, bench.cache.nodes())
    node, copy = bench.cache.node("a1").clone(), state.clone()

    assert not plugin.filter(copy, waiting, node).is_success
    plugin.remove_pod(copy, waiting, victim, node)
    assert plugin.filter(copy, waiting, node).is_success
    assert not plugin.filter(state, waiting, node).is_success
    plugin.add_pod(copy, waiting, victim, node)
    assert not plugin.filter(copy, waiting, node).is_success


@pytest.mark.parametrize(
    ("of_pod", "of_other", "scores"),
    [
        pytest.param(_preferred("podAffinity", 5, _term("db")), None, (100, 100, 0, 0), id="near"),
        pytest.param(_preferred("podAntiAffinity", 5, _term("db")), None, (0, 0, 100, 100), id="far"),
        pytest.param(None, _preferred("podAffinity", 5, _term("x")), (100, 100, 0, 0), id="other-wants-near"),
        pytest.param(
            None, _preferred("podAntiAffinity", 5, _term("x")), (0, 0, 100, 100), id="other-wants-far"
        ),
        pytest.param(None, _near(_term("x")), (100, 100, 0, 0), id="other-requires"),
    ],
)
def test_preferred_terms(of_pod, of_other, scores):
    """Scores go from 0 to 100 between the worst and the best node."""
    bench = _bench()
    bench.running("a1", "db", labels={"app": "db"}, **({"affinity": of_other} if of_other else {}))
    made = pod(labels={"app": "x"}, **({"affinity": of_pod} if of_pod else {}))

    assert tuple(bench.scored(_plugin(bench), made).values()) == scores


def test_preferences_of_others_can_be_ignored():
    """`ignorePreferredTermsOfExistingPods` leaves out what others prefer."""
    bench = _bench()
    bench.running("a1", "db", affinity=_preferred("podAffinity", 5, _term("x")))

    assert (
        bench.scored(_plugin(bench, ignorePreferredTermsOfExistingPods=True), pod(labels={"app": "x"}))
        is None
    )


_DB = pod("db", labels={"app": "db"}).pod
_OTHER = pod("other", labels={"app": "other"}).pod
_SHY = pod("shy", affinity=_far(_term("x"))).pod


@pytest.mark.parametrize(
    ("affinity", "old", "new", "helps"),
    [
        pytest.param(_near(_term("db")), None, _DB, True, id="wanted-comes"),
        pytest.param(_near(_term("db")), None, _OTHER, False, id="stranger-comes"),
        pytest.param(_near(_term("db")), _OTHER, _DB, True, id="becomes-wanted"),
        pytest.param(_far(_term("db")), _DB, None, True, id="avoided-goes"),
        pytest.param(_far(_term("db")), _DB, _OTHER, True, id="avoided-changes"),
        pytest.param(_far(_term("db")), _OTHER, None, False, id="stranger-goes"),
        pytest.param({}, _SHY, None, True, id="avoiding-goes"),
    ],
)
def test_pod_hints(affinity, old, new, helps):
    """Only pods that the terms are about wake a waiting pod."""
    hint = _plugin(_bench()).events_to_register()[0].hint

    assert hint(pod(labels={"app": "x"}, affinity=affinity).pod, old, new) is helps


_EVERYWHERE = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize(
    ("affinity", "old", "new", "helps"),
    [
        pytest.param({}, _SHY, None, {"1.30": True, "1.35": False, "1.36": True}, id="avoiding-goes"),
        pytest.param(
            _far(_term("db"), _term("y")),
            _DB,
            None,
            {"1.30": True, "1.36": False, "1.37": True},
            id="one-of-two-terms",
        ),
        pytest.param(
            {},
            pod("shy", affinity=_far(_term("x"), _term("y"))).pod,
            None,
            {"1.30": True, "1.36": False, "1.37": True},
            id="one-of-two-terms-of-the-other",
        ),
        pytest.param(
            _near(_term("db", **_EVERYWHERE)),
            None,
            _DB,
            {"1.30": True, "1.31": False},
            id="namespace-selector",
        ),
    ],
)
def test_pod_hints_of_releases(affinity, old, new, helps):
    """Releases with queueing hints overlook events, each until it was mended."""
    waiting = pod(labels={"app": "x"}, affinity=affinity).pod
    found = {}
    for version in helps:
        bench = Bench(
            version, objects={"Namespace": [{"metadata": {"name": "default", "labels": {"team": "x"}}}]}
        )
        found[version] = _plugin(bench).events_to_register()[0].hint(waiting, old, new)

    assert found == helps


@pytest.mark.parametrize(("version", "helps"), [("1.30", True), ("1.35", False), ("1.36", True)])
def test_hint_of_own_labels(version, helps):
    """Up to 1.35 hints overlook that the pod itself has other labels."""
    hint = _plugin(Bench(version)).events_to_register()[1].hint
    waiting = pod(labels={"app": "x"}).pod

    assert hint(waiting, waiting, waiting) is helps


def _labelled(**labels):
    return {"metadata": {"name": "n", "labels": labels}}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param(None, _labelled(zone="a"), True, id="added"),
        pytest.param(None, _labelled(), False, id="added-without-key"),
        pytest.param(_labelled(zone="b"), _labelled(zone="a"), True, id="moved"),
        pytest.param(_labelled(zone="a"), _labelled(zone="a", x="y"), False, id="other-label"),
    ],
)
def test_node_hints(old, new, helps):
    """Only nodes with the topology keys matter."""
    hint = _plugin(_bench()).events_to_register()[2].hint

    assert hint(pod(affinity=_near(_term("db"))).pod, old, new) is helps


@pytest.mark.parametrize(
    ("affinity", "old", "new", "helps"),
    [
        pytest.param(
            _near(_term("x"), _term("x", "host")), None, {"zone": "a"}, (True, True), id="one-of-two"
        ),
        pytest.param(_near(_term("x")), {"zone": "a"}, {"zone": "a", "b": "c"}, (True, False), id="the-same"),
        pytest.param(_near(_term("x")), {"zone": "a"}, {"zone": "b"}, (True, True), id="moved"),
        pytest.param(_near(_term("x")), {"zone": "a"}, {}, (False, False), id="out-of-all-domains"),
        pytest.param(_far(_term("x")), {"zone": "a"}, {}, (False, True), id="away-from-others"),
        pytest.param(_far(_term("x")), {}, {"zone": "a"}, (True, False), id="into-a-domain"),
        pytest.param(_far(_term("x")), None, {}, (False, True), id="new"),
    ],
)
def test_changed_nodes_that_help(affinity, old, new, helps):
    """Until 1.32 a node helps if it has a label that a term names; from 1.33 the label must have changed."""
    answers = []
    for minor in (32, 33):
        features = SchedulerFeatures.of(FeatureGates(Version(minor)))
        listed = hints(lambda terms: [*terms], lambda _: {}, features.affinity_hints)
        (hint,) = (each.hint for each in listed if each.event.resource is EventResource.NODE)
        nodes = ({"metadata": {"labels": each}} if each is not None else None for each in (old, new))
        answers.append(hint(pod(affinity=affinity).pod, *nodes))

    assert tuple(answers) == helps
