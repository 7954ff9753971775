"""The allocator: what it chooses, what it refuses, and what it never does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apimachinery.gates import FeatureGates
from apimachinery.quantity import Quantity
from apimachinery.versions import Version
from scheduler.allocator.allocated_state import AllocatedBook, AllocatedState, DeviceID
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.cases import CaseNode, ListedClasses
from scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from scheduler.allocator.rules import AllocatorRules
from scheduler.allocator.slice_index import SliceIndex

DRIVER = "gpu.example.com"
NODE = CaseNode("node-1", {"zone": "a"})


def _device(name, **attributes):
    kinds = {str: "string", int: "int", bool: "bool"}
    return {"name": name, "attributes": {key: {kinds[type(v)]: v} for key, v in attributes.items()}}


def _slice(devices, *, name="slice-1", pool="pool-1", generation=1, count=1, **selection):
    selection = selection or {"nodeName": "node-1"}
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": devices,
        **selection,
    }
    return {"metadata": {"name": name}, "spec": spec}


def _request(name="req-0", count=1, expression="", **exactly):
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **exactly}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def _all(name="req-0"):
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}


def _claim(*requests, name="claim-0", **devices):
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": [*requests], **devices}},
    }


def _class(**spec):
    return {"metadata": {"name": "gpu"}, "spec": spec}


def _allocate(slices, *claims, version="1.36", allocated=(), classes=None, gates=None):
    release = Version.parse(version)
    rules = AllocatorRules.of(release, FeatureGates(release, gates or {}))
    used = {DeviceID(DRIVER, pool, device) for pool, device in allocated}
    listed = ListedClasses(classes if classes is not None else [_class()])
    return _allocator(rules, slices, AllocatedState(used), listed).allocate(NODE, [*claims])


def _allocator(rules, slices, state=None, classes=None):
    classes = classes or ListedClasses([_class()])
    return Allocator(rules, classes, SliceIndex.of(rules, slices), state or AllocatedState(), lambda: "share")


def _chosen(allocations):
    if allocations is None:
        return None
    return [
        [(result["request"], result["device"]) for result in allocation["devices"].get("results", [])]
        for allocation in allocations
    ]


_TWO = [_device("a", index=0), _device("b", index=1)]


@pytest.mark.parametrize(
    ("claims", "allocated", "expected"),
    [
        pytest.param([_claim(_request())], [], [[("req-0", "a")]], id="first-fit"),
        pytest.param([_claim(_request())], [("pool-1", "a")], [[("req-0", "b")]], id="skips-used"),
        pytest.param([_claim(_request(count=2))], [], [[("req-0", "a"), ("req-0", "b")]], id="count"),
        pytest.param([_claim(_request(count=3))], [], None, id="too-few"),
        pytest.param([_claim(_all())], [], [[("req-0", "a"), ("req-0", "b")]], id="all"),
        pytest.param([_claim(_all())], [("pool-1", "b")], None, id="all-needs-every-device"),
        pytest.param(
            [_claim(_request(), name="x"), _claim(_request(), name="y")],
            [],
            [[("req-0", "a")], [("req-0", "b")]],
            id="two-claims",
        ),
        pytest.param(
            [_claim(_request(), _request("only-a", expression=f"device.attributes['{DRIVER}'].index == 0"))],
            [],
            [[("req-0", "b"), ("only-a", "a")]],
            id="backtracks",
        ),
    ],
)
def test_choice(claims, allocated, expected):
    """Devices are tried in order; an earlier choice is taken back when a later request needs it."""
    assert _chosen(_allocate([_slice(_TWO)], *claims, allocated=allocated)) == expected


def test_match_attribute_finds_a_common_value():
    """Devices of a constrained claim share the attribute; others are passed over."""
    devices = [_device("a", numa=0), _device("b", numa=1), _device("c", numa=1)]
    claim = _claim(_request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    assert _chosen(_allocate([_slice(devices)], claim)) == [[("req-0", "b"), ("req-0", "c")]]


def test_all_devices_that_break_a_constraint_are_an_error():
    """A request for all devices cannot leave one out."""
    devices = [_device("a", numa=0), _device("b", numa=1)]
    claim = _claim(_all(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    with pytest.raises(
        AllocationError, match=r"cannot add device gpu\.example\.com/pool-1/b because a claim"
    ):
        _allocate([_slice(devices)], claim)


@pytest.mark.parametrize(
    ("version", "expected"), [("1.34", [[("req-0", "a")]]), ("1.35", None)], ids=["1.34", "1.35"]
)
def test_incomplete_pool(version, expected):
    """Until 1.34 the slices of a pool that are there could be used before the others came."""
    slices = [_slice(_TWO, count=2)]

    assert _chosen(_allocate(slices, _claim(_request()), version=version)) == expected


def test_all_devices_meet_a_constraint_after_another_claim_chose_otherwise():
    """Devices that look the same are tried one after the other, up to the one that makes it an error."""
    slices = [_slice([_device(name) for name in ("d1", "d2", "d3")])]
    everything = _claim(_all(), name="claim-1", constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    with pytest.raises(AllocationError, match=r"cannot add device gpu\.example\.com/pool-1/d1 because"):
        _allocate(slices, _claim(_request(count=2)), everything)


@pytest.mark.parametrize(
    ("capacity", "request_", "expected"),
    [
        ({}, {"capacity": {"requests": {"memory": "1"}}}, None),
        ({"memory": {"value": "4"}}, {"capacity": {"requests": {"memory": "5"}}}, None),
        ({"memory": {"value": "4"}}, {"capacity": {"requests": {"memory": "4"}}}, [[("req-0", "d1")]]),
        ({"memory": {"value": "4", "requestPolicy": {"validRange": {"min": "1", "max": "2"}}}}, {}, None),
    ],
)
def test_a_device_for_one_user_must_have_the_capacity_too(capacity, request_, expected):
    """Also a device that nobody can share has to have what is asked for, within its policy."""
    slices = [_slice([_device("d1") | {"capacity": capacity}])]
    assert _chosen(_allocate(slices, _claim(_request(**request_)))) == expected


@pytest.mark.parametrize(("version", "expected"), [("1.35", ["d1", "d1"]), ("1.36", ["d1", "d2"])])
def test_shares_of_one_device_for_one_request(version, expected):
    """Up to 1.35 a request for two devices gets two shares of one; since 1.36 later devices are tried."""
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    slices = [_slice([_device(name) | shared for name in ("d1", "d2")])]
    claim = _claim(_request(count=2, capacity={"requests": {"memory": "1"}}))
    (found,) = _allocate(slices, claim, version=version, gates={"DRAConsumableCapacity": True})
    assert [result["device"] for result in found["devices"]["results"]] == expected


def test_alternatives_are_looked_at_anew_by_the_search():
    """Up to 1.35 alternatives that want all devices share verdicts while devices are counted, not later."""
    devices = [_device("d1", size=1), _device("d2", size=2)]
    kinds = [("small", "ExactCount", 1), ("every", "All", 2)]
    alternatives = [
        {
            "name": name,
            "deviceClassName": "gpu",
            "allocationMode": mode,
            "count": 1 if mode == "ExactCount" else 0,
            "selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].size == {size}"}}],
        }
        for name, mode, size in kinds
    ]
    claim = _claim({"name": "req-0", "firstAvailable": alternatives})
    assert _chosen(_allocate([_slice(devices)], claim, version="1.35")) == [[("req-0/small", "d1")]]


def test_selectors_are_not_asked_of_devices_that_cannot_be_used():
    """Without its gates a device with binding conditions is passed over before selectors can fail on it."""
    slices = [_slice([_device("d1") | {"bindingConditions": ["ready"]}, _device("d2", size=1)])]
    claim = _claim(_request(expression=f"device.attributes['{DRIVER}'].size == 1"))
    gates = {"DRADeviceBindingConditions": False}
    assert _chosen(_allocate(slices, claim, gates=gates)) == [[("req-0", "d2")]]


def test_incomplete_pool_with_all_devices():
    """How many devices all are is unknown while a pool is being updated."""
    with pytest.raises(
        AllocationError,
        match=r"claim default/claim-0, request req-0: asks for all devices, but resource pool "
        r"gpu\.example\.com/pool-1 is currently being updated",
    ):
        _allocate([_slice(_TWO, count=2)], _claim(_all()))


def test_duplicate_device_makes_the_pool_invalid():
    """A pool with a repeated device name is not used; the node cannot be judged."""
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        _allocate([_slice([_device("a"), _device("a")])], _claim(_request()))


def test_old_generation_is_ignored():
    """Only slices of the newest generation of a pool count."""
    slices = [_slice(_TWO, generation=1), _slice([_device("c")], name="slice-2", generation=2)]

    assert _chosen(_allocate(slices, _claim(_request()))) == [[("req-0", "c")]]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(
            _claim({"name": "r", "firstAvailable": [{"name": "s"}]}),
            "claim default/claim-0, request s: missing device class name (unsupported request type?)",
            id="alternative-without-class",
        ),
        pytest.param(
            _claim(_request(deviceClassName="nope")),
            "claim default/claim-0, request req-0: could not retrieve device class nope: ",
            id="class",
        ),
        pytest.param(
            _claim(_request(count=33)),
            "claim default/claim-0: number of requested devices 33 exceeds the claim limit of 32",
            id="limit",
        ),
        pytest.param(
            _claim(_request(allocationMode="Some")),
            "claim default/claim-0, request req-0: unsupported count mode Some",
            id="mode",
        ),
        pytest.param(
            _claim(_request(), constraints=[{}]),
            "claim default/claim-0, constraint #0: empty constraint (unsupported constraint type?)",
            id="constraint",
        ),
        pytest.param(
            _claim(_request(expression="device.attributes['x'].y == 1")),
            "claim default/claim-0: selector #0: CEL runtime error: no such key: y",
            id="cel",
        ),
    ],
)
def test_fatal_errors(claim, text):
    """What no node can satisfy is an error with upstream's text."""
    with pytest.raises(AllocationError) as raised:
        _allocate([_slice(_TWO)], claim)

    assert str(raised.value).startswith(text)


