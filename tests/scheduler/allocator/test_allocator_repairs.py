"""Releases repaired faults in the allocator, and those before still have them."""

import pytest

from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.scheduler.allocator.cases import run_case

_NODE = {"metadata": {"name": "node-1", "labels": {}}}
_COUNTERS = [{"counterSet": "c", "counters": {"memory": {"value": "4Gi"}}}]
_SETS = [{"name": "c", "counters": {"memory": {"value": "4Gi"}}}]


def _slice(name, driver="a.example.com", count=1, node="node-1", **content):
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": pool, "nodeName": node, **content}}


def _partitions(driver, **more):
    devices = [{"name": "part", "consumesCounters": _COUNTERS}]
    first = _slice(f"{driver}-0", driver, 2, sharedCounters=_SETS, **more)
    return [first, _slice(f"{driver}-1", driver, 2, devices=devices, **more)]


def _shared(name, amount="8Gi", step=None):
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", **({"step": step} if step else {})}}
    capacity = {"memory": {"value": amount, "requestPolicy": policy}}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity}


def _numa(name, *nodes):
    return {"name": name, "attributes": {"numa": {"ints": [*nodes]}}}


def _answer(version, slices, devices, **more):
    claim = {"metadata": {"name": "claim", "namespace": "default"}, "spec": {"devices": devices}}
    classes = [{"metadata": {"name": "any"}, "spec": {}}]
    case = {"version": version, "node": _NODE, "slices": slices, "claims": [claim], "classes": classes}
    return run_case({**case, **more}, lambda: "share")


def _run(version, slices, *requests, constraints=(), **more):
    answer = _answer(version, slices, {"requests": requests, "constraints": constraints}, **more)
    if "error" in answer or answer["allocations"] is None:
        return answer.get("error")
    return [result["device"] for result in answer["allocations"][0]["devices"].get("results", ())]


def _request(name, mode="ExactCount", **more):
    count = {"count": 1} if mode == "ExactCount" else {}
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": mode, **count, **more}}


_LISTS = {"DRAListTypeAttributes": True}
_BIG = "9223372036854775807"


@pytest.mark.parametrize(
    ("slices", "requests", "more", "before", "since"),
    [
        pytest.param(
            [*_partitions("a.example.com"), *_partitions("b.example.com")],
            [_request("r0"), _request("r1")],
            {},
            None,
            ["part", "part"],
            id="pools-of-one-name",
        ),
        pytest.param(
            [_slice("s", devices=[{"name": "x"}]), _partitions("b.example.com", node="node-2")[0]],
            [_request("r", "All")],
            {},
            "claim default/claim, request r: asks for all devices, but resource pool b.example.com/pool is "
            "currently being updated",
            ["x"],
            id="counters-of-another-node",
        ),
        pytest.param(
            [_slice("s", devices=[_shared("full"), _shared("free")])],
            [_request("r", "All")],
            {
                "consumedCapacity": [
                    {
                        "driver": "a.example.com",
                        "pool": "pool",
                        "device": "full",
                        "consumedCapacity": {"memory": "8Gi"},
                    }
                ]
            },
            ["free"],
            None,
            id="all-with-one-used-up",
        ),
        pytest.param(
            [_slice("s", devices=[_shared("x", step="1Gi")])],
            [_request("r", capacity={"requests": {"memory": _BIG}})],
            {},
            ["x"],
            'claim default/claim, request r: capacity "memory": capacity request cannot be represented in '
            f"the device's range arithmetic: rounding request {_BIG} up to the next step passes MaxInt64",
            id="beyond-64-bits",
        ),
        pytest.param(
            [_slice("s", devices=[_shared("x", "-1")])],
            [_request("r", capacity={"requests": {"memory": "2Gi"}})],
            {},
            None,
            None,
            id="too-little",
        ),
        pytest.param(
            [_slice("s", devices=[_numa("d1", 1, 2), _numa("d2", 1), _numa("d3", 2), _numa("d4", 2)])],
            [_request("r", count=3)],
            {"constraints": [{"matchAttribute": "a.example.com/numa"}], "featureGates": _LISTS},
            None,
            ["d1", "d3", "d4"],
            id="common-values-after-stepping-back",
        ),
    ],
)
def test_repaired(slices, requests, more, before, since):
    """1.36.2 answers as recorded servers do, 1.37 as it was mended."""
    assert (_run("1.36.2", slices, *requests, **more), _run("1.37", slices, *requests, **more)) == (
        before,
        since,
    )


