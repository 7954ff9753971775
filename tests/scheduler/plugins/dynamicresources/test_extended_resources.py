"""Extended resources backed by DRA: which class, which requests, and the bookkeeping of claims."""

import pytest

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.framework.extended_resource_cache import (
    ArbitratedExtendedResources,
    IndexedExtendedResources,
    ListedExtendedResources,
    class_may_help,
)
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import VersionConverter
from kubeskew.scheduler.plugins.dynamicresources.extended_resource_claim import per_container, with_reuse


def _class(name, resource="", created="2026-01-01T00:00:00Z"):
    spec = {"extendedResourceName": resource} if resource else {}
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def _name(device_class):
    return device_class and device_class["metadata"]["name"]


def test_explicit_and_implicit_names():
    """A class is found under both of its names."""
    index = IndexedExtendedResources()
    index.set_class(None, _class("gpu", "example.com/gpu"))

    assert _name(index.class_for("example.com/gpu")) == "gpu"
    assert _name(index.class_for("deviceclass.resource.kubernetes.io/gpu")) == "gpu"
    assert index.class_for("example.com/other") is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(_class("b", "x/r", "2026-01-02T00:00:00Z"), _class("a", "x/r"), id="newer"),
        pytest.param(_class("a", "x/r"), _class("b", "x/r"), id="smaller-name"),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_newer_class_owns_a_name(first, second, swap):
    """Of two classes with one name the newer wins, then the one with the smaller name."""
    index = IndexedExtendedResources()
    for each in (second, first) if swap else (first, second):
        index.set_class(None, each)

    assert _name(index.class_for("x/r")) == _name(first)


def test_losing_class_has_no_implicit_name():
    """Upstream's quirk: the class that loses its explicit name is not found at all."""
    index = IndexedExtendedResources()
    index.set_class(None, _class("new", "x/r", "2026-02-01T00:00:00Z"))
    index.set_class(None, _class("old", "x/r"))

    assert index.class_for("deviceclass.resource.kubernetes.io/old") is None


def test_handing_a_name_over_loses_it():
    """Upstream's quirk (pull request 141110): the old class's update takes the name from the new one, as does
    its deletion, until the new one changes its name or the scheduler starts again."""
    index, old, new = IndexedExtendedResources(), _class("old", "x/r"), _class("new", "x/r", "2026-02-01")
    cleared = _class("old")
    index.set_class(None, old)
    index.set_class(None, new)
    assert _name(index.class_for("x/r")) == "new"
    index.set_class(old, cleared)
    assert index.class_for("x/r") is None

    index.set_class(new, _class("new"))
    index.set_class(_class("new"), new)
    index.remove_class(old)
    assert index.class_for("x/r") is None


def test_an_update_that_keeps_the_name_is_not_noticed():
    """Upstream's quirk: the owner of a name is not newer than itself, so the class stays as it was."""
    index = IndexedExtendedResources()
    first = _class("gpu", "x/r")
    index.set_class(None, first)
    index.set_class(first, {**first, "spec": {**first["spec"], "selectors": []}})

    assert index.class_for("x/r") is first


_WINS, _LOSES = _class("a", "x/r"), _class("b", "x/r")
_SELECTING = {**_WINS, "spec": {"extendedResourceName": "x/r", "selectors": []}}


@pytest.mark.parametrize(
    ("old", "new", "owner", "implicit"),
    [
        pytest.param(_WINS, _SELECTING, _SELECTING, _LOSES, id="changed"),
        pytest.param(_LOSES, None, _WINS, None, id="the-loser-goes"),
        pytest.param(_WINS, None, _LOSES, _LOSES, id="the-winner-goes"),
        pytest.param(_WINS, _class("a", "x/other"), _LOSES, _LOSES, id="the-winner-has-another-name"),
        pytest.param(_LOSES, _class("b", "x/other"), _WINS, _class("b", "x/other"), id="so-has-the-loser"),
        pytest.param(_WINS, _class("a"), _LOSES, _LOSES, id="handed-over"),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_after_1_37_a_name_has_the_best_of_those_that_ask_for_it(old, new, owner, implicit, swap):
    """Whatever becomes of a class, its rivals keep theirs, and implicit names are nobody else's (141110)."""
    index = ArbitratedExtendedResources()
    for each in (_LOSES, _WINS) if swap else (_WINS, _LOSES):
        index.set_class(None, each)
    assert index.class_for("x/r") is _WINS
    if new is None:
        index.remove_class(old)
    else:
        index.set_class(old, new)

    assert index.class_for("x/r") == owner
    assert index.class_for("deviceclass.resource.kubernetes.io/b") == implicit


@pytest.mark.parametrize(
    ("old", "new", "asked", "helps"),
    [
        pytest.param(None, _class("gpu"), "deviceclass.resource.kubernetes.io/gpu", True, id="implicit"),
        pytest.param(None, _class("gpu", "x/r"), "x/r", True, id="explicit"),
        pytest.param(None, _class("gpu", "x/r"), "x/other", False, id="other"),
        pytest.param(_class("gpu"), _class("gpu", "x/r"), "x/r", True, id="named"),
        pytest.param(_class("gpu", "x/r"), _class("gpu", "x/r"), "x/r", False, id="unchanged"),
        pytest.param(
            _class("gpu"),
            _class("gpu", "x/r"),
            "deviceclass.resource.kubernetes.io/gpu",
            False,
            id="was-known-before",
        ),
        pytest.param(_class("gpu", "x/r"), None, "x/r", False, id="deleted"),
    ],
)
def test_which_classes_help(old, new, asked, helps):
    """A new class helps those who ask for one of its names, an update those who ask for the new name."""
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {asked: "1"}}}]}}

    assert class_may_help(pod, old, new) is helps


