"""Device profiles: KEP-4815's tables, and the slices that servers of each release get of them."""

import pytest

from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.pools import Pool, Slice, pre_partitioned
from kubeskew.kubelet.drivers.profiles import PROFILES, Offer, ProfileError, resources_of
from kubeskew.kubelet.drivers.resourceslice_controller import PoolError, check_pool

DRIVER = "gpu.example.com"

# KEP-4815, "Dynamic allocation of Multi-Instance GPUs (MIG) on NVIDIA hardware".
A100 = {
    # profile: memory, memory slices, multiprocessors, copy engines, decoders, encoders, JPEG, OFA, placements
    "7g.40gb": ("40192Mi", 8, 98, 7, 5, 0, 1, 1, 1),
    "4g.20gb": ("19968Mi", 4, 56, 4, 2, 0, 0, 0, 1),
    "3g.20gb": ("19968Mi", 4, 42, 3, 2, 0, 0, 0, 2),
    "2g.10gb": ("9856Mi", 2, 28, 2, 1, 0, 0, 0, 3),
    "1g.10gb": ("9856Mi", 2, 14, 1, 1, 0, 0, 0, 4),
    "1g.5gb+me": ("4864Mi", 1, 14, 1, 1, 0, 1, 1, 7),
    "1g.5gb": ("4864Mi", 1, 14, 1, 0, 0, 0, 0, 7),
}
# The diagram: the memory slice at which each of them can begin.
STARTS = {
    "7g.40gb": [0],
    "4g.20gb": [0],
    "3g.20gb": [0, 4],
    "2g.10gb": [0, 2, 4],
    "1g.10gb": [0, 2, 4, 6],
    "1g.5gb+me": [0, 1, 2, 3, 4, 5, 6],
    "1g.5gb": [0, 1, 2, 3, 4, 5, 6],
}


def pools(profile="", minor=36, nodes=("node-1",), **fields):
    offers = [Offer(node, profile, **fields) for node in nodes]
    return resources_of(DRIVER, offers, Version(minor))


def devices(pool):
    return {device["name"]: device for piece in pool.slices for device in piece.devices}


def consumed(device):
    return {
        name: counter["value"]
        for entry in device["consumesCounters"]
        for name, counter in entry["counters"].items()
    }


def fit(pool, *names):
    """Returns whether the counters of the pool are enough for these devices together."""
    left = {
        (counter_set["name"], name): Quantity.parse(counter["value"])
        for piece in pool.slices
        for counter_set in piece.shared_counters
        for name, counter in counter_set["counters"].items()
    }
    for name in names:
        for entry in devices(pool)[name]["consumesCounters"]:
            for counter, amount in entry["counters"].items():
                left[entry["counterSet"], counter] -= Quantity.parse(amount["value"])
    return all(amount.sign() >= 0 for amount in left.values())


def test_plain_devices_are_as_the_design_has_them():
    """Type, index, uuid, model, driver version and memory; the user's values win, and null removes."""
    made = devices(pools(devices=8, attributes={"zone": "a", "fast": True, "model": None})["node-1"])

    assert [*made] == [f"gpu-{index}" for index in range(8)]
    attributes = made["gpu-3"]["attributes"]
    assert attributes["type"] == {"string": "gpu"}
    assert attributes["index"] == {"int": 3}
    assert attributes["driverVersion"] == {"version": "1.0.0"}
    assert (attributes["zone"], attributes["fast"]) == ({"string": "a"}, {"bool": True})
    assert "model" not in attributes
    assert made["gpu-3"]["capacity"] == {"memory": {"value": "80Gi"}}
    assert made == devices(pools(devices=8, attributes={"zone": "a", "fast": True, "model": None})["node-1"])


def test_the_a100_has_the_partitions_of_the_kep():
    """Every MIG profile of the table, with its counters, at each of its placements."""
    made = devices(pools("a100-mig", devices=1)["node-1"])
    partitions = [device for device in made.values() if device["attributes"]["type"]["string"] == "mig"]
    found, starts = {}, {}
    for device in partitions:
        profile, counters = device["attributes"]["profile"]["string"], consumed(device)
        slices = [name for name in counters if name.startswith("memory-slice-")]
        names = ("multiprocessors", "copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")
        row = (counters["memory"], len(slices), *(int(counters[name]) for name in names))
        found.setdefault(profile, set()).add(row)
        starts.setdefault(profile, []).append(min(int(name.rpartition("-")[2]) for name in slices))
    placements = {profile: len(begun) for profile, begun in starts.items()}

    assert found == {profile: {row[:-1]} for profile, row in A100.items()}
    assert placements == {profile: row[-1] for profile, row in A100.items()}
    assert starts == STARTS
    assert made["gpu-0-mig-1g-5gb-me-3"]["capacity"]["memorySlice3"] == {"value": "1"}