def test_shares_of_nothing():
    """A device without capacity stays in use while any of its shares does, so its counters are taken once."""
    devices = [{"name": name, "attributes": {"name": {"string": name}}} for name in ("shared", "plain")]
    devices[0] |= {"allowMultipleAllocations": True, "consumesCounters": _COUNTERS}
    slices = [_slice("s0", count=2, sharedCounters=_SETS), _slice("s1", count=2, devices=devices)]
    wanted = [{"cel": {"expression": "device.attributes['a.example.com'].name == 'shared'"}}]
    constraints = [{"distinctAttribute": "a.example.com/name", "requests": ["r1", "r2"]}]
    requests = [_request("r0", selectors=wanted), _request("r1"), _request("r2", selectors=wanted)]

    assert _run("1.37", slices, *requests, constraints=constraints) == ["shared", "plain", "shared"]


def _named(name, **more):
    return {"name": name, "attributes": {"name": {"string": name}}, **more}


def _only(name):
    return {"selectors": [{"cel": {"expression": f"device.attributes['a.example.com'].name == '{name}'"}}]}


_GATES = {"DRAConsumableCapacity": True, "DRAPartitionableDevices": True, "DRADeviceTaints": True}


@pytest.mark.parametrize(
    ("slices", "requests", "gates", "expected"),
    [
        pytest.param(
            [_slice("s", devices=[_named("x"), _named("x")])],
            [_request("r")],
            {},
            {
                "1.31": ["x"],
                "1.34": "pool pool is invalid: duplicate device name x",
                "1.35": "invalid resource pools were encountered",
            },
            id="invalid-pool",
        ),
        pytest.param(
            [_slice("s", devices=[_named("x", taints=[{"key": "k", "effect": "None"}])])],
            [_request("r")],
            _GATES,
            {"1.34": None, "1.35": ["x"]},
            id="taint-without-effect",
        ),
        pytest.param(
            [_slice("s", devices=[_named("a"), _named("b")])],
            [_request("r0"), _request("r1", "All", **_only("a"))],
            {},
            {"1.32": None, "1.33": ["b", "a"]},
            id="all-of-what-was-taken",
        ),
        pytest.param(
            [_slice("s", devices=[_named("a"), _named("b"), _named("x")])],
            [_request("r0"), _request("r1", "All", **_only("x")), _request("r2", **_only("a"))],
            {},
            {"1.33": None, "1.34": ["b", "x", "a"]},
            id="all-and-step-back",
        ),
        pytest.param(
            [_slice("s", sharedCounters=_SETS, devices=[_named("x")])],
            [_request("r")],
            {"DRAPartitionableDevices": False},
            {"1.33": None, "1.34": ["x"], "1.35": None},
            id="counters-without-gate",
        ),
        pytest.param(
            [_slice("s", sharedCounters=_SETS, devices=[_shared("x") | {"consumesCounters": _COUNTERS}])],
            [_request("r0"), _request("r1")],
            _GATES,
            {"1.34": None},
            id="shares-pay-each",
        ),
    ],
)
def test_older_releases(slices, requests, gates, expected):
    """Each release allocates as it did upstream, even if later releases do otherwise."""
    found = {version: _run(version, slices, *requests, featureGates=gates) for version in expected}

    assert found == expected


@pytest.mark.parametrize(("version", "copies"), [("1.32", 1), ("1.33", 2), ("1.36", 2), ("1.37", 1)])
def test_copies_of_a_configuration(version, copies):
    """A configuration for two requests is there once for each of them from 1.33 to 1.36."""
    config = {"requests": ["r0", "r1"], "opaque": {"driver": "a.example.com", "parameters": {}}}
    devices = {"requests": [_request("r0"), _request("r1")], "config": [config]}
    answer = _answer(version, [_slice("s", devices=[_named("a"), _named("b")])], devices)

    assert len(answer["allocations"][0]["devices"]["config"]) == copies


@pytest.mark.parametrize(
    ("version", "status", "expected"),
    [
        (
            "1.34",
            True,
            "claim default/claim, request r: has capacity requests, but the DRAConsumableCapacity feature",
        ),
        ("1.34", False, ["a"]),
        ("1.35", True, ["a"]),
    ],
)
def test_newest_implementation_by_default(version, status, expected):
    """In 1.34 the gate of device status chose the implementation that knows of capacity."""
    gates = {"DRAResourceClaimDeviceStatus": status}
    request = _request("r", capacity={"requests": {"memory": "1Gi"}})
    found = _run(version, [_slice("s", devices=[_named("a")])], request, featureGates=gates)

    assert found.startswith(expected) if isinstance(expected, str) else found == expected


