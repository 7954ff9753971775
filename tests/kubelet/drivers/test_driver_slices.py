"""Publishing: how the library of each release brings a pool to the API server and keeps it there."""

import asyncio

import pytest
from until import until

from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.pools import Pool, Slice
from kubeskew.kubelet.drivers.resourceslice_controller import PoolKey, SlicePublisher

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

DRIVER = "gpu.example.com"
SLICES = Ref("resource.k8s.io", "v1", "resourceslices", False, "ResourceSlice")


def pool(*slices, **fields):
    """A pool of node-1 with these devices in its slices."""
    made = tuple(Slice(tuple({"name": name} for name in names)) for names in slices)
    return {"node-1": Pool(made, node_name="node-1", **fields)}


@pytest.fixture
async def publish(client, clock):
    """Makes publishers, and stops them at the end."""
    running = []
    await client.create(NODES, {"metadata": {"name": "node-1"}})

    async def start(pools, minor=36, ref=SLICES, sync_delay=0):
        gates = FeatureGates(Version(minor))
        publisher = SlicePublisher(client, clock, ref, DRIVER, gates, sync_delay=sync_delay)
        publisher.update(pools)
        publisher.start()
        running.append(publisher)
        await settled(publisher)
        return publisher

    yield start
    for publisher in running:
        await publisher.stop()


async def settled(publisher):
    await until(lambda: not publisher.pending(), 60)


async def stored(client, ref=SLICES):
    found = (await client.list(ref))["items"]
    return sorted(found, key=lambda each: [d["name"] for d in each["spec"].get("devices", ())])


def shape(slices):
    """(devices, generation, count) of each."""
    return [
        (
            [device["name"] for device in slice_["spec"].get("devices", ())],
            slice_["spec"]["pool"]["generation"],
            slice_["spec"]["pool"]["resourceSliceCount"],
        )
        for slice_ in slices
    ]


@pytest.mark.parametrize(("minor", "changed"), [(32, []), (33, ["hot", "big"]), (37, ["hot", "big"])])
async def test_times_of_taints(client, publish, minor, changed):
    """Of the taints that a device has had the last one keeps its time, since 1.33 it alone (141107)."""
    times = {"hot": "2026-01-01T00:00:00Z", "big": "2026-01-02T00:00:00Z", "loud": "2026-01-03T00:00:00Z"}
    taints = [{"key": key, "effect": "NoSchedule"} for key in times]

    def of(*more):
        return {"node-1": Pool((Slice(({"name": "a", "taints": taints}, *more)),), node_name="node-1")}

    publisher = await publish(of(), minor)
    (slice_,) = await stored(client)
    slice_["spec"]["devices"][0]["taints"] = [{**taint, "timeAdded": times[taint["key"]]} for taint in taints]
    await client.update(SLICES, slice_)
    publisher.update(of({"name": "b"}))
    await settled(publisher)
    found = [slice_ for slice_ in await stored(client) if len(slice_["spec"]["devices"]) == 2]

    kept = {taint["key"]: taint.get("timeAdded") for taint in found[0]["spec"]["devices"][0]["taints"]}
    assert [key for key, time in times.items() if kept[key] != time] == changed


@pytest.mark.parametrize(
    ("minor", "prefixes"),
    [
        (36, ["00000-gpu.example.com-node-1-", "00001-gpu.example.com-node-1-"]),
        (35, ["node-1-gpu.example.com-"] * 2),
    ],
)
async def test_names_and_owners(client, publish, minor, prefixes):
    """Since 1.36 the place in the pool comes first; the Node object owns every slice."""
    await publish(pool("a", "b"), minor)
    found = await stored(client)
    node = await client.get(NODES, "node-1")

    assert [each["metadata"]["generateName"] for each in found] == prefixes
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": node["metadata"]["uid"]}
    assert [slice_["metadata"]["ownerReferences"] for slice_ in found] == [
        [{**owner, "controller": True}]
    ] * 2
    assert shape(found) == [(["a"], 1, 2), (["b"], 1, 2)]