@pytest.mark.parametrize(
    ("names", "possible"),
    [
        (("1g-5gb-0", "1g-5gb-1", "2g-10gb-2-3", "3g-20gb-4-7"), True),  # the KEP's claim
        (("1g-5gb-0", "1g-5gb-1"), True),
        (("1g-5gb-0", "2g-10gb-0-1"), False),
        (("1g-5gb-1", "2g-10gb-0-1"), False),
        (("3g-20gb-0-3", "3g-20gb-4-7"), True),
        (("4g-20gb-0-3", "3g-20gb-4-7"), True),
        (("7g-40gb-0-7", "1g-5gb-0"), False),
        (("2g-10gb-0-1", "2g-10gb-2-3", "2g-10gb-4-5"), True),
        (("1g-10gb-0-1", "1g-10gb-2-3", "1g-10gb-4-5", "1g-10gb-6-7"), True),
        (tuple(f"1g-5gb-{number}" for number in range(7)), True),
        (("1g-5gb-me-0", "1g-5gb-me-1"), False),  # one JPEG engine
    ],
)
def test_partitions_exclude_each_other_as_the_kep_says(names, possible):
    """Partitions of one A100 fit together only as the KEP says."""
    pool = pools("a100-mig", devices=1)["node-1"]

    assert fit(pool, *(f"gpu-0-mig-{name}" for name in names)) is possible
    assert fit(pool, "gpu-0")
    assert not fit(pool, "gpu-0", "gpu-0-mig-1g-5gb-0")


def test_partitions_come_smallest_first():
    """The scheduler takes the first that fits, so the whole GPU is last (KEP-4815)."""
    names = [*devices(pools("a100-mig", devices=1)["node-1"])]

    assert (names[0], names[-1], len(names)) == ("gpu-0-mig-1g-5gb-0", "gpu-0", 26)


def test_counters_lie_where_the_server_wants_them():
    """1.35: in slices of their own; 1.33 and 1.34: next to their devices; before: whole GPUs alone."""
    newer, older, oldest = (pools("a100-mig", minor, devices=8)["node-1"] for minor in (35, 34, 32))

    assert [len(piece.shared_counters) for piece in newer.slices] == [8, 0, 0, 0, 0]
    assert [len(piece.devices) for piece in newer.slices] == [0, 64, 64, 64, 16]
    assert [(len(piece.shared_counters), len(piece.devices)) for piece in older.slices] == [(2, 52)] * 4
    assert [*devices(oldest)] == [f"gpu-{index}" for index in range(8)]
    assert not any("consumesCounters" in device for device in devices(oldest).values())


def test_many_plain_devices_are_split():
    """128 to a slice, and no devices are one empty slice."""
    assert [len(piece.devices) for piece in pools(devices=300)["node-1"].slices] == [128, 128, 44]
    assert pools(devices=0)["node-1"].slices == (Slice(),)


def test_a_pool_as_it_was_before_there_were_counters():
    """Of a GPU in use the partitions that are used stay, of another the whole GPU; nothing has counters."""
    made = pools("a100-mig", devices=2)["node-1"]
    used = ["gpu-0-mig-3g-20gb-0-3", "gpu-0-mig-1g-5gb-4"]
    fixed = pre_partitioned(Version(36), made, used)

    assert [*devices(fixed)] == ["gpu-0-mig-1g-5gb-4", "gpu-0-mig-3g-20gb-0-3", "gpu-1"]
    assert not any("consumesCounters" in device for device in devices(fixed).values())
    assert [piece.shared_counters for piece in fixed.slices] == [()]
    assert pre_partitioned(Version(36), pools(devices=2)["node-1"], []) == pools(devices=2)["node-1"]