@pytest.mark.parametrize(("version", "copied"), [("1.34", False), ("1.35", True)])
def test_tolerations_in_results(version, copied):
    """Up to 1.34 the result does not show whoever evicts pods what the claim tolerates."""
    devices = {"requests": [_request("r", tolerations=[{"operator": "Exists"}])]}
    answer = _answer(version, [_slice("s", devices=[_named("a")])], devices, featureGates=_GATES)
    (result,) = answer["allocations"][0]["devices"]["results"]

    assert ("tolerations" in result) is copied


_SELECTOR = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["many"]}]}]
}
_WHY = (
    'nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "many": '
    "for 'Gt', 'Lt' operators, the value must be an integer"
)
_PARSED = (
    "failed to parse node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{"
    "MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:cpus,Operator:Gt,Values:[many],},},"
    f"MatchFields:[]NodeSelectorRequirement{{}},}},}},}}: {_WHY}"
)
_HINTED = (
    " on device a.example.com/pool/x: CEL runtime error: no such key: y. consider using CEL optional "
    "chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
)
_GATHER = "gather pool information: "
_GPU = _slice("s", devices=[{"name": "x"}])


@pytest.mark.parametrize(
    ("version", "content", "expected"),
    [
        ("1.32", {"nodeSelector": _SELECTOR}, f"{_GATHER}node selector in resource slice bad: {_WHY}"),
        (
            "1.36",
            {"nodeSelector": _SELECTOR},
            f"{_GATHER}failed to perform node selection for slice bad: {_PARSED}",
        ),
        (
            "1.37",
            {"perDeviceNodeSelection": True, "devices": [{"name": "y", "nodeSelector": _SELECTOR}]},
            f"{_GATHER}failed to perform node selection for device y in slice bad: {_PARSED}",
        ),
        (
            "1.37",
            {
                "perDeviceNodeSelection": True,
                "devices": [{"name": "a", "allNodes": True}, {"name": "y", "nodeSelector": _SELECTOR}],
            },
            ["x"],
        ),
    ],
)
def test_a_selector_of_nodes_that_cannot_be_read(version, content, expected):
    """Ends every search, wherever the slice would be for, unless nobody has to look at it."""
    bad = {**_slice("bad", "b.example.com", node=None, **content)}
    gates = {"DRAPartitionableDevices": True} if version == "1.37" else {}

    assert _run(version, [_GPU, bad], _request("r"), featureGates=gates) == expected


@pytest.mark.parametrize(
    ("expression", "before", "since"),
    [
        ("device.attributes['x'].y", ": CEL runtime error: no such key: y", _HINTED),
        (
            "1 / int(device.driver.size() - 13) == 1",
            ": CEL runtime error: division by zero",
            " on device a.example.com/pool/x: CEL runtime error: division by zero",
        ),
        (
            "device.nope",
            ": CEL compile error: compilation failed",
            ": CEL compile error: compilation failed",
        ),
    ],
)
def test_errors_of_selectors(expression, before, since):
    """1.37 names the device, and says how to ask for what may not be there."""
    request = _request("r", selectors=[{"cel": {"expression": expression}}])
    start = "claim default/claim: selector #0"

    assert _run("1.36", [_GPU], request).startswith(start + before)
    assert _run("1.37", [_GPU], request).startswith(start + since)


def _tainted(name):
    return _named(name, consumesCounters=_COUNTERS, taints=[{"key": "k", "effect": "NoSchedule"}])


def _config(name):
    return {"opaque": {"driver": name, "parameters": {}}}


@pytest.mark.parametrize(
    ("slices", "requests", "gates", "expected"),
    [
        pytest.param(
            [_slice("s", devices=[_named("a")])],
            [_request("r", "All", **_only("none"))],
            {},
            {"1.31": [], "1.32": [], "1.33": None},
            id="all-of-none",
        ),
        pytest.param(
            [_slice("s", devices=[_named(f"d{number}") for number in range(17)])],
            [_request("r", "All")],
            {},
            {"1.32": 17, "1.33.0": None, "1.33.1": 17},
            id="more-than-half-of-the-limit",
        ),
        pytest.param(
            [
                _slice("s0", count=2, sharedCounters=_SETS),
                _slice("s1", count=2, devices=[_tainted("bad"), _named("good", consumesCounters=_COUNTERS)]),
            ],
            [_request("r")],
            _GATES,
            {"1.36.2": None, "1.36.3": ["good"]},
            id="refused-after-its-counters",
        ),
        pytest.param(
            [*_partitions("a.example.com"), *_partitions("b.example.com")],
            [_request("r0"), _request("r1")],
            _GATES,
            {"1.35": None, "1.36.3": None, "1.36.4": ["part", "part"]},
            id="pools-of-one-name",
        ),
        pytest.param(
            [_slice("s", devices=[_shared("small", "1Gi"), _shared("big"), _shared("bigger")])],
            [_request("r", count=2, capacity={"requests": {"memory": "6Gi"}})],
            _GATES,
            {"1.34": None, "1.35": ["big", "bigger"]},
            id="capacity-of-the-first",
        ),
    ],
)
def test_patches(slices, requests, gates, expected):
    """Each patch allocates as it did upstream."""
    found = {version: _run(version, slices, *requests, featureGates=gates) for version in expected}

    assert {
        v: len(devices) if isinstance(expected[v], int) else devices for v, devices in found.items()
    } == expected


