"""Audit events that a shim receives: they become authors of the log's events, or nothing."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.http.user_agents import component_of
from kubeskew.apiserver.storage.etcd.log_backing import API_SERVER
from kubeskew.apiserver.storage.interfaces import Log, StorageError
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.records import Author, Change, Event, Key, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.shim import audit
from kubeskew.shim.audit import AuditSink, audit_policy
from kubeskew.shim.audit_webhook import AuditWebhook

SECOND = timedelta(seconds=1)
NOBODY = API_SERVER.user


class HeldClock(SystemClock):
    """Sleeping ends only when the test lets it, and then at once."""

    def __init__(self) -> None:
        self.time = 0.0
        self.moved = asyncio.Event()

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while self.time < end:
            await self.moved.wait()

    async def move(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.time += seconds
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()
        await asyncio.sleep(0)


@pytest.fixture(params=["memory", "file"])
async def log(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Log]:
    opened: Log = MemoryLog()
    if request.param == "file":
        opened = await SQLLog.open(f"sqlite+aiosqlite:///{tmp_path / 'events.db'}", SystemClock())
    yield opened
    await opened.close()


def sink_of(log: Log, clock: SystemClock | None = None) -> AuditSink:
    return AuditSink(log, clock or HeldClock(), "1.36.3", component_of)


def change(verb: Verb, of: Event | None = None, name: str = "a", author: Author = API_SERVER) -> Change:
    key = Key("pods", "default", name)
    return Change(verb, key, f"uid-{name}", b"{}", of.revision if of else 0, author, SystemClock().now())


def audited(at: datetime, verb: str = "create", user: str = "alice", **answer: Any) -> dict[str, Any]:
    return {
        "level": "RequestResponse", "auditID": f"by-{user}", "stage": "ResponseComplete", "verb": verb,
        "requestURI": "/api/v1/namespaces/default/pods", "user": {"username": user},
        "userAgent": "kubectl/v1.36.3 (linux/amd64)", "responseStatus": {"metadata": {}, "code": 200},
        "responseObject": answer, "requestReceivedTimestamp": (at - SECOND).isoformat(),
        "stageTimestamp": (at + SECOND).isoformat(),
    }  # fmt: skip


def wrote(event: Event, verb: str = "create", user: str = "alice") -> dict[str, Any]:
    return audited(event.time, verb, user, metadata={"resourceVersion": str(event.revision)})


def deleted(event: Event, user: str = "alice") -> dict[str, Any]:
    return audited(event.time, "delete", user, kind="Status", details={"uid": event.uid})


def posted(*events: Mapping[str, Any]) -> bytes:
    body = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": [*events]}
    return json.dumps(body).encode()


async def users(log: Log) -> list[str]:
    return [event.author.user for event in await log.after(await log.compacted(), 1000)]


async def test_writes_and_deletions_get_their_authors(log: Log):
    """In batches of any size and order, and however often the webhook tries again."""
    sink = sink_of(log)
    first = await log.append(change(Verb.CREATE))
    second = await log.append(change(Verb.UPDATE, first))
    gone = await log.append(change(Verb.DELETE, second))
    await log.append(change(Verb.CREATE, None, "b"))
    assert await sink.received(posted(deleted(gone, "carol"), wrote(first))) == 200
    assert await sink.received(posted(wrote(second, "patch", "bob"))) == 200
    assert await sink.received(posted(wrote(first), deleted(gone, "carol"))) == 200
    await sink.close()
    assert await users(log) == ["alice", "bob", "carol", NOBODY]
    assert (await log.after(1, 1))[0].author == Author("alice", "kubectl", "1.36", "1.36.3", "by-alice")


async def test_claims_settle(log: Log):
    """Until then the writer is the API server; a claim may come before its write."""
    clock = HeldClock()
    sink = sink_of(log, clock)
    now = SystemClock().now()
    await sink.received(posted(audited(now, metadata={"resourceVersion": "2"})))
    await log.append(change(Verb.CREATE))
    assert await users(log) == [NOBODY]
    assert sink._settling is not None
    await clock.move(audit.SETTLE_SECONDS / 2)
    assert not sink._settling.done()
    await clock.move(audit.SETTLE_SECONDS)
    await sink._settling
    assert await users(log) == ["alice"]
    await sink.close()


async def test_contradictions_are_left_for_good(log: Log):
    """A request without effect answers another one's write: neither counts, nor does a repetition."""
    clock = HeldClock()
    sink = sink_of(log, clock)
    event = await log.append(change(Verb.CREATE))
    await sink.received(posted(wrote(event, "patch", "bob")))
    await sink.received(posted(wrote(event)))
    assert sink._settling is not None
    await clock.move(audit.SETTLE_SECONDS)
    await sink._settling
    await sink.received(posted(wrote(event)))
    await sink.close()
    assert await users(log) == [NOBODY]