@pytest.mark.parametrize(
    ("asked", "delegated"),
    [
        pytest.param({"x/r", "cpu"}, {"x/r"}, id="explicit"),
        pytest.param({"deviceclass.resource.kubernetes.io/plain", "cpu"}, None, id="only-implicit"),
        pytest.param({"x/r", "x/unknown"}, {"x/r"}, id="no-class"),
    ],
)
def test_what_the_first_release_leaves_to_dra(asked, delegated):
    """In 1.34 all that a pod with implicit names alone wants is left to DRA, and DRA does not look at it."""
    listed = ListedExtendedResources()
    listed.set_class(None, _class("gpu", "x/r"))
    listed.set_class(None, _class("plain"))

    assert listed.delegated(asked) == (asked - {"cpu"} if delegated is None else delegated)
    assert listed.delegated(asked, in_hints=True) == asked - {"cpu"}
    assert not listed.may_back("deviceclass.resource.kubernetes.io/plain")
    assert not listed.is_lacking({"x/r": 0}, "x/r")


def test_renamed_class_gives_up_its_old_name():
    """After an update only the new name leads to the class."""
    index = IndexedExtendedResources()
    old, new = _class("gpu", "x/a"), _class("gpu", "x/b")
    index.set_class(None, old)
    index.set_class(old, new)

    assert (index.class_for("x/a"), _name(index.class_for("x/b"))) == (None, "gpu")


def test_first_release_has_implicit_names_without_explicit_ones_only():
    """In 1.34 a class with a name of its own cannot be asked for by the implicit one."""
    listed = ListedExtendedResources()
    listed.set_class(None, _class("gpu", "x/r"))
    listed.set_class(None, _class("plain"))

    assert listed.class_for("deviceclass.resource.kubernetes.io/gpu") is None
    assert _name(listed.class_for("deviceclass.resource.kubernetes.io/plain")) == "plain"


def _spec(init, containers):
    """Containers as (name, {resource: number}, sidecar?)."""

    def made(name, requests, sidecar=False):
        quantities = {resource: str(number) for resource, number in requests.items()}
        return {"name": name, "resources": {"requests": quantities}} | (
            {"restartPolicy": "Always"} if sidecar else {}
        )

    return {
        "initContainers": [made(*each) for each in init],
        "containers": [made(*container) for container in containers],
    }


def _requests(claim):
    return [
        (request["name"], request["exactly"]["deviceClassName"], request["exactly"]["count"])
        for request in claim.requests
    ]


def _mappings(claim):
    return [
        (mapping["containerName"], mapping["resourceName"], mapping["requestName"])
        for mapping in claim.mappings
    ]


def _class_for(resource):
    return _class(f"class-of-{resource.rpartition('/')[2]}")


@pytest.mark.parametrize(
    ("init", "containers", "requests", "mappings"),
    [
        pytest.param(
            [("i", {"x/init": 2})],
            [("c", {"x/r": 1})],
            [("container-0-request-0", "class-of-init", 2), ("container-1-request-0", "class-of-r", 1)],
            [
                ("i", "x/init", "container-0-request-0"),
                ("c", "x/r", "container-1-request-0"),
            ],
            id="init-alone",
        ),
        pytest.param(
            [("i", {"x/init": 1}), ("j", {"x/init": 2})],
            [("c", {"x/r": 1})],
            [("container-1-request-0", "class-of-init", 2), ("container-2-request-0", "class-of-r", 1)],
            [
                ("i", "x/init", "container-1-request-0"),
                ("j", "x/init", "container-1-request-0"),
                ("c", "x/r", "container-2-request-0"),
            ],
            id="two-inits-share",
        ),
        pytest.param(
            [("i", {"x/init": 1}), ("s", {"x/init": 1}, True), ("j", {"x/init": 2})],
            [("c", {"x/r": 1})],
            [
                ("container-1-request-0", "class-of-init", 1),
                ("container-2-request-0", "class-of-init", 2),
                ("container-3-request-0", "class-of-r", 1),
            ],
            [
                ("s", "x/init", "container-1-request-0"),
                ("i", "x/init", "container-1-request-0"),
                ("j", "x/init", "container-2-request-0"),
                ("c", "x/r", "container-3-request-0"),
            ],
            id="init-uses-what-the-sidecar-will-have",
        ),
        pytest.param(
            [],
            [("c", {"cpu": 1, "x/a": 1, "x/b": 3})],
            [("container-0-request-1", "class-of-a", 1), ("container-0-request-2", "class-of-b", 3)],
            [("c", "x/a", "container-0-request-1"), ("c", "x/b", "container-0-request-2")],
            id="numbered-among-all-resources",
        ),
    ],
)
def test_requests_of_the_extended_resource_claim(init, containers, requests, mappings):
    """Long-lived containers have their own requests; init containers reuse what they can."""
    names = {"x/init", "x/r", "x/a", "x/b"}
    claim = with_reuse(_spec(init, containers), names, _class_for)

    assert _requests(claim) == requests
    assert _mappings(claim) == mappings