@pytest.mark.parametrize(
    ("minor", "before", "after", "expected"),
    [
        # one slice for one: updated in its generation, but by the oldest library
        (36, ["ab"], ["a"], [("a", 1, 1)]),
        (32, ["ab"], ["a"], [("a", 1, 1)]),
        (31, ["ab"], ["a"], [("a", 2, 1)]),
        # one of two changed: by its place, or as a new one
        (36, ["ab", "cd"], ["ab", "c"], [("ab", 1, 2), ("c", 1, 2)]),
        (35, ["ab", "cd"], ["ab", "c"], [("ab", 2, 2), ("c", 2, 2)]),
        (36, ["ab"], ["ab", "cd"], [("ab", 2, 2), ("cd", 2, 2)]),
        (36, ["ab", "cd"], ["ab"], [("ab", 1, 1)]),
        (36, ["ab", "cd"], ["a", "c"], [("a", 2, 2), ("c", 2, 2)]),
    ],
)
async def test_changes_and_generations(client, publish, minor, before, after, expected):
    """A new generation unless a single update will do (resourceslicecontroller.go, syncPool)."""
    publisher = await publish(pool(*before), minor)
    publisher.update(pool(*after))
    await settled(publisher)

    assert shape(await stored(client)) == [([*names], *numbers) for names, *numbers in expected]


async def test_a_node_that_registers_late_has_its_slices_soon(client, clock):
    """The library looks for a missing Node as it repeats a failed request: soon, then ever later."""
    publisher = SlicePublisher(client, clock, SLICES, DRIVER, FeatureGates(Version(36)), sync_delay=0)
    publisher.update(pool("a"))
    publisher.start()
    await asyncio.sleep(0.03)
    await client.create(NODES, {"metadata": {"name": "node-1"}})
    registered = clock.monotonic()
    await settled(publisher)

    assert shape(await stored(client)) == [(["a"], 1, 1)]
    assert clock.monotonic() - registered < 0.2
    await publisher.stop()


async def test_what_others_do_is_undone(client, server, publish):
    """A slice that is deleted or changed comes back; then there is peace."""
    publisher = await publish(pool("a", "b"))
    first, _ = await stored(client)
    await client.delete(SLICES, first["metadata"]["name"])
    await asyncio.sleep(1)
    assert shape(await stored(client)) == [(["a"], 2, 2), (["b"], 2, 2)]
    third, _ = await stored(client)
    await client.update(SLICES, {**third, "spec": {**third["spec"], "devices": []}})
    await asyncio.sleep(1)
    assert shape(await stored(client)) == [(["a"], 2, 2), (["b"], 2, 2)]
    writes = len([request for request in server.requests if request.method != "GET"])
    await asyncio.sleep(200)
    assert len([request for request in server.requests if request.method != "GET"]) == writes
    assert publisher.pending() == []


@pytest.mark.parametrize(
    ("minor", "age", "back"),
    [
        # before the library has looked at what it made: since 1.34 it looks again when the minute is over
        (33, 20, None),
        (36, 20, 61),
        (37, 20, 50),
        # after that
        (33, 31, 61),
        (36, 31, 61),
        (37, 31, 61),
    ],
)
async def test_a_slice_that_is_deleted_soon_after_its_creation(client, clock, publish, minor, age, back):
    """With upstream's delay of 30 s the slice comes back late, or never (132683)."""
    began = clock.monotonic()
    await publish(pool("a"), minor, sync_delay=30)
    await asyncio.sleep(age)
    await client.delete(SLICES, (await stored(client))[0]["metadata"]["name"])

    await asyncio.sleep(began + (back or 600) - 1 - clock.monotonic())
    assert await stored(client) == []
    if back is not None:
        await asyncio.sleep(2)
        assert shape(await stored(client)) == [(["a"], 1, 1)]


