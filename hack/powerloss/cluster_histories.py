"""Forks, rewinds, repairs and the creation of a cluster's directory, recorded with all of its files."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from disk_recorder import Recorder
from log_histories import url_of
from sqlite_files import layer
from stories import AUTHOR, FixedClock, Story, Told, judge

from kubeskew.apiserver.storage.factory import SQLStorage
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.records import Change, Event, Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.maintenance import repair
from kubeskew.cluster import branches
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.creation import create
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import Process, State, StateDir, write_secret, write_secrets
from kubeskew.kubelet.journal import JournalledFiles, node_files_at

Check = Callable[[Path, int], Awaitable[list[str]]]
NODE = "node-1"
AGAIN = 0.3  # so many forks that did not come to their end are made again
PLATFORM: Any = SimpleNamespace(clock=FixedClock(), storage=SQLStorage())


class FixedPorts:
    """Gives numbers in their order, which nothing listens on."""

    def choose(self, taken: Iterable[int]) -> int:
        return max([6440, *taken]) + 1


PORTS: Any = FixedPorts()


async def _cluster(random: Random, directory: StateDir) -> list[Event]:
    """Makes a cluster that is down: a record, credentials, a log, and a node's files with their journal."""
    directory.path.mkdir()
    process = Process("apiserver", "apiserver", "1.36", {}, port=6440)
    secrets = {
        directory.pki / "ca.key": "key" * 400,
        directory.ca: "certificate" * 100,
        directory.token: "token",
        directory.kubeconfig: "server: https://127.0.0.1:6440\n",
        directory.component_kubeconfig("scheduler"): "server: https://127.0.0.1:6440\n",
    }
    write_secrets(secrets)
    directory.database.parent.mkdir()
    directory.faults.mkdir()
    log = await SQLLog.open(directory.storage_url, FixedClock())
    events: list[Event] = []
    log.subscribe(events.extend)
    node = directory.kubelet_root() / NODE
    files = JournalledFiles(node, lambda: events[-1].revision if events else 1)
    objects: dict[Key, Event] = {}
    for _ in range(random.randint(4, 30)):
        key = Key("pods", "default", f"p{random.randrange(6)}")
        before = objects.pop(key, None)
        value = random.randbytes(random.choice((20, 300, 3000))).hex().encode()
        if before is None:
            objects[key] = await log.append(
                Change(Verb.CREATE, key, "u", value, 0, AUTHOR, FixedClock().now())
            )
        else:
            await log.append(
                Change(Verb.DELETE, key, "u", before.value, before.revision, AUTHOR, FixedClock().now())
            )
        if random.random() < 0.5:
            files.write(node / "kubelet" / "dra_manager_state", random.randbytes(300).hex().encode())
    await log.close()
    directory.save(State({}, {"apiserver": process}))
    return events


def _files(directory: Path, left_out: str = "data") -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.relative_to(directory).as_posix().startswith((left_out, "lock"))
    }


async def _details(path: Path) -> list[Any]:
    async with await LogReader.open(url_of(path)) as reader:
        return [record.detail for record in await reader.timeline()]


def _story(events: list[Event], revision: int, details: Iterable[object] = ()) -> Story:
    kept = [event for event in events if event.revision <= revision]
    return Story(kept, [Told(0, 0, revision)], records=[Told(0, 0, detail) for detail in details])


async def record_fork(random: Random, root: Path, _steps: int) -> tuple[Recorder, Check]:
    """A fork is there as a whole or can be made again; its source does not change."""
    source, target = StateDir(root / "source"), StateDir(root / "fork")
    events = await _cluster(random, source)
    newest = events[-1].revision
    revision = random.randint(2, newest)
    recorder = Recorder(root)
    with layer().serving(recorder), recorder.recording():
        since = recorder.position
        await branches.fork(source, target, revision, PLATFORM, PORTS)
        told = Told(since, recorder.position, revision)
        recorder.observe()
    expected, details = _files(target.path), await _details(target.database)

    async def check(crashed: Path, cut: int) -> list[str]:
        found = await judge(crashed / "source", _story(events, newest), cut, name="data/log.db")
        fork = StateDir(crashed / "fork")
        try:
            fork.load()
        except (UserError, ClusterError) as error:
            if told.at <= cut:
                return [*found, f"the fork was told to be there: {error}"]
            if random.random() < AGAIN:
                found += await _again(StateDir(crashed / "source"), fork, revision)
            return found
        there = {name: content for name, content in _files(fork.path).items() if not _left(name)}
        if there != expected:
            return [*found, f"the fork is taken for whole, but {_difference(expected, there)}"]
        if not fork.database.exists():
            return [*found, "the fork is taken for whole, and has no log"]
        return found + await judge(fork.path, _story(events, revision, details), cut, name="data/log.db")

    return recorder, check


def _left(name: str) -> bool:
    return name == "forking" or name.endswith(".partial")


def _difference(expected: dict[str, bytes], there: dict[str, bytes]) -> str:
    missing = [name for name in expected if name not in there]
    further = [name for name in there if name not in expected]
    other = [name for name in expected if name in there and there[name] != expected[name]]
    return f"missing: {missing}, further: {further}, other: {other}"


async def _again(source: StateDir, fork: StateDir, revision: int) -> list[str]:
    try:
        await branches.fork(source, fork, revision, PLATFORM, PORTS)
    except (UserError, ClusterError) as error:
        return [f"the fork cannot be made again: {error}"]
    return []


