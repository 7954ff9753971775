"""Writes share transactions and statements."""

import asyncio

from storage_cases import CLOCK, create, every_event, pod, url_in

from kubeskew.apiserver.storage import sql_log
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.sqlite.database import ROWS_MAX, SQLiteDatabase


async def test_writes_of_one_moment_share_a_transaction(tmp_path, monkeypatch):
    """Writes that become ready while the loop turns join the transaction of the first."""
    transactions = []
    write = SQLiteDatabase.write

    async def counted(database, work):
        transactions.append(work)
        return await write(database, work)

    monkeypatch.setattr(SQLiteDatabase, "write", counted)
    monkeypatch.setattr(sql_log, "GATHER_SECONDS", 60.0)  # of a machine that is never busy with others
    log = await SQLLog.open(url_in(tmp_path), CLOCK)

    async def later(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await log.append(create(pod(f"p{turns}")))

    await asyncio.gather(*(later(turns) for turns in range(20)))
    await log.close()

    assert len(transactions) <= 2


async def test_more_rows_than_a_statement_takes(tmp_path):
    """A batch is written in several statements, in order and completely."""
    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    count = 2 * ROWS_MAX + 5
    events = await asyncio.gather(*(log.append(create(pod(f"p{number}"))) for number in range(count)))
    _, entries = await log.entries()

    assert await every_event(log) == list(events)
    assert {entry.key.name for entry in entries} == {f"p{number}" for number in range(count)}
    await log.close()