def test_admin_access_needs_its_gate():
    """Without the gate even `adminAccess: false` is refused."""
    with pytest.raises(AllocationError, match="admin access is requested, but the feature is disabled"):
        _allocate([_slice(_TWO)], _claim(_request(adminAccess=False)), gates={"DRAAdminAccess": False})


def test_admin_access_looks_past_other_users():
    """An administrator gets a device that somebody else uses, marked in the result."""
    found = _allocate([_slice(_TWO)], _claim(_request(adminAccess=True)), allocated=[("pool-1", "a")])

    assert found[0]["devices"]["results"] == [
        {"request": "req-0", "driver": DRIVER, "pool": "pool-1", "device": "a", "adminAccess": True}
    ]


@pytest.mark.parametrize(
    ("version", "requests"), [("1.32", [None, None]), ("1.36", [["r0", "r1"]]), ("1.37", [None])]
)
def test_class_config_in_the_result(version, requests):
    """One entry per request at first, later one per class that names its requests, last of all unnamed."""
    config = {"opaque": {"driver": DRIVER, "parameters": {}}}
    claim = _claim(_request("r0"), _request("r1"))
    found = _allocate([_slice(_TWO)], claim, version=version, classes=[_class(config=[config])])

    assert [entry.get("requests") for entry in found[0]["devices"]["config"]] == requests


