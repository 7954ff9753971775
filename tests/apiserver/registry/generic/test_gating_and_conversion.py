"""Fields of gates that are off are dropped; versions convert into each other."""

import copy
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.conversion import convert, converters
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.kubelet.features import KubeletFeatures

V36 = Version(36)
CLAIM = "io.k8s.api.resource.v1.ResourceClaim"
POD = "io.k8s.api.core.v1.Pod"
SLICE = "io.k8s.api.resource.v1.ResourceSlice"


def dropped(new: Any, old: Any, definition: str, **gates: bool) -> Any:
    chosen = FeatureGates(V36, gates)
    result = copy.deepcopy(new)
    drop_disabled(result, old, catalogue_for(V36, chosen).definition(definition), chosen)
    return result


def device(**fields: Any) -> Any:
    return {"spec": {"devices": [{"name": "d", **fields}]}}


def test_a_field_goes_with_its_gate_unless_the_old_object_used_it() -> None:
    """A field whose gate is off is dropped on create, and on update unless the old object used it."""
    claim = {"spec": {}, "status": {"devices": [{"driver": "d"}]}}
    off = {"DRAResourceClaimDeviceStatus": False}
    assert dropped(claim, None, CLAIM) == claim
    assert dropped(claim, None, CLAIM, **off) == {"spec": {}, "status": {}}
    assert dropped(claim, {"spec": {}, "status": {}}, CLAIM, **off) == {"spec": {}, "status": {}}
    assert dropped(claim, claim, CLAIM, **off) == claim


def test_one_field_in_use_keeps_all_fields_of_its_gate() -> None:
    """Per gate, not per field."""
    off = {"DRAPartitionableDevices": False}
    old = device(consumesCounters=[{"counterSet": "s"}])
    new = device(nodeName="n", taints=[])
    assert dropped(new, old, SLICE, **off) == new
    assert dropped(new, device(), SLICE, **off) == device(taints=[])


def test_two_gates_are_both_needed_for_binding_conditions() -> None:
    """The second gate alone takes the fields away."""
    new = device(bindingConditions=["c"], bindingFailureConditions=["f"])
    assert dropped(new, None, SLICE) == new
    assert dropped(new, None, SLICE, DRAResourceClaimDeviceStatus=False) == device()


@pytest.mark.parametrize(("minor", "stay"), [(34, True), (35, False), (36, False)])
def test_tolerations_of_requests_go_with_their_gate(minor: int, stay: bool) -> None:
    """A server with 132927 keeps them; one without keeps them where the old claim has any."""
    chosen = FeatureGates(Version(minor), {"DRADeviceTaints": False})
    schema = catalogue_for(Version(minor), chosen).definition(CLAIM)
    tolerations = [{"operator": "Exists"}]
    plain = {"name": "r", "exactly": {"deviceClassName": "c"}}
    tolerant = {"name": "r", "exactly": {"deviceClassName": "c", "tolerations": tolerations}}
    allocated = {"allocation": {"devices": {"results": [{"request": "r", "tolerations": tolerations}]}}}
    claim: Any = {"spec": {"devices": {"requests": [tolerant]}}, "status": allocated}
    new, updated = copy.deepcopy(claim), copy.deepcopy(claim)
    drop_disabled(new, None, schema, chosen)
    drop_disabled(updated, claim, schema, chosen)

    assert new["spec"]["devices"]["requests"] == [tolerant if stay else plain]
    assert new["status"] == allocated
    assert updated == claim


