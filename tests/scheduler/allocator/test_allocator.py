"""The allocator: what it chooses, what it refuses, and what it never does."""

import pytest
from allocator_bench import (
    DRIVER,
    NODE,
    TWO,
    a_claim,
    a_device,
    a_request,
    a_slice,
    all_devices,
    allocate,
    allocator_of,
    chosen,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices, DeviceID
from kubeskew.scheduler.allocator.claims import AllocationError, SearchTimeout
from kubeskew.scheduler.allocator.features import AllocatorFeatures


@pytest.mark.parametrize(
    ("claims", "allocated", "expected"),
    [
        pytest.param([a_claim(a_request())], [], [[("req-0", "a")]], id="first-fit"),
        pytest.param([a_claim(a_request())], [("pool-1", "a")], [[("req-0", "b")]], id="skips-used"),
        pytest.param([a_claim(a_request(count=2))], [], [[("req-0", "a"), ("req-0", "b")]], id="count"),
        pytest.param([a_claim(a_request(count=3))], [], None, id="too-few"),
        pytest.param([a_claim(all_devices())], [], [[("req-0", "a"), ("req-0", "b")]], id="all"),
        pytest.param([a_claim(all_devices())], [("pool-1", "b")], None, id="all-needs-every-device"),
        pytest.param(
            [a_claim(a_request(), name="x"), a_claim(a_request(), name="y")],
            [],
            [[("req-0", "a")], [("req-0", "b")]],
            id="two-claims",
        ),
        pytest.param(
            [a_claim(a_request(), a_request("a", expression=f"device.attributes['{DRIVER}'].index == 0"))],
            [],
            [[("req-0", "b"), ("a", "a")]],
            id="backtracks",
        ),
    ],
)
def test_choice(claims, allocated, expected):
    """Devices are tried in order; an earlier choice is taken back when a later request needs it."""
    assert chosen(allocate([a_slice(TWO)], *claims, allocated=allocated)) == expected


def test_alternatives_are_looked_at_again_by_the_search():
    """Up to 1.35 alternatives that want all devices share verdicts while devices are counted, not later."""
    devices = [a_device("d1", size=1), a_device("d2", size=2)]
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
    claim = a_claim({"name": "req-0", "firstAvailable": alternatives})
    assert chosen(allocate([a_slice(devices)], claim, version="1.35")) == [[("req-0/small", "d1")]]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(
            a_claim({"name": "r", "firstAvailable": [{"name": "s"}]}),
            "claim default/claim-0, request s: missing device class name (unsupported request type?)",
            id="alternative-without-class",
        ),
        pytest.param(
            a_claim(a_request(deviceClassName="nope")),
            "claim default/claim-0, request req-0: could not retrieve device class nope: ",
            id="class",
        ),
        pytest.param(
            a_claim(a_request(count=33)),
            "claim default/claim-0: number of requested devices 33 exceeds the claim limit of 32",
            id="limit",
        ),
        pytest.param(
            a_claim(a_request(allocationMode="Some")),
            "claim default/claim-0, request req-0: unsupported count mode Some",
            id="mode",
        ),
        pytest.param(
            a_claim(a_request(), constraints=[{}]),
            "claim default/claim-0, constraint #0: empty constraint (unsupported constraint type?)",
            id="constraint",
        ),
        pytest.param(
            a_claim(a_request(expression="device.attributes['x'].y == 1")),
            "claim default/claim-0: selector #0: CEL runtime error: no such key: y",
            id="cel",
        ),
    ],
)
def test_fatal_errors(claim, text):
    """A claim that no node can satisfy raises an error with upstream's text."""
    with pytest.raises(AllocationError) as raised:
        allocate([a_slice(TWO)], claim)

    assert str(raised.value).startswith(text)


