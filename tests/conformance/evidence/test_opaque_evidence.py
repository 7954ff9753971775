"""Rows of etcd's keys that are no objects: evidence shows what they hold, and audits leave them out."""

from pathlib import Path

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.etcd.backing import Transaction, Write
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.records import Author, Place
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.conformance.evidence import rows
from kubeskew.conformance.evidence.log import Write as LoggedWrite
from kubeskew.conformance.storage.audit import audit
from kubeskew.conformance.storage.servers import Settings

POD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},"spec":{}}\n'
VALUES = {
    b"compact_rev_key": b"5",
    b"/registry/masterleases/10.0.0.1": b'{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":1}}',
    b"/registry/other": b"k8s\x00\xff",
    b"/registry/pods/default/a": POD,
    b"/registry/pods/default/b": b"k8s\x00\x01",
}


async def written(directory: Path) -> str:
    url, clock = f"sqlite+aiosqlite:///{directory / 'events.db'}", SystemClock()
    backing = await LogBacking.open(await SQLLog.open(url, clock), clock)
    writes = [Write(key, value, version=1) for key, value in VALUES.items()]
    await backing.append(Transaction(writes, [(key, 0) for key in VALUES]))
    await backing.close()
    return url


async def test_evidence_shows_what_they_hold(tmp_path: Path):
    """Each write of a revision comes with its own value, text and bytes that are no text included."""
    known: dict[Place, LoggedWrite] = {}
    async with await LogReader.open(await written(tmp_path)) as reader:
        for _ in range(2):
            logged = await rows.evidence(reader.events(), known)
    shown = [write.value for write in logged if isinstance(write, LoggedWrite)]
    assert [obj.get("text") or obj.get("base64") or obj["kind"] for obj in shown] == [
        "5", "Endpoints", "azhzAP8=", "Pod", "k8s\x00\x01"
    ]  # fmt: skip
    assert all(isinstance(obj["metadata"], dict) for obj in shown)


async def test_an_audit_reports_objects_alone(tmp_path: Path):
    """A pod in protobuf is unreadable; keys that no API server reads as objects are left out."""
    async with await LogReader.open(await written(tmp_path)) as reader:
        findings = audit(await reader.entries(), Settings(FeatureGates(Version(36)), {}))
    assert [(finding.what, finding.key.name) for finding in findings if finding.what == "unreadable"] == [
        ("unreadable", "/registry/pods/default/b")
    ]


async def test_evidence_read_again_has_authors_learnt_since(tmp_path: Path):
    """A reader of one log, again and again, gets who wrote as soon as the log knows it."""
    url, clock = await written(tmp_path), SystemClock()
    known: dict[Place, LoggedWrite] = {}
    log = await SQLLog.open(url, clock)
    async with await LogReader.open(url) as reader:
        await rows.evidence(reader.events(), known)
        await log.attribute([((2, 1), Author("alice", "kubectl", "1.36", "1.36.3", "id"))])
        logged = await rows.evidence(reader.events(), known)
    await log.close()
    assert [(write.by, write.user) for write in logged if isinstance(write, LoggedWrite)][:3] == [
        ("kube-apiserver", ""), ("kubectl 1.36", "alice"), ("kube-apiserver", "")
    ]  # fmt: skip
