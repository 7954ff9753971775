"""`kubeskew etcd` as a process of its own: served, stopped, and killed with calls under way.

`make test-random RANDOM_FLAGS="--examples 1000 -k etcd_process"` runs a thousand other histories with kills.
"""

import asyncio
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from concurrent_histories import History, LostError
from etcd_calls import Client
from etcd_processes import EtcdProcess, running_etcd
from randomness import SEED, examples

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

pytestmark = pytest.mark.cluster

CLIENTS = 6
CALLS = 25


async def test_a_process_serves_until_it_is_stopped():
    """It prints where it serves, takes many calls at once, and ends with 0 at SIGTERM, watches or not."""
    async with running_etcd() as etcd:
        client = await etcd.client()
        stream = client.watch()
        stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"k", range_end=b"l")))
        assert (await stream.next()).created
        puts = [pb.PutRequest(key=b"k%03d" % number, value=bytes(20_000)) for number in range(200)]
        answers = await asyncio.gather(*map(client.call, puts))
        assert sorted(answer.header.revision for answer in answers) == list(range(2, 202))
        found = await client.call(pb.RangeRequest(key=b"k", range_end=b"l"))
        assert found.count == len(found.kvs) == 200
        events: list[pb.Event] = []
        while len(events) < 200:
            events += (await stream.next()).events
        assert [event.kv.mod_revision for event in events] == list(range(2, 202))
        assert await etcd.stop(signal.SIGTERM) == 0
        await stream.close()


async def newest(client: Client) -> int:
    return int((await client.call(pb.RangeRequest(key=b"none"))).header.revision)


async def history_with_a_kill(seed: int, processes: Sequence[EtcdProcess]) -> History:
    """Clients of all processes, the first of which is killed in between and started again at once. A watch of
    each goes along, and breaks with it.
    """
    base = await newest(await processes[0].client())
    history = History(seed, b"/registry/configmaps/h%d/" % seed, base)
    draw = random.Random(seed)
    left = draw.randrange(1, CLIENTS * CALLS)  # calls until the kill

    async def work(number: int, etcd: EtcdProcess) -> None:
        nonlocal left
        for _ in range(CALLS):
            client = await etcd.client()
            left -= 1
            if left == 0:
                restarts.append(asyncio.create_task(restart()))
            try:
                await history.call(client, number, history.requests.next())
            except LostError:
                continue

    async def restart() -> None:
        await asyncio.sleep(draw.choice((0, 0.001, 0.002, 0.004)))
        await processes[0].stop(signal.SIGKILL)
        await processes[0].start()

    restarts: list[asyncio.Task[None]] = []
    watches = [asyncio.create_task(history.watch(etcd.client)) for etcd in processes]
    callers = [processes[number % len(processes)] for number in range(CLIENTS)]
    await asyncio.gather(*(work(number, etcd) for number, etcd in enumerate(callers)))
    await asyncio.gather(*restarts)
    await history.end(await processes[-1].client())
    await asyncio.gather(*watches, *(history.watch(etcd.client) for etcd in processes))
    history.check()
    return history


async def histories(directory: Path, processes: int, seeds: range) -> None:
    """One after the other on one log, which becomes longer and longer."""
    storage = f"sqlite+aiosqlite:///{directory / 'events.db'}"
    async with running_etcd("--storage", storage) as first, running_etcd("--storage", storage) as second:
        for seed in seeds:
            try:
                await history_with_a_kill(seed, (first, second)[:processes])
            except AssertionError as error:
                raise AssertionError(f"history {seed}: {error}") from error


@pytest.mark.random
@pytest.mark.parametrize("processes", [1, 2])
async def test_a_kill_loses_nothing(tmp_path: Path, processes: int):
    """Of calls under way at a kill each was done or not, at one time; what was answered stays; and watches go
    on without gap or repetition, whichever process they ask.
    """
    await histories(tmp_path, processes, range(SEED, SEED + examples(2)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("processes", [1, 2])
async def test_forty_kills_lose_nothing(tmp_path: Path, processes: int):
    """The same, more often."""
    await histories(tmp_path, processes, range(100, 140))