async def record_rewind(random: Random, root: Path, _steps: int) -> tuple[Recorder, Check]:
    """A rewind is done or not, with all files of the cluster; what it cuts off is kept."""
    directory = StateDir(root / "cluster")
    events = await _cluster(random, directory)
    newest = events[-1].revision
    revision = random.randint(2, newest)
    node = directory.kubelet_root() / NODE
    before, after = node_files_at(node, newest), node_files_at(node, revision)
    recorder = Recorder(root)
    with layer().serving(recorder), recorder.recording():
        since = recorder.position
        await branches.check_rewind(directory, revision, PLATFORM)
        kept = await branches.rewind(directory, directory.load(), revision, PLATFORM, PORTS)
        told = Told(since, recorder.position, revision)
        recorder.observe()
    details = await _details(directory.database)
    place = kept.relative_to(root)

    async def check(crashed: Path, cut: int) -> list[str]:
        there = StateDir(crashed / "cluster")
        try:
            branches.resume_rewind(there, lambda _: None)
            there.load()
        except (UserError, ClusterError, OSError, ValueError) as error:
            return [f"the rewind does not come to its end: {error!r}"]
        if not there.database.exists():
            return ["the cluster has no log"]
        rewound = (await _details(there.database)) != []
        if told.at <= cut and not rewound:
            return ["the rewind was told to be done, and is not"]
        files = _files(there.kubelet_root() / NODE, "journal")
        if files != (after if rewound else before):
            return [f"the node's files are {sorted(files)} and not those of the log"]
        if not rewound:
            return await judge(there.path, _story(events, newest), cut, name="data/log.db")
        found = await judge(there.path, _story(events, revision, details), cut, name="data/log.db")
        return found + await judge(crashed / place, _story(events, newest), cut, name="data/log.db")

    return recorder, check


async def record_repair(random: Random, root: Path, _steps: int) -> tuple[Recorder, Check]:
    """A damaged log is repaired, or can be repaired again."""
    events = await _cluster(random, StateDir(root / "cluster"))
    path = root / "cluster" / "data" / "log.db"
    newest = events[-1].revision
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE meta SET value = 'x' WHERE name = 'nothing'")
        raw.execute("DELETE FROM objects")
        raw.execute(
            "INSERT INTO objects SELECT resource, namespace, name || 'x', uid, revision, created, value"
            ", updates, lease FROM events WHERE revision = 2"
        )
    recorder = Recorder(root)
    with layer().serving(recorder), recorder.recording():
        since = recorder.position
        await asyncio.to_thread(repair, str(path))
        told = Told(since, recorder.position, newest)
        recorder.observe()

    async def check(crashed: Path, cut: int) -> list[str]:
        database = crashed / "cluster" / "data" / "log.db"
        story = _story(events, newest)
        if await _damaged(database):
            if told.at <= cut:
                return ["the log was told to be repaired, and is not"]
            try:
                repair(str(database))
            except StorageError as error:
                return [f"the log cannot be repaired again: {error}"]
        return await judge(database.parent, story, cut, name="log.db")

    return recorder, check


async def _damaged(path: Path) -> bool:
    log = await SQLLog.open(url_of(path), FixedClock())
    try:
        await log.entries()
    except DamageError:
        return True
    finally:
        await log.close()
    return False


async def record_creation(random: Random, root: Path, _steps: int) -> tuple[Recorder, Check]:
    """A new cluster's record, secrets and log are there once each was told to be, none half written."""
    directory = StateDir(root / "new" / "cluster")
    secrets: dict[Path, bytes | str] = {
        directory.pki / f"{number}.key": random.randbytes(random.choice((30, 1700, 9000))).hex()
        for number in range(8)
    } | {directory.component_kubeconfig("scheduler"): "x" * 5000}
    recorder = Recorder(root)
    tokens: list[Told] = []
    states: list[Told] = []
    events: list[Event] = []
    story = Story(events)
    with layer().serving(recorder), recorder.recording(), directory.locked():
        spec, now = ClusterSpec(), FixedClock().now()
        create(directory, spec, PORTS, now, lambda *_: write_secrets(secrets))
        told = recorder.position
        log = await SQLLog.open(directory.storage_url, FixedClock())
        log.subscribe(events.extend)
        for number in range(4):
            since = recorder.position
            directory.save(State({}, driver_revision=number))
            states.append(Told(since, recorder.position, number))
            since = recorder.position
            write_secret(directory.token, f"token {number}")
            tokens.append(Told(since, recorder.position, f"token {number}"))
            since = recorder.position
            event = await log.append(
                Change(Verb.CREATE, Key("pods", "default", f"p{number}"), "u", b"{}", 0, AUTHOR, now)
            )
            story.revisions.append(Told(since, recorder.position, event.revision))
            recorder.observe()
        await log.close()

    async def check(crashed: Path, cut: int) -> list[str]:
        there = StateDir(crashed / "new" / "cluster")
        if told > cut:
            return []
        found = []
        for path, content in secrets.items():
            place = there.path / path.relative_to(directory.path)
            if not place.exists() or place.read_bytes() != str(content).encode():
                found.append(f"{place.name} is not what was written")
        token = there.token.read_text(errors="replace") if there.token.exists() else ""
        if token not in _possible(tokens, cut, ""):
            found.append(f"the token is {token!r}")
        try:
            number = there.load().driver_revision
        except (UserError, ClusterError) as error:
            return [*found, str(error)]
        if number not in _possible(states, cut, 0):
            found.append(f"the record is that of {number}")
        if not there.database.parent.exists():
            return [*found, "the log's directory is gone"]
        return found + await judge(there.path, story, cut, name="data/log.db")

    return recorder, check


def _possible(told: list[Told], cut: int, before: object) -> list[object]:
    sure = max((number for number, each in enumerate(told) if each.at <= cut), default=-1)
    return [told[sure].value if sure >= 0 else before, *(each.value for each in told[sure + 1 : sure + 2])]
