"""The recording behind `kubeskew ui` follows the log, also when another takes its place; and the picture."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from postgresql_server import PostgreSQLServer

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.records import REWOUND, STORE, Author, Change, ComponentEvent, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.cli.ui import log_recorder as recordings
from kubeskew.cli.ui.answers import picture
from kubeskew.cli.ui.log_recorder import Recording
from kubeskew.conformance.evidence.log import Write

AUTHOR = Author("kubernetes-admin", "kubectl", "1.36", "1.35", "r-1")


async def append(log: SQLLog, name: str) -> None:
    value = {"kind": "Widget", "metadata": {"name": name, "uid": name}}
    key = Key("widgets.example.com", "", name)
    await log.append(Change(Verb.CREATE, key, name, orjson.dumps(value), 0, AUTHOR, datetime.now(UTC)))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(recordings, "_AGAIN_SECONDS", 0.05)


@asynccontextmanager
async def following(url: Callable[[], str]) -> AsyncIterator[Recording]:
    recording = Recording(url, SystemClock())
    task = asyncio.ensure_future(recording.follow())
    yield recording
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Recording]:
    async with following(lambda: f"sqlite:///{tmp_path}/log.db") as recording:
        yield recording


async def until(recording: Recording, *names: str) -> None:
    """Awaits that the recording has the writes of these objects alone."""
    async with asyncio.timeout(20):
        while [each.name for each in recording.entries if isinstance(each, Write)] != [*names]:
            await recording.grown(len(recording.entries), 1.0)


async def test_the_log_is_followed(followed: Recording, tmp_path: Path):
    """Writes of before and those that come later are recorded, once there is a log at all."""
    log = await SQLLog.open(f"sqlite:///{tmp_path}/log.db", SystemClock())
    await append(log, "a")
    await until(followed, "a")
    await append(log, "b")
    await until(followed, "a", "b")
    assert followed.problem == ""
    await log.close()


async def test_another_log_is_read_from_its_beginning(followed: Recording, tmp_path: Path):
    """Nothing of a log is left when a rewind has put another store in its place."""
    log = await SQLLog.open(f"sqlite:///{tmp_path}/log.db", SystemClock())
    await append(log, "a")
    await until(followed, "a")
    await log.close()
    other = await SQLLog.open(f"sqlite:///{tmp_path}/other.db", SystemClock())
    await append(other, "z")
    await other.close()
    exchange(tmp_path)
    await until(followed, "z")


@pytest.mark.postgresql
async def test_the_log_is_followed_to_another_schema(postgresql: PostgreSQLServer):
    """After a rewind in PostgreSQL, which names another schema, the branch is read, and what it gets."""
    url = [postgresql.fresh()]
    log = await SQLLog.open(url[0], SystemClock())
    await append(log, "a")
    await append(log, "b")
    async with following(lambda: url[0]) as recording:
        await until(recording, "a", "b")
        note = ComponentEvent(2, STORE, REWOUND, "", "", datetime.now(UTC))
        url[0] = await SQLStorage().succeed(url[0], "sqlite:///unused", note)
        await until(recording, "a")
        branch = await SQLLog.open(url[0], SystemClock())
        await append(branch, "c")
        await until(recording, "a", "c")
        assert recording.problem == ""
        await branch.close()
    await log.close()
    await SQLStorage().remove(url[0])


def exchange(folder: Path) -> None:
    """Puts one log in the other's place."""
    for path in folder.glob("log.db*"):
        path.unlink()
    for path in sorted(folder.glob("other.db*")):
        path.rename(folder / path.name.replace("other", "log"))


def test_the_picture_leads_from_node_to_pod():
    """A device names its claims and their pods; what has no place waits; a device that is gone is marked."""

    def obj(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"kind": kind, "metadata": {"name": name, "namespace": "ns"}, **more}

    def given(device: str) -> dict[str, Any]:
        results = [{"driver": "d", "pool": "n", "device": device}]
        return {"allocation": {"devices": {"results": results}}, "reservedFor": [{"name": f"on-{device}"}]}

    def published(name: str, where: dict[str, Any], pool: str, *devices: dict[str, Any]) -> dict[str, Any]:
        spec = {"driver": "d", "pool": {"name": pool}, "devices": [*devices], **where}
        return obj("ResourceSlice", name, spec=spec)

    found = picture(
        [
            obj("Node", "n", status={"conditions": [{"type": "Ready", "status": "True"}]}),
            published("s", {"nodeName": "n"}, "n", {"name": "0"}, {"name": "1"}),
            published("t", {"allNodes": True}, "p", {"name": "net", "basic": {}}),
            obj("ResourceClaim", "c", status=given("0")),
            obj("ResourceClaim", "e", status=given("9")),
            obj("ResourceClaim", "w"),
            obj("Pod", "on-0", spec={"nodeName": "n"}, status={"phase": "Running"}),
            obj("Pod", "lone", spec={"nodeName": "n"}),
            obj("Pod", "later", spec={}),
        ]
    )
    [node] = found["nodes"]

    assert [
        (each["device"], each["withdrawn"], [claim["name"] for claim in each["claims"]])
        for each in node["devices"]
    ] == [
        ("0", False, ["ns/c"]),
        ("1", False, []),
        ("9", True, ["ns/e"]),
    ]
    assert node["devices"][0]["claims"][0]["pods"] == [{"name": "ns/on-0", "phase": "Running"}]
    assert [pod["name"] for pod in node["pods"]] == ["ns/lone"]
    assert [each["device"] for each in found["shared"]] == ["net"]
    assert [pod["name"] for pod in found["waiting"]["pods"]] == ["ns/later"]
    assert [claim["name"] for claim in found["waiting"]["claims"]] == ["ns/w"]