def test_the_tpu_slices_of_the_kep():
    """Four machines are one 4x4, two 2x4 and four 2x2, on nodes that each device names."""
    (pool,) = pools("tpu-v5e-4x4", nodes=("node-1", "node-2", "node-5", "node-6")).values()
    made = devices(pool)
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-5", "node-6"]}

    assert [*made] == [*(f"tpu-2x2-{n}" for n in range(1, 5)), "tpu-2x4-1", "tpu-2x4-2", "tpu-4x4-1"]
    assert all(piece.per_device_node_selection for piece in pool.slices)
    assert (pool.node_name, pool.node_selector, pool.all_nodes) == ("", None, False)
    assert made["tpu-2x2-3"]["nodeName"] == "node-5"
    assert made["tpu-2x4-2"]["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    assert made["tpu-4x4-1"]["capacity"] == {"tpus": {"value": "16"}}
    assert consumed(made["tpu-2x4-2"]) == {"tpus-node-5": "4", "tpus-node-6": "4"}
    assert fit(pool, "tpu-2x4-1", "tpu-2x2-3", "tpu-2x2-4")
    assert not fit(pool, "tpu-2x4-1", "tpu-2x2-1")
    assert not fit(pool, "tpu-4x4-1", "tpu-2x2-4")


def test_tpus_of_more_and_fewer_machines():
    """Five machines are a full group and a single one; before 1.33 each machine is alone."""
    names = tuple(f"node-{number}" for number in range(5))
    full, rest = pools("tpu-v5e-4x4", nodes=names).values()

    assert (len(devices(full)), [*devices(rest)]) == (7, ["tpu-2x2-1"])
    assert {*pools("tpu-v5e-4x4", 32, nodes=names)} == {*names}


def test_the_good_allocations_of_sixteen_machines():
    """In a square of 4x4 machines a 4x4 slice is a quarter of the square, as the KEP lists them."""
    names = tuple(f"node-{number}" for number in range(1, 17))
    (pool,) = pools("tpu-v5e-8x8", nodes=names).values()
    made = devices(pool)
    quarters = [consumed(made[f"tpu-4x4-{number}"]) for number in range(1, 5)]

    assert [*map(list, quarters)] == [
        [f"tpus-node-{number}" for number in quarter]
        for quarter in ((1, 2, 5, 6), (3, 4, 7, 8), (9, 10, 13, 14), (11, 12, 15, 16))
    ]
    sizes = [device["capacity"]["tpus"]["value"] for device in made.values()]
    assert sizes == ["4"] * 16 + ["8"] * 8 + ["16"] * 4 + ["32"] * 2 + ["64"]
    assert fit(pool, "tpu-4x8-1", "tpu-4x4-3", "tpu-4x4-4")
    assert not fit(pool, "tpu-8x8-1", "tpu-2x2-16")


def test_a_network_card_is_whole_or_in_virtual_functions():
    """Eight virtual functions share a card; whoever has it whole has all of them."""
    pool = pools("nic-sriov", devices=1)["node-1"]
    functions = [f"nic-0-vf-{number}" for number in range(8)]

    assert [*devices(pool)] == [*functions, "nic-0"]
    assert fit(pool, *functions)
    assert not fit(pool, "nic-0", functions[0])


@pytest.mark.parametrize("minor", range(31, 38))
@pytest.mark.parametrize("profile", [*PROFILES])
def test_every_profile_keeps_to_the_limits(profile, minor):
    """Attributes, capacities, devices and counters of every slice, in every release; references hold."""
    for name, pool in pools(profile, minor, nodes=[f"node-{n}" for n in range(4)]).items():
        check_pool(Version(37), DRIVER, name, pool)
        for piece in pool.slices:
            amounts = [sum(len(e["counters"]) for e in d.get("consumesCounters", ())) for d in piece.devices]
            assert len(piece.devices) <= (64 if minor >= 35 and any(amounts) else 128)
            assert sum(amounts) <= (2048 if minor >= 35 else 1024)
            shared = [len(counter["counters"]) for counter in piece.shared_counters]
            assert len(shared) <= 8 if minor >= 35 else sum(shared) <= 32
            assert not (minor >= 35 and piece.shared_counters and piece.devices)
            assert all(len(d["attributes"]) + len(d["capacity"]) <= 32 for d in piece.devices)
            assert all(len(device["name"]) <= 63 and "." not in device["name"] for device in piece.devices)


def test_an_unknown_profile_is_reported():
    """With the profiles there are."""
    with pytest.raises(ProfileError, match="unknown device profile x; known are a100-mig, h100"):
        pools("x")


OWN_DOMAIN = 'use unqualified "x", the driver name is added implicitly'
SET = {"name": "set", "counters": {"memory": {"value": "1"}}}


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([Slice(({"name": "a"},)), Slice(({"name": "a"},))], 'found duplicate device "a" in pool "pool"'),
        ([Slice((), (SET,)), Slice((), (SET,))], 'found duplicate counter set "set" in pool "pool"'),
        (
            [Slice(({"name": "a", "consumesCounters": [{"counterSet": "other", "counters": {}}]},), (SET,))],
            'counter set "other" referenced by device "a" not found',
        ),
        (
            [
                Slice(
                    ({"name": "a", "consumesCounters": [{"counterSet": "set", "counters": {"x": {}}}]},),
                    (SET,),
                )
            ],
            'counter "x" referenced by device "a" not found in counter set "set"',
        ),
        (
            [Slice(({"name": "a", "attributes": {f"{DRIVER}/x": {"int": 1}}},))],
            f'pool "pool": device "a": attribute "{DRIVER}/x": {OWN_DOMAIN}',
        ),
    ],
)
def test_pools_that_must_not_be_published(slices, message):
    """Duplicates, and references to nothing, in upstream's words."""
    with pytest.raises(PoolError) as failure:
        check_pool(Version(37), DRIVER, "pool", Pool(tuple(slices)))

    assert str(failure.value) == message
