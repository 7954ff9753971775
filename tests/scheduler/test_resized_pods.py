"""Pods that are being resized: what of them counts on their node, by release and gate."""

from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.event_handlers import resized
from kubeskew.scheduler.features import ResizingFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo

INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def features(version: str = "1.36", *, gate: bool = True) -> ResizingFeatures:
    return ResizingFeatures.of(FeatureGates(Version.parse(version), {"InPlacePodVerticalScaling": gate}))


def report(allocated: str, actual: str, name: str = "c") -> dict[str, Any]:
    """The status of a container that was allocated so much cpu, and has so much."""
    return {
        "name": name,
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}},
    }


def pod(asked: str, *reports: dict[str, Any], **status: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": asked}} if asked else {}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"containerStatuses": [*reports], **status}}


@pytest.mark.parametrize(
    ("version", "found", "cpu"),
    [
        ("1.36", pod("2"), 2000),
        ("1.36", pod("2", report("2", "2")), 2000),
        ("1.36", pod("3", report("2", "2"), **DEFERRED), 3000),
        ("1.36", pod("100", report("2", "2"), **INFEASIBLE), 2000),
        ("1.36", pod("1", report("2", "2")), 2000),  # it has still to shrink
        ("1.36", pod("1", report("1", "2")), 2000),
        ("1.31", pod("1", report("1", "2")), 1000),  # what it has did not count yet
        ("1.31", pod("100", report("2", "2"), resize="Infeasible"), 2000),
        ("1.31", pod("1", {"name": "c", "allocatedResources": {"cpu": "2"}}), 2000),
        ("1.33", pod("1", {"name": "c", "allocatedResources": {"cpu": "2"}}), 1000),  # without what it has
        ("1.32", pod("1", report("2", "1")), 1000),  # 1.32 did not look at what it was allocated
        ("1.32", pod("1", report("1", "2")), 2000),
        ("1.32", pod("100", report("2", "1"), resize="Infeasible"), 1000),
        ("1.33", pod("3", report("2", "2"), resize="Infeasible"), 3000),  # of a node before 1.33
        ("1.32", pod("3", report("2", "2"), **INFEASIBLE), 3000),  # of a node since 1.33
    ],
)
def test_the_most_of_what_is_asked_allocated_and_had_counts(version: str, found: Any, cpu: int) -> None:
    """A container counts with what it asks for, unless its node cannot have it, and what it has still."""
    info = PodInfo(found, resized(found, features(version)))

    assert info.requests["cpu"] == cpu == info.scored_requests["cpu"]


def test_without_the_gate_specs_alone_count() -> None:
    """A scheduler whose gate is off does not look at statuses."""
    found = pod("1", report("2", "2"))

    assert resized(found, features(gate=False)) == {}


@pytest.mark.parametrize(("version", "cpu"), [("1.32", 1000), ("1.33", 3000)])
def test_sidecars_count_by_their_status_since_1_33(version: str, cpu: int) -> None:
    """Sidecars count with what they have since 1.33; other init containers never do."""
    found = pod("500m", report("500m", "500m"))
    init = [{"name": name, "resources": {"requests": {"cpu": "500m"}}} for name in ("side", "first")]
    found["spec"]["initContainers"] = [{**init[0], "restartPolicy": "Always"}, init[1]]
    found["status"]["initContainerStatuses"] = [report("2500m", "2500m", "side"), report("9", "9", "first")]

    assert PodInfo(found, resized(found, features(version))).requests["cpu"] == cpu


@pytest.mark.parametrize(
    ("found", "panics"),
    [
        (pod("", report("1", "1")), True),
        (pod("1", report("1", "1")), False),
        (pod("", {"name": "c", "resources": {}}), False),
        # if the resize is infeasible, to what the container has comes what it was allocated
        (pod("", report("1", "1"), **INFEASIBLE), False),
        (pod("1", {"name": "c", "resources": {}, "allocatedResources": {"cpu": "1"}}, **INFEASIBLE), True),
    ],
)
def test_amounts_that_come_to_none_are_a_panic(found: Any, panics: bool) -> None:
    """A container without requests whose status has some is a panic with 132895, and counts without."""
    if panics:
        with pytest.raises(Panic, match="assignment to entry in nil map"):
            resized(found, features("1.33.3"))
    else:
        resized(found, features("1.33.3"))
    resized(found, features("1.33.4"))