@pytest.mark.parametrize(("minor", "stay"), [(34, True), (35, False), (36, False)])
def test_a_release_keeps_more_fields_of_claims_than_its_gates_allow(minor: int, stay: bool) -> None:
    """A server with 134962 keeps the attribute that devices differ in, and none the conditions of results."""
    off = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    chosen = FeatureGates(Version(minor), off)
    result = {"request": "r", "bindingConditions": ["a"], "bindingFailureConditions": ["b"]}
    claim: Any = {
        "spec": {"devices": {"constraints": [{"distinctAttribute": "example.com/a"}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    new = copy.deepcopy(claim)
    drop_disabled(new, None, catalogue_for(Version(minor), chosen).definition(CLAIM), chosen)

    assert new["spec"] == (claim["spec"] if stay else {"devices": {"constraints": [{}]}})
    results = new["status"]["allocation"]["devices"]["results"]
    assert results == [{"request": "r"}]


REQUESTS = [
    (
        {"name": "r", "deviceClassName": "c", "count": 2},
        {"name": "r", "exactly": {"deviceClassName": "c", "count": 2}},
    ),
    ({"name": "r", "firstAvailable": [{"name": "s"}]}, {"name": "r", "firstAvailable": [{"name": "s"}]}),
    ({"name": "r", "adminAccess": False}, {"name": "r", "exactly": {"adminAccess": False}}),
]


@pytest.mark.parametrize("minor", range(27, 38))
def test_a_server_keeps_the_resources_that_its_kubelets_report(minor: int) -> None:
    """Allocated resources of containers are kept where kubelets of that release report them, so that these
    need not write them again and again: with in-place resizing, in 1.32 with another gate next to it."""
    version = Version(minor)
    status = {"name": "c", "allocatedResources": {"cpu": "1"}}
    for gates in ({}, {"InPlacePodVerticalScaling": True}):
        chosen = FeatureGates(version, gates if minor < 35 else {})
        pod: Any = {"spec": {}, "status": {"containerStatuses": [dict(status)]}}
        drop_disabled(pod, None, catalogue_for(version, chosen).definition(POD), chosen)
        kept = "allocatedResources" in pod["status"]["containerStatuses"][0]
        assert kept == KubeletFeatures.of(chosen).allocated_resources


@pytest.mark.parametrize(("inline", "flat"), REQUESTS)
def test_requests_change_their_shape(inline: Any, flat: Any) -> None:
    """v1beta1 holds the exact request inline; v1beta2 and v1 do not."""
    old = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {}}
    old["spec"] = {"devices": {"requests": [inline]}}  # type: ignore[assignment]
    new = convert(old, GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim"))
    assert new["spec"]["devices"]["requests"] == [flat]
    assert new["apiVersion"] == "resource.k8s.io/v1"
    back = convert(new, GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceClaim"))
    assert back == old


def test_devices_are_wrapped_in_basic_again() -> None:
    """v1beta1 always has the wrapper; a false allNodes is lost on the way."""
    new = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {
            "driver": "d",
            "allNodes": False,
            "devices": [{"name": "a"}, {"name": "b", "attributes": {"x": {}}}],
        },
    }
    old = convert(new, GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceSlice"))
    wrapped = [{"name": "a", "basic": {}}, {"name": "b", "basic": {"attributes": {"x": {}}}}]
    assert old["spec"] == {"driver": "d", "devices": wrapped}
    assert new["spec"]["devices"][0] == {"name": "a"}  # type: ignore[index]


def test_capacities_are_plain_quantities_in_the_first_alpha() -> None:
    """v1alpha3 has no wrapper around the value."""
    old = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlice"}
    old["spec"] = {"devices": [{"name": "a", "basic": {"capacity": {"memory": "1Gi"}}}]}  # type: ignore[assignment]
    new = convert(old, GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceSlice"))
    assert new["spec"]["devices"][0]["basic"]["capacity"] == {"memory": {"value": "1Gi"}}
    assert (
        convert(new, GroupVersionKind("resource.k8s.io", "v1alpha3", "ResourceSlice"))["spec"] == old["spec"]
    )


def test_fields_that_the_older_version_lacks_are_lost() -> None:
    """Converting along a catalogue normalises."""
    catalogue = catalogue_for(V36)
    event = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "n",
        "regarding": {"kind": "Pod"}, "reportingController": "c", "bogus": 1,
    }  # fmt: skip
    core = convert(event, GroupVersionKind("", "v1", "Event"), catalogue)
    assert (core["message"], core["involvedObject"], core["reportingComponent"]) == (
        "n",
        {"kind": "Pod"},
        "c",
    )
    assert "bogus" not in core


def test_an_autoscaler_survives_the_old_version() -> None:
    """Fields that autoscaling/v1 does not have are kept in annotations."""
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    new = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "status": {},
    }
    new["spec"] = {"metrics": [pods, cpu], "behavior": {"scaleUp": {"selectPolicy": "Max"}}}
    old = convert(new, GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"))
    assert old["spec"] == {"targetCPUUtilizationPercentage": 50}
    prefix = "autoscaling.alpha.kubernetes.io"
    rules = '{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":null,"Tolerance":null}'
    assert old["metadata"]["annotations"] == {
        f"{prefix}/metrics": '[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1"}}]',
        f"{prefix}/behavior": f'{{"ScaleUp":{rules},"ScaleDown":null}}',
    }
    back = convert(old, GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"))
    assert back == new


@pytest.mark.parametrize(
    ("given", "zero_values", "back"),
    [
        ({"type": "AverageValue", "averageValue": "5"}, True, {"value": "0"}),
        ({"type": "AverageValue", "averageValue": "5"}, False, {}),
        ({"type": "AverageValue", "averageValue": "5", "value": "2"}, False, {}),
        ({"type": "Value", "value": "0"}, False, {}),
        ({"type": "AverageValue", "averageValue": "5", "value": "no amount"}, False, {}),
    ],
)
def test_an_object_metric_comes_back_without_the_value_that_v1_has_to_have(
    given: Any, zero_values: bool, back: Any
) -> None:
    """A value of 0 next to an average value is taken for one by a server with 137856 alone."""
    source = {"metric": {"name": "m"}, "describedObject": {"kind": "Pod", "name": "p"}}
    scaler: Any = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {}}
    scaler["spec"] = {"metrics": [{"type": "Object", "object": {**source, "target": given}}]}
    scaler["status"] = {"currentMetrics": [{"type": "Object", "object": {**source, "current": given}}]}
    old = convert(scaler, GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"))
    v2 = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
    new = convert(old, v2, by=converters(zero_metric_values=zero_values))

    assert new["spec"]["metrics"][0]["object"]["target"] == {**given, **back}
    current = {name: value for name, value in given.items() if name != "type"}
    assert new["status"]["currentMetrics"][0]["object"]["current"] == {"value": "0", **current}
