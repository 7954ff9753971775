"""Random histories on a real etcd and on ours: all answers are equal, but for ids, terms and times.

It needs an `etcd` on PATH, or its path in the environment as ETCD; ETCD_HISTORIES is how many histories are
run. `python test_etcd_differential.py FIRST COUNT [log]` runs others than the test, over memory or a log,
and reports.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from etcd_calls import Client, GRPCClient, Stream
from etcd_histories import History, outcome

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd.backing import Backing
from kubeskew.apiserver.storage.etcd.grpc_server import GRPCServer
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.memory_log import MemoryLog

ETCD = os.environ.get("ETCD") or shutil.which("etcd")
HISTORIES = int(os.environ.get("ETCD_HISTORIES", "60"))
LENGTH = 40
WATCHED_IN = 4  # one history in so many is watched: etcd takes a tenth of a second for watches of the past
SENTINEL_ID = 1000
# Of several of them in one transaction, 3.5 answers those of puts first, 3.6 that of the first operation.
STATE_ERRORS = {
    "INVALID_ARGUMENT: etcdserver: key not found",
    "NOT_FOUND: etcdserver: requested lease not found",
    "OUT_OF_RANGE: etcdserver: mvcc: required revision has been compacted",
    "OUT_OF_RANGE: etcdserver: mvcc: required revision is a future revision",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def real_etcd() -> AsyncIterator[GRPCClient]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with tempfile.TemporaryDirectory() as directory:
        process = await asyncio.create_subprocess_exec(
            ETCD or "etcd", "--data-dir", directory, "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer, "--log-level", "error",
            "--unsafe-no-fsync",
            stderr=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        real = GRPCClient(client.removeprefix("http://"))
        try:
            await asyncio.wait_for(real.channel.channel_ready(), 20)
            yield real
        finally:
            await real.close()
            process.kill()
            await process.wait()


@asynccontextmanager
async def ours(backing: Backing) -> AsyncIterator[GRPCClient]:
    server = await EtcdServer.open(backing, SystemClock(), SeededEntropy(1))
    serving = GRPCServer(server, [])
    client = GRPCClient(f"127.0.0.1:{await serving.listen('127.0.0.1', 0, None)}")
    yield client
    await client.close()
    await serving.stop()
    await server.close()


class Observer:
    """A stream of watches on one server: what each watch was answered, whatever answers were joined."""

    def __init__(self, client: Client, requests: list[pb.WatchRequest], sentinel: bytes) -> None:
        self.stream: Stream = client.watch()
        for request in requests:
            self.stream.send(request)
        last = pb.WatchCreateRequest(key=sentinel, watch_id=SENTINEL_ID)
        self.stream.send(pb.WatchRequest(create_request=last))
        self.answers: dict[int, list[str]] = {}
        self.puts: dict[tuple[int, bytes, int], pb.Event] = {}

    async def created(self) -> None:
        while SENTINEL_ID not in self.answers:
            self._note(await self.stream.next())

    async def finish(self) -> None:
        """Waits until every watch has caught up with what there is."""
        while True:
            self.stream.send(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
            try:
                async with asyncio.timeout(0.03):
                    while not self._note(await self.stream.received.get()):
                        pass
                    break
            except TimeoutError:
                continue
        await self.stream.close()

    def _note(self, answer: pb.WatchResponse) -> bool:
        """True at a notification of progress."""
        notes = self.answers.setdefault(answer.watch_id, [])
        if answer.created or answer.canceled:
            answer.ClearField("header")
            notes.append(str(answer))
        if answer.compact_revision:  # it counts as one that lags until it is cancelled
            cancel = pb.WatchCancelRequest(watch_id=answer.watch_id)
            self.stream.send(pb.WatchRequest(cancel_request=cancel))
        for event in answer.events:
            self._note_event(answer.watch_id, event)
        return answer.watch_id == -1 and not answer.created

    def _note_event(self, number: int, event: pb.Event) -> None:
        """Leaves out the puts of keys that the same transaction deletes, which our watches do not see."""
        notes = self.answers[number]
        put = self.puts.pop((number, event.kv.key, event.kv.mod_revision), None)
        if event.type == pb.Event.PUT:
            self.puts[number, event.kv.key, event.kv.mod_revision] = event
        elif put is not None:
            notes.remove(str(put))
            if put.kv.create_revision == put.kv.mod_revision:
                return  # there was nothing to delete before
        notes.append(str(event))


class Comparison:
    def __init__(self, real: Client, own: Client) -> None:
        self.clients = (real, own)
        self.requests = 0
        self.events = 0

    async def both(self, request: object) -> str:
        """The answer, if it is the same."""
        self.requests += 1
        expected, answer = [await outcome(client, request) for client in self.clients]
        if isinstance(request, pb.TxnRequest) and {answer, expected} <= STATE_ERRORS:
            return answer
        assert answer == expected, f"{request}\nexpected:\n{expected}\nhave:\n{answer}"
        return answer

    async def history(self, seed: int) -> None:
        prefix = b"%d/" % seed
        base = (await self.clients[0].call(pb.RangeRequest(key=b"none"))).header.revision
        history = History(seed, base, prefix)
        watched = seed % WATCHED_IN == 0
        observers = await self._watch(history, prefix, ahead=True) if watched else []
        for request in history.requests(LENGTH):
            await self.both(request)
        if watched:
            observers += await self._watch(history, prefix, ahead=False)
        for _ in range(history.writes + 4 if watched else 0):  # past any revision that a watch began at
            await self.both(pb.PutRequest(key=prefix + b"~"))
        for number in range(0, len(observers), 2):
            await asyncio.gather(*(observer.finish() for observer in observers[number : number + 2]))
            real, own = observers[number : number + 2]
            assert own.answers == real.answers
            self.events += sum(map(len, own.answers.values()))
        for lease in history.leases:
            await self.both(pb.LeaseRevokeRequest(ID=lease))
        await self.both(pb.DeleteRangeRequest(key=prefix, range_end=b"%d0" % seed))

    async def _watch(self, history: History, prefix: bytes, *, ahead: bool) -> list[Observer]:
        """Watches of what comes, or of what was as well."""
        requests = list(history.watches())
        for request in requests if ahead else ():
            create = request.create_request
            if 0 < create.start_revision <= history.base:
                create.start_revision = history.base + 1
        observers = [Observer(client, requests, prefix + b"~") for client in self.clients]
        for observer in observers:
            await observer.created()
        return observers


async def log_in_memory() -> Backing:
    return await LogBacking.open(MemoryLog(), SystemClock())


async def run(first: int, count: int, backing: Backing) -> Comparison:
    async with real_etcd() as real, ours(backing) as own:
        comparison = Comparison(real, own)
        for seed in range(first, first + count):
            try:
                await comparison.history(seed)
            except AssertionError as error:
                raise AssertionError(f"history {seed}: {error}") from error
        return comparison


@pytest.mark.skipif(ETCD is None, reason="needs etcd: on PATH, or its path in the environment as ETCD")
@pytest.mark.parametrize("in_log", [False, True], ids=["memory", "log"])
async def test_histories_are_answered_as_by_etcd(in_log: bool):
    """Random reads, writes, transactions, compactions, leases and watches have a real etcd's answers."""
    comparison = await run(1, HISTORIES, await log_in_memory() if in_log else MemoryBacking())
    assert comparison.requests > HISTORIES * LENGTH
    assert comparison.events > 0


if __name__ == "__main__":

    async def reported() -> Comparison:
        backing = await log_in_memory() if "log" in sys.argv else MemoryBacking()
        return await run(int(sys.argv[1]), int(sys.argv[2]), backing)

    done = asyncio.run(reported())
    counts = f"{done.requests} requests, {done.events} answers of watches"
    print(f"{sys.argv[2]} histories, {counts}: equal")  # noqa: T201
