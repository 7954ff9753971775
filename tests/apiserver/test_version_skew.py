"""Servers of different releases over one log: what each makes of what the other wrote."""

import asyncio

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.versions import Version

PODS = "/api/v1/namespaces/default/pods"
GROUP = "/apis/resource.k8s.io"
GATE = "DynamicResourceAllocation"


@pytest.fixture
async def both(tmp_path):
    """Callers of a 1.36 and of a 1.31 server that share a log."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    newer = await open_server(36, url)
    older = await open_server(31, url)
    yield Caller(newer), Caller(older)
    await close_server(older)
    await close_server(newer)


async def test_unknown_version_cannot_be_decoded(both):
    """A version that came later is an error for the older server: to get, to list and to watch."""
    newer, older = both
    made = await newer.post(f"{GROUP}/v1/deviceclasses", {"metadata": {"name": "c"}, "spec": {}})
    assert made.status == 201
    old = await open_server(
        31,
        older.server.options.storage_url,
        gates={"DynamicResourceAllocation": True},
        runtime_config={"resource.k8s.io/v1alpha3": True},
    )
    try:
        caller = Caller(old)
        classes = f"{GROUP}/v1alpha3/deviceclasses"
        for target in (f"{classes}/c", f"{classes}?limit=500"):
            answer = await caller.get(target)
            assert answer.status == 500
            assert (
                'no kind "DeviceClass" is registered for version "resource.k8s.io/' in answer.body["message"]
            )
        for query in ("", "?watch=true"):
            answer = await caller.get(classes + query)
            assert (answer.status, answer.body["message"]) == (429, "storage is (re)initializing")
    finally:
        await close_server(old)


async def test_unknown_fields_are_lost_on_the_next_write(both):
    """The older server does not show a field it does not know, and its next write takes it away."""
    newer, older = both
    spec = {"containers": [{"name": "c", "image": "i"}], "hostnameOverride": "other"}
    made = await newer.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert "hostnameOverride" in made.body["spec"]

    read = await older.get(f"{PODS}/p")
    assert "hostnameOverride" not in read.body["spec"]
    listed = await older.get(PODS)
    assert "hostnameOverride" not in listed.body["items"][0]["spec"]
    assert "hostnameOverride" in (await newer.get(f"{PODS}/p")).body["spec"]

    changed = await older.patch(f"{PODS}/p", {"metadata": {"labels": {"l": "v"}}})
    assert changed.status == 200
    assert "hostnameOverride" not in (await newer.get(f"{PODS}/p")).body["spec"]


async def test_a_pod_of_another_class_without_the_fields_that_are_unknown_cannot_be_changed(both):
    """The older server takes a pod whose class is of its own resources for one of another class, as it does
    not know them, and refuses each update; the field stays."""
    newer, older = both
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": {"requests": {"cpu": "1"}}}
    await newer.post(PODS, {"metadata": {"name": "p"}, "spec": spec})

    changed = await older.patch(f"{PODS}/p", {"metadata": {"labels": {"l": "v"}}})
    immutable = 'Pod "p" is invalid: metadata: Invalid value: "Burstable": Pod QoS is immutable'
    assert (changed.status, changed.body["message"]) == (422, immutable)
    assert "resources" in (await newer.get(f"{PODS}/p")).body["spec"]


async def test_both_take_part_in_one_race(both):
    """Updates through both servers are all there: a conflict is noticed whoever wrote before."""
    newer, older = both
    maps = "/api/v1/namespaces/default/configmaps"
    await newer.post(maps, {"metadata": {"name": "a"}, "data": {}})

    async def add(caller, key):
        answer = await caller.patch(f"{maps}/a", {"data": {key: "x"}})
        assert answer.status == 200

    await asyncio.gather(*(add((newer, older)[n % 2], f"k{n}") for n in range(20)))

    assert len((await newer.get(f"{maps}/a")).body["data"]) == 20
    assert len((await older.get(f"{maps}/a")).body["data"]) == 20


async def test_watch_sees_the_other_server(both):
    """A watch at one server shows what was written through the other."""
    newer, older = both
    maps = "/api/v1/namespaces/default/configmaps"
    revision = (await older.get(maps)).body["metadata"]["resourceVersion"]
    await newer.post(maps, {"metadata": {"name": "a"}})

    async with asyncio.timeout(30):
        kind, obj = await anext(older.watch(f"{maps}?watch=true&resourceVersion={revision}"))
        assert (kind, obj["metadata"]["name"]) == ("ADDED", "a")


CLAIMS, SPEC = "namespaces/default/resourceclaims", {"resourceClassName": "gpu"}
DRAFT = Version(25, "kep3063")


def claim_api(release, version):
    """The path of an API of claims, and the options of a server of that release that has it."""
    group = "cdi.k8s.io" if release.preview else "resource.k8s.io"
    options = {"gates": {GATE: True}, "runtime_config": {f"{group}/{version}": True}}
    return f"/apis/{group}/{version}", options


@pytest.mark.parametrize(
    ("writer", "written", "reader", "read"),
    [
        (DRAFT, "v1alpha1", Version(26), "v1alpha1"),
        (Version(26), "v1alpha1", DRAFT, "v1alpha1"),
        (Version(26), "v1alpha1", Version(27), "v1alpha2"),
        (Version(27), "v1alpha2", Version(26), "v1alpha1"),
        (Version(30), "v1alpha2", Version(31), "v1alpha3"),
    ],
    ids=str,
)
async def test_designs_of_claims_do_not_read_each_other(tmp_path, writer, written, reader, read):
    """Claims of one design lie where the next keeps its own, which cannot decode them, nor remove them."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    api, options = claim_api(writer, written)
    first = await open_server(writer, url, **options)
    assert (
        await Caller(first).post(f"{api}/{CLAIMS}", {"metadata": {"name": "c"}, "spec": SPEC})
    ).status == 201
    await close_server(first)
    old, (api, options) = api, claim_api(reader, read)
    second = await open_server(reader, url, **options)
    caller = Caller(second)
    text = f'no kind "ResourceClaim" is registered for version "{old.removeprefix("/apis/")}" in scheme "'

    answers = [
        await caller.get(f"{api}/{CLAIMS}/c"),
        await caller.get(f"{api}/{CLAIMS}?limit=500"),
        await caller.delete(f"{api}/{CLAIMS}/c"),
        await caller.delete(f"{api}/{CLAIMS}?limit=500"),
    ]
    listed = await caller.get(f"{api}/{CLAIMS}")
    taken = await caller.post(f"{api}/{CLAIMS}", {"metadata": {"name": "c"}, "spec": SPEC})

    assert {answer.status for answer in answers} == {500}
    assert all(answer.body["message"].startswith(text) for answer in answers)
    assert [answer.body.get("reason", "") for answer in answers] == [""] * 4
    assert listed.status == (429 if reader.minor >= 31 else 500)
    assert taken.body["reason"] == "AlreadyExists"
    await close_server(second)


