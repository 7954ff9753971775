"""Nothing that was answered is lost, and all answers are those of one server, while processes of it are
killed.
"""

import asyncio
import math
import os
import random
import signal
from itertools import count
from typing import NamedTuple, Self

import aiohttp
import pytest
from linearizability import Operation, linearized
from server_in_process import MAPS, config_map
from until import until
from worker_sets import WorkerSet, call, worker_set

from kubeskew.apiserver.storage.encoding import loads
from kubeskew.apiserver.storage.records import Event, Verb
from kubeskew.apiserver.storage.sql_log import LogReader

pytestmark = pytest.mark.cluster

NAMES = ("a", "b", "c")
CLIENTS = 6


class Objects(NamedTuple):
    """A model: what is stored under each name, with its revision, and the store's."""

    revision: int
    items: dict[str, tuple[str, int]]

    @property
    def digest(self) -> int:
        return hash((self.revision, tuple(sorted(self.items.items()))))

    def applied(self, request: tuple) -> tuple[Self, tuple]:
        """Requests are create NAME VALUE, update NAME VALUE REVISION, delete NAME and list; answers a code,
        the revision and what was found.
        """
        verb, *rest = request
        if verb == "list":
            return self, (200, self.revision, tuple(sorted(self.items.items())))
        name = rest[0]
        known = self.items.get(name)
        revision = self.revision + 1
        if verb == "create":
            if known is not None:
                return self, (409,)
            return self.with_item(name, (rest[1], revision)), (201, revision)
        if known is None:
            return self, (404,)
        if verb == "update":
            if known[1] != rest[2]:
                return self, (409,)
            return self.with_item(name, (rest[1], revision)), (200, revision)
        return self.with_item(name, None), (200,)

    def with_item(self, name: str, item: tuple[str, int] | None) -> Self:
        items = {key: value for key, value in self.items.items() if key != name}
        return self._replace(revision=self.revision + 1, items=items | ({} if item is None else {name: item}))


class Clients:
    """Clients with a connection each, which call one after the other and remember what came back."""

    def __init__(self, workers: WorkerSet, seed: int) -> None:
        self.operations: list[Operation] = []
        self.unanswered = 0
        self._workers = workers
        self._draw = random.Random(seed)
        self._known: dict[str, int] = {}
        self._values = count()
        self._ticks = count()
        self._stopping = False

    async def run(self, number: int) -> None:
        while not self._stopping:
            async with self._workers.session() as session:
                try:
                    while not self._stopping:
                        await self._one(session, number)
                except (aiohttp.ClientError, ConnectionError):
                    self.unanswered += 1

    def stop(self) -> None:
        self._stopping = True

    def _request(self) -> tuple:
        name, value = self._draw.choice(NAMES), f"v{next(self._values)}"
        verb = self._draw.choice(("list", "list", "create", "update", "update", "update", "delete"))
        if verb == "update" and name not in self._known:
            verb = "create"
        return {
            "list": ("list",), "create": (verb, name, value), "delete": (verb, name),
            "update": (verb, name, value, self._known.get(name, 0)),
        }[verb]  # fmt: skip

    async def _one(self, session: aiohttp.ClientSession, client: int) -> None:
        request = self._request()
        operation = Operation(client, request, next(self._ticks))
        self.operations.append(operation)
        method, path, body = _http(request)
        code, answer = await call(session, method, path, json=body)
        if code >= 500:  # as without an answer: it may be done or not
            self.unanswered += 1
            return
        operation.answer = self._answer(request, code, answer)
        operation.returned = next(self._ticks)

    def _answer(self, request: tuple, code: int, answer: dict) -> tuple:
        if request[0] == "list":
            items = {
                item["metadata"]["name"]: (item["data"]["value"], int(item["metadata"]["resourceVersion"]))
                for item in answer["items"]
                if item["metadata"]["name"] in NAMES
            }
            self._known = {name: revision for name, (_, revision) in items.items()}
            return code, int(answer["metadata"]["resourceVersion"]), tuple(sorted(items.items()))
        if request[0] == "delete" or code >= 400:
            return (code,)
        revision = int(answer["metadata"]["resourceVersion"])
        self._known[request[1]] = revision
        return code, revision


def _http(request: tuple) -> tuple:
    verb, *rest = request
    if verb == "list":
        return "get", MAPS, None
    if verb == "delete":
        return "delete", f"{MAPS}/{rest[0]}", None
    body = config_map(rest[0], data={"value": rest[1]})
    if verb == "create":
        return "post", MAPS, body
    body["metadata"]["resourceVersion"] = str(rest[2])
    return "put", f"{MAPS}/{rest[0]}", body


async def killed_under_load(workers: WorkerSet, rounds: int, seed: int) -> None:
    """Kills each process but the supervisor in turn while clients write and read; then the history of all
    clients has to have an order.
    """
    async with workers.session() as session:
        _, listed = await call(session, "get", MAPS)
    start = Objects(int(listed["metadata"]["resourceVersion"]), {})
    clients = Clients(workers, seed)
    running = [asyncio.create_task(clients.run(number)) for number in range(CLIENTS)]
    killed, places = 0, workers.children  # the writer, and each worker
    for _ in range(rounds):
        for place, pid in enumerate(places):
            seen = len(clients.operations)
            await until(lambda seen=seen: len(clients.operations) > seen + 25)
            os.kill(pid, signal.SIGKILL)
            killed += 1
            await until(lambda killed=killed: sum("started again" in line for line in workers.log) == killed)
            await until(lambda: len(workers.children) == 4)
            (places[place],) = {*workers.children} - {*places}
    clients.stop()
    await asyncio.gather(*running)
    assert sum(one.returned < math.inf for one in clients.operations) > 25 * killed / 2
    linearized(clients.operations, start, await written(workers.storage, start))


async def written(url: str, start: Objects) -> dict[int, dict[str, tuple[str, int]]]:
    """The objects at each revision, by the log."""
    found, state = {}, start
    async with await LogReader.open(url) as reader:
        async for moment in reader.events(start.revision, "configmaps"):
            if isinstance(moment, Event) and moment.key.name in NAMES:
                value = loads(moment.value).get("data", {}).get("value", "")
                item = None if moment.verb is Verb.DELETE else (value, moment.revision)
                state = state.with_item(moment.key.name, item)
                found[moment.revision] = state.items
    return found


async def test_kills_of_every_process_under_load(tmp_path):
    """The writer of the log and each of three workers are killed: the answers are linearizable."""
    async with worker_set(tmp_path, 3) as workers:
        await killed_under_load(workers, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
async def test_many_kills_under_load(tmp_path, seed: int):
    """Twelve kills a history, and its answers are linearizable."""
    async with worker_set(tmp_path, 3) as workers:
        await killed_under_load(workers, 3, seed)