def test_the_capacity_of_a_device_that_is_not_there():
    """In 1.34 the second share of the only device of a slice ends the scheduler."""
    request = _request("r", count=2, capacity={"requests": {"memory": "2Gi"}})
    slices = [_slice("s", devices=[_shared("only")])]

    assert _run("1.35", slices, request, featureGates=_GATES) == ["only", "only"]
    with pytest.raises(Panic, match=r"index out of range \[1\] with length 1"):
        _run("1.34", slices, request, featureGates=_GATES)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.31", "stop allocation"), ("1.32", None)],
)
def test_all_devices_of_any_class(version, expected):
    """1.31 gives a request for all the devices of any class, and reports an error meant for itself."""
    classes = [{"metadata": {"name": "any"}, "spec": {}}, {"metadata": {"name": "a"}, "spec": _only("a")}]
    of_class = {"name": "r0", "exactly": {"deviceClassName": "a", "allocationMode": "All"}}
    slices = [_slice("s", devices=[_named("a"), _named("b")])]

    assert _run(version, slices, of_class, classes=classes) == (["a", "b"] if expected else ["a"])
    assert _run(version, slices, of_class, _request("r1", **_only("a")), classes=classes) == expected


def test_all_devices_without_those_in_use():
    """1.31 leaves out devices that other claims have, where later releases give none."""
    slices = [_slice("s", devices=[_named("a"), _named("b")])]
    taken = {"allocatedDevices": [{"driver": "a.example.com", "pool": "pool", "device": "a"}]}

    assert _run("1.31", slices, _request("r", "All"), **taken) == ["b"]
    assert _run("1.32", slices, _request("r", "All"), **taken) is None


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("1.31", [None, None]),
        ("1.32.9", [None, None]),
        ("1.32.10", [["r0", "r1"]]),
        ("1.33.5", [None, None]),
        ("1.33.6", [["r0", "r1"]]),
        ("1.34.1", [None, None]),
        ("1.34.2", [["r0", "r1"]]),
    ],
)
def test_requests_of_a_class_configuration(version, named):
    """The configuration of a class is there once and names the requests of that class, or once for each."""
    classes = [{"metadata": {"name": "any"}, "spec": {"config": [_config("a.example.com")]}}]
    classes.append({"metadata": {"name": "plain"}, "spec": {}})
    other = {
        "name": "r2",
        "exactly": {"deviceClassName": "plain", "allocationMode": "ExactCount", "count": 1},
    }
    slices = [_slice("s", devices=[_named("a"), _named("b"), _named("c")])]
    requests = {"requests": [_request("r0"), _request("r1"), other]}
    answer = _answer(version, slices, requests, classes=classes)

    assert [entry.get("requests") for entry in answer["allocations"][0]["devices"]["config"]] == named


@pytest.mark.parametrize(("version", "expected"), [("1.36.2", None), ("1.36", None), ("1.37", ["shared"])])
def test_a_share_next_to_one_of_another_claim(version, expected):
    """A share without capacity of a device in use takes its counters again until 1.37."""
    device = _named("shared", allowMultipleAllocations=True, consumesCounters=_COUNTERS)
    slices = [_slice("s0", count=2, sharedCounters=_SETS), _slice("s1", count=2, devices=[device])]
    taken = {"allocatedShares": [{"driver": "a.example.com", "pool": "pool", "device": "shared"}]}

    assert _run(version, slices, _request("r"), featureGates=_GATES, **taken) == expected
    both = [_request("r0"), _request("r1")]
    assert _run(version, slices, *both, featureGates=_GATES, **taken) == (expected and expected * 2)
