"""Tests faults of an API server: of what it answers to whom, of its commits, of whether it is there."""

import asyncio

import orjson
import pytest
from server_in_process import ADMIN, Caller
from until import until

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.journal import journal_path, read_account
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.faults import ServerFaults
from kubeskew.apiserver.http.request import Peer
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.store import CachedStore

pytestmark = pytest.mark.asyncio

MAPS = "/api/v1/namespaces/default/configmaps"
SOMEBODY = Peer("somebody", ("system:masters",))


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Faulty:
    """A server over a log in a file, with faults of its own, called without sockets."""

    def __init__(self, path):
        self.path = path
        self.directory = path / "faults"
        self.directory.mkdir()
        self.url = f"sqlite:///{path / 'log.db'}"
        self.deaths = []
        self._revision = 0

    async def __aenter__(self):
        clock = SystemClock()
        version = Version(36)
        environment = Environment(version, FeatureGates(version), clock, SeededEntropy(1))
        self.log = await SQLLog.open(self.url, clock)
        self.store = await CachedStore.open(self.log, clock)
        options = ServerOptions(faults_dir=str(self.directory))
        self.server = APIServer(options, environment, self.store, self.log)
        assert isinstance(self.server.faults, ServerFaults)
        self.server.faults._end = lambda _fault: self.deaths.append(self.store.revision)
        self.store.commit = self.server.faults.commit
        await self.server.bootstrap()
        self.call = Caller(self.server)
        return self

    async def __aexit__(self, *_):
        await self.server.end()
        await self.store.close()

    def set(self, *faults):
        """Have these faults, and no others."""
        self._revision += 1
        entries = [
            {"set": self._revision, "fault": {"component": "apiserver", "id": f"f{n}", **fault}}
            for n, fault in enumerate(faults, 1)
        ]
        plan = {"revision": self._revision, "faults": entries}
        (self.directory / "plan.json").write_bytes(orjson.dumps(plan))
        self.server.faults.reload()

    async def events(self):
        """Returns what the time line says."""
        return [f"{event.what}: {event.detail}" for event in await self.log.timeline()]

    async def replayed(self):
        """Checks that the log comes to the objects that are served."""
        async with await LogReader.open(self.url) as reader:
            return not (await reader.replay()).differences


@pytest.fixture
async def faulty(tmp_path):
    async with Faulty(tmp_path) as found:
        yield found


async def test_an_answer_for_one_user(faulty):
    """A user that a fault names is answered with its error, others are served; the metrics count both."""
    faulty.set({"verb": "create", "resource": "configmaps", "user": "somebody", "answer": 429})
    refused = await Caller(faulty.server, SOMEBODY).post(MAPS, config_map("a"))
    served = await faulty.call.post(MAPS, config_map("a"))

    assert (refused.status, refused.headers["Retry-After"], served.status) == (429, "1", 201)
    assert refused.body["message"] == "Too many requests: please try again later"
    metrics = (await faulty.call.get("/metrics")).raw.decode()
    line = next(
        line
        for line in metrics.splitlines()
        if line.startswith("apiserver_request_total") and 'code="429"' in line
    )
    assert 'resource="configmaps"' in line


async def test_a_lost_answer(faulty):
    """A request whose answer is lost has been done; one that is lost itself has not."""
    faulty.set({"verb": "create", "drop": "answer", "nth": 1, "resource": "configmaps"})
    with pytest.raises(ConnectionError):
        await faulty.call.post(MAPS, config_map("a"))
    faulty.set({"verb": "create", "drop": "request", "nth": 1, "resource": "configmaps"})
    with pytest.raises(ConnectionError):
        await faulty.call.post(MAPS, config_map("b"))

    faulty.set()
    assert [item["metadata"]["name"] for item in (await faulty.call.get(MAPS)).body["items"]] == ["a"]


