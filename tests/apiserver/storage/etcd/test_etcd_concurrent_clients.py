"""Concurrent clients of servers in this process: what they are answered is linearizable.

`make test-random RANDOM_FLAGS="--examples 1000 -k concurrent_clients"` runs a thousand other histories.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from concurrent_histories import History, run_history
from etcd_calls import LocalClient
from loop_clock import LoopClock
from postgresql_server import PostgreSQLServer
from randomness import SEED, examples

from kubeskew.apimachinery.clock import Clock, SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd.backing import Backing, Transaction
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.memory_log import MemoryLog, MemoryRecords
from kubeskew.apiserver.storage.records import Event
from kubeskew.apiserver.storage.records import Transaction as LogTransaction
from kubeskew.apiserver.storage.sql_log import SQLLog

PREFIX = b"/registry/configmaps/default/"
CLIENTS = 5
CALLS = 20
Opener = Callable[[int], AsyncIterator[Sequence[EtcdServer]]]


class Pauses:
    """Lets others run, mostly for a turn of the loop, sometimes for longer."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    async def __call__(self) -> None:
        for _ in range(self._draw.choice((0, 0, 1, 1, 2, 5))):
            await asyncio.sleep(0)
        if not self._draw.randrange(4):
            await asyncio.sleep(self._draw.choice((0.001, 0.003, 0.03)))


class PausingBacking(MemoryBacking):
    """Takes its time before and after each commit, and before each look at what others did."""

    def __init__(self, pause: Pauses) -> None:
        super().__init__()
        self._pause = pause

    async def sync(self) -> int:
        await self._pause()
        return await super().sync()

    async def append(self, transaction: Transaction) -> int:
        await self._pause()
        revision = await super().append(transaction)
        await self._pause()
        return revision


class PausingLog(MemoryLog):
    """One of several writers of the records, whose commits take time until they are known here."""

    def __init__(self, records: MemoryRecords, pause: Pauses) -> None:
        super().__init__(records, shared=True)
        self._pause = pause
        self._writing = asyncio.Lock()

    async def transact(self, transaction: LogTransaction) -> tuple[int, Sequence[Event]]:
        await self._pause()
        async with self._writing:
            revision, events = self._records.transact(transaction)
            await self._pause()
            if events:
                for listener in self._listeners:
                    listener(events)
        await self._pause()
        return revision, events

    async def revision(self) -> int:
        await self._pause()
        return await super().revision()

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        found = await super().after(revision, limit, until=until, resource=resource)
        await self._pause()
        return found


@asynccontextmanager
async def servers_over(backings: Sequence[Backing], clock: Clock) -> AsyncIterator[Sequence[EtcdServer]]:
    async with AsyncExitStack() as stack:
        servers = []
        for backing in backings:
            server = await EtcdServer.open(backing, clock, SeededEntropy(1))
            stack.push_async_callback(server.close)
            servers.append(server)
        yield servers


async def run_many(seed: int, backings: Sequence[Backing], clock: Clock) -> History:
    """One history of clients of servers over the backings, which are empty."""
    async with servers_over(backings, clock) as servers:
        clients = [LocalClient(server) for server in servers]
        history = History(seed, PREFIX, 1)
        callers = [clients[number % len(clients)] for number in range(CLIENTS)]
        try:
            await run_history(history, callers, CALLS, Pauses(seed))
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        return history


@pytest.mark.random
@pytest.mark.looptime
async def test_over_memory():
    """Calls of one server over memory that take time have answers of one order, which watches show."""
    for seed in range(SEED, SEED + examples(15)):
        await run_many(seed, [PausingBacking(Pauses(-seed))], LoopClock())


@pytest.mark.random
@pytest.mark.looptime
async def test_over_two_servers_of_one_log():
    """Calls of two servers that write one log have answers of one order, which the watches of both show."""
    for seed in range(SEED, SEED + examples(15)):
        records = MemoryRecords()
        logs = [PausingLog(records, Pauses(-seed - place)) for place in range(2)]
        await run_many(seed, [await LogBacking.open(log, LoopClock()) for log in logs], LoopClock())


@pytest.mark.random
@pytest.mark.parametrize("servers", [1, 2])
async def test_over_a_log_in_a_file(tmp_path: Path, servers: int):
    """So have calls of servers whose log is in a file, with threads of its database."""
    clock = SystemClock()
    for seed in range(SEED, SEED + examples(4)):
        url = f"sqlite+aiosqlite:///{tmp_path / f'{seed}.db'}"
        backings = [await LogBacking.open(await SQLLog.open(url, clock), clock) for _ in range(servers)]
        await run_many(seed, backings, clock)


@pytest.mark.random
@pytest.mark.postgresql
@pytest.mark.parametrize("servers", [1, 2])
async def test_over_a_log_in_postgresql(postgresql: PostgreSQLServer, servers: int):
    """So have calls of servers whose log is in PostgreSQL."""
    clock = SystemClock()
    for seed in range(SEED, SEED + examples(4)):
        url = postgresql.fresh()
        backings = [await LogBacking.open(await SQLLog.open(url, clock), clock) for _ in range(servers)]
        await run_many(seed, backings, clock)
