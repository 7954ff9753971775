"""A process that writes transactions, and reports each that was acknowledged. Made to be killed.

    transaction_writers.py URL WRITERS

Each makes some pods, and deletes those of its last one; it prints `REVISION` after it has returned.
"""

import asyncio
import os
import sys
from collections.abc import Sequence

from storage_cases import CLOCK, create, delete, pod

from kubeskew.apiserver.storage.records import Event, Transaction, Verb
from kubeskew.apiserver.storage.sql_log import SQLLog

PODS = 5


async def writer(log: SQLLog, name: str) -> None:
    number, before = 0, list[Event]()
    while True:
        made = [create(pod(f"{name}-{number}-{place}"), os.urandom(100)) for place in range(PODS)]
        revision, events = await log.transact(Transaction([*made, *map(delete, before)]))
        before = created(events)
        os.write(sys.stdout.fileno(), f"{revision}\n".encode())
        number += 1


def created(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.verb is Verb.CREATE]


async def main(url: str, writers: int) -> None:
    log = await SQLLog.open(url, CLOCK)
    await asyncio.gather(*(writer(log, f"w{number}") for number in range(writers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
