"""A disk that is full, as clients of the API server see it."""

import sys
from pathlib import Path

import pytest
from server_in_process import Caller, close_server, open_server

sys.path.append(str(Path(__file__).parents[2] / "hack" / "powerloss"))

from sqlite_files import FSYNC, FULL, OK, UnavailableError, layer

MAPS = "/api/v1/namespaces/default/configmaps"


class Disk:
    """Answers writes and syncs of the write-ahead log with a code, if there is one."""

    code = OK

    def before(self, call, path, _offset, _size):
        return self.code if call in ("write", "sync") and path.endswith("-wal") else OK


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("code", "reason"),
    [(FULL, "database or disk is full"), (FSYNC, "disk I/O error")],
    ids=["full", "failing"],
)
async def test_a_failing_disk_is_a_status_and_reads_go_on(tmp_path, code, reason):
    """Writes are answered with a Status of 500 and the reason, reads as ever, and `/readyz` fails; once there
    is room, writes go on."""
    disk = Disk()
    try:
        served = layer().serving(ear=disk)
    except UnavailableError as error:
        pytest.skip(str(error))
    with served:
        server = await open_server(url=f"sqlite+aiosqlite:///{tmp_path / 'events.db'}")
        api = Caller(server)
        first = (await api.post(MAPS, config_map("first"))).body
        disk.code = code
        for name in ("second", "third"):
            answer = await api.post(MAPS, config_map(name))
            assert (answer.status, answer.body["kind"], answer.body["reason"]) == (
                500,
                "Status",
                "InternalError",
            )
            assert reason in answer.body["message"]
            assert (await api.get(f"{MAPS}/{name}")).status == 404
        refused = await api.put(f"{MAPS}/first", {**first, "data": {"a": "b"}})
        assert refused.status == 500
        assert (await api.get(f"{MAPS}/first")).body == first
        assert (await api.get("/readyz")).status == 500
        disk.code = OK
        assert (await api.post(MAPS, config_map("second"))).status == 201
        assert (await api.put(f"{MAPS}/first", {**first, "data": {"a": "b"}})).status == 200
        assert (await api.get("/readyz")).status == 200
        names = [item["metadata"]["name"] for item in (await api.get(MAPS)).body["items"]]
        assert [name for name in names if name != "kube-root-ca.crt"] == ["first", "second"]
        await close_server(server)
