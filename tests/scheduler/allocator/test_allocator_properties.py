"""The allocator against a search that tries everything: the same problems have solutions, and solutions are
true."""

from itertools import chain, product

from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.cases import CaseNode, ListedClasses
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex

DRIVER = "gpu.example.com"
VERSION = Version(36)
FEATURES = AllocatorFeatures.of(FeatureGates(VERSION))
NODE = CaseNode("node-1", {})

# size, counter set (None: no counters), how much of it, value of the attribute that constraints look at
_device = st.tuples(
    st.integers(1, 2), st.sampled_from([None, "left", "right"]), st.integers(1, 3), st.integers(0, 1)
)
# count, size asked for, by what alternative size
_request = st.tuples(st.integers(1, 2), st.integers(1, 2), st.one_of(st.none(), st.integers(1, 2)))
_claim = st.tuples(st.lists(_request, min_size=1, max_size=2), st.booleans())


def _slices(devices):
    counters = [{"name": name, "counters": {"memory": {"value": "4"}}} for name in ("left", "right")]
    made = []
    for number, (size, counter_set, amount, group) in enumerate(devices):
        device = {"name": f"d{number}", "attributes": {"size": {"int": size}, "group": {"int": group}}}
        if counter_set is not None:
            consumed = {"memory": {"value": str(amount)}}
            device["consumesCounters"] = [{"counterSet": counter_set, "counters": consumed}]
        made.append(device)
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": "node-1", "pool": pool}
    return [
        {"metadata": {"name": "a"}, "spec": {**common, "sharedCounters": counters}},
        {"metadata": {"name": "b"}, "spec": {**common, "devices": made}},
    ]


def _exactly(count, size):
    expression = f"device.attributes['{DRIVER}'].size == {size}"
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": expression}}],
    }


def _claims(claims, constrained):
    for number, (requests, same) in enumerate(claims):
        made = []
        for index, (count, size, other) in enumerate(requests):
            request = {"name": f"r{index}", "exactly": _exactly(count, size)}
            if other is not None:
                options = [{"name": f"s{i}", **_exactly(count, each)} for i, each in enumerate((size, other))]
                request = {"name": f"r{index}", "firstAvailable": options}
            made.append(request)
        devices = {"requests": made}
        if same and constrained:
            devices["constraints"] = [{"matchAttribute": f"{DRIVER}/group"}]
        yield {"metadata": {"namespace": "default", "name": f"c{number}"}, "spec": {"devices": devices}}


def _allocate(devices, claims, used, *, constrained):
    state = AllocatedState({DeviceID(DRIVER, "p", f"d{number}") for number in used})
    classes = ListedClasses([{"metadata": {"name": "gpu"}, "spec": {}}])
    allocator = Allocator(
        FEATURES, classes, SliceIndex.of(FEATURES, _slices(devices)), state, lambda: "share"
    )
    return allocator.allocate(NODE, list(_claims(claims, constrained)))


def _within_counters(devices, taken):
    return all(
        sum(devices[number][2] for number in taken if devices[number][1] == name) <= 4
        for name in ("left", "right")
    )


def _is_possible(devices, claims, used):
    """By every assignment of devices to what is asked for, without constraints; None: not to be judged."""
    if any(devices[number][1] for number in used) and not _within_counters(devices, used):
        return None  # overdrawn counters spoil everything: upstream's oddity
    requests = list(chain.from_iterable(requests for requests, _ in claims))
    choices = [(size,) if other is None else (size, other) for _, size, other in requests]
    counts = [count for count, *_ in requests]
    return any(
        _assign(devices, [*chain.from_iterable(map(_repeated, pick, counts))], used)
        for pick in product(*choices)
    )


def _repeated(size, count):
    return [size] * count


def _assign(devices, sizes, taken):
    """Returns whether free devices of these sizes can be had together."""
    if not sizes:
        return True
    return any(
        number not in taken
        and device[0] == sizes[0]
        and (device[1] is None or _within_counters(devices, {*taken, number}))
        and _assign(devices, sizes[1:], {*taken, number})
        for number, device in enumerate(devices)
    )


_problem = given(
    devices=st.lists(_device, min_size=1, max_size=6),
    claims=st.lists(_claim, min_size=1, max_size=2),
    used=st.sets(st.integers(0, 5), max_size=2),
)


@settings(max_examples=examples(200))
@_problem
def test_finds_a_solution_if_there_is_one(devices, claims, used):
    """Without constraints the allocator finds a solution exactly where trying everything finds one."""
    used = {number for number in used if number < len(devices)}
    possible = _is_possible(devices, claims, used)
    if possible is not None:
        assert (_allocate(devices, claims, used, constrained=False) is not None) is possible


@settings(max_examples=examples(200))
@_problem
def test_solutions_are_true(devices, claims, used):
    """No device twice, counters within their limits, sizes and numbers as asked, constraints satisfied."""
    used = {number for number in used if number < len(devices)}
    found = _allocate(devices, claims, used, constrained=True)
    if found is None:
        return
    taken = [[int(each["device"][1:]) for each in result["devices"]["results"]] for result in found]
    flat = list(chain.from_iterable(taken))
    assert len(set(flat)) == len(flat)
    assert not set(flat) & used
    if any(devices[number][1] for number in flat):
        assert _within_counters(devices, [*flat, *used])
    for (requests, same), result, numbers in zip(claims, found, taken, strict=True):
        assert not same or len({devices[number][3] for number in numbers}) <= 1
        for index, (count, size, other) in enumerate(requests):
            mine = [
                each for each in result["devices"]["results"] if each["request"].split("/")[0] == f"r{index}"
            ]
            wanted = other if mine[0]["request"].endswith("/s1") else size
            assert [devices[int(each["device"][1:])][0] for each in mine] == [wanted] * count
