"""`kubeskew fork` and `rewind` over a log that is written by hand; nothing runs."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime

import orjson
import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import Author, Change, ComponentEvent, Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.cli.main import main
from kubeskew.cluster.config import parse
from kubeskew.cluster.creation import create, write_credentials
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.state import StateDir

AUTHOR = Author("kubernetes-admin", "kubectl", "1.36", "1.35", "r-1")
POD = Key("pods", "default", "p")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPEC = parse({"version": "1.36", "ha": 2, "nodes": [{"name": "a"}, {"name": "b"}]}, "the test's cluster")
COMPONENTS = ("apiserver-1", "apiserver-2", "controller-manager", "scheduler", "kubelet/a", "kubelet/b")


@pytest.fixture
def directory(tmp_path):
    """A cluster that is down: 1.35 up to revision 3, where node `a`, then all went to 1.36; with a pod."""
    directory = StateDir(tmp_path / "state")
    with HeldPorts() as ports:
        create(directory, SPEC, ports, datetime.now(UTC), write_credentials)
    asyncio.run(write(directory))
    return directory


async def write(directory):
    """Revisions 2 to 5."""
    log = await SQLLog.open(directory.storage_url, SystemClock())
    await started(log, COMPONENTS, "1.35", "")
    event = None
    for number in range(4):
        if number == 2:
            await started(log, ["kubelet/a"], "1.36", "")
        if number == 3:
            await started(log, COMPONENTS, "1.36", "DRAConsumableCapacity=false")
        value = orjson.dumps({"kind": "Pod", "metadata": {"name": "p", "labels": {"a": str(number)}}})
        verb = Verb.UPDATE if event else Verb.CREATE
        event = await log.append(Change(verb, POD, "u", value, event.revision if event else 0, AUTHOR, NOW))
    await log.close()


async def started(log, components, version, gates):
    for name in components:
        await log.record(ComponentEvent(0, name, "started", version, gates, NOW))


def run(directory, *arguments, code=0):
    with pytest.raises(SystemExit) as exited:
        main(["--state-dir", str(directory.path), *arguments])
    assert exited.value.code in ({0, None} if code == 0 else {code})


def files_of(directory):
    """Every file with its bytes, but for the lock and what readers open next to the database."""
    files = [path for path in sorted(directory.path.rglob("*")) if path.is_file() and path.name != "lock"]
    kept = (path for path in files if "log.db-" not in path.name)
    return {str(path.relative_to(directory.path)): path.read_bytes() for path in kept}


def replayed(directory):
    async def read():
        async with await LogReader.open(directory.storage_url) as reader:
            return await reader.replay(), await reader.store_id()

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("revision", "versions", "gates"),
    [
        (2, {"a": "1.35", "b": "1.35"}, {}),
        (3, {"a": "1.36", "b": "1.35"}, {}),
        (5, {"a": "1.36", "b": "1.36"}, {"DRAConsumableCapacity": False}),
    ],
)
def test_a_fork_is_the_cluster_of_then(directory, tmp_path, capsys, revision, versions, gates):
    """A fork has log, versions and gates of its revision, and other ports; the first cluster is as it was."""
    before, now = files_of(directory), directory.load()
    target = StateDir(tmp_path / "fork")

    run(directory, "fork", "--at", str(revision), str(target.path), "-o", "json")

    assert json.loads(capsys.readouterr().out)["revision"] == revision
    assert files_of(directory) == before
    state = target.load()
    components = state.components()
    assert {name: components[f"kubelet/{name}"].version for name in versions} == versions
    others = [process for process in state.processes.values() if process.kind != "kubelet"]
    assert {process.version for process in others} == {versions["b"]}
    assert all(process.gates == gates and not process.pid for process in state.processes.values())
    old = {process.port for process in now.processes.values()}
    new = [process.port for process in state.processes.values()]
    assert len({*new}) == len(new)
    assert not old & {*new}
    assert replayed(target)[0].revision == revision
    assert replayed(target)[0].differences == []
    assert replayed(target)[1] != replayed(directory)[1]


def test_a_forks_credentials_lead_to_it(directory, tmp_path):
    """Kubeconfigs of a fork name its own API servers, whichever they named before; keys are the same."""
    target = StateDir(tmp_path / "fork")
    run(directory, "fork", "--at", "4", str(target.path))
    before, after = directory.load(), target.load()
    moved = {p.port: after.processes[p.name].port for p in before.of_kind("apiserver")}
    moved[before.shared_port] = after.shared_port
    assert not {*moved} & {*moved.values()}
    for path in (directory.kubeconfig, *(directory.path / "kubeconfigs").iterdir()):
        text = path.read_text()
        for old, new in moved.items():
            text = text.replace(f":{old}", f":{new}")
        assert (target.path / path.relative_to(directory.path)).read_text() == text
    assert (target.pki / "ca.key").read_bytes() == (directory.pki / "ca.key").read_bytes()
    assert (target.path.stat().st_mode & 0o777, target.token.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_rewind_keeps_what_it_cuts_off(directory, capsys):
    """A rewound cluster is as it was at the revision, with a new id; what was newer is whole in `rewound`."""
    before, old_id = directory.load(), replayed(directory)[1]
    run(directory, "rewind", "--to", "3")
    assert "kept in" in capsys.readouterr().out
    state = directory.load()
    assert {name: process.version for name, process in state.components().items()}["kubelet/b"] == "1.35"
    assert [p.port for p in state.of_kind("apiserver")] == [p.port for p in before.of_kind("apiserver")]
    found, new_id = replayed(directory)
    assert (found.revision, found.differences) == (3, [])
    assert new_id != old_id
    kept = directory.path / "rewound" / "3"
    assert json.loads((kept / "state.json").read_text())["processes"][0]["version"] == "1.36"

    async def newest():
        async with await LogReader.open(f"sqlite:///{kept / 'data' / 'log.db'}") as reader:
            return await reader.revision(), await reader.store_id()

    assert asyncio.run(newest()) == (5, old_id)
    run(directory, "events", "-o", "json")
    last = json.loads(capsys.readouterr().out)[-1]
    assert (last["verb"], last["revision"]) == ("rewound", 3)
    assert last["by"] == "store: from revision 5; what was cut off is in rewound/3"


def test_a_revision_may_be_gone_back_to_again(directory, capsys):
    """A second rewind to a revision keeps what it cuts off next to the first."""
    for _ in range(2):
        run(directory, "rewind", "--to", "3", "-o", "json")
    kept = [json.loads(text + "}")["kept"] for text in capsys.readouterr().out.split("}")[:2]]
    assert [path.rpartition("/")[2] for path in kept] == ["3", "3-2"]
    ids = {replayed(directory)[1]}
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fork", "--at", "6", "new"], "revision 6 has not been written yet: the newest is 5"),
        (["rewind", "--to", "6"], "revision 6 has not been written yet: the newest is 5"),
        (["fork", "--at", "2", "new"], "revision 2 is compacted: the log begins after revision 3"),
        (["rewind", "--to", "2"], "revision 2 is compacted: the log begins after revision 3"),
        (["diff", "2", "4"], "revision 2 is compacted: the log begins after revision 3"),
        (["fork", "--at", "4", "."], "exists already: name a directory that does not"),
        (["fork", "--at", "4", "state/new"], "is in the directory of the cluster: name one next to it"),
        (["fork", "--at", "4", "/dev/null/new"], "cannot make /dev/null/new: Not a directory"),
        (["fork", "--at", "0", "new"], "0 is not in the range x>=1"),
        (["fork", "new"], "missing option '--at'"),
        (["rewind"], "missing option '--to'"),
    ],
)
def test_what_cannot_be_is_refused(directory, tmp_path, capsys, monkeypatch, arguments, message):
    """Wrong usage is reported in one line, with status 2, and changes nothing."""

    async def compact():
        log = await SQLLog.open(directory.storage_url, SystemClock())
        await log.compact(3)
        await log.close()

    asyncio.run(compact())
    monkeypatch.chdir(tmp_path)
    before = files_of(directory)
    run(directory, *arguments, code=2)
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert files_of(directory) == before
    assert not (tmp_path / "new").exists()


def test_no_cluster_is_reported(tmp_path, capsys):
    """Without a cluster there is nothing to fork or to take back."""
    for arguments in (["fork", "--at", "4", str(tmp_path / "new")], ["rewind", "--to", "3"]):
        run(StateDir(tmp_path / "none"), *arguments, code=2)
        assert "there is no cluster" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


PARTS = 4  # that are exchanged, by two renamings each
KILLED = """
import os, signal, sys
from pathlib import Path
from kubeskew.cli.main import main
left, rename = int(sys.argv[1]), Path.rename
def dying(path, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return rename(path, target)
Path.rename = dying
main(sys.argv[2:])
"""


def rewound_and_killed(directory, left):
    """Runs a rewind that is killed at the renaming after so many; returns whether it came to its end."""
    arguments = ["--state-dir", str(directory.path), "rewind", "--to", "3"]
    command = [sys.executable, "-c", KILLED, str(left), *arguments]
    code = subprocess.run(command, check=False, capture_output=True).returncode
    assert code in (0, -signal.SIGKILL)
    return code == 0


@pytest.mark.slow
def test_a_rewind_may_be_killed(directory, capsys):
    """A rewind that is killed at any of its steps leaves the old or the new; the next command goes on."""
    whole = files_of(directory)
    seen, left, ended = set(), 0, False
    while not ended:
        ended = rewound_and_killed(directory, left)
        revision = None if directory.rewinding.exists() else replayed(directory)[0].revision
        seen.add(revision)
        if revision is None:
            run(directory, "status", code=1)
            assert (
                f"was interrupted: `kubeskew --state-dir {directory.path} up` finishes it"
                in capsys.readouterr().err
            )
        run(directory, "rewind", "--to", "3")
        assert (revision is None) == ("is finished" in capsys.readouterr().err)
        found = replayed(directory)[0]
        assert (found.revision, found.differences) == (3, [])
        assert {p.version for p in directory.load().of_kind("apiserver")} == {"1.35"}
        for name, content in whole.items():  # the old one again
            (directory.path / name).write_bytes(content)
        (directory.database.with_name("log.db-mark")).unlink()
        left += 1
    assert seen == {5, None, 3}
    assert left == 1 + 2 * PARTS + 1 + 1


FORK_KILLED = """
import os, signal, sys
from pathlib import Path
from kubeskew.cli.main import main
method, name = sys.argv[1:3]
done = getattr(Path, method)
def dying(path, *arguments, **named):
    ours = path.name.removesuffix(".partial") == name and "fork" in path.parts
    if ours and (method != "unlink" or path.with_name("state.json").exists()):
        os.kill(os.getpid(), signal.SIGKILL)
    return done(path, *arguments, **named)
setattr(Path, method, dying)
main(sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("step", "known"),
    [
        (("touch", "lock"), False),
        (("replace", "forking"), False),
        (("replace", "ca.crt"), True),
        (("mkdir", "data"), True),
        (("replace", "state.json"), True),
    ],
)
def test_a_fork_may_be_killed(directory, tmp_path, capsys, step, known):
    """A fork that is killed says what it is and what to do; the same fork starts over, or it is removed."""
    target = StateDir(tmp_path / "fork")
    fork = ["fork", "--at", "3", str(target.path)]
    command = [sys.executable, "-c", FORK_KILLED, *step, "--state-dir", str(directory.path), *fork]
    for ending in ("made anew", "removed"):
        ended = subprocess.run(command, check=False, capture_output=True).returncode
        assert ended == -signal.SIGKILL
        for asked in (["status"], ["up"]) if known else ():
            run(target, *asked, code=1)
            error_output = capsys.readouterr().err
            assert f"has not come to its end (revision 3 of the cluster in {directory.path})" in error_output
            assert error_output.count("\n") == 1
        if ending == "made anew":
            run(directory, *fork)
            assert replayed(target)[0].revision == 3
            assert not target.forking.exists()
        if ending == "made anew" or known:
            run(target, "down", "--purge")
            assert not target.path.exists()
            capsys.readouterr()


def test_a_fork_that_was_killed_at_its_very_end_is_a_cluster(directory, tmp_path, capsys):
    """With its record a fork is whole, and no other takes its place; the note means nothing then."""
    target = StateDir(tmp_path / "fork")
    fork = ["fork", "--at", "3", str(target.path)]
    command = [
        sys.executable,
        "-c",
        FORK_KILLED,
        "unlink",
        "forking",
        "--state-dir",
        str(directory.path),
        *fork,
    ]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert target.load().nodes.keys() == directory.load().nodes.keys()
    run(directory, *fork, code=2)
    assert "exists already" in capsys.readouterr().err


def test_two_forks_do_not_share_a_directory(directory, tmp_path, capsys):
    """A fork into a directory in which another is at work is refused, and that one is not disturbed."""
    target = StateDir(tmp_path / "fork")
    with target.locked():
        target.forking.write_text("revision 3 of another")
        run(directory, "fork", "--at", "3", str(target.path), code=1)
        assert "another kubeskew command is changing the cluster" in capsys.readouterr().err
        assert target.forking.exists()


def test_a_rewind_that_fails_changes_nothing(directory, capsys):
    """A rewind that cannot write what is to be leaves the cluster as it was, and says why."""
    with closing(sqlite3.connect(directory.database)) as raw, raw:
        raw.execute("UPDATE events SET value = x'7b7d' WHERE revision = 3")
    before = files_of(directory)
    run(directory, "rewind", "--to", "3", code=1)
    assert "does not come to the objects" in capsys.readouterr().err
    assert files_of(directory) == before
    assert not directory.rewind_interrupted()


def test_a_replay_names_the_store(directory, capsys):
    """`replay` shows the id of the store, which is another one after a rewind."""
    ids = []
    for _ in range(2):
        run(directory, "replay", "-o", "json")
        ids.append(json.loads(capsys.readouterr().out)["store"])
        run(directory, "rewind", "--to", "4")
        capsys.readouterr()
    assert len({*ids, ""}) == 3
