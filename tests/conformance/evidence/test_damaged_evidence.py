"""Evidence out of a log with a damaged event."""

import sqlite3
from contextlib import closing

import pytest
from cell_in_memory import Control, run

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apiserver.storage.interfaces import DamageError
from kubeskew.apiserver.storage.records import Author, Change, Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.conformance.evidence import rows
from kubeskew.conformance.evidence.log import Logged

CLOCK = SystemClock()


async def evidence(url: str) -> list[Logged]:
    """The evidence in the log at `url`."""
    async with await LogReader.open(url) as reader:
        return await rows.evidence(reader.events())


@pytest.mark.parametrize("value", ["x", "[]"])
async def test_a_damaged_event_fails_the_cell_with_one_line(tmp_path, value: str):
    """The line names the event and its object, and says how to go on."""
    path = tmp_path / "log.db"
    url = f"sqlite+aiosqlite:///{path}"
    log = await SQLLog.open(url, CLOCK)
    key, author = Key("pods", "default", "a"), Author("somebody", "kubectl", "", "", "")
    written = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}'
    event = await log.append(Change(Verb.CREATE, key, "u", written, 0, author, CLOCK.now()))
    await log.close()
    assert len(await evidence(url)) == 1
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE events SET value = ?", (value.encode(),))

    class Damaged(Control):
        async def log(self):
            return await evidence(url)

    result = await run("  - try: []\n", Damaged())
    line = f"the log's event {event.revision}, of pods default/a, cannot be read. `kubeskew replay` lists"
    assert result.failure.startswith(line)
    assert "\n" not in result.failure
    with pytest.raises(DamageError):
        await evidence(url)
