"""Servers of different releases over one log: what each makes of what the other wrote."""

import asyncio

import pytest
from server_in_process import Caller, close_server, open_server

PODS = "/api/v1/namespaces/default/pods"
GROUP = "/apis/resource.k8s.io"


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
        for target in (f"{GROUP}/v1alpha3/deviceclasses/c", f"{GROUP}/v1alpha3/deviceclasses"):
            answer = await caller.get(target)
            assert answer.status == 500
            assert (
                'no kind "DeviceClass" is registered for version "resource.k8s.io/' in answer.body["message"]
            )
        events = [event async for event in caller.watch(f"{GROUP}/v1alpha3/deviceclasses?watch=true")]
        assert [(kind, obj["code"]) for kind, obj in events] == [("ERROR", 500)]
    finally:
        await close_server(old)


async def test_unknown_fields_are_lost_on_the_next_write(both):
    """The older server does not show a field it does not know, and its next write takes it away."""
    newer, older = both
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": {"requests": {"cpu": "1"}}}
    made = await newer.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert "resources" in made.body["spec"]

    read = await older.get(f"{PODS}/p")
    assert "resources" not in read.body["spec"]
    listed = await older.get(PODS)
    assert "resources" not in listed.body["items"][0]["spec"]
    assert "resources" in (await newer.get(f"{PODS}/p")).body["spec"]

    changed = await older.patch(f"{PODS}/p", {"metadata": {"labels": {"l": "v"}}})
    assert changed.status == 200
    assert "resources" not in (await newer.get(f"{PODS}/p")).body["spec"]


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
    """A watch at one server tells what was written through the other."""
    newer, older = both
    maps = "/api/v1/namespaces/default/configmaps"
    revision = (await older.get(maps)).body["metadata"]["resourceVersion"]
    await newer.post(maps, {"metadata": {"name": "a"}})

    async with asyncio.timeout(30):
        kind, obj = await anext(older.watch(f"{maps}?watch=true&resourceVersion={revision}"))
        assert (kind, obj["metadata"]["name"]) == ("ADDED", "a")