def test_claim_config_is_repeated_per_named_request():
    """Up to 1.36 a config that names two requests appears twice."""
    config = {"requests": ["r0", "r1"], "opaque": {"driver": DRIVER, "parameters": {}}}
    claim = _claim(_request("r0"), _request("r1"), config=[config])

    assert _allocate([_slice(_TWO)], claim)[0]["devices"]["config"] == [{"source": "FromClaim", **config}] * 2


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(
            {"nodeName": "node-1"},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
            id="node",
        ),
        pytest.param({"allNodes": True}, None, id="everywhere"),
        pytest.param(
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            },
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            id="zone",
        ),
    ],
)
def test_node_selector_of_the_result(selection, expected):
    """The allocation can be used where its devices are."""
    found = _allocate([_slice(_TWO, **selection)], _claim(_request()))

    assert found[0].get("nodeSelector") == (expected and {"nodeSelectorTerms": [expected]})


def test_slice_index_follows_changes():
    """A changed slice changes what a node sees; an unchanged one keeps its devices."""
    rules = AllocatorRules.of(Version(36), FeatureGates(Version(36)))
    index = SliceIndex(rules)
    index.set_slice(_slice(_TWO))
    before = index.pools(NODE)

    assert index.pools(NODE) is before
    index.set_slice(_slice([_device("c")], name="slice-2", pool="pool-2"))
    names = [device.id.device for device in index.pools(NODE).candidates]
    index.remove_slice(_slice(_TWO))
    assert (names, [device.id.device for device in index.pools(NODE).candidates]) == (["a", "b", "c"], ["c"])


