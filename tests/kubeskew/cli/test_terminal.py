"""A cluster's output is printed without steering the terminal."""

import asyncio
from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.records import ComponentEvent
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.cli.main import main
from kubeskew.cli.terminal import escaped, row
from kubeskew.cluster.pki import Authority
from kubeskew.cluster.state import Process, State, StateDir

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\r\x9b\u202ey\nz"
SHOWN = r"x\x1b]0;owned\x07\x1b[2J\r\x9b\u202ey\nz"


@pytest.fixture
def directory(tmp_path):
    """A state directory whose log, record and scheduler's log hold hostile texts."""
    directory = StateDir(tmp_path / "state")
    state = State(runtime_config={})
    for kind in ("apiserver", "scheduler"):
        state.processes[kind] = Process(kind, kind, HOSTILE, {}, 1)
    directory.save(state)
    directory.ca.write_bytes(Authority.create(datetime.now(UTC)).pair.certificate)
    directory.token.write_text("t")
    directory.database.parent.mkdir(parents=True, exist_ok=True)
    directory.log("scheduler").parent.mkdir(parents=True, exist_ok=True)
    directory.log("scheduler").write_text(f"{HOSTILE}\n")

    async def record():
        log = await SQLLog.open(directory.storage_url, SystemClock())
        await log.record(ComponentEvent(0, HOSTILE, "started", HOSTILE, "", datetime.now(UTC)))
        await log.close()

    asyncio.run(record())
    return directory


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["events"], SHOWN),
        (["status"], SHOWN),
        (["logs", "scheduler"], SHOWN.replace(r"\n", "\n").replace(r"\r", "\n")),
        (["logs", HOSTILE], SHOWN.replace(r"\n", "\n")),
    ],
)
def test_commands_escape_what_the_cluster_says(directory, capfd, command, shown):
    """Control characters and marks of direction in tables, logs and errors come out as escapes."""
    with pytest.raises(SystemExit):
        main(["--state-dir", str(directory.path), *command])
    out, err = capfd.readouterr()

    assert shown in out + err
    assert {char for char in out + err if not char.isprintable()} <= {"\n"}


def test_what_is_kept():
    """Letters of any script stay as they are, and what the caller keeps."""
    assert escaped("Größe 東京 ✓") == "Größe 東京 ✓"
    assert escaped("a\nb\tc", "\n") == "a\nb\\tc"


@pytest.mark.parametrize(
    ("cell", "width", "shown"),
    [
        ("pods/default/web-5d8c7bf6d-x2v5k", 15, "pods/de…d-x2v5k"),
        ("pods/default/web", 16, "pods/default/web"),
        ("was bound to node-a", 10, "was bound…"),
        ("abcdef", 5, "ab…ef"),
    ],
)
def test_a_name_keeps_its_end(cell: str, width: int, shown: str):
    """A name that is wider than its column is cut in the middle, a sentence at its end."""
    assert row([cell], [width]) == shown
