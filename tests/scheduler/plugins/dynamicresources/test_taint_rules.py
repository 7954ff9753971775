"""DeviceTaintRules in the scheduler: which devices get a taint, and when."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import TaintedSlices, TaintRules

_RULES = AllocatorFeatures.of(FeatureGates(Version(36)))
_CLASSES = {
    "big": {
        "metadata": {"name": "big"},
        "spec": {"selectors": [{"cel": {"expression": "device.attributes['d'].size == 2"}}]},
    }
}


class _Node:
    name = "node-1"
    labels = {}


@pytest.fixture
def slices():
    index = SliceIndex(_RULES)
    tainted = TaintedSlices(index, TaintRules(_CLASSES.get, _RULES.cel, taints_all_unselected=True))
    devices = [{"name": f"gpu-{i}", "attributes": {"size": {"int": i}}} for i in range(3)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "nodeName": "node-1", "devices": devices}
    tainted.set_slice({"metadata": {"name": "s"}, "spec": spec})
    tainted.of_node = lambda: [device.id.device for device in index.pools(_Node).candidates if device.taints]
    return tainted


def _rule(selector):
    taint = {"key": "broken", "effect": "NoSchedule"}
    spec = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
    return {"metadata": {"name": "rule"}, "spec": spec}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, ["gpu-0", "gpu-1", "gpu-2"], id="no-selector"),
        pytest.param({}, ["gpu-0", "gpu-1", "gpu-2"], id="everything"),
        pytest.param({"driver": "d", "pool": "p", "device": "gpu-1"}, ["gpu-1"], id="one-device"),
        pytest.param({"driver": "other"}, [], id="another-driver"),
        pytest.param({"pool": "other"}, [], id="another-pool"),
        pytest.param({"deviceClassName": "big"}, ["gpu-2"], id="class"),
        pytest.param({"deviceClassName": "none"}, [], id="no-such-class"),
        pytest.param(
            {"selectors": [{"cel": {"expression": "device.attributes['d'].size < 2"}}]},
            ["gpu-0", "gpu-1"],
            id="selector",
        ),
        pytest.param(
            {"selectors": [{"cel": {"expression": "device.attributes['x'].y"}}]}, [], id="failing-selector"
        ),
    ],
)
def test_rule_selects_devices(slices, selector, expected):
    """A rule taints the devices that its selector names, and no others."""
    slices.set_rule(_rule(selector))

    assert slices.of_node() == expected


def test_rules_come_and_go(slices):
    """A rule is reported once as a change of slices, and its removal restores the published slice."""
    changed = slices.set_rule(_rule({}))
    again = slices.set_rule(_rule({}))
    undone = slices.remove_rule(_rule({}))

    assert [len(each) for each in (changed, again, undone)] == [1, 0, 1]
    assert undone[0][1] == changed[0][0]
    assert slices.of_node() == []
