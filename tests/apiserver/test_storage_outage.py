"""Clients see a readable server while the database takes no writes."""

import pytest
from server_in_process import MAPS, Caller, close_server, config_map, open_server


@pytest.fixture
async def api(tmp_path):
    """The administrator of a server whose store is a file."""
    server = await open_server(url=f"sqlite+aiosqlite:///{tmp_path / 'events.db'}")
    yield Caller(server)
    await close_server(server)


async def pages(api, most):
    """Limits the file on both connections that write."""
    database = api.server.services.log._database
    for write in (database.write, database.write_briefly):
        await write(lambda session: session._connection.execute(f"PRAGMA max_page_count={most}"))


async def test_a_full_disk(api):
    """Writes are refused with the reason, reads go on, probes say so, and all is well when there is room."""
    large = config_map("large") | {"data": {"text": "x" * 900_000}}
    await pages(api, 1)

    refused = await api.post(MAPS, large)

    assert refused.status == 500
    assert refused.body["message"].endswith("events.db: database or disk is full")
    assert (await api.get(MAPS)).body["items"] == []
    ready = await api.get("/readyz")
    assert ready.status == 500
    assert b"[-]etcd failed: reason withheld\n[-]etcd-readiness failed" in ready.raw
    assert (await api.get("/api/v1/componentstatuses/etcd-0")).body["conditions"][0]["status"] == "False"
    await pages(api, 1_000_000)
    assert (await api.post(MAPS, large)).status == 201
    assert (await api.get("/readyz")).raw == b"ok"
    assert (await api.get("/api/v1/componentstatuses/etcd-0")).body["conditions"][0]["status"] == "True"
