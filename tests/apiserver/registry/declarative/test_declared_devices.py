"""The declared rules of resource.k8s.io find what the hand-written ones find, where a minor has both."""

from typing import Any

import pytest
from declared_differences import MINORS, declared, differences
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.resource.deviceclass import class_errors
from kubeskew.apiserver.registry.resource.resourceclaim.status_validation import claim_status_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import claim_spec_errors
from kubeskew.apiserver.registry.resource.resourceslice.validation import slice_errors


def gates_of(minor: int) -> FeatureGates:
    version = Version(minor)
    known = FeatureGates(version).known()
    return FeatureGates(version, {name: True for name in known if name.startswith("DRA")})


def by_hand_rules(minor: int) -> DRAFeatures:
    return Features.of(gates_of(minor)).devices


# --- claims ------------------------------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "c-1", "", "A", "a.b", "x" * 64])
DRIVERS = st.sampled_from(["dra.example.com", "Dra.example.com", "", "_", "x" * 64])
QUALIFIED = st.sampled_from(["a.com/x", "x", "/x", "a.com/", "a.com/" + "x" * 33, "a.b/1"])
MODES = st.sampled_from(["ExactCount", "All"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "Odd"])


def upto(values: st.SearchStrategy[Any], *sizes: int) -> st.SearchStrategy[list[Any]]:
    """Short lists, and lists of exactly these sizes."""
    exact = [st.lists(values, min_size=size, max_size=size) for size in sizes]
    return st.one_of(st.lists(values, min_size=1, max_size=3), *exact)


TOLERATIONS = st.fixed_dictionaries(
    {"key": st.just("k"), "operator": st.sampled_from(["Exists", "Equal", "No"]), "effect": EFFECTS}
)
SELECTORS = st.just({"cel": {"expression": "true"}})
EXACT = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from(["gpu", "", "A_"]), "allocationMode": MODES},
    optional={"selectors": upto(SELECTORS, 33), "tolerations": upto(TOLERATIONS, 17)},
)
SUB = st.fixed_dictionaries(
    {"name": LABELS, "deviceClassName": st.sampled_from(["gpu", ""]), "allocationMode": MODES}
)
REQUESTS = st.one_of(
    st.fixed_dictionaries({"name": LABELS, "exactly": EXACT}),
    st.fixed_dictionaries({"name": LABELS, "firstAvailable": upto(SUB, 9)}),
)
CONSTRAINTS = st.fixed_dictionaries({"matchAttribute": QUALIFIED}, optional={"requests": upto(LABELS, 33)})
OPAQUE = st.fixed_dictionaries({"driver": DRIVERS, "parameters": st.just({"a": 1})})
CONFIGS = st.fixed_dictionaries({"opaque": OPAQUE}, optional={"requests": upto(LABELS, 33)})
CLAIM_SPECS = st.fixed_dictionaries(
    {"requests": upto(REQUESTS, 33)},
    optional={"constraints": upto(CONSTRAINTS, 33), "config": upto(CONFIGS, 33)},
)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
QUICK = settings(max_examples=12, deadline=None, suppress_health_check=SLOW)


@pytest.mark.parametrize("minor", MINORS)
@QUICK
@given(devices=CLAIM_SPECS)
@example(
    devices={"requests": [{"name": "a", "exactly": {"deviceClassName": "", "allocationMode": "All"}}] * 33}
)
def test_claims(minor: int, devices: Any) -> None:
    """The specs of new claims."""
    spec = {"devices": devices}

    assert (
        differences(
            minor,
            "ResourceClaim",
            claim_spec_errors(spec, "spec", by_hand_rules(minor), stored=False),
            {"spec": spec},
        )
        == set()
    )


def test_a_claim_keeps_its_spec() -> None:
    """A changed spec is one error in both, and nothing in it is looked at."""
    old, new = ({"spec": {"devices": {"requests": [{"name": name}]}}} for name in ("a", "_"))

    for minor in MINORS:
        assert [str(error) for error in declared(minor, "ResourceClaim", new, old)] == [
            "spec: Invalid value: null: field is immutable"
        ]
        assert declared(minor, "ResourceClaim", old, old) == []