@pytest.mark.parametrize(
    ("minor", "age", "back"), [(33, 20, None), (36, 20, None), (37, 20, 50), (36, 31, 61), (37, 31, 61)]
)
async def test_a_slice_that_is_deleted_soon_after_its_change(client, clock, publish, minor, age, back):
    """With upstream's delay of 30 s the slice is missed for good up to 1.36 (140063)."""
    publisher = await publish(pool("a"), minor, sync_delay=30)
    await asyncio.sleep(100)
    publisher.update(pool("b"))
    await settled(publisher)
    changed = clock.monotonic()
    await asyncio.sleep(age)
    await client.delete(SLICES, (await stored(client))[0]["metadata"]["name"])
    await asyncio.sleep(0.1)
    state = [*publisher.state()["node-1"]["slices"]]

    await asyncio.sleep(changed + (back or 600) - 1 - clock.monotonic())
    assert await stored(client) == []
    assert len(state) == (1 if back is None else 0)
    if back is not None:
        await asyncio.sleep(2)
        assert shape(await stored(client)) == [(["b"], 1, 1)]


def around_creation(server, number, *, before=None, after=None):
    """Have `before` or `after` happen around the creation of a slice, before its answer."""
    creates, names = server._create, []

    async def create(target, body):
        if not target.collection.endswith("resourceslices"):
            return await creates(target, body)
        names.append(body)
        is_meant = len(names) == number
        if is_meant and before is not None:
            await before()
        made = await creates(target, body)
        if is_meant and after is not None:
            await after(made["metadata"]["name"])
        return made

    server._create = create


async def test_a_slice_that_goes_before_its_creation_is_answered(client, server, publish):
    """Whoever deletes it (a kubelet that starts wipes slices), it comes back, and the pool waits for that."""

    async def wipe(name):
        await asyncio.sleep(1)
        await client.delete(SLICES, name)
        await asyncio.sleep(1)

    around_creation(server, 1, after=wipe)
    publisher = await publish(pool("a"))

    assert shape(await stored(client)) == [(["a"], 1, 1)]
    (slice_,) = await stored(client)
    assert [*publisher.state()["node-1"]["slices"].values()] == [slice_["metadata"]["uid"]]


async def test_a_slice_that_the_watch_never_reported(client, server, publish):
    """A slice that goes before the watch has reported it comes back after a minute, even after others."""

    async def label_the_other():
        (first,) = await stored(client)
        labelled = {**first["metadata"], "labels": {"seen": "by-others"}}
        await client.update(SLICES, {**first, "metadata": labelled})
        await asyncio.sleep(0.01)  # reported, so that a look is due
        server.outage = lambda request: ConnectionError() if "watch=" in request.target else None
        await server.disconnect()

    around_creation(server, 2, before=label_the_other)
    await publish(pool("a", "b"))
    _, second = await stored(client)
    await client.delete(SLICES, second["metadata"]["name"])
    server.compact()
    await asyncio.sleep(70)

    assert shape(await stored(client)) == [(["a"], 2, 2), (["b"], 2, 2)]


@pytest.mark.parametrize("minor", [33, 37])
async def test_a_slice_that_goes_before_any_look(client, server, publish, minor):
    """The library looks again once what it made has to be in what the watch shows, in all releases."""

    async def cut():
        server.outage = lambda request: ConnectionError() if "watch=" in request.target else None
        await server.disconnect()

    around_creation(server, 1, before=cut)
    await publish(pool("a"), minor)
    (made,) = await stored(client)
    await client.delete(SLICES, made["metadata"]["name"])
    await asyncio.sleep(59)
    assert await stored(client) == []
    await asyncio.sleep(3)

    assert shape(await stored(client)) == [(["a"], 1, 1)]


async def test_a_restarted_driver_finds_its_slices(client, server, publish):
    """Nothing is written when all is as it should be, quantities by value."""
    devices = ({"name": "a", "capacity": {"memory": {"value": "1024Mi"}}},)
    await publish({"node-1": Pool((Slice(devices),), node_name="node-1")})
    (found,) = await stored(client)
    found["spec"]["devices"][0]["capacity"]["memory"]["value"] = "1Gi"
    before = await client.update(SLICES, found)
    await asyncio.sleep(1)
    await publish({"node-1": Pool((Slice(devices),), node_name="node-1")})

    assert await stored(client) == [{**before, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}]


