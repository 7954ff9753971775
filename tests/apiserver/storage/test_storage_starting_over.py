"""Starting over after another server's compaction, and what happens to whoever comes meanwhile."""

import asyncio

import pytest
from storage_cases import CLOCK, create, pod, update

from kubeskew.apiserver.storage.interfaces import CompactedError
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


async def test_a_watch_begun_while_starting_over_has_no_gap(url):
    """A watch that is begun while the store starts over ends with CompactedError or shows everything."""
    one, two = [await CachedStore.open(await SQLLog.open(url, CLOCK), CLOCK) for _ in range(2)]
    for task in two._tasks:
        task.cancel()
    event = await one.write(create(pod()))
    for _ in range(5):
        event = await one.write(update(event))
    await one.compact(event.revision)

    compacted, begun = two._log.compacted, []

    async def begin_a_watch():
        begun.append(two.watch("pods", None, None, two.revision))
        return await compacted()

    two._log.compacted = begin_a_watch
    await two.refresh()
    await one.write(update(event))
    await two.refresh()

    with pytest.raises(CompactedError):
        async with asyncio.timeout(30):
            await anext(begun[0])
    await one.close()
    await two.close()