# --- classes, slices, statuses of claims -------------------------------------------------------------------

CLASS_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "selectors": upto(SELECTORS, 33),
        "config": upto(st.fixed_dictionaries({"opaque": OPAQUE}), 33),
        "extendedResourceName": st.sampled_from(
            ["", "gpu", "a.com/gpu", "kubernetes.io/gpu", "requests.a.com/x", "A.com/x", "a.com/", "a/b/c"]
        ),
    },
)


@pytest.mark.parametrize("minor", MINORS)
@QUICK
@given(spec=CLASS_SPECS)
def test_classes(minor: int, spec: Any) -> None:
    """The specs of new classes."""
    assert (
        differences(minor, "DeviceClass", class_errors(spec, None, by_hand_rules(minor)), {"spec": spec})
        == set()
    )


ATTRIBUTES = st.sampled_from(
    [{"int": 1}, {"bool": False}, {"string": "a"}, {"version": "1.2.3"}, {}, {"int": 1, "string": "a"}]
)
TAINTS = st.fixed_dictionaries(
    {"key": st.just("k"), "effect": st.sampled_from(["NoSchedule", "NoExecute", "Odd", ""])}
)
COUNTERS = st.just({"c": {"value": "1"}})
CONSUMED = st.fixed_dictionaries({"counterSet": LABELS, "counters": COUNTERS})
CONDITIONS = st.sampled_from(["a", "b"])
DEVICES = st.fixed_dictionaries(
    {"name": LABELS},
    optional={
        "attributes": st.dictionaries(st.sampled_from(["a", "b"]), ATTRIBUTES, max_size=2),
        "taints": upto(TAINTS),
        "consumesCounters": upto(CONSUMED, 3),
        "bindingConditions": st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=6, unique=True),
    },
)
SETS = st.fixed_dictionaries({"name": LABELS, "counters": COUNTERS})
POOL = st.just({"name": "p", "generation": 1, "resourceSliceCount": 1})
SLICE_SPECS = st.fixed_dictionaries(
    {
        "driver": st.just("dra.example.com"),
        "pool": POOL,
        "allNodes": st.just(True),
    },
    optional={"devices": upto(DEVICES), "sharedCounters": upto(SETS, 9)},
)


@pytest.mark.parametrize("minor", MINORS)
@QUICK
@given(spec=SLICE_SPECS)
def test_slices(minor: int, spec: Any) -> None:
    """The specs of new slices."""
    assert (
        differences(minor, "ResourceSlice", slice_errors(spec, None, by_hand_rules(minor)), {"spec": spec})
        == set()
    )


POOL_NAMES = st.sampled_from(["p", "", "a//B"])
RESULTS = st.fixed_dictionaries(
    {
        "request": st.just("r"),
        "driver": DRIVERS,
        "pool": POOL_NAMES,
        "device": LABELS,
    },
    optional={"tolerations": upto(TOLERATIONS), "shareID": st.sampled_from(["x", "A" * 36])},
)
UIDS = st.sampled_from(["u", "v", ""])
RESERVED = st.fixed_dictionaries({"resource": st.just("pods"), "name": st.just("p"), "uid": UIDS})
STATUSES = st.fixed_dictionaries(
    {"allocation": st.fixed_dictionaries({"devices": st.fixed_dictionaries({"results": upto(RESULTS, 33)})})},
    optional={"reservedFor": upto(RESERVED, 257)},
)


@pytest.mark.parametrize("minor", MINORS)
@QUICK
@given(status=STATUSES)
def test_statuses(minor: int, status: Any) -> None:
    """The first status of a claim."""
    spec = {
        "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]}
    }
    old = {"metadata": {"name": "c"}, "spec": spec, "status": {}}
    new = {**old, "status": status}

    assert (
        differences(minor, "ResourceClaim", claim_status_errors(new, old, by_hand_rules(minor)), new, old)
        == set()
    )