def test_long_search_gives_up():
    """A search that explodes ends when its time is over."""
    devices = [a_device(f"d{i}", index=i % 10, group=i // 10) for i in range(40)]
    unlike = [a_request(f"r{i}", 1, f"device.attributes['{DRIVER}'].index >= {i // 2}") for i in range(12)]
    claim = a_claim(*unlike, constraints=[{"matchAttribute": f"{DRIVER}/group"}])
    version = Version(36)
    features = AllocatorFeatures.of(FeatureGates(version))
    allocator = allocator_of(features, [a_slice(devices)])

    with pytest.raises(SearchTimeout, match="filter operation aborted: context deadline exceeded"):
        allocator.find(NODE, allocator.plan([claim]), lambda: lambda: True)


def test_hopeless_search_ends_at_once():
    """A request that fails even without constraints is not tried in all combinations."""
    devices = [a_device(f"d{i}", index=i) for i in range(24)]
    unlike = [a_request(f"r{i}", 1, f"device.attributes['{DRIVER}'].index >= {i}") for i in range(12)]
    claim = a_claim(*unlike, a_request("none", 1, "false"))
    features = AllocatorFeatures.of(FeatureGates(Version(36)))
    allocator = allocator_of(features, [a_slice(devices)])
    looks = iter(range(400))  # at the clock: one for each device and request, and few steps

    assert allocator.find(NODE, allocator.plan([claim]), lambda: lambda: next(looks, None) is None) is None


def test_many_claims():
    """A pod may have more claims than calls can usually be nested."""
    devices = [a_device(f"d{i}") for i in range(1280)]
    claims = [a_claim(a_request(count=32), name=f"c{i}") for i in range(40)]
    used = [("pool-1", "d0")]

    assert allocate([a_slice(devices)], *claims, allocated=used) is None
    assert allocate([a_slice(devices)], *claims[1:], allocated=used) is not None


_indexes = st.integers(0, 3)


_requests = st.lists(
    st.tuples(st.integers(1, 3), st.one_of(st.none(), _indexes), st.booleans()), min_size=1, max_size=3
)


@settings(max_examples=examples(150))
@given(
    pools=st.lists(st.lists(_indexes, max_size=5), min_size=1, max_size=3),
    claims=st.lists(_requests, min_size=1, max_size=3),
    used=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=4),
)
def test_no_device_is_given_twice_and_all_are_wanted(pools, claims, used):
    """Every allocated device is free, given once, in the right number, and satisfies its request."""
    slices = [
        a_slice(
            [a_device(f"d{i}", index=value) for i, value in enumerate(values)], name=f"s{n}", pool=f"p{n}"
        )
        for n, values in enumerate(pools)
    ]
    values = {(f"p{n}", f"d{i}"): value for n, row in enumerate(pools) for i, value in enumerate(row)}
    taken = [(f"p{n}", f"d{i}") for n, i in used]
    made = [
        a_claim(
            *(
                a_request(f"r{i}", count, "" if wanted is None else _expression(wanted, least))
                for i, (count, wanted, least) in enumerate(requests)
            ),
            name=f"c{n}",
        )
        for n, requests in enumerate(claims)
    ]

    found = allocate(slices, *made, allocated=taken)

    if found is None:
        return
    results = [result for allocation in found for result in allocation["devices"]["results"]]
    places = [(result["pool"], result["device"]) for result in results]
    assert len(set(places)) == len(places)
    assert not set(places) & set(taken)
    for allocation, requests in zip(found, claims, strict=True):
        for i, (count, wanted, least) in enumerate(requests):
            mine = [result for result in allocation["devices"]["results"] if result["request"] == f"r{i}"]
            assert len(mine) == count
            for each in mine:
                value = values[each["pool"], each["device"]]
                assert wanted is None or (value >= wanted if least else value == wanted)


def _expression(wanted, least):
    return f"device.attributes['{DRIVER}'].index {'>=' if least else '=='} {wanted}"


def test_searches_go_on_until_a_device_becomes_free():
    """A search that remembers where the last one ended finds what one that does not remember finds."""
    features = AllocatorFeatures.of(FeatureGates(Version(36)))
    book = AllocatedDevices()
    allocator = allocator_of(features, [a_slice([a_device("a"), a_device("b")])], book.state)

    def given():
        found = allocator.allocate(NODE, [a_claim(a_request("r", 1))])
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
    devices = [a_device("a", index=0), a_device("b", index=1), a_device("c", index=1)]

    def all_with(name, index):
        expression = f"device.attributes['{DRIVER}'].index == {index}"
        selectors = [{"cel": {"expression": expression}}]
        return {"name": name, "deviceClassName": "gpu", "allocationMode": "All", "selectors": selectors}

    claim = a_claim({"name": "r", "firstAvailable": [all_with("first", 0), all_with("second", 1)]})

    found = allocate([a_slice(devices)], claim, version=version, allocated=[("pool-1", "a")])
    assert chosen(found) == expected
