"""Going back in a log of 100,000 events: `python -m benchmarks.branching`."""

import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.storage import AUTHOR, UID, creation, open_store, url_in
from kubeskew.apiserver.storage.records import FORKED, STORE, Change, ComponentEvent, Key, Verb
from kubeskew.apiserver.storage.sqlite.maintenance import branch
from kubeskew.apiserver.storage.store import CachedStore

EVENTS, OBJECTS, SIZE, AT_ONCE = 100_000, 10_000, 1500, 1000
REVISIONS = (EVENTS + 1, EVENTS - EVENTS // 100, EVENTS // 2 + 2, EVENTS // 2, EVENTS // 100)


async def fill(store: CachedStore) -> None:
    """Writes the events: objects that are created, and changed nine times each."""
    revisions: dict[Key, int] = {}
    for first in range(0, EVENTS, AT_ONCE):
        changes = []
        for number in range(first, first + AT_ONCE):
            made = creation(f"n{number % OBJECTS}", SIZE)
            before = revisions.get(made.key, 0)
            verb = Verb.UPDATE if before else Verb.CREATE
            changes.append(Change(verb, made.key, UID, made.value, before, AUTHOR, made.time))
        for event in await asyncio.gather(*map(store.write, changes)):
            revisions[event.key] = event.revision


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with await open_store(url_in(directory)) as store:
            await fill(store)
        for revision in REVISIONS:
            note = ComponentEvent(revision, STORE, FORKED, "", "", datetime.now(UTC))
            start, cpu = time.perf_counter(), time.process_time()
            made = branch(str(directory / "events.db"), str(directory / "branch.db"), note)
            took, burnt = time.perf_counter() - start, time.process_time() - cpu
            print(f"to revision {revision:7}: {took:5.2f} s  CPU {burnt:4.2f} s  {made.events} events kept")


if __name__ == "__main__":
    asyncio.run(main())
