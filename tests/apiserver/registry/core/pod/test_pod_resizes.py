"""Tests resizes of pods by an update, as 1.27 to 1.31 had them with InPlacePodVerticalScaling."""

from copy import deepcopy
from typing import Any

import pytest
from rule_checks import Rules

from kubeskew.apiserver.registry.core.pod.strategy import mark_proposed
from kubeskew.apiserver.registry.core.pod.validation import put_back_amounts

GATE = "InPlacePodVerticalScaling"
HUGE = "hugepages-2Mi"


def pod(**resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": resources}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container]}}


def change(**resources: Any) -> dict[str, Any]:
    return {"spec": pod(**resources)["spec"]}


SMALL = {"requests": {"cpu": "500m", "memory": "64Mi"}}
LARGE = {"requests": {"cpu": "1", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("minor", "gate", "allowed"),
    [(27, True, True), (31, True, True), (27, False, False), (32, True, False), (36, True, False)],
)
def test_an_update_resizes_a_pod_while_the_feature_is_alpha(minor: int, gate: bool, allowed: bool) -> None:
    """Up to 1.31 an update may change requests if the gate is on; since 1.32 the subresource alone may."""
    found = Rules("", "pods", minor, **{GATE: gate}).change_errors(pod(**SMALL), change(**LARGE))
    assert (found == []) is allowed
    if not allowed:
        assert "pod updates may not change fields other than" in found[0]
        assert "for CPU/memory only" not in found[0]


def test_other_resources_may_not_change_and_the_text_says_which_may() -> None:
    """The amounts of anything but CPU and memory stay, and the text of 1.27 names what may change."""
    before = {"requests": {"cpu": "1", HUGE: "2Mi"}, "limits": {HUGE: "2Mi"}}
    after = {"requests": {"cpu": "1", HUGE: "4Mi"}, "limits": {HUGE: "4Mi"}}
    (found,) = Rules("", "pods", 27, **{GATE: True}).change_errors(pod(**before), change(**after))
    assert found.startswith("spec: Forbidden: pod updates may not change fields other than ")
    assert "previously negative),`spec.containers[*].resources` (for CPU/memory only)\n" in found


@pytest.mark.parametrize(("minor", "refused_by_class"), [(27, True), (31, True), (36, False)])
def test_the_class_of_a_pod_stays(minor: int, refused_by_class: bool) -> None:
    """An update that would make a burstable pod guaranteed gets an error of its own."""
    limits = {"limits": {"cpu": "1", "memory": "64Mi"}}
    found = Rules("", "pods", minor, **{GATE: True}).change_errors(pod(**SMALL), change(**LARGE, **limits))
    qos = 'metadata: Invalid value: "Burstable": Pod QoS is immutable'
    assert (qos in found) is refused_by_class


@pytest.mark.parametrize(
    ("after", "before", "munged"),
    [
        (LARGE, SMALL, SMALL),
        (
            {"requests": {"memory": "1Gi", HUGE: "2Mi"}},
            SMALL,
            {"requests": {**SMALL["requests"], HUGE: "2Mi"}},
        ),
        ({"limits": {"cpu": "1"}, **SMALL}, SMALL, SMALL),
        (LARGE, {}, {}),
        ({}, SMALL, SMALL),
    ],
)
def test_what_a_resize_may_change_is_put_back(after: Any, before: Any, munged: Any) -> None:
    """Amounts of CPU and memory become those of before, and a list that was not there is dropped."""
    spec = pod(**after)["spec"]
    put_back_amounts(spec, pod(**before)["spec"])
    assert spec == pod(**munged)["spec"]


@pytest.mark.parametrize(
    ("given", "by_update", "resize"),
    [
        ({"allocatedResources": SMALL["requests"]}, True, "Proposed"),
        ({"allocatedResources": LARGE["requests"]}, True, None),
        ({}, True, "Proposed"),
        (None, True, None),
        (None, False, "Proposed"),
    ],
)
def test_a_resize_is_proposed(given: Any, by_update: bool, resize: str | None) -> None:
    """An update proposes what the container was not given; without its status nothing is proposed before
    1.32."""
    status = {} if given is None else {"containerStatuses": [{"name": "c", **given}]}
    old = {**pod(**SMALL), "status": status}
    new = {**deepcopy(pod(**LARGE)), "status": status}
    mark_proposed(new, old, by_update=by_update)
    assert new["status"].get("resize") == resize
    assert "resize" not in old["status"]