def test_requests_are_sorted_as_text():
    """container-10 comes before container-2."""
    containers = [(f"c{i}", {"x/r": 1}) for i in range(11)]
    names = [name for name, _, _ in _requests(with_reuse(_spec([], containers), {"x/r"}, _class_for))]

    assert names.index("container-10-request-0") < names.index("container-2-request-0")


def test_first_release_has_a_request_per_container():
    """In 1.34 init containers do not share."""
    spec = _spec([("i", {"x/r": 1})], [("c", {"x/r": 1})])

    assert [name for name, _, _ in _requests(per_container(spec, {"x/r"}, _class_for))] == [
        "container-0-request-0",
        "container-1-request-0",
    ]


def test_first_release_makes_requests_resource_by_resource():
    """In 1.34 requests come by resource and then by container, mappings by container."""
    spec = _spec([], [("a", {"x/r": 1, "x/s": 1}), ("b", {"x/r": 1})])

    claim = per_container(spec, {"x/s", "x/r"}, _class_for)

    names = ["container-0-request-0", "container-1-request-0", "container-0-request-1"]
    assert [name for name, _, _ in _requests(claim)] == names
    assert [mapping["requestName"] for mapping in claim.mappings] == [names[0], names[2], names[1]]


def _claim(name="c", uid="u", version=1, device="", admin=False, owner=""):
    claim = {
        "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": str(version)},
        "spec": {},
    }
    if owner:
        claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        claim["metadata"]["ownerReferences"] = [{"name": "p", "uid": owner, "controller": True}]
    if device:
        result = {"driver": "d", "pool": "p", "device": device} | ({"adminAccess": True} if admin else {})
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    return claim


def _in_use(tracker):
    return {device.device for device in tracker.allocated.devices}


def test_tracker_counts_devices():
    """Allocations and what is in flight occupy devices; admin access does not."""
    tracker = ClaimTracker()
    tracker.set_claim(_claim(device="a"))
    tracker.set_claim(_claim("other", "u2", device="b", admin=True))
    tracker.add_pending("u3", _claim(device="c")["status"]["allocation"])
    assert _in_use(tracker) == {"a", "c"}

    tracker.remove_claim(_claim())
    assert tracker.remove_pending("u3")
    assert not tracker.remove_pending("u3")
    assert _in_use(tracker) == set()


def test_tracker_prefers_the_newer_version():
    """An older event does not undo the tracker's own newer write."""
    tracker = ClaimTracker()
    tracker.set_claim(_claim(version=3))
    assert tracker.assume(_claim(version=5, device="a"))
    tracker.set_claim(_claim(version=4))

    assert tracker.allocated.devices == {DeviceID("d", "p", "a")}


def test_tracker_does_not_raise_the_dead():
    """The answer to a write may come after the news that the claim is gone; a namesake is another claim."""
    tracker = ClaimTracker()
    tracker.set_claim(_claim(version=4, device="a"))
    tracker.remove_claim(_claim(version=6))
    assert not tracker.assume(_claim(version=5, device="a"))
    assert tracker.allocated.devices == set()

    tracker.set_claim(_claim(uid="other", version=7))
    assert not tracker.assume(_claim(version=5, device="a"))
    assert tracker.assume(_claim(uid="other", version=8, device="a"))
    assert tracker.allocated.devices == {DeviceID("d", "p", "a")}


def test_tracker_finds_the_extended_resource_claim_of_a_pod():
    """By annotation and controller, name and UID."""
    tracker = ClaimTracker()
    tracker.set_claim(_claim(owner="pod-uid"))

    pod = {"metadata": {"name": "p", "uid": "pod-uid"}}
    assert tracker.extended_resource_claim(pod) is not None
    assert tracker.extended_resource_claim({"metadata": {"name": "q", "uid": "pod-uid"}}) is None
    tracker.remove_claim(_claim(owner="pod-uid"))
    assert tracker.extended_resource_claim(pod) is None


@pytest.mark.parametrize("minor", [31, 32, 33, 34, 36])
def test_edge_converts_both_ways(minor):
    """Claims go out in the version that the server speaks and come back in ours."""
    edge, ref = VersionConverter(Version(minor)), dra_refs(Version(minor)).claims
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}

    sent = edge.outgoing(ref, claim)
    assert sent["apiVersion"] == ref.api_version
    assert edge.incoming(ref, sent)["spec"] == claim["spec"]
