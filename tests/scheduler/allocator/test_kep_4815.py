"""KEP-4815's examples: what of an A100 and of a 4x4 TPU can be had together, and what cannot."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.cases import CaseNode, ListedClasses
from kubeskew.scheduler.allocator.claims import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex

DRIVER = "gpu.nvidia.com"
_GATE = {"DRAPartitionableDevices": True}

_COLUMNS = ("memory", "multiprocessors", "copy-engines", "decoders", "jpeg-engines", "ofa-engines")
# Profile → what it takes, how many memory slices it spans, at which of them it can begin (the KEP's diagram).
_PROFILES = {
    "7g.40gb": ("40192Mi", 98, 7, 5, 1, 1, 8, (0,)),
    "4g.20gb": ("19968Mi", 56, 4, 2, 0, 0, 4, (0,)),
    "3g.20gb": ("19968Mi", 42, 3, 2, 0, 0, 4, (0, 4)),
    "2g.10gb": ("9856Mi", 28, 2, 1, 0, 0, 2, (0, 2, 4)),
    "1g.10gb": ("9856Mi", 14, 1, 1, 0, 0, 2, (0, 2, 4, 6)),
    "1g.5gb+me": ("4864Mi", 14, 1, 1, 1, 1, 1, tuple(range(7))),
    "1g.5gb": ("4864Mi", 14, 1, 0, 0, 0, 1, tuple(range(7))),
}
_WHOLE = ("40Gi", 98, 7, 5, 1, 1)


def _counters(amounts, memory_slices):
    named = {**dict(zip(_COLUMNS, amounts, strict=True)), **{f"memorySlice{i}": 1 for i in memory_slices}}
    return {name: {"value": str(amount)} for name, amount in named.items()}


def _gpu(number):
    name = f"gpu-{number}"
    shared = {"name": name, "counters": _counters(_WHOLE, range(8))}
    devices = [
        {
            "name": f"{name}-{profile.replace('.', '-').replace('+', '-')}-{start}",
            "attributes": {"profile": {"string": profile}, "parent": {"int": number}},
            "consumesCounters": [
                {"counterSet": name, "counters": _counters(amounts, range(start, start + span))}
            ],
        }
        for profile, (*amounts, span, starts) in _PROFILES.items()
        for start in starts
    ]
    return shared, devices


def _slices(sets, devices, *, separate, **selection):
    """One slice with everything up to 1.34, from 1.35 on a slice of its own for counters."""
    contents = [{"sharedCounters": sets}, {"devices": devices}]
    if not separate:
        contents = [{**contents[0], **contents[1]}]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {"metadata": {"name": f"s{i}"}, "spec": {"driver": DRIVER, "pool": pool, **selection, **content}}
        for i, content in enumerate(contents)
    ]


def _gpus(count=1, *, separate=True):
    made = [_gpu(number) for number in range(count)]
    devices = [device for _, of_gpu in made for device in of_gpu]
    return _slices([shared for shared, _ in made], devices, separate=separate, nodeName="node-1")


def _claim(*expressions, **devices):
    requests = [
        {
            "name": f"r{i}",
            "exactly": {
                "deviceClassName": "any",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": expression}}],
            },
        }
        for i, expression in enumerate(expressions)
    ]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **devices}}}


def _partitions(*profiles, **devices):
    return _claim(
        *(f"device.attributes['{DRIVER}'].profile == '{profile}'" for profile in profiles), **devices
    )


def _allocate(slices, claim, node="node-1", used=(), version=36, gates=_GATE):
    features = AllocatorFeatures.of(FeatureGates(Version(version), gates))
    state = AllocatedState({DeviceID(DRIVER, "pool", device) for device in used})
    classes = ListedClasses([{"metadata": {"name": "any"}, "spec": {}}])
    allocator = Allocator(features, classes, SliceIndex.of(features, slices), state, lambda: "share")
    return allocator.allocate(CaseNode(node, {"kubernetes.io/hostname": node}), [claim])


def _devices(found):
    return found and [result["device"] for result in found[0]["devices"]["results"]]


_TOGETHER = [
    ["7g.40gb"],
    ["4g.20gb", "3g.20gb"],
    ["3g.20gb", "3g.20gb"],
    ["4g.20gb", "2g.10gb", "1g.5gb"],
    ["2g.10gb", "2g.10gb", "2g.10gb", "1g.5gb"],
    ["1g.10gb"] * 4,
    ["1g.5gb"] * 7,
    ["1g.5gb+me", *["1g.5gb"] * 6],
    ["1g.5gb", "4g.20gb"],  # the first choice for 1g.5gb must be taken back
    ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"],
]
_NOT_TOGETHER = [
    ["7g.40gb", "1g.5gb"],
    ["4g.20gb", "4g.20gb"],
    ["4g.20gb", "3g.20gb", "1g.5gb"],
    ["3g.20gb"] * 3,
    ["2g.10gb", "2g.10gb", "2g.10gb", "1g.5gb", "1g.5gb"],
    ["1g.5gb"] * 8,
    ["1g.5gb+me", "1g.5gb+me"],
    ["1g.10gb"] * 5,
    ["4g.20gb", "3g.20gb", "3g.20gb"],
    ["1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.5gb"],
]
_SHAPES = [
    pytest.param(36, True, id="1.36"),
    pytest.param(35, True, id="1.35"),
    pytest.param(34, False, id="1.34"),
    pytest.param(33, False, id="1.33"),
]


@pytest.mark.parametrize(("version", "separate"), _SHAPES)
@pytest.mark.parametrize("profiles", _TOGETHER, ids="+".join)
def test_partitions_that_go_together(profiles, version, separate):
    """The partitions are found, regardless of the order in which they are asked for."""
    assert _allocate(_gpus(separate=separate), _partitions(*profiles), version=version) is not None


@pytest.mark.parametrize(("version", "separate"), _SHAPES)
@pytest.mark.parametrize("profiles", _NOT_TOGETHER, ids="+".join)
def test_partitions_that_do_not(profiles, version, separate):
    """Partitions that do not fit on one GPU are not allocated."""
    assert _allocate(_gpus(separate=separate), _partitions(*profiles), version=version) is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(37, ["gpu-1-3g-20gb-0", "gpu-1-3g-20gb-4"], id="1.37"),
        pytest.param(35, None, id="1.35"),
    ],
)
def test_partitions_of_one_gpu(version, expected):
    """All partitions from the same GPU, of which the second has enough. Up to 1.36.2 upstream does not find
    it: what the constraint refused next to the first GPU has used up the counters of the second."""
    claim = _partitions("3g.20gb", "3g.20gb", constraints=[{"matchAttribute": f"{DRIVER}/parent"}])

    assert _devices(_allocate(_gpus(2), claim, used=["gpu-0-1g-5gb-6"], version=version)) == expected


def test_shape_of_another_minor():
    """After an upgrade to 1.35 the old shape offers nothing; after a downgrade counters are not matched."""
    old, new = _gpus(separate=False), _gpus()

    assert _allocate(old, _partitions("1g.5gb"), version=35) is None
    assert _allocate(new, _partitions("7g.40gb", "7g.40gb"), version=34) is None  # one device each
    assert _allocate(new, _partitions("7g.40gb", "1g.5gb"), version=34) is not None  # more than there is


def test_counters_are_nothing_to_allocate():
    """A slice of counters alone offers no devices."""
    counters, devices = _gpus()

    assert _allocate([counters], _claim("true")) is None
    assert _allocate([counters, devices], _claim("true")) is not None


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param({}, True, id="same"),
        pytest.param({"generation": 2}, False, id="generation"),
        pytest.param({"name": "other"}, False, id="pool"),
    ],
)
def test_counters_are_of_the_pool_and_generation_of_their_users(other, found):
    """A partition whose counters are in another pool, or another generation of its own, is not allocated."""
    counters, devices = _gpus()
    spec = devices["spec"]
    devices = {**devices, "spec": {**spec, "pool": {**spec["pool"], **other}}}

    assert (_allocate([counters, devices], _partitions("1g.5gb")) is not None) is found


def test_a_scheduler_that_does_not_know_counters():
    """Up to 1.32 counters are no fields of the API: devices of such a slice are devices like any other."""
    whole = _partitions("7g.40gb", "1g.5gb")

    assert _allocate(_gpus(separate=False), whole, version=32, gates={}) is not None


def test_gate_off():
    """Without the gate no partition is given out."""
    off = {"DRAPartitionableDevices": False}

    assert _allocate(_gpus(), _partitions("1g.5gb"), gates=off) is None


def _tpu(name, *nodes):
    consumed = {f"tpus-{node}": {"value": "4"} for node in nodes}
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    selection = (
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
        if len(nodes) > 1
        else {"nodeName": nodes[0]}
    )
    return {
        "name": name,
        "capacity": {"tpus": {"value": str(4 * len(nodes))}},
        "consumesCounters": [{"counterSet": "tpus", "counters": consumed}],
        **selection,
    }


_NODES = ("node-1", "node-2", "node-5", "node-6")
_TPUS = _slices(
    [{"name": "tpus", "counters": {f"tpus-{node}": {"value": "4"} for node in _NODES}}],
    [
        _tpu("tpu-4x4-1", *_NODES),
        _tpu("tpu-2x4-1", "node-1", "node-2"),
        _tpu("tpu-2x4-2", "node-5", "node-6"),
        *(_tpu(f"tpu-2x2-{i}", node) for i, node in enumerate(_NODES, 1)),
    ],
    separate=True,
)
_TPUS[0]["spec"]["allNodes"] = True
_TPUS[1]["spec"]["perDeviceNodeSelection"] = True


@pytest.mark.parametrize(
    ("tpus", "node", "used", "expected"),
    [
        pytest.param(16, "node-5", [], "tpu-4x4-1", id="whole"),
        pytest.param(16, "node-3", [], None, id="another-node"),
        pytest.param(16, "node-1", ["tpu-2x2-4"], None, id="whole-next-to-a-part-elsewhere"),
        pytest.param(8, "node-2", [], "tpu-2x4-1", id="half"),
        pytest.param(8, "node-2", ["tpu-2x4-2"], "tpu-2x4-1", id="both-halves"),
        pytest.param(8, "node-2", ["tpu-2x2-1"], None, id="half-with-a-used-quarter"),
        pytest.param(8, "node-6", ["tpu-2x2-1"], "tpu-2x4-2", id="other-half"),
        pytest.param(4, "node-6", ["tpu-4x4-1"], None, id="part-of-the-used-whole"),
        pytest.param(4, "node-6", ["tpu-2x4-1"], "tpu-2x2-4", id="quarter"),
    ],
)
def test_tpus_of_several_nodes(tpus, node, used, expected):
    """A multi-host device can be had where it is, if none of its parts on any node is used."""
    claim = _claim(f"device.capacity['{DRIVER}'].tpus.compareTo(quantity('{tpus}')) == 0")

    assert _devices(_allocate(_TPUS, claim, node, used)) == (expected and [expected])


def test_a_device_whose_selector_has_two_terms():
    """The API stores such a selector, but the device cannot be allocated: terms cannot be merged."""
    one = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    device = {**_tpu("two", "node-1", "node-2"), "nodeSelector": {"nodeSelectorTerms": [one, one]}}
    slices = _slices([], [device], separate=True, perDeviceNodeSelection=True)
    slices[0]["spec"] |= {"sharedCounters": _TPUS[0]["spec"]["sharedCounters"], "allNodes": True}

    with pytest.raises(AllocationError, match="NodeSelector with 2 terms"):
        _allocate(slices, _claim("true"))


def test_claims_follow_their_device():
    """The claim can be used on all nodes of a multi-host device, and on no others."""
    claim = _claim(f"device.capacity['{DRIVER}'].tpus.compareTo(quantity('8')) == 0")
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1", "node-2"]}

    assert _allocate(_TPUS, claim)[0]["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [only]}]}