async def test_what_a_release_has_no_kind_for_is_not_found(tmp_path):
    """Contexts of 1.31 stay in the store, and 1.32 has no path to them; claims lose their driver."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    api, options = claim_api(Version(31), "v1alpha3")
    options["gates"]["DRAControlPlaneController"] = True
    first = await open_server(31, url, **options)
    for plural, spec in (
        ("podschedulingcontexts", {"selectedNode": "n"}),
        ("resourceclaims", {"controller": "d.example.com", "devices": {}}),
    ):
        made = await Caller(first).post(
            f"{api}/namespaces/default/{plural}", {"metadata": {"name": "p"}, "spec": spec}
        )
        assert made.status == 201
    await close_server(first)
    api, options = claim_api(Version(32), "v1beta1")
    second = await open_server(32, url, **options)
    caller = Caller(second)

    assert (await caller.get(f"{api}/namespaces/default/podschedulingcontexts/p")).status == 404
    claim = await caller.get(f"{api}/{CLAIMS}/p")
    assert (claim.status, list(claim.body["spec"])) == (200, ["devices"])
    await close_server(second)


async def test_pods_of_one_design_are_read_by_the_other(tmp_path):
    """Plain strings and structs under `claims` are fields of two designs: each drops the other's."""
    url = f"sqlite+aiosqlite:///{tmp_path}/log.db"
    drafted = {"name": "g", "template": {"spec": SPEC}}
    shipped = {"name": "g", "source": {"resourceClaimName": "c"}}
    for release, name, claim, used in (
        (DRAFT, "drafted", drafted, "g"),
        (Version(26), "shipped", shipped, {"name": "g"}),
    ):
        server = await open_server(release, url, gates={GATE: True})
        container = {"name": "c", "image": "i", "resources": {"claims": [used], "requests": {"cpu": "1"}}}
        body = {"metadata": {"name": name}, "spec": {"resourceClaims": [claim], "containers": [container]}}
        assert (await Caller(server).post(PODS, body)).status == 201
        await close_server(server)

    for release, own, other in ((DRAFT, "drafted", "shipped"), (Version(26), "shipped", "drafted")):
        server = await open_server(release, url, gates={GATE: True})
        pods = {
            pod["metadata"]["name"]: pod["spec"] for pod in (await Caller(server).get(PODS)).body["items"]
        }
        resources = {name: pod["containers"][0]["resources"] for name, pod in pods.items()}
        changed = await Caller(server).patch(f"{PODS}/{other}", {"metadata": {"labels": {"a": "b"}}})
        await close_server(server)

        assert resources[own]["claims"] == (["g"] if release.preview else [{"name": "g"}])
        assert resources[other] == {"requests": {"cpu": "1"}}
        assert changed.status == 422
        assert "must specify one of: `resourceClaimName`" in changed.body["message"]
