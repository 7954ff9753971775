"""A process of many concurrent writers, which reports every write that was acknowledged. Made to be killed.

    durable_writers.py URL NAME WRITERS

Prints `REVISION VERB KEY VALUE` after each write has returned, in one `write` per line.
"""

import asyncio
import os
import sys

from storage_cases import CLOCK, create, delete, pod, update

from kubeskew.apiserver.storage.records import Event
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore


def acknowledge(event: Event) -> None:
    line = f"{event.revision} {event.verb.value} {event.key.name} {event.value.decode()}\n"
    os.write(sys.stdout.fileno(), line.encode())


async def writer(store: CachedStore, name: str) -> None:
    """Create, update twice, delete every other; for ever."""
    number = 0
    while True:
        event = await store.write(create(pod(f"{name}-{number}"), os.urandom(200).hex().encode()))
        acknowledge(event)
        for _ in range(2):
            event = await store.write(update(event, os.urandom(200).hex().encode()))
            acknowledge(event)
        if number % 2:
            acknowledge(await store.write(delete(event)))
        number += 1


async def main(url: str, name: str, writers: int) -> None:
    store = await CachedStore.open(await SQLLog.open(url, CLOCK), CLOCK)
    await asyncio.gather(*(writer(store, f"{name}{number}") for number in range(writers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