@pytest.mark.parametrize(
    ("minor", "replaced"),
    [(35, {"POST": 101, "PUT": 0, "DELETE": 100}), (36, {"POST": 100, "PUT": 1, "DELETE": 99})],
)
async def test_a_hundred_slices(client, server, publish, minor, replaced):
    """Each is written once; then one empty slice for all: a new one, or since 1.36 the first as it is then.

    Upstream's end-to-end test (test/e2e/dra, "ResourceSlice Controller: creates slices"), 1.35.
    """

    def writes():
        paths = [
            (request.method, request.target)
            for request in server.requests
            if "resourceslices" in request.target
        ]
        return {verb: len([1 for method, _ in paths if method == verb]) for verb in replaced}

    free = [Slice(tuple({"name": f"device-{n}-{m}"} for m in range(3))) for n in range(100)]
    publisher = await publish({"free": Pool(tuple(free), all_nodes=True)}, minor)
    await asyncio.sleep(100)
    assert writes() == {"POST": 100, "PUT": 0, "DELETE": 0}
    assert {(generation, count) for _, generation, count in shape(await stored(client))} == {(1, 100)}

    publisher.update({"free": Pool((Slice(()),), all_nodes=True)})
    await settled(publisher)
    await asyncio.sleep(100)
    assert writes() == replaced
    assert len(await stored(client)) == 1


async def test_slices_of_a_node_that_was_left_stay(client, publish):
    """The kubelet wipes them; a pool of no single node goes with the driver's wish."""
    free = Pool((Slice(({"name": "a"},)),), all_nodes=True)
    publisher = await publish({**pool("a"), "free": free})
    assert publisher.stored.keys() == {PoolKey("node-1", "node-1"), PoolKey("", "free")}
    publisher.update({})
    await asyncio.sleep(1)

    assert [each["spec"]["pool"]["name"] for each in await stored(client)] == ["node-1"]


async def test_mistakes_that_drivers_make(client, publish):
    """A pool that promises more slices than there are; new slices next to old ones, and back."""
    publisher = await publish(pool("a", surplus=1))
    assert shape(await stored(client)) == [(["a"], 1, 2)]
    publisher.update(pool("a", keeps_stale=True, generation=2))
    await settled(publisher)
    assert sorted(shape(await stored(client))) == [(["a"], 1, 2), (["a"], 2, 1)]
    publisher.update(pool("a"))
    await settled(publisher)
    assert shape(await stored(client)) == [(["a"], 2, 1)]


async def test_an_old_server_gets_its_own_shape(client, publish):
    """v1beta1 has devices in `basic`."""
    old = Ref("resource.k8s.io", "v1beta1", "resourceslices", False, "ResourceSlice")
    publisher = await publish(pool("a"), ref=old)
    (found,) = await stored(client, old)

    assert found["spec"]["devices"] == [{"name": "a", "basic": {}}]
    assert [*publisher.state()["node-1"]["slices"]] == [found["metadata"]["name"]]


def drop_taints(server):
    """Have the server drop taints of devices, whose gate is off there, before it looks for a change."""
    changes, creates = server._change, server._create

    def without_taints(obj):
        devices = [
            {name: part for name, part in device.items() if name != "taints"}
            for device in obj["spec"].get("devices", ())
        ]
        return {**obj, "spec": {**obj["spec"], "devices": devices}}

    async def change(target, new, resource_version):
        return await changes(target, without_taints(new), resource_version)

    async def create(target, body):
        return await creates(target, without_taints(body))

    server._change, server._create = change, create


async def test_fields_that_the_server_drops_are_reported_once(client, server, publish, caplog):
    """With a gate off what it governs is lost: the driver says so, and makes do."""
    drop_taints(server)
    tainted = {"name": "a", "taints": [{"key": "x", "effect": "NoSchedule"}]}
    await publish({"node-1": Pool((Slice((tainted,)),), node_name="node-1")})
    await asyncio.sleep(100)

    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    features = "probably because these features are disabled: DRADeviceTaints"

    assert errors == [f'pool "node-1", slice #0: some fields were dropped by the apiserver, {features}']


