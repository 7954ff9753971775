"""Decisions of the scheduler by release and gates."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.generations import Generations


@pytest.mark.parametrize(
    ("version", "gates", "plugin", "devices", "drivers"),
    [
        ("1.25+kep3063", {}, True, False, True),
        ("1.25+kep3063", {"DynamicResourceAllocation": False}, False, False, False),
        ("1.26", {}, False, False, False),
        ("1.26", {"DynamicResourceAllocation": True}, True, False, True),
        ("1.29+kep4381", {}, True, False, True),
        ("1.29+kep4381", {"DynamicResourceAllocation": False}, False, False, False),
        ("1.30", {"DynamicResourceAllocation": True}, True, False, True),
        ("1.31", {"DynamicResourceAllocation": True}, True, True, False),
        ("1.31", {"DynamicResourceAllocation": True, "DRAControlPlaneController": True}, True, True, True),
        ("1.32", {"DynamicResourceAllocation": True}, True, True, False),
        ("1.33", {"DRAPartitionableDevices": True}, False, False, False),
        ("1.36", {}, True, True, False),
    ],
)
def test_who_allocates_claims(version, gates, plugin, devices, drivers):
    """Drivers up to 1.31, by a gate of its own at last; the scheduler from 1.31 on."""
    version = Version.parse(version)
    features = SchedulerFeatures.of(FeatureGates(version, gates))

    assert features.dynamic_resources is plugin
    assert features.devices is devices
    assert Generations.of(FeatureGates(version, gates)).drivers_allocate is drivers


@pytest.mark.parametrize(
    ("version", "finalizer"),
    [
        ("1.29", ""),
        ("1.29+kep4381", "semantic.dra.k8s.io/delete-protection"),
        ("1.30", "dra.k8s.io/delete-protection"),
        ("1.31", ""),
    ],
)
def test_which_classic_releases_allocate_some_claims_themselves(version, finalizer):
    """Releases that allocate some claims themselves mark those by a finalizer of their own."""
    gates = {"DynamicResourceAllocation": True, "DRAControlPlaneController": True}
    version = Version.parse(version)
    known = {gate: on for gate, on in gates.items() if version.minor == 31 or gate[:3] == "Dyn"}

    assert ClassicFeatures.of(FeatureGates(version, known)).finalizer == finalizer


@pytest.mark.parametrize(
    ("version", "stops", "named", "resolvable", "metrics"),
    [
        ("1.28", True, False, True, ("scheduler_scheduler_cache_size",)),
        ("1.29", False, True, True, ("scheduler_scheduler_cache_size",)),
        ("1.32", False, True, True, ("scheduler_scheduler_cache_size",)),
        ("1.33", False, True, True, ("scheduler_scheduler_cache_size", "scheduler_cache_size")),
        ("1.34", False, True, False, ("scheduler_cache_size",)),
    ],
)
def test_when_texts_and_names_changed(version, stops, named, resolvable, metrics):
    """Of preemption, of nodes that are too small, and the name of the metric of the cache."""
    version = Version.parse(version)
    features = SchedulerFeatures.of(FeatureGates(version, {}))

    assert features.double_full_stop is stops
    assert features.preemptor_in_event is named
    assert features.fit_resolvable is resolvable
    assert features.cache_sizes == metrics