async def test_a_slow_answer(faulty):
    """Requests of a foreign client are delayed; what fired is on the time line."""
    await faulty.call.post(MAPS, config_map("a", n="1"))
    faulty.set({"verb": "get", "user": ADMIN.common_name, "delay": "50ms"})
    loop = asyncio.get_running_loop()
    began = loop.time()
    await faulty.call.get(f"{MAPS}/a")

    assert loop.time() - began >= 0.05
    await until(lambda: faulty.server.faults._tasks["records"].done())
    assert (await faulty.events())[-1] == "fault-fired: f1: delayed 0.05 s: get configmaps default/a (call 1)"


async def test_a_watch_that_becomes_too_old(faulty):
    """A watch that is open already gets an ERROR event of 410 in the place of its next event."""
    answer = await faulty.call.raw("GET", f"{MAPS}?watch=true&resourceVersion={faulty.store.revision}")
    pieces = answer.body
    first = asyncio.ensure_future(anext(pieces))
    await faulty.call.post(MAPS, config_map("a"))
    assert orjson.loads(await first)["type"] == "ADDED"

    faulty.set({"resource": "configmaps", "event": "*", "answer": 410, "nth": 1})
    await faulty.call.post(MAPS, config_map("b"))
    await faulty.call.post(MAPS, config_map("c"))
    lines = b"".join([piece async for piece in pieces]).splitlines()
    assert len(lines) == 1
    event = orjson.loads(lines[0])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.parametrize(("place", "stored"), [("before", ["a"]), ("after", ["a", "b"])])
async def test_a_crash_at_a_commit(tmp_path, place, stored):
    """A server dies before or after its second commit of a config map; the log is whole, and reports it."""
    async with Faulty(tmp_path) as faulty:
        faulty.set({"resource": "configmaps", "crash": place, "nth": 2, "id": "dead"})
        await faulty.call.post(MAPS, config_map("a"))
        second = asyncio.ensure_future(faulty.call.post(MAPS, config_map("b")))
        await until(lambda: faulty.deaths)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        detail = f"dead: crash {place}: commit: create configmaps default/b (call 2)"
        assert (await faulty.events())[-2:] == [f"fault-fired: {detail}", f"crashed: {detail}"]

    async with await LogReader.open(faulty.url) as reader:
        names = [entry.key.name for entry in await reader.entries() if entry.key.resource == "configmaps"]
        assert [name for name in names if name in "ab"] == stored
        assert not (await reader.replay()).differences
    assert read_account(journal_path(faulty.directory, "apiserver")).progress["dead", 1].fired == 1


async def test_an_outage_in_process(faulty):
    """Without sockets, who calls a server that is away has its connection ended, until it is back."""
    faulty.set({"outage": True})
    with pytest.raises(ConnectionError):
        await faulty.call.get(MAPS)
    with pytest.raises(ConnectionError):
        await faulty.call.get("/version")

    faulty.set()
    assert (await faulty.call.get("/version")).status == 200


async def test_an_outage_closes_the_sockets(faulty):
    """The port refuses connections while the outage lasts, open ones end; after it the port is the same."""
    await faulty.server._listen()
    faulty.server.faults.begin(faulty.server.listener.refuse_during)
    port = faulty.server.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    faulty.set({"outage": "300ms"})
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()

    async def reachable():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    await until(reachable)
    await faulty.server.listener.close(0)


async def test_the_log_stays_whole(faulty):
    """Faults in the way of requests leave the log's digest as it is."""
    faulty.set({"answer": 500, "every": 2}, {"drop": "answer", "every": 3}, {"delay": "1ms"})
    outcomes = await asyncio.gather(
        *(faulty.call.post(MAPS, config_map(f"m{n}")) for n in range(30)), return_exceptions=True
    )

    answers = [answer.status for answer in outcomes if not isinstance(answer, BaseException)]
    assert answers.count(500) == 15
    assert len([answer for answer in outcomes if isinstance(answer, ConnectionError)]) == 5
    assert await faulty.replayed()