async def test_what_the_server_has_dropped_is_not_written_again_for_the_same_devices(client, server, publish):
    """A driver that offers once more what it has offered writes nothing, though the server knows more now."""
    changes, creates = server._change, server._create
    drop_taints(server)
    tainted = ({"name": "a", "taints": [{"key": "x", "effect": "NoSchedule"}]},)
    publisher = await publish({"node-1": Pool((Slice(tainted),), node_name="node-1")})
    (before,) = await stored(client)
    await asyncio.sleep(100)
    server._change, server._create = changes, creates

    publisher.update({"node-1": Pool((Slice(tainted),), node_name="node-1")})
    await asyncio.sleep(100)

    assert await stored(client) == [before]


@pytest.mark.parametrize("sync_delay", [0, 30])
@pytest.mark.parametrize("minor", [36, 37])
async def test_an_update_that_changes_nothing_settles_a_pool(
    client, server, clock, publish, minor, sync_delay
):
    """A driver that starts again writes what the server had dropped; the server drops it again."""
    drop_taints(server)
    tainted = ({"name": "a", "taints": [{"key": "x", "effect": "NoSchedule"}]},)
    await publish({"node-1": Pool((Slice(tainted),), node_name="node-1")}, minor)
    (before,) = await stored(client)
    await asyncio.sleep(100)
    writes = len([request for request in server.requests if request.method == "PUT"])
    began = clock.monotonic()
    again = await publish(
        {"node-1": Pool((Slice(tainted),), node_name="node-1")}, minor, sync_delay=sync_delay
    )

    assert clock.monotonic() - began < 0.04
    assert len([request for request in server.requests if request.method == "PUT"]) == writes + 1
    assert await stored(client) == [before]
    assert again.pending() == []


@pytest.mark.parametrize("minor", [36, 37])
async def test_an_update_that_the_watch_shows_before_the_answer(client, server, clock, publish, minor):
    """It is no change of others, for which the pool would have to wait until the next sync."""
    publisher = await publish(pool("a"), minor, sync_delay=30)
    await asyncio.sleep(100)
    changes = server._change

    async def change(target, new, resource_version):
        changed = await changes(target, new, resource_version)
        await asyncio.sleep(1)
        return changed

    server._change = change
    began = clock.monotonic()
    publisher.update(pool("b"))
    await settled(publisher)

    assert 1 <= clock.monotonic() - began < 2
    assert shape(await stored(client)) == [(["b"], 1, 1)]


@pytest.mark.parametrize(("minor", "left"), [(33, 2), (34, 0)])
async def test_obsolete_slices_go_first_from_1_34_on(client, server, publish, minor, left):
    """Where the server refuses what is to be written, older libraries leave what is obsolete (syncPool)."""
    publisher = await publish(pool("ab", "cd"), minor)
    refusal = StatusError(500, "InternalError", "no")
    server.outage = lambda request: refusal if request.method in {"POST", "PUT"} else None
    publisher.update(pool("ae", "xy"))
    await asyncio.sleep(1)

    assert len(await stored(client)) == left


@pytest.mark.parametrize(("minor", "published"), [(34, [(["a", "a"], 1, 1)]), (35, [])])
async def test_the_library_looks_at_pools_from_1_35_on(client, publish, minor, published):
    """Older libraries publish what refers to nothing or is there twice (resourceslice/validation.go)."""
    await publish(pool("aa"), minor)

    assert shape(await stored(client)) == published


async def test_refusals_settle_a_pool(client, server, publish):
    """A server that finds a slice invalid is asked again; the library's own check holds until a change."""
    server.outage = lambda request: (
        StatusError(422, "Invalid", "spec.devices: Too many") if request.method == "POST" else None
    )
    publisher = await publish(pool("a"))
    assert publisher.state()["node-1"]["error"] == "spec.devices: Too many"
    server.outage = None
    await asyncio.sleep(31)
    assert publisher.state()["node-1"]["error"] == ""
    publisher.update(pool("a", "a"))
    await settled(publisher)
    assert publisher.state()["node-1"]["error"] == 'found duplicate device "a" in pool "node-1"'
    assert shape(await stored(client)) == [(["a"], 1, 1)]