async def test_only_writes_of_the_api_server_are_attributed(log: Log):
    """An emulated server's authors stay, also where the log is read for them."""
    known = API_SERVER._replace(user="someone")
    before = await log.append(change(Verb.CREATE, None, "x", known))
    sink = sink_of(log)
    after = await log.append(change(Verb.CREATE, None, "y", known))
    await sink.received(posted(wrote(before), wrote(after)))
    await sink.close()
    assert await users(log) == ["someone", "someone"]


async def test_older_writes_are_read_by_revision(log: Log, monkeypatch: pytest.MonkeyPatch):
    """Events that were written before, or are forgotten, are read in ranges; compacted ones are left out."""
    monkeypatch.setattr(audit, "WRITES_KEPT", 2)
    monkeypatch.setattr(audit, "_GAP", 1)
    monkeypatch.setattr(audit, "_READ_EVENTS", 1)
    events = [await log.append(change(Verb.CREATE, None, f"p{number}")) for number in range(4)]
    sink = sink_of(log)
    events += [await log.append(change(Verb.CREATE, None, f"q{number}")) for number in range(4)]
    assert len(sink._writes) == 2
    assert len(sink._places) == 2
    await log.compact(3)
    await sink.received(
        posted(*map(wrote, events), audited(events[0].time, metadata={"resourceVersion": "99"}))
    )
    await sink.close()
    assert await users(log) == ["alice"] * 6


async def test_memory_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch):
    """Claims of nothing go; too many count before their time."""
    monkeypatch.setattr(audit, "CLAIMS_KEPT", 3)
    sink = sink_of(log)
    event = await log.append(change(Verb.CREATE))
    await sink.received(posted(wrote(event)))
    for number in range(50):
        await sink.received(posted(audited(event.time, "delete", details={"uid": f"u{number}"})))
        assert len(sink._claims) <= 3
    assert await users(log) == ["alice"]
    await sink.close()
    assert (len(sink._claims), len(sink._writes), len(sink._places)) == (0, 0, 0)


async def test_a_refusing_database_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    """The authors are kept until it takes them."""
    log = MemoryLog()
    sink = sink_of(log)
    event = await log.append(change(Verb.CREATE))

    async def refuse(authors: object) -> None:
        raise StorageError("disk full")

    with monkeypatch.context() as refusing:
        refusing.setattr(log, "attribute", refuse)
        await sink.received(posted(wrote(event)))
        await sink._settle(1)
    await sink.close()
    assert await users(log) == ["alice"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"5", b"[]", b"{}", b'{"kind":"EventList","items":[]}', b"\xff", posted()[:-1]]
)
async def test_malformed_bodies_are_refused(body: bytes):
    """Nothing but an EventList of audit.k8s.io/v1 is taken."""
    assert await sink_of(MemoryLog()).received(body) == 400


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*audited(SystemClock().now()), "metadata", "items", "uid", "code", "details"]),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(changes=st.dictionaries(st.sampled_from([*audited(SystemClock().now())]), JSON), item=JSON)
def test_no_event_raises(changes: dict[str, Any], item: Any):
    """Events of any form are taken, and nothing is made of them."""

    async def run() -> None:
        sink = sink_of(MemoryLog())
        assert await sink.received(posted({**audited(SystemClock().now()), **changes}, item)) == 200
        await sink.close()

    asyncio.run(run())


def test_the_policy():
    """Writes are audited with their answers, reads not at all."""
    policy = audit_policy()
    assert [rule["level"] for rule in policy["rules"]] == ["None", "RequestResponse", "None"]
    assert set(policy["rules"][1]["verbs"]) == {"create", "update", "patch", "delete", "deletecollection"}
    assert (policy["omitStages"], policy["omitManagedFields"]) == (["RequestReceived"], True)


async def test_the_webhook_takes_bodies_at_its_own_path():
    """Bodies that are posted to the URL of the kubeconfig are taken; at any other path there is nothing."""
    bodies = []

    async def received(body):
        bodies.append(body)
        return 200

    webhook = AuditWebhook(received)
    await webhook.start()
    try:
        (cluster,) = json.loads(webhook.kubeconfig())["clusters"]
        url = cluster["cluster"]["server"]
        async with aiohttp.ClientSession() as session:
            statuses = [
                (await session.post(f"{place}?timeout=30s", data=io.BytesIO(b"x" * (2 << 20)))).status
                for place in (url, url.rpartition("/")[0], f"{url}x")
            ]
    finally:
        await webhook.close()
    assert (statuses, [len(body) for body in bodies]) == ([200, 404, 404], [2 << 20])