def test_long_search_gives_up():
    """A search that explodes ends when its time is over."""
    devices = [_device(f"d{i}", index=i % 10, group=i // 10) for i in range(40)]
    unlike = [_request(f"r{i}", 1, f"device.attributes['{DRIVER}'].index >= {i // 2}") for i in range(12)]
    claim = _claim(*unlike, constraints=[{"matchAttribute": f"{DRIVER}/group"}])
    version = Version(36)
    rules = AllocatorRules.of(version, FeatureGates(version))
    allocator = _allocator(rules, [_slice(devices)])

    with pytest.raises(SearchTimeout, match="filter operation aborted: context deadline exceeded"):
        allocator.find(NODE, allocator.plan([claim]), lambda: lambda: True)


def test_hopeless_search_ends_at_once():
    """What cannot be had even without constraints is not tried in all combinations."""
    devices = [_device(f"d{i}", index=i) for i in range(24)]
    unlike = [_request(f"r{i}", 1, f"device.attributes['{DRIVER}'].index >= {i}") for i in range(12)]
    claim = _claim(*unlike, _request("none", 1, "false"))
    rules = AllocatorRules.of(Version(36), FeatureGates(Version(36)))
    allocator = _allocator(rules, [_slice(devices)])
    looks = iter(range(400))  # at the clock: one for each device and request, and few steps

    assert allocator.find(NODE, allocator.plan([claim]), lambda: lambda: next(looks, None) is None) is None


def test_many_claims():
    """A pod may have more claims than calls can usually be nested."""
    devices = [_device(f"d{i}") for i in range(1280)]
    claims = [_claim(_request(count=32), name=f"c{i}") for i in range(40)]
    used = [("pool-1", "d0")]

    assert _allocate([_slice(devices)], *claims, allocated=used) is None
    assert _allocate([_slice(devices)], *claims[1:], allocated=used) is not None


_indexes = st.integers(0, 3)
_requests = st.lists(
    st.tuples(st.integers(1, 3), st.one_of(st.none(), _indexes), st.booleans()), min_size=1, max_size=3
)


@settings(max_examples=150, deadline=None)
@given(
    pools=st.lists(st.lists(_indexes, max_size=5), min_size=1, max_size=3),
    claims=st.lists(_requests, min_size=1, max_size=3),
    used=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=4),
)
def test_no_device_is_given_twice_and_all_are_wanted(pools, claims, used):
    """Whatever is allocated is free, given once, in the right number, and satisfies its request."""
    slices = [
        _slice([_device(f"d{i}", index=value) for i, value in enumerate(values)], name=f"s{n}", pool=f"p{n}")
        for n, values in enumerate(pools)
    ]
    values = {(f"p{n}", f"d{i}"): value for n, row in enumerate(pools) for i, value in enumerate(row)}
    taken = [(f"p{n}", f"d{i}") for n, i in used]
    made = [
        _claim(
            *(
                _request(f"r{i}", count, "" if wanted is None else _expression(wanted, least))
                for i, (count, wanted, least) in enumerate(requests)
            ),
            name=f"c{n}",
        )
        for n, requests in enumerate(claims)
    ]

    found = _allocate(slices, *made, allocated=taken)

    if found is None:
        return
    results = [result for allocation in found for result in allocation["devices"]["results"]]
    places = [(result["pool"], result["device"]) for result in results]
    assert len(set(places)) == len(places)
    assert not set(places) & set(taken)
    for allocation, requests in zip(found, claims, strict=True):
        for i, (count, wanted, least) in enumerate(requests):
            mine = [each for each in allocation["devices"]["results"] if each["request"] == f"r{i}"]
            assert len(mine) == count
            for each in mine:
                value = values[each["pool"], each["device"]]
                assert wanted is None or (value >= wanted if least else value == wanted)


def _expression(wanted, least):
    return f"device.attributes['{DRIVER}'].index {'>=' if least else '=='} {wanted}"


def test_searches_go_on_until_a_device_becomes_free():
    """A search that remembers where the last one ended finds what one that does not remember finds."""
    rules = AllocatorRules.of(Version(36), FeatureGates(Version(36)))
    book = AllocatedBook()
    allocator = _allocator(rules, [_slice([_device("a"), _device("b")])], book.state)

    def given():
        found = allocator.allocate(NODE, [_claim(_request("r", 1))])
        return found and found[0]["devices"]["results"][0]["device"]

    a, b = DeviceID(DRIVER, "pool-1", "a"), DeviceID(DRIVER, "pool-1", "b")
    assert (given(), given()) == ("a", "a")
    book.add(a, None)
    assert given() == "b"
    book.add(b, None)
    assert (given(), given()) == (None, None)
    book.remove(a, None)
    assert given() == "a"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("1.36", [[("r/second", "b"), ("r/second", "c")]], id="1.36"),
        pytest.param("1.35", None, id="1.35"),
    ],
)
def test_alternatives_for_all_devices(version, expected):
    """Up to 1.35 the devices of one alternative are taken for those of the next."""
    devices = [_device("a", index=0), _device("b", index=1), _device("c", index=1)]

    def all_with(name, index):
        expression = f"device.attributes['{DRIVER}'].index == {index}"
        selectors = [{"cel": {"expression": expression}}]
        return {"name": name, "deviceClassName": "gpu", "allocationMode": "All", "selectors": selectors}

    claim = _claim({"name": "r", "firstAvailable": [all_with("first", 0), all_with("second", 1)]})

    found = _allocate([_slice(devices)], claim, version=version, allocated=[("pool-1", "a")])
    assert _chosen(found) == expected


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        pytest.param({}, "In", id="incubating"),
        pytest.param(
            {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, None, id="stable"
        ),
    ],
)
def test_device_that_binds_to_a_node(gates, expected):
    """Its claim can be used on the chosen node only; upstream's stable allocator does not know the field."""
    device = {**_device("a"), "bindsToNode": True}
    found = _allocate([_slice([device], allNodes=True)], _claim(_request()), gates=gates)

    selector = found[0].get("nodeSelector")
    assert (selector and selector["nodeSelectorTerms"][0]["matchFields"][0]["operator"]) == expected


def test_books_of_shares():
    """Shares of a device add up, and leave the device free when the last one goes."""
    book, device = AllocatedBook(), DeviceID(DRIVER, "pool-1", "a")
    one, two = {"memory": Quantity.parse("1Gi")}, {"memory": Quantity.parse("2Gi")}
    book.add(device, one)
    book.add(device, two)
    together = str(book.state.consumed[device]["memory"])
    book.remove(device, one)
    left = str(book.state.consumed[device]["memory"])
    book.remove(device, two)

    assert (together, left) == ("3Gi", "2Gi")
    assert not book.state.uses(device)
    assert book.state.releases() == 2
